//! Back ends: the only places that know the syntax of a target.

#[cfg(feature = "cranelift")]
pub mod cranelift;
