//! Counters of the emulator prove what the project claims: blocks that a mask empties cost nothing, and full ones cost no mask.

use maskwright::block_mask::{BlockClass, BlockSize};
use maskwright::cuda::{Float, MaskBlocks, TileRuns};
use maskwright::{BlockMask, Kernel};
use maskwright_tests::bare::{Bare, Placed};
use maskwright_tests::call::{Extents, Inputs, Ran, Setting};
use maskwright_tests::direct::allowed;
use maskwright_tests::work::{copies_of_warp, executed, products_of_tile};
use ptx_emulator::{Counters, Options};

use super::{check, compile, exact, free, has_compiler, nothing_kept, rules, text};

/// Tiles of a call, and rows of tiles, that hold a cell which the rule attends to.
fn tiles_with_cells(kernel: &Kernel, extents: Extents, tile: (usize, usize)) -> (u64, u64) {
    let Extents { q_len, kv_len, .. } = extents;
    let evaluator = kernel.mask_evaluator(q_len as u64, kv_len as u64, 0);
    let evaluator = evaluator.expect("it is in scope").expect("there is a mask");
    let scope = maskwright::Scope::new(
        maskwright::Bucket::single(q_len as u64, kv_len as u64, 0),
        1,
        extents.heads as u32,
    );
    let cells = maskwright_tests::direct::evaluate(&scope, &evaluator);
    let (mut tiles, mut rows) = (0, 0);
    for head in cells.chunks(q_len * kv_len) {
        for row in head.chunks(tile.0 * kv_len) {
            let attended = |first: &usize| {
                let keys = *first..kv_len.min(first + tile.1);
                row.chunks(kv_len)
                    .any(|cells| 0 < allowed(&cells[keys.clone()]))
            };
            let n = (0..kv_len).step_by(tile.1).filter(attended).count() as u64;
            tiles += n;
            rows += u64::from(0 < n);
        }
    }
    (tiles, rows)
}

#[test]
fn work_is_that_of_the_tiles_with_cells() {
    if !has_compiler() {
        return;
    }
    let kernels = nothing_kept();
    for (name, dtype, d, len) in [
        ("wide window", Float::BF16, 64, 512),
        ("long documents", Float::F16, 128, 320),
        ("causal", Float::F32, 64, 333),
        ("causal", Float::BF16, 256, 300),
        ("alibi", Float::F16, 96, 290),
    ] {
        let kernel = compile(&rules(name, 700), &free(512, 512, 1, 2));
        let extents = Extents {
            kv_heads: 1,
            ..Extents::new(len, len, d)
        };
        let inputs = Inputs::drawn(extents, dtype, 16);
        let run = |block_mask: Option<&BlockMask>| -> Ran {
            let setting = Setting {
                block_mask,
                ..Setting::new(&kernels)
            };
            check(&kernel, &inputs, &setting).unwrap_or_else(|e| panic!("{name} {dtype}: {e}"))
        };
        let dense = run(None);
        let tile = dense.plan.tile;
        // Blocks as small as tiles, so that classes are as sharp as tiles can use.
        let mask = exact(&kernel, extents, 0, (tile.q, tile.kv));
        let masked = run(Some(&mask));
        assert_eq!(masked.plan, dense.plan);
        let tiles = masked.record.tiles;
        let size = (tile.q as usize, tile.kv as usize);
        let (expected, rows) = tiles_with_cells(&kernel, extents, size);
        assert_eq!(tiles.full + tiles.partial, expected, "{name} {dtype}");
        let all = tiles.full + tiles.partial + tiles.skipped;
        assert_eq!(all, dense.record.tiles.partial);
        assert!(0 < tiles.full && 0 < tiles.skipped, "{name}: {tiles:?}");

        // Tensor cores: the share of the tiles, exactly.
        let [of_mask, of_all] = [&masked, &dense].map(|ran| counters(ran).tensor);
        assert_eq!(of_all.mma, all * products_of_tile(&dense.plan));
        assert_eq!(of_mask.mma * all, of_all.mma * expected, "{name} {dtype}");
        assert_eq!(of_mask.multiply_adds * all, of_all.multiply_adds * expected);

        // Copies: Q once for each row of tiles, K and V of the tiles that are computed, and nothing else.
        let plan = &masked.plan;
        let [q, k, v] = [&plan.shared.q, &plan.shared.k, &plan.shared.v]
            .map(|shared| u64::from(plan.warps * copies_of_warp(plan, shared)));
        let copies = executed(counters(&masked), "cp.async.cg");
        assert_eq!(copies, rows * q + expected * (k + v), "{name} {dtype}");
        let copies = executed(counters(&dense), "cp.async.cg");
        let all_rows = 2 * (len as u64).div_ceil(u64::from(tile.q));
        assert_eq!(copies, all_rows * q + all * (k + v), "{name} {dtype}");
    }
}

