//! Which cells of a call are checked where not all of them are: the places where a fault would hide, and chance.

use maskwright_dsl::block_mask::{BlockClass, BlockMask};
use rayon::prelude::*;

use super::error::VerifyError;
use super::random::Random;
use super::subject::{Rect, Subject};

/// Cells of partial blocks, per block size, that are checked in the largest call; beyond them, blocks are drawn.
const UNDECIDED_CELLS: u64 = 1 << 28;

/// Cells of the rows at block edges that are checked in the largest call, per block size; beyond them, rows are drawn.
const ROW_EDGE_CELLS: u64 = 1 << 25;

/// As [`ROW_EDGE_CELLS`] for columns, which are interpreted cell by cell.
const COL_EDGE_CELLS: u64 = 1 << 21;

/// Random pieces of the largest call, and of another one.
const PATCHES: (u64, u64) = (2048, 16);

/// Random pieces have so many rows and columns.
const PATCH: (u64, u64) = (4, 128);

/// Planes of a sampled call.
const PLANES: (usize, usize) = (64, 4);

const STREAM: u64 = 2;

/// How much of a call is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// Every undecided block, every block edge, and many random pieces.
    Largest,
    /// The last rows and columns, some undecided blocks, some random pieces.
    Member,
}

/// What a sample came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sampled {
    /// Cells that were compared; one that lies in several pieces counts for each.
    pub(super) cells: u64,
    /// Of these, cells of random pieces.
    pub(super) random_cells: u64,
    /// Partial blocks that were checked whole.
    pub(super) undecided_blocks: u64,
    /// Partial blocks that the call has on the sampled planes.
    pub(super) undecided_blocks_of: u64,
    /// Rows and columns of block edges that were checked whole, and how many the sampled planes have.
    pub(super) edges: u64,
    pub(super) edges_of: u64,
    /// Planes that were sampled, and how many the rule tells apart.
    pub(super) planes: u64,
    pub(super) planes_of: u64,
}

enum Piece {
    /// Mask, block row and block column, checked whole.
    Block(usize, (u32, u32), (u32, u32)),
    Cells(Rect),
    Random(Rect),
}

/// Checks a sample of a call. The same seed gives the same sample.
pub(super) fn sample(
    subject: &Subject<'_>,
    depth: Depth,
    seed: u64,
) -> Result<Sampled, VerifyError> {
    let member = subject.member;
    let mut random = Random::new(
        seed,
        STREAM ^ member.q_len << 40 ^ member.kv_len << 16 ^ member.q_offset as u64,
    );
    let mut planes: Vec<(u32, u32)> = subject.planes().into_iter().map(|(at, _)| at).collect();
    let keep = match depth {
        Depth::Largest => PLANES.0,
        Depth::Member => PLANES.1,
    };
    let planes_of = planes.len() as u64;
    draw_planes(&mut planes, keep, &mut random);
    let mut sampled = Sampled {
        planes: planes.len() as u64,
        planes_of,
        ..Sampled::default()
    };
    let mut pieces = Vec::new();
    for &(b, h) in &planes {
        let shape = (member.q_len, member.kv_len);
        let whole = |rows: (u64, u64), cols: (u64, u64)| Rect {
            b,
            h,
            rows: rows.0..rows.1,
            cols: cols.0..cols.1,
        };
        if depth == Depth::Member {
            // Where the tails of tiles are.
            let tail = whole((shape.0.saturating_sub(2), shape.0), (0, shape.1));
            pieces.push(Piece::Cells(tail));
            pieces.push(Piece::Cells(whole((0, shape.0.min(2)), (0, shape.1))));
            let tail = (shape.1.saturating_sub(64 + shape.1 % 64), shape.1);
            for _ in 0..4 {
                let row = random.below(shape.0.saturating_sub(16) + 1);
                pieces.push(Piece::Cells(whole((row, (row + 16).min(shape.0)), tail)));
            }
        }
        for (index, mask) in subject.masks().iter().enumerate() {
            let plane = ((b, h), planes.len() as u64);
            undecided(
                &mut pieces,
                &mut sampled,
                index,
                mask,
                (shape, plane),
                depth,
                &mut random,
            );
            if depth == Depth::Largest {
                edges(&mut pieces, &mut sampled, mask, (shape, plane), &mut random);
            }
        }
        let patches = match depth {
            Depth::Largest => PATCHES.0.div_ceil(planes.len() as u64),
            Depth::Member => PATCHES.1,
        };
        for _ in 0..patches {
            let row = random.below(shape.0.saturating_sub(PATCH.0) + 1);
            let col = random.below(shape.1.saturating_sub(PATCH.1) + 1);
            pieces.push(Piece::Random(whole(
                (row, (row + PATCH.0).min(shape.0)),
                (col, (col + PATCH.1).min(shape.1)),
            )));
        }
    }
    // Collected in order before any is looked at, so that the first fault is the same on any number of threads.
    for group in pieces.chunks(1024) {
        let done: Vec<Result<Sampled, VerifyError>> = group
            .par_iter()
            .map_init(Vec::new, |law, piece| check(subject, piece, law))
            .collect();
        for one in done {
            let one = one?;
            sampled.cells += one.cells;
            sampled.random_cells += one.random_cells;
            sampled.undecided_blocks += one.undecided_blocks;
        }
    }
    Ok(sampled)
}

