//! Seeing a mask through a window: other lengths, another origin, another block size, in whole tokens.
//!
//! A block of the result covers parts of several old blocks, and perhaps cells outside the old mask. It is full if
//! all its parts are, empty if all its parts are, and partial otherwise. It is known to be mixed if it has a full and
//! an empty part, or the whole of a block that is mixed itself.

use std::ops::Range;
use std::sync::Arc;

use super::plane::segments;
use super::{BlockClass, BlockMask, BlockMaskError, Exactness, Geometry, Plane, PlaneBuilder};

/// What the parts of a block are, as a set.
type Parts = u8;
const FULL: Parts = 1;
const EMPTY: Parts = 2;
/// Part of a partial block, or the whole of one that nothing was proved of.
const UNKNOWN: Parts = 4;
/// The whole of a block that has both allowed and masked cells.
const MIXED: Parts = 8;

impl BlockMask {
    /// The mask whose row `r` and column `c` are row `r + row_shift` and column `c + col_shift` of this one.
    ///
    /// Lengths and block size are those of `geometry`. Cells outside this mask are of class `outside`, where partial
    /// stands for unknown.
    pub(super) fn window(
        &self,
        geometry: Geometry,
        row_shift: i64,
        col_shift: i64,
        outside: BlockClass,
    ) -> Result<Self, BlockMaskError> {
        let window = Window {
            old: self.geometry(),
            new: &geometry,
            row_shift: i128::from(row_shift),
            col_shift: i128::from(col_shift),
            outside,
            is_exact: self.is_exact(),
        };
        let mut exactness = Exactness::Exact;
        let mut changed = Vec::new();
        for plane in self.distinct_planes() {
            changed.push(Arc::new(window.plane(plane, &mut exactness)));
        }
        let planes = self
            .plane_of()
            .iter()
            .map(|&at| Arc::clone(&changed[at as usize]))
            .collect();
        let (stored_batch, stored_heads) = (self.stored_batch(), self.stored_heads());
        let mask = Self::from_shared(geometry, stored_batch, stored_heads, planes, exactness)?;
        Ok(mask
            .with_authority(self.authority())
            .with_source(self.source()))
    }
}

struct Window<'a> {
    old: &'a Geometry,
    new: &'a Geometry,
    row_shift: i128,
    col_shift: i128,
    outside: BlockClass,
    is_exact: bool,
}

/// Adjacent blocks of the result that have the same parts.
#[derive(Clone, Copy)]
struct Stretch {
    end: u32,
    parts: Parts,
}

