//! Building a block mask from a prepared rule: the plane is cut until every block is proved or looked into.

use super::{
    BlockClass, BlockMask, BlockMaskError, BlockSize, Exactness, Geometry, MaskEvaluator, Plane,
    PlaneBuilder,
};
use crate::analysis::classify::{LengthRanges, PlaneClassifier, Region, TableCache, Tri};
use crate::eval::RowMask;
use crate::fingerprint::Fingerprint;
use crate::pipeline::Prepared;

/// How the classes of a mask came about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BuildStats {
    /// Blocks whose class analysis proved, whole regions at a time.
    pub blocks_proved: u64,
    /// Blocks into which the evaluator looked.
    pub blocks_evaluated: u64,
    /// Cells that the evaluator computed.
    pub cells_evaluated: u64,
}

impl BlockMask {
    /// Builds the mask of a prepared `mask_mod` for its scope, asking the row interpreter for the cells of blocks
    /// that analysis leaves open.
    ///
    /// # Errors
    /// As [`BlockMask::build_with`].
    pub fn build(
        prepared: &Prepared,
        block: BlockSize,
    ) -> Result<(BlockMask, BuildStats), BlockMaskError> {
        Self::build_with(prepared, block, &RowMask::of(prepared))
    }

    /// Builds the mask of a prepared `mask_mod` for its scope, with an evaluator of the same rule for the cells of
    /// blocks that analysis leaves open.
    ///
    /// A block is *full* or *empty* only if that holds in every member of the bucket. At a fixed length, and for a
    /// rule that does not read the lengths, *partial* is exact too; otherwise it means *not proved*.
    ///
    /// # Errors
    /// [`BlockMaskError`] if the scope has no batch entry or head, or more blocks than a mask can count.
    pub fn build_with(
        prepared: &Prepared,
        block: BlockSize,
        evaluator: &dyn MaskEvaluator,
    ) -> Result<(BlockMask, BuildStats), BlockMaskError> {
        let scope = prepared.scope();
        let geometry = Geometry::new(scope.batch, scope.num_q_heads, &scope.bucket, block)?;
        let reads = prepared.reads();
        let stored_batch = if reads.b { scope.batch } else { 1 };
        let stored_heads = if reads.h { scope.num_q_heads } else { 1 };
        let mut stats = BuildStats::default();
        let mut cache = TableCache::new();
        let mut planes = Vec::with_capacity(stored_batch as usize * stored_heads as usize);
        for b in 0..stored_batch {
            for h in 0..stored_heads {
                let classifier = classifier(prepared, &geometry, (b, h), &mut cache);
                let builder = PlaneBuild {
                    geometry: &geometry,
                    classifier,
                    evaluator: cells_decide(prepared).then_some(evaluator),
                    at: (b, h),
                    rows: PlaneBuilder::new(geometry.rows(), geometry.cols()),
                    stats: &mut stats,
                    bits: Vec::new(),
                };
                planes.push(builder.run());
            }
        }
        let exactness = if cells_decide(prepared) {
            Exactness::Exact
        } else {
            Exactness::Coarse
        };
        let mask = BlockMask::from_planes(geometry, stored_batch, stored_heads, planes, exactness)?;
        let ranges = scalar_ranges(prepared);
        let source = Fingerprint::of(prepared.original(), |slot| ranges[slot].is_some());
        Ok((mask.with_source(Some(source)), stats))
    }
}

/// Whether the cells at the longest lengths decide the class for every member of the bucket.
fn cells_decide(prepared: &Prepared) -> bool {
    let bucket = &prepared.scope().bucket;
    let fixed =
        bucket.q_len.start() == bucket.q_len.end() && bucket.kv_len.start() == bucket.kv_len.end();
    bucket.q_offset.start() == bucket.q_offset.end()
        && (fixed || !prepared.reads().lengths)
        && scalar_ranges(prepared).iter().all(Option::is_none)
}

pub(crate) fn classifier(
    prepared: &Prepared,
    geometry: &Geometry,
    (b, h): (u32, u32),
    cache: &mut TableCache,
) -> PlaneClassifier {
    let bucket = geometry.bucket();
    let range =
        |range: &std::ops::RangeInclusive<u64>| (*range.start() as i64, *range.end() as i64);
    let lengths = LengthRanges {
        q_len: range(&bucket.q_len),
        kv_len: range(&bucket.kv_len),
        relation: bucket.relation,
    };
    let counts = (geometry.batch() as i32, geometry.heads() as i32);
    PlaneClassifier::new(
        prepared.rule(),
        prepared.bindings(),
        (b as i32, h as i32),
        counts,
        lengths,
        &scalar_ranges(prepared),
        cache,
    )
}

