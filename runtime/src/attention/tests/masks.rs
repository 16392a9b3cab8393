//! Block masks of buckets, slices and lists, and what a launch counts of them.

use std::sync::Arc;

use maskwright_dsl::block_mask::{
    BlockClass, BlockLists, BlockMask, BlockSize, Geometry, ListRow, ListsMeaning,
};
use maskwright_dsl::bucket::{Bucket, Relation};
use maskwright_dsl::ir::{BinaryOp, Var};

use super::build::{
    Build, Dims, F32, Inputs, agree, alibi, causal, near, not_the_last, same_document, scattered,
};
use crate::attention::{ForwardOptions, Kernel, Rules, Tiles};

const BLOCK: BlockSize = BlockSize { q: 32, kv: 32 };

#[test]
fn a_launch_counts_the_tiles_of_its_mask() {
    let dims = Dims::new(2, 3, 700, 900);
    let rules = Rules::mask(
        (causal() & same_document((0..900).map(|i| i / 400))) | (scattered() & near(20)),
    );
    let kernel = Kernel::compile(&rules, &dims.scope(Bucket::single(700, 900, 100))).unwrap();
    let mask = kernel.block_mask(BlockSize::default()).unwrap();
    let mut expected = Tiles::default();
    for b in 0..2 {
        for h in 0..3 {
            for row in 0..mask.rows() {
                for col in 0..mask.cols() {
                    match mask.class(b, h, row, col) {
                        BlockClass::Full => expected.full += 1,
                        BlockClass::Partial => expected.partial += 1,
                        BlockClass::Empty => expected.skipped += 1,
                    }
                }
            }
        }
    }
    let options = ForwardOptions {
        block_mask: Some(&mask),
        q_offset: 100,
        ..ForwardOptions::default()
    };
    let ran = dims.inputs().forward(&kernel, &options);
    assert_eq!(ran.record.tiles, expected);
    let built = ForwardOptions {
        block_mask: None,
        ..options
    };
    let again = dims.inputs().forward(&kernel, &built);
    assert_eq!(again.record.tiles, expected);
    assert!(ran.bits() == again.bits());
}

#[track_caller]
fn check(inputs: &Inputs, kernel: &Kernel, options: &ForwardOptions<'_>) {
    let ran = inputs.forward(kernel, options);
    let expected = inputs.reference(kernel.rules(), options);
    agree(&ran.out, &ran.lse, &ran.row_max, &expected, F32);
}

#[test]
fn one_mask_serves_every_call_of_its_bucket() {
    let dims = Dims::new(1, 2, 0, 0);
    let bucket = Bucket {
        q_len: 1..=150,
        kv_len: 1..=150,
        relation: Relation::AtMost,
        q_offset: 0..=100,
    };
    let rules = Rules::both(causal() & near(50), alibi(2));
    let kernel = Kernel::compile(&rules, &dims.scope(bucket)).unwrap();
    let mask = kernel.block_mask(BLOCK).unwrap();
    for (q_len, kv_len, q_offset) in [(150, 150, 0), (1, 97, 96), (33, 65, 32), (1, 1, 0)] {
        let dims = Dims::new(1, 2, q_len, kv_len);
        for block_mask in [Some(&mask), None] {
            let options = ForwardOptions {
                q_offset,
                block_mask,
                ..ForwardOptions::default()
            };
            check(&dims.inputs(), &kernel, &options);
        }
    }
}

#[test]
fn a_rule_of_the_lengths_is_rebuilt_for_each() {
    let dims = Dims::new(1, 1, 0, 0);
    let scope = dims.scope(Bucket::self_attention(1..=200));
    let kernel = Kernel::compile(&not_the_last(64).into(), &scope).unwrap();
    let bucket_mask = kernel.block_mask(BLOCK).unwrap();
    for len in [1, 64, 65, 200] {
        let exact = kernel.block_mask_at(len, len, 0, BLOCK).unwrap();
        assert!(exact.is_exact());
        // All keys but the last 64.
        let blocks = len.saturating_sub(64).div_ceil(32);
        let runs = exact.row(0, 0, 0);
        assert_eq!(runs.last().map_or(0, |run| u64::from(run.end())), blocks);
        let inputs = Dims::new(1, 1, len as usize, len as usize).inputs();
        for mask in [&exact, &bucket_mask] {
            let options = ForwardOptions {
                block_mask: Some(mask),
                ..ForwardOptions::default()
            };
            check(&inputs, &kernel, &options);
        }
    }
}

