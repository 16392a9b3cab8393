//! An error function to `f64` precision, by other means than ours.

use std::f64::consts::PI;

/// e^(-x²) times a series of positive terms up to 3, 1 less a continued fraction beyond.
pub(super) fn erf(x: f64) -> f64 {
    let a = x.abs();
    if a < 1e-300 || a.is_nan() {
        return x * 2.0 / PI.sqrt();
    }
    if a > 6.0 {
        return 1f64.copysign(x);
    }
    let value = if a < 3.0 {
        series(a)
    } else {
        1.0 - complement(a)
    };
    value.copysign(x)
}

/// 2/√π e^(-x²) Σ 2^n x^(2n+1) / (1 · 3 ⋯ (2n+1)), Abramowitz and Stegun 7.1.6.
fn series(x: f64) -> f64 {
    let (mut term, mut sum, mut odd) = (x, x, 1.0);
    while term > sum * 1e-18 {
        odd += 2.0;
        term *= 2.0 * x * x / odd;
        sum += term;
    }
    2.0 / PI.sqrt() * (-x * x).exp() * sum
}

/// e^(-x²)/√π · 1/(x + (1/2)/(x + 1/(x + (3/2)/(x + …)))), Abramowitz and Stegun 7.1.14.
fn complement(x: f64) -> f64 {
    let tail = (1..=60).rev().fold(x, |tail, n| x + n as f64 / 2.0 / tail);
    (-x * x).exp() / PI.sqrt() / tail
}
