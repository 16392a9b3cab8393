//! The shape of a block mask: axes, lengths, block size, and where it lies in absolute coordinates.

use std::fmt;
use std::ops::{Range, RangeInclusive};

use super::BlockMaskError;
use crate::bucket::{Bucket, Relation};

/// Rows and columns of one mask block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockSize {
    /// Query rows of a block, at least 1.
    pub q: u32,
    /// Keys of a block, at least 1.
    pub kv: u32,
}

impl Default for BlockSize {
    /// The block size of `PyTorch`, 128 × 128.
    fn default() -> Self {
        Self { q: 128, kv: 128 }
    }
}

impl fmt::Display for BlockSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.q, self.kv)
    }
}

/// The checked shape of a block mask.
///
/// Row `r` of the mask is the query `q_offset + r`, column `c` the key `kv_offset + c`, and batch and head indices
/// start at `batch_offset` and `head_offset`: a slice keeps the coordinates that its rule was written in. A batch or
/// head count of 1 serves calls with any count.
///
/// The lengths are those of the longest member of the bucket, the query offset is its smallest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    batch: u32,
    heads: u32,
    bucket: Bucket,
    block: BlockSize,
    batch_offset: u32,
    head_offset: u32,
    kv_offset: i64,
}

/// A run counts its blocks in 31 bits, so no row may have more.
const MAX_BLOCKS: u64 = (1 << 31) - 1;

impl Geometry {
    /// Checks and keeps the shape of a mask for a bucket.
    ///
    /// # Errors
    /// [`BlockMaskError::ZeroBlock`], [`BlockMaskError::ZeroAxis`], [`BlockMaskError::Bucket`],
    /// [`BlockMaskError::TooManyBlocks`] or [`BlockMaskError::CoordinateOverflow`].
    pub fn new(
        batch: u32,
        heads: u32,
        bucket: &Bucket,
        block: BlockSize,
    ) -> Result<Self, BlockMaskError> {
        Self {
            batch,
            heads,
            bucket: bucket.clone(),
            block,
            batch_offset: 0,
            head_offset: 0,
            kv_offset: 0,
        }
        .checked()
    }

    /// Checks and keeps the shape of a mask for one pair of lengths, its first query at position 0.
    ///
    /// # Errors
    /// Those of [`Geometry::new`].
    pub fn exact(
        batch: u32,
        heads: u32,
        q_len: u64,
        kv_len: u64,
        block: BlockSize,
    ) -> Result<Self, BlockMaskError> {
        Self::new(batch, heads, &Bucket::single(q_len, kv_len, 0), block)
    }

    /// Moves the query axis: the first row is the query `q_offset`.
    ///
    /// # Errors
    /// [`BlockMaskError::CoordinateOverflow`].
    pub fn with_q_offset(self, q_offset: i64) -> Result<Self, BlockMaskError> {
        let bucket = Bucket {
            q_offset: q_offset..=q_offset,
            ..self.bucket
        };
        Self { bucket, ..self }.checked()
    }

    /// Moves the key axis: the first column is the key `kv_offset`.
    ///
    /// # Errors
    /// [`BlockMaskError::CoordinateOverflow`].
    pub fn with_kv_offset(self, kv_offset: i64) -> Result<Self, BlockMaskError> {
        Self { kv_offset, ..self }.checked()
    }

    /// Moves the batch and head axes: their first indices are `batch_offset` and `head_offset`.
    ///
    /// # Errors
    /// [`BlockMaskError::CoordinateOverflow`].
    pub fn with_axis_offsets(
        self,
        batch_offset: u32,
        head_offset: u32,
    ) -> Result<Self, BlockMaskError> {
        Self {
            batch_offset,
            head_offset,
            ..self
        }
        .checked()
    }

    pub(super) fn with_bucket(&self, bucket: Bucket) -> Result<Self, BlockMaskError> {
        Self {
            bucket,
            ..self.clone()
        }
        .checked()
    }

    pub(super) fn with_block(&self, block: BlockSize) -> Result<Self, BlockMaskError> {
        Self {
            block,
            ..self.clone()
        }
        .checked()
    }

    pub(super) fn with_axes(&self, batch: u32, heads: u32) -> Result<Self, BlockMaskError> {
        Self {
            batch,
            heads,
            ..self.clone()
        }
        .checked()
    }

    fn checked(mut self) -> Result<Self, BlockMaskError> {
        if self.block.q == 0 || self.block.kv == 0 {
            return Err(BlockMaskError::ZeroBlock {
                q: self.block.q,
                kv: self.block.kv,
            });
        }
        if self.batch == 0 || self.heads == 0 {
            return Err(BlockMaskError::ZeroAxis {
                batch: self.batch,
                heads: self.heads,
            });
        }
        self.bucket = self.bucket.tight()?;
        for (axis, len, block) in [
            ("q", self.q_len(), self.block.q),
            ("kv", self.kv_len(), self.block.kv),
        ] {
            if MAX_BLOCKS < len.div_ceil(u64::from(block)) {
                return Err(BlockMaskError::TooManyBlocks { axis, len, block });
            }
        }
        let ends_in_i64 = |offset: i64, len: u64| {
            i64::try_from(len).is_ok_and(|len| offset.checked_add(len).is_some())
        };
        for (axis, offset, len) in [
            ("q", *self.bucket.q_offset.end(), self.q_len()),
            ("kv", self.kv_offset, self.kv_len()),
        ] {
            if !ends_in_i64(offset, len) {
                return Err(BlockMaskError::CoordinateOverflow { axis, offset, len });
            }
        }
        for (axis, offset, len) in [
            ("batch", self.batch_offset, self.batch),
            ("head", self.head_offset, self.heads),
        ] {
            if offset.checked_add(len).is_none() {
                return Err(BlockMaskError::CoordinateOverflow {
                    axis,
                    offset: i64::from(offset),
                    len: u64::from(len),
                });
            }
        }
        Ok(self)
    }

