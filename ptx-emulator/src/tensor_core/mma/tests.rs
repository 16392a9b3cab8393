//! Fragments against the formulas of the ISA's chapter on matrix fragments for `mma`, written out, and results against a plain product.
use super::*;
use crate::tensor_core::format::{Format, Overflow, Rounding, f16_to_f32};

/// Writes an element into a fragment at the register and position within it that its index `i` in the manual's list means.
fn put(registers: &mut [Lanes], lane: usize, i: usize, bytes: u32, bits: u32) {
    let per_register = (4 / bytes) as usize;
    let shift = 8 * bytes * (i % per_register) as u32;
    registers[i / per_register][lane] |= bits << shift;
}

/// Row and column of `a_i`, as the manual gives them per shape and type width.
fn a_position(k: u32, bytes: u32, lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    match (k, bytes) {
        // .m16n8k4, .tf32
        (4, 4) => (if i == 0 { group } else { group + 8 }, thread),
        // .m16n8k8, .tf32
        (8, 4) => (
            if i == 0 || i == 2 { group } else { group + 8 },
            if i == 0 || i == 1 { thread } else { thread + 4 },
        ),
        // .m16n8k8, .f16 / .bf16
        (8, 2) => (if i < 2 { group } else { group + 8 }, thread * 2 + (i & 1)),
        // .m16n8k16, .f16 / .bf16
        (16, 2) => (
            if i < 2 || (4..6).contains(&i) {
                group
            } else {
                group + 8
            },
            if i < 4 {
                thread * 2 + (i & 1)
            } else {
                thread * 2 + (i & 1) + 8
            },
        ),
        // .m16n8k16, .s8 / .u8 / .e4m3 / .e5m2
        (16, 1) => (if i < 4 { group } else { group + 8 }, thread * 4 + (i & 3)),
        // .m16n8k32, .s8 / .u8 / .e4m3 / .e5m2
        (32, 1) => (
            if i < 4 || (8..12).contains(&i) {
                group
            } else {
                group + 8
            },
            if i < 8 {
                thread * 4 + (i & 3)
            } else {
                thread * 4 + (i & 3) + 16
            },
        ),
        other => panic!("no such fragment: {other:?}"),
    }
}

/// Row and column of `b_i`.
fn b_position(k: u32, bytes: u32, lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    let row = match (k, bytes) {
        (4, 4) => thread,
        (8, 4) => {
            if i == 0 {
                thread
            } else {
                thread + 4
            }
        }
        (8, 2) => thread * 2 + i,
        (16, 2) => {
            if i < 2 {
                thread * 2 + (i & 1)
            } else {
                thread * 2 + (i & 1) + 8
            }
        }
        (16, 1) => thread * 4 + i,
        (32, 1) => {
            if i < 4 {
                thread * 4 + (i & 3)
            } else {
                thread * 4 + (i & 3) + 16
            }
        }
        other => panic!("no such fragment: {other:?}"),
    };
    (row, group)
}

/// Row and column of `c_i`, the same for every shape.
fn c_position(lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    (if i < 2 { group } else { group + 8 }, thread * 2 + (i & 1))
}

fn encode(element: Element, value: f32) -> u32 {
    let format = match element {
        Element::F16 => Format::F16,
        Element::Bf16 => Format::Bf16,
        Element::Tf32 => Format::Tf32,
        Element::E4m3 => Format::E4m3,
        Element::E5m2 => Format::E5m2,
        Element::S8 | Element::U8 => return u32::from(value as i32 as u8),
    };
    format.encode(f64::from(value), Rounding::NearestEven, Overflow::SatFinite)
}

fn read_accumulator(kind: Accumulator, registers: &[Lanes], lane: usize, i: usize) -> f32 {
    match kind {
        Accumulator::F16 => f16_to_f32((registers[i / 2][lane] >> (16 * (i % 2))) as u16),
        Accumulator::F32 => f32::from_bits(registers[i][lane]),
        Accumulator::S32 => registers[i][lane] as i32 as f32,
    }
}

fn write_accumulator(
    kind: Accumulator,
    registers: &mut [Lanes],
    lane: usize,
    i: usize,
    value: f32,
) {
    match kind {
        Accumulator::F16 => put(registers, lane, i, 2, encode(Element::F16, value)),
        Accumulator::F32 => registers[i][lane] = value.to_bits(),
        Accumulator::S32 => registers[i][lane] = value as i32 as u32,
    }
}

fn parse(text: &str) -> Option<MmaOp> {
    MmaOp::parse(&text.split('.').collect::<Vec<_>>())
}

