//! Whole products, with operands laid out by the ISA's canonical layouts and fragments by its figures, against a plain product.
use super::*;
use crate::tensor_core::descriptor::Swizzle;
use crate::tensor_core::descriptor::tests::canonical;
use crate::tensor_core::format::{Format, Overflow, Rounding, f16_to_f32};

const SWIZZLES: [Swizzle; 4] = [
    Swizzle::None,
    Swizzle::Bytes32,
    Swizzle::Bytes64,
    Swizzle::Bytes128,
];

fn parse(text: &str) -> Option<WgmmaOp> {
    WgmmaOp::parse(&text.split('.').collect::<Vec<_>>())
}

fn encode(element: Element, value: f32) -> u32 {
    let format = match element {
        Element::F16 => Format::F16,
        Element::Bf16 => Format::Bf16,
        Element::Tf32 => Format::Tf32,
        Element::E4m3 => Format::E4m3,
        Element::E5m2 => Format::E5m2,
        Element::S8 | Element::U8 => panic!("no wgmma on integers here"),
    };
    format.encode(f64::from(value), Rounding::NearestEven, Overflow::SatFinite)
}

/// A small integer that depends on the position in no simple way.
fn scattered(row: usize, column: usize) -> f32 {
    let hash =
        (row as u32).wrapping_mul(0x9e37_79b1) ^ (column as u32 + 1).wrapping_mul(0x85eb_ca77);
    ((hash ^ hash >> 15).wrapping_mul(0x2c1b_3c6d) >> 20) as f32 % 5.0 - 2.0
}

/// Offsets that lay an operand of `mn` rows or columns out in order, without holes.
fn packed(swizzle: Swizzle, major: Major, start: u32, mn: u32) -> Descriptor {
    let row = swizzle.row_bytes();
    let (leading, stride) = match (major, swizzle) {
        (Major::K, Swizzle::None) => (mn * 16, 128),
        (Major::K, _) => (16, 8 * row),
        (Major::Mn, Swizzle::None) => (mn / 8 * 128, 128),
        (Major::Mn, _) => (8 * row, mn.div_ceil(row / 2) * 8 * row),
    };
    Descriptor {
        start,
        leading,
        stride,
        base_offset: 0,
        swizzle,
    }
}

/// Writes a matrix into memory by the canonical layout.
fn lay_out(
    memory: &mut [u8],
    descriptor: &Descriptor,
    major: Major,
    element: Element,
    mn: u32,
    k: u32,
    value: impl Fn(usize, usize) -> f32,
) {
    let bytes = element.bytes();
    for (mn, k) in (0..mn).flat_map(|mn| (0..k).map(move |k| (mn, k))) {
        let at = canonical(descriptor, major, bytes, mn, k) as usize;
        memory[at..at + bytes as usize].copy_from_slice(
            &encode(element, value(mn as usize, k as usize)).to_le_bytes()[..bytes as usize],
        );
    }
}

/// Row and column of `d_i` in the fragment of a thread, as the ISA's figure of the accumulator shows them.
fn d_position(thread: usize, i: usize) -> (usize, usize) {
    let (warp, lane) = (thread / 32, thread % 32);
    (
        16 * warp + lane / 4 + 8 * (i / 2 % 2),
        8 * (i / 4) + 2 * (lane % 4) + i % 2,
    )
}

/// Row and column of `a_i`: the fragment of each warp is that of `mma` with 16 rows.
fn a_position(thread: usize, i: usize, bytes: u32) -> (usize, usize) {
    let (warp, lane, per_register) = (thread / 32, thread % 32, (4 / bytes) as usize);
    let (register, element) = (i / per_register, i % per_register);
    (
        16 * warp + lane / 4 + 8 * (register % 2),
        4 * per_register * (register / 2) + per_register * (lane % 4) + element,
    )
}

#[derive(Clone, Copy)]
enum Source {
    Shared(Swizzle, Major),
    Registers,
}

