//! Every entry has a name, a paper and a meaning; every drawing shows what its rule does, and every sample fits.

use super::*;
use crate::bind::BoundRule;
use crate::block_mask::{BlockClass, BlockMask, BlockSize};
use crate::bucket::{Bucket, Relation};
use crate::dense::{DenseShape, dense_mask};
use crate::ir::Rule;
use crate::pipeline::{Prepared, Scope, prepare};
use crate::text::{LowerOptions, lower, print};
use crate::validate::Origin;

mod drawings;
mod meaning;

fn rule(entry: &CatalogueEntry) -> Rule {
    let module = match parse(entry.source()) {
        Ok(module) => module,
        Err(faults) => panic!("{}", faults.render(false)),
    };
    match lower(
        &module,
        Some(entry.name),
        &LowerOptions::default(),
        &Catalogue,
    ) {
        Ok(rule) => rule,
        Err(faults) => panic!("{}", faults.render(false)),
    }
}

fn bound(entry: &CatalogueEntry, values: Vec<CaptureValue>) -> BoundRule {
    let bound = BoundRule::new(Arc::new(rule(entry)), values, &[]);
    bound.unwrap_or_else(|error| panic!("{}: {error}", entry.name))
}

#[track_caller]
fn prepared(entry: &CatalogueEntry, values: Vec<CaptureValue>, scope: &Scope) -> Prepared {
    match prepare(&bound(entry, values), scope) {
        Ok(prepared) => prepared,
        Err(faults) => panic!(
            "{} in {}\n{}",
            entry.name,
            scope.bucket,
            faults.render(false)
        ),
    }
}

/// A rule with its sample for the greatest sizes of a bucket.
#[track_caller]
fn sampled(entry: &CatalogueEntry, bucket: Bucket, batch: u32, num_q_heads: u32) -> Prepared {
    let sizes = greatest(&bucket, batch, num_q_heads);
    let values = entry.sample(&sizes).into_iter().map(|(_, value)| value);
    let scope = Scope::new(bucket, batch, num_q_heads);
    prepared(entry, values.collect(), &scope)
}

fn greatest(bucket: &Bucket, batch: u32, num_q_heads: u32) -> Sizes {
    Sizes {
        batch: batch as i32,
        num_q_heads: num_q_heads as i32,
        q_len: *bucket.q_len.end() as i32,
        kv_len: *bucket.kv_len.end() as i32,
    }
}

/// Words with one space between them, as lines of documentation break anywhere.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn entries_are_complete_and_in_order() {
    assert!(entries().is_sorted_by(|a, b| a.name < b.name));
    for entry in entries() {
        let rule = rule(entry);
        assert_eq!(rule.name, entry.name);
        assert_eq!(rule.kind, entry.kind);
        let (first, _) = rule.doc.split_once("\n\n").expect("a sentence comes first");
        let named = words(first).contains(entry.paper);
        assert!(named, "{} names its paper", entry.name);
        assert!(first.ends_with(")."), "{first}");
        let found = find(entry.name).map(|found| found.name);
        assert_eq!(found, Some(entry.name));
        assert!(Catalogue.find(entry.name).is_some());
        assert!(entry.text.lines().all(|line| line.chars().count() <= 120));
    }
}

#[test]
fn what_a_file_keeps_to_itself_cannot_be_called() {
    assert!(find("natten_2d").is_some_and(|entry| entry.text.contains("fn near(")));
    assert!(Catalogue.find("near").is_none());
}

#[test]
fn texts_print_as_they_stand_but_for_line_breaks() {
    let bare = |text: &str| {
        let kept = text.chars().filter(|c| !c.is_whitespace() && *c != '_');
        kept.collect::<String>()
    };
    for entry in entries() {
        let module = parse(entry.source()).expect("another test parses every entry");
        let printed = print(&module);
        assert_eq!(bare(&printed), bare(entry.text), "{}", entry.name);
        let again = Arc::new(Source {
            name: entry.name.to_owned(),
            text: printed.clone(),
        });
        let again = parse(again).expect("what is printed can be parsed");
        assert_eq!(again, module, "{}", entry.name);
        assert_eq!(print(&again), printed, "{}", entry.name);
    }
}

#[test]
fn samples_name_the_captures_in_order() {
    for (q_len, kv_len) in [(0, 0), (1, 1), (5, 41), (300, 300)] {
        let sizes = Sizes {
            batch: 2,
            num_q_heads: 3,
            q_len,
            kv_len,
        };
        for entry in entries() {
            let declared = rule(entry).captures;
            let declared: Vec<_> = declared.iter().map(|decl| decl.name.as_str()).collect();
            let sample = entry.sample(&sizes);
            let named: Vec<_> = sample.iter().map(|(name, _)| *name).collect();
            assert_eq!(named, declared, "{}", entry.name);
            bound(entry, sample.into_iter().map(|(_, value)| value).collect());
        }
    }
}

