//! `mov`, special registers and clocks.

use crate::harness::{check_lanes, check16, check32, check64, threads};

#[test]
fn packing_and_unpacking() {
    check32("mov.b32 %r0, {%h1, %h2};", &[0x1111, 0x2222], 0x2222_1111);
    check32(
        "mov.b32 {%h5, %h6}, %r1;\ncvt.u32.u16 %r0, %h6;",
        &[0x2222_1111],
        0x2222,
    );
    check32(
        "mov.b32 {_, %h6}, %r1;\ncvt.u32.u16 %r0, %h6;",
        &[0x2222_1111],
        0x2222,
    );
    check64(
        "mov.b64 %rd0, {%r1, %r2};",
        &[0x1111, 0x2222],
        0x2222_0000_1111,
    );
    check32("mov.b64 {%r5, %r0}, %rd1;", &[0], 0);
    check64(
        "mov.b64 {%r5, %r6}, %rd1;\nmov.b64 %rd0, {%r6, %r5};",
        &[0x1111_2222_3333_4444],
        0x3333_4444_1111_2222,
    );
    check64(
        "mov.b64 %rd0, {%h1, %h2, %h3, %h4};",
        &[1, 2, 3, 4],
        0x0004_0003_0002_0001,
    );
    check16("mov.b64 {%h5, %h6, %h7, %h0}, %rd1;", &[5], 0);
    check32("mov.b32 %r0, 0f3F800000;", &[], 0x3f80_0000);
    check64("mov.f64 %rd0, 0d3FF0000000000000;", &[], 1f64.to_bits());
    check32(
        ".reg .b8 %b<4>;\nmov.b32 {%b0, %b1, %b2, %b3}, %r1;\nmov.b32 %r0, {%b3, %b2, %b1, %b0};",
        &[0x1122_3344],
        0x4433_2211,
    );
    check16("mov.b16 %h0, %h1;", &[0x1234], 0x1234);
}

#[test]
fn lanes_know_who_they_are() {
    check_lanes(
        "mov.u32 %r2, %laneid;\nst.global.u32 [%out], %r2;",
        |lane| lane,
    );
    check_lanes(
        "mov.u32 %r2, %lanemask_lt;\nst.global.u32 [%out], %r2;",
        |lane| (1 << lane) - 1,
    );
    check_lanes(
        "mov.u32 %r2, %lanemask_ge;\nst.global.u32 [%out], %r2;",
        |lane| u32::MAX << lane,
    );
    check_lanes(
        "mov.u32 %r2, %lanemask_gt;\nst.global.u32 [%out], %r2;",
        |lane| (u32::MAX << lane) << 1,
    );
    check_lanes(
        "mov.u32 %r2, %lanemask_le;\nst.global.u32 [%out], %r2;",
        |lane| u32::MAX >> (31 - lane),
    );
    check_lanes(
        "mov.u32 %r2, %lanemask_eq;\nst.global.u32 [%out], %r2;",
        |lane| 1 << lane,
    );
    check_lanes(
        "mov.u32 %r2, %dynamic_smem_size;\nst.global.u32 [%out], %r2;",
        |_| 1024,
    );
    let found = threads(
        "",
        "mov.u32 %r2, %warpid;\nmov.u32 %r3, %nwarpid;\nmad.lo.u32 %r2, %r3, 100, %r2;\nst.global.u32 [%out], %r2;",
        70,
    );
    assert_eq!(found, (0..70).map(|t| 300 + t / 32).collect::<Vec<u32>>());
    check_lanes(
        "mov.u32 %r2, %ntid.x;\nmov.u32 %r3, %nctaid.y;\nadd.u32 %r2, %r2, %r3;\nst.global.u32 [%out], %r2;",
        |_| 33,
    );
}

#[test]
fn clocks_go_on() {
    check32(
        "mov.u32 %r5, %clock;\nmov.u32 %r6, %clock;\nsetp.lt.u32 %p5, %r5, %r6;\nselp.u32 %r0, 1, 0, %p5;",
        &[],
        1,
    );
    check32(
        "mov.u64 %rd5, %clock64;\nmov.u64 %rd6, %globaltimer;\nsetp.lt.u64 %p5, %rd5, %rd6;\nselp.u32 %r0, 1, 0, %p5;",
        &[],
        1,
    );
}
