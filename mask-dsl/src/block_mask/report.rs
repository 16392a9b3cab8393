//! Counts, sparsity and the hash of the classes, all as `PyTorch` reports them.

use sha2::{Digest, Sha256};

use super::evaluator::CellScan;
use super::format::reported;
use super::plane::segments;
use super::{BlockClass, BlockMask, BlockMaskError, Geometry, MaskEvaluator, Plane};

/// How many blocks of each class a mask has, over all batch entries and heads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BlockCounts {
    /// Blocks whose cells are all allowed and that lie within the lengths.
    pub full: u128,
    /// Blocks that a kernel computes under the rule or cuts at the lengths.
    pub partial: u128,
    /// Blocks that are skipped.
    pub empty: u128,
}

impl BlockCounts {
    /// All blocks.
    pub fn total(&self) -> u128 {
        self.full + self.partial + self.empty
    }
}

impl BlockMask {
    /// Counts the blocks of each reported class.
    pub fn counts(&self) -> BlockCounts {
        let of_planes: Vec<(u128, u128)> = self
            .distinct_planes()
            .map(|plane| count_runs(self.geometry(), plane))
            .collect();
        let (mut full, mut listed) = (0, 0);
        for &at in self.plane_of() {
            let (plane_full, plane_listed) = of_planes[at as usize];
            full += plane_full * self.copies();
            listed += plane_listed * self.copies();
        }
        let blocks = u128::from(self.rows()) * u128::from(self.cols());
        let total = blocks * u128::from(self.batch()) * u128::from(self.heads());
        BlockCounts {
            full,
            partial: listed - full,
            empty: total - listed,
        }
    }

    /// Share of blocks that are skipped, in percent: 0 where there is no block at all.
    pub fn sparsity(&self) -> f64 {
        let counts = self.counts();
        percent(counts.empty, counts.total())
    }

    /// Counts the allowed cells; the evaluator is asked about partial blocks only.
    ///
    /// # Errors
    /// [`BlockMaskError::SeveralCalls`] if the bucket has more than one member.
    pub fn allowed_cells(&self, evaluator: &dyn MaskEvaluator) -> Result<u128, BlockMaskError> {
        self.require_single("counting cells")?;
        let geometry = self.geometry();
        let mut scan = CellScan::new(geometry, evaluator);
        let mut allowed = 0;
        for (b, h) in self.stored_entries() {
            for row in 0..self.rows() {
                let rows = geometry.row_span(row);
                for run in self.row(b, h, row) {
                    let cols =
                        geometry.col_span(run.first()).start..geometry.col_span(run.end() - 1).end;
                    allowed += if run.is_full() {
                        u128::from(rows.end - rows.start) * u128::from(cols.end - cols.start)
                    } else {
                        scan.count((b, h), rows.clone(), cols)
                    };
                }
            }
        }
        Ok(allowed * self.copies())
    }

    /// Share of cells that are masked, in percent: 0 where there is no cell at all.
    ///
    /// # Errors
    /// [`BlockMaskError::SeveralCalls`] if the bucket has more than one member.
    pub fn sparsity_cells(&self, evaluator: &dyn MaskEvaluator) -> Result<f64, BlockMaskError> {
        let allowed = self.allowed_cells(evaluator)?;
        let plane = u128::from(self.q_len()) * u128::from(self.kv_len());
        // Axes of 2^32 entries over lengths of 2^63 do not fit; the share is the same for one entry of each.
        let total = plane.saturating_mul(u128::from(self.batch()) * u128::from(self.heads()));
        Ok(percent(total.saturating_sub(allowed), total))
    }

    /// The reported classes, one byte per block (0 empty, 1 partial, 2 full), as `[batch, heads, rows, cols]`.
    ///
    /// One row is held at a time.
    pub fn class_bytes(&self) -> impl Iterator<Item = u8> + '_ {
        self.logical_entries().flat_map(move |(b, h)| {
            (0..self.rows()).flat_map(move |row| {
                let mut bytes = Vec::with_capacity(self.cols() as usize);
                self.class_row(b, h, row, &mut bytes);
                bytes
            })
        })
    }

    /// SHA-256 of [`BlockMask::class_bytes`].
    pub fn class_sha256(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let mut bytes = Vec::with_capacity(self.cols() as usize);
        for (b, h) in self.logical_entries() {
            for row in 0..self.rows() {
                bytes.clear();
                self.class_row(b, h, row, &mut bytes);
                hash.update(&bytes);
            }
        }
        hash.finalize().into()
    }

    /// Adds the class bytes of one row.
    fn class_row(&self, b: u32, h: u32, row: u32, out: &mut Vec<u8>) {
        let geometry = self.geometry();
        for (cols, class) in segments(self.row(b, h, row), self.cols()) {
            let n = (cols.end - cols.start) as usize;
            let inner = reported(class, geometry.row_overhangs(row));
            out.extend(std::iter::repeat_n(inner.byte(), n));
            if geometry.col_overhangs(cols.end - 1)
                && let Some(last) = out.last_mut()
            {
                *last = reported(class, true).byte();
            }
        }
    }
}

/// Full and listed blocks of one plane, as reported.
fn count_runs(geometry: &Geometry, plane: &Plane) -> (u128, u128) {
    let (mut full, mut listed) = (0, 0);
    for row in 0..plane.rows() {
        for run in plane.row(row) {
            let count = u128::from(run.count());
            listed += count;
            if run.class() == BlockClass::Full && !geometry.row_overhangs(row) {
                full += count - u128::from(geometry.col_overhangs(run.end() - 1));
            }
        }
    }
    (full, listed)
}

fn percent(part: u128, whole: u128) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    100.0 * (part as f64 / whole as f64)
}

#[cfg(test)]
mod tests;