#[test]
fn samples_are_proved_from_one_token_to_a_million() {
    let ranged = |q, kv, relation| Bucket {
        q_len: q,
        kv_len: kv,
        relation,
        q_offset: 0..=0,
    };
    let buckets = [
        Bucket::single(1, 1, 0),
        Bucket::single(37, 37, 0),
        Bucket::single(5, 41, 0),
        Bucket::self_attention(1..=4096),
        ranged(1..=16, 1..=131_072, Relation::AtMost),
        Bucket::self_attention(1..=1_000_000),
    ];
    for bucket in buckets {
        for entry in entries() {
            let prepared = sampled(entry, bucket.clone(), 2, 3);
            assert!(prepared.derived_mask().is_none(), "{}", entry.name);
        }
    }
}

#[test]
fn proofs_rest_on_declarations_alone() {
    // What is inferred of the values at binding would refuse other values. A dimension name is at least 1 where a
    // buffer is indexed up to it.
    for entry in entries() {
        let prepared = sampled(entry, Bucket::self_attention(1..=1_000_000), 2, 3);
        for precondition in prepared.preconditions() {
            let is_declared = precondition.origin == Origin::Declared;
            let is_count = precondition.to_string().ends_with("is at least 1");
            assert!(is_declared || is_count, "{}: {precondition}", entry.name);
        }
    }
}

/// The class of a block from its cells.
fn class_of(cells: impl Iterator<Item = bool>) -> BlockClass {
    let (mut any, mut all) = (false, true);
    cells.for_each(|cell| {
        any |= cell;
        all &= cell;
    });
    match (any, all) {
        (false, _) => BlockClass::Empty,
        (true, false) => BlockClass::Partial,
        (true, true) => BlockClass::Full,
    }
}

#[test]
fn block_masks_are_those_of_the_cells() {
    for (q_len, kv_len) in [(137, 137), (45, 203)] {
        for entry in entries().iter().filter(|e| e.kind == RuleKind::Mask) {
            let (batch, heads) = (2, 3);
            let bucket = Bucket::single(q_len, kv_len, 0);
            let sizes = greatest(&bucket, batch, heads);
            let prepared = sampled(entry, bucket, batch, heads);
            let (mask, _) = BlockMask::build(&prepared, BlockSize { q: 16, kv: 16 }).unwrap();
            assert!(mask.is_exact());
            let shape = DenseShape {
                batches: 0..batch,
                heads: 0..heads,
                q_offset: 0,
                q_len: q_len as usize,
                kv_len: kv_len as usize,
            };
            let original = prepared.original();
            let mut rows = Vec::new();
            dense_mask(
                original.rule(),
                original.bindings(),
                sizes,
                &shape,
                |_, bits| {
                    rows.push(bits.to_vec());
                },
            )
            .unwrap();
            let cell = |row: &[u64], kv: u64| row[kv as usize / 64] >> (kv % 64) & 1 == 1;
            for (plane, cells) in rows.chunks(q_len as usize).enumerate() {
                let (b, h) = (plane as u32 / heads, plane as u32 % heads);
                for row in 0..mask.rows() {
                    for col in 0..mask.cols() {
                        let (q, kv) =
                            (mask.geometry().row_span(row), mask.geometry().col_span(col));
                        let block = &cells[q.start as usize..q.end as usize];
                        let cells = block
                            .iter()
                            .flat_map(|row| kv.clone().map(|kv| cell(row, kv)));
                        let found = mask.class(b, h, row, col);
                        let name = entry.name;
                        assert_eq!(found, class_of(cells), "{name} ({b}, {h}, {row}, {col})");
                    }
                }
            }
        }
    }
}

#[test]
fn block_masks_of_long_texts_stay_small() {
    // These cut every block row many times over: their size goes with the area, not with the boundary.
    let grids = [
        "bigbird_random",
        "dilated_window",
        "natten_2d",
        "sparse_fixed",
        "strided",
    ];
    for entry in entries().iter().filter(|e| e.kind == RuleKind::Mask) {
        let len = if grids.contains(&entry.name) {
            32_768
        } else {
            1_000_000
        };
        let prepared = sampled(entry, Bucket::single(len, len, 0), 1, 1);
        let (mask, _) = BlockMask::build(&prepared, BlockSize { q: 128, kv: 128 }).unwrap();
        assert!(mask.is_exact());
        assert!(mask.size_bytes() < 400_000, "{}", entry.name);
    }
}
