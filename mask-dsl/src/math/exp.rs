//! `exp` and `exp2`: a power of two times a polynomial of the rest.

use super::coefficients::{EXP, EXP2, LN2_HI, LN2_LO, LOG2_E};
use super::{horner, limit, nearest, power_of_two};

/// `e^x`: +∞ from 88.72284 on, 0 below -103.97208, subnormal in between.
///
/// x = n ln 2 + r with |r| ≤ ln 2 / 2, and e^x = 2^n (1 + r `EXP`(r)).
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // Beyond these limits the result is infinite or 0 in f32 and stays far from the ends of f64.
    let (scale, rest) = reduce(limit(x as f64, -110.0, 100.0));
    (scale * (1.0 + rest)) as f32
}

/// `2^x`: exact for integers from -149 to 127, +∞ from 128 on, 0 from -150 down.
///
/// x = n + r with |r| ≤ 1/2, exactly, and 2^x = 2^n (1 + r `EXP2`(r)).
#[inline(always)]
pub fn exp2(x: f32) -> f32 {
    let x = limit(x as f64, -160.0, 140.0);
    let (n, bits) = nearest(x);
    (power_of_two(bits) * exp2_fraction(x - n)) as f32
}

/// 2^r for |r| ≤ 1/2.
#[inline(always)]
pub(super) fn exp2_fraction(r: f64) -> f64 {
    1.0 + r * horner(r, &EXP2)
}

/// 2^n and e^r - 1, for x = n ln 2 + r between -110 and 100.
#[inline(always)]
pub(super) fn reduce(x: f64) -> (f64, f64) {
    let (n, bits) = nearest(x * LOG2_E);
    // The first product is exact and so is the difference, so r keeps the precision of f64 near 0 too.
    let r = (x - n * LN2_HI) - n * LN2_LO;
    (power_of_two(bits), r * horner(r, &EXP))
}
