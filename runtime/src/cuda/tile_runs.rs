//! A block mask as a kernel walks it: runs of tiles.

use maskwright_codegen::spec::TileSize;
use maskwright_dsl::block_mask::{
    Authority, BlockClass, BlockMask, BlockSize, CallShape, Plane, Run,
};

use crate::attention::Tiles;

/// Why a block mask has no form for a tile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TileError {
    /// A tile would lie in two blocks without covering either.
    #[error(
        "a tile of {} x {} neither lies within one mask block of {block} nor covers a whole number of them",
        tile.q,
        tile.kv
    )]
    Straddles {
        /// The tile.
        tile: TileSize,
        /// The mask's block.
        block: BlockSize,
    },
    /// A tile would cover blocks of several classes, of which the rule says nothing outside the partial ones.
    #[error(
        "the lists of the mask are the law, so a tile of {} x {} cannot cover blocks of {block} that differ in class, as \
         it would at row {row}, column {col} of the blocks",
        tile.q,
        tile.kv
    )]
    MixedLaw {
        /// The tile.
        tile: TileSize,
        /// The mask's block.
        block: BlockSize,
        /// First row of the blocks of the tile.
        row: u32,
        /// First column of them.
        col: u32,
    },
    /// A tile larger than a block, of which the rule says nothing outside the partial ones.
    #[error(
        "the lists of the mask are the law, so a tile must lie within a block of {block}, and one of {} x {} does not",
        tile.q,
        tile.kv
    )]
    CoversLaw {
        /// The tile.
        tile: TileSize,
        /// The mask's block.
        block: BlockSize,
    },
    /// There are more runs than a table can count.
    #[error("expected at most {} runs of tiles, found {found}", u32::MAX)]
    TooManyRuns {
        /// How many there are.
        found: u64,
    },
}

/// Whether a kernel of a tile can walk masks of a block size.
///
/// # Errors
/// [`TileError::Straddles`].
pub fn check_tile(tile: TileSize, block: BlockSize) -> Result<(), TileError> {
    let fits = |tile: u32, block: u32| {
        tile != 0 && block != 0 && (block.is_multiple_of(tile) || tile.is_multiple_of(block))
    };
    if fits(tile.q, block.q) && fits(tile.kv, block.kv) {
        Ok(())
    } else {
        Err(TileError::Straddles { tile, block })
    }
}

/// Runs of tiles per row of tiles, in CSR form, for every plane of a mask.
///
/// A run is two words: its first tile of keys; and twice its number of tiles, plus 1 if all of them are full. Runs
/// rise, do not overlap, and differ in class where they touch. They are not cut at any length; a kernel does that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileRuns {
    tile: TileSize,
    plane_of: Vec<u32>,
    batch_stride: u32,
    head_stride: u32,
    rows: u32,
    tiles_per_row: u32,
    row_start: Vec<u32>,
    runs: Vec<[u32; 2]>,
}

impl TileRuns {
    /// The runs of a mask.
    ///
    /// A tile that covers several blocks is full if all are, skipped if all are empty, and partial otherwise. Blocks
    /// beyond the mask's lengths have no cells, so they do not count.
    ///
    /// # Errors
    /// [`TileError`].
    pub fn new(mask: &BlockMask, tile: TileSize) -> Result<Self, TileError> {
        let block = mask.block();
        check_tile(tile, block)?;
        let (tiles_per_row, blocks_per_row) = ratio(block.q, tile.q);
        let mut runs = Self {
            tile,
            plane_of: mask.plane_of().to_vec(),
            batch_stride: if mask.stored_batch() == 1 {
                0
            } else {
                mask.stored_heads()
            },
            head_stride: u32::from(mask.stored_heads() != 1),
            rows: mask.rows().div_ceil(blocks_per_row),
            tiles_per_row,
            row_start: Vec::new(),
            runs: Vec::new(),
        };
        for plane in mask.distinct_planes() {
            runs.push_plane(plane, block, mask.authority())?;
        }
        Ok(runs)
    }

    /// Every tile of one class, for calls of any length: full where there is no mask, partial where there is a rule but
    /// nothing is known of its blocks.
    pub fn uniform(tile: TileSize, class: BlockClass) -> Self {
        let count = (i32::MAX as u32).div_ceil(tile.kv.max(2));
        Self {
            tile,
            plane_of: vec![0],
            batch_stride: 0,
            head_stride: 0,
            rows: 1,
            tiles_per_row: i32::MAX as u32,
            row_start: vec![0, u32::from(class != BlockClass::Empty)],
            runs: match class {
                BlockClass::Empty => Vec::new(),
                BlockClass::Partial => vec![[0, 2 * count]],
                BlockClass::Full => vec![[0, 2 * count + 1]],
            },
        }
    }

