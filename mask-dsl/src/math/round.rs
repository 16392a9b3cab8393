//! Rounding to integers: exact, with the sign of x on a zero, and the same values as `std`'s.

/// From here on every `f32` is an integer, 2^23.
const INTEGERS: f32 = 8_388_608.0;

/// The largest integer up to x.
#[inline(always)]
pub fn floor(x: f32) -> f32 {
    let n = nearest_integer(x.abs()).copysign(x);
    finish(x, if n > x { n - 1.0 } else { n })
}

/// The smallest integer from x on.
#[inline(always)]
pub fn ceil(x: f32) -> f32 {
    let n = nearest_integer(x.abs()).copysign(x);
    finish(x, if n < x { n + 1.0 } else { n })
}

/// The integer part of x.
#[inline(always)]
pub fn trunc(x: f32) -> f32 {
    finish(x, whole_part(x.abs()))
}

/// The nearest integer, halves away from zero.
#[inline(always)]
pub fn round(x: f32) -> f32 {
    let whole = whole_part(x.abs());
    // Not whole_part(|x| + 1/2): that sum rounds, and makes 1 of the largest number below 1/2.
    finish(
        x,
        if x.abs() - whole >= 0.5 {
            whole + 1.0
        } else {
            whole
        },
    )
}

/// The integer part of 0 ≤ a < 2^23.
#[inline(always)]
fn whole_part(a: f32) -> f32 {
    let n = nearest_integer(a);
    if n > a { n - 1.0 } else { n }
}

/// The integer nearest to 0 ≤ a < 2^23, ties to even.
#[inline(always)]
fn nearest_integer(a: f32) -> f32 {
    (a + INTEGERS) - INTEGERS
}

/// `integer` with the sign of x, or x itself where it has no fraction or is NaN.
#[inline(always)]
fn finish(x: f32, integer: f32) -> f32 {
    if x.abs() < INTEGERS {
        integer.copysign(x)
    } else {
        x
    }
}
