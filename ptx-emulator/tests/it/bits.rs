//! Bits, comparisons and selections.

use crate::harness::{check_f32, check_predicate, check16, check32, check64};

#[test]
fn logic() {
    check32("and.b32 %r0, %r1, %r2;", &[0b1100, 0b1010], 0b1000);
    check32("or.b32 %r0, %r1, %r2;", &[0b1100, 0b1010], 0b1110);
    check32("xor.b32 %r0, %r1, %r2;", &[0b1100, 0b1010], 0b0110);
    check32("not.b32 %r0, %r1;", &[0xffff_0000], 0xffff);
    check32("cnot.b32 %r0, %r1;", &[0], 1);
    check64("and.b64 %rd0, %rd1, %rd2;", &[u64::MAX, 1 << 40], 1 << 40);
    check64("not.b64 %rd0, %rd1;", &[0], u64::MAX);
    check16("xor.b16 %h0, %h1, %h2;", &[0xff00, 0x0ff0], 0xf0f0);
    check16("not.b16 %h0, %h1;", &[0xff00], 0x00ff);
    check_predicate("and.pred %p0, %p1, %p2;", &[1, 1], true);
    check_predicate("and.pred %p0, %p1, !%p2;", &[1, 1], false);
    check_predicate("or.pred %p0, %p1, %p2;", &[0, 1], true);
    check_predicate("xor.pred %p0, %p1, %p2;", &[1, 1], false);
    check_predicate("not.pred %p0, %p1;", &[0], true);
}

#[test]
fn lop3_takes_any_table() {
    let inputs = [0b1111_0000, 0b1100_1100, 0b1010_1010];
    for table in [0x00, 0x80, 0xfe, 0x96, 0xe8, 0xca, 0x1b, 0xff] {
        // With these inputs, bit i of the result is bit i of the table.
        let body = format!("lop3.b32 %r0, %r1, %r2, %r3, {table};\nand.b32 %r0, %r0, 255;");
        check32(&body, &inputs, table);
    }
}

#[test]
fn shifts_past_the_width() {
    check32("shl.b32 %r0, %r1, %r2;", &[1, 31], 1 << 31);
    check32("shl.b32 %r0, %r1, %r2;", &[1, 32], 0);
    check32("shr.u32 %r0, %r1, %r2;", &[0x8000_0000, 31], 1);
    check32("shr.u32 %r0, %r1, %r2;", &[0x8000_0000, 32], 0);
    check32("shr.s32 %r0, %r1, %r2;", &[0x8000_0000, 100], u32::MAX);
    check64("shl.b64 %rd0, %rd1, %r2;", &[1, 63], 1 << 63);
    check64("shr.s64 %rd0, %rd1, %r2;", &[1 << 63, 63], u64::MAX);
    check64("shr.u64 %rd0, %rd1, %r2;", &[1 << 63, 64], 0);
    check16("shl.b16 %h0, %h1, %r2;", &[0x4001, 2], 4);
    check16("shr.s16 %h0, %h1, %r2;", &[0x8000, 15], 0xffff);
    check16("shr.u16 %h0, %h1, %r2;", &[0x8000, 15], 1);
    check32(
        "shf.l.wrap.b32 %r0, %r1, %r2, %r3;",
        &[0xf000_0000, 0x1, 4],
        0x1f,
    );
    check32(
        "shf.l.clamp.b32 %r0, %r1, %r2, %r3;",
        &[0x1234_5678, 0x1, 40],
        0x1234_5678,
    );
    check32(
        "shf.l.wrap.b32 %r0, %r1, %r2, %r3;",
        &[0x1234_5678, 0x1, 32],
        1,
    );
    check32(
        "shf.r.wrap.b32 %r0, %r1, %r2, %r3;",
        &[0xf000_0000, 0x1, 28],
        0x1f,
    );
    check32(
        "shf.r.clamp.b32 %r0, %r1, %r2, %r3;",
        &[5, 0x1234, 77],
        0x1234,
    );
}

#[test]
fn counting_and_searching() {
    check32("popc.b32 %r0, %r1;", &[0xf0f0], 8);
    check32("popc.b64 %r0, %rd1;", &[0xf0f0], 8);
    check32("clz.b32 %r0, %r1;", &[1], 31);
    check32("clz.b32 %r0, %r1;", &[0], 32);
    check32("clz.b64 %r0, %rd1;", &[1], 63);
    check32("brev.b32 %r0, %r1;", &[1], 1 << 31);
    check64("brev.b64 %rd0, %rd1;", &[1], 1 << 63);
    check32("bfind.u32 %r0, %r1;", &[0x10], 4);
    check32("bfind.u32 %r0, %r1;", &[0], u32::MAX);
    check32("bfind.s32 %r0, %r1;", &[0xffff_fffe], 0);
    check32("bfind.shiftamt.u32 %r0, %r1;", &[0x10], 27);
    check32("bfind.u64 %r0, %rd1;", &[0x100], 8);
    check32("fns.b32 %r0, %r1, %r2, 2;", &[0b1011_0000, 0], 5);
    check32("fns.b32 %r0, %r1, %r2, -2;", &[0b1011_0000, 7], 5);
    check32("fns.b32 %r0, %r1, %r2, 9;", &[0b1011_0000, 0], u32::MAX);
}

