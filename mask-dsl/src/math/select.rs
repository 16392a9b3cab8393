//! Functions that choose or change a sign: exact, by comparisons and bits.

/// x without its sign.
#[inline(always)]
pub fn abs(x: f32) -> f32 {
    x.abs()
}

/// 1 with the sign of x, for ±0 and ±∞ too; NaN for NaN.
#[inline(always)]
pub fn signum(x: f32) -> f32 {
    if x.is_nan() {
        f32::NAN
    } else {
        1f32.copysign(x)
    }
}

/// The smaller of two; a NaN loses to a number, and -0 is below +0.
///
/// Fixed, unlike `f32::min`, in the order of zeros: as `min.f32` of PTX does, so the order of the operands never matters.
#[inline(always)]
pub fn min(x: f32, y: f32) -> f32 {
    let y_wins = y < x || (y == x && y.is_sign_negative());
    if y_wins || x.is_nan() { y } else { x }
}

/// The larger of two; a NaN loses to a number, and +0 is above -0.
#[inline(always)]
pub fn max(x: f32, y: f32) -> f32 {
    let y_wins = y > x || (y == x && y.is_sign_positive());
    if y_wins || x.is_nan() { y } else { x }
}

/// x kept within `low..=high`: `low` if x < low, then `high` if that is above it.
///
/// A NaN stays, a zero keeps its sign, and a bound that is NaN does not bind; for crossed bounds the upper one wins. `f32::clamp` panics
/// there, and the language refuses them.
#[inline(always)]
pub fn clamp(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// The remainder of x / y truncated, exact, with the sign of x: `%` on `f32`. NaN for y = ±0 or x = ±∞; x for y = ±∞.
#[inline(always)]
pub fn rem(x: f32, y: f32) -> f32 {
    x % y
}
