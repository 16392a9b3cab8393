//! What the kernel promises at the edges: rows without a key, numbers that are not finite, any layout, parts of masks, and lists
//! that are the law.

use maskwright::block_mask::{BlockLists, BlockMask, BlockSize, Geometry, ListRow, ListsMeaning};
use maskwright::cuda::Float;
use maskwright::{LaunchRecord, Rules, ScoreRule};
use maskwright_tests::call::{Extents, Inputs, Layout, Ran, Setting, run};
use maskwright_tests::direct::{bind, bind_mask};

use super::{TYPES, check, compile, exact, free, has_compiler, nothing_kept, rules, window};

fn score(text: &str) -> Rules {
    Rules::score(ScoreRule::new(bind(text, &[])).expect("it is a score rule"))
}

#[track_caller]
fn expect_empty(ran: &Ran, d_v: usize, is_empty: impl Fn(usize) -> bool) {
    for row in 0..ran.lse.len() {
        let out = &ran.out[row * d_v..][..d_v];
        if is_empty(row) {
            assert!(out.iter().all(|x| x.to_bits() == 0), "row {row}: {out:?}");
            assert_eq!(ran.lse[row], f32::NEG_INFINITY, "row {row}");
            assert_eq!(ran.row_max[row], f32::NEG_INFINITY, "row {row}");
        } else {
            assert!(ran.lse[row].is_finite(), "row {row}: {}", ran.lse[row]);
        }
    }
}

#[test]
fn rows_without_a_key_are_zero() {
    if !has_compiler() {
        return;
    }
    let kernels = nothing_kept();
    let masked = Rules::mask(bind_mask("mask gaps() = q % 3 != 0 && kv + 20 <= q", &[]));
    let scored = score("score gaps() = if q % 3 != 0 && kv + 20 <= q { score } else { -inf }");
    for rules in [masked, scored] {
        let kernel = compile(&rules, &free(200, 200, 1, 2));
        for dtype in TYPES {
            let extents = Extents::new(100, 100, 64);
            let mask = exact(&kernel, extents, 0, (128, 128));
            // With the mask, without it, and with a V that must not matter.
            for block_mask in [Some(&mask), None] {
                let setting = Setting {
                    block_mask,
                    ..Setting::new(&kernels)
                };
                let mut inputs = Inputs::drawn(extents, dtype, 6);
                let ran = check(&kernel, &inputs, &setting).unwrap_or_else(|e| panic!("{e}"));
                let is_empty = |row: usize| (row % 100).is_multiple_of(3) || row % 100 < 20;
                expect_empty(&ran, 64, is_empty);
                inputs.v.fill(f32::NAN);
                let ran = run(&kernel, &inputs, &setting).unwrap_or_else(|e| panic!("{e}"));
                expect_empty(&ran, 64, is_empty);
            }
        }
    }
    // No keys at all, and a mask without a block.
    for q_len in [1, 130] {
        let extents = Extents::new(q_len, 0, 16);
        let kernel = compile(&Rules::dense(), &free(200, 200, 1, 2));
        let inputs = Inputs::drawn(extents, Float::F16, 6);
        let ran = check(&kernel, &inputs, &Setting::new(&kernels));
        expect_empty(&ran.unwrap_or_else(|e| panic!("{e}")), 16, |_| true);
    }
    let never = compile(
        &Rules::mask(bind_mask("mask never() = kv < 0", &[])),
        &free(200, 200, 1, 2),
    );
    let extents = Extents::new(140, 70, 16);
    let mask = exact(&never, extents, 0, (64, 64));
    let setting = Setting {
        block_mask: Some(&mask),
        ..Setting::new(&kernels)
    };
    let ran = check(&never, &Inputs::drawn(extents, Float::BF16, 6), &setting);
    let ran = ran.unwrap_or_else(|e| panic!("{e}"));
    expect_empty(&ran, 16, |_| true);
    assert_eq!((ran.record.tiles.full, ran.record.tiles.partial), (0, 0));
}

/// Sets one row of a tensor.
fn set(values: &mut [f32], d: usize, row: usize, x: f32) {
    values[row * d..][..d].fill(x);
}

