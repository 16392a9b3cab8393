//! Asking for cells: the evaluator of a rule, and the rule as a block mask restricts it.

use std::ops::Range;

use super::{BlockClass, BlockMask, Geometry};

/// Answers which cells of the score matrix are allowed, tile by tile.
pub trait MaskEvaluator: Sync {
    /// Evaluates queries `q0..q0 + n_q` and keys `kv0..kv0 + n_kv`, all absolute positions.
    ///
    /// # Shapes
    /// `bits` has `n_q` rows of `words_per_row` words; cell `j` of a row is bit `j % 64` of word `j / 64`. Every word
    /// is written, and bits beyond `n_kv` are zero.
    #[expect(
        clippy::too_many_arguments,
        reason = "a tile has two coordinates and two ranges"
    )]
    fn tile(
        &self,
        b: u32,
        h: u32,
        q0: i64,
        n_q: usize,
        kv0: i64,
        n_kv: usize,
        bits: &mut [u64],
        words_per_row: usize,
    );
}

/// A closure over `(b, h, q_idx, kv_idx)` as an evaluator.
#[derive(Clone, Copy, Debug)]
pub struct CellFn<F>(pub F);

impl<F: Fn(u32, u32, i64, i64) -> bool + Sync> MaskEvaluator for CellFn<F> {
    fn tile(
        &self,
        b: u32,
        h: u32,
        q0: i64,
        n_q: usize,
        kv0: i64,
        n_kv: usize,
        bits: &mut [u64],
        words_per_row: usize,
    ) {
        for row in 0..n_q {
            let words = &mut bits[row * words_per_row..(row + 1) * words_per_row];
            words.fill(0);
            for col in 0..n_kv {
                if (self.0)(b, h, q0 + row as i64, kv0 + col as i64) {
                    words[col / 64] |= 1 << (col % 64);
                }
            }
        }
    }
}

/// The rule as a block mask restricts it: full blocks allow all, empty ones nothing, partial ones ask the rule.
///
/// This is what attention with the mask computes, so it is what a mask whose lists are the law *means*. Cells
/// outside the mask's lengths are not allowed.
#[derive(Clone, Copy)]
pub struct MaskedRule<'a> {
    mask: &'a BlockMask,
    rule: &'a dyn MaskEvaluator,
}

impl BlockMask {
    /// The rule as this mask restricts it.
    pub fn restrict<'a>(&'a self, rule: &'a dyn MaskEvaluator) -> MaskedRule<'a> {
        MaskedRule { mask: self, rule }
    }

    /// Cells of a rectangle of mask rows and columns, in local coordinates.
    ///
    /// `b` and `h` count from the first entry of the mask. Bits are laid out as in [`MaskEvaluator::tile`].
    pub(super) fn cells(
        &self,
        rule: &dyn MaskEvaluator,
        (b, h): (u32, u32),
        rows: Range<u64>,
        cols: Range<u64>,
        bits: &mut [u64],
        scratch: &mut Vec<u64>,
    ) {
        let geometry = self.geometry();
        let words_per_row = words_for(cols.end.saturating_sub(cols.start));
        bits.fill(0);
        let mut at = rows.start;
        while at < rows.end {
            let row = (at / u64::from(self.block().q)) as u32;
            let band = at..geometry.row_span(row).end.min(rows.end);
            for run in self.row(b, h, row) {
                let start = geometry.col_span(run.first()).start.max(cols.start);
                let end = geometry.col_span(run.end() - 1).end.min(cols.end);
                if end <= start {
                    continue;
                }
                let n_q = (band.end - band.start) as usize;
                let n_kv = (end - start) as usize;
                let to = (start - cols.start) as usize;
                let from_row = (band.start - rows.start) as usize;
                let lines = bits[from_row * words_per_row..].chunks_mut(words_per_row);
                if run.is_full() {
                    for line in lines.take(n_q) {
                        set_bits(line, to, n_kv);
                    }
                    continue;
                }
                let words = words_for(n_kv as u64);
                scratch.clear();
                scratch.resize(n_q * words, 0);
                rule.tile(
                    geometry.batch_offset() + b,
                    geometry.head_offset() + h,
                    geometry.q_idx(band.start),
                    n_q,
                    geometry.kv_idx(start),
                    n_kv,
                    scratch,
                    words,
                );
                for (line, part) in lines.zip(scratch.chunks(words)) {
                    or_bits(line, to, part, n_kv);
                }
            }
            at = band.end;
        }
    }
}

