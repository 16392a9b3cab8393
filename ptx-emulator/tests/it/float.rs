//! Arithmetic on floats.

use half::{bf16, f16};

use crate::harness::{check_f32, check_f64, check_predicate, check16, check32, check64};

const TINY: f32 = f32::from_bits(1);

fn pair16(high: f32, low: f32) -> u32 {
    u32::from(f16::from_f32(high).to_bits()) << 16 | u32::from(f16::from_f32(low).to_bits())
}

fn pair_b16(high: f32, low: f32) -> u32 {
    u32::from(bf16::from_f32(high).to_bits()) << 16 | u32::from(bf16::from_f32(low).to_bits())
}

#[test]
fn f32_sums_round_in_every_direction() {
    let half_ulp = f32::from_bits(0x3380_0000); // 2^-24
    check_f32("add.f32 %r0, %r1, %r2;", &[1.0, 2.0], 3.0);
    check_f32("add.rn.f32 %r0, %r1, %r2;", &[1.0, half_ulp], 1.0);
    check_f32(
        "add.rp.f32 %r0, %r1, %r2;",
        &[1.0, half_ulp],
        1.0 + f32::EPSILON,
    );
    check_f32(
        "add.rm.f32 %r0, %r1, %r2;",
        &[1.0, -half_ulp],
        1.0 - f32::EPSILON / 2.0,
    );
    check_f32("add.rz.f32 %r0, %r1, %r2;", &[-1.0, -half_ulp], -1.0);
    check_f32(
        "add.rp.f32 %r0, %r1, %r2;",
        &[1.0, TINY],
        1.0 + f32::EPSILON,
    );
    check_f32("add.rz.f32 %r0, %r1, %r2;", &[f32::MAX, f32::MAX], f32::MAX);
    check_f32("add.rm.f32 %r0, %r1, %r2;", &[1.0, -1.0], -0.0);
    check_f32("sub.f32 %r0, %r1, %r2;", &[1.0, 3.0], -2.0);
    check_f32("add.ftz.f32 %r0, %r1, %r2;", &[TINY, TINY], 0.0);
    check_f32("add.f32 %r0, %r1, %r2;", &[TINY, TINY], f32::from_bits(2));
    check_f32("add.sat.f32 %r0, %r1, %r2;", &[1.0, 3.0], 1.0);
    check_f32("add.sat.f32 %r0, %r1, %r2;", &[1.0, -3.0], 0.0);
    check_f32("add.sat.f32 %r0, %r1, %r2;", &[f32::NAN, 1.0], 0.0);
    check_f32(
        "add.f32 %r0, %r1, %r2;",
        &[f32::INFINITY, f32::NEG_INFINITY],
        f32::NAN,
    );
}

#[test]
fn f32_products_round_in_every_direction() {
    let third = 1.0f32 / 3.0;
    check_f32("mul.f32 %r0, %r1, %r2;", &[3.0, -2.5], -7.5);
    check_f32(
        "mul.rz.f32 %r0, %r1, %r2;",
        &[third, third],
        f32::from_bits(0x3de3_8e39),
    );
    check_f32(
        "mul.rn.f32 %r0, %r1, %r2;",
        &[third, third],
        f32::from_bits(0x3de3_8e3a),
    );
    check_f32(
        "mul.rp.f32 %r0, %r1, %r2;",
        &[1.0 + f32::EPSILON, 1.0 + f32::EPSILON],
        1.0 + 3.0 * f32::EPSILON,
    );
    check_f32(
        "mul.rm.f32 %r0, %r1, %r2;",
        &[1.0 + f32::EPSILON, 1.0 + f32::EPSILON],
        1.0 + 2.0 * f32::EPSILON,
    );
    check_f32("mul.ftz.f32 %r0, %r1, %r2;", &[f32::MIN_POSITIVE, 0.5], 0.0);
    check_f32(
        "mul.f32 %r0, %r1, %r2;",
        &[f32::MIN_POSITIVE, 0.5],
        f32::MIN_POSITIVE / 2.0,
    );
    check_f32("mul.sat.f32 %r0, %r1, %r2;", &[2.0, 0.25], 0.5);
}