#[test]
fn slices_of_a_mask_keep_the_coordinates_of_the_rule() {
    let dims = Dims::new(3, 4, 96, 160);
    let rules = Rules::both(causal() & scattered(), alibi(4));
    let kernel = Kernel::compile(&rules, &dims.scope(Bucket::single(96, 160, 64))).unwrap();
    let mask = kernel.block_mask(BLOCK).unwrap();
    let inputs = dims.inputs();
    let whole = ForwardOptions {
        block_mask: Some(&mask),
        q_offset: 64,
        ..ForwardOptions::default()
    };
    let all = inputs.forward(&kernel, &whole);

    // Batch entry 2, heads 1 and 2: the rows of the whole that they are.
    let slice = mask
        .slice_batch(2..3)
        .unwrap()
        .slice_heads(1..3)
        .unwrap()
        .slice_q(10..50)
        .unwrap();
    let q: Vec<f32> = (0..2)
        .flat_map(|h| {
            let start = ((2 * 4 + 1 + h) * 96 + 10) * 16;
            inputs.q[start..start + 40 * 16].to_vec()
        })
        .collect();
    let keys = |data: &[f32]| data[9 * 160 * 16..11 * 160 * 16].to_vec();
    let part = Inputs {
        q,
        k: keys(&inputs.k),
        v: keys(&inputs.v),
        dims: Dims::new(1, 2, 40, 160),
    };
    let options = ForwardOptions {
        block_mask: Some(&slice),
        q_offset: 74,
        ..ForwardOptions::default()
    };
    let ran = part.forward(&kernel, &options);
    for h in 0..2 {
        let from = (2 * 4 + 1 + h) * 96 + 10;
        for (found, expected) in ran.lse[h * 40..(h + 1) * 40].iter().zip(&all.lse[from..]) {
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
    }
    check(&part, &kernel, &options);
    // Compiled for the call alone, the rule sees the same positions.
    let alone = part.attention(&rules, &options);
    assert_eq!(alone.lse, ran.lse);
}

#[test]
fn a_slice_of_the_keys_moves_the_rule() {
    let dims = Dims::new(2, 2, 128, 160);
    let rules = Rules::mask(causal() & scattered());
    let kernel = Kernel::compile(&rules, &dims.scope(Bucket::single(128, 160, 32))).unwrap();
    let mask = kernel.block_mask(BLOCK).unwrap();
    let slice = mask.slice_kv(48..150).unwrap();
    let inputs = Dims::new(2, 2, 128, 102).inputs();
    let options = ForwardOptions {
        block_mask: Some(&slice),
        q_offset: 32,
        ..ForwardOptions::default()
    };
    check(&inputs, &kernel, &options);
    // The moved rule over the same keys is another way to say it.
    let moved = rules.mask.unwrap().shift(0, -48);
    let plain = ForwardOptions {
        block_mask: None,
        ..options
    };
    let expected = inputs.reference(&moved.into(), &plain);
    let ran = inputs.forward(&kernel, &options);
    agree(&ran.out, &ran.lse, &ran.row_max, &expected, F32);
}

#[test]
fn a_rule_acts_within_the_partial_blocks_of_lists() {
    let row = |full: &[u32], partial: &[u32]| ListRow {
        partial: partial.into(),
        full: full.into(),
    };
    // Blocks smaller than a tile, so that tiles mix all classes; the last ones overhang.
    let rows = vec![
        row(&[2], &[0, 3]),
        row(&[], &[]),
        row(&[0, 1, 2, 3], &[]),
        row(&[3], &[1, 2]),
    ];
    let lists = BlockLists {
        batch: 1,
        heads: 1,
        rows,
    };
    let block = BlockSize { q: 24, kv: 24 };
    let geometry = Geometry::exact(1, 1, 90, 85, block).unwrap();
    let mask = BlockMask::from_lists(&geometry, &lists, ListsMeaning::Law).unwrap();
    let inputs = Dims::new(2, 3, 90, 85).inputs();
    let options = ForwardOptions {
        block_mask: Some(&mask),
        ..ForwardOptions::default()
    };
    for rules in [
        Rules::dense(),
        causal().into(),
        scattered().into(),
        Rules::both(!causal(), alibi(3)),
    ] {
        inputs.check(&rules, &options);
    }
    let done = inputs.attention(&causal().into(), &options);
    assert_eq!(done.lse[24..48], [f32::NEG_INFINITY; 24]);
}

#[test]
fn other_captured_values_run_the_same_code() {
    let dims = Dims::new(1, 2, 90, 90);
    let scope = dims.scope(Bucket::self_attention(1..=90));
    let documents = |n: i32| same_document((0..90).map(move |i| i / n));
    let rules = |n: i32, w: i32| Rules::both(documents(n) & near(w), alibi(2));
    let kernel = Kernel::compile(&rules(30, 10), &scope).unwrap();
    let inputs = dims.inputs();
    for (n, w) in [(30, 10), (7, 50), (90, 3)] {
        let rebound = kernel.rebind(&rules(n, w)).unwrap();
        check(&inputs, &rebound, &ForwardOptions::default());
    }
    let error = kernel.rebind(&Rules::both(causal(), alibi(2))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "expected values for rule (same_document & near), found rule causal"
    );
    let error = kernel.rebind(&causal().into()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "expected values for rule alibi, found no score rule"
    );
    let error = Kernel::compile(&causal().into(), &scope)
        .unwrap()
        .rebind(&rules(1, 1))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "expected values for no score rule, found one"
    );
}

