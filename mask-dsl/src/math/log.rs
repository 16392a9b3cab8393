//! `ln`, `log2` and `log10`: the exponent plus the logarithm of the mantissa.

use super::coefficients::{ATANH, LN2_HI, LN2_LO, LOG2_E, LOG10_2_HI, LOG10_2_LO, LOG10_E};
use super::horner;

/// The natural logarithm: -∞ at ±0, NaN below.
#[inline(always)]
pub fn ln(x: f32) -> f32 {
    let (k, m) = split(x as f64);
    ends(x, k * LN2_HI + (k * LN2_LO + ln_mantissa(m)))
}

/// The logarithm to base 2, exact for powers of two: -∞ at ±0, NaN below.
#[inline(always)]
pub fn log2(x: f32) -> f32 {
    let (k, m) = split(x as f64);
    ends(x, k + ln_mantissa(m) * LOG2_E)
}

/// The logarithm to base 10, exact for the powers of ten that `f32` holds (up to 10^10): -∞ at ±0, NaN below.
#[inline(always)]
pub fn log10(x: f32) -> f32 {
    let (k, m) = split(x as f64);
    ends(
        x,
        k * LOG10_2_HI + (k * LOG10_2_LO + ln_mantissa(m) * LOG10_E),
    )
}

/// k and m with x = 2^k m and √½ ≤ m < √2, for a positive finite x; garbage for others.
///
/// An `f32` below its normal range is normal in `f64`, so it needs no care.
#[inline(always)]
pub(super) fn split(x: f64) -> (f64, f64) {
    /// The bits of √½.
    const LEAST: u64 = 0x3fe6_a09e_667f_3bcd;
    let bits = x.to_bits();
    // Biased by 1024, so that the shift need not carry a sign: not every vector unit can.
    let biased = bits.wrapping_sub(LEAST).wrapping_add(1024 << 52) >> 52;
    let m = bits.wrapping_sub(biased.wrapping_sub(1024) << 52);
    // The bits of 2^52 with an integer in the mantissa are 2^52 plus this integer.
    let k = f64::from_bits(0x4330_0000_0000_0000 | biased) - (4_503_599_627_370_496.0 + 1024.0);
    (k, f64::from_bits(m))
}

/// ln m = 2 atanh s with s = (m - 1) / (m + 1), where sum and difference are exact.
#[inline(always)]
fn ln_mantissa(m: f64) -> f64 {
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    2.0 * (s + s * (z * horner(z, &ATANH)))
}

/// Rounds `log`, unless x is ±0, negative, +∞ or NaN.
#[inline(always)]
fn ends(x: f32, log: f64) -> f32 {
    let log = if x == f32::INFINITY {
        f64::INFINITY
    } else {
        log
    };
    let log = if x == 0.0 { f64::NEG_INFINITY } else { log };
    let log = if x >= 0.0 { log } else { f64::NAN };
    log as f32
}
