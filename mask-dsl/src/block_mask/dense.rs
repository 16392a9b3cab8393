//! Dense masks: packed bits written as a stream, and classes read from a dense boolean array.

use sha2::{Digest, Sha256};

use super::evaluator::words_for;
use super::{BlockMask, BlockMaskError, CellFn, Geometry, MaskEvaluator};

/// Cells that are held at once while bits are written.
const CHUNK_CELLS: u64 = 1 << 20;

impl BlockMask {
    /// Writes the dense mask as bits, the first cell in the highest bit of the first byte, in pieces.
    ///
    /// The evaluator is asked about partial blocks only. Rows are not padded to whole bytes, the last byte of all is
    /// filled with zeros: this is what `numpy.packbits` makes of the mask.
    ///
    /// # Shapes
    /// `[batch, heads, q_len, kv_len]`, row-major.
    /// # Errors
    /// [`BlockMaskError::SeveralCalls`] if the bucket has more than one member, and whatever `sink` returns.
    pub fn packed_bits<E: From<BlockMaskError>>(
        &self,
        evaluator: &dyn MaskEvaluator,
        mut sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.require_single("writing dense bits")?;
        let (q_len, kv_len) = (self.q_len(), self.kv_len());
        let width = kv_len.clamp(1, CHUNK_CELLS);
        // A row wider than the chunk is written alone, in pieces, so that the order stays that of the rows.
        let height = (CHUNK_CELLS / width).clamp(1, q_len.max(1));
        let height = if width < kv_len { 1 } else { height };
        let mut packer = BitPacker::default();
        let (mut bits, mut scratch) = (Vec::new(), Vec::new());
        for entry in self.logical_entries() {
            let mut row = 0;
            while row < q_len {
                let rows = row..(row + height).min(q_len);
                let mut col = 0;
                while col < kv_len {
                    let cols = col..(col + width).min(kv_len);
                    let n = (cols.end - cols.start) as usize;
                    let words_per_row = words_for(n as u64);
                    bits.resize((rows.end - rows.start) as usize * words_per_row, 0);
                    self.cells(
                        evaluator,
                        entry,
                        rows.clone(),
                        cols.clone(),
                        &mut bits,
                        &mut scratch,
                    );
                    for line in bits.chunks(words_per_row) {
                        packer.push(line, n);
                    }
                    sink(&packer.bytes)?;
                    packer.bytes.clear();
                    col = cols.end;
                }
                row = rows.end;
            }
        }
        packer.finish();
        sink(&packer.bytes)
    }

    /// SHA-256 of [`BlockMask::packed_bits`].
    ///
    /// # Errors
    /// [`BlockMaskError::SeveralCalls`] if the bucket has more than one member.
    pub fn packed_bits_sha256(
        &self,
        evaluator: &dyn MaskEvaluator,
    ) -> Result<[u8; 32], BlockMaskError> {
        let mut hash = Sha256::new();
        self.packed_bits(evaluator, |bytes| {
            hash.update(bytes);
            Ok::<_, BlockMaskError>(())
        })?;
        Ok(hash.finalize().into())
    }

    /// Finds the exact classes of a dense mask, `true` being an allowed cell.
    ///
    /// # Shapes
    /// `[batch, heads, q_len, kv_len]` of the geometry, row-major; where it counts one batch entry or head, the mask
    /// is broadcast.
    /// # Errors
    /// [`BlockMaskError::DenseLen`], or [`BlockMaskError::SeveralCalls`] if the bucket has more than one member.
    pub fn from_dense(geometry: &Geometry, cells: &[bool]) -> Result<Self, BlockMaskError> {
        let [batch, heads] = [geometry.batch(), geometry.heads()].map(u64::from);
        let (q_len, kv_len) = (geometry.q_len(), geometry.kv_len());
        let expected = u128::from(q_len)
            .checked_mul(u128::from(kv_len))
            .and_then(|plane| plane.checked_mul(u128::from(batch) * u128::from(heads)));
        if expected != Some(cells.len() as u128) {
            return Err(BlockMaskError::DenseLen {
                batch: geometry.batch(),
                heads: geometry.heads(),
                q_len,
                kv_len,
                found: cells.len(),
            });
        }
        let origin = (geometry.q_offset(), geometry.kv_offset());
        let first = (geometry.batch_offset(), geometry.head_offset());
        let at = CellFn(move |b: u32, h: u32, q: i64, kv: i64| {
            let entry = u64::from(b - first.0) * heads + u64::from(h - first.1);
            let row = entry * q_len + (q - origin.0) as u64;
            cells[(row * kv_len + (kv - origin.1) as u64) as usize]
        });
        Self::from_evaluator(geometry, &at)
    }
}

/// Turns rows of bits, lowest first, into bytes with the first cell highest.
#[derive(Default)]
struct BitPacker {
    bytes: Vec<u8>,
    /// Bits that are not yet written, lowest first; fewer than 64.
    held: u64,
    n_held: usize,
}

impl BitPacker {
    /// Adds the first `n` bits of a row whose other bits are zero.
    fn push(&mut self, line: &[u64], n: usize) {
        for (index, &word) in line.iter().enumerate() {
            let n_new = (n - index * 64).min(64);
            self.held |= word << self.n_held;
            if self.n_held + n_new < 64 {
                self.n_held += n_new;
                continue;
            }
            self.bytes
                .extend(self.held.to_le_bytes().map(u8::reverse_bits));
            let taken = 64 - self.n_held;
            self.held = word.checked_shr(taken as u32).unwrap_or(0);
            self.n_held = n_new - taken;
        }
    }

    /// Writes what is left, filled with zeros to whole bytes.
    fn finish(&mut self) {
        let left = self.held.to_le_bytes().map(u8::reverse_bits);
        self.bytes
            .extend_from_slice(&left[..self.n_held.div_ceil(8)]);
        (self.held, self.n_held) = (0, 0);
    }
}

#[cfg(test)]
mod tests;