/// Runs one instruction on scattered values with D starting at given ones, and compares all of D.
#[track_caller]
fn check(
    form: &str,
    source: Source,
    b_swizzle: Swizzle,
    b_major: Major,
    negate: [bool; 2],
    accumulate: bool,
) {
    let op = parse(form).unwrap_or_else(|| panic!("{form} is a form"));
    let table = |first: usize| -> Vec<f32> {
        (0..256 * 32)
            .map(|i| scattered(first + i / 32, i % 32))
            .collect()
    };
    let (a_table, b_table) = (table(0), table(1000));
    let a_value = |row: usize, k: usize| a_table[32 * row + k];
    let b_value = |column: usize, k: usize| b_table[32 * column + k];
    let d_value = |row: usize, column: usize| scattered(row + 2000, column);
    // NaN in every format: what lies outside the operands must not be read.
    let mut memory = vec![0xff; 0x1_0000];
    let b = packed(b_swizzle, b_major, 0x8000, op.n);
    lay_out(&mut memory, &b, b_major, op.b, op.n, op.k, b_value);
    let mut registers = [[[0; 32]; 4]; 4];
    let (a, a_major) = match source {
        Source::Shared(swizzle, major) => {
            let a = packed(swizzle, major, 0x400, 64);
            lay_out(&mut memory, &a, major, op.a, 64, op.k, a_value);
            (OperandA::Shared(a), major)
        }
        Source::Registers => {
            let per_register = 4 / op.a.bytes() as usize;
            for (thread, i) in
                (0..128).flat_map(|thread| (0..4 * per_register).map(move |i| (thread, i)))
            {
                let (row, k) = a_position(thread, i, op.a.bytes());
                registers[thread / 32][i / per_register][thread % 32] |=
                    encode(op.a, a_value(row, k)) << (8 * op.a.bytes() * (i % per_register) as u32);
            }
            (OperandA::Registers(&registers), Major::K)
        }
    };
    let mut d = [0; 4].map(|_: i32| vec![[0u32; 32]; op.accumulators()]);
    let count = op.n as usize / 2;
    for (thread, i) in (0..128).flat_map(|thread| (0..count).map(move |i| (thread, i))) {
        let (row, column) = d_position(thread, i);
        let (warp, lane) = (thread / 32, thread % 32);
        match op.d {
            Accumulator::F16 => {
                d[warp][i / 2][lane] |=
                    encode(Element::F16, d_value(row, column)) << (16 * (i % 2));
            }
            Accumulator::F32 | Accumulator::S32 => {
                d[warp][i][lane] = d_value(row, column).to_bits();
            }
        }
    }
    let immediates = Immediates {
        accumulate,
        negate_a: negate[0],
        negate_b: negate[1],
        a_major,
        b_major,
    };
    let mut read = |address: u32| -> [u8; 16] {
        memory[address as usize..address as usize + 16]
            .try_into()
            .unwrap()
    };
    wgmma(
        &op,
        immediates,
        &a,
        &b,
        &mut read,
        d.each_mut().map(Vec::as_mut_slice),
    );
    let sign = if negate[0] == negate[1] { 1.0 } else { -1.0 };
    for (thread, i) in (0..128).flat_map(|thread| (0..count).map(move |i| (thread, i))) {
        let (row, column) = d_position(thread, i);
        let (warp, lane) = (thread / 32, thread % 32);
        let product: f32 = (0..op.k as usize)
            .map(|k| a_value(row, k) * b_value(column, k))
            .sum();
        let expected = sign * product
            + if accumulate {
                d_value(row, column)
            } else {
                0.0
            };
        let found = match op.d {
            Accumulator::F16 => f16_to_f32((d[warp][i / 2][lane] >> (16 * (i % 2))) as u16),
            Accumulator::F32 | Accumulator::S32 => f32::from_bits(d[warp][i][lane]),
        };
        assert_eq!(
            found, expected,
            "{form}: row {row}, column {column}, thread {thread}, d{i}"
        );
    }
}

#[test]
fn k_major_operands_of_every_type_and_swizzle() {
    for types in [
        "k16.f32.f16.f16",
        "k16.f32.bf16.bf16",
        "k16.f16.f16.f16",
        "k8.f32.tf32.tf32",
        "k32.f32.e4m3.e4m3",
        "k32.f16.e5m2.e4m3",
    ] {
        for n in [8, 24, 64, 200, 256] {
            for swizzle in SWIZZLES {
                let form = format!("mma_async.sync.aligned.m64n{n}{types}");
                check(
                    &form,
                    Source::Shared(swizzle, Major::K),
                    swizzle,
                    Major::K,
                    [false, false],
                    true,
                );
                check(
                    &form,
                    Source::Registers,
                    swizzle,
                    Major::K,
                    [false, false],
                    true,
                );
            }
        }
    }
}

#[test]
fn mn_major_operands_of_16_bit_types() {
    for types in ["k16.f32.f16.f16", "k16.f32.bf16.bf16"] {
        for n in [8, 48, 64, 128, 256] {
            for (a, b) in SWIZZLES.into_iter().flat_map(|a| SWIZZLES.map(|b| (a, b))) {
                let form = format!("mma_async.sync.aligned.m64n{n}{types}");
                check(
                    &form,
                    Source::Shared(a, Major::Mn),
                    b,
                    Major::Mn,
                    [false, false],
                    true,
                );
                check(
                    &form,
                    Source::Shared(a, Major::K),
                    b,
                    Major::Mn,
                    [false, false],
                    true,
                );
                check(
                    &form,
                    Source::Shared(a, Major::Mn),
                    b,
                    Major::K,
                    [false, false],
                    true,
                );
            }
        }
    }
}

