//! Why a command could not do its work.

use std::io;
use std::path::PathBuf;

use ptx_emulator::Report;

use super::npy::NpyError;

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum CliError {
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file ends in `.npy` and is no such file, or not one that a kernel can take.
    #[error("cannot take the elements of {}", path.display())]
    Npy {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: NpyError,
    },
    /// Two arguments would be written to one file.
    #[error("two arguments are written to {}: expected a file of its own for each", path.display())]
    SameFile {
        /// The file.
        path: PathBuf,
    },
    /// The text is no program.
    #[error("{} is no program", path.display())]
    Program {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: Box<ptx_emulator::Error>,
    },
    /// No kernel has the name.
    #[error("no kernel {name}: expected one of {}", known.join(", "))]
    UnknownKernel {
        /// The name.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// No name was given, and the file does not have one kernel.
    #[error("expected --kernel, since the file has {} kernels: {}", known.len(), known.join(", "))]
    WhichKernel {
        /// Those that there are.
        known: Vec<String>,
    },
    /// Too few or too many arguments.
    #[error("kernel {kernel} has {expected} parameters, found {found} times --arg")]
    ArgumentCount {
        /// The kernel.
        kernel: String,
        /// Its parameters.
        expected: usize,
        /// The arguments.
        found: usize,
    },
    /// An argument that its parameter cannot hold.
    #[error("argument {index} of parameter {name}: expected {expected}, found {found}")]
    Argument {
        /// Position, from 0.
        index: usize,
        /// Name of the parameter.
        name: String,
        /// What it holds.
        expected: String,
        /// What was given.
        found: String,
    },
    /// The memory of the kernel could not be had.
    #[error("argument {index}: cannot make its memory")]
    Memory {
        /// Position, from 0.
        index: usize,
        /// The cause.
        source: ptx_emulator::MemoryError,
    },
    /// The kernel cannot be launched so.
    #[error("{}", report.fault)]
    Launch {
        /// What was expected.
        report: Box<Report>,
    },
}
