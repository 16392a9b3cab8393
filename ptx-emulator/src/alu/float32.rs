//! Operations on `f32` in their usual forms: rounded to nearest, without saturation.

use super::lane_table;
use super::round::{canonical, flush, fused};
use crate::tensor_core::format::{f16_to_f32, f32_to_bf16, f32_to_f16, pack_bf16x2, pack_f16x2};

lane_table! {
    /// `f32` operations on bits; `Ftz` takes and gives zeros for subnormal numbers.
    Float32(a: u32, b: u32, c: u32) -> u32 {
        Add => bits(canonical(f(a) + f(b))),
        AddFtz => bits(canonical(flush(flush(f(a)) + flush(f(b))))),
        Sub => bits(canonical(f(a) - f(b))),
        SubFtz => bits(canonical(flush(flush(f(a)) - flush(f(b))))),
        Mul => bits(canonical(f(a) * f(b))),
        MulFtz => bits(canonical(flush(flush(f(a)) * flush(f(b))))),
        Fma => bits(canonical(fma(f(a), f(b), f(c)))),
        FmaFtz => bits(canonical(flush(fma(flush(f(a)), flush(f(b)), flush(f(c)))))),
        Min => minimum(a, b),
        MinFtz => minimum(flush_bits(a), flush_bits(b)),
        Max => maximum(a, b),
        MaxFtz => maximum(flush_bits(a), flush_bits(b)),
        MinNan => if f(a).is_nan() | f(b).is_nan() { 0x7fff_ffff } else { minimum(a, b) },
        MaxNan => if f(a).is_nan() | f(b).is_nan() { 0x7fff_ffff } else { maximum(a, b) },
        Neg => a ^ 0x8000_0000,
        NegFtz => flush_bits(a) ^ 0x8000_0000,
        Abs => a & 0x7fff_ffff,
        AbsFtz => flush_bits(a) & 0x7fff_ffff,
        CopySign => (b & 0x7fff_ffff) | (a & 0x8000_0000),
        Div => bits(canonical(f(a) / f(b))),
        DivFtz => bits(canonical(flush(flush(f(a)) / flush(f(b))))),
        // Past 2^126 the approximation's reciprocal of the divisor is a subnormal number and comes out as zero.
        DivApprox => bits(canonical(approximate_quotient(f(a), f(b)))),
        DivApproxFtz => bits(canonical(flush(approximate_quotient(flush(f(a)), flush(f(b)))))),
        Rcp => bits(canonical(1.0 / f(a))),
        RcpFtz => bits(canonical(flush(1.0 / flush(f(a))))),
        Sqrt => bits(canonical(f(a).sqrt())),
        SqrtFtz => bits(canonical(flush(f(a)).sqrt())),
        Rsqrt => bits(canonical((1.0 / f64::from(f(a)).sqrt()) as f32)),
        RsqrtFtz => bits(canonical((1.0 / f64::from(flush(f(a))).sqrt()) as f32)),
        Sin => bits(canonical(f64::from(f(a)).sin() as f32)),
        SinFtz => bits(canonical(flush(f64::from(flush(f(a))).sin() as f32))),
        Cos => bits(canonical(f64::from(f(a)).cos() as f32)),
        CosFtz => bits(canonical(flush(f64::from(flush(f(a))).cos() as f32))),
        Ex2 => bits(canonical(exp2(f(a)))),
        Ex2Ftz => bits(canonical(flush(exp2(flush(f(a)))))),
        Lg2 => bits(canonical(f64::from(f(a)).log2() as f32)),
        Lg2Ftz => bits(canonical(f64::from(flush(f(a))).log2() as f32)),
        Tanh => bits(canonical(f64::from(f(a)).tanh() as f32)),
        PackBf16x2 => pack_bf16x2(f(a), f(b)),
        PackF16x2 => pack_f16x2(f(a), f(b)),
        ToBf16 => u32::from(f32_to_bf16(f(a))),
        ToF16 => u32::from(f32_to_f16(f(a))),
        FromBf16 => bits(canonical(f(a << 16))),
        FromF16 => bits(canonical(f16_to_f32(a as u16))),
        FromS32 => bits(a as i32 as f32),
        FromU32 => bits(a as f32),
        // Rust's casts saturate, but they turn NaN into 0 as devices do for 32-bit results.
        ToS32 => f(a) as i32 as u32,
        ToU32 => f(a) as u32,
    }
}

