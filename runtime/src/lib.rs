//! Attention masks and score rules in Rust.
