//! How tiles lie in shared memory.

use crate::spec::Float;

/// Bytes that are copied, and loaded by a lane, at once.
const CHUNK: u32 = 16;

/// A tile in shared memory: rows of chunks of 16 bytes.
///
/// Chunk `c` of row `r` lies at `c ^ ((r >> shift) & mask)`. A load of a matrix takes one column of chunks from eight rows
/// that follow one another; thanks to the exchange they lie in eight different groups of banks, without padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedTile {
    /// Rows.
    pub rows: u32,
    /// Chunks of a row, with those that pad the head dimension.
    pub chunks: u32,
    /// Chunks that hold elements; the others are zero.
    pub filled: u32,
    /// Threads that copy one row side by side.
    pub lanes: u32,
    /// Bytes from one row to the next.
    pub pitch: u32,
    /// Which bits of the row exchange chunks: from this one on,
    pub shift: u32,
    /// and these of them.
    pub mask: u32,
    /// Bytes from the start of shared memory.
    pub at: u32,
}

impl SharedTile {
    /// Rows that are loaded as matrices. `d` elements of each hold something, which `step` elements divide when padded.
    fn matrices(rows: u32, d: u32, step: u32, dtype: Float) -> Self {
        let per_chunk = CHUNK / dtype.bytes();
        let chunks = d.next_multiple_of(step) / per_chunk;
        // Eight chunks fill all banks. Rows of 2^bits times an odd number of chunks start at 8 / 2^bits places; the
        // rows that start at the same place are told apart by the bits of the exchange.
        let bits = chunks.trailing_zeros().min(3);
        Self {
            rows,
            chunks,
            filled: d / per_chunk,
            lanes: 1 << bits,
            pitch: chunks * CHUNK,
            shift: 3 - bits,
            mask: (1 << bits) - 1,
            at: 0,
        }
    }

    /// Rows of floats that are loaded one by one: two rows and eight columns at a time, from four places two rows apart.
    fn floats(rows: u32, d: u32) -> Self {
        let chunks = d * 4 / CHUNK;
        Self {
            rows,
            chunks,
            filled: chunks,
            lanes: 1 << chunks.trailing_zeros().min(3),
            // One chunk more makes two rows 8 banks further on, whatever multiple of 8 the head dimension is.
            pitch: (chunks + 1) * CHUNK,
            shift: 0,
            mask: 0,
            at: 0,
        }
    }

    /// Bytes of the tile.
    pub fn bytes(&self) -> u32 {
        self.rows * self.pitch
    }
}

/// Shared memory of a block of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    /// Queries.
    pub q: SharedTile,
    /// Keys, the first of the stages.
    pub k: SharedTile,
    /// Values, the first of the stages.
    pub v: SharedTile,
    /// Bytes in all.
    pub bytes: u32,
}

impl Shared {
    /// Lays out `Q`, then `stages` tiles of `K`, then as many of `V`.
    pub(super) fn new(
        dtype: Float,
        (tile_q, tile_kv): (u32, u32),
        (d_qk, d_v): (u32, u32),
        stages: u32,
    ) -> Self {
        // A product takes 32 bytes of a row of Q and K; a transposed load takes 16 columns of V.
        let step = 32 / dtype.bytes();
        let q = SharedTile::matrices(tile_q, d_qk, step, dtype);
        let mut k = SharedTile::matrices(tile_kv, d_qk, step, dtype);
        let mut v = match dtype {
            Float::F16 | Float::BF16 => SharedTile::matrices(tile_kv, d_v, 16, dtype),
            Float::F32 => SharedTile::floats(tile_kv, d_v),
        };
        k.at = q.bytes();
        v.at = k.at + stages * k.bytes();
        Self {
            q,
            k,
            v,
            bytes: v.at + stages * v.bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups of four banks that a load from these rows and this column of chunks touches.
    fn groups(tile: &SharedTile, first: u32, chunk: u32) -> u32 {
        (first..first + 8).fold(0, |seen, row| {
            let place = chunk ^ ((row >> tile.shift) & tile.mask);
            assert!(place < tile.chunks, "{tile:?}");
            seen | 1 << ((row * tile.pitch / CHUNK + place) % 8)
        })
    }

    #[test]
    fn matrices_are_loaded_without_bank_conflicts() {
        for dtype in [Float::F16, Float::F32] {
            for d in (16..=256).step_by(8) {
                let tile = Shared::new(dtype, (64, 64), (d, 16), 1).k;
                for chunk in 0..tile.chunks {
                    for first in (0..64).step_by(8) {
                        assert_eq!(groups(&tile, first, chunk), 0xff, "{dtype} {d}");
                    }
                }
            }
        }
    }

    #[test]
    fn floats_are_loaded_without_bank_conflicts() {
        for d in (16..=256).step_by(8) {
            let tile = Shared::new(Float::F32, (64, 64), (16, d), 1).v;
            let banks = (0..32).fold(0_u32, |seen, lane: u32| {
                let word = lane % 4 * 2 * tile.pitch / 4 + lane / 4;
                seen | 1 << (word % 32)
            });
            assert_eq!(banks, u32::MAX, "{d}");
        }
    }
}
