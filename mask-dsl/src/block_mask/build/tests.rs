//! Built masks against the cells, for random rules, lengths, blocks and captured values.

use std::sync::Arc;

use super::*;
use crate::analysis::classify::random::{self, Random};
use crate::bind::BoundRule;
use crate::block_mask::CellFn;
use crate::bucket::{Bucket, Relation};
use crate::eval::{Point, ScalarEvaluator, Sizes};
use crate::ir::Const;
use crate::pipeline::{Prepared, Scope, prepare};

/// The class of one block by looking at every cell, `None` if a cell has no value.
fn class_of_cells(
    prepared: &Prepared,
    sizes: Sizes,
    (b, h): (u32, u32),
    q: std::ops::Range<u64>,
    kv: std::ops::Range<u64>,
    q_offset: i64,
) -> Option<BlockClass> {
    let original = prepared.original();
    let mut evaluator = ScalarEvaluator::new(original.rule(), original.bindings(), sizes);
    let (mut allowed, mut masked) = (false, false);
    for row in q {
        for col in kv.clone() {
            let point = Point {
                b: b as i32,
                h: h as i32,
                q_idx: (q_offset + row as i64) as i32,
                kv_idx: col as i32,
                score: 0.0,
            };
            let value = evaluator.eval(&point).ok()? == Const::Bool(true);
            allowed |= value;
            masked |= !value;
        }
    }
    Some(match (allowed, masked) {
        (true, true) => BlockClass::Partial,
        (true, false) => BlockClass::Full,
        (false, _) => BlockClass::Empty,
    })
}

/// A random rule that keeps the promises of the language in a scope, or nothing.
fn prepared(seed: u64, bucket: &Bucket) -> Option<Prepared> {
    let (rule, bindings) = random::rule_and_bindings(seed);
    let bound = BoundRule::new(Arc::new(rule), bindings.values, &[]).ok()?;
    let scope = Scope::new(bucket.clone(), 2, 3);
    prepare(&bound, &scope).ok()
}

#[test]
fn at_a_fixed_length_every_class_is_that_of_the_cells() {
    let mut compared = 0;
    for seed in 0..1_500 {
        let mut random = Random(seed);
        let (q_len, kv_len) = (random.below(38), 1 + random.below(38));
        let q_offset = random.below(3) as i64;
        let Some(prepared) = prepared(seed, &Bucket::single(q_len, kv_len, q_offset)) else {
            continue;
        };
        let block = BlockSize {
            q: 1 + random.below(12) as u32,
            kv: 1 + random.below(12) as u32,
        };
        let (mask, _) = BlockMask::build(&prepared, block).unwrap();
        let sizes = Sizes {
            batch: 2,
            num_q_heads: 3,
            q_len: q_len as i32,
            kv_len: kv_len as i32,
        };
        let geometry = mask.geometry().clone();
        for (b, h) in [(0, 0), (1, 2)] {
            for row in 0..geometry.rows() {
                for col in 0..geometry.cols() {
                    let spans = (geometry.row_span(row), geometry.col_span(col));
                    let expected =
                        class_of_cells(&prepared, sizes, (b, h), spans.0, spans.1, q_offset)
                            .expect("a valid rule has a value at every cell");
                    assert_eq!(
                        mask.class(b, h, row, col),
                        expected,
                        "seed {seed}, block ({row}, {col}) of {block:?} at {q_len} x {kv_len}\n{}",
                        prepared.rule().to_listing()
                    );
                    compared += 1;
                }
            }
        }
    }
    assert!(10_000 < compared, "{compared} blocks compared");
}

#[test]
fn a_bucket_never_proves_what_a_member_denies() {
    let mut proved = 0;
    for seed in 0..300 {
        let mut random = Random(seed);
        let relation = random.pick(&[Relation::Equal, Relation::AtMost, Relation::Free]);
        let bucket = Bucket {
            q_len: 1..=20,
            kv_len: 1..=20,
            relation,
            q_offset: 0..=random.below(3) as i64,
        };
        let Some(prepared) = prepared(seed, &bucket) else {
            continue;
        };
        let block = BlockSize { q: 5, kv: 4 };
        let (mask, _) = BlockMask::build(&prepared, block).unwrap();
        for member in bucket.members().filter(|_| random.below(40) == 0) {
            let (q_len, kv_len) = (member.q_len, member.kv_len);
            let sizes = Sizes {
                batch: 2,
                num_q_heads: 3,
                q_len: q_len as i32,
                kv_len: kv_len as i32,
            };
            let geometry = mask.geometry();
            for row in 0..geometry.rows() {
                for col in 0..geometry.cols() {
                    let (rows, cols) = (geometry.row_span(row), geometry.col_span(col));
                    let rows = rows.start.min(q_len)..rows.end.min(q_len);
                    let cols = cols.start.min(kv_len)..cols.end.min(kv_len);
                    if rows.is_empty() || cols.is_empty() {
                        continue;
                    }
                    let class = mask.class(1, 1, row, col);
                    if class == BlockClass::Partial {
                        continue;
                    }
                    let found =
                        class_of_cells(&prepared, sizes, (1, 1), rows, cols, member.q_offset)
                            .expect("a valid rule has a value at every cell");
                    assert_eq!(
                        class, found,
                        "seed {seed}, {member:?}, block ({row}, {col})"
                    );
                    proved += 1;
                }
            }
        }
    }
    assert!(2_000 < proved, "{proved} proofs compared");
}

#[test]
fn an_evaluator_is_asked_only_where_analysis_stops() {
    let (rule, bindings) = random::causal();
    let bound = BoundRule::new(Arc::new(rule), bindings.values, &[]).unwrap();
    let scope = Scope::new(Bucket::self_attention(1_000..=1_000), 1, 1);
    let prepared = prepare(&bound, &scope).unwrap();
    let never = CellFn(|_, _, _, _| -> bool { panic!("causal needs no cell") });
    let block = BlockSize { q: 128, kv: 128 };
    let (mask, stats) = BlockMask::build_with(&prepared, block, &never).unwrap();
    assert_eq!(stats.blocks_proved, 64);
    assert_eq!(stats.cells_evaluated, 0);
    assert_eq!(mask.class(0, 0, 7, 7), BlockClass::Partial);
}
