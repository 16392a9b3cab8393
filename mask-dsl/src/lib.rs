//! The rule language of Maskwright, as pure values: no IO, no `unsafe`.
#![forbid(unsafe_code)]

pub mod bind;
pub mod bucket;
pub mod capture;
pub mod catalogue;
pub mod diagnostic;
pub mod eval;
pub mod ir;
pub mod math;
pub mod pipeline;
pub mod text;
