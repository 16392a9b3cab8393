//! Attention masks and score rules in Rust.

pub mod cache;
pub mod tensor;
