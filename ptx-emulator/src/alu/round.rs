//! Exact sums and products: results in `f64` rounded to odd, from which any narrower format is rounded once.
//!
//! Rounding to odd (truncate, then set the last bit if anything was lost) keeps what a second rounding needs to know, as long as
//! the second format has at least two bits fewer. `f64` has 29 bits more than `f32`, so sums and fused products of `f32` values
//! come out correctly rounded without a fused instruction or a call into libm.

use crate::tensor_core::format::Rounding;

/// Moves a rounded result to its odd neighbour, given the sign of what rounding lost.
#[inline]
fn to_odd(rounded: f64, lost: f64) -> f64 {
    let bits = rounded.to_bits();
    // NaN and infinite sums have a NaN error, which is neither above nor below zero.
    let inexact = lost != 0.0;
    let even = bits & 1 == 0;
    let away = (lost > 0.0) == (rounded > 0.0);
    let step = if away { 1 } else { u64::MAX };
    f64::from_bits(if inexact & even {
        bits.wrapping_add(step)
    } else {
        bits
    })
}

/// `a + b`, rounded to odd.
#[inline]
pub(crate) fn sum(a: f64, b: f64) -> f64 {
    let s = a + b;
    let t = s - a;
    to_odd(s, (a - (s - t)) + (b - t))
}

/// `a b + c` of values of at most 24 significant bits each, rounded to odd.
#[inline]
pub(crate) fn fused(a: f64, b: f64, c: f64) -> f64 {
    sum(a * b, c)
}

/// `a / b` of values of at most 24 significant bits each, rounded to odd.
pub(crate) fn quotient(a: f64, b: f64) -> f64 {
    let q = a / b;
    let rest = (-q).mul_add(b, a);
    let rest = if b < 0.0 { -rest } else { rest };
    if q.is_finite() { to_odd(q, rest) } else { q }
}

/// The square root, rounded to odd.
pub(crate) fn root(a: f64) -> f64 {
    let r = a.sqrt();
    if r.is_finite() {
        to_odd(r, (-r).mul_add(r, a))
    } else {
        r
    }
}

/// Rounds an odd-rounded or exact value to `f32` as asked; NaN becomes the canonical one.
#[inline]
pub(crate) fn to_f32(value: f64, rounding: Rounding) -> f32 {
    let nearest = value as f32;
    let back = f64::from(nearest);
    let moved = match rounding {
        Rounding::Zero if back.abs() > value.abs() => towards_zero(nearest),
        Rounding::Down if back > value => nearest.next_down(),
        Rounding::Up if back < value => nearest.next_up(),
        Rounding::NearestEven
        | Rounding::NearestAway
        | Rounding::Zero
        | Rounding::Down
        | Rounding::Up => nearest,
    };
    canonical(moved)
}

fn towards_zero(value: f32) -> f32 {
    if value > 0.0 {
        value.next_down()
    } else {
        value.next_up()
    }
}

/// NaN as devices write it.
#[inline]
pub(crate) fn canonical(value: f32) -> f32 {
    if value.is_nan() {
        f32::from_bits(0x7fff_ffff)
    } else {
        value
    }
}

/// Subnormal numbers become zeros of their sign.
#[inline]
pub(crate) fn flush(value: f32) -> f32 {
    if value.abs() < f32::MIN_POSITIVE {
        f32::from_bits(value.to_bits() & 0x8000_0000)
    } else {
        value
    }
}

/// Rounds an `f64` result as asked, given the sign of what rounding to nearest lost.
pub(crate) fn direct_f64(nearest: f64, lost: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::Zero if nearest > 0.0 && lost < 0.0 => nearest.next_down(),
        Rounding::Zero if nearest < 0.0 && lost > 0.0 => nearest.next_up(),
        Rounding::Down if lost < 0.0 => nearest.next_down(),
        Rounding::Up if lost > 0.0 => nearest.next_up(),
        Rounding::NearestEven
        | Rounding::NearestAway
        | Rounding::Zero
        | Rounding::Down
        | Rounding::Up => nearest,
    }
}
