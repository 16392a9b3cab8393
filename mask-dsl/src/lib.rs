//! The rule language of Maskwright, as pure values: no IO, no `unsafe`.
#![forbid(unsafe_code)]

pub mod block_mask;
pub mod bucket;
