//! Where NVRTC is looked for, and what is said when it is not there.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::Library;

use super::library::Nvrtc;

/// The environment variable that names the directory of `libnvrtc.so*`.
pub const VARIABLE: &str = "MASKWRIGHT_NVRTC";

/// Names that are left to the loader's own search, newest first.
const BARE_NAMES: [&str; 3] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];

/// How far above the executable cargo's target folder may be: `target/<triple>/debug/deps/name`.
const FOLDERS_ABOVE: usize = 4;

/// NVRTC is not there, or does not work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "NVRTC was not found: run `cargo xtask setup-cuda`, or set {VARIABLE} to the directory that holds libnvrtc.so; \
     tried {}", .tried.join("; ")
)]
pub struct NvrtcMissing {
    /// Each place that was looked at, and what was wrong with it.
    pub tried: Vec<String>,
}

/// Finds NVRTC, the first time; later calls of the process return the same answer.
///
/// Where the variable `MASKWRIGHT_NVRTC` is set, its directory (or `lib`, `lib64` in it) is the only one that is looked at:
/// a choice is not replaced in silence. Otherwise these are tried, in order:
///
/// 1. `cuda/nvrtc/lib` in cargo's target folder, if the executable lies in one: there `cargo xtask setup-cuda` puts it;
/// 2. `libnvrtc.so.13`, `.so.12`, `.so`, by the loader's own search.
///
/// What opens has to compile an empty kernel as well.
///
/// # Errors
/// [`NvrtcMissing`], which lists what was tried and says what to do.
pub fn probe() -> Result<&'static Nvrtc, NvrtcMissing> {
    static FOUND: OnceLock<Result<Nvrtc, NvrtcMissing>> = OnceLock::new();
    FOUND.get_or_init(search).as_ref().map_err(Clone::clone)
}

fn search() -> Result<Nvrtc, NvrtcMissing> {
    let mut tried = Vec::new();
    if let Some(chosen) = env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        let chosen = PathBuf::from(chosen);
        let inner = ["lib", "lib64"].map(|name| chosen.join(name));
        let folders = [chosen]
            .into_iter()
            .chain(inner.into_iter().filter(|f| f.is_dir()));
        return folders
            .into_iter()
            .find_map(|folder| open_in(&folder, &mut tried))
            .ok_or(NvrtcMissing { tried });
    }
    if let Some(folder) = env::current_exe().ok().and_then(|exe| installed(&exe))
        && let Some(nvrtc) = open_in(&folder, &mut tried)
    {
        return Ok(nvrtc);
    }
    for name in BARE_NAMES {
        match Nvrtc::open(Path::new(name)) {
            Ok(nvrtc) => return Ok(nvrtc),
            Err(fault) => tried.push(fault_of(Path::new(name), &fault)),
        }
    }
    Err(NvrtcMissing { tried })
}

/// What `cargo xtask setup-cuda` installed in the target folder that an executable lies in.
///
/// Only folders that cargo marked as its own count, so that an installed command does not load code from just any folder
/// above it.
fn installed(exe: &Path) -> Option<PathBuf> {
    exe.ancestors()
        .skip(1)
        .take(FOLDERS_ABOVE)
        .filter(|folder| folder.join("CACHEDIR.TAG").is_file() && !writable_by_all(folder))
        .map(|folder| folder.join("cuda/nvrtc/lib"))
        .find(|folder| folder.is_dir())
}

#[cfg(unix)]
fn writable_by_all(folder: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(folder).is_ok_and(|found| found.permissions().mode() & 0o002 != 0)
}

#[cfg(not(unix))]
fn writable_by_all(_: &Path) -> bool {
    false
}

/// Opens the NVRTC of a directory, with the built-ins that lie beside it.
fn open_in(folder: &Path, tried: &mut Vec<String>) -> Option<Nvrtc> {
    let files = match files(folder) {
        Ok(files) => files,
        Err(fault) => {
            tried.push(fault_of(folder, &fault.to_string()));
            return None;
        }
    };
    // Some versions look for their built-ins by bare name at the first compile, and do not find them beside themselves;
    // glibc gives them the ones that are already there.
    for file in starting_with(&files, "libnvrtc-builtins.so") {
        // SAFETY: this runs the initialisers of a part of NVRTC, which lies where the user put NVRTC.
        match unsafe { Library::new(file) } {
            Ok(library) => std::mem::forget(library),
            Err(fault) => tried.push(fault_of(file, &fault.to_string())),
        }
    }
    let before = tried.len();
    for file in starting_with(&files, "libnvrtc.so") {
        match Nvrtc::open(file) {
            Ok(nvrtc) => return Some(nvrtc),
            Err(fault) => tried.push(fault_of(file, &fault)),
        }
    }
    if tried.len() == before {
        tried.push(fault_of(folder, "holds no libnvrtc.so"));
    }
    None
}

/// The files of a directory, by absolute path, the highest version first.
fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let folder = fs::canonicalize(folder)?;
    let mut files = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<Vec<_>>>()?;
    files.sort_by(|a, b| b.cmp(a));
    Ok(files)
}

fn starting_with<'a>(files: &'a [PathBuf], start: &'a str) -> impl Iterator<Item = &'a Path> {
    files.iter().map(PathBuf::as_path).filter(move |file| {
        file.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with(start))
    })
}

/// The loader often repeats the path, which then stands once.
fn fault_of(place: &Path, fault: &str) -> String {
    let place = place.display().to_string();
    if fault.starts_with(&place) {
        fault.to_owned()
    } else {
        format!("{place}: {fault}")
    }
}
