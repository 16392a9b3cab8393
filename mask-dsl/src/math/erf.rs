//! `erf`, from two polynomials.

use super::coefficients::{ERF_FAR, ERF_NEAR};
use super::{horner, limit};

/// The error function, 2/√π times the integral of e^(-t²) from 0 to x: ±1 from ±3.919206 on.
///
/// |x| `ERF_NEAR`(x²) up to 1, which keeps the relative precision near 0, then `ERF_FAR`(|x| - 5/2) up to 4, where the result is 1 to
/// `f32`.
#[inline(always)]
pub fn erf(x: f32) -> f32 {
    let x = x as f64;
    let a = limit(x.abs(), 0.0, 4.0);
    let near = a * horner(a * a, &ERF_NEAR);
    let far = horner(a - 2.5, &ERF_FAR);
    let value = if a < 1.0 { near } else { far };
    value.copysign(x) as f32
}
