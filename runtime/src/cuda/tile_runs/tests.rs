//! Runs of tiles against the classes of the cells that they cover.

use std::sync::Arc;

use maskwright_dsl::block_mask::{
    Authority, BlockClass, BlockLists, BlockMask, BlockSize, CallShape, Exactness, Geometry,
    ListRow, ListsMeaning, Plane,
};
use maskwright_dsl::bucket::Bucket;
use maskwright_dsl::catalogue::Catalogue;
use maskwright_dsl::ir::RuleKind;
use maskwright_dsl::pipeline::{Scope, prepare};
use maskwright_dsl::text::{LowerOptions, lower_expression};

use super::*;

fn mask(text: &str, scope: &Scope, block: (u32, u32)) -> BlockMask {
    let rule =
        lower_expression(text, RuleKind::Mask, &LowerOptions::default(), &Catalogue).unwrap();
    let bound = maskwright_dsl::bind::BoundRule::new(Arc::new(rule), Vec::new(), &[]).unwrap();
    let prepared = prepare(&bound, scope).unwrap();
    let block = BlockSize {
        q: block.0,
        kv: block.1,
    };
    BlockMask::build(&prepared, block).unwrap().0
}

fn tile(q: u32, kv: u32) -> TileSize {
    TileSize { q, kv }
}

/// The class of a tile from those of the blocks that it touches and that have cells.
fn expected(
    mask: &BlockMask,
    (b, h): (u32, u32),
    tile: TileSize,
    (i, j): (u32, u32),
) -> BlockClass {
    let block = mask.block();
    let span = |tile: u32, at: u32, block: u32, n: u32| {
        let (first, end) = (at * tile / block, ((at + 1) * tile).div_ceil(block));
        first..end.min(n)
    };
    let mut seen = Vec::new();
    for row in span(tile.q, i, block.q, mask.rows()) {
        for col in span(tile.kv, j, block.kv, mask.cols()) {
            seen.push(mask.class(b, h, row, col));
        }
    }
    if seen.iter().all(|class| *class == BlockClass::Full) {
        BlockClass::Full
    } else if seen.iter().all(|class| *class == BlockClass::Empty) {
        BlockClass::Empty
    } else {
        BlockClass::Partial
    }
}

fn found(runs: &TileRuns, (b, h): (u32, u32), (i, j): (u32, u32)) -> BlockClass {
    let plane = runs.plane_of()[(b * runs.batch_stride() + h * runs.head_stride()) as usize];
    let row = i / runs.tiles_per_row();
    let at = (plane * (runs.rows() + 1) + row) as usize;
    let (start, end) = (runs.row_start()[at], runs.row_start()[at + 1]);
    for &[first, packed] in &runs.runs()[start as usize..end as usize] {
        if first <= j && j < first + (packed >> 1) {
            return if packed & 1 == 1 {
                BlockClass::Full
            } else {
                BlockClass::Partial
            };
        }
    }
    BlockClass::Empty
}

#[track_caller]
fn check(mask: &BlockMask, size: TileSize, call: CallShape) {
    let runs = TileRuns::new(mask, size).unwrap();
    for row in runs.row_start().windows(2).filter(|pair| pair[0] < pair[1]) {
        let row = &runs.runs()[row[0] as usize..row[1] as usize];
        for pair in row.windows(2) {
            let [(first, packed), (next, next_packed)] = [pair[0], pair[1]].map(|[a, b]| (a, b));
            let end = first + (packed >> 1);
            assert!(end < next || (end == next && packed & 1 != next_packed & 1));
        }
    }
    let mut tiles = Tiles::default();
    for b in 0..call.batch {
        for h in 0..call.heads {
            for i in 0..call.q_len.div_ceil(size.q.into()) as u32 {
                for j in 0..call.kv_len.div_ceil(size.kv.into()) as u32 {
                    let class = expected(mask, (b, h), size, (i, j));
                    assert_eq!(
                        found(&runs, (b, h), (i, j)),
                        class,
                        "{size:?} {b} {h} {i} {j}"
                    );
                    match class {
                        BlockClass::Full => tiles.full += 1,
                        BlockClass::Partial => tiles.partial += 1,
                        BlockClass::Empty => tiles.skipped += 1,
                    }
                }
            }
        }
    }
    assert_eq!(runs.tiles(&call), tiles);
}

const SIZES: [(u32, u32); 7] = [
    (64, 64),
    (32, 32),
    (128, 64),
    (16, 128),
    (64, 32),
    (128, 128),
    (256, 192),
];

