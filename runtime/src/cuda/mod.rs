//! Attention on NVIDIA GPUs, and on an emulator of them.
//!
//! A [`Machine`] is a GPU, or the emulator in its place. A [`CudaKernel`] is a [`Kernel`](crate::Kernel) that was
//! compiled for one, with its captured values uploaded; it takes tensors in the machine's memory, whoever owns it, and
//! launches without waiting. [`Kernel::forward`](crate::Kernel::forward) does all of that for tensors of the host.

mod error;

mod machine;
mod tensor;

mod captures;
mod mask;
mod params;
mod tile_runs;

mod compiled;
mod engine;
mod evaluator;
mod host;
mod state;
mod text;

pub use compiled::{CompiledKernel, KernelStore};
pub use engine::{CudaKernel, DeviceOutput, LaunchOptions, Launched};
pub use error::{CannotCompile, KernelError, MissingKernel};
pub use evaluator::{Cells, CudaEvaluator};
pub use machine::{EmulatorError, EmulatorOptions, Machine, MachineBuffer, MachineError};
pub use mask::DeviceMask;
pub use maskwright_codegen::spec::{Float, Target, TileSize};
pub use params::ParamError;
pub use ptx_emulator::{Checks, Counters};
pub use tensor::{DeviceTensor, DeviceTensorMut, LayoutError};
pub use text::{KernelShape, KernelText, MaskBlocks};
pub use tile_runs::{TileError, TileRuns, check_tile};

#[cfg(feature = "cranelift")]
pub(crate) use compiled::{Image, kernel_key};
pub(crate) use host::{HostRun, first_gpu, new_emulator, prepare_run};
pub(crate) use params::ParamBlock;
pub(crate) use state::CudaState;

#[cfg(test)]
mod tests;