#[test]
fn fma_rounds_once() {
    let (a, c) = (1.0 + f32::EPSILON, -(1.0 + 2.0 * f32::EPSILON));
    check_f32(
        "fma.rn.f32 %r0, %r1, %r2, %r3;",
        &[a, a, c],
        f32::EPSILON * f32::EPSILON,
    );
    check_f32(
        "fma.rn.f32 %r0, %r1, %r2, %r3;",
        &[a, a, 1e-30],
        a.mul_add(a, 1e-30),
    );
    check_f32(
        "fma.rp.f32 %r0, %r1, %r2, %r3;",
        &[1.0, 1.0, TINY],
        1.0 + f32::EPSILON,
    );
    check_f32(
        "fma.rz.f32 %r0, %r1, %r2, %r3;",
        &[1.0, 1.0, -TINY],
        1.0 - f32::EPSILON / 2.0,
    );
    check_f32("fma.rn.sat.f32 %r0, %r1, %r2, %r3;", &[2.0, 2.0, 2.0], 1.0);
    check_f32("fma.rn.ftz.f32 %r0, %r1, %r2, %r3;", &[1.0, TINY, 1.0], 1.0);
    check_f32("mad.f32 %r0, %r1, %r2, %r3;", &[2.0, 3.0, 4.0], 10.0);
    check_f32(
        "fma.rn.f32 %r0, %r1, %r2, %r3;",
        &[f32::INFINITY, 0.0, 1.0],
        f32::NAN,
    );
}

#[test]
fn quotients_and_roots() {
    check_f32("div.rn.f32 %r0, %r1, %r2;", &[1.0, 3.0], 1.0 / 3.0);
    check_f32(
        "div.rm.f32 %r0, %r1, %r2;",
        &[1.0, 3.0],
        (1.0f32 / 3.0).next_down(),
    );
    check_f32(
        "div.rp.f32 %r0, %r1, %r2;",
        &[-1.0, 3.0],
        -(1.0f32 / 3.0).next_down(),
    );
    check_f32("div.full.f32 %r0, %r1, %r2;", &[7.0, 2.0], 3.5);
    check_f32("div.approx.f32 %r0, %r1, %r2;", &[7.0, 2.0], 3.5);
    check_f32("div.approx.f32 %r0, %r1, %r2;", &[1.0, 1.5e38], 0.0);
    check_f32("div.full.f32 %r0, %r1, %r2;", &[1.5e38, 1.5e38], 1.0);
    check_f32("rcp.rn.f32 %r0, %r1;", &[4.0], 0.25);
    check_f32("rcp.approx.ftz.f32 %r0, %r1;", &[-0.0], f32::NEG_INFINITY);
    check_f32("rcp.rz.f32 %r0, %r1;", &[3.0], (1.0f32 / 3.0).next_down());
    check_f32("sqrt.rn.f32 %r0, %r1;", &[2.0], 2f32.sqrt());
    check_f32("sqrt.rp.f32 %r0, %r1;", &[4.0], 2.0);
    check_f32("sqrt.approx.f32 %r0, %r1;", &[-1.0], f32::NAN);
    check_f32("rsqrt.approx.f32 %r0, %r1;", &[4.0], 0.5);
    check_f32("rsqrt.approx.ftz.f32 %r0, %r1;", &[TINY], f32::INFINITY);
}

#[test]
fn approximate_functions() {
    check_f32("ex2.approx.ftz.f32 %r0, %r1;", &[10.0], 1024.0);
    check_f32("ex2.approx.ftz.f32 %r0, %r1;", &[f32::NEG_INFINITY], 0.0);
    check_f32("ex2.approx.ftz.f32 %r0, %r1;", &[-140.0], 0.0);
    check_f32("ex2.approx.f32 %r0, %r1;", &[-140.0], (-140f32).exp2());
    check_f32("lg2.approx.f32 %r0, %r1;", &[8.0], 3.0);
    check_f32("lg2.approx.ftz.f32 %r0, %r1;", &[0.0], f32::NEG_INFINITY);
    check_f32("sin.approx.f32 %r0, %r1;", &[0.5], (0.5f64).sin() as f32);
    check_f32("cos.approx.f32 %r0, %r1;", &[0.5], (0.5f64).cos() as f32);
    check_f32("tanh.approx.f32 %r0, %r1;", &[0.5], (0.5f64).tanh() as f32);
    check32(
        "ex2.approx.ftz.bf16x2 %r0, %r1;",
        &[pair_b16(1.0, 3.0)],
        pair_b16(2.0, 8.0),
    );
    check32(
        "tanh.approx.f16x2 %r0, %r1;",
        &[pair16(0.0, 20.0)],
        pair16(0.0, 1.0),
    );
    check16("ex2.approx.f16 %h0, %h1;", &[0xbc00], 0x3800);
}

