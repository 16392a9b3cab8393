//! Executes PTX, the text that NVRTC and other compilers emit, on the CPU: block by block, a warp at a time.
#![forbid(unsafe_code)]

pub mod ast;
