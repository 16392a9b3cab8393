//! The tile grid, and which of its tiles a row of mask blocks leaves to compute.
//!
//! The grid is absolute: it follows from lengths and block sizes alone. Along each axis a tile
//! lies within one mask block or covers a whole number of them.

use std::ops::Range;

use crate::error::CpuError;
use crate::request::{BlockClass, BlockRows, Run};

/// The largest tile, along either axis.
pub(crate) const TILE: usize = 128;

/// The tiles of one axis.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Axis {
    len: usize,
    /// Length of a tile that nothing clips.
    pub(crate) step: usize,
    /// After this many positions the pattern of tiles repeats.
    unit: usize,
    /// Tiles per unit.
    per_unit: usize,
}

impl Axis {
    /// Cuts `len` positions, grouped into mask blocks of `block`, into tiles of at most [`TILE`].
    ///
    /// Tiles within one block are a multiple of `multiple` long where the block's end allows it.
    pub(crate) fn new(len: usize, block: usize, multiple: usize) -> Self {
        if block < TILE {
            let step = TILE / block * block;
            return Self {
                len,
                step,
                unit: step,
                per_unit: 1,
            };
        }
        // Tiles of even size beat full ones and a small rest.
        let step = block
            .div_ceil(block.div_ceil(TILE))
            .next_multiple_of(multiple)
            .min(TILE);
        Self {
            len,
            step,
            unit: block,
            per_unit: block.div_ceil(step),
        }
    }

    /// How many tiles there are.
    pub(crate) fn count(&self) -> usize {
        self.len / self.unit * self.per_unit + (self.len % self.unit).div_ceil(self.step)
    }

    /// The positions of tile `t`.
    pub(crate) fn span(&self, t: usize) -> Range<usize> {
        let unit_start = t / self.per_unit * self.unit;
        let start = unit_start + t % self.per_unit * self.step;
        let end = (start + self.step)
            .min(unit_start.saturating_add(self.unit))
            .min(self.len);
        start..end
    }

    /// The tile that holds a position.
    pub(crate) fn index_of(&self, position: usize) -> usize {
        position / self.unit * self.per_unit + position % self.unit / self.step
    }
}

/// A stretch of keys of one class, seen by one row of mask blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyRun {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) class: BlockClass,
}

/// A tile to compute: partial means that some cell may be masked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KvTile {
    pub(crate) index: usize,
    pub(crate) class: BlockClass,
}

/// The runs of the block rows that one query tile touches, in keys.
#[derive(Debug, Default)]
pub(crate) struct QueryTileRuns {
    runs: Vec<KeyRun>,
    /// Where the runs of each block row end.
    ends: Vec<usize>,
    /// First run of each block row that is not yet behind; scratch of [`tiles`](Self::tiles).
    cursors: Vec<usize>,
    blocks: Vec<Run>,
}

impl QueryTileRuns {
    /// One block row in which every key has the same class.
    pub(crate) fn load_uniform(&mut self, class: BlockClass, kv_len: usize) {
        self.runs.clear();
        self.ends.clear();
        self.runs.push(KeyRun {
            from: 0,
            to: kv_len,
            class,
        });
        self.ends.push(1);
    }

    /// Reads the block rows that the query rows `q` touch, clipped at `kv_len`.
    pub(crate) fn load(
        &mut self,
        blocks: &dyn BlockRows,
        b: usize,
        h: usize,
        q: Range<usize>,
        kv_len: usize,
    ) -> Result<(), CpuError> {
        self.runs.clear();
        self.ends.clear();
        let (q_block, kv_block) = (blocks.q_block(), blocks.kv_block());
        for row in q.start / q_block..q.end.div_ceil(q_block) {
            self.blocks.clear();
            blocks.row(b, h, row, &mut self.blocks);
            let mut previous_end = 0;
            for run in &self.blocks {
                let first = u64::from(run.first);
                if first < previous_end {
                    return Err(CpuError::RunOrder {
                        b,
                        h,
                        row,
                        first,
                        previous_end,
                    });
                }
                previous_end = first + u64::from(run.count);
                let key = |block: u64| (block as usize).saturating_mul(kv_block).min(kv_len);
                let (from, to) = (key(first), key(previous_end));
                if from < to {
                    self.runs.push(KeyRun {
                        from,
                        to,
                        class: run.class,
                    });
                }
            }
            self.ends.push(self.runs.len());
        }
        Ok(())
    }

    /// How many block rows are loaded.
    pub(crate) fn num_rows(&self) -> usize {
        self.ends.len()
    }