/// Runs the instruction on given matrices and compares every element of D with the plain product.
#[track_caller]
fn check(
    op: &MmaOp,
    a: impl Fn(usize, usize) -> f32,
    b: impl Fn(usize, usize) -> f32,
    c: impl Fn(usize, usize) -> f32,
) {
    let (a_count, b_count, c_count, d_count) = op.registers();
    let bytes = op.a.bytes();
    let (mut a_registers, mut b_registers) = (vec![[0; 32]; a_count], vec![[0; 32]; b_count]);
    let (mut c_registers, mut d_registers) =
        (vec![[0; 32]; c_count], vec![[0xdead_beef; 32]; d_count]);
    for lane in 0..32 {
        for i in 0..a_count * (4 / bytes) as usize {
            let (row, column) = a_position(op.k, bytes, lane, i);
            put(
                &mut a_registers,
                lane,
                i,
                bytes,
                encode(op.a, a(row, column)),
            );
        }
        for i in 0..b_count * (4 / bytes) as usize {
            let (row, column) = b_position(op.k, bytes, lane, i);
            put(
                &mut b_registers,
                lane,
                i,
                bytes,
                encode(op.b, b(row, column)),
            );
        }
        for i in 0..4 {
            let (row, column) = c_position(lane, i);
            write_accumulator(op.c, &mut c_registers, lane, i, c(row, column));
        }
    }
    mma(
        op,
        &a_registers,
        &b_registers,
        &c_registers,
        &mut d_registers,
    );
    for lane in 0..32 {
        for i in 0..4 {
            let (row, column) = c_position(lane, i);
            let expected: f32 = (0..op.k as usize)
                .map(|k| a(row, k) * b(k, column))
                .sum::<f32>()
                + c(row, column);
            let found = read_accumulator(op.d, &d_registers, lane, i);
            assert_eq!(
                found, expected,
                "{op:?}: row {row}, column {column} in lane {lane}, element {i}"
            );
        }
    }
}

const FORMS: [&str; 25] = [
    "sync.aligned.m16n8k8.row.col.f16.f16.f16.f16",
    "sync.aligned.m16n8k8.row.col.f32.f16.f16.f32",
    "sync.aligned.m16n8k16.row.col.f16.f16.f16.f16",
    "sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "sync.aligned.m16n8k16.row.col.f16.f16.f16.f32",
    "sync.aligned.m16n8k16.row.col.f32.f16.f16.f16",
    "sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32",
    "sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
    "sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32",
    "sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
    "sync.aligned.m16n8k16.row.col.f32.e4m3.e4m3.f32",
    "sync.aligned.m16n8k16.row.col.f16.e5m2.e4m3.f16",
    "sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32",
    "sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32",
    "sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32",
    "sync.aligned.m16n8k32.row.col.f32.e5m2.e4m3.f32",
    "sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16",
    "sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e4m3.f32",
    "sync.aligned.m16n8k16.row.col.s32.s8.s8.s32",
    "sync.aligned.m16n8k16.row.col.s32.u8.u8.s32",
    "sync.aligned.m16n8k32.row.col.s32.s8.s8.s32",
    "sync.aligned.m16n8k32.row.col.s32.u8.s8.s32",
    "sync.aligned.m16n8k32.row.col.s32.s8.u8.s32",
    "sync.aligned.m16n8k32.row.col.s32.u8.u8.s32",
    "sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32",
];

#[test]
fn one_hot_elements_of_every_form_land_where_the_manual_says() {
    for form in FORMS {
        let op = parse(form).unwrap_or_else(|| panic!("{form} is a form"));
        for k in 0..op.k as usize {
            // Each row of A and each column of B is told apart by its value; one k at a time is on.
            let a = |row: usize, column: usize| if column == k { (row + 1) as f32 } else { 0.0 };
            let b = |row: usize, column: usize| if row == k { (column + 1) as f32 } else { 0.0 };
            if op.a == Element::E5m2 || op.b == Element::E5m2 || op.a == Element::E4m3 {
                // Three bits of mantissa or fewer: powers of two are exact.
                let power = |value: f32| {
                    if value == 0.0 {
                        0.0
                    } else {
                        ((value as i32 - 1) as f32 / 2.0).floor().exp2()
                    }
                };
                check(
                    &op,
                    |r, c| power(a(r, c)),
                    |r, c| power(b(r, c)),
                    |_, _| 0.0,
                );
            } else {
                check(&op, a, b, |_, _| 0.0);
            }
        }
        check(
            &op,
            |_, _| 0.0,
            |_, _| 0.0,
            |row, column| (8 * row + column) as f32,
        );
    }
}

#[test]
fn one_element_of_a_reaches_one_row_and_one_of_b_one_column() {
    for form in FORMS {
        let op = parse(form).unwrap_or_else(|| panic!("{form} is a form"));
        for k in 0..op.k as usize {
            for row in 0..16 {
                check(
                    &op,
                    |r, c| f32::from(r == row && c == k),
                    |_, _| 1.0,
                    |_, _| 0.0,
                );
            }
            for column in 0..8 {
                check(
                    &op,
                    |_, _| 1.0,
                    |r, c| f32::from(r == k && c == column),
                    |_, _| 1.0,
                );
            }
        }
    }
}

