//! Back ends: the only places that know the syntax of a target.

pub mod cuda;

#[cfg(feature = "cranelift")]
pub mod cranelift;