#[test]
fn score_tiles_are_those_of_the_rule() {
    let dims = Dims::new(1, 2, 9, 9);
    let scope = dims.scope(Bucket::single(9, 9, 0));
    let rules = Rules::score(alibi(2));
    let tiles = [
        Kernel::compile(&rules, &scope).unwrap(),
        Kernel::interpret(&rules, &scope).unwrap(),
    ]
    .map(|kernel| {
        assert!(kernel.mask_evaluator(9, 9, 0).unwrap().is_none());
        let scores = Arc::new(kernel.score_evaluator(9, 9, 0).unwrap().unwrap());
        let mut tile = vec![1.0; 2 * 5];
        scores.score_tile(0, 1, 3, 2, 1, 4, &mut tile, 5);
        tile
    });
    let slope = 2.0_f32.powi(-8);
    let mut expected = vec![1.0; 10];
    for (i, q) in [3.0, 4.0].into_iter().enumerate() {
        for (j, kv) in [1.0, 2.0, 3.0, 4.0].into_iter().enumerate() {
            expected[i * 5 + j] = 1.0 + slope * (kv - q);
        }
    }
    assert_eq!(tiles, [expected.clone(), expected]);
}

#[test]
fn a_score_of_minus_infinity_skips_its_blocks() {
    let windowed = |w: i32| {
        let mut rule = Build::default();
        let (q, kv, w) = (rule.var(Var::QIdx), rule.var(Var::KvIdx), rule.scalar(w));
        let distance = rule.op(BinaryOp::Sub, q, kv);
        let near = rule.op(BinaryOp::Lt, distance, w);
        let (score, nothing) = (rule.var(Var::Score), rule.f32(f32::NEG_INFINITY));
        let root = rule.select(near, score, nothing);
        rule.score("windowed", root)
    };
    let dims = Dims::new(1, 2, 384, 384);
    let inputs = dims.inputs();
    let kernel = Kernel::compile(
        &windowed(100).into(),
        &dims.scope(Bucket::single(384, 384, 0)),
    );
    let kernel = kernel.unwrap();
    let tiles = |full: u64, partial: u64, skipped: u64| Tiles {
        full: full * 2,
        partial: partial * 2,
        skipped: skipped * 2,
    };
    for (w, expected) in [
        (100, tiles(3, 5, 1)),
        (1, tiles(3, 3, 3)),
        (384, tiles(9, 0, 0)),
    ] {
        let kernel = kernel.rebind(&windowed(w).into()).unwrap();
        let ran = inputs.forward(&kernel, &ForwardOptions::default());
        assert_eq!(ran.record.tiles, expected, "{w}");
        check(&inputs, &kernel, &ForwardOptions::default());
    }
    // Together with a mask, both hold.
    let both = Rules::both(causal(), windowed(100));
    let record = inputs.check(&both, &ForwardOptions::default());
    assert_eq!(record.tiles, tiles(0, 5, 4));
}

#[test]
fn a_mask_of_other_documents_or_another_rule_is_refused() {
    let dims = Dims::new(1, 2, 200, 200);
    let inputs = dims.inputs();
    let scope = dims.scope(Bucket::single(200, 200, 0));
    let of = |n: i32| Rules::mask(same_document((0..200).map(move |i| i * n / 200)));
    let two = Kernel::compile(&of(2), &scope).unwrap();
    let block = BlockSize { q: 32, kv: 32 };
    let stale = two.block_mask(block).unwrap();
    let attend = |kernel: &Kernel, mask: &BlockMask| {
        let options = ForwardOptions {
            block_mask: Some(mask),
            ..ForwardOptions::default()
        };
        inputs.try_forward(kernel, &options).map(|_| ())
    };
    attend(&two, &stale).unwrap();
    // Equal values in another buffer are the same documents, and so is a mask that was written and read again.
    attend(&two.rebind(&of(2)).unwrap(), &stale).unwrap();
    let read = BlockMask::from_bytes(&stale.to_bytes()).unwrap();
    attend(&two, &read).unwrap();
    let three = two.rebind(&of(3)).unwrap();
    let fault = attend(&three, &stale).unwrap_err();
    assert!(
        fault.to_string().contains("other captured values"),
        "{fault}"
    );
    let fault = attend(&three, &read).unwrap_err();
    assert!(
        fault.to_string().contains("other captured values"),
        "{fault}"
    );
    let other = Kernel::compile(&Rules::mask(causal()), &scope).unwrap();
    let fault = attend(&other, &stale).unwrap_err();
    assert!(fault.to_string().contains("another rule"), "{fault}");
    attend(&three, &three.block_mask(block).unwrap()).unwrap();
}