#[test]
fn fields() {
    check32("bfe.u32 %r0, %r1, 8, 8;", &[0x00ab_cdef], 0xcd);
    check32("bfe.s32 %r0, %r1, 8, 8;", &[0x00ab_cdef], 0xffff_ffcd);
    check32("bfe.u32 %r0, %r1, 28, 8;", &[0xf000_0000], 0xf);
    check32("bfe.s32 %r0, %r1, 28, 8;", &[0x9000_0000], 0xffff_fff9);
    check32("bfe.s32 %r0, %r1, 5, 1;", &[0x20], u32::MAX);
    check32("bfe.u32 %r0, %r1, 0, 0;", &[u32::MAX], 0);
    check64(
        "bfe.u64 %rd0, %rd1, 32, 16;",
        &[0x0000_abcd_0000_0000],
        0xabcd,
    );
    check64(
        "bfe.s64 %rd0, %rd1, 32, 16;",
        &[0x0000_abcd_0000_0000],
        0xffff_ffff_ffff_abcd,
    );
    check32(
        "bfi.b32 %r0, %r1, %r2, 8, 8;",
        &[0xab, 0xffff_ffff],
        0xffff_abff,
    );
    check32("bfi.b32 %r0, %r1, %r2, 24, 16;", &[0xab, 0x11], 0xab00_0011);
    check32("bfi.b32 %r0, %r1, %r2, 0, 0;", &[0xab, 0x11], 0x11);
    check64(
        "bfi.b64 %rd0, %rd1, %rd2, 32, 8;",
        &[0xab, 1],
        0xab_0000_0001,
    );
    check32("bmsk.clamp.b32 %r0, %r1, %r2;", &[4, 8], 0xff0);
    check32("bmsk.clamp.b32 %r0, %r1, %r2;", &[0, 40], u32::MAX);
    check32("bmsk.wrap.b32 %r0, %r1, %r2;", &[33, 34], 0b110);
    check32("szext.clamp.s32 %r0, %r1, %r2;", &[0xfb, 8], 0xffff_fffb);
    check32("szext.clamp.u32 %r0, %r1, %r2;", &[0xffff_fffb, 4], 0xb);
    check32(
        "szext.clamp.u32 %r0, %r1, %r2;",
        &[0xffff_fffb, 60],
        0xffff_fffb,
    );
    check32("szext.wrap.s32 %r0, %r1, %r2;", &[0xfb, 40], 0xffff_fffb);
}

#[test]
fn prmt_picks_bytes() {
    let inputs = [0x3322_1100, 0x7766_5544, 0x0000_7351];
    check32("prmt.b32 %r0, %r1, %r2, %r3;", &inputs, 0x7733_5511);
    check32(
        "prmt.b32 %r0, %r1, %r2, 0x000a;",
        &[0x0080_0000, 0],
        0x0000_00ff,
    );
    check32(
        "prmt.b32 %r0, %r1, %r2, 0x5410;",
        &[0x3322_1100, 0x7766_5544],
        0x5544_1100,
    );
    check32(
        "prmt.b32.f4e %r0, %r1, %r2, 1;",
        &[0x3322_1100, 0x7766_5544],
        0x4433_2211,
    );
    check32(
        "prmt.b32.b4e %r0, %r1, %r2, 1;",
        &[0x3322_1100, 0x7766_5544],
        0x6677_0011,
    );
    check32(
        "prmt.b32.rc8 %r0, %r1, %r2, 2;",
        &[0x3322_1100, 0x7766_5544],
        0x2222_2222,
    );
    check32(
        "prmt.b32.ecl %r0, %r1, %r2, 2;",
        &[0x3322_1100, 0],
        0x3322_2222,
    );
    check32(
        "prmt.b32.ecr %r0, %r1, %r2, 1;",
        &[0x3322_1100, 0],
        0x1111_1100,
    );
    check32(
        "prmt.b32.rc16 %r0, %r1, %r2, 1;",
        &[0x3322_1100, 0],
        0x3322_3322,
    );
}

