//! The dense mask, cell by cell: the reference that block masks and compiled kernels are compared with.

use std::ops::Range;

use sha2::{Digest, Sha256};

use crate::capture::Bindings;
use crate::eval::{EvalError, RowEvaluator, Sizes};
use crate::ir::Rule;

/// The cells of a dense mask: `[batches, heads, q_len, kv_len]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DenseShape {
    /// Batch rows.
    pub batches: Range<u32>,
    /// Query heads.
    pub heads: Range<u32>,
    /// Absolute position of the first query row.
    pub q_offset: i32,
    /// Query rows.
    pub q_len: usize,
    /// Keys, from position 0.
    pub kv_len: usize,
}

impl DenseShape {
    /// Number of `u64` words that hold the bits of one row.
    pub fn words_per_row(&self) -> usize {
        self.kv_len.div_ceil(64)
    }

    /// Number of cells.
    pub fn cells(&self) -> u128 {
        let rows = self.batches.len() as u128 * self.heads.len() as u128 * self.q_len as u128;
        rows * self.kv_len as u128
    }
}

/// One row of a dense mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DenseRow {
    /// Batch index.
    pub b: u32,
    /// Query head index.
    pub h: u32,
    /// Query row; its position is `q_offset + row`.
    pub row: usize,
}

/// Evaluates a mask at every cell and gives its rows to `sink` in `(b, h, row)` order: key `j` is bit `j % 64` of word
/// `j / 64`, and bits without a key are 0.
///
/// # Errors
/// The error of the scalar interpreter at the first cell where it has one.
///
/// # Panics
/// If the rule is a `score_mod`.
pub fn dense_mask(
    rule: &Rule,
    bindings: &Bindings,
    sizes: Sizes,
    shape: &DenseShape,
    mut sink: impl FnMut(DenseRow, &[u64]),
) -> Result<(), EvalError> {
    let mut rows = RowEvaluator::new(rule, bindings, sizes);
    let mut bits = vec![0; shape.words_per_row()];
    for b in shape.batches.clone() {
        for h in shape.heads.clone() {
            for row in 0..shape.q_len {
                let q_idx = shape.q_offset.wrapping_add(row as i32);
                rows.mask_row(b as i32, h as i32, q_idx, 0, shape.kv_len, &mut bits)?;
                sink(DenseRow { b, h, row }, &bits);
            }
        }
    }
    Ok(())
}

/// What a dense mask comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DenseSummary {
    /// Cells that attend.
    pub allowed: u64,
    /// Rows that see no key at all.
    pub rows_without_any_key: u64,
    /// SHA-256 of the cells as `numpy.packbits` packs `[batches, heads, q_len, kv_len]`: the first cell is the most
    /// significant bit, cells run on across rows, and the last byte is padded with zeros.
    pub packbits_sha256: [u8; 32],
}

/// Collects a [`DenseSummary`] from rows, so that every evaluator can be compared by the same figures.
#[derive(Debug, Default)]
pub struct DenseSummarizer {
    allowed: u64,
    rows_without_any_key: u64,
    bits: PackbitsHasher,
}

impl DenseSummarizer {
    /// Takes the next row, of `kv_len` keys.
    ///
    /// # Panics
    /// If `bits` is shorter than the row.
    pub fn push_row(&mut self, bits: &[u64], kv_len: usize) {
        let mut any = 0;
        for (k, word) in bits[..kv_len.div_ceil(64)].iter().enumerate() {
            let used = (kv_len - 64 * k).min(64);
            let word = word & (u64::MAX >> (64 - used));
            self.allowed += u64::from(word.count_ones());
            any |= word;
            self.bits.push(word, used as u32);
        }
        self.rows_without_any_key += u64::from(any == 0);
    }

    /// The figures of the rows so far.
    pub fn finish(self) -> DenseSummary {
        DenseSummary {
            allowed: self.allowed,
            rows_without_any_key: self.rows_without_any_key,
            packbits_sha256: self.bits.finish(),
        }
    }
}

/// Summarizes a mask as the interpreter evaluates it.
///
/// # Errors
/// As [`dense_mask`].
///
/// # Panics
/// As [`dense_mask`].
pub fn summarize(
    rule: &Rule,
    bindings: &Bindings,
    sizes: Sizes,
    shape: &DenseShape,
) -> Result<DenseSummary, EvalError> {
    let mut summarizer = DenseSummarizer::default();
    dense_mask(rule, bindings, sizes, shape, |_, bits| {
        summarizer.push_row(bits, shape.kv_len);
    })?;
    Ok(summarizer.finish())
}

/// Rows that [`summarize_tiles`] asks for at once.
const ROWS_AT_ONCE: usize = 128;

/// Summarizes what another evaluator gives. `tile(b, h, q0, n_q, kv0, n_kv, bits, words_per_row)` writes the cells
/// `(q0 + i, kv0 + j)` as bit `j % 64` of word `i * words_per_row + j / 64`; it is asked for whole rows.
pub fn summarize_tiles(
    shape: &DenseShape,
    mut tile: impl FnMut(u32, u32, i64, usize, i64, usize, &mut [u64], usize),
) -> DenseSummary {
    let words = shape.words_per_row();
    let mut bits = vec![0; words * ROWS_AT_ONCE];
    let mut summarizer = DenseSummarizer::default();
    for b in shape.batches.clone() {
        for h in shape.heads.clone() {
            for first in (0..shape.q_len).step_by(ROWS_AT_ONCE) {
                let n_q = (shape.q_len - first).min(ROWS_AT_ONCE);
                let q0 = i64::from(shape.q_offset) + first as i64;
                if words != 0 {
                    tile(b, h, q0, n_q, 0, shape.kv_len, &mut bits, words);
                }
                for row in 0..n_q {
                    summarizer.push_row(&bits[row * words..][..words], shape.kv_len);
                }
            }
        }
    }
    summarizer.finish()
}