    /// Batch entries; 1 serves any number.
    pub fn batch(&self) -> u32 {
        self.batch
    }

    /// Query heads; 1 serves any number.
    pub fn heads(&self) -> u32 {
        self.heads
    }

    /// The calls that the mask holds for, in tight ranges.
    pub fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    /// Rows and columns of a block.
    pub fn block(&self) -> BlockSize {
        self.block
    }

    /// Query rows of the longest member.
    pub fn q_len(&self) -> u64 {
        *self.bucket.q_len.end()
    }

    /// Keys of the longest member.
    pub fn kv_len(&self) -> u64 {
        *self.bucket.kv_len.end()
    }

    /// Absolute position of the first row, the smallest one of the bucket.
    pub fn q_offset(&self) -> i64 {
        *self.bucket.q_offset.start()
    }

    /// Absolute position of the first column.
    pub fn kv_offset(&self) -> i64 {
        self.kv_offset
    }

    /// Batch index, as the rule sees it, of the first batch entry.
    pub fn batch_offset(&self) -> u32 {
        self.batch_offset
    }

    /// Head index, as the rule sees it, of the first head.
    pub fn head_offset(&self) -> u32 {
        self.head_offset
    }

    /// Block rows.
    pub fn rows(&self) -> u32 {
        self.q_len().div_ceil(u64::from(self.block.q)) as u32
    }

    /// Block columns.
    pub fn cols(&self) -> u32 {
        self.kv_len().div_ceil(u64::from(self.block.kv)) as u32
    }

    /// The mask rows of a block row, cut at `q_len`.
    pub fn row_span(&self, row: u32) -> Range<u64> {
        span(row, self.block.q, self.q_len())
    }

    /// The mask columns of a block column, cut at `kv_len`.
    pub fn col_span(&self, col: u32) -> Range<u64> {
        span(col, self.block.kv, self.kv_len())
    }

    /// Tells whether a block reaches beyond the lengths.
    pub fn overhangs(&self, row: u32, col: u32) -> bool {
        self.row_overhangs(row) || self.col_overhangs(col)
    }

    pub(super) fn row_overhangs(&self, row: u32) -> bool {
        self.q_len() < (u64::from(row) + 1) * u64::from(self.block.q)
    }

    pub(super) fn col_overhangs(&self, col: u32) -> bool {
        self.kv_len() < (u64::from(col) + 1) * u64::from(self.block.kv)
    }

    /// Absolute position of a mask row, at the smallest query offset.
    pub(super) fn q_idx(&self, row: u64) -> i64 {
        self.q_offset() + row as i64
    }

    /// Absolute position of a mask column.
    pub(super) fn kv_idx(&self, col: u64) -> i64 {
        self.kv_offset + col as i64
    }

    /// The bucket without some of its lengths: those that do not reach `min` on the named axis fall away, and that
    /// axis becomes `len` long.
    pub(super) fn cut_bucket(
        &self,
        axis: Axis,
        min: u64,
        len: u64,
    ) -> Result<Bucket, BlockMaskError> {
        let reach = |range: &RangeInclusive<u64>| min.max(*range.start())..=*range.end();
        let cut = len..=len;
        let tied = match self.bucket.relation {
            Relation::Equal => true,
            // A shorter query never lacks keys, while the keys bound the query from above.
            Relation::AtMost => axis == Axis::Query,
            Relation::Free => false,
        };
        let (q_len, kv_len) = match axis {
            Axis::Query if tied => (cut, reach(&self.bucket.kv_len)),
            Axis::Query => (cut, self.bucket.kv_len.clone()),
            Axis::Key if tied => (reach(&self.bucket.q_len), cut),
            Axis::Key => (self.bucket.q_len.clone(), cut),
        };
        Ok(Bucket {
            q_len,
            kv_len,
            relation: Relation::Free,
            q_offset: self.bucket.q_offset.clone(),
        }
        .tight()?)
    }
}

/// The two axes of the score matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Axis {
    Query,
    Key,
}

fn span(index: u32, block: u32, len: u64) -> Range<u64> {
    let start = u64::from(index) * u64::from(block);
    start.min(len)..(start + u64::from(block)).min(len)
}

impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "[B={}, H={}, {}, block {}",
            self.batch, self.heads, self.bucket, self.block
        )?;
        if self.kv_offset != 0 {
            write!(f, ", keys from {}", self.kv_offset)?;
        }
        if self.batch_offset != 0 {
            write!(f, ", batch from {}", self.batch_offset)?;
        }
        if self.head_offset != 0 {
            write!(f, ", heads from {}", self.head_offset)?;
        }
        f.write_str("]")
    }
}