impl Window<'_> {
    fn plane(&self, plane: &Plane, exactness: &mut Exactness) -> Plane {
        let mut builder = PlaneBuilder::new(self.new.rows(), self.new.cols());
        for row in 0..self.new.rows() {
            let mut at = 0;
            for stretch in self.row(plane, row) {
                let class = match stretch.parts {
                    FULL => BlockClass::Full,
                    EMPTY => BlockClass::Empty,
                    _ => BlockClass::Partial,
                };
                let mixed =
                    stretch.parts & MIXED != 0 || stretch.parts & (FULL | EMPTY) == FULL | EMPTY;
                if class == BlockClass::Partial && !mixed {
                    *exactness = Exactness::Coarse;
                }
                builder.push(row, at, stretch.end - at, class);
                at = stretch.end;
            }
        }
        builder.finish()
    }

    /// The parts of all blocks of one row of the result.
    fn row(&self, plane: &Plane, row: u32) -> Vec<Stretch> {
        let span = self.new.row_span(row);
        let low = i128::from(span.start) + self.row_shift;
        let high = i128::from(span.end) + self.row_shift;
        let old_len = i128::from(self.old.q_len());
        let mut line = Vec::new();
        if low < 0 || old_len < high {
            line.push(Stretch {
                end: self.new.cols(),
                parts: parts_of(self.outside),
            });
        }
        let (low, high) = (low.max(0), high.min(old_len));
        if low < high {
            let block = i128::from(self.old.block().q);
            for old_row in (low / block) as u32..=((high - 1) / block) as u32 {
                let old_span = self.old.row_span(old_row);
                let whole = low <= i128::from(old_span.start) && i128::from(old_span.end) <= high;
                let source = self.line(plane, old_row, whole);
                line = if line.is_empty() {
                    source
                } else {
                    merged(&line, &source)
                };
            }
        }
        line
    }

    /// The parts that one old block row gives to the blocks of the result.
    fn line(&self, plane: &Plane, old_row: u32, whole_rows: bool) -> Vec<Stretch> {
        let mut line = Line {
            window: self,
            stretches: Vec::new(),
        };
        let old_len = i128::from(self.old.kv_len());
        // The first and the last columns of the result, in old columns.
        let from = self.col_shift;
        let to = self.col_shift + i128::from(self.new.kv_len());
        line.add(from..0.min(to), parts_of(self.outside));
        let (old_block, new_block) = (
            i128::from(self.old.block().kv),
            i128::from(self.new.block().kv),
        );
        // Only then does no old block lie across two of the result.
        let nested = new_block % old_block == 0 && self.col_shift % old_block == 0;
        for (cols, class) in segments(plane.row(old_row), plane.cols()) {
            let start = i128::from(self.old.col_span(cols.start).start);
            let end = i128::from(self.old.col_span(cols.end - 1).end);
            if class != BlockClass::Partial || !self.is_exact || !whole_rows || !nested {
                line.add(start..end, parts_of(class));
                continue;
            }
            // The end of the result may cut one block; those before it are there as a whole.
            let whole_end = if end <= to {
                end
            } else {
                (to.max(0) / old_block * old_block).clamp(start, end)
            };
            line.add(start..whole_end, MIXED);
            line.add(whole_end..end, UNKNOWN);
        }
        line.add(old_len.max(from)..to, parts_of(self.outside));
        line.stretches
    }
}

struct Line<'a> {
    window: &'a Window<'a>,
    stretches: Vec<Stretch>,
}

impl Line<'_> {
    /// Adds a stretch of old columns; they come in rising order without gaps.
    fn add(&mut self, old: Range<i128>, parts: Parts) {
        let new = self.window.new;
        let start = (old.start - self.window.col_shift).max(0);
        let end = (old.end - self.window.col_shift).min(i128::from(new.kv_len()));
        if end <= start {
            return;
        }
        let block = i128::from(new.block().kv);
        let (first, end_block) = ((start / block) as u32, ((end - 1) / block) as u32 + 1);
        let mut next = first;
        if let Some(last) = self.stretches.last().copied()
            && first < last.end
        {
            // The first block was begun by the stretch before.
            let before = self
                .stretches
                .len()
                .checked_sub(2)
                .map_or(0, |at| self.stretches[at].end);
            if before < first {
                self.stretches.last_mut().expect("there is a last one").end = first;
                self.stretches.push(last);
            }
            self.stretches
                .last_mut()
                .expect("there is a last one")
                .parts |= parts;
            next = first + 1;
        }
        if next < end_block {
            self.stretches.push(Stretch {
                end: end_block,
                parts,
            });
        }
    }
}

fn parts_of(class: BlockClass) -> Parts {
    match class {
        BlockClass::Full => FULL,
        BlockClass::Empty => EMPTY,
        BlockClass::Partial => UNKNOWN,
    }
}

/// Two lines over the same blocks as one.
fn merged(a: &[Stretch], b: &[Stretch]) -> Vec<Stretch> {
    let mut out: Vec<Stretch> = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        let end = x.end.min(y.end);
        let parts = x.parts | y.parts;
        match out.last_mut() {
            Some(last) if last.parts == parts => last.end = end,
            Some(_) | None => out.push(Stretch { end, parts }),
        }
        i += usize::from(x.end == end);
        j += usize::from(y.end == end);
    }
    out
}
