//! What the fuzz targets ask of a rule, wherever it came from.

use std::sync::Arc;

use maskwright_dsl::bind::BoundRule;
use maskwright_dsl::block_mask::{BlockClass, BlockMask, BlockSize};
use maskwright_dsl::bucket::Bucket;
use maskwright_dsl::capture::{BufferData, CaptureValue, CapturedBuffer};
use maskwright_dsl::diagnostic::Diagnostics;
use maskwright_dsl::eval::{Point, RowEvaluator, ScalarEvaluator, Sizes};
use maskwright_dsl::ir::{CaptureKind, Const, Elem, Rule, RuleKind, Ty};
use maskwright_dsl::pipeline::{Prepared, Scope, prepare};

const SIZES: Sizes = Sizes {
    batch: 2,
    num_q_heads: 2,
    q_len: 9,
    kv_len: 11,
};

/// Extent of every axis of a captured buffer.
const EXTENT: usize = 16;

/// Rules beyond this are not evaluated, so that a run has many inputs rather than large ones.
const MAX_NODES: usize = 600;

/// Checks that faults point into the text, and draws them.
pub fn look_at_faults(faults: &Diagnostics) {
    assert!(!faults.items.is_empty());
    if let Some(source) = &faults.source {
        for label in faults.items.iter().flat_map(|item| &item.labels) {
            let range = label.span.start as usize..label.span.end as usize;
            assert!(source.text.get(range.clone()).is_some(), "{range:?}");
        }
    }
    faults.render(false);
}

/// Binds values, prepares the rule, and checks that what is proved holds at each cell: no evaluation fails, the
/// simplified rule and the row form give what the original gives, and no block has a class that its cells deny.
pub fn check_rule(rule: Rule) {
    if MAX_NODES < rule.arena.len() {
        return;
    }
    let Some(values) = values(&rule) else {
        return;
    };
    let Ok(bound) = BoundRule::new(Arc::new(rule), values, &[]) else {
        return;
    };
    let bucket = Bucket::single(SIZES.q_len as u64, SIZES.kv_len as u64, 0);
    let scope = Scope::new(bucket, SIZES.batch as u32, SIZES.num_q_heads as u32);
    match prepare(&bound, &scope) {
        Ok(prepared) => check_cells(&prepared),
        Err(faults) => look_at_faults(&faults),
    }
}

fn values(rule: &Rule) -> Option<Vec<CaptureValue>> {
    let value = |kind: &CaptureKind| match kind {
        CaptureKind::Scalar(Ty::Bool) => Some(CaptureValue::Scalar(Const::Bool(true))),
        CaptureKind::Scalar(Ty::I32) => Some(CaptureValue::Scalar(Const::I32(3))),
        CaptureKind::Scalar(Ty::I64) => Some(CaptureValue::Scalar(Const::I64(3))),
        CaptureKind::Scalar(Ty::U32) => Some(CaptureValue::Scalar(Const::U32(3))),
        CaptureKind::Scalar(Ty::F32) => Some(CaptureValue::Scalar(Const::F32(3.5))),
        CaptureKind::Buffer { elem, extents } => {
            let shape = vec![EXTENT; extents.len()];
            let count = u32::try_from(extents.len()).ok()?;
            let count = EXTENT
                .checked_pow(count)
                .filter(|count| *count <= 1 << 16)?;
            let ints = (0..count as i32).map(|i| i / 3 % 8);
            let data = match elem {
                Elem::I32 => BufferData::I32(ints.collect()),
                Elem::Bool => BufferData::Bool(ints.map(|v| v % 2 == 0).collect()),
                Elem::F32 => BufferData::F32(ints.map(|v| v as f32 - 2.5).collect()),
                Elem::Bits
                | Elem::I8
                | Elem::U8
                | Elem::I16
                | Elem::U16
                | Elem::I64
                | Elem::U32
                | Elem::F16
                | Elem::Bf16
                | Elem::F64 => return None,
            };
            let buffer = CapturedBuffer::new(data, shape).expect("the elements fill the shape");
            Some(CaptureValue::Buffer(buffer))
        }
    };
    rule.captures.iter().map(|decl| value(&decl.kind)).collect()
}

/// Equal, or both NaN: which NaN is nobody's promise.
fn is_same(a: Const, b: Const) -> bool {
    match (a, b) {
        (Const::F32(a), Const::F32(b)) => a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
        (a, b) => a == b,
    }
}

fn check_cells(prepared: &Prepared) {
    let original = prepared.original().rule();
    let (rule, bindings) = (prepared.rule(), prepared.bindings());
    let mut law = ScalarEvaluator::new(original, bindings, SIZES);
    let mut simplified = ScalarEvaluator::new(rule, bindings, SIZES);
    let mut rows = RowEvaluator::new(rule, bindings, SIZES);
    let mask = (original.kind == RuleKind::Mask).then(|| {
        let (mask, _) = BlockMask::build(prepared, BlockSize { q: 4, kv: 4 })
            .expect("a small mask can be built");
        assert!(mask.is_exact());
        mask
    });
    for b in 0..SIZES.batch {
        for h in 0..SIZES.num_q_heads {
            let mut cells = Vec::new();
            for q_idx in 0..SIZES.q_len {
                let mut bits = [0];
                if mask.is_some() {
                    rows.mask_row(b, h, q_idx, 0, SIZES.kv_len as usize, &mut bits)
                        .expect("what is prepared cannot fail");
                }
                for kv_idx in 0..SIZES.kv_len {
                    let point = Point {
                        b,
                        h,
                        q_idx,
                        kv_idx,
                        score: 0.75,
                    };
                    let expected = law.eval(&point).expect("what is prepared cannot fail");
                    let found = simplified.eval(&point).expect("nor what is simplified");
                    assert!(
                        is_same(expected, found),
                        "{point:?}: {expected:?}, {found:?}"
                    );
                    if let Const::Bool(cell) = expected {
                        assert_eq!(cell, bits[0] >> kv_idx & 1 == 1, "{point:?}");
                        cells.push(cell);
                    }
                }
            }
            if let Some(mask) = &mask {
                check_classes(mask, (b as u32, h as u32), &cells);
            }
        }
    }
}

fn check_classes(mask: &BlockMask, (b, h): (u32, u32), cells: &[bool]) {
    for row in 0..mask.rows() {
        for col in 0..mask.cols() {
            let (q, kv) = (mask.geometry().row_span(row), mask.geometry().col_span(col));
            let mut block = q.flat_map(|q| {
                kv.clone()
                    .map(move |kv| cells[(q * SIZES.kv_len as u64 + kv) as usize])
            });
            let first = block.next().expect("a block has cells");
            let expected = match (block.all(|cell| cell == first), first) {
                (true, true) => BlockClass::Full,
                (true, false) => BlockClass::Empty,
                (false, _) => BlockClass::Partial,
            };
            assert_eq!(
                mask.class(b, h, row, col),
                expected,
                "({b}, {h}, {row}, {col})"
            );
        }
    }
}
