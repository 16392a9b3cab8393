//! Looking for the driver: once, before anything of it is called.

use std::sync::OnceLock;

use cudarc::driver::{result, sys};
use libloading::Library;

use super::error::DriverFault;

/// Why there is no driver that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoDriver {
    /// No library of it was found.
    #[error("no CUDA driver was found ({})", tried_text(.tried))]
    Missing {
        /// The names that were tried.
        tried: Vec<String>,
    },
    /// The library lacks a function, so it is older than any that was tried with this crate.
    #[error("the CUDA driver {library} has no function {function}, so it is too old")]
    TooOld {
        /// The library.
        library: String,
        /// What it lacks.
        function: &'static str,
    },
    /// The driver is there and says that it cannot run.
    #[error("the CUDA driver {library} cannot start: {source}")]
    Start {
        /// The library.
        library: String,
        /// What it says.
        source: DriverFault,
    },
}

/// The first names say enough in a line; all of them are in the error.
fn tried_text(tried: &[String]) -> String {
    match tried {
        [] => "nothing was tried".to_owned(),
        [one] => format!("tried {one}"),
        [first, rest @ ..] => format!("tried {first} and {} more", rest.len()),
    }
}

/// The CUDA driver of this process.
#[derive(Clone, Debug)]
pub struct Driver {
    library: String,
    version: (u32, u32),
    n_devices: usize,
}

/// Every function that this crate calls. `cudarc` looks each up at its first use, and panics where it is missing.
const FUNCTIONS: [&str; 26] = [
    "cuInit",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuDriverGetVersion",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDeviceTotalMem_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuStreamCreate",
    "cuStreamSynchronize",
    "cuStreamDestroy_v2",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuModuleGetFunction",
    "cuFuncSetAttribute",
    "cuLaunchKernel",
];

impl Driver {
    /// The driver, if there is one that starts; looked for once in a process.
    ///
    /// # Errors
    /// [`NoDriver`], with the names that were tried or what the driver says.
    pub fn get() -> Result<&'static Driver, NoDriver> {
        static DRIVER: OnceLock<Result<Driver, NoDriver>> = OnceLock::new();
        let found = DRIVER.get_or_init(|| start(&library_names()));
        found.as_ref().map_err(Clone::clone)
    }

    /// The file that was opened.
    pub fn library(&self) -> &str {
        &self.library
    }

    /// The version of CUDA that it knows, major and minor.
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// GPUs that it finds.
    pub fn n_devices(&self) -> usize {
        self.n_devices
    }

    /// Refuses a driver that lacks a function which not everything needs.
    pub(super) fn require(&self, functions: &[&'static str]) -> Result<(), NoDriver> {
        let (library, handle) = open(std::slice::from_ref(&self.library))?;
        check_functions(&library, &handle, functions.iter().copied())
    }
}

/// The very names that `cudarc` will try, so that both find the same file; it panics where it finds none.
fn library_names() -> Vec<String> {
    ["cuda", "nvcuda"]
        .into_iter()
        .flat_map(cudarc::get_lib_name_candidates)
        .collect()
}

pub(super) fn start(names: &[String]) -> Result<Driver, NoDriver> {
    let (library, handle) = open(names)?;
    check_functions(&library, &handle, FUNCTIONS.into_iter())?;
    // It stays open for as long as the process runs, and `cudarc` finds it in memory by its name.
    std::mem::forget(handle);
    let fault = |error: cudarc::driver::DriverError| NoDriver::Start {
        library: library.clone(),
        source: error.into(),
    };
    result::init().map_err(fault)?;
    let mut version = 0;
    // SAFETY: the driver has started, and `version` is a live place for one number.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }
        .result()
        .map_err(fault)?;
    let n_devices = result::device::get_count().map_err(fault)?;
    Ok(Driver {
        library,
        version: (version as u32 / 1000, version as u32 % 1000 / 10),
        n_devices: usize::try_from(n_devices).unwrap_or(0),
    })
}

fn check_functions(
    library: &str,
    handle: &Library,
    functions: impl Iterator<Item = &'static str>,
) -> Result<(), NoDriver> {
    for function in functions {
        // SAFETY: the symbol is looked up and never called through this type.
        let found = unsafe { handle.get::<*const ()>(function.as_bytes()) };
        if found.is_err() {
            return Err(NoDriver::TooOld {
                library: library.to_owned(),
                function,
            });
        }
    }
    Ok(())
}

fn open(names: &[String]) -> Result<(String, Library), NoDriver> {
    for name in names {
        // SAFETY: a library of one of these names is the driver, whose initialisers may run at any time.
        if let Ok(handle) = unsafe { Library::new(name) } {
            return Ok((name.clone(), handle));
        }
    }
    Err(NoDriver::Missing {
        tried: names.to_vec(),
    })
}