fn counters(ran: &Ran) -> &Counters {
    ran.counters.as_ref().expect("the call has blocks")
}

/// Lines of a text, from one that begins so to the next that is just this, counted from 1.
#[track_caller]
fn lines_between(text: &str, from: &str, to: &str) -> Vec<u32> {
    let first = text.lines().position(|line| line.starts_with(from));
    let first = first.unwrap_or_else(|| panic!("there is no line `{from}`"));
    let rest = text.lines().skip(first);
    let n = rest.take_while(|line| *line != to).count();
    (1..=n as u32).map(|i| first as u32 + i).collect()
}

#[test]
fn full_tiles_cost_no_mask() {
    if !has_compiler() {
        return;
    }
    for (name, dtype, d) in [
        ("window", Float::BF16, 64),
        ("documents", Float::F16, 128),
        ("all", Float::F32, 64),
    ] {
        let kernel = compile(&rules(name, 600), &free(300, 300, 1, 2));
        let (mask, score) = (kernel.prepared_mask(), kernel.prepared_score());
        let bare = Bare::compile(&text(dtype, (d, d), mask, score, None));
        let bare = bare.unwrap_or_else(|e| panic!("{name}: {e}"));
        let inputs = Inputs::drawn(Extents::new(200, 256, d as usize), dtype, 17);
        let source = &bare.source.text;
        let mut lines = lines_between(source, "    if (!full) {", "    }");
        // The line of the condition itself is executed.
        lines.remove(0);
        lines.extend(lines_between(
            source,
            "__device__ __forceinline__ bool mask_mod(",
            "}",
        ));
        lines.extend(lines_between(
            source,
            "__device__ __forceinline__ MaskCol mask_col(",
            "}",
        ));
        let executions = |class| {
            let runs = TileRuns::uniform(bare.plan.tile, class);
            let placed = Placed::new(&inputs, mask, score, &runs);
            let options = Options {
                profile: true,
                ..Options::default()
            };
            let counters = bare.launch(&placed, &options);
            let counters = counters.unwrap_or_else(|report| panic!("{name}: {report}"));
            let of_lines: u64 = lines
                .iter()
                .map(|line| {
                    let here = counters.by_source_line.iter();
                    here.filter(|((_, at), _)| at == line)
                        .map(|(_, n)| n)
                        .sum::<u64>()
                })
                .sum();
            (of_lines, counters)
        };
        let (partial, all_partial) = executions(BlockClass::Partial);
        let (full, all_full) = executions(BlockClass::Full);
        assert!(0 < partial, "{name}: the lines of the mask are those");
        assert_eq!(full, 0, "{name}: of {partial}");
        assert_eq!(all_full.tensor, all_partial.tensor);
        assert!(all_full.instructions + partial <= all_partial.instructions);
    }
}

