//! NVRTC that is not there, or is broken: an error that says what to do, never a panic. The answer is one per process, so each
//! case asks a process of its own: this test, started again.

use std::fs;
use std::path::Path;
use std::process::Command;

use maskwright::jit::nvrtc::{self, Output, Target, VARIABLE};
use tempfile::TempDir;

/// Says which process is asked.
const CHILD: &str = "MASKWRIGHT_TEST_CHILD";

/// The process that is asked: prints what the probe found, and does nothing in a normal run.
#[test]
#[expect(clippy::print_stdout, reason = "this is how it answers")]
fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    match nvrtc::probe() {
        Ok(nvrtc) => {
            let compiled = nvrtc.compile(
                "extern \"C\" __global__ void one() {}",
                "one.cu",
                Target::SM80,
                Output::Ptx,
                &[],
            );
            assert!(compiled.is_ok(), "{compiled:?}");
            println!("found {}", nvrtc.path().display());
        }
        Err(missing) => println!("missing: {missing}"),
    }
    assert_eq!(nvrtc::probe().is_ok(), nvrtc::probe().is_ok());
}

/// What a process says that is given a directory.
#[track_caller]
fn ask(folder: &Path) -> String {
    let exe = std::env::current_exe().expect("this process has an executable");
    let output = Command::new(exe)
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .env(VARIABLE, folder)
        .output()
        .expect("it starts a second time");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    assert!(!errors.contains("panicked"), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn check_missing(folder: &Path, why: &str) {
    let text = ask(folder);
    let advice = "missing: NVRTC was not found: run `cargo xtask setup-cuda`, or set MASKWRIGHT_NVRTC to the directory";
    assert!(text.contains(advice), "{text}");
    assert!(text.contains(why), "{text}");
    // A directory that was chosen is not replaced by another one in silence.
    assert!(!text.contains("libnvrtc.so.12"), "{text}");
}

#[test]
fn an_empty_directory() {
    let folder = TempDir::new().unwrap();
    check_missing(folder.path(), "holds no libnvrtc.so");
}

#[test]
fn no_directory() {
    let folder = TempDir::new().unwrap();
    check_missing(&folder.path().join("none"), "No such file or directory");
}

#[test]
fn a_file_that_is_no_library() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("libnvrtc.so.13"), "not a library").unwrap();
    check_missing(folder.path(), "libnvrtc.so.13: ");
}

#[cfg(target_os = "linux")]
#[test]
fn a_library_without_the_functions() {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let libc = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .find(|path| path.contains("/libc.so") || path.contains("/libc-"))
        .expect("tests are linked with libc");
    let folder = TempDir::new().unwrap();
    std::os::unix::fs::symlink(libc, folder.path().join("libnvrtc.so.13")).unwrap();
    check_missing(folder.path(), "opens, but has no nvrtcCreateProgram");
}

#[test]
fn the_directory_or_the_one_above_it() {
    let Some(nvrtc) = nvrtc::for_test() else {
        return;
    };
    let Some(folder) = nvrtc.path().parent().filter(|f| f.is_absolute()) else {
        eprintln!("skipped: the loader found NVRTC, and does not say where");
        return;
    };
    assert!(ask(folder).contains("found /"));
    if folder.ends_with("lib") {
        assert!(ask(folder.parent().unwrap()).contains("found /"));
    }
}
