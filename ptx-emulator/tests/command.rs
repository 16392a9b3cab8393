//! The command, as a user meets it: flags, files, exit codes.
#![cfg(feature = "cli")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SCALE: &str = ".version 8.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 data, .param .f32 factor)
{
    .reg .b32 %r<2>; .reg .b64 %rd<4>; .reg .f32 %f<4>;
    ld.param.u64 %rd1, [data];
    ld.param.f32 %f1, [factor];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    ld.global.f32 %f2, [%rd3];
    mul.f32 %f3, %f2, %f1;
    st.global.f32 [%rd3], %f3;
    ret;
}
";

/// A folder of its own for each test, with the kernel in it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        fs::write(folder.path("scale.ptx"), SCALE).unwrap();
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    #[track_caller]
    fn run(&self, flags: &str, code: i32) -> String {
        let output: Output = Command::new(Path::new(env!("CARGO_BIN_EXE_ptx-emulator")))
            .current_dir(self.0.path())
            .args(flags.split_whitespace())
            .output()
            .unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{out}{err}");
        out + &err
    }
}

fn floats(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

#[test]
fn results_are_written() {
    let folder = Folder::new();
    fs::write(folder.path("data.bin"), floats((0..32).map(|i| i as f32))).unwrap();
    let flags = "run scale.ptx --block 32 --arg inout:data.bin=out.bin --arg f32:0.5 --profile";
    let text = folder.run(flags, 0);
    let expected = floats((0..32).map(|i| i as f32 / 2.0));
    assert_eq!(fs::read(folder.path("out.bin")).unwrap(), expected);
    assert!(
        text.contains("argument 0, data: 128 bytes, written to out.bin"),
        "{text}"
    );
    assert!(text.contains("14: st.global.f32 [%rd3], %f3;"), "{text}");
}

#[test]
fn headers_of_numpy_files_are_kept() {
    let folder = Folder::new();
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n";
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    let start = file.len();
    file.extend(floats([1.0, 2.0]));
    fs::write(folder.path("data.npy"), &file).unwrap();
    folder.run(
        "run scale.ptx --block 2 --arg inout:data.npy --arg f32:3",
        0,
    );
    let done = fs::read(folder.path("data.npy")).unwrap();
    assert_eq!(done[..start], file[..start]);
    assert_eq!(done[start..], floats([3.0, 6.0]));
}

#[test]
fn faults_are_reported() {
    let folder = Folder::new();
    fs::write(folder.path("data.bin"), floats([1.0; 32])).unwrap();
    let text = folder.run("run scale.ptx --block 33 --arg in:data.bin --arg f32:1", 1);
    assert!(text.starts_with("access out of bounds"), "{text}");
    assert!(
        text.contains("at PTX line 12: ld.global.f32 %f2, [%rd3];"),
        "{text}"
    );
    let text = folder.run("run scale.ptx --block 2 --arg out:8 --arg f32:1 --json", 1);
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["report"]["line"], 12);
    let flags = "run scale.ptx --block 2 --arg out:8 --arg f32:1 --no-checks";
    folder.run(flags, 0);
}

#[test]
fn counters_are_printed_for_scripts() {
    let folder = Folder::new();
    fs::write(folder.path("data.bin"), floats([1.0; 64])).unwrap();
    let flags = "run scale.ptx --kernel scale --block 64 --arg in:data.bin --arg f32:1 --json";
    let json: serde_json::Value = serde_json::from_str(&folder.run(flags, 0)).unwrap();
    assert_eq!(json["counters"]["global_bytes_read"], 256);
    assert_eq!(json["by_kind"]["ld.global.f32"], 2);
}

#[test]
fn kernels_are_listed() {
    let folder = Folder::new();
    let expected = "PTX 8.0 for sm_80
kernel scale, 9 instructions
      0     8 bytes  u64   data
      8     4 bytes  f32   factor
";
    assert_eq!(folder.run("check scale.ptx", 0), expected);
    let json = folder.run("check scale.ptx --json", 0);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["kernels"][0]["params"][1]["offset"], 8);
}

#[test]
fn bad_input_is_refused() {
    let folder = Folder::new();
    let check = |flags: &str, expected: &str| {
        let text = folder.run(flags, 2);
        assert!(text.contains(expected), "{text}");
    };
    fs::write(folder.path("bad.ptx"), SCALE.replace("mul.f32", "mull.f32")).unwrap();
    fs::write(folder.path("no.ptx"), "hello").unwrap();
    check("check bad.ptx", "line 13");
    check("check no.ptx", "expected `.version`, found `hello`");
    check("check absent.ptx", "cannot read absent.ptx");
    let run = |rest: &str| format!("run scale.ptx --block 1 {rest}");
    check(
        &run("--kernel other"),
        "no kernel other: expected one of scale",
    );
    check(
        &run("--arg out:4"),
        "kernel scale has 2 parameters, found 1 times --arg",
    );
    check(
        &run("--arg out:4 --arg i32:1"),
        "argument 1 of parameter factor: expected a float, found a number of type i32",
    );
    check(
        &run("--arg i32:4 --arg f32:1"),
        "argument 0 of parameter data: expected 8 bytes, found a number of type i32",
    );
    check(&run("--arg in:absent --arg f32:1"), "cannot read absent");
    check(
        "run scale.ptx --block 0",
        "expected a number from 1 to 1024, found `0`",
    );
    check(&run("--shared 4294967295"), "not in 0..=232448");
    check("run scale.ptx --block 1 --arg f33:1", "found `f33`");
}