impl MaskEvaluator for MaskedRule<'_> {
    fn tile(
        &self,
        b: u32,
        h: u32,
        q0: i64,
        n_q: usize,
        kv0: i64,
        n_kv: usize,
        bits: &mut [u64],
        words_per_row: usize,
    ) {
        let geometry = self.mask.geometry();
        let local = |index: u32, offset: u32, logical: u32| {
            let local = index.checked_sub(offset)?;
            (logical == 1 || local < logical).then_some(local)
        };
        bits[..n_q * words_per_row].fill(0);
        let (Some(b), Some(h)) = (
            local(b, geometry.batch_offset(), self.mask.batch()),
            local(h, geometry.head_offset(), self.mask.heads()),
        ) else {
            return;
        };
        let rows = within(q0, n_q, geometry.q_offset(), self.mask.q_len());
        let cols = within(kv0, n_kv, geometry.kv_offset(), self.mask.kv_len());
        let (Some((rows, row_at)), Some((cols, col_at))) = (rows, cols) else {
            return;
        };
        let n_cols = cols.end - cols.start;
        let words = words_for(n_cols);
        let mut inner = vec![0; (rows.end - rows.start) as usize * words];
        self.mask
            .cells(self.rule, (b, h), rows, cols, &mut inner, &mut Vec::new());
        let lines = bits.chunks_mut(words_per_row).skip(row_at);
        for (line, part) in lines.zip(inner.chunks(words)) {
            or_bits(line, col_at, part, n_cols as usize);
        }
    }
}

/// The part of `start..start + count` that lies in `offset..offset + len`, counted from `offset`, and where it
/// begins within the former.
fn within(start: i64, count: usize, offset: i64, len: u64) -> Option<(Range<u64>, usize)> {
    let (start, offset) = (i128::from(start), i128::from(offset));
    let low = start.max(offset);
    let high = (start + count as i128).min(offset + i128::from(len));
    (low < high).then(|| {
        (
            (low - offset) as u64..(high - offset) as u64,
            (low - start) as usize,
        )
    })
}

/// Words that hold so many cells.
pub(super) fn words_for(n: u64) -> usize {
    n.div_ceil(64) as usize
}

/// Sets bits `at..at + n`.
fn set_bits(line: &mut [u64], at: usize, n: usize) {
    let end = at + n;
    let mut bit = at;
    while bit < end {
        let in_word = (64 - bit % 64).min(end - bit);
        line[bit / 64] |= low_mask(in_word) << (bit % 64);
        bit += in_word;
    }
}

/// Adds the first `n` bits of `part` at bit `at`.
fn or_bits(line: &mut [u64], at: usize, part: &[u64], n: usize) {
    let (word, shift) = (at / 64, at % 64);
    for (index, &bits) in part.iter().take(n.div_ceil(64)).enumerate() {
        let bits = bits & low_mask((n - index * 64).min(64));
        line[word + index] |= bits << shift;
        let carry = bits.checked_shr(64 - shift as u32).unwrap_or(0);
        if carry != 0 {
            line[word + index + 1] |= carry;
        }
    }
}

/// The lowest `n` bits, `n` being at most 64.
pub(super) fn low_mask(n: usize) -> u64 {
    1_u64.checked_shl(n as u32).map_or(u64::MAX, |bit| bit - 1)
}

