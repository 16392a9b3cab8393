//! Slices, crops, shifts and other block sizes. A slice keeps the absolute coordinates of its cells.

use std::ops::Range;
use std::sync::Arc;

use super::geometry::Axis;
use super::{BlockClass, BlockMask, BlockMaskError, BlockSize};
use crate::bucket::Bucket;

impl BlockMask {
    /// Keeps a range of batch entries; the rule goes on to see their indices in the whole.
    ///
    /// # Errors
    /// [`BlockMaskError::SliceRange`].
    pub fn slice_batch(&self, range: Range<u32>) -> Result<Self, BlockMaskError> {
        self.slice_axes(range, 0..self.heads())
    }

    /// Keeps a range of heads; the rule goes on to see their indices in the whole.
    ///
    /// # Errors
    /// [`BlockMaskError::SliceRange`].
    pub fn slice_heads(&self, range: Range<u32>) -> Result<Self, BlockMaskError> {
        self.slice_axes(0..self.batch(), range)
    }

    fn slice_axes(&self, batch: Range<u32>, heads: Range<u32>) -> Result<Self, BlockMaskError> {
        for (axis, range, len) in [
            ("batch", &batch, self.batch()),
            ("heads", &heads, self.heads()),
        ] {
            let range = u64::from(range.start)..u64::from(range.end);
            check_range(axis, &range, u64::from(len), Least::One)?;
        }
        let geometry = self.geometry();
        let sliced = geometry
            .with_axes(batch.end - batch.start, heads.end - heads.start)?
            .with_axis_offsets(
                geometry.batch_offset() + batch.start,
                geometry.head_offset() + heads.start,
            )?;
        // An axis that is stored once stays so.
        let stored = |range: Range<u32>, stored: u32| if stored == 1 { 0..1 } else { range };
        let batch = stored(batch, self.stored_batch());
        let heads = stored(heads, self.stored_heads());
        let mut planes = Vec::new();
        for b in batch.clone() {
            planes.extend(heads.clone().map(|h| Arc::clone(self.plane(b, h))));
        }
        let (n_batch, n_heads) = (batch.end - batch.start, heads.end - heads.start);
        let mask = Self::from_shared(sliced, n_batch, n_heads, planes, self.exactness())?;
        Ok(mask
            .with_authority(self.authority())
            .with_source(self.source()))
    }

    /// Keeps a range of query rows, any range: `q_offset` grows by its start.
    ///
    /// Of a mask for a bucket those calls remain that have all the rows. Blocks that the slice cuts are partial and
    /// not known to be mixed, so the result may be coarse.
    ///
    /// # Errors
    /// [`BlockMaskError::SliceRange`].
    pub fn slice_q(&self, rows: Range<u64>) -> Result<Self, BlockMaskError> {
        check_range("q", &rows, self.q_len(), Least::None)?;
        let geometry = self.geometry();
        let mut bucket = geometry.cut_bucket(Axis::Query, rows.end, rows.end - rows.start)?;
        let shift = rows.start as i64;
        bucket.q_offset = bucket.q_offset.start() + shift..=bucket.q_offset.end() + shift;
        self.window(geometry.with_bucket(bucket)?, shift, 0, BlockClass::Partial)
    }

    /// Keeps a range of keys, any range: `kv_offset` grows by its start.
    ///
    /// # Errors
    /// [`BlockMaskError::SliceRange`].
    pub fn slice_kv(&self, cols: Range<u64>) -> Result<Self, BlockMaskError> {
        check_range("kv", &cols, self.kv_len(), Least::None)?;
        let geometry = self.geometry();
        let bucket = geometry.cut_bucket(Axis::Key, cols.end, cols.end - cols.start)?;
        let shift = cols.start as i64;
        let sliced = geometry
            .with_bucket(bucket)?
            .with_kv_offset(geometry.kv_offset() + shift)?;
        self.window(sliced, 0, shift, BlockClass::Partial)
    }

    /// Keeps the first rows and keys.
    ///
    /// The cells are those of this mask. For a rule that reads `q_len` or `kv_len` they are not what the rule says at
    /// the shorter lengths, unless this is a mask for a bucket that has them: see [`BlockMask::member`].
    ///
    /// # Errors
    /// [`BlockMaskError::SliceRange`].
    pub fn crop(&self, q_len: u64, kv_len: u64) -> Result<Self, BlockMaskError> {
        check_range("q", &(0..q_len), self.q_len(), Least::None)?;
        check_range("kv", &(0..kv_len), self.kv_len(), Least::None)?;
        let bucket = Bucket {
            q_offset: self.bucket().q_offset.clone(),
            ..Bucket::single(q_len, kv_len, 0)
        };
        let geometry = self.geometry().with_bucket(bucket)?;
        self.window(geometry, 0, 0, BlockClass::Partial)
    }