#[test]
fn numbers_that_are_not_finite_stay_in_their_rows() {
    if !has_compiler() {
        return;
    }
    let kernels = nothing_kept();
    let causal = compile(&rules("causal", 0), &free(200, 200, 1, 1));
    let extents = Extents {
        heads: 1,
        kv_heads: 1,
        ..Extents::new(150, 150, 64)
    };
    for dtype in TYPES {
        let mask = exact(&causal, extents, 0, (64, 64));
        let setting = Setting {
            block_mask: Some(&mask),
            ..Setting::new(&kernels)
        };
        let good = Inputs::drawn(extents, dtype, 7);
        let reference = good.reference(causal.rules(), 0, None);
        // A NaN in Q is that of its row, one in K is that of the rows that attend to it. A masked K never matters, though it
        // lies in the same tile; the reference says the same.
        let mut inputs = good.clone();
        set(&mut inputs.q, 64, 33, f32::NAN);
        let ran = check(&causal, &inputs, &setting).unwrap_or_else(|e| panic!("{dtype}: {e}"));
        assert!(ran.out[33 * 64].is_nan() && ran.lse[33].is_nan() && ran.row_max[33].is_nan());
        let mut inputs = good.clone();
        set(&mut inputs.k, 64, 101, f32::NAN);
        let ran = check(&causal, &inputs, &setting).unwrap_or_else(|e| panic!("{dtype}: {e}"));
        for row in 0..150 {
            assert_eq!(ran.lse[row].is_nan(), 101 <= row, "{dtype}, row {row}");
        }
        // A V that is not finite reaches rows of its tile, but no row whose blocks leave it out.
        let mut inputs = good.clone();
        set(&mut inputs.v, 64, 128, f32::INFINITY);
        let ran = run(&causal, &inputs, &setting).unwrap_or_else(|e| panic!("{e}"));
        for row in 0..64 {
            for column in 0..64 {
                let (found, expected) =
                    (ran.out[row * 64 + column], reference.out[row * 64 + column]);
                assert!(
                    (f64::from(found) - expected).abs() < 0.01,
                    "{dtype}, row {row}"
                );
            }
        }
        assert!(!ran.out[130 * 64].is_finite());
    }
}

#[test]
fn infinite_scores_make_their_rows_nan() {
    if !has_compiler() {
        return;
    }
    let kernels = nothing_kept();
    let extents = Extents::new(90, 90, 16);
    // +∞ and NaN at an attended cell, and at one that the mask leaves out; and −∞, which masks its cell.
    let special = score(
        "score special() = if q == 5 && kv == 3 { inf } else { if q == 9 && kv == 7 { 0.0 / (score * 0.0) } else { \
         if kv % 7 == 2 { -inf } else { if q == 20 && kv == 80 { inf } else { score } } } }",
    );
    let rules = Rules {
        mask: rules("causal", 0).mask,
        ..special
    };
    let kernel = compile(&rules, &free(100, 100, 1, 2));
    for dtype in TYPES {
        let inputs = Inputs::drawn(extents, dtype, 8);
        let ran = check(&kernel, &inputs, &Setting::new(&kernels));
        let ran = ran.unwrap_or_else(|e| panic!("{dtype}: {e}"));
        for row in 0..180 {
            let is_nan = matches!(row % 90, 5 | 9);
            assert_eq!(ran.lse[row].is_nan(), is_nan, "{dtype}, row {row}");
            assert_eq!(ran.row_max[row].is_nan(), is_nan, "{dtype}, row {row}");
        }
    }
    // Scores as large as floats can be, and one that no float holds: the reference, which is wider, has no word on that.
    let dense = compile(&Rules::dense(), &free(100, 100, 1, 2));
    let with = |large: f32| {
        let mut inputs = Inputs::drawn(extents, Float::F32, 8);
        // In one element alone, so that large products do not cancel.
        (inputs.q[0], inputs.k[0]) = (large, large);
        inputs
    };
    let ran = check(&dense, &with(1.0e18), &Setting::new(&kernels));
    let ran = ran.unwrap_or_else(|e| panic!("{e}"));
    assert!(ran.lse.iter().all(|lse| lse.is_finite()));
    let ran = run(&dense, &with(1.0e20), &Setting::new(&kernels));
    let ran = ran.unwrap_or_else(|e| panic!("{e}"));
    assert!(ran.lse[0].is_nan() && ran.row_max[0].is_nan() && ran.out[0].is_nan());
    assert!(ran.lse[1..].iter().all(|lse| lse.is_finite()));
}

#[test]
fn tensors_lie_as_they_like() {
    if !has_compiler() {
        return;
    }
    let kernels = nothing_kept();
    let kernel = compile(&rules("window", 0), &free(200, 200, 2, 4));
    let extents = Extents {
        batch: 2,
        heads: 4,
        ..Extents::new(130, 170, 40)
    };
    for dtype in TYPES {
        let inputs = Inputs::drawn(extents, dtype, 9);
        let results = [Layout::RowMajor, Layout::Tokens, Layout::Padded].map(|layout| {
            let setting = Setting {
                layout,
                q_offset: 40,
                ..Setting::new(&kernels)
            };
            let ran = check(&kernel, &inputs, &setting);
            ran.unwrap_or_else(|e| panic!("{dtype}, {layout:?}: {e}"))
                .bits()
        });
        assert!(results.iter().all(|bits| *bits == results[0]));
    }
}

