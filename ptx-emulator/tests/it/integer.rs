//! Integer arithmetic.

use crate::harness::{check16, check32, check64};

const MIN32: u32 = 0x8000_0000;
const MIN64: u64 = 1 << 63;

fn s(x: i32) -> u32 {
    x as u32
}

fn d(x: i64) -> u64 {
    x as u64
}

#[test]
fn add_and_sub_wrap_or_saturate() {
    check32("add.u32 %r0, %r1, %r2;", &[u32::MAX, 2], 1);
    check32("add.s32 %r0, %r1, -7;", &[5], s(-2));
    check32(
        "add.sat.s32 %r0, %r1, %r2;",
        &[i32::MAX as u32, 1],
        i32::MAX as u32,
    );
    check32("sub.sat.s32 %r0, %r1, %r2;", &[MIN32, 1], MIN32);
    check32("sub.s32 %r0, %r1, %r2;", &[3, 5], s(-2));
    check64("add.s64 %rd0, %rd1, %rd2;", &[u64::MAX, 1], 0);
    check64("sub.u64 %rd0, %rd1, %rd2;", &[0, 1], u64::MAX);
    check16("add.u16 %h0, %h1, %h2;", &[0xffff, 2], 1);
    check16("sub.s16 %h0, %h1, %h2;", &[0, 1], 0xffff);
    check32("add.u16x2 %r0, %r1, %r2;", &[0xffff_0001, 0x0001_ffff], 0);
}

#[test]
fn carries_pass_from_one_instruction_to_the_next() {
    check32(
        "add.cc.u32 %r5, %r1, %r2;\naddc.u32 %r0, %r3, %r4;",
        &[u32::MAX, 1, 10, 20],
        31,
    );
    check32(
        "add.cc.u32 %r5, %r1, %r2;\naddc.u32 %r0, %r3, %r4;",
        &[u32::MAX, 0, 10, 20],
        30,
    );
    check32(
        "add.cc.u32 %r5, %r1, %r2;\naddc.cc.u32 %r6, %r3, %r4;\naddc.u32 %r0, 0, 0;",
        &[1, u32::MAX, u32::MAX, 0],
        1,
    );
    check32(
        "sub.cc.u32 %r5, %r1, %r2;\nsubc.u32 %r0, %r3, %r4;",
        &[0, 1, 10, 3],
        6,
    );
    check32(
        "sub.cc.u32 %r5, %r1, %r2;\nsubc.u32 %r0, %r3, %r4;",
        &[1, 1, 10, 3],
        7,
    );
    check64(
        "add.cc.u64 %rd5, %rd1, %rd2;\naddc.u64 %rd0, %rd3, %rd4;",
        &[u64::MAX, 1, 1, 2],
        4,
    );
    check32(
        "mad.lo.cc.u32 %r5, %r1, %r2, %r3;\nmadc.hi.u32 %r0, %r1, %r2, %r4;",
        &[0x1_0001, 0x1_0000, 0xffff_0000, 5],
        7,
    );
}

#[test]
fn products_come_in_halves_or_whole() {
    check32("mul.lo.u32 %r0, %r1, %r2;", &[0x1_0000, 0x1_0001], 0x1_0000);
    check32(
        "mul.hi.u32 %r0, %r1, %r2;",
        &[u32::MAX, u32::MAX],
        0xffff_fffe,
    );
    check32("mul.hi.s32 %r0, %r1, %r2;", &[s(-1), 5], s(-1));
    check64(
        "mul.wide.u32 %rd0, %r1, %r2;",
        &[0xffff_ffff, 0xffff_ffff],
        0xffff_fffe_0000_0001,
    );
    check64("mul.wide.s32 %rd0, %r1, %r2;", &[0xffff_ffff, 3], d(-3));
    check32(
        "mul.wide.u16 %r0, %h1, %h2;",
        &[0xffff, 0xffff],
        0xfffe_0001,
    );
    check32("mul.wide.s16 %r0, %h1, %h2;", &[0xffff, 2], s(-2));
    check16("mul.lo.u16 %h0, %h1, %h2;", &[0x101, 0x100], 0x100);
    check16("mul.hi.u16 %h0, %h1, %h2;", &[0xffff, 0xffff], 0xfffe);
    check16("mul.hi.s16 %h0, %h1, %h2;", &[0x8000, 0x8000], 0x4000);
    check64("mul.lo.s64 %rd0, %rd1, %rd2;", &[d(-3), 7], d(-21));
    check64(
        "mul.hi.u64 %rd0, %rd1, %rd2;",
        &[u64::MAX, u64::MAX],
        u64::MAX - 1,
    );
    check64("mul.hi.s64 %rd0, %rd1, %rd2;", &[d(-1), 1], d(-1));
    check32("mad.lo.s32 %r0, %r1, %r2, %r3;", &[s(-2), 3, 10], 4);
    check32("mad.hi.u32 %r0, %r1, %r2, %r3;", &[MIN32, 4, 1], 3);
    check32(
        "mad.hi.sat.s32 %r0, %r1, %r2, %r3;",
        &[0x4000_0000, 8, i32::MAX as u32],
        i32::MAX as u32,
    );
    check64(
        "mad.wide.s32 %rd0, %r1, %r2, %rd3;",
        &[0xffff_ffff, 3, 10],
        7,
    );
    check64(
        "mad.wide.u32 %rd0, %r1, %r2, %rd3;",
        &[0xffff_ffff, 2, 3],
        0x2_0000_0001,
    );
    check64("mad.lo.s64 %rd0, %rd1, %rd2, %rd3;", &[5, 6, 7], 37);
    check32("mul24.lo.u32 %r0, %r1, %r2;", &[0xff00_0003, 5], 15);
    check32("mul24.lo.s32 %r0, %r1, %r2;", &[0x00ff_ffff, 5], s(-5));
    check32(
        "mul24.hi.u32 %r0, %r1, %r2;",
        &[0xff_ffff, 0xff_ffff],
        0xffff_fe00,
    );
    check32("mad24.lo.s32 %r0, %r1, %r2, %r3;", &[7, 6, 8], 50);
}

