//! Why a command could not do its work; a case that fails is no error of the command.

use std::path::PathBuf;

use maskwright::AttentionError;
use maskwright::attention::CompileError;
use maskwright::cache::StoreError;
use maskwright::cuda::{KernelError, MachineError};
use maskwright::device::DeviceError;

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// The command line.
    #[error("{0}")]
    Usage(String),
    /// A file.
    #[error("{}", path.display())]
    File {
        /// Its place.
        path: PathBuf,
        /// What is wrong with it.
        source: std::io::Error,
    },
    /// A file that does not hold what it should.
    #[error("{}", path.display())]
    Json {
        /// Its place.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The folder was prepared by another build, whose kernels this one would not find.
    #[error("{} was prepared by {found}, and this is {expected}", path.display())]
    OtherBuild {
        /// The folder.
        path: PathBuf,
        /// This build.
        expected: String,
        /// The one that prepared it.
        found: String,
    },
    /// A rule of the catalogue that is not there, or was given other values than it takes.
    #[error("rule {name}: {reason}")]
    Rule {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// A rule could not be prepared.
    #[error(transparent)]
    Compile(Box<CompileError>),
    /// A call was refused.
    #[error(transparent)]
    Attention(Box<AttentionError>),
    /// A kernel.
    #[error(transparent)]
    Kernel(Box<KernelError>),
    /// The GPU, or the emulator.
    #[error(transparent)]
    Machine(Box<MachineError>),
    /// The driver.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Where kernels are kept.
    #[error(transparent)]
    Store(#[from] StoreError),
}

macro_rules! boxed {
    ($($variant:ident($error:ty);)*) => {
        $(impl From<$error> for RunError {
            fn from(error: $error) -> Self {
                Self::$variant(Box::new(error))
            }
        })*
    };
}

boxed! {
    Compile(CompileError);
    Attention(AttentionError);
    Kernel(KernelError);
    Machine(MachineError);
}

/// An error with its causes, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}
