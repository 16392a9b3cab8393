//! `cvt`.

use crate::harness::{check16, check32, check64};

fn f(x: f32) -> u32 {
    x.to_bits()
}

#[test]
fn integers_extend_truncate_and_saturate() {
    check64("cvt.u64.u32 %rd0, %r1;", &[0xffff_ffff], 0xffff_ffff);
    check64("cvt.s64.s32 %rd0, %r1;", &[0xffff_ffff], u64::MAX);
    check64("cvt.s64.s16 %rd0, %h1;", &[0x8000], 0xffff_ffff_ffff_8000);
    check64("cvt.u64.u16 %rd0, %h1;", &[0x8000], 0x8000);
    check64("cvt.s64.s8 %rd0, %r1;", &[0x80], 0xffff_ffff_ffff_ff80);
    check32("cvt.u32.u64 %r0, %rd1;", &[7], 7);
    check32("cvt.s32.s16 %r0, %h1;", &[0x8000], 0xffff_8000);
    check32("cvt.u32.u16 %r0, %h1;", &[0x8000], 0x8000);
    check32("cvt.s32.s8 %r0, %r1;", &[0x180], 0xffff_ff80);
    check32("cvt.u32.u8 %r0, %r1;", &[0x180], 0x80);
    check16("cvt.u16.u32 %h0, %r1;", &[0xffff], 0xffff);
    check16("cvt.s16.s8 %h0, %r1;", &[0x80], 0xff80);
    check32("cvt.sat.u8.s32 %r0, %r1;", &[300], 255);
    check32("cvt.sat.u8.s32 %r0, %r1;", &[0xffff_fff0], 0);
    check32("cvt.sat.s16.s32 %r0, %r1;", &[0x1_0000], 0x7fff);
    check32("cvt.sat.u32.s32 %r0, %r1;", &[0xffff_ffff], 0);
    check32("cvt.s8.s32 %r0, %r1;", &[0x1ff], u32::MAX);
    check32(
        "cvt.pack.sat.u8.s32.b32 %r0, %r1, %r2, %r3;",
        &[300, 0xffff_ffff, 0xabcd],
        0xabcd_ff00,
    );
    check32(
        "cvt.pack.sat.s16.s32 %r0, %r1, %r2;",
        &[40_000, 5],
        0x7fff_0005,
    );
}

#[test]
fn floats_become_integers() {
    check32("cvt.rzi.s32.f32 %r0, %r1;", &[f(-1.9)], (-1i32) as u32);
    check32("cvt.rni.s32.f32 %r0, %r1;", &[f(2.5)], 2);
    check32("cvt.rmi.s32.f32 %r0, %r1;", &[f(-1.1)], (-2i32) as u32);
    check32("cvt.rpi.s32.f32 %r0, %r1;", &[f(1.1)], 2);
    check32("cvt.rzi.u32.f32 %r0, %r1;", &[f(-5.0)], 0);
    check32("cvt.rzi.s32.f32 %r0, %r1;", &[f(1e20)], i32::MAX as u32);
    check32("cvt.rzi.s32.f32 %r0, %r1;", &[f(f32::NAN)], 0);
    check32("cvt.rni.u8.f32 %r0, %r1;", &[f(300.0)], 255);
    check64(
        "cvt.rzi.s64.f64 %rd0, %rd1;",
        &[(-2.5f64).to_bits()],
        (-2i64) as u64,
    );
    check64(
        "cvt.rzi.u64.f32 %rd0, %r1;",
        &[u64::from(f(1e30))],
        u64::MAX,
    );
    check32("cvt.rzi.s32.f64 %r0, %rd1;", &[0], 0);
    check32("cvt.rzi.s32.f16 %r0, %h1;", &[0xc100], (-2i32) as u32);
    check32("cvt.rzi.ftz.u32.f32 %r0, %r1;", &[f(7.9)], 7);
}

#[test]
fn floats_become_integral_floats() {
    check32("cvt.rni.f32.f32 %r0, %r1;", &[f(2.5)], f(2.0));
    check32("cvt.rmi.f32.f32 %r0, %r1;", &[f(-2.5)], f(-3.0));
    check32("cvt.rpi.f32.f32 %r0, %r1;", &[f(-2.5)], f(-2.0));
    check32("cvt.rzi.f32.f32 %r0, %r1;", &[f(-2.5)], f(-2.0));
    check32("cvt.sat.f32.f32 %r0, %r1;", &[f(2.5)], f(1.0));
    check32("cvt.ftz.f32.f32 %r0, %r1;", &[1], 0);
}

