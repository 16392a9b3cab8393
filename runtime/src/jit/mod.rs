//! Code made at run time: rules as machine code for CPUs, with their safe use over tiles of cells, and CUDA text as kernels.

#[cfg(feature = "cranelift")]
mod callee;
#[cfg(feature = "cranelift")]
mod cranelift;
#[cfg(feature = "cranelift")]
mod evaluator;
#[cfg(feature = "cuda")]
pub mod nvrtc;

#[cfg(feature = "cranelift")]
pub use cranelift::{CompiledRule, JitError, clif};
#[cfg(feature = "cranelift")]
pub use evaluator::{BoundEvaluator, EvaluatorError};

#[cfg(all(test, feature = "cranelift"))]
mod tests;