#[test]
fn dense_matrices_of_small_integers_are_exact() {
    for form in FORMS {
        let op = parse(form).unwrap_or_else(|| panic!("{form} is a form"));
        let signed = !matches!(op.a, Element::U8) && !matches!(op.b, Element::U8);
        let shift = if signed { 2 } else { 0 };
        let value = move |x: usize| (x * 7 % 5) as f32 - shift as f32;
        check(
            &op,
            |r, c| value(3 * r + c),
            |r, c| value(r + 5 * c + 1),
            |r, c| value(r * c),
        );
    }
}

#[test]
fn forms_that_do_not_exist_are_refused() {
    for form in [
        "sync.aligned.m16n8k16.row.col.f16.bf16.bf16.f16",
        "sync.aligned.m16n8k4.row.col.f32.f16.f16.f32",
        "sync.aligned.m16n8k16.col.row.f32.f16.f16.f32",
        "sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32",
        "sync.aligned.m16n8k32.row.col.s32.e4m3.e4m3.s32",
        "sync.aligned.m16n8k16.row.col.satfinite.f32.f16.f16.f32",
        "sync.aligned.m8n8k4.row.col.f64.f64.f64.f64",
        "sync.aligned.m16n8k16.row.col.f32.f16.f16",
        "sync",
        "",
    ] {
        assert_eq!(parse(form), None, "{form}");
    }
}

#[test]
fn integers_wrap_or_saturate() {
    let (a, b, c) = (
        [[0x0101_0101; 32]; 4],
        [[0x0101_0101; 32]; 2],
        [[i32::MAX as u32; 32]; 4],
    );
    let mut d = [[0; 32]; 4];
    mma(
        &parse("sync.aligned.m16n8k32.row.col.s32.s8.s8.s32").unwrap(),
        &a,
        &b,
        &c,
        &mut d,
    );
    assert_eq!(d[3][31] as i32, i32::MAX.wrapping_add(32));
    mma(
        &parse("sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32").unwrap(),
        &a,
        &b,
        &c,
        &mut d,
    );
    assert_eq!(d[3][31] as i32, i32::MAX);
}

#[test]
fn nan_and_infinity_propagate_and_nan_is_canonical() {
    let op = parse("sync.aligned.m16n8k16.row.col.f32.f16.f16.f32").unwrap();
    let one = 0x3c00_3c00;
    let (mut a, b, c) = ([[one; 32]; 4], [[one; 32]; 2], [[0; 32]; 4]);
    a[0][0] = 0x3c00_7c00; // +infinity at row 0
    a[1][4] = 0x3c00_fe01; // a NaN at row 9
    a[2][8] = 0xfc00_7c00; // both infinities at row 2
    let mut d = [[0; 32]; 4];
    mma(&op, &a, &b, &c, &mut d);
    assert_eq!(d[0][0], f32::INFINITY.to_bits());
    assert_eq!(d[2][4], 0x7fff_ffff);
    assert_eq!(d[1][8], 0x7fff_ffff);
    assert_eq!(d[0][4], 16f32.to_bits());
}

#[test]
fn low_bits_of_tf32_do_not_count() {
    let op = parse("sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32").unwrap();
    let mut d = [[0; 32]; 4];
    mma(
        &op,
        &[[1f32.to_bits() | 0x1fff; 32]; 2],
        &[[2f32.to_bits() | 0x1fff; 32]; 1],
        &[[0; 32]; 4],
        &mut d,
    );
    assert_eq!(d, [[8f32.to_bits(); 32]; 4]);
}

#[test]
fn a_half_accumulator_is_rounded_once() {
    // 2048 + sixteen times 0.5 is 2056; rounding after each addition would stay at 2048.
    let op = parse("sync.aligned.m16n8k16.row.col.f16.f16.f16.f16").unwrap();
    let (half, large) = (0x3800_3800, 0x6800_6800);
    let mut d = [[0; 32]; 2];
    mma(
        &op,
        &[[half; 32]; 4],
        &[[0x3c00_3c00; 32]; 2],
        &[[large; 32]; 2],
        &mut d,
    );
    assert_eq!(d, [[0x6804_6804; 32]; 2]);
}

#[test]
fn work_and_registers_are_counted() {
    let op = parse("sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32").unwrap();
    assert_eq!(op.registers(), (4, 2, 4, 4));
    assert_eq!(op.multiply_adds(), 2048);
    assert_eq!(
        parse("sync.aligned.m16n8k8.row.col.f16.f16.f16.f16")
            .unwrap()
            .registers(),
        (2, 1, 2, 2)
    );
    assert_eq!(
        parse("sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32")
            .unwrap()
            .registers(),
        (4, 2, 4, 4)
    );
}
