//! Attention against the reference, the bits that must not change, masks made by hand and sliced, and refusals.

mod build;

mod agreement;
mod bits;
mod bugs;
mod masks;
mod refusals;