#[test]
fn tiles_have_the_class_of_their_blocks() {
    let rules = [
        "kv <= q",
        "kv <= q && q - kv < 100",
        "kv <= q && (h == 1 || q - kv < 70)",
        "(q / 37) % 3 == (kv / 41) % 3",
        "kv < 5",
        "q < kv - 200",
        "(b + h) % 2 == 0 || kv <= q",
    ];
    for rule in rules {
        let scope = Scope::new(Bucket::single(300, 333, 0), 2, 3);
        let mask = mask(rule, &scope, (64, 64));
        for (q, kv) in SIZES {
            check(
                &mask,
                tile(q, kv),
                CallShape {
                    batch: 2,
                    heads: 3,
                    q_len: 300,
                    kv_len: 333,
                    q_offset: 0,
                },
            );
        }
    }
}

#[test]
fn a_mask_of_a_bucket_is_cut_at_the_lengths_of_the_call() {
    let scope = Scope::new(Bucket::self_attention(1..=500), 1, 2);
    let mask = mask("kv <= q && q - kv < 150", &scope, (128, 128));
    for len in [1, 63, 64, 65, 128, 129, 300, 500] {
        for (q, kv) in [(64, 64), (128, 64), (32, 128), (256, 128)] {
            check(
                &mask,
                tile(q, kv),
                CallShape {
                    batch: 3,
                    heads: 2,
                    q_len: len,
                    kv_len: len,
                    q_offset: 0,
                },
            );
        }
    }
}

#[test]
fn random_planes_agree_cell_by_cell() {
    let mut state = 7u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u32
    };
    for _ in 0..40 {
        let (q_len, kv_len) = (u64::from(random() % 200 + 1), u64::from(random() % 200 + 1));
        let block = BlockSize { q: 16, kv: 16 };
        let geometry = Geometry::exact(1, 2, q_len, kv_len, block).unwrap();
        let planes: Vec<Plane> = (0..2)
            .map(|_| {
                let mut builder =
                    maskwright_dsl::block_mask::PlaneBuilder::new(geometry.rows(), geometry.cols());
                for row in 0..geometry.rows() {
                    let mut col = 0;
                    while col < geometry.cols() {
                        let count = (random() % 4 + 1).min(geometry.cols() - col);
                        let class = match random() % 3 {
                            0 => BlockClass::Empty,
                            1 => BlockClass::Partial,
                            _ => BlockClass::Full,
                        };
                        builder.push(row, col, count, class);
                        col += count;
                    }
                }
                builder.finish()
            })
            .collect();
        let mask = BlockMask::from_planes(geometry, 1, 2, planes, Exactness::Coarse).unwrap();
        for (q, kv) in [(16, 16), (8, 4), (32, 48), (64, 16), (16, 64), (48, 80)] {
            check(
                &mask,
                tile(q, kv),
                CallShape {
                    batch: 2,
                    heads: 2,
                    q_len,
                    kv_len,
                    q_offset: 0,
                },
            );
        }
    }
}

#[test]
fn all_tiles_of_one_class_are_one_run() {
    let call = CallShape {
        batch: 2,
        heads: 3,
        q_len: 100,
        kv_len: 70,
        q_offset: 0,
    };
    let size = tile(64, 32);
    let all = 2 * 3 * 2 * 3;
    for (class, full, partial, skipped) in [
        (BlockClass::Full, all, 0, 0),
        (BlockClass::Partial, 0, all, 0),
        (BlockClass::Empty, 0, 0, all),
    ] {
        let tiles = TileRuns::uniform(size, class).tiles(&call);
        assert_eq!(
            tiles,
            Tiles {
                full,
                partial,
                skipped
            }
        );
    }
}

#[test]
fn a_tile_in_two_blocks_is_refused() {
    let block = BlockSize { q: 96, kv: 128 };
    let error = check_tile(tile(64, 64), block).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a tile of 64 x 64 neither lies within one mask block of 96x128 nor covers a whole number of them"
    );
    assert_eq!(check_tile(tile(32, 64), block), Ok(()));
    assert_eq!(check_tile(tile(192, 256), block), Ok(()));
}

#[test]
fn lists_that_are_the_law_need_tiles_within_a_class() {
    let geometry = Geometry::exact(1, 1, 64, 64, BlockSize { q: 32, kv: 32 }).unwrap();
    let row = |full: Vec<u32>, partial: Vec<u32>| ListRow { full, partial };
    let lists = BlockLists {
        batch: 1,
        heads: 1,
        rows: vec![row(vec![0], vec![1]), row(vec![0, 1], vec![])],
    };
    let mask = BlockMask::from_lists(&geometry, &lists, ListsMeaning::Law).unwrap();
    assert_eq!(mask.authority(), Authority::Lists);
    assert!(TileRuns::new(&mask, tile(32, 32)).is_ok());
    assert!(TileRuns::new(&mask, tile(16, 8)).is_ok());
    let error = TileRuns::new(&mask, tile(64, 32)).unwrap_err();
    assert_eq!(
        error,
        TileError::MixedLaw {
            tile: tile(64, 32),
            block: mask.block(),
            row: 0,
            col: 1
        }
    );
    assert!(matches!(
        TileRuns::new(&mask, tile(32, 64)),
        Err(TileError::MixedLaw { row: 0, col: 0, .. })
    ));
}