fn check(subject: &Subject<'_>, piece: &Piece, law: &mut Vec<u64>) -> Result<Sampled, VerifyError> {
    let mut sampled = Sampled::default();
    match piece {
        Piece::Block(index, at, block) => {
            sampled.cells = subject.check_block(*index, *at, *block, law)?;
            sampled.undecided_blocks = 1;
        }
        Piece::Cells(rect) => {
            subject.check(rect, law, None)?;
            sampled.cells = rect.cells();
        }
        Piece::Random(rect) => {
            subject.check(rect, law, None)?;
            sampled.cells = rect.cells();
            sampled.random_cells = rect.cells();
        }
    }
    Ok(sampled)
}

/// Keeps the first and the last plane, and some between.
fn draw_planes(planes: &mut Vec<(u32, u32)>, keep: usize, random: &mut Random) {
    while keep < planes.len() {
        let inner = planes.len() as u64 - 2;
        planes.remove(1 + random.below(inner) as usize);
    }
}

type Place = ((u64, u64), ((u32, u32), u64));

/// Adds the partial blocks of a plane that reach into the call.
fn undecided(
    pieces: &mut Vec<Piece>,
    sampled: &mut Sampled,
    index: usize,
    mask: &BlockMask,
    ((q_len, kv_len), ((b, h), planes)): Place,
    depth: Depth,
    random: &mut Random,
) {
    let block = mask.block();
    let rows = q_len.div_ceil(u64::from(block.q)) as u32;
    let cols = kv_len.div_ceil(u64::from(block.kv)) as u32;
    let cells = u64::from(block.q).min(q_len) * u64::from(block.kv).min(kv_len);
    let room = match depth {
        Depth::Largest => (UNDECIDED_CELLS / planes / cells.max(1)).max(1),
        Depth::Member => 8,
    };
    // A reservoir, so that no list of all blocks is held.
    let mut seen = 0;
    let mut kept: Vec<(u32, u32)> = Vec::new();
    for row in 0..rows {
        for run in mask.row(b, h, row) {
            if run.class() != BlockClass::Partial {
                continue;
            }
            for col in run.first()..run.end().min(cols) {
                seen += 1;
                if (kept.len() as u64) < room {
                    kept.push((row, col));
                } else {
                    let at = random.below(seen);
                    if at < room {
                        kept[at as usize] = (row, col);
                    }
                }
            }
        }
    }
    kept.sort_unstable();
    sampled.undecided_blocks_of += seen;
    pieces.extend(kept.into_iter().map(|at| Piece::Block(index, (b, h), at)));
}

/// Adds the rows and columns on both sides of each block edge.
fn edges(
    pieces: &mut Vec<Piece>,
    sampled: &mut Sampled,
    mask: &BlockMask,
    ((q_len, kv_len), ((b, h), planes)): Place,
    random: &mut Random,
) {
    let block = mask.block();
    let sides = |edge: u64, len: u64| edge.saturating_sub(1)..(edge + 1).min(len);
    let mut row_edges: Vec<u64> = (0..=q_len / u64::from(block.q))
        .map(|edge| edge * u64::from(block.q))
        .chain([q_len])
        .collect();
    draw(
        &mut row_edges,
        ROW_EDGE_CELLS / planes / (2 * kv_len).max(1),
        sampled,
        random,
    );
    for edge in row_edges {
        pieces.push(Piece::Cells(Rect {
            b,
            h,
            rows: sides(edge, q_len),
            cols: 0..kv_len,
        }));
    }
    let mut col_edges: Vec<u64> = (0..=kv_len / u64::from(block.kv))
        .map(|edge| edge * u64::from(block.kv))
        .chain([kv_len])
        .collect();
    draw(
        &mut col_edges,
        COL_EDGE_CELLS / planes / (2 * q_len).max(1),
        sampled,
        random,
    );
    for edge in col_edges {
        pieces.push(Piece::Cells(Rect {
            b,
            h,
            rows: 0..q_len,
            cols: sides(edge, kv_len),
        }));
    }
}

/// Keeps at most `room` (and at least one) of the edges, in order.
fn draw(edges: &mut Vec<u64>, room: u64, sampled: &mut Sampled, random: &mut Random) {
    edges.dedup();
    sampled.edges_of += edges.len() as u64;
    let room = room.max(1) as usize;
    sampled.edges += edges.len().min(room) as u64;
    if edges.len() <= room {
        return;
    }
    for at in 0..room {
        let other = at as u64 + random.below((edges.len() - at) as u64);
        edges.swap(at, other as usize);
    }
    edges.truncate(room);
    edges.sort_unstable();
}
