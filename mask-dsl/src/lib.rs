//! The rule language of Maskwright, as pure values: no IO, no `unsafe`.
#![forbid(unsafe_code)]

pub mod analysis;
pub mod bind;
pub mod block_mask;
pub mod bucket;
pub mod capture;
pub mod catalogue;
pub mod dense;
pub mod diagnostic;
pub mod eval;
pub mod fingerprint;
pub mod ir;
pub mod math;
pub mod pipeline;
mod simplify;
pub mod text;
pub mod validate;

#[cfg(test)]
mod sexpr;