#[test]
fn integers_become_floats() {
    check32("cvt.rn.f32.s32 %r0, %r1;", &[(-3i32) as u32], f(-3.0));
    check32("cvt.rn.f32.u32 %r0, %r1;", &[0x0100_0001], f(16_777_216.0));
    check32("cvt.rp.f32.u32 %r0, %r1;", &[0x0100_0001], f(16_777_218.0));
    check32("cvt.rz.f32.s32 %r0, %r1;", &[0x0100_0003], f(16_777_218.0));
    check32("cvt.rn.f32.s64 %r0, %rd1;", &[5], f(5.0));
    check64(
        "cvt.rn.f64.s32 %rd0, %r1;",
        &[0xffff_ffff],
        (-1f64).to_bits(),
    );
    check64(
        "cvt.rn.f64.u64 %rd0, %rd1;",
        &[u64::MAX],
        (2f64.powi(64)).to_bits(),
    );
    check64(
        "cvt.rz.f64.u64 %rd0, %rd1;",
        &[u64::MAX],
        (2f64.powi(64)).next_down().to_bits(),
    );
    check16("cvt.rn.f16.s32 %h0, %r1;", &[2], 0x4000);
    check16("cvt.rn.bf16.u16 %h0, %h1;", &[3], 0x4040);
    check32("cvt.rn.f32.s16 %r0, %h1;", &[0xffff], f(-1.0));
    check32("cvt.rn.f32.u8 %r0, %r1;", &[0x1ff], f(255.0));
}

#[test]
fn floats_change_width() {
    check64(
        "cvt.f64.f32 %rd0, %r1;",
        &[u64::from(f(1.5))],
        1.5f64.to_bits(),
    );
    check32("cvt.rn.f32.f64 %r0, %rd1;", &[0], 0);
    check16("cvt.rn.f16.f32 %h0, %r1;", &[0], 0);
    check32("cvt.f32.f16 %r0, %h1;", &[0x3c00], f(1.0));
    check32("cvt.f32.bf16 %r0, %h1;", &[0x3f80], f(1.0));
    check32(
        "cvt.rn.bf16x2.f32 %r0, %r1, %r2;",
        &[f(1.0), f(2.0)],
        0x3f80_4000,
    );
    check32(
        "cvt.rn.f16x2.f32 %r0, %r1, %r2;",
        &[f(1.0), f(2.0)],
        0x3c00_4000,
    );
    check32(
        "cvt.rz.bf16x2.f32 %r0, %r1, %r2;",
        &[0x3f80_ffff, 0xbf80_ffff],
        0x3f80_bf80,
    );
    check32(
        "cvt.rn.bf16x2.f32 %r0, %r1, %r2;",
        &[0x3f80_8000, 0x3f81_8000],
        0x3f80_3f82,
    );
    check32(
        "cvt.rn.relu.f16x2.f32 %r0, %r1, %r2;",
        &[f(-1.0), f(2.0)],
        0x0000_4000,
    );
    check32(
        "cvt.rn.satfinite.f16x2.f32 %r0, %r1, %r2;",
        &[f(1e9), f(2.0)],
        0x7bff_4000,
    );
    check32("cvt.rna.tf32.f32 %r0, %r1;", &[0x3f80_1000], 0x3f80_2000);
    check32("cvt.rn.tf32.f32 %r0, %r1;", &[0x3f80_1000], 0x3f80_0000);
    check32(
        "cvt.rn.satfinite.e4m3x2.f32 %h0, %r1, %r2;\ncvt.u32.u16 %r0, %h0;",
        &[f(1.0), f(1000.0)],
        0x387e,
    );
    check32(
        "cvt.rn.satfinite.e5m2x2.f32 %h0, %r1, %r2;\ncvt.u32.u16 %r0, %h0;",
        &[f(1.0), f(-2.0)],
        0x3cc0,
    );
    check32("cvt.rn.f16x2.e4m3x2 %r0, %h1;", &[0x38b8], 0x3c00_bc00);
    check32("cvt.rn.f16x2.e5m2x2 %r0, %h1;", &[0x3cc0], 0x3c00_c000);
    check32(
        "cvt.rn.satfinite.e4m3x2.f16x2 %h0, %r1;\ncvt.u32.u16 %r0, %h0;",
        &[0x3c00_4000],
        0x3840,
    );
}
