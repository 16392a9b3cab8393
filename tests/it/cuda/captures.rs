//! Captured values of every type, read in the kernel.

use half::{bf16, f16};
use maskwright::cuda::Float;
use maskwright::{CapturedBuffer, MaskRule, Rules, ScoreRule};
use maskwright_dsl::capture::{BufferData, CaptureValue};
use maskwright_dsl::ir::Const;
use maskwright_tests::call::{Extents, Inputs, Setting};
use maskwright_tests::direct::{bind, buffer};

use super::{check, compile, free, has_compiler, nothing_kept};

const LEN: usize = 90;

/// Runs a rule of either kind over up to 90 positions.
#[track_caller]
fn check_rule(text: &str, values: &[CaptureValue]) {
    let bound = bind(text, values);
    let rules = match MaskRule::new(bound) {
        Ok(mask) => Rules::mask(mask),
        Err(_) => Rules::score(ScoreRule::new(bind(text, values)).expect("it is a score rule")),
    };
    let kernel = compile(&rules, &free(LEN as u64, LEN as u64, 1, 2));
    let kernels = nothing_kept();
    for (q_len, kv_len) in [(LEN, LEN), (33, 65)] {
        let inputs = Inputs::drawn(Extents::new(q_len, kv_len, 16), Float::F32, 13);
        check(&kernel, &inputs, &Setting::new(&kernels)).unwrap_or_else(|e| panic!("{text}: {e}"));
    }
}

/// Numbers that do not repeat, from -60 to 60.
fn number(i: usize) -> i64 {
    (i * 37 % 121) as i64 - 60
}

fn fill<T>(element: impl Fn(i64) -> T) -> Vec<T> {
    (0..LEN).map(|i| element(number(i))).collect()
}

#[test]
fn integers_of_every_width() {
    if !has_compiler() {
        return;
    }
    let types = [
        BufferData::I8(fill(|x| x as i8).into()),
        BufferData::U8(fill(|x| (x + 60) as u8).into()),
        BufferData::I16(fill(|x| (x * 500) as i16).into()),
        BufferData::U16(fill(|x| (x + 60) as u16 * 500).into()),
        BufferData::I32(fill(|x| x as i32 * 1_000_000).into()),
    ];
    for data in types {
        let elem = data.elem().to_string();
        let table = buffer(data, &[LEN]);
        check_rule(
            &format!("mask below(t: [{elem}; {LEN}]) = q < {LEN} && t[q] <= t[kv]"),
            &[table],
        );
    }
    let wide = BufferData::I64(fill(|x| x << 40).into());
    check_rule(
        &format!("mask below(t: [i64; {LEN}]) = q < {LEN} && t[q] <= t[kv]"),
        &[buffer(wide, &[LEN])],
    );
    let unsigned = BufferData::U32(fill(|x| (x + 60) as u32 * 30_000_000).into());
    check_rule(
        &format!("mask below(t: [u32; {LEN}]) = q < {LEN} && t[q] <= t[kv]"),
        &[buffer(unsigned, &[LEN])],
    );
}

#[test]
fn truth_values_and_packed_bits() {
    if !has_compiler() {
        return;
    }
    let on = |i: usize| (i * 7 + i / 13).is_multiple_of(3);
    let shape = [2, LEN, LEN];
    let n = 2 * LEN * LEN;
    let bools: Vec<bool> = (0..n).map(on).collect();
    check_rule(
        &format!("mask listed(t: [bool; 2, {LEN}, {LEN}]) = q < {LEN} && t[h, q, kv]"),
        &[buffer(BufferData::Bool(bools.into()), &shape)],
    );
    let byte = |at: usize| (0..8).fold(0, |byte, j| byte | u8::from(on(8 * at + j)) << j);
    let bytes: Vec<u8> = (0..n.div_ceil(8) + 2).map(byte).collect();
    let text = format!("mask listed(t: [bits; 2, {LEN}, {LEN}]) = q < {LEN} && t[h, q, kv]");
    let whole = CapturedBuffer::strided(
        BufferData::Bits(bytes.clone().into()),
        shape.to_vec(),
        vec![(LEN * LEN) as i64, LEN as i64, 1],
        0,
    );
    // A view that begins in the middle of a byte, and whose heads are in the opposite order.
    let odd = CapturedBuffer::strided(
        BufferData::Bits(bytes.into()),
        shape.to_vec(),
        vec![-((LEN * LEN) as i64), LEN as i64, 1],
        LEN * LEN + 5,
    );
    for table in [whole, odd] {
        let table = table.expect("the view lies within the bits");
        check_rule(&text, &[CaptureValue::Buffer(table)]);
    }
}

#[test]
fn floats_of_every_width() {
    if !has_compiler() {
        return;
    }
    let types = [
        BufferData::F16(fill(|x| f16::from_f32(x as f32 / 31.0)).into()),
        BufferData::Bf16(fill(|x| bf16::from_f32(x as f32 / 31.0)).into()),
        BufferData::F32(fill(|x| x as f32 / 31.0).into()),
        BufferData::F64(fill(|x| x as f64 / 31.0).into()),
    ];
    for data in types {
        let elem = data.elem().to_string();
        check_rule(
            &format!("score biased(t: [{elem}; {LEN}]) = score + t[kv] - t[q % {LEN}]"),
            &[buffer(data, &[LEN])],
        );
    }
}

#[test]
fn scalars_of_every_type() {
    if !has_compiler() {
        return;
    }
    for (ty, value, rule) in [
        ("i32", Const::I32(-7), "kv + x <= q"),
        (
            "i64",
            Const::I64(1 << 40),
            "(kv as i64) * x < (q as i64) << 40",
        ),
        (
            "u32",
            Const::U32(3_000_000_000),
            "(kv as u32) < x && kv <= q",
        ),
        ("f32", Const::F32(0.37), "(kv as f32) * x < q as f32"),
        (
            "bool",
            Const::Bool(true),
            "if x { kv <= q } else { q <= kv }",
        ),
        (
            "bool",
            Const::Bool(false),
            "if x { kv <= q } else { q <= kv }",
        ),
    ] {
        let text = format!("mask scaled(x: {ty}) = {rule}");
        check_rule(&text, &[CaptureValue::Scalar(value)]);
    }
}

#[test]
fn strided_and_broadcast_tables() {
    if !has_compiler() {
        return;
    }
    let data = || BufferData::F32((0..3 * LEN).map(|i| (i % 17) as f32 / 9.0).collect());
    let text = format!("score biased(t: [f32; {LEN}, 3]) = score + t[kv, q % 3]");
    for (strides, offset) in [
        (vec![3, 1], 0),
        (vec![1, LEN as i64], 0),
        (vec![0, 1], 7),
        (vec![-1, LEN as i64], LEN - 1),
    ] {
        let table = CapturedBuffer::strided(data(), vec![LEN, 3], strides, offset);
        let table = table.expect("the view lies within the data");
        check_rule(&text, &[CaptureValue::Buffer(table)]);
    }
}