#[test]
fn an_output_of_floats_is_not_rounded() {
    if !has_compiler() {
        return;
    }
    let kernels = nothing_kept();
    let kernel = compile(&Rules::dense(), &free(200, 200, 1, 2));
    for dtype in [Float::F16, Float::BF16] {
        let inputs = Inputs::drawn(Extents::new(20, 30, 64), dtype, 10);
        let run = |out_dtype| {
            let setting = Setting {
                out_dtype: Some(out_dtype),
                ..Setting::new(&kernels)
            };
            check(&kernel, &inputs, &setting).unwrap_or_else(|e| panic!("{e}"))
        };
        let (wide, narrow) = (run(Float::F32), run(dtype));
        let round = |x: &f32| maskwright_tests::call::round(dtype, *x);
        assert_eq!(wide.out.iter().map(round).collect::<Vec<_>>(), narrow.out);
        assert_ne!(wide.out, narrow.out);
    }
}

#[test]
fn a_part_of_a_mask_keeps_the_positions_of_its_rule() {
    if !has_compiler() {
        return;
    }
    let kernels = nothing_kept();
    let rule = "mask planes() = kv <= q && q - kv < 90 + 30 * h && (b == 0 || (q + kv) % 5 != 1)";
    let kernel = compile(
        &Rules::mask(bind_mask(rule, &[])),
        &maskwright::Scope::new(maskwright::Bucket::self_attention(1..=400), 2, 4),
    );
    let block = BlockSize { q: 64, kv: 64 };
    let whole = kernel
        .block_mask_at(400, 400, 0, block)
        .expect("it is in scope");
    let part = || -> Result<BlockMask, maskwright::block_mask::BlockMaskError> {
        whole
            .slice_q(128..400)?
            .slice_kv(64..390)?
            .slice_heads(1..3)?
            .slice_batch(1..2)
    };
    let sliced = part().expect("the ranges are there");
    for dtype in TYPES {
        let inputs = Inputs::drawn(Extents::new(272, 326, 32), dtype, 11);
        let setting = Setting {
            q_offset: 128,
            block_mask: Some(&sliced),
            ..Setting::new(&kernels)
        };
        let ran = check(&kernel, &inputs, &setting).unwrap_or_else(|e| panic!("{dtype}: {e}"));
        let tiles = ran.record.tiles;
        assert!(0 < tiles.skipped && 0 < tiles.partial, "{tiles:?}");
    }
}

/// Two lists of blocks, which a rule that allows all does not explain.
fn law(block: BlockSize, n: u64) -> BlockMask {
    let geometry = Geometry::exact(1, 1, n, n, block).expect("it fits");
    let rows = n.div_ceil(u64::from(block.q)) as u32;
    let cols = n.div_ceil(u64::from(block.kv)) as u32;
    let row = |row: u32| ListRow {
        full: (0..cols).filter(|col| (row + col) % 3 == 1).collect(),
        partial: (0..cols).filter(|col| (row + col) % 3 == 2).collect(),
    };
    let lists = BlockLists {
        batch: 1,
        heads: 1,
        rows: (0..rows).map(row).collect(),
    };
    BlockMask::from_lists(&geometry, &lists, ListsMeaning::Law).expect("they fit")
}

#[test]
fn lists_that_are_the_law_decide_alone() {
    if !has_compiler() {
        return;
    }
    let kernels = nothing_kept();
    for (q, kv, dtype) in [
        (128, 128, Float::BF16),
        (64, 64, Float::F16),
        (128, 32, Float::F32),
        (64, 16, Float::F16),
    ] {
        let mask = law(BlockSize { q, kv }, 256);
        for rules in [Rules::dense(), Rules::mask(window(50))] {
            let kernel = compile(&rules, &free(256, 256, 1, 2));
            let inputs = Inputs::drawn(Extents::new(256, 256, 64), dtype, 12);
            let setting = Setting {
                block_mask: Some(&mask),
                ..Setting::new(&kernels)
            };
            let ran = check(&kernel, &inputs, &setting);
            let ran = ran.unwrap_or_else(|e| panic!("{dtype}, {q} x {kv}: {e}"));
            // Two heads use one plane, and tiles divide its blocks.
            let counts = mask.counts();
            let LaunchRecord { tiles, .. } = ran.record;
            let per_block = u64::from(q / ran.plan.tile.q * (kv / ran.plan.tile.kv));
            assert_eq!(
                u128::from(tiles.full),
                2 * counts.full * u128::from(per_block)
            );
            assert_eq!(
                u128::from(tiles.partial),
                2 * counts.partial * u128::from(per_block)
            );
        }
    }
}