#[test]
fn empty_blocks_are_not_read() {
    if !has_compiler() {
        return;
    }
    // Every third block of 64 keys is empty; and a causal mask, of which the first rows see the first keys alone.
    for (rule, q_len, dtype, d) in [
        ("mask stripes() = kv / 64 % 3 != 1", 200, Float::BF16, 64),
        ("mask stripes() = kv / 64 % 3 != 1", 200, Float::F32, 128),
        ("mask causal() = kv <= q", 100, Float::F16, 128),
        (
            "mask window() = q + 130 <= kv && kv < q + 200",
            64,
            Float::F16,
            256,
        ),
    ] {
        let rules = maskwright::Rules::mask(maskwright_tests::direct::bind_mask(rule, &[]));
        let kernel = compile(&rules, &free(400, 400, 1, 2));
        let extents = Extents {
            kv_heads: 1,
            ..Extents::new(q_len, 400, d as usize)
        };
        let block = (128, 64);
        let mask = exact(&kernel, extents, 0, block);
        let shape = text(
            dtype,
            (d, d),
            kernel.prepared_mask(),
            None,
            Some(MaskBlocks {
                block: BlockSize {
                    q: block.0,
                    kv: block.1,
                },
                authority: maskwright::block_mask::Authority::Rule,
            }),
        );
        let bare = Bare::compile(&shape).unwrap_or_else(|e| panic!("{rule}: {e}"));
        let runs = TileRuns::new(&mask, bare.plan.tile).expect("the tile was made for the blocks");
        let inputs = Inputs::drawn(extents, dtype, 18);
        let placed = Placed::new(&inputs, kernel.prepared_mask(), None, &runs);
        let row_bytes = d as usize * dtype.bytes() as usize;
        let mut forgotten = 0;
        for col in 0..mask.cols() {
            let is_empty = |row| mask.class(0, 0, row, col) == BlockClass::Empty;
            if (0..mask.rows()).all(is_empty) {
                let first = col as usize * block.1 as usize;
                let n = (block.1 as usize).min(400 - first);
                for tensor in [1, 2] {
                    let at = placed.addresses[tensor] + (first * row_bytes) as u64;
                    placed
                        .memory
                        .forget(at, n * row_bytes)
                        .expect("it is there");
                }
                forgotten += 1;
            }
        }
        assert!(2 <= forgotten, "{rule}");
        let options = Options::default();
        let done = bare.launch(&placed, &options);
        done.unwrap_or_else(|report| panic!("{rule}: {report}"));
        let results = placed.results().unwrap_or_else(|e| panic!("{rule}: {e}"));
        let reference = inputs.reference(&rules, 0, None);
        let tolerance = maskwright_tests::call::output_tolerance(dtype);
        maskwright_tests::call::compare("out", &reference.out, &results.out, tolerance)
            .unwrap_or_else(|e| panic!("{rule}: {e}"));
        // One block that is not empty: the emulator would have said so.
        let attended = (0..mask.cols())
            .find(|col| {
                (0..mask.rows()).any(|row| mask.class(0, 0, row, *col) != BlockClass::Empty)
            })
            .expect("some block is not empty");
        let at = placed.addresses[1] + (attended as usize * block.1 as usize * row_bytes) as u64;
        placed.memory.forget(at, row_bytes).expect("it is there");
        let report = bare
            .launch(&placed, &options)
            .expect_err("nothing wrote a key");
        let fault = &report.fault;
        assert!(
            matches!(
                fault,
                ptx_emulator::check::report::Fault::Uninitialised { .. }
            ),
            "{report}"
        );
    }
}

#[test]
fn a_long_mask_costs_its_blocks_alone() {
    if !has_compiler() {
        return;
    }
    // 16 queries, 200,000 keys, and one tile of them.
    let kernels = nothing_kept();
    let kernel = compile(&rules("causal", 0), &free(16, 200_000, 1, 1));
    let extents = Extents {
        heads: 1,
        kv_heads: 1,
        ..Extents::new(16, 200_000, 16)
    };
    let mask = exact(&kernel, extents, 0, (128, 128));
    let inputs = Inputs::drawn(extents, Float::BF16, 19);
    let setting = Setting {
        block_mask: Some(&mask),
        ..Setting::new(&kernels)
    };
    let ran = check(&kernel, &inputs, &setting).unwrap_or_else(|e| panic!("{e}"));
    let tiles = ran.record.tiles;
    let per_block = u64::from(128 / ran.plan.tile.kv);
    assert_eq!((tiles.full, tiles.partial), (0, per_block));
    assert_eq!(
        tiles.skipped,
        200_000_u64.div_ceil(u64::from(ran.plan.tile.kv)) - per_block
    );
    assert_eq!(
        counters(&ran).tensor.mma,
        per_block * products_of_tile(&ran.plan)
    );
}
