//! Rules written in a test: bound, prepared and evaluated in a line.

use std::sync::Arc;

use maskwright_dsl::bind::{BoundRule, MaskRule};
use maskwright_dsl::block_mask::{BlockMask, BlockSize, MaskEvaluator};
use maskwright_dsl::bucket::Bucket;
use maskwright_dsl::capture::{BufferData, CaptureValue, CapturedBuffer};
use maskwright_dsl::eval::{RowEvaluator, RowMask, Sizes};
use maskwright_dsl::ir::{Const, Source};
use maskwright_dsl::pipeline::{Prepared, Scope, prepare};
use maskwright_dsl::text::{self, EmptyLibrary, LowerOptions};

use crate::expect::draw;

/// Batch rows, query heads, queries and keys of a call.
pub type Size = [u32; 4];

/// A text of rules as a bound rule, with values in the order of its captures.
///
/// # Panics
/// If the text or the values are refused.
#[track_caller]
pub fn bind(text: &str, values: &[CaptureValue]) -> BoundRule {
    let source = Arc::new(Source {
        name: "test.mask".to_owned(),
        text: text.to_owned(),
    });
    let options = LowerOptions::default();
    let rule =
        text::parse(source).and_then(|module| text::lower(&module, None, &options, &EmptyLibrary));
    match rule {
        Ok(rule) => BoundRule::new(Arc::new(rule), values.to_vec(), &[])
            .unwrap_or_else(|error| panic!("{error}")),
        Err(faults) => panic!("{}", faults.render(false)),
    }
}

/// As [`bind`], of a mask.
///
/// # Panics
/// As [`bind`], and if the rule is a score rule.
#[track_caller]
pub fn bind_mask(text: &str, values: &[CaptureValue]) -> MaskRule {
    MaskRule::new(bind(text, values)).unwrap_or_else(|rule| panic!("{rule:?} is no mask"))
}

/// The scope of one call whose first query is at `q_offset`.
pub fn scope([batch, heads, q_len, kv_len]: Size, q_offset: i64) -> Scope {
    let bucket = Bucket::single(u64::from(q_len), u64::from(kv_len), q_offset);
    Scope::new(bucket, batch, heads)
}

/// A rule prepared for one call whose first query is at position 0.
///
/// # Panics
/// If it is refused.
#[track_caller]
pub fn prepared(rule: &BoundRule, size: Size) -> Prepared {
    prepared_at(rule, size, 0)
}

/// A rule prepared for one call whose first query is at `q_offset`.
///
/// # Panics
/// If it is refused.
#[track_caller]
pub fn prepared_at(rule: &BoundRule, size: Size, q_offset: i64) -> Prepared {
    match prepare(rule, &scope(size, q_offset)) {
        Ok(prepared) => prepared,
        Err(faults) => panic!("{}", faults.render(false)),
    }
}

/// What preparation says of a rule that breaks a promise.
///
/// # Panics
/// If it is accepted.
#[track_caller]
pub fn refusal(rule: &BoundRule, size: Size) -> String {
    match prepare(rule, &scope(size, 0)) {
        Ok(_) => panic!("the rule is accepted"),
        Err(faults) => faults.render(false),
    }
}

/// The block mask of a prepared mask.
///
/// # Panics
/// If it cannot be built.
#[track_caller]
pub fn blocks(prepared: &Prepared, q: u32, kv: u32) -> BlockMask {
    let block = BlockSize { q, kv };
    let (mask, _) = BlockMask::build(prepared, block).unwrap_or_else(|error| panic!("{error}"));
    mask
}

/// Full, partial and empty blocks, as reported.
pub fn counts(mask: &BlockMask) -> [u128; 3] {
    let counts = mask.counts();
    [counts.full, counts.partial, counts.empty]
}

/// Every cell of a prepared mask, `[batch, heads, queries, keys]`.
pub fn cells(prepared: &Prepared) -> Vec<bool> {
    evaluate(prepared.scope(), &RowMask::of(prepared))
}

/// Every cell that an evaluator allows within a single call.
pub fn evaluate(scope: &Scope, evaluator: &dyn MaskEvaluator) -> Vec<bool> {
    let (q_len, kv_len) = (*scope.bucket.q_len.end(), *scope.bucket.kv_len.end());
    let (q_len, kv_len) = (q_len as usize, kv_len as usize);
    let q0 = *scope.bucket.q_offset.start();
    let words = kv_len.div_ceil(64);
    let mut bits = vec![0; q_len * words];
    let mut cells = Vec::new();
    for b in 0..scope.batch {
        for h in 0..scope.num_q_heads {
            evaluator.tile(b, h, q0, q_len, 0, kv_len, &mut bits, words);
            for row in bits.chunks(words) {
                cells.extend((0..kv_len).map(|kv| row[kv / 64] >> (kv % 64) & 1 == 1));
            }
        }
    }
    cells
}

/// How many cells attend.
pub fn allowed(cells: &[bool]) -> usize {
    cells.iter().filter(|cell| **cell).count()
}

/// Planes of a prepared mask as lines of 0 and 1, rows divided by `/` and planes by a space.
pub fn drawn(prepared: &Prepared) -> String {
    let bucket = &prepared.scope().bucket;
    let (q_len, kv_len) = (*bucket.q_len.end() as usize, *bucket.kv_len.end() as usize);
    let cells = cells(prepared);
    let planes = cells.chunks(q_len * kv_len);
    let drawings: Vec<String> = planes
        .map(|plane| draw(plane, kv_len).replace('\n', "/"))
        .collect();
    drawings.join(" ")
}

/// A score rule applied to one row of keys at the sizes of its scope.
///
/// # Panics
/// If the rule has no value at one of them.
#[track_caller]
pub fn score_row(prepared: &Prepared, (b, h, q): (i32, i32, i32), scores: &[f32]) -> Vec<f32> {
    let scope = prepared.scope();
    let sizes = Sizes {
        batch: scope.batch as i32,
        num_q_heads: scope.num_q_heads as i32,
        q_len: *scope.bucket.q_len.end() as i32,
        kv_len: *scope.bucket.kv_len.end() as i32,
    };
    let mut row = scores.to_vec();
    let done = RowEvaluator::new(prepared.rule(), prepared.bindings(), sizes)
        .score_row(b, h, q, 0, &mut row);
    match done {
        Ok(()) => row,
        Err(error) => panic!("{error}"),
    }
}

/// A captured scalar.
pub fn int(value: i32) -> CaptureValue {
    CaptureValue::Scalar(Const::I32(value))
}

/// A captured buffer.
///
/// # Panics
/// If the elements do not fill the shape.
#[track_caller]
pub fn buffer(data: BufferData, shape: &[usize]) -> CaptureValue {
    let buffer = CapturedBuffer::new(data, shape.to_vec());
    CaptureValue::Buffer(buffer.unwrap_or_else(|error| panic!("{error}")))
}

/// A captured buffer of `i32` with one axis.
pub fn ints(values: &[i32]) -> CaptureValue {
    buffer(BufferData::I32(values.into()), &[values.len()])
}
