//! What tensor cores compute, as pure functions over registers of 32 lanes: nothing here knows of warps at work or of who owns memory.
//!
//! | file | instructions |
//! |---|---|
//! | [`format`](mod@format) | the number formats behind `cvt`, and behind the operands of the others |
//! | [`mma`](mod@mma) | `mma.sync` |
//! | [`matrix`] | `ldmatrix`, `stmatrix`, `movmatrix` |
//! | [`wgmma`](mod@wgmma), [`descriptor`] | `wgmma.mma_async`, and where its operands stand in shared memory |
//!
//! A register of a warp is a [`Lanes`], indexed by lane. Layouts are those of the PTX ISA 9.0, chapters 9.7.14 and 9.7.15; each has a
//! test that writes the manual's formula out and compares with a plain matrix product.
//!
//! # Numerics
//! Products of 16-bit and 8-bit floats and of tf32 are exact in `f32` (but for those beyond its exponents). They are added to the
//! accumulator one after the other, in order of `k`, in `f32` and to nearest even; a 16-bit accumulator is rounded once, at the end.
//! NaN comes out as `0x7fffffff`. A device adds several products at a time, aligned to the largest and truncated, so its last bits
//! differ: compare with tolerances.

pub mod format;
pub mod mma;

pub mod matrix;

pub mod descriptor;
pub mod wgmma;

mod dense;

/// A 32-bit register of a whole warp, by lane.
pub type Lanes = [u32; 32];
