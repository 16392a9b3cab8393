//! `exp` by our own polynomial: one definition, which every micro-kernel spells in its own vectors.
//!
//! | symbol | meaning |
//! | --- | --- |
//! | `n` | `x / ln 2`, rounded to an integer |
//! | `r` | `x - n ln 2`, at most `ln 2 / 2` from 0 |
//! | `p` | `1 + r + r² (C2 + C3 r + C4 r² + C5 r³ + C6 r⁴)`, within 1.1e-8 of `exp(r)` |
//!
//! The result is `p 2ⁿ`, within 2e-7 of `exp(x)` for -87.33 <= x <= 88. Below, where `exp` leaves the
//! normal numbers, it is a denormal number or 0, and from [`LOWEST`] down, −∞ included, exactly 0.
//! NaN gives NaN. Larger arguments do not occur: scores are taken less their maximum.

/// Lower arguments count as this one. Its `n` is -127, whose `2ⁿ` has the bits of 0, so that the
/// smallest weights vanish without a comparison.
pub(crate) const LOWEST: f32 = -88.0;

/// `1 / ln 2`.
pub(crate) const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// Adding this to a small number rounds it to an integer, left in the lowest bits: 1.5 · 2²³.
pub(crate) const ROUND: f32 = 12_582_912.0;
/// The upper 12 bits of ln 2, so that `n · LN2_HI` is exact.
pub(crate) const LN2_HI: f32 = 0.693_115_23;
/// ln 2 less its upper bits.
pub(crate) const LN2_LO: f32 = 3.194_618_5e-5;

/// Interpolation of `(exp(r) - 1 - r) / r²` at the Chebyshev nodes of ±ln 2 / 2.
pub(crate) const C2: f32 = 0.5;
pub(crate) const C3: f32 = 0.166_665_76;
pub(crate) const C4: f32 = 0.041_666_552;
pub(crate) const C5: f32 = 0.008_363_233;
pub(crate) const C6: f32 = 0.001_392_625;

/// Portable `exp`: multiplications and additions only, which compilers turn into vectors.
#[inline(always)]
#[expect(
    clippy::inline_always,
    reason = "left as a call, the loops around it would not become vectors"
)]
pub(crate) fn exp(x: f32) -> f32 {
    // A comparison with NaN is false, so NaN passes and comes out as NaN.
    let y = if x < LOWEST { LOWEST } else { x };
    // n = round(x / ln 2)
    let shifted = y * LOG2_E + ROUND;
    let n = shifted - ROUND;
    // r = x - n ln 2, in two steps
    let r = (y - n * LN2_HI) - n * LN2_LO;
    // p = exp(r)
    let p = (((C6 * r + C5) * r + C4) * r + C3) * r + C2;
    let p = (p * r + 1.0) * r + 1.0;
    // 2ⁿ, by moving n from the lowest bits into the exponent
    let two_n = f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000));
    p * two_n
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Checks a vectorised `exp`, given as a function over a slice in place.
    pub(crate) fn check(exp: impl Fn(&mut [f32])) {
        let (low, high) = (-87.33_f32, 88.0);
        let mut inputs = vec![0.0, -0.0, 1e-30, -1e-30, low, high];
        let steps = 400_000;
        for i in 0..=steps {
            inputs.push(low + (high - low) * i as f32 / steps as f32);
            inputs.push(-(i as f32) / steps as f32);
        }
        while !inputs.len().is_multiple_of(16) {
            inputs.push(-1.0);
        }
        let mut outputs = inputs.clone();
        exp(&mut outputs);
        let mut worst = (0.0, 0.0);
        for (&x, &y) in inputs.iter().zip(&outputs) {
            let exact = f64::from(x).exp();
            let error = ((f64::from(y) - exact) / exact).abs();
            if worst.0 < error {
                worst = (error, x);
            }
        }
        assert!(
            worst.0 <= 2e-7,
            "relative error {:e} at {:e}",
            worst.0,
            worst.1
        );

        let mut special = [-1.0; 16];
        special[..5].copy_from_slice(&[f32::NEG_INFINITY, LOWEST, f32::NAN, 0.0, -87.5]);
        exp(&mut special);
        assert_eq!(special[0].to_bits(), 0, "exp(-inf) is exactly 0");
        assert_eq!(
            special[1].to_bits(),
            0,
            "exp of the lowest argument is exactly 0"
        );
        assert!(special[2].is_nan());
        assert_eq!(special[3], 1.0);
        assert!((0.0..f32::MIN_POSITIVE).contains(&special[4]));
    }

    #[test]
    fn portable_exp_is_within_its_bound() {
        check(|xs| xs.iter_mut().for_each(|x| *x = exp(*x)));
    }
}