#[test]
fn scales_negate_and_drop_the_accumulator() {
    let form = "mma_async.sync.aligned.m64n32k16.f32.bf16.bf16";
    for negate in [[false, false], [true, false], [false, true], [true, true]] {
        for accumulate in [false, true] {
            check(
                form,
                Source::Shared(Swizzle::Bytes128, Major::K),
                Swizzle::Bytes128,
                Major::Mn,
                negate,
                accumulate,
            );
            check(
                form,
                Source::Registers,
                Swizzle::Bytes64,
                Major::K,
                negate,
                accumulate,
            );
        }
    }
}

#[test]
fn a_dropped_accumulator_may_hold_nan() {
    let op = parse("mma_async.sync.aligned.m64n8k16.f32.f16.f16").unwrap();
    let mut d = [[[0xffff_ffff; 32]; 4]; 4];
    let b = packed(Swizzle::None, Major::K, 0, 8);
    let immediates = Immediates {
        accumulate: false,
        negate_a: false,
        negate_b: false,
        a_major: Major::K,
        b_major: Major::K,
    };
    let a = [[[0x3c00_3c00; 32]; 4]; 4];
    let mut ones = |_: u32| [0x00, 0x3c].repeat(8).try_into().unwrap();
    wgmma(
        &op,
        immediates,
        &OperandA::Registers(&a),
        &b,
        &mut ones,
        d.each_mut().map(<[Lanes; 4]>::as_mut_slice),
    );
    assert_eq!(d, [[[16f32.to_bits(); 32]; 4]; 4]);
}

#[test]
fn reads_are_those_of_the_footprint() {
    let op = parse("mma_async.sync.aligned.m64n64k16.f32.bf16.bf16").unwrap();
    let immediates = Immediates {
        accumulate: true,
        negate_a: false,
        negate_b: false,
        a_major: Major::K,
        b_major: Major::Mn,
    };
    let (a, b) = (
        OperandA::Shared(packed(Swizzle::Bytes128, Major::K, 0x400, 64)),
        packed(Swizzle::Bytes128, Major::Mn, 0x8000, 64),
    );
    let mut seen = Vec::new();
    let mut record = |address: u32| {
        seen.push(address);
        [0; 16]
    };
    let mut d = [0; 4].map(|_: i32| vec![[0u32; 32]; op.accumulators()]);
    wgmma(
        &op,
        immediates,
        &a,
        &b,
        &mut record,
        d.each_mut().map(Vec::as_mut_slice),
    );
    seen.sort_unstable();
    let mut expected: Vec<u32> = [
        op.footprint_a(immediates, &a),
        op.footprint_b(immediates, &b),
    ]
    .into_iter()
    .flatten()
    .flat_map(|range| range.step_by(16))
    .collect();
    expected.sort_unstable();
    assert_eq!(seen, expected);
    assert!(
        op.footprint_a(immediates, &OperandA::Registers(&[[[0; 32]; 4]; 4]))
            .is_empty()
    );
}

#[test]
fn forms_are_told_apart() {
    let op = parse("mma_async.sync.aligned.m64n64k16.f32.bf16.bf16").unwrap();
    assert_eq!(
        (op.accumulators(), op.multiply_adds(), op.has_transpose()),
        (32, 65536, true)
    );
    assert_eq!(
        parse("mma_async.sync.aligned.m64n64k32.f16.e4m3.e5m2")
            .map(|op| (op.accumulators(), op.has_transpose())),
        Some((16, false))
    );
    for form in [
        "mma_async.sync.aligned.m64n12k16.f32.bf16.bf16",
        "mma_async.sync.aligned.m64n264k16.f32.bf16.bf16",
        "mma_async.sync.aligned.m64n64k8.f32.bf16.bf16",
        "mma_async.sync.aligned.m64n64k16.f16.bf16.bf16",
        "mma_async.sync.aligned.m64n64k16.f32.f16.bf16",
        "mma_async.sync.aligned.m64n64k32.s32.s8.s8",
        "mma_async.sp.sync.aligned.m64n64k32.f32.f16.f16",
        "fence.sync.aligned",
    ] {
        assert_eq!(parse(form), None, "{form}");
    }
}
