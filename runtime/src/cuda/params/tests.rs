//! The bytes of parameters, field by field.

use maskwright_codegen::plan::Tensor;
use maskwright_dsl::capture::{Bindings, BufferData, CaptureValue, CapturedBuffer};

use super::*;
use crate::cuda::machine::{EmulatorOptions, Machine};

fn layout(fields: &[(ParamType, ParamValue)]) -> ParamLayout {
    let mut layout = ParamLayout::default();
    for (i, (ty, value)) in fields.iter().enumerate() {
        layout.push(format!("f{i}"), *ty, *value);
    }
    layout
}

fn values() -> Values<'static> {
    Values {
        q: TensorAt {
            address: 0x1122_3344_5566_7788,
            strides: [1 << 33, 2, 3],
        },
        out: TensorAt {
            address: 16,
            strides: [4, 5, 6],
        },
        lse: 32,
        q_len: 7,
        kv_len: 9,
        batch: 2,
        num_q_heads: 6,
        group: 3,
        sm_scale: 0.125,
        q_offset: -4,
        kv_offset: 11,
        b_offset: 1,
        h_offset: 5,
        mask: MaskAt {
            plane_of: 48,
            batch_stride: 6,
            head_stride: 1,
            row_start: 64,
            rows: 8,
            tiles_per_row: 2,
            runs: 80,
        },
        ..Values::default()
    }
}

#[track_caller]
fn check(fields: &[(ParamType, ParamValue)], expected: &[u8]) {
    let block = pack_params(&layout(fields), &values()).unwrap();
    assert_eq!(block.to_bytes(), expected);
}

#[test]
fn fields_lie_where_the_layout_says() {
    check(
        &[
            (ParamType::I32, ParamValue::QLen),
            (
                ParamType::Pointer("const Element"),
                ParamValue::Address(Tensor::Q),
            ),
            (ParamType::F32, ParamValue::SmScale),
            (ParamType::I32, ParamValue::QOffset),
            (ParamType::I64, ParamValue::Stride(Tensor::Q, 0)),
        ],
        &[
            7, 0, 0, 0, 0, 0, 0, 0, // q_len, and four bytes of padding
            0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, // q
            0, 0, 0, 0x3e, // sm_scale
            0xfc, 0xff, 0xff, 0xff, // q_offset
            0, 0, 0, 0, 2, 0, 0, 0, // stride of the batch
        ],
    );
}

#[test]
fn every_value_of_a_call_has_its_number() {
    let fields = [
        (ParamValue::Stride(Tensor::Out, 1), 5),
        (ParamValue::Stride(Tensor::Out, 2), 6),
        (ParamValue::Address(Tensor::Out), 16),
        (ParamValue::Address(Tensor::K), 0),
        (ParamValue::Address(Tensor::V), 0),
        (ParamValue::Lse, 32),
        (ParamValue::RowMax, 0),
        (ParamValue::QLen, 7),
        (ParamValue::KvLen, 9),
        (ParamValue::Batch, 2),
        (ParamValue::NumQHeads, 6),
        (ParamValue::Group, 3),
        (ParamValue::KvOffset, 11),
        (ParamValue::BOffset, 1),
        (ParamValue::HOffset, 5),
        (ParamValue::RuleKvLen, 20),
        (ParamValue::PlaneOf, 48),
        (ParamValue::PlaneBatchStride, 6),
        (ParamValue::PlaneHeadStride, 1),
        (ParamValue::RowStart, 64),
        (ParamValue::MaskRows, 8),
        (ParamValue::TilesPerRow, 2),
        (ParamValue::Runs, 80),
    ];
    for (value, expected) in fields {
        let ty = ParamType::I64;
        let block = pack_params(&layout(&[(ty, value)]), &values()).unwrap();
        assert_eq!(block.to_bytes(), i64::to_le_bytes(expected), "{value:?}");
    }
}

#[test]
fn captured_values_are_read_from_their_slots() {
    let machine = Machine::emulator(EmulatorOptions::default());
    let table = CapturedBuffer::strided(
        BufferData::I16((0..40i16).collect()),
        vec![2, 3],
        vec![-20, 4],
        25,
    )
    .unwrap();
    let bits = CapturedBuffer::strided(BufferData::Bits([1; 8].into()), vec![9], vec![1], 11);
    let bindings = Bindings {
        values: vec![
            CaptureValue::Scalar(Const::F32(1.5)),
            CaptureValue::Buffer(table),
            CaptureValue::Buffer(bits.unwrap()),
            CaptureValue::Scalar(Const::Bool(true)),
        ],
        dims: vec![77],
    };
    let captures = UploadedCaptures::upload(&machine, &bindings).unwrap();
    let values = Values {
        score_captures: Some(&captures),
        ..values()
    };
    let capture = |slot, part| ParamValue::Capture(RuleRole::Score, slot, part);
    let fields = [
        (ParamType::F32, capture(0, CapturePart::Value)),
        (ParamType::Bool, capture(3, CapturePart::Value)),
        (ParamType::I64, capture(1, CapturePart::Stride(0))),
        (ParamType::I64, capture(1, CapturePart::Extent(1))),
        (ParamType::I64, capture(2, CapturePart::BitOffset)),
        (ParamType::I32, ParamValue::Dim(RuleRole::Score, 0)),
    ];
    let block = pack_params(&layout(&fields), &values).unwrap();
    let mut expected = Vec::new();
    expected.extend(1.5_f32.to_le_bytes());
    expected.extend(1_i32.to_le_bytes());
    expected.extend((-20_i64).to_le_bytes());
    expected.extend(3_i64.to_le_bytes());
    expected.extend(3_i64.to_le_bytes());
    expected.extend(77_i32.to_le_bytes());
    expected.extend([0; 4]);
    assert_eq!(block.to_bytes(), expected);

    let absent = [
        (ParamType::I64, capture(0, CapturePart::Address)),
        (ParamType::I64, capture(9, CapturePart::Value)),
        (
            ParamType::I64,
            ParamValue::Capture(RuleRole::Mask, 0, CapturePart::Value),
        ),
        (ParamType::I32, ParamValue::EvalB),
    ];
    for field in absent {
        let error = pack_params(&layout(&[field]), &values).unwrap_err();
        assert!(matches!(error, ParamError::Absent { .. }), "{error}");
    }
}

#[test]
fn a_value_that_does_not_fit_is_refused() {
    let error = pack_params(
        &layout(&[(ParamType::I32, ParamValue::Stride(Tensor::Q, 0))]),
        &values(),
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "parameter f0 is 8589934592, which a field of type I32 cannot hold"
    );
    let many = vec![(ParamType::I64, ParamValue::QLen); 513];
    let error = pack_params(&layout(&many), &values()).unwrap_err();
    assert_eq!(error, ParamError::TooLarge { found: 4104 });
}
