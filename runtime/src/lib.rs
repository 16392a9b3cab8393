//! Attention masks and score rules in Rust.

#[cfg(feature = "cranelift")]
pub mod jit;