/// Hashes a stream of bits in the order of `numpy.packbits`, without holding it.
#[derive(Debug, Default)]
struct PackbitsHasher {
    hash: Sha256,
    /// Bits that fill no word yet, the first one least significant; those from `held` on are 0.
    word: u64,
    held: u32,
    /// Whole words that were not hashed yet, so that the hash is fed in large pieces.
    bytes: Vec<u8>,
}

impl PackbitsHasher {
    /// Appends the `used` (1 to 64) low bits of `bits`, whose other bits are 0.
    fn push(&mut self, bits: u64, used: u32) {
        self.word |= bits << self.held;
        let room = 64 - self.held;
        if used < room {
            self.held += used;
            return;
        }
        self.flush_word();
        // A shift by 64 leaves nothing.
        self.word = bits.checked_shr(room).unwrap_or(0);
        self.held = used - room;
    }

    fn flush_word(&mut self) {
        self.bytes.extend(packbits(self.word));
        if 4096 <= self.bytes.len() {
            self.hash.update(&self.bytes);
            self.bytes.clear();
        }
    }

    fn finish(mut self) -> [u8; 32] {
        let last = packbits(self.word);
        self.bytes.extend(&last[..self.held.div_ceil(8) as usize]);
        self.hash.update(&self.bytes);
        self.hash.finalize().into()
    }
}

/// Bytes of 64 bits, the first bit of each byte most significant.
fn packbits(word: u64) -> [u8; 8] {
    word.swap_bytes().reverse_bits().to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Arena, BinaryOp, RuleKind, Var};

    fn causal() -> Rule {
        let mut arena = Arena::new();
        let (q, kv) = (arena.var(Var::QIdx), arena.var(Var::KvIdx));
        let root = arena.binary(BinaryOp::Le, kv, q);
        Rule {
            name: "causal".to_owned(),
            doc: String::new(),
            kind: RuleKind::Mask,
            captures: Vec::new(),
            dims: Vec::new(),
            arena,
            root,
            source: None,
        }
    }

    fn shape(q_offset: i32, q_len: usize, kv_len: usize) -> DenseShape {
        DenseShape {
            batches: 0..2,
            heads: 0..3,
            q_offset,
            q_len,
            kv_len,
        }
    }

    fn sizes(shape: &DenseShape) -> Sizes {
        Sizes {
            batch: 2,
            num_q_heads: 3,
            q_len: shape.q_len as i32,
            kv_len: shape.kv_len as i32,
        }
    }

    /// The figures from one bit at a time.
    fn slow(shape: &DenseShape) -> DenseSummary {
        let mut cells = Vec::new();
        let mut rows_without_any_key = 0;
        for _ in 0..6 {
            for row in 0..shape.q_len {
                let q = i64::from(shape.q_offset) + row as i64;
                cells.extend((0..shape.kv_len as i64).map(|kv| kv <= q));
                rows_without_any_key += u64::from(shape.kv_len == 0 || q < 0);
            }
        }
        let bytes: Vec<u8> = cells
            .chunks(8)
            .map(|eight| {
                let bits = eight.iter().enumerate();
                bits.fold(0, |byte, (i, on)| byte | u8::from(*on) << (7 - i))
            })
            .collect();
        DenseSummary {
            allowed: cells.iter().filter(|on| **on).count() as u64,
            rows_without_any_key,
            packbits_sha256: Sha256::digest(&bytes).into(),
        }
    }

    #[test]
    fn rows_run_on_as_in_numpy_packbits_at_every_length() {
        for kv_len in (0..140).chain([191, 192, 193, 1000]) {
            let shape = shape(-2, 37, kv_len);
            let found = summarize(&causal(), &Bindings::default(), sizes(&shape), &shape);
            assert_eq!(found, Ok(slow(&shape)), "kv_len {kv_len}");
        }
    }

    #[test]
    fn tiles_of_another_evaluator_come_to_the_same() {
        for (q_len, kv_len) in [(0, 5), (5, 0), (300, 70), (128, 128)] {
            let shape = shape(3, q_len, kv_len);
            let found = summarize_tiles(&shape, |_, _, q0, n_q, kv0, n_kv, bits, words| {
                for i in 0..n_q {
                    // What lies beyond the keys is not looked at.
                    bits[i * words..][..words].fill(u64::MAX);
                    for j in 0..n_kv {
                        if q0 + (i as i64) < kv0 + j as i64 {
                            bits[i * words + j / 64] &= !(1 << (j % 64));
                        }
                    }
                }
            });
            assert_eq!(found, slow(&shape));
        }
    }

    #[test]
    fn packbits_of_a_known_mask() {
        // numpy.packbits([[1, 0, 0], [1, 1, 0], [1, 1, 1]]) is [0b1001_1011, 0b1000_0000].
        let shape = DenseShape {
            batches: 0..1,
            heads: 0..1,
            ..shape(0, 3, 3)
        };
        let found = summarize(&causal(), &Bindings::default(), sizes(&shape), &shape).unwrap();
        let expected: [u8; 32] = Sha256::digest([0b1001_1011, 0b1000_0000]).into();
        assert_eq!(found.packbits_sha256, expected);
        assert_eq!((found.allowed, found.rows_without_any_key), (6, 0));
    }
}