#[test]
fn extremes_prefer_numbers_unless_told() {
    check_f32("min.f32 %r0, %r1, %r2;", &[1.0, f32::NAN], 1.0);
    check_f32("max.f32 %r0, %r1, %r2;", &[f32::NAN, 1.0], 1.0);
    check_f32("max.f32 %r0, %r1, %r2;", &[f32::NAN, f32::NAN], f32::NAN);
    check_f32("max.NaN.f32 %r0, %r1, %r2;", &[f32::NAN, 1.0], f32::NAN);
    check_f32("min.f32 %r0, %r1, %r2;", &[0.0, -0.0], -0.0);
    check_f32("max.f32 %r0, %r1, %r2;", &[-0.0, 0.0], 0.0);
    check_f32("max.ftz.f32 %r0, %r1, %r2;", &[TINY, -1.0], 0.0);
    check_f32("max.f32 %r0, %r1, %r2, %r3;", &[1.0, 5.0, 3.0], 5.0);
    check_f32("min.xorsign.abs.f32 %r0, %r1, %r2;", &[-2.0, 3.0], -2.0);
    check_f64("max.f64 %rd0, %rd1, %rd2;", &[1.0, f64::NAN], 1.0);
    check_f64("min.f64 %rd0, %rd1, %rd2;", &[0.0, -0.0], -0.0);
    check32(
        "max.f16x2 %r0, %r1, %r2;",
        &[pair16(1.0, -2.0), pair16(0.5, 3.0)],
        pair16(1.0, 3.0),
    );
    check32(
        "min.bf16x2 %r0, %r1, %r2;",
        &[pair_b16(1.0, -2.0), pair_b16(0.5, 3.0)],
        pair_b16(0.5, -2.0),
    );
    check32(
        "max.NaN.bf16x2 %r0, %r1, %r2;",
        &[0x7fc0_3f80, 0x3f80_3f00],
        0x7fff_3f80,
    );
}

#[test]
fn signs() {
    check_f32("neg.f32 %r0, %r1;", &[1.0], -1.0);
    check_f32("abs.f32 %r0, %r1;", &[-1.0], 1.0);
    check_f32("neg.ftz.f32 %r0, %r1;", &[TINY], -0.0);
    check_f32("copysign.f32 %r0, %r1, %r2;", &[-1.0, 2.0], -2.0);
    check_f64("copysign.f64 %rd0, %rd1, %rd2;", &[-1.0, 2.0], -2.0);
    check_f64("abs.f64 %rd0, %rd1;", &[-1.0], 1.0);
    check32(
        "neg.f16x2 %r0, %r1;",
        &[pair16(1.0, -2.0)],
        pair16(-1.0, 2.0),
    );
    check16("abs.bf16 %h0, %h1;", &[0xbf80], 0x3f80);
}

#[test]
fn testp_sorts_floats() {
    let f = |x: f32| [u64::from(x.to_bits())];
    check_predicate("testp.finite.f32 %p0, %r1;", &f(1.0), true);
    check_predicate("testp.infinite.f32 %p0, %r1;", &f(f32::INFINITY), true);
    check_predicate("testp.number.f32 %p0, %r1;", &f(f32::NAN), false);
    check_predicate("testp.notanumber.f32 %p0, %r1;", &f(f32::NAN), true);
    check_predicate("testp.normal.f32 %p0, %r1;", &f(TINY), false);
    check_predicate("testp.subnormal.f32 %p0, %r1;", &f(TINY), true);
    check_predicate(
        "testp.finite.f64 %p0, %rd1;",
        &[f64::INFINITY.to_bits()],
        false,
    );
}

