//! Ways in which other systems went wrong, one test each.

use maskwright_dsl::bind::MaskRule;
use maskwright_dsl::block_mask::{
    BlockCounts, BlockLists, BlockMask, BlockSize, Geometry, ListRow, ListsMeaning,
};
use maskwright_dsl::bucket::Bucket;
use maskwright_dsl::capture::BufferData;
use maskwright_dsl::ir::{BinaryOp, Var};

use super::build::{Build, Dims, brains, causal, close, softcap};
use crate::attention::{ForwardOptions, Kernel, Rules, TensorRef, Tiles, attention};

/// `PyTorch`: a block mask with another batch or head count reads out of range.
#[test]
fn a_mask_of_another_batch_is_refused_and_a_single_one_serves_all() {
    let block = BlockSize::default();
    let built = |batch: usize, heads: usize| {
        let scope = Dims::new(batch, heads, 8, 8).scope(Bucket::single(8, 8, 0));
        let kernel = Kernel::compile(&causal().into(), &scope).unwrap();
        kernel.block_mask(block).unwrap()
    };
    let inputs = Dims::new(3, 2, 8, 8).inputs();
    let [q, k, v] = inputs.views();
    let run = |mask: &BlockMask| {
        let options = ForwardOptions {
            block_mask: Some(mask),
            ..ForwardOptions::default()
        };
        attention(q, k, v, &causal().into(), &options)
    };
    assert_eq!(
        run(&built(2, 1)).unwrap_err().to_string(),
        "a mask built for [B=2, H=1, q=8,kv=8, block 128x128] cannot serve a call of [B=3, H=2, q=8, kv=8]"
    );
    let expected = inputs.attention(&causal().into(), &ForwardOptions::default());
    for mask in [built(1, 1), built(3, 1), built(1, 2), built(3, 2)] {
        assert_eq!(run(&mask).unwrap().out, expected.out);
    }
}

/// `PyTorch`: decoding with a slice of a block mask loses the rule, and broadcast heads.
#[test]
fn decoding_with_a_sliced_mask_keeps_the_rule() {
    let whole = |heads: usize| Dims::new(4, heads, 512, 512).scope(Bucket::single(512, 512, 0));
    let inputs = Dims {
        kv_heads: 2,
        ..Dims::new(4, 8, 1, 512)
    }
    .inputs();
    let mut results = Vec::new();
    for heads in [1, 8] {
        let kernel = Kernel::compile(&causal().into(), &whole(heads)).unwrap();
        let mask = kernel.block_mask(BlockSize::default()).unwrap();
        let mask = mask.slice_q(300..301).unwrap();
        let options = ForwardOptions {
            block_mask: Some(&mask),
            q_offset: 300,
            ..ForwardOptions::default()
        };
        // The kernel for all heads runs the decoding step itself, though the step is no call of its bucket.
        let ran = inputs.forward(&kernel, &options);
        let expected = inputs.reference(&causal().into(), &options);
        for (found, expected) in ran.lse.iter().zip(&expected.lse) {
            assert!(close(f64::from(*found), *expected, 2e-5));
        }
        // Two tiles of keys are wholly before the query, one is cut, one lies behind, for 4 × 8 heads.
        let tiles = Tiles {
            full: 2 * 32,
            partial: 32,
            skipped: 32,
        };
        let exact = kernel.block_mask_at(1, 512, 300, BlockSize { q: 1, kv: 128 });
        let exact = exact.unwrap();
        let options = ForwardOptions {
            block_mask: Some(&exact),
            ..options
        };
        let again = inputs.forward(&kernel, &options);
        assert_eq!(again.record.tiles, tiles);
        assert!(ran.bits() == again.bits());
        let entries = 4 * heads as u128;
        let counts = |full, partial, empty| BlockCounts {
            full: full * entries,
            partial: partial * entries,
            empty: empty * entries,
        };
        assert_eq!(exact.counts(), counts(2, 1, 1));
        let tall = kernel.block_mask_at(1, 512, 300, BlockSize::default());
        assert_eq!(tall.unwrap().counts(), counts(0, 3, 1));
        results.push(ran.bits());
    }
    assert!(results[0] == results[1]);
    // 301 keys are allowed: with equal scores each weighs the same.
    let mut flat = inputs.clone();
    flat.q.fill(0.0);
    let options = ForwardOptions {
        q_offset: 300,
        ..ForwardOptions::default()
    };
    let done = flat.attention(&causal().into(), &options);
    assert!(done.lse.iter().all(|lse| (lse - 301_f32.ln()).abs() < 1e-5));
}