    fn push_plane(
        &mut self,
        plane: &Plane,
        block: BlockSize,
        authority: Authority,
    ) -> Result<(), TileError> {
        let (_, blocks_per_row) = ratio(block.q, self.tile.q);
        let mixed = |row: u32, col: u32| TileError::MixedLaw {
            tile: self.tile,
            block,
            row,
            col,
        };
        let may_mix = authority == Authority::Rule;
        for row in 0..self.rows {
            self.row_start.push(position(self.runs.len())?);
            let first = row * blocks_per_row;
            let end = plane.rows().min(first.saturating_add(blocks_per_row));
            let rows: Vec<&[Run]> = (first..end).map(|row| plane.row(row)).collect();
            let joined = join_rows(&rows, plane.cols());
            if !may_mix && let Some(segment) = joined.iter().find(|segment| segment.mixed) {
                return Err(mixed(first, segment.first));
            }
            let begin = self.runs.len();
            let (tiles_per_block, blocks_per_tile) = ratio(block.kv, self.tile.kv);
            for segment in joined {
                if 1 < blocks_per_tile {
                    let pieces = widen(segment, blocks_per_tile, plane.cols());
                    for piece in pieces {
                        if piece.mixed && !may_mix {
                            return Err(mixed(first, piece.first * blocks_per_tile));
                        }
                        push(&mut self.runs, begin, piece);
                    }
                } else {
                    push(
                        &mut self.runs,
                        begin,
                        Segment {
                            first: segment.first * tiles_per_block,
                            end: segment.end * tiles_per_block,
                            ..segment
                        },
                    );
                }
            }
        }
        self.row_start.push(position(self.runs.len())?);
        Ok(())
    }

    /// The tile that the runs are made of.
    pub fn tile(&self) -> TileSize {
        self.tile
    }

    /// Which plane a batch entry and head uses, `[batch or 1, heads or 1]`.
    pub fn plane_of(&self) -> &[u32] {
        &self.plane_of
    }

    /// Elements of [`TileRuns::plane_of`] from one batch entry to the next, 0 where all use one.
    pub fn batch_stride(&self) -> u32 {
        self.batch_stride
    }

    /// Elements of [`TileRuns::plane_of`] from one head to the next, 0 where all use one.
    pub fn head_stride(&self) -> u32 {
        self.head_stride
    }

    /// Rows of a plane.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Tiles of queries that share a row: tile `i` uses row `i / tiles_per_row`.
    pub fn tiles_per_row(&self) -> u32 {
        self.tiles_per_row
    }

    /// Where the runs of a row begin, `[planes, rows + 1]`.
    pub fn row_start(&self) -> &[u32] {
        &self.row_start
    }

    /// The runs.
    pub fn runs(&self) -> &[[u32; 2]] {
        &self.runs
    }

    fn n_planes(&self) -> usize {
        self.row_start.len() / (self.rows as usize + 1)
    }

    /// What a kernel does with a call: tiles that it computes by class, and those that it never touches.
    pub fn tiles(&self, call: &CallShape) -> Tiles {
        let n_kv = call.kv_len.div_ceil(u64::from(self.tile.kv));
        let n_q = call.q_len.div_ceil(u64::from(self.tile.q));
        let planes: Vec<Tiles> = (0..self.n_planes())
            .map(|plane| self.tiles_of_plane(plane, n_q, n_kv))
            .collect();
        let mut tiles = Tiles::default();
        let mut users = vec![0u64; planes.len()];
        let (along_batch, along_heads) = (self.batch_stride != 0, self.head_stride != 0);
        // Where a stride is 0, all entries of the axis use one plane.
        let (n_b, copies_b) = split(call.batch, along_batch);
        let (n_h, copies_h) = split(call.heads, along_heads);
        for b in 0..n_b {
            for h in 0..n_h {
                let at = b * self.batch_stride + h * self.head_stride;
                users[self.plane_of[at as usize] as usize] += copies_b * copies_h;
            }
        }
        for (plane, users) in planes.iter().zip(users) {
            tiles.full += users * plane.full;
            tiles.partial += users * plane.partial;
            tiles.skipped += users * plane.skipped;
        }
        tiles
    }

    fn tiles_of_plane(&self, plane: usize, n_q: u64, n_kv: u64) -> Tiles {
        let mut tiles = Tiles::default();
        let starts = &self.row_start[plane * (self.rows as usize + 1)..][..=self.rows as usize];
        let per_row = u64::from(self.tiles_per_row);
        for (row, ends) in starts.windows(2).enumerate() {
            let first = row as u64 * per_row;
            let n_rows = n_q.min(first.saturating_add(per_row)).saturating_sub(first);
            if n_rows == 0 {
                break;
            }
            let mut touched = 0;
            for &[first, packed] in &self.runs[ends[0] as usize..ends[1] as usize] {
                let (first, count) = (u64::from(first), u64::from(packed >> 1));
                let count = n_kv.min(first + count).saturating_sub(first);
                touched += count;
                if packed & 1 == 1 {
                    tiles.full += n_rows * count;
                } else {
                    tiles.partial += n_rows * count;
                }
            }
            tiles.skipped += n_rows * (n_kv - touched);
        }
        tiles
    }
}