#[test]
fn f64_rounds_in_every_direction() {
    let e = f64::EPSILON;
    check_f64("add.f64 %rd0, %rd1, %rd2;", &[0.1, 0.2], 0.1 + 0.2);
    check_f64("add.rp.f64 %rd0, %rd1, %rd2;", &[1.0, e / 4.0], 1.0 + e);
    check_f64(
        "sub.rz.f64 %rd0, %rd1, %rd2;",
        &[1.0, e / 8.0],
        1.0 - e / 2.0,
    );
    check_f64(
        "mul.rm.f64 %rd0, %rd1, %rd2;",
        &[1.0 + e, 1.0 + e],
        1.0 + 2.0 * e,
    );
    check_f64(
        "mul.rp.f64 %rd0, %rd1, %rd2;",
        &[1.0 + e, 1.0 + e],
        1.0 + 3.0 * e,
    );
    check_f64(
        "fma.rn.f64 %rd0, %rd1, %rd2, %rd3;",
        &[1.0 + e, 1.0 + e, -(1.0 + 2.0 * e)],
        e * e,
    );
    check_f64(
        "fma.rp.f64 %rd0, %rd1, %rd2, %rd3;",
        &[1.0, 1.0, 1e-300],
        1.0 + e,
    );
    check_f64("div.rn.f64 %rd0, %rd1, %rd2;", &[1.0, 3.0], 1.0 / 3.0);
    check_f64(
        "div.rp.f64 %rd0, %rd1, %rd2;",
        &[1.0, 3.0],
        (1.0f64 / 3.0).next_up(),
    );
    check_f64("sqrt.rn.f64 %rd0, %rd1;", &[2.0], 2f64.sqrt());
    check_f64("rcp.rn.f64 %rd0, %rd1;", &[8.0], 0.125);
    check64(
        "rcp.approx.ftz.f64 %rd0, %rd1;",
        &[3f64.to_bits()],
        (1.0f64 / 3.0).to_bits() & 0xffff_ffff_0000_0000,
    );
    check_f64("rsqrt.approx.f64 %rd0, %rd1;", &[4.0], 0.5);
    check_f64("neg.f64 %rd0, %rd1;", &[4.0], -4.0);
}

#[test]
fn half_precision() {
    check16("add.f16 %h0, %h1, %h2;", &[0x3c00, 0x3c00], 0x4000);
    check16("mul.bf16 %h0, %h1, %h2;", &[0x4000, 0x4040], 0x40c0);
    check32(
        "add.rn.f16x2 %r0, %r1, %r2;",
        &[pair16(1.0, 2.0), pair16(0.5, -3.0)],
        pair16(1.5, -1.0),
    );
    check32(
        "sub.f16x2 %r0, %r1, %r2;",
        &[pair16(1.0, 2.0), pair16(0.5, -3.0)],
        pair16(0.5, 5.0),
    );
    check32(
        "mul.bf16x2 %r0, %r1, %r2;",
        &[pair_b16(3.0, 2.0), pair_b16(0.5, -3.0)],
        pair_b16(1.5, -6.0),
    );
    check32(
        "fma.rn.bf16x2 %r0, %r1, %r2, %r3;",
        &[pair_b16(3.0, 2.0), pair_b16(0.5, -3.0), pair_b16(1.0, 1.0)],
        pair_b16(2.5, -5.0),
    );
    check32(
        "fma.rn.relu.f16x2 %r0, %r1, %r2, %r3;",
        &[pair16(3.0, 2.0), pair16(0.5, -3.0), pair16(1.0, 1.0)],
        pair16(2.5, 0.0),
    );
    check32(
        "fma.rn.sat.f16x2 %r0, %r1, %r2, %r3;",
        &[pair16(3.0, 0.5), pair16(0.5, 0.5), pair16(1.0, 0.0)],
        pair16(1.0, 0.25),
    );
    // 2048 + 1 is a tie in f16: a product of 1.0009765625 squared must not be rounded before the sum.
    check16(
        "fma.rn.f16 %h0, %h1, %h2, %h3;",
        &[0x3c01, 0x3c01, 0x6800],
        0x6801,
    );
    check16("add.ftz.f16 %h0, %h1, %h2;", &[1, 1], 0);
    check16("add.f16 %h0, %h1, %h2;", &[1, 1], 2);
    check16("add.f16 %h0, %h1, %h2;", &[0x7bff, 0x7bff], 0x7c00);
}
