//! Attention masks and score rules in Rust.

#[cfg(feature = "cranelift")]
pub mod artifact;
pub mod attention;
pub mod cache;
mod capture;
#[cfg(feature = "cranelift")]
pub mod jit;
pub mod reference;
pub mod tensor;
#[cfg(feature = "cranelift")]
pub mod verify;

pub use attention::{
    Attended, AttentionError, Backend, ForwardOptions, Kernel, LaunchRecord, Rules, TensorRef,
    attention,
};
pub use capture::{Buffer, Capture, Element, Index};
pub use maskwright_dsl::bind::{BindError, BoundRule, MaskRule, ScoreRule};
pub use maskwright_dsl::capture::{BufferError, CapturedBuffer};
pub use maskwright_dsl::math;