/// `PyTorch`: sparsity that lives in the lists alone is ignored, since the rule allows all.
#[test]
fn lists_are_the_law_whatever_the_rule_allows() {
    let row = |full: [u32; 2]| ListRow {
        partial: Vec::new(),
        full: full.into(),
    };
    let lists = BlockLists {
        batch: 1,
        heads: 1,
        rows: [[0, 2], [1, 3], [0, 3], [2, 3]].map(row).into(),
    };
    let block = BlockSize { q: 64, kv: 64 };
    let geometry = Geometry::exact(1, 1, 256, 256, block).unwrap();
    let mask = BlockMask::from_lists(&geometry, &lists, ListsMeaning::Law).unwrap();
    let counts = BlockCounts {
        full: 8,
        partial: 0,
        empty: 8,
    };
    assert_eq!(mask.counts(), counts);
    let mut inputs = Dims::new(2, 2, 256, 256).inputs();
    let options = ForwardOptions {
        block_mask: Some(&mask),
        ..ForwardOptions::default()
    };
    for rules in [
        Rules::dense(),
        MaskRule::constant(true).into(),
        // A rule acts within partial blocks only, and there are none.
        causal().into(),
        MaskRule::constant(false).into(),
    ] {
        inputs.check(&rules, &options);
    }
    inputs.q.fill(0.0);
    let done = inputs.attention(&MaskRule::constant(true).into(), &options);
    assert!(done.lse.iter().all(|lse| (lse - 128_f32.ln()).abs() < 1e-5));
}

/// `transformers`: rows that are all padding become NaN.
#[test]
fn rows_of_padding_are_zero() {
    let mut rule = Build::default();
    let pad = rule.list(BufferData::I32([0, 4].into()));
    let (b, kv) = (rule.var(Var::B), rule.var(Var::KvIdx));
    let pad = rule.load(pad, b);
    let root = rule.op(BinaryOp::Ge, kv, pad);
    let rules = Rules::mask(causal() & rule.mask("left_padding", root));
    let inputs = Dims::new(2, 1, 7, 7).inputs();
    inputs.check(&rules, &ForwardOptions::default());
    let done = inputs.attention(&rules, &ForwardOptions::default());
    let out = done.out.to_f32_vec();
    assert!(out.iter().all(|x| !x.is_nan()));
    assert!(out[7 * 16..11 * 16].iter().all(|x| *x == 0.0));
    assert_eq!(done.lse[7..11], [f32::NEG_INFINITY; 4]);
    let scope = inputs.dims.scope(Bucket::single(7, 7, 0));
    let kernel = Kernel::compile(&rules, &scope).unwrap();
    let cells = kernel.mask_evaluator(7, 7, 0).unwrap().unwrap();
    let mask = kernel.block_mask(BlockSize::default()).unwrap();
    assert_eq!(mask.allowed_cells(&cells), Ok(28 + 6));
}

/// `cubecl`: a comparison that ignores positions where one side is NaN.
#[test]
fn a_comparison_sees_nan_on_either_side() {
    assert!(!close(f64::NAN, 0.0, 1.0));
    assert!(!close(0.0, f64::NAN, 1.0));
    assert!(close(f64::NAN, f64::NAN, 0.0));
    assert!(!close(f64::INFINITY, f64::NEG_INFINITY, 1.0));
    // The future alone: the last row sees nothing, and both sides say 0.
    let rules = Rules::mask(!causal());
    let inputs = Dims::new(1, 1, 6, 6).inputs();
    inputs.check(&rules, &ForwardOptions::default());
    let done = inputs.attention(&rules, &ForwardOptions::default());
    assert_eq!(done.out.to_f32_vec()[5 * 16..], [0.0; 16]);
    let expected = inputs.reference(&rules, &ForwardOptions::default());
    assert_eq!(expected.out[5 * 16..], [0.0; 16]);
}

/// ONNX: the mask is added before the soft cap, which lets masked cells in again.
#[test]
fn a_soft_cap_comes_before_the_mask() {
    let (zeros, values) = (vec![0.0_f32; 2], vec![0.0_f32, 1.0]);
    let rules = Rules::both(causal(), softcap(50.0));
    let options = ForwardOptions::default();
    let [zero, value] =
        [&zeros, &values].map(|data| TensorRef::contiguous(data, [1, 1, 2, 1]).unwrap());
    let done = attention(zero, zero, value, &rules, &options).unwrap();
    assert_eq!(done.out.to_f32_vec(), [0.0, 0.5]);
    let [zeros, values] = [&zeros, &values].map(|data| brains(data));
    let [zero, value] =
        [&zeros, &values].map(|data| TensorRef::contiguous(data, [1, 1, 2, 1]).unwrap());
    let done = attention(zero, zero, value, &rules, &options).unwrap();
    assert_eq!(done.out.to_f32_vec(), [0.0, 0.5]);
}

/// candle: equal rows of a batch give different results.
#[test]
fn equal_batch_entries_give_equal_rows() {
    let mut inputs = Dims::new(2, 1, 5, 5).inputs();
    for data in [&mut inputs.q, &mut inputs.k, &mut inputs.v] {
        data.copy_within(..5 * 16, 5 * 16);
    }
    let done = inputs.attention(&causal().into(), &ForwardOptions::default());
    let out = done.out.to_f32_vec();
    assert_eq!(out[..5 * 16], out[5 * 16..]);
    let scope = inputs.dims.scope(Bucket::single(5, 5, 0));
    let kernel = Kernel::compile(&causal().into(), &scope).unwrap();
    let mask = kernel.block_mask(BlockSize::default()).unwrap();
    let cells = kernel.mask_evaluator(5, 5, 0).unwrap().unwrap();
    assert_eq!(mask.allowed_cells(&cells), Ok(2 * 15));
}