    /// The runs of one block row that meet the keys `kv`.
    pub(crate) fn meeting(&self, row: usize, kv: Range<usize>) -> &[KeyRun] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        let runs = &self.runs[start..self.ends[row]];
        let from = runs.partition_point(|run| run.to <= kv.start);
        let to = runs.partition_point(|run| run.from < kv.end);
        &runs[from..to]
    }

    /// Lists the tiles that are not empty, ascending.
    pub(crate) fn tiles(&mut self, kv: &Axis, out: &mut Vec<KvTile>) {
        out.clear();
        self.cursors.clear();
        self.cursors.push(0);
        let starts = &self.ends[..self.ends.len().saturating_sub(1)];
        self.cursors.extend_from_slice(starts);
        let mut done = 0;
        loop {
            let nearest = |(&cursor, &end): (&usize, &usize)| {
                (cursor < end).then(|| self.runs[cursor].from.max(done))
            };
            let rows = self.cursors.iter().zip(&self.ends);
            let Some(next) = rows.filter_map(nearest).min() else {
                return;
            };
            let index = kv.index_of(next);
            let span = kv.span(index);
            let mut class = BlockClass::Full;
            for (cursor, &end) in self.cursors.iter_mut().zip(&self.ends) {
                let mut full = 0;
                while *cursor < end && self.runs[*cursor].from < span.end {
                    let run = self.runs[*cursor];
                    if run.class == BlockClass::Full {
                        full += run.to.min(span.end) - run.from.max(span.start);
                    }
                    if span.end < run.to {
                        break;
                    }
                    *cursor += 1;
                }
                if full < span.len() {
                    class = BlockClass::Partial;
                }
            }
            out.push(KvTile { index, class });
            done = span.end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_every_axis_once_and_respect_blocks() {
        for len in [0, 1, 5, 127, 128, 129, 300, 1000] {
            for block in [
                1,
                3,
                7,
                64,
                100,
                127,
                128,
                129,
                200,
                300,
                1 << 40,
                usize::MAX,
            ] {
                for multiple in [1, 16] {
                    let axis = Axis::new(len, block, multiple);
                    let mut end = 0;
                    for t in 0..axis.count() {
                        let span = axis.span(t);
                        assert_eq!(span.start, end, "{axis:?}");
                        assert!(!span.is_empty() && span.len() <= TILE, "{axis:?}");
                        let within = span.start / block == (span.end - 1) / block;
                        let whole = span.start.is_multiple_of(block)
                            && (span.end.is_multiple_of(block) || span.end == len);
                        assert!(within || whole, "{axis:?} {span:?}");
                        for position in span.clone() {
                            assert_eq!(axis.index_of(position), t);
                        }
                        end = span.end;
                    }
                    assert_eq!(end, len, "{axis:?}");
                }
            }
        }
    }

    struct Rows(Vec<Vec<Run>>);

    impl BlockRows for Rows {
        fn q_block(&self) -> usize {
            64
        }
        fn kv_block(&self) -> usize {
            64
        }
        fn row(&self, _: usize, _: usize, q_block_idx: usize, out: &mut Vec<Run>) {
            out.extend(&self.0[q_block_idx]);
        }
    }

    const fn run(first: u32, count: u32, class: BlockClass) -> Run {
        Run {
            first,
            count,
            class,
        }
    }

    #[test]
    fn a_tile_of_four_blocks_is_full_only_if_all_are() {
        use BlockClass::{Full, Partial};
        let rows = Rows(vec![
            vec![run(0, 4, Full), run(6, 1, Partial), run(8, 90, Full)],
            vec![
                run(0, 2, Full),
                run(2, 1, Partial),
                run(3, 1, Full),
                run(8, 90, Full),
            ],
        ]);
        let mut runs = QueryTileRuns::default();
        runs.load(&rows, 0, 0, 0..128, 600).unwrap();
        let mut tiles = Vec::new();
        runs.tiles(&Axis::new(600, 64, 16), &mut tiles);
        let found: Vec<_> = tiles.iter().map(|tile| (tile.index, tile.class)).collect();
        assert_eq!(found, [(0, Full), (1, Partial), (3, Partial), (4, Full)]);
        assert_eq!(runs.meeting(1, 128..256).len(), 2);
        assert_eq!(runs.meeting(0, 256..384).len(), 0);
    }

    #[test]
    fn overlapping_runs_are_refused() {
        let rows = Rows(vec![vec![
            run(0, 4, BlockClass::Full),
            run(3, 1, BlockClass::Partial),
        ]]);
        let error = QueryTileRuns::default()
            .load(&rows, 1, 2, 0..64, 600)
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "runs of batch 1, head 2, block row 0 must ascend without overlap: a run starts at \
             block 3, before 4, the end of the one before it"
        );
    }
}
