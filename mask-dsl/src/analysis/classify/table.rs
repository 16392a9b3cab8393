//! Minima and maxima of a captured buffer along one axis: blocks, and a sparse table over them.

use crate::capture::{BufferData, CapturedBuffer};

/// Elements per block: a query scans fewer than two blocks at its ends.
const BLOCK: usize = 128;

/// Range minima and maxima along one axis of a buffer, the other axes fixed.
#[derive(Debug)]
pub(crate) struct AxisTable {
    buffer: CapturedBuffer,
    first: i64,
    stride: i64,
    extent: usize,
    /// `levels[k][i]` covers blocks `i .. i + 2^k`.
    levels: Vec<Vec<(i64, i64)>>,
}

impl AxisTable {
    /// The table of `buffer` along `axis`, with `fixed` as the index on every other axis (the entry at `axis` is
    /// ignored). `None` if a fixed index leaves its axis or the axis is empty: such a read never happens.
    pub(crate) fn new(buffer: &CapturedBuffer, axis: usize, fixed: &[i64]) -> Option<AxisTable> {
        let mut index = fixed.to_vec();
        index[axis] = 0;
        let first = buffer.element(&index)? as i64;
        let extent = buffer.shape()[axis];
        let mut table = AxisTable {
            buffer: buffer.clone(),
            first,
            stride: buffer.strides()[axis],
            extent,
            levels: Vec::new(),
        };
        let blocks = extent.div_ceil(BLOCK);
        let base: Vec<_> = (0..blocks)
            .map(|i| table.scan(i * BLOCK, ((i + 1) * BLOCK).min(extent)))
            .collect();
        table.levels.push(base);
        let mut width = 1;
        while 2 * width <= blocks {
            let below = table.levels.last().expect("the base level is there");
            let level = (0..=blocks - 2 * width)
                .map(|i| join(below[i], below[i + width]))
                .collect();
            table.levels.push(level);
            width *= 2;
        }
        Some(table)
    }

    /// Number of elements along the axis.
    pub(crate) fn extent(&self) -> i64 {
        self.extent as i64
    }

    /// Least and greatest element at positions `lo..=hi`, which lie within the axis.
    pub(crate) fn query(&self, lo: i64, hi: i64) -> (i64, i64) {
        let (lo, end) = (lo as usize, hi as usize + 1);
        let (first_block, end_block) = (lo.div_ceil(BLOCK), end / BLOCK);
        // The last block may be cut short by the end of the axis; then it is whole as well.
        let end_block = if end == self.extent {
            self.levels[0].len()
        } else {
            end_block
        };
        if end_block <= first_block {
            return self.scan(lo, end);
        }
        let level = (end_block - first_block).ilog2() as usize;
        let table = &self.levels[level];
        let mut range = join(table[first_block], table[end_block - (1 << level)]);
        if lo < first_block * BLOCK {
            range = join(range, self.scan(lo, first_block * BLOCK));
        }
        if end_block * BLOCK < end {
            range = join(range, self.scan(end_block * BLOCK, end));
        }
        range
    }

    fn scan(&self, start: usize, end: usize) -> (i64, i64) {
        let at = (self.first + start as i64 * self.stride) as usize;
        match (self.buffer.data(), self.stride) {
            (BufferData::I32(v), 1) => {
                let v = &v[at..at + (end - start)];
                // Two folds over 32-bit lanes, which vectorise.
                let lo = v.iter().copied().fold(i32::MAX, i32::min);
                let hi = v.iter().copied().fold(i32::MIN, i32::max);
                (i64::from(lo), i64::from(hi))
            }
            (data, stride) => {
                let mut range = (i64::MAX, i64::MIN);
                for i in start..end {
                    let at = (self.first + i as i64 * stride) as usize;
                    let v = data
                        .load(at)
                        .as_int()
                        .expect("tables are made of integers only");
                    range = join(range, (v, v));
                }
                range
            }
        }
    }
}

fn join(a: (i64, i64), b: (i64, i64)) -> (i64, i64) {
    (a.0.min(b.0), a.1.max(b.1))
}
