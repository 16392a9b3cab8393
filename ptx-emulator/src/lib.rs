//! Executes PTX, the text that NVRTC and other compilers emit, on the CPU: block by block, a warp at a time.
#![forbid(unsafe_code)]

pub mod ast;
pub mod async_copy;
pub mod check;
pub mod parse;
pub mod tensor_core;

mod alu;
mod count;
mod exec;
mod launch;
mod memory;
mod program;

pub use check::report::Report;
pub use count::{Counters, TensorWork, Traffic};
pub use launch::{Checks, Launch, Options};
pub use memory::{Memory, MemoryError};
pub use program::{DecodeError, DecodeFault, Error, Program};

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
