//! Why a kernel could not be made for a GPU, or could not run there.

use std::path::PathBuf;

use maskwright_codegen::back::cuda::CudaError;
use maskwright_codegen::plan::PlanError;

use super::machine::MachineError;
use super::tensor::LayoutError;
use super::tile_runs::TileError;
use crate::cache::{CacheMode, Key, MissReason};
use crate::jit::nvrtc::{NvrtcError, NvrtcMissing};

/// Why a kernel could not be made for a GPU, or could not run there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// There is no kernel for the types and head dimensions.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A rule has no CUDA text.
    #[error("a rule has no CUDA text")]
    Emit(#[from] CudaError),
    /// No tile of a kernel goes with the blocks of the mask.
    #[error(transparent)]
    Tile(#[from] TileError),
    /// The text could not be compiled.
    #[error("the kernel cannot be compiled")]
    Compile(#[from] NvrtcError),
    /// It is not stored, and cannot be compiled.
    #[error(transparent)]
    Missing(Box<MissingKernel>),
    /// The GPU or the emulator.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A tensor does not lie in memory as kernels read it.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The tensors of a call are of other types or head dimensions than the kernel.
    #[error("expected {expected}, found {found}")]
    OtherSpec {
        /// What the kernel was made for.
        expected: String,
        /// What was given.
        found: String,
    },
    /// More blocks of threads than a launch may have.
    #[error(
        "the launch has {found} blocks of threads, expected at most {}",
        i32::MAX
    )]
    Grid {
        /// How many.
        found: u128,
    },
}

/// A compiled kernel that is not there, where it cannot be made.
#[derive(Debug, thiserror::Error)]
#[error(
    "there is no compiled kernel {kernel} of {rules} for {target}: expected key {key}{}, and {cannot}",
    path.as_ref().map_or_else(String::new, |path| format!(" at {}", path.display()))
)]
pub struct MissingKernel {
    /// The kernel with its tile and types.
    pub kernel: String,
    /// The rules.
    pub rules: String,
    /// What it would be compiled for.
    pub target: String,
    /// The key of its entry.
    pub key: Key,
    /// Where the entry would lie; none where nothing is kept on disk.
    pub path: Option<PathBuf>,
    /// Why it cannot be compiled.
    pub cannot: CannotCompile,
    /// What was found instead of an entry; none where nothing is kept on disk.
    #[source]
    pub reason: Option<MissReason>,
}

/// Why nothing can be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannotCompile {
    /// It is not allowed.
    #[error("nothing may be compiled ({})", CacheMode::VARIABLE)]
    NotAllowed,
    /// There is no compiler.
    #[error("{0}")]
    NoCompiler(NvrtcMissing),
}
