//! `sin`, `cos` and `tan`, for every finite argument.
//!
//! x = n π/2 + r with |r| ≤ π/4; the low two bits of n choose among ±sin r and ±cos r. Up to [`NEAR`] the reduction subtracts
//! n π/2 in three parts; beyond, it multiplies by the bits of 2/π that matter, in integers (Payne and Hanek 1983).

use super::coefficients::{
    COS, HALF_PI, HALF_PI_1, HALF_PI_2, HALF_PI_3, SIN, TWO_OVER_PI, TWO_OVER_PI_BITS,
};
use super::{horner, nearest};

/// The largest magnitude whose multiple of π/2 is subtracted in `f64`, 2^22.
pub(super) const NEAR: f32 = 4_194_304.0;

/// The sine of x radians; NaN at ±∞.
#[inline(always)]
pub fn sin(x: f32) -> f32 {
    if x.abs() <= NEAR {
        sin_near(x)
    } else {
        sin_far(x)
    }
}

/// The cosine of x radians; NaN at ±∞.
#[inline(always)]
pub fn cos(x: f32) -> f32 {
    if x.abs() <= NEAR {
        cos_near(x)
    } else {
        cos_far(x)
    }
}

/// The tangent of x radians; NaN at ±∞. It is finite everywhere: no `f32` is close enough to a pole.
#[inline(always)]
pub fn tan(x: f32) -> f32 {
    if x.abs() <= NEAR {
        tan_near(x)
    } else {
        tan_far(x)
    }
}

/// `sin` for |x| up to [`NEAR`].
#[inline(always)]
pub(super) fn sin_near(x: f32) -> f32 {
    let (n, r) = reduce_near(x as f64);
    quadrant(n, r) as f32
}

/// `cos` for |x| up to [`NEAR`].
#[inline(always)]
pub(super) fn cos_near(x: f32) -> f32 {
    let (n, r) = reduce_near(x as f64);
    quadrant(n.wrapping_add(1), r) as f32
}

/// `tan` for |x| up to [`NEAR`].
#[inline(always)]
pub(super) fn tan_near(x: f32) -> f32 {
    let (n, r) = reduce_near(x as f64);
    tangent(n, r) as f32
}

/// `sin` for all others. Kept out of line, because it is rare and long.
#[inline(never)]
pub(super) fn sin_far(x: f32) -> f32 {
    reduce_far(x).map_or(f32::NAN, |(n, r)| quadrant(n, r) as f32)
}

/// `cos` for all others.
#[inline(never)]
pub(super) fn cos_far(x: f32) -> f32 {
    reduce_far(x).map_or(f32::NAN, |(n, r)| quadrant(n.wrapping_add(1), r) as f32)
}

/// `tan` for all others.
#[inline(never)]
pub(super) fn tan_far(x: f32) -> f32 {
    reduce_far(x).map_or(f32::NAN, |(n, r)| tangent(n, r) as f32)
}

/// The sine of n π/2 + r.
#[inline(always)]
fn quadrant(n: u64, r: f64) -> f64 {
    let value = if n & 1 == 0 {
        sin_polynomial(r)
    } else {
        cos_polynomial(r)
    };
    // Bit 1 of n is the sign.
    f64::from_bits(value.to_bits() ^ ((n & 2) << 62))
}

/// The tangent of n π/2 + r.
#[inline(always)]
fn tangent(n: u64, r: f64) -> f64 {
    let (sin, cos) = (sin_polynomial(r), cos_polynomial(r));
    let (over, under) = if n & 1 == 0 { (sin, cos) } else { (cos, -sin) };
    over / under
}

/// sin r for |r| ≤ π/4. The product keeps the sign of a zero, which r + r³(…) would lose.
#[inline(always)]
fn sin_polynomial(r: f64) -> f64 {
    r * horner(r * r, &SIN)
}

/// cos r for |r| ≤ π/4.
#[inline(always)]
fn cos_polynomial(r: f64) -> f64 {
    let z = r * r;
    1.0 - (0.5 * z - z * z * horner(z, &COS))
}

/// n in the low bits, and r, for |x| ≤ 2^22.
///
/// The first two parts of π/2 have 31 bits, so their products with n are exact, and so is each difference that cancels; what is lost
/// is below 2^-53 of r.
#[inline(always)]
fn reduce_near(x: f64) -> (u64, f64) {
    let (n, bits) = nearest(x * TWO_OVER_PI);
    (bits, ((x - n * HALF_PI_1) - n * HALF_PI_2) - n * HALF_PI_3)
}

/// n modulo 4, and r, for finite |x| ≥ 2^22; nothing for the others.
///
/// x = ± m 2^e with a 24-bit integer m. Of 2/π only 128 bits matter: those before them make multiples of 4 quarter turns, those
/// after them add less than 2^-102 of one, while no `f32` that is not 0 comes closer than 2^-30 of one to a whole number of them.
fn reduce_far(x: f32) -> Option<(u64, f64)> {
    if !x.is_finite() {
        return None;
    }
    let bits = x.to_bits();
    let m = (bits & 0x007f_ffff | 0x0080_0000) as u128;
    let e = (bits >> 23 & 0xff) as i32 - 150;
    // The bit of weight 2^-(e-1) is the first that matters; the table has 32 bits before the weight 1/2.
    let start = (e + 30) as usize;
    let (word, shift) = (start / 32, start % 32);
    let words = TWO_OVER_PI_BITS[word..word + 4].iter();
    let window = words.fold(0u128, |bits, &next| bits << 32 | next as u128);
    let window = window << shift | (TWO_OVER_PI_BITS[word + 4] as u128) << shift >> 32;
    // Quarter turns modulo 4, in units of 2^-126, then split into the nearest integer and a signed rest.
    let turns = m.wrapping_mul(window);
    let n = turns.wrapping_add(1 << 125) >> 126;
    let rest = turns.wrapping_sub(n << 126);
    // In two halves, each converted from 64 bits: engines have that conversion.
    let r = (rest >> 64) as i64 as f64 * power(-62) + rest as u64 as f64 * power(-126);
    let (n, r) = (n as u64, r * HALF_PI);
    Some(if x < 0.0 {
        (n.wrapping_neg(), -r)
    } else {
        (n, r)
    })
}

/// 2^n.
const fn power(n: i32) -> f64 {
    f64::from_bits(((n + 1023) as u64) << 52)
}
