//! Prepares the run on a machine with a GPU: a folder with the program, kernels compiled ahead, `PyTorch`'s script and the
//! script that runs all of it. Where this machine has a GPU, it runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{root, setup_cuda};

/// What may be carried to another machine, with the source tree beside it.
const MOST_BYTES: u64 = 60 << 20;

/// What the folder holds beside kernels and cases.
const SCRIPTS: [&str; 2] = ["run.sh", "peers.py"];

const PROGRAM: &str = "maskwright-device";

/// Builds, prepares, says how large it came out and how it is run, and runs it where there is a GPU.
pub(crate) fn run() -> Result<(), String> {
    let target = setup_cuda::target_folder()?;
    let nvrtc = setup_cuda::chosen()?;
    let folder = target.join("device");
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(at(&folder))?;
    }
    fs::create_dir_all(&folder).map_err(at(&folder))?;

    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--release", "--package", PROGRAM]);
    finish(build.current_dir(root()), "cargo build")?;
    let program = folder.join(PROGRAM);
    let compiled = target.join("release").join(PROGRAM);
    fs::copy(&compiled, &program).map_err(at(&compiled))?;

    let mut prepare = Command::new(&program);
    prepare.arg("prepare").arg(&folder);
    if let Some(commit) = commit() {
        prepare.args(["--commit", &commit]);
    }
    finish(prepare.env(setup_cuda::VARIABLE, &nvrtc), "prepare")?;
    pack(&folder)?;
    for script in SCRIPTS {
        let from = root().join("benches/device").join(script);
        fs::copy(&from, folder.join(script)).map_err(at(&from))?;
    }

    let bytes = size(&folder)?;
    println!("{}: {}", folder.display(), mebibytes(bytes));
    if MOST_BYTES < bytes {
        return Err(format!(
            "expected at most {} MiB to carry",
            MOST_BYTES >> 20
        ));
    }
    let script = folder.join("run.sh");
    let shown = script.strip_prefix(root()).unwrap_or(&script);
    println!("on the machine with the GPU: bash {} OUT", shown.display());
    if !has_gpu() {
        println!("this machine has none; what the run prints last belongs into benches/results");
        return Ok(());
    }
    let out = target.join("device-results");
    let mut run = Command::new("bash");
    finish(run.arg(&script).arg(&out), "run.sh")
}

/// Compiled kernels are mostly text, and become a tenth of their size.
fn pack(folder: &Path) -> Result<(), String> {
    let kernels = folder.join("kernels");
    println!(
        "kernels: {} before they are packed",
        mebibytes(size(&kernels)?)
    );
    let mut tar = Command::new("tar");
    tar.args(["-czf", "kernels.tar.gz", "kernels"]);
    finish(tar.current_dir(folder), "tar")?;
    fs::remove_dir_all(&kernels).map_err(at(&kernels))
}

/// The commit that is checked out, with a mark where files differ from it.
fn commit() -> Option<String> {
    let mut git = Command::new("git");
    git.args([
        "describe",
        "--always",
        "--dirty",
        "--abbrev=12",
        "--exclude=*",
    ]);
    let output = git.current_dir(root()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn has_gpu() -> bool {
    let listed = Command::new("nvidia-smi").arg("-L").output();
    listed.is_ok_and(|output| output.status.success() && !output.stdout.is_empty())
}

fn finish(command: &mut Command, name: &str) -> Result<(), String> {
    let status = command
        .status()
        .map_err(|fault| format!("{name} could not be started: {fault}"))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("{name} failed: {status}"))
}

fn mebibytes(bytes: u64) -> String {
    let tenths = bytes * 10 / (1 << 20);
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

/// Bytes of all files below a folder.
fn size(folder: &Path) -> Result<u64, String> {
    let mut bytes = 0;
    let mut folders = vec![PathBuf::from(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(at(&folder))? {
            let entry = entry.map_err(at(&folder))?;
            let content = entry.metadata().map_err(at(&folder))?;
            if content.is_dir() {
                folders.push(entry.path());
            } else {
                bytes += content.len();
            }
        }
    }
    Ok(bytes)
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> String + use<> {
    let path = path.display().to_string();
    move |fault| format!("{path}: {fault}")
}