    /// The mask of one call of the bucket.
    ///
    /// # Errors
    /// [`BlockMaskError::Call`] if the call does not belong to the bucket.
    pub fn member(&self, q_len: u64, kv_len: u64, q_offset: i64) -> Result<Self, BlockMaskError> {
        self.check_call(self.batch(), self.heads(), q_len, kv_len, q_offset)?;
        let geometry = self
            .geometry()
            .with_bucket(Bucket::single(q_len, kv_len, q_offset))?;
        // Only at the smallest offset are partial blocks known to be mixed.
        if q_offset == self.geometry().q_offset() {
            self.window(geometry, 0, 0, BlockClass::Partial)
        } else {
            self.coarse().window(geometry, 0, 0, BlockClass::Partial)
        }
    }

    /// Moves the cells by whole tokens within the same lengths: the result allows `(q, kv)` where this mask allows
    /// `(q - by_q, kv - by_kv)`.
    ///
    /// Cells that come from outside are of class `outside`; partial says that they are unknown.
    ///
    /// # Errors
    /// [`BlockMaskError::SeveralCalls`] if the bucket has more than one member, since where the outside begins
    /// depends on the lengths; [`BlockMaskError::CoordinateOverflow`].
    pub fn shift(
        &self,
        by_q: i64,
        by_kv: i64,
        outside: BlockClass,
    ) -> Result<Self, BlockMaskError> {
        self.require_single("shifting")?;
        let back = |axis: &'static str, by: i64| {
            by.checked_neg().ok_or(BlockMaskError::CoordinateOverflow {
                axis,
                offset: by,
                len: 0,
            })
        };
        let (row_shift, col_shift) = (back("q", by_q)?, back("kv", by_kv)?);
        // Moved cells are another rule's.
        let moved = self.window(self.geometry().clone(), row_shift, col_shift, outside)?;
        Ok(moved.with_source(None))
    }

    /// The same cells in blocks of another size.
    ///
    /// # Errors
    /// [`BlockMaskError::ZeroBlock`] or [`BlockMaskError::TooManyBlocks`].
    pub fn reblock(&self, block: BlockSize) -> Result<Self, BlockMaskError> {
        let geometry = self.geometry().with_block(block)?;
        self.window(geometry, 0, 0, BlockClass::Partial)
    }

    /// Takes over a mask that was built for more keys, after a check that it continues this one.
    ///
    /// # Errors
    /// [`BlockMaskError::Geometry`] unless the two differ in `kv_len` only and `longer` has no fewer keys;
    /// [`BlockMaskError::Continuation`] with the first block whose classes cannot both be right.
    pub fn extend_kv(&self, longer: &Self) -> Result<Self, BlockMaskError> {
        let mismatch = || BlockMaskError::Geometry {
            left: Box::new(self.geometry().clone()),
            right: Box::new(longer.geometry().clone()),
        };
        if longer.kv_len() < self.kv_len() {
            return Err(mismatch());
        }
        let common = longer.slice_kv(0..self.kv_len())?;
        let (a, b) = (self.geometry(), common.geometry());
        if a.with_bucket(b.bucket().clone())? != *b
            || a.q_len() != b.q_len()
            || a.bucket().q_offset != b.bucket().q_offset
        {
            return Err(mismatch());
        }
        for (b, h) in self.logical_entries() {
            for row in 0..self.rows() {
                let mut conflict = None;
                super::plane::merge_rows(
                    self.row(b, h, row),
                    common.row(b, h, row),
                    self.cols(),
                    |cols, short, long| {
                        if conflict.is_none() && !compatible((short, self), (long, &common)) {
                            conflict = Some((cols.start, short, long));
                        }
                    },
                );
                if let Some((col, short, long)) = conflict {
                    return Err(BlockMaskError::Continuation {
                        b,
                        h,
                        row,
                        col,
                        short: short.name(),
                        long: long.name(),
                    });
                }
            }
        }
        Ok(longer.clone())
    }

    /// The same classes with nothing said of the partial blocks.
    fn coarse(&self) -> Self {
        self.map_planes(super::Exactness::Coarse, super::Plane::clone)
    }
}

/// Tells whether the classes that two masks give to the same cells can both be right.
fn compatible(a: (BlockClass, &BlockMask), b: (BlockClass, &BlockMask)) -> bool {
    match (a.0, b.0) {
        (BlockClass::Partial, BlockClass::Partial) => true,
        (BlockClass::Partial, BlockClass::Full | BlockClass::Empty) => !a.1.is_exact(),
        (BlockClass::Full | BlockClass::Empty, BlockClass::Partial) => !b.1.is_exact(),
        (
            x @ (BlockClass::Full | BlockClass::Empty),
            y @ (BlockClass::Full | BlockClass::Empty),
        ) => x == y,
    }
}

/// How short a slice may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Least {
    None,
    One,
}

fn check_range(
    axis: &'static str,
    range: &Range<u64>,
    len: u64,
    least: Least,
) -> Result<(), BlockMaskError> {
    let too_short = range.end < range.start || (least == Least::One && range.is_empty());
    if too_short || len < range.end {
        return Err(BlockMaskError::SliceRange {
            axis,
            start: range.start,
            end: range.end,
            len,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