#[inline]
fn f(bits: u32) -> f32 {
    f32::from_bits(bits)
}

#[inline]
fn bits(value: f32) -> u32 {
    value.to_bits()
}

#[inline]
fn flush_bits(a: u32) -> u32 {
    bits(flush(f(a)))
}

#[inline]
fn fma(a: f32, b: f32, c: f32) -> f32 {
    fused(f64::from(a), f64::from(b), f64::from(c)) as f32
}

/// Orders bits of numbers as integers, so that -0 stands before +0.
#[inline]
fn key(bits: u32) -> i32 {
    (bits ^ (((bits as i32) >> 31) as u32 >> 1)) as i32
}

#[inline]
fn minimum(a: u32, b: u32) -> u32 {
    let smaller = if key(a) < key(b) { a } else { b };
    choose_number(a, b, smaller)
}

#[inline]
fn maximum(a: u32, b: u32) -> u32 {
    let larger = if key(a) > key(b) { a } else { b };
    choose_number(a, b, larger)
}

/// A NaN loses against a number.
#[inline]
fn choose_number(a: u32, b: u32, both_numbers: u32) -> u32 {
    let with_b = if f(b).is_nan() { a } else { both_numbers };
    let out = if f(a).is_nan() { b } else { with_b };
    if f(a).is_nan() & f(b).is_nan() {
        0x7fff_ffff
    } else {
        out
    }
}

#[inline]
fn approximate_quotient(a: f32, b: f32) -> f32 {
    let far = b.abs() > f32::from_bits(0x7e80_0000);
    let zero = if a.is_infinite() {
        f32::NAN
    } else {
        0.0f32.copysign(a) * 1.0f32.copysign(b)
    };
    if far && b.is_finite() && !a.is_nan() {
        zero
    } else {
        a / b
    }
}

/// Coefficients of 2^x on [-1/2, 1/2] in f64: ln(2)^k / k!.
const EXP2: [f64; 10] = [
    1.0,
    std::f64::consts::LN_2,
    0.240_226_506_959_100_7,
    0.055_504_108_664_821_58,
    0.009_618_129_107_628_477,
    0.001_333_355_814_642_844_3,
    0.000_154_035_303_933_816_1,
    0.000_015_252_733_804_059_841,
    0.000_001_321_548_679_014_431,
    0.000_000_101_780_860_092_396_5,
];

/// 2^x, rounded from a polynomial whose error is far below half a unit of `f32`; without a call, so that lanes run as vectors.
#[inline]
pub(crate) fn exp2(x: f32) -> f32 {
    let clamped = if x < -200.0 { -200.0 } else { x };
    let clamped = f64::from(if clamped > 200.0 { 200.0 } else { clamped });
    // Adding 1.5 * 2^52 leaves the nearest integer in the low bits of the mantissa.
    let shifted = clamped + 6_755_399_441_055_744.0;
    let whole = shifted - 6_755_399_441_055_744.0;
    let rest = clamped - whole;
    let mut sum = EXP2[9];
    for k in (0..9).rev() {
        sum = sum * rest + EXP2[k];
    }
    let scale = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52));
    (sum * scale) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp2_is_rounded_from_f64() {
        for step in -160_000..160_000 {
            let x = step as f32 * 0.001;
            let expected = f64::from(x).exp2() as f32;
            let error = (i64::from(exp2(x).to_bits()) - i64::from(expected.to_bits())).abs();
            assert!(error <= 1, "{x}: {} and {expected}", exp2(x));
        }
        assert_eq!(exp2(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp2(f32::INFINITY), f32::INFINITY);
        assert!(exp2(f32::NAN).is_nan());
    }

    #[test]
    fn fma_rounds_once() {
        let mut state = 1u64;
        for _ in 0..200_000 {
            let mut next = || {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                // Exponents close together, where cancellation and ties are common, and now and then any bits at all.
                let bits = (state >> 32) as u32;
                if state.is_multiple_of(8) {
                    f32::from_bits(bits)
                } else {
                    f32::from_bits((bits & 0x81ff_f00f) | 0x3e00_0000)
                }
            };
            let (a, b, c) = (next(), next(), next());
            let (got, expected) = (fma(a, b, c), a.mul_add(b, c));
            assert!(
                got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan()),
                "{a:e} {b:e} {c:e}: {got:e} {expected:e}"
            );
        }
    }
}
