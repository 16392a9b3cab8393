//! Installs NVRTC, the compiler library of CUDA, into cargo's target folder. It needs no GPU, no driver and no toolkit.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::root;

/// The package that brings the library, and its version. Its PTX (ISA 9.0) is what drivers of CUDA 13.0 take.
const PACKAGE: &str = "nvidia-cuda-nvrtc";
const VERSION: &str = "13.0.88";

const PYTHON: &str = "python3";

/// Where tests and the command look for the library.
pub(crate) const VARIABLE: &str = "MASKWRIGHT_NVRTC";

/// What is taken of the package; the rest is a second build of the same library.
const FILES: [&str; 2] = ["libnvrtc.so", "libnvrtc-builtins.so"];

/// Installs the library, if it is not there yet, and prints its directory.
pub(crate) fn run() -> Result<(), String> {
    println!("{}", installed()?.display());
    Ok(())
}

/// The directory that `MASKWRIGHT_NVRTC` names, or else the one that this installs into.
pub(crate) fn chosen() -> Result<PathBuf, String> {
    match env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        Some(chosen) => Ok(chosen.into()),
        None => installed(),
    }
}

/// The directory of the library, after it was installed if it was not there.
fn installed() -> Result<PathBuf, String> {
    let cuda = target_folder()?.join("cuda");
    let folder = cuda.join("nvrtc");
    let library = folder.join("lib");
    let stamp = folder.join("version");
    if fs::read_to_string(&stamp).is_ok_and(|found| found.trim() == VERSION) && is_whole(&library) {
        return Ok(library);
    }
    eprintln!(
        "setup-cuda: installing {PACKAGE} {VERSION} into {}",
        folder.display()
    );
    // Unpacked beside its place and renamed, so that what stands there is always whole.
    let unpacked = cuda.join(format!("unpacked-{}", std::process::id()));
    let outcome = install(&unpacked, &folder);
    // What is left of it only takes space.
    let _ = fs::remove_dir_all(&unpacked);
    outcome?;
    Ok(library)
}

fn install(unpacked: &Path, folder: &Path) -> Result<(), String> {
    let package = unpacked.join("package");
    let staged = unpacked.join("nvrtc");
    let staged_library = staged.join("lib");
    fs::create_dir_all(&staged_library).map_err(at(&staged_library))?;
    pip_install(&package)?;
    let source = folder_of_library(&package)?
        .ok_or_else(|| format!("{PACKAGE} {VERSION} holds no {}", FILES[0]))?;
    for (name, path) in files(&source)? {
        if FILES.iter().any(|start| name.starts_with(start)) {
            fs::rename(&path, staged_library.join(&name)).map_err(at(&path))?;
        }
    }
    if !is_whole(&staged_library) {
        return Err(format!(
            "{PACKAGE} {VERSION} lacks one of {}",
            FILES.join(", ")
        ));
    }
    let stamp = staged.join("version");
    fs::write(&stamp, format!("{VERSION}\n")).map_err(at(&stamp))?;
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(at(folder))?;
    }
    fs::rename(&staged, folder).map_err(at(folder))
}

/// Unpacks the package, and nothing that it depends on, into a folder of its own. That needs no virtual environment: pip
/// leaves the system's packages alone.
fn pip_install(folder: &Path) -> Result<(), String> {
    let advice = format!(
        "install Python with pip (`python3-pip`), or set {VARIABLE} to a directory that holds libnvrtc.so"
    );
    let started = |fault| format!("{PYTHON} could not be started: {fault}; {advice}");
    let pip = Command::new(PYTHON)
        .args(["-m", "pip", "--version"])
        .output()
        .map_err(started)?;
    if !pip.status.success() {
        return Err(format!("{PYTHON} has no pip; {advice}"));
    }
    let output = Command::new(PYTHON)
        .args(["-m", "pip", "install", "--quiet", "--no-deps", "--no-input"])
        .args([
            "--disable-pip-version-check",
            "--only-binary=:all:",
            "--no-compile",
        ])
        .args(["--root-user-action=ignore", "--target"])
        .arg(folder)
        .arg(format!("{PACKAGE}=={VERSION}"))
        .output()
        .map_err(started)?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "pip could not install {PACKAGE} {VERSION}; set {VARIABLE} to a directory that holds libnvrtc.so where there is no \
         network. pip says:\n{}",
        String::from_utf8_lossy(&output.stderr).trim_end()
    ))
}

/// The folder of the package that holds the library: packages of other versions keep it elsewhere.
fn folder_of_library(package: &Path) -> Result<Option<PathBuf>, String> {
    let mut folders = vec![package.to_owned()];
    while let Some(folder) = folders.pop() {
        if is_whole(&folder) {
            return Ok(Some(folder));
        }
        let inner = files(&folder)?.into_iter().map(|(_, path)| path);
        folders.extend(inner.filter(|path| path.is_dir()));
    }
    Ok(None)
}

/// Whether a folder holds the library and its built-ins.
fn is_whole(folder: &Path) -> bool {
    let names = files(folder).unwrap_or_default();
    FILES
        .iter()
        .all(|start| names.iter().any(|(name, _)| name.starts_with(start)))
}

fn files(folder: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    let entries = fs::read_dir(folder).map_err(at(folder))?;
    entries
        .map(|entry| {
            let entry = entry.map_err(at(folder))?;
            Ok((
                entry.file_name().to_string_lossy().into_owned(),
                entry.path(),
            ))
        })
        .collect()
}

/// The folder that cargo builds into: the one that it marked as its own, above this executable; otherwise where it would be.
pub(crate) fn target_folder() -> Result<PathBuf, String> {
    let exe = env::current_exe().map_err(|fault| format!("this executable: {fault}"))?;
    let marked = exe
        .ancestors()
        .skip(1)
        .find(|folder| folder.join("CACHEDIR.TAG").is_file());
    Ok(marked.map_or_else(|| root().join("target"), Path::to_path_buf))
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> String + use<> {
    let path = path.display().to_string();
    move |fault| format!("{path}: {fault}")
}