fn split(n: u32, varies: bool) -> (u32, u64) {
    if varies {
        (n, 1)
    } else {
        (u32::from(0 < n), u64::from(n))
    }
}

/// Tiles of a block, and blocks of a tile; one of them is 1.
fn ratio(block: u32, tile: u32) -> (u32, u32) {
    ((block / tile).max(1), (tile / block).max(1))
}

fn position(len: usize) -> Result<u32, TileError> {
    u32::try_from(len).map_err(|_| TileError::TooManyRuns { found: len as u64 })
}

/// Neighbouring columns of one class, which is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    first: u32,
    end: u32,
    full: bool,
    /// Whether it stands for blocks of several classes.
    mixed: bool,
}

/// The classes of several block rows together.
fn join_rows(rows: &[&[Run]], cols: u32) -> Vec<Segment> {
    if let [row] = rows {
        return row
            .iter()
            .map(|run| Segment {
                first: run.first(),
                end: run.end(),
                full: run.is_full(),
                mixed: false,
            })
            .collect();
    }
    let mut cuts: Vec<u32> = rows
        .iter()
        .flat_map(|row| row.iter().flat_map(|run| [run.first(), run.end()]))
        .chain([0, cols])
        .collect();
    cuts.sort_unstable();
    cuts.dedup();
    let mut next = vec![0; rows.len()];
    let mut joined: Vec<Segment> = Vec::new();
    for pair in cuts.windows(2) {
        let mut seen = [false; 3];
        for (row, next) in rows.iter().zip(&mut next) {
            while row.get(*next).is_some_and(|run| run.end() <= pair[0]) {
                *next += 1;
            }
            let class = match row.get(*next) {
                Some(run) if run.first() <= pair[0] => run.class(),
                Some(_) | None => BlockClass::Empty,
            };
            seen[class.byte() as usize] = true;
        }
        let [empty, partial, full] = seen;
        if partial || full {
            let segment = Segment {
                first: pair[0],
                end: pair[1],
                full: !empty && !partial,
                mixed: 1 < u32::from(empty) + u32::from(partial) + u32::from(full),
            };
            match joined.last_mut() {
                // A cut of another row: the class goes on, and tiles may cover both sides.
                Some(last)
                    if last.end == segment.first
                        && (last.full, last.mixed) == (segment.full, segment.mixed) =>
                {
                    last.end = segment.end;
                }
                Some(_) | None => joined.push(segment),
            }
        }
    }
    joined
}

/// A segment of blocks as segments of tiles, each of which covers `n` blocks. Tiles that it covers in part are mixed.
fn widen(segment: Segment, n: u32, cols: u32) -> impl Iterator<Item = Segment> {
    let Segment {
        first,
        end,
        full,
        mixed,
    } = segment;
    // Blocks beyond the last column are no blocks, so the last tile is covered by those that there are.
    let end = if end == cols {
        end.next_multiple_of(n)
    } else {
        end
    };
    let (outer_first, inner_first) = (first / n, first.div_ceil(n));
    let (inner_end, outer_end) = (end / n, end.div_ceil(n));
    let part = |first: u32, end: u32| Segment {
        first,
        end,
        full: false,
        mixed: true,
    };
    let pieces = if inner_first <= inner_end {
        [
            part(outer_first, inner_first),
            Segment {
                first: inner_first,
                end: inner_end,
                full,
                mixed,
            },
            part(inner_end, outer_end),
        ]
    } else {
        let nothing = part(outer_first, outer_first);
        [part(outer_first, outer_end), nothing, nothing]
    };
    pieces.into_iter().filter(|piece| piece.first < piece.end)
}

/// Adds tiles to the runs of a row, which begin at `begin`: a tile that is there already was covered in part twice.
fn push(runs: &mut Vec<[u32; 2]>, begin: usize, segment: Segment) {
    let Segment {
        mut first,
        end,
        full,
        ..
    } = segment;
    if begin < runs.len()
        && let Some([last_first, packed]) = runs.last_mut()
    {
        let last_end = *last_first + (*packed >> 1);
        first = first.max(last_end);
        if end <= first {
            return;
        }
        if first == last_end && (*packed & 1 == 1) == full {
            *packed += 2 * (end - first);
            return;
        }
    }
    runs.push([first, 2 * (end - first) + u32::from(full)]);
}

#[cfg(test)]
mod tests;