/// Ranges of the scalars that may change within the bucket, by capture slot.
fn scalar_ranges(prepared: &Prepared) -> Vec<Option<(i64, i64)>> {
    let captures = prepared.rule().captures.iter();
    captures
        .map(|capture| prepared.scope().scalar_range(&capture.name))
        .collect()
}

struct PlaneBuild<'a> {
    geometry: &'a Geometry,
    classifier: PlaneClassifier,
    evaluator: Option<&'a dyn MaskEvaluator>,
    at: (u32, u32),
    rows: PlaneBuilder,
    stats: &'a mut BuildStats,
    bits: Vec<u64>,
}

/// A rectangle of mask rows and columns inside one block.
#[derive(Clone, Copy)]
struct Cells {
    rows: (u64, u64),
    cols: (u64, u64),
}

/// Quarters of a block are worth this many decisions before its cells are simply computed.
const CUTS_PER_BLOCK: u32 = 24;

/// Rows that are computed at a time while both answers have not been seen.
const ROWS_AT_A_TIME: u64 = 16;

impl PlaneBuild<'_> {
    fn run(mut self) -> Plane {
        self.cut((0, self.geometry.rows()), (0, self.geometry.cols()));
        self.rows.finish()
    }

    /// Classifies a rectangle of blocks, cutting it where analysis cannot decide.
    fn cut(&mut self, rows: (u32, u32), cols: (u32, u32)) {
        let (n_rows, n_cols) = (rows.1 - rows.0, cols.1 - cols.0);
        if n_rows == 0 || n_cols == 0 {
            return;
        }
        let region = self.region(rows, cols);
        let answer = self.classifier.decide(&region);
        let class = if answer.is_false() {
            Some(BlockClass::Empty)
        } else if answer.is_true() {
            Some(BlockClass::Full)
        } else if answer.is_mixed() {
            Some(BlockClass::Partial)
        } else {
            None
        };
        if let Some(class) = class {
            self.stats.blocks_proved += u64::from(n_rows) * u64::from(n_cols);
            if class != BlockClass::Empty {
                self.rows.fill(rows.0..rows.1, cols.0..cols.1, class);
            }
            return;
        }
        if n_rows == 1 && n_cols == 1 {
            let class = self.look_into(rows.0, cols.0, answer);
            self.rows.push(rows.0, cols.0, 1, class);
            return;
        }
        let mid_row = if n_rows == 1 {
            rows.1
        } else {
            rows.0 + n_rows / 2
        };
        let mid_col = if n_cols == 1 {
            cols.1
        } else {
            cols.0 + n_cols / 2
        };
        // Left before right, so that each row receives its runs in ascending order.
        for rows in [(rows.0, mid_row), (mid_row, rows.1)] {
            for cols in [(cols.0, mid_col), (mid_col, cols.1)] {
                self.cut(rows, cols);
            }
        }
    }

    fn region(&self, rows: (u32, u32), cols: (u32, u32)) -> Region {
        let geometry = self.geometry;
        let (first_row, last_row) = (geometry.row_span(rows.0), geometry.row_span(rows.1 - 1));
        let (first_col, last_col) = (geometry.col_span(cols.0), geometry.col_span(cols.1 - 1));
        let cells = Cells {
            rows: (first_row.start, last_row.end),
            cols: (first_col.start, last_col.end),
        };
        Region {
            // The last block of an axis may be cut short.
            block_q: (last_row.end - last_row.start) as i64,
            block_kv: (last_col.end - last_col.start) as i64,
            single: self.evaluator.is_some() && rows.1 - rows.0 == 1 && cols.1 - cols.0 == 1,
            ..self.cells_region(cells)
        }
    }

    fn cells_region(&self, cells: Cells) -> Region {
        let offset = &self.geometry.bucket().q_offset;
        let kv_offset = self.geometry.kv_offset();
        Region {
            q: (
                offset.start() + cells.rows.0 as i64,
                offset.end() + cells.rows.1 as i64 - 1,
            ),
            kv: (
                kv_offset + cells.cols.0 as i64,
                kv_offset + cells.cols.1 as i64 - 1,
            ),
            block_q: (cells.rows.1 - cells.rows.0) as i64,
            block_kv: (cells.cols.1 - cells.cols.0) as i64,
            single: self.evaluator.is_some(),
        }
    }

    /// The class of one block that analysis left open: looks for an allowed and a masked cell.
    fn look_into(&mut self, row: u32, col: u32, answer: Tri) -> BlockClass {
        let Some(evaluator) = self.evaluator else {
            self.stats.blocks_proved += 1;
            return BlockClass::Partial;
        };
        self.stats.blocks_evaluated += 1;
        let (rows, cols) = (self.geometry.row_span(row), self.geometry.col_span(col));
        let block = Cells {
            rows: (rows.start, rows.end),
            cols: (cols.start, cols.end),
        };
        let mut seen = Seen {
            allowed: answer.sure_true,
            masked: answer.sure_false,
        };
        // A border usually crosses the first, last or middle row.
        for row in [
            block.rows.0,
            block.rows.1 - 1,
            block.rows.0.midpoint(block.rows.1),
        ] {
            self.compute(
                evaluator,
                Cells {
                    rows: (row, row + 1),
                    ..block
                },
                &mut seen,
            );
            if seen.both() {
                return BlockClass::Partial;
            }
        }
        // Then quarters, those that analysis decides at once and the others row by row.
        let mut open = vec![block];
        let mut budget = CUTS_PER_BLOCK;
        let mut undecided = Vec::new();
        while let Some(cells) = open.pop() {
            let (n_rows, n_cols) = (cells.rows.1 - cells.rows.0, cells.cols.1 - cells.cols.0);
            if budget < 4 || n_rows < 8 || n_cols < 8 {
                undecided.push(cells);
                continue;
            }
            budget -= 4;
            let (mid_row, mid_col) = (cells.rows.0 + n_rows / 2, cells.cols.0 + n_cols / 2);
            for rows in [(cells.rows.0, mid_row), (mid_row, cells.rows.1)] {
                for cols in [(cells.cols.0, mid_col), (mid_col, cells.cols.1)] {
                    let quarter = Cells { rows, cols };
                    let answer = self.classifier.decide(&self.cells_region(quarter));
                    seen.allowed |= answer.sure_true;
                    seen.masked |= answer.sure_false;
                    if answer.may_true && answer.may_false {
                        open.push(quarter);
                    }
                }
            }
            if seen.both() {
                return BlockClass::Partial;
            }
        }
        for cells in undecided {
            let mut row = cells.rows.0;
            while row < cells.rows.1 {
                let end = (row + ROWS_AT_A_TIME).min(cells.rows.1);
                self.compute(
                    evaluator,
                    Cells {
                        rows: (row, end),
                        ..cells
                    },
                    &mut seen,
                );
                if seen.both() {
                    return BlockClass::Partial;
                }
                row = end;
            }
        }
        match (seen.allowed, seen.masked) {
            (true, true) => BlockClass::Partial,
            (true, false) => BlockClass::Full,
            (false, _) => BlockClass::Empty,
        }
    }

    fn compute(&mut self, evaluator: &dyn MaskEvaluator, cells: Cells, seen: &mut Seen) {
        let n_q = (cells.rows.1 - cells.rows.0) as usize;
        let n_kv = (cells.cols.1 - cells.cols.0) as usize;
        let words = n_kv.div_ceil(64);
        self.bits.clear();
        self.bits.resize(n_q * words, 0);
        let region = self.cells_region(cells);
        evaluator.tile(
            self.at.0,
            self.at.1,
            region.q.0,
            n_q,
            region.kv.0,
            n_kv,
            &mut self.bits,
            words,
        );
        let allowed: usize = self
            .bits
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum();
        self.stats.cells_evaluated += (n_q * n_kv) as u64;
        seen.allowed |= 0 < allowed;
        seen.masked |= allowed < n_q * n_kv;
    }
}

#[derive(Clone, Copy)]
struct Seen {
    allowed: bool,
    masked: bool,
}

impl Seen {
    fn both(self) -> bool {
        self.allowed && self.masked
    }
}

#[cfg(test)]
mod tests;