#[test]
fn division_truncates() {
    check32("div.s32 %r0, %r1, %r2;", &[s(-7), 2], s(-3));
    check32("rem.s32 %r0, %r1, %r2;", &[s(-7), 2], s(-1));
    check32("div.u32 %r0, %r1, %r2;", &[s(-7), 2], 0x7fff_fffc);
    check32("rem.u32 %r0, %r1, %r2;", &[17, 5], 2);
    check32("div.s32 %r0, %r1, %r2;", &[MIN32, s(-1)], MIN32);
    check32("div.u32 %r0, %r1, %r2;", &[5, 0], u32::MAX);
    check64("div.s64 %rd0, %rd1, %rd2;", &[d(-9), 4], d(-2));
    check64("rem.u64 %rd0, %rd1, %rd2;", &[1 << 40, 7], (1 << 40) % 7);
    check64("div.s64 %rd0, %rd1, %rd2;", &[MIN64, d(-1)], MIN64);
    check16("div.s16 %h0, %h1, %h2;", &[0xfff9, 2], 0xfffd);
    check16("rem.u16 %h0, %h1, %h2;", &[17, 5], 2);
}

#[test]
fn magnitudes_and_extremes() {
    check32("abs.s32 %r0, %r1;", &[s(-5)], 5);
    check32("neg.s32 %r0, %r1;", &[5], s(-5));
    check64("abs.s64 %rd0, %rd1;", &[d(-5)], 5);
    check64("neg.s64 %rd0, %rd1;", &[5], d(-5));
    check16("abs.s16 %h0, %h1;", &[0xfffb], 5);
    check16("neg.s16 %h0, %h1;", &[5], 0xfffb);
    check32("min.s32 %r0, %r1, %r2;", &[s(-1), 1], s(-1));
    check32("min.u32 %r0, %r1, %r2;", &[s(-1), 1], 1);
    check32("max.s32 %r0, %r1, %r2;", &[s(-1), 1], 1);
    check32("max.relu.s32 %r0, %r1, %r2;", &[s(-1), s(-2)], 0);
    check64("max.u64 %rd0, %rd1, %rd2;", &[d(-1), 1], d(-1));
    check64("min.s64 %rd0, %rd1, %rd2;", &[d(-1), 1], d(-1));
    check16("max.s16 %h0, %h1, %h2;", &[0xffff, 1], 1);
    check16("min.u16 %h0, %h1, %h2;", &[0xffff, 1], 1);
    check32(
        "min.s16x2 %r0, %r1, %r2;",
        &[0xffff_0005, 0x0001_0003],
        0xffff_0003,
    );
    check32(
        "max.u16x2 %r0, %r1, %r2;",
        &[0xffff_0005, 0x0001_0003],
        0xffff_0005,
    );
    check32(
        "max.relu.s16x2 %r0, %r1, %r2;",
        &[0xffff_0005, 0xfffe_0003],
        0x0000_0005,
    );
    check32("sad.u32 %r0, %r1, %r2, %r3;", &[3, 10, 100], 107);
    check32("sad.s32 %r0, %r1, %r2, %r3;", &[s(-3), 10, 100], 113);
}

#[test]
fn dot_products_of_bytes() {
    let a = 0xff02_03fe;
    let b = 0x0405_06ff;
    check32(
        "dp4a.u32.u32 %r0, %r1, %r2, %r3;",
        &[a, b, 1],
        255 * 4 + 2 * 5 + 3 * 6 + 254 * 255 + 1,
    );
    check32(
        "dp4a.s32.s32 %r0, %r1, %r2, %r3;",
        &[a, b, 1],
        s(-4 + 10 + 18 + 2 + 1),
    );
    check32(
        "dp4a.s32.u32 %r0, %r1, %r2, %r3;",
        &[a, b, 1],
        s(-4 + 10 + 18 - 2 * 255 + 1),
    );
    check32(
        "dp2a.lo.u32.u32 %r0, %r1, %r2, %r3;",
        &[0x0003_0002, 0x0807_0605, 1],
        2 * 5 + 3 * 6 + 1,
    );
    check32(
        "dp2a.hi.s32.s32 %r0, %r1, %r2, %r3;",
        &[0xffff_0002, 0x0807_0605, 1],
        s(2 * 7 - 8 + 1),
    );
}
