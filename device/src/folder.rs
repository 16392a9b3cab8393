//! The folder that is carried to the machine: compiled kernels, the cases to time, and what made them.

use std::path::{Path, PathBuf};

use maskwright::cache::{CacheMode, Store};
use maskwright::cuda::KernelStore;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::RunError;
use crate::timing::TimedCase;

/// Which cases a folder was prepared for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum List {
    /// Those that a device runs.
    Full,
    /// A few small ones, which the emulator runs in seconds.
    Quick,
}

/// What made a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The version of this crate.
    pub(crate) maskwright: String,
    /// The commit that it was built from, where that is known.
    pub(crate) commit: Option<String>,
    /// The compiler of the kernels.
    pub(crate) compiler: String,
    /// What machine code is for.
    pub(crate) targets: Vec<String>,
    /// Which cases.
    pub(crate) list: List,
    /// Distinct kernels, counted once for each target.
    pub(crate) kernels: usize,
}

/// The folder.
#[derive(Clone, Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Where kernels are found, or with a mode that allows it made.
    pub(crate) fn kernels(&self, mode: CacheMode) -> Result<KernelStore, RunError> {
        let store = Store::open(self.0.join("kernels"))?;
        Ok(KernelStore::new(store, mode))
    }

    /// What made the folder; it must be this very version, since kernels are found by what they depend on.
    pub(crate) fn manifest(&self) -> Result<Manifest, RunError> {
        let manifest: Manifest = read(&self.0.join("manifest.json"))?;
        let expected = env!("CARGO_PKG_VERSION");
        if manifest.maskwright == expected {
            return Ok(manifest);
        }
        Err(RunError::OtherBuild {
            path: self.0.clone(),
            expected: expected.to_owned(),
            found: manifest.maskwright,
        })
    }

    /// The cases to time, in the order in which they matter.
    pub(crate) fn cases(&self) -> Result<Vec<TimedCase>, RunError> {
        read(&self.0.join("CASES.json"))
    }

    /// Writes what the device reads beside the kernels.
    pub(crate) fn write(&self, manifest: &Manifest, cases: &[TimedCase]) -> Result<(), RunError> {
        write(&self.0.join("manifest.json"), manifest)?;
        write(&self.0.join("CASES.json"), &cases)
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, RunError> {
    let text = std::fs::read_to_string(path).map_err(|source| RunError::File {
        path: path.to_owned(),
        source,
    })?;
    serde_json::from_str(&text).map_err(|source| RunError::Json {
        path: path.to_owned(),
        source,
    })
}

fn write(path: &Path, content: &impl Serialize) -> Result<(), RunError> {
    let text = serde_json::to_string_pretty(content).map_err(|source| RunError::Json {
        path: path.to_owned(),
        source,
    })?;
    std::fs::write(path, text + "\n").map_err(|source| RunError::File {
        path: path.to_owned(),
        source,
    })
}
