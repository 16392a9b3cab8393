//! `tanh`, from `e^(2x) - 1`.

use super::exp::reduce;
use super::limit;

/// The hyperbolic tangent: ±1 from ±9.010914 on, and x itself near 0.
///
/// With m = e^(2|x|) - 1, tanh |x| = m / (m + 2); m = (2^n - 1) + 2^n (e^r - 1) keeps its relative precision where it is small,
/// because n is then 0.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let x = x as f64;
    // tanh 20 is 1 to f32 and f64 alike.
    let (scale, rest) = reduce(limit(2.0 * x.abs(), 0.0, 40.0));
    let m = (scale - 1.0) + scale * rest;
    (m / (m + 2.0)).copysign(x) as f32
}
