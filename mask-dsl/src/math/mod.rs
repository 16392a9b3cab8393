//! The float functions of the rule language: each is one fixed sequence of IEEE operations, so every engine gives the same
//! bits.
//!
//! They take and return `f32` and work in `f64` with add, subtract, multiply, divide, square root, comparisons, selects,
//! conversions and bit operations; there is no fused multiply-add and no call to a library's transcendental function. The
//! `f64` result is rounded once to `f32`, which also settles overflow, underflow and subnormal results. An engine that emits a
//! function repeats the operations of its core in the order in which they stand here, from the tables in [`coefficients`],
//! without contraction and without flushing subnormals. The tables were computed for this crate by `coefficients.py`.
//!
//! | function | domain | error, in units in the last place of the `f32` result | exact |
//! |---|---|---|---|
//! | [`exp`], [`exp2`] | all | 0.5 + 2⁻²⁴ | `exp2` of integers, `exp(0)` |
//! | [`ln`], [`log2`], [`log10`] | x ≥ 0, NaN below | 0.5 + 2⁻²⁴ | `log2` of powers of 2, `log10` of powers of 10 |
//! | [`sin`], [`cos`], [`tan`] | finite, NaN at ±∞ | 0.5 + 2⁻²⁴ | at ±0 |
//! | [`tanh`], [`erf`] | all | 0.5 + 2⁻²⁴ | at ±0 and ±∞ |
//! | [`powf`] | as C's `pow` | 0.5 + 2⁻²⁴ | every result that `f32` can hold; ties go to even |
//! | [`powi`] | all | 0.5 + \|n\| · 2⁻²⁸ | while the product fits in 53 bits |
//! | [`sqrt`] | x ≥ 0, NaN below | 0.5 | correctly rounded |
//! | [`rem`], rounding, [`min`], [`max`], … | all | 0 | always |
//!
//! All but about one result in ten million are the correctly rounded ones: over every seventh bit pattern, none of the first eight and
//! `tanh` differs from its rounded `f64` oracle. The sign and the payload of a NaN are
//! not part of the contract: compilers and devices choose them, and no operator of the language can tell.
//!
//! The cores are branch-free where that costs no accuracy and are always inlined, so that [`apply_row`] becomes vector code for
//! whatever target features its caller was compiled with; the features change its speed, never its bits.
#![allow(
    clippy::inline_always,
    reason = "a core must be inlined to be vectorised with the target features of its caller"
)]

pub mod coefficients;
mod erf;
mod exp;
mod hyperbolic;
mod log;
mod pow;
mod round;
mod row;
mod select;
mod trig;

pub use erf::erf;
pub use exp::{exp, exp2};
pub use hyperbolic::tanh;
pub use log::{ln, log2, log10};
pub use pow::{powf, powi, sqrt};
pub use round::{ceil, floor, round, trunc};
pub use row::{MathFn, apply_row};
pub use select::{abs, clamp, max, min, rem, signum};
pub use trig::{cos, sin, tan};

#[cfg(test)]
mod tests;

/// Adding and subtracting it rounds an `f64` below 2^51 in magnitude to an integer, ties to even, and the low bits of the sum are
/// that integer in two's complement. Unlike a conversion it has a vector form everywhere.
const ROUND_TO_INTEGER: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52

/// The integer nearest to `x`, as a number and in the low bits of a word whose high bits mean nothing.
#[inline(always)]
fn nearest(x: f64) -> (f64, u64) {
    let sum = x + ROUND_TO_INTEGER;
    (sum - ROUND_TO_INTEGER, sum.to_bits())
}

/// 2^n from the low bits of a word that holds n, for n from -1022 to 1023.
#[inline(always)]
fn power_of_two(n: u64) -> f64 {
    f64::from_bits((n << 52).wrapping_add(1023 << 52))
}

/// `c[0] + x * (c[1] + x * (c[2] + …))`, each step one multiplication and one addition.
#[inline(always)]
fn horner<const N: usize>(x: f64, c: &[f64; N]) -> f64 {
    let mut sum = c[N - 1];
    for &coefficient in c[..N - 1].iter().rev() {
        sum = sum * x + coefficient;
    }
    sum
}

/// `x` kept within `low..=high`; a NaN stays.
#[inline(always)]
fn limit(x: f64, low: f64, high: f64) -> f64 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}
