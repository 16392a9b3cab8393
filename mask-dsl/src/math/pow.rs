//! `sqrt`, `powi` and `powf`.

use super::coefficients::{ATANH, TWO_LOG2_E, TWO_LOG2_E_HI, TWO_LOG2_E_LO};
use super::exp::exp2_fraction;
use super::log::split;
use super::{horner, limit, nearest, power_of_two};

/// The square root, correctly rounded as IEEE demands: -0 at -0, NaN below.
#[inline(always)]
pub fn sqrt(x: f32) -> f32 {
    x.sqrt()
}

/// `x^n`, by squaring and multiplying in `f64` from the lowest bit of |n| upwards; for n < 0, 1 over that.
///
/// `x^0` is 1, for a NaN too. Its rounding errors grow with n, by at most 2^-28 of a unit in the last place for each: see [`powf`]
/// for large powers.
///
/// ```
/// use maskwright_dsl::math::powi;
/// assert_eq!(powi(4097.0, 2), 16_785_408.0); // 16 785 409 is a tie, and goes to even.
/// assert_eq!(powi(-2.0, -3), -0.125);
/// assert_eq!(powi(f32::NAN, 0), 1.0);
/// ```
#[inline]
pub fn powi(x: f32, n: i32) -> f32 {
    let (mut power, mut square, mut left) = (1.0, x as f64, n.unsigned_abs());
    while left != 0 {
        if left & 1 == 1 {
            power *= square;
        }
        square *= square;
        left >>= 1;
    }
    let power = if n < 0 { 1.0 / power } else { power };
    power as f32
}

/// `x^y`, with the special cases of C's `pow` (Annex F): `x^0` and `1^y` are 1 even for a NaN, a negative x takes integers only.
///
/// A result that `f32` can hold is exact, and so is a tie between two. The operations: log2 x = k + f with f in two parts of 26 bits
/// and the rest, y times each, then `2^` of their sum.
///
/// ```
/// use maskwright_dsl::math::powf;
/// assert_eq!(powf(2.25, 1.5), 3.375);
/// assert_eq!(powf(-2.0, 3.0), -8.0);
/// assert!(powf(-2.0, 0.5).is_nan());
/// ```
#[inline]
pub fn powf(x: f32, y: f32) -> f32 {
    if y == 0.0 || x == 1.0 {
        return 1.0;
    }
    if x.is_nan() || y.is_nan() || (x < 0.0 && x.is_finite() && y.is_finite() && !is_integer(y)) {
        return f32::NAN;
    }
    let a = x.abs();
    let magnitude = if a == 1.0 {
        1.0
    } else if a == 0.0 || a.is_infinite() || y.is_infinite() {
        // Only the side of 1 on which each lies matters.
        if (a > 1.0) == (y > 0.0) {
            f32::INFINITY
        } else {
            0.0
        }
    } else {
        positive(a as f64, y as f64) as f32
    };
    if x.is_sign_negative() && is_odd(y) {
        -magnitude
    } else {
        magnitude
    }
}

/// `x^y` for a positive finite x other than 1 and a finite y other than 0.
fn positive(x: f64, y: f64) -> f64 {
    let (k, m) = split(x);
    // log2 m = 2 log2 e · atanh s. s_hi has 26 bits and m + 1 at most 26, so the remainder that makes s_lo is exact.
    let s = (m - 1.0) / (m + 1.0);
    let s_hi = high_26_bits(s);
    let s_lo = ((m - 1.0) - s_hi * (m + 1.0)) / (m + 1.0);
    let z = s * s;
    let f = TWO_LOG2_E_HI * s_hi;
    let f_rest = TWO_LOG2_E_LO * s_hi + TWO_LOG2_E * (s_lo + s * (z * horner(z, &ATANH)));
    // y has 24 bits, so y · k and y · f_hi are exact.
    let f_hi = high_26_bits(f + f_rest);
    let f_lo = (f - f_hi) + f_rest;
    let (whole, part) = (y * k, y * f_hi);
    // Beyond these limits the result is infinite or 0 in f32 whatever the fraction, which is then garbage and limited too.
    let (n, bits) = nearest(limit(whole + part, -300.0, 300.0));
    let fraction = limit(((whole - n) + part) + y * f_lo, -1.0, 1.0);
    // The error is below 2^-51. Rounded to 50 bits, a power that is exact or lies midway between two f32 is found as such.
    let power = exp2_fraction(fraction);
    let spread = power * 9.0;
    power_of_two(bits) * (spread - (spread - power))
}

/// x without the low 27 of its 53 bits.
fn high_26_bits(x: f64) -> f64 {
    f64::from_bits(x.to_bits() & !0x07ff_ffff)
}

/// Whether a finite y is an integer; from 2^23 on all are.
fn is_integer(y: f32) -> bool {
    y.abs() >= 8_388_608.0 || (y as i32) as f32 == y
}

/// Whether y is an odd integer; from 2^24 on all are even.
fn is_odd(y: f32) -> bool {
    y.abs() < 16_777_216.0 && (y as i32) as f32 == y && y as i32 & 1 == 1
}