#[test]
fn setp_compares_and_combines() {
    check_predicate("setp.lt.s32 %p0, %r1, %r2;", &[0xffff_ffff, 1], true);
    check_predicate("setp.lt.u32 %p0, %r1, %r2;", &[0xffff_ffff, 1], false);
    check_predicate("setp.lo.u32 %p0, %r1, %r2;", &[1, 2], true);
    check_predicate("setp.hs.u32 %p0, %r1, %r2;", &[1, 2], false);
    check_predicate("setp.ge.s64 %p0, %rd1, %rd2;", &[u64::MAX, 0], false);
    check_predicate("setp.gt.u64 %p0, %rd1, %rd2;", &[u64::MAX, 0], true);
    check_predicate("setp.eq.b16 %p0, %h1, %h2;", &[0x1_0005, 5], true);
    check_predicate("setp.lt.s16 %p0, %h1, %h2;", &[0xffff, 0], true);
    check_predicate("setp.eq.and.s32 %p0, %r1, %r2, %p3;", &[1, 1, 0], false);
    check_predicate("setp.eq.and.s32 %p0, %r1, %r2, !%p3;", &[1, 1, 0], true);
    check_predicate("setp.eq.or.s32 %p0, %r1, %r2, %p3;", &[1, 2, 1], true);
    check_predicate("setp.eq.xor.s32 %p0, %r1, %r2, %p3;", &[1, 1, 1], false);
    check_predicate("setp.eq.s32 %p5|%p0, %r1, %r2;", &[1, 2], true);
    check_predicate("setp.eq.and.s32 %p5|%p0, %r1, %r2, %p3;", &[1, 2, 1], true);
}

#[test]
fn setp_of_floats_knows_nan() {
    let (one, nan) = (u64::from(1f32.to_bits()), u64::from(f32::NAN.to_bits()));
    check_predicate(
        "setp.lt.f32 %p0, %r1, %r2;",
        &[u64::from((-1f32).to_bits()), one],
        true,
    );
    check_predicate("setp.ne.f32 %p0, %r1, %r2;", &[nan, one], false);
    check_predicate("setp.neu.f32 %p0, %r1, %r2;", &[nan, one], true);
    check_predicate("setp.geu.f32 %p0, %r1, %r2;", &[nan, one], true);
    check_predicate("setp.num.f32 %p0, %r1, %r2;", &[nan, one], false);
    check_predicate("setp.nan.f32 %p0, %r1, %r2;", &[nan, one], true);
    check_predicate("setp.eq.ftz.f32 %p0, %r1, %r2;", &[1, 0], true);
    check_predicate("setp.eq.f32 %p0, %r1, %r2;", &[1, 0], false);
    check_predicate(
        "setp.gt.f64 %p0, %rd1, %rd2;",
        &[2f64.to_bits(), 1f64.to_bits()],
        true,
    );
    check_predicate("setp.lt.f16 %p0, %h1, %h2;", &[0xbc00, 0x3c00], true);
    check_predicate("setp.gt.bf16 %p0, %h1, %h2;", &[0x3f80, 0xbf80], true);
    check_predicate(
        "setp.gt.f16x2 %p5|%p0, %r1, %r2;",
        &[0x3c00_0000, 0x0000_3c00],
        true,
    );
    check_predicate(
        "setp.gt.f16x2 %p0|%p5, %r1, %r2;",
        &[0x3c00_0000, 0x0000_3c00],
        false,
    );
}

#[test]
fn set_gives_ones_or_one() {
    check32("set.eq.u32.s32 %r0, %r1, %r2;", &[3, 3], u32::MAX);
    check32("set.eq.u32.s32 %r0, %r1, %r2;", &[3, 4], 0);
    check32(
        "set.lt.f32.f32 %r0, %r1, %r2;",
        &[1f32.to_bits(), 2f32.to_bits()],
        1f32.to_bits(),
    );
    check32(
        "set.gt.f16x2.f16x2 %r0, %r1, %r2;",
        &[0x3c00_0000, 0x0000_3c00],
        0x3c00_0000,
    );
}

#[test]
fn selections() {
    check32("selp.b32 %r0, %r1, %r2, %p3;", &[1, 2, 1], 1);
    check32("selp.b32 %r0, %r1, %r2, %p3;", &[1, 2, 0], 2);
    check64("selp.b64 %rd0, %rd1, %rd2, %p3;", &[1, 2, 0], 2);
    check_f32("selp.f32 %r0, 0f3F800000, %r2, %p1;", &[1.0, 2.0], 1.0);
    check16("selp.b16 %h0, %h1, %h2, %p3;", &[1, 2, 0], 2);
    check32("slct.u32.s32 %r0, %r1, %r2, %r3;", &[1, 2, 0xffff_ffff], 2);
    check32("slct.u32.s32 %r0, %r1, %r2, %r3;", &[1, 2, 0], 1);
    check32("slct.f32.f32 %r0, %r1, %r2, %r3;", &[1, 2, 0x8000_0000], 1);
    check64(
        "slct.u64.s32 %rd0, %rd1, %rd2, %r3;",
        &[1, 2, 0xffff_ffff],
        2,
    );
}