/// What was seen of the cells of a block: the first allowed and the first masked cell, as mask row and column.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Witnesses {
    pub(super) allowed: Option<(u64, u64)>,
    pub(super) masked: Option<(u64, u64)>,
}

impl Witnesses {
    pub(super) fn class(self) -> BlockClass {
        match (self.allowed, self.masked) {
            (Some(_), Some(_)) => BlockClass::Partial,
            (Some(_), None) => BlockClass::Full,
            (None, _) => BlockClass::Empty,
        }
    }
}

/// Evaluates rectangles of cells in pieces of bounded size, so that huge blocks take no huge memory.
pub(super) struct CellScan<'a> {
    geometry: &'a Geometry,
    rule: &'a dyn MaskEvaluator,
    bits: Vec<u64>,
}

const PIECE_ROWS: u64 = 128;
const PIECE_COLS: u64 = 512;

impl<'a> CellScan<'a> {
    pub(super) fn new(geometry: &'a Geometry, rule: &'a dyn MaskEvaluator) -> Self {
        Self {
            geometry,
            rule,
            bits: vec![0; PIECE_ROWS as usize * words_for(PIECE_COLS)],
        }
    }

    /// Looks at the cells of a block until an allowed and a masked one are found.
    pub(super) fn block(&mut self, entry: (u32, u32), row: u32, col: u32) -> Witnesses {
        let mut found = Witnesses::default();
        let (rows, cols) = (self.geometry.row_span(row), self.geometry.col_span(col));
        self.pieces(entry, rows, cols, |rows, cols, words_per_row, bits| {
            let n = (cols.end - cols.start) as usize;
            for (row, line) in rows.zip(bits.chunks(words_per_row)) {
                for (index, &word) in line.iter().enumerate() {
                    let all = low_mask((n - index * 64).min(64));
                    let cell = |set: u64| {
                        let col = cols.start + index as u64 * 64 + u64::from(set.trailing_zeros());
                        (set != 0).then_some((row, col))
                    };
                    found.allowed = found.allowed.or_else(|| cell(word & all));
                    found.masked = found.masked.or_else(|| cell(!word & all));
                }
            }
            found.allowed.is_none() || found.masked.is_none()
        });
        found
    }

    /// Counts the allowed cells of a rectangle.
    pub(super) fn count(&mut self, entry: (u32, u32), rows: Range<u64>, cols: Range<u64>) -> u128 {
        let mut allowed = 0;
        self.pieces(entry, rows, cols, |_, _, _, bits| {
            allowed += bits
                .iter()
                .map(|word| u128::from(word.count_ones()))
                .sum::<u128>();
            true
        });
        allowed
    }

    /// Evaluates a rectangle piece by piece, as long as `visit(rows, cols, words per row, bits)` says to go on.
    fn pieces(
        &mut self,
        (b, h): (u32, u32),
        rows: Range<u64>,
        cols: Range<u64>,
        mut visit: impl FnMut(Range<u64>, Range<u64>, usize, &[u64]) -> bool,
    ) {
        let mut row = rows.start;
        while row < rows.end {
            let row_end = (row + PIECE_ROWS).min(rows.end);
            let mut col = cols.start;
            while col < cols.end {
                let col_end = (col + PIECE_COLS).min(cols.end);
                let words_per_row = words_for(col_end - col);
                let bits = &mut self.bits[..(row_end - row) as usize * words_per_row];
                self.rule.tile(
                    self.geometry.batch_offset() + b,
                    self.geometry.head_offset() + h,
                    self.geometry.q_idx(row),
                    (row_end - row) as usize,
                    self.geometry.kv_idx(col),
                    (col_end - col) as usize,
                    bits,
                    words_per_row,
                );
                if !visit(row..row_end, col..col_end, words_per_row, bits) {
                    return;
                }
                col = col_end;
            }
            row = row_end;
        }
    }
}
