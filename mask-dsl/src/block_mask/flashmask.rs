//! `FlashMask` columns: per key, the intervals of query rows that are masked.
//!
//! # References
//! Wang et al. 2024, `FlashMask`, arXiv:2410.01359, section 4.1.

use std::fmt;
use std::ops::Range;

use super::evaluator::{low_mask, words_for};
use super::{BlockMask, BlockMaskError, Geometry, MaskEvaluator};

/// Which bounds a key column has. Rows are counted from the first row of the mask.
///
/// In the causal forms a row `r` sees key `k` only if `k <= r + kv_len - q_len`: the diagonal ends in the lower right
/// corner, whatever the lengths are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlashMaskKind {
    /// Causal; rows from `LTS` on are masked. One bound.
    Causal,
    /// Causal; rows `LTS..LTE` are masked. Two bounds.
    CausalInterval,
    /// Rows from `LTS` on and rows before `UTE` are masked. Two bounds.
    Bidirectional,
    /// Rows `LTS..LTE` and rows `UTS..UTE` are masked. Four bounds.
    BidirectionalInterval,
}

impl FlashMaskKind {
    /// All forms, those with fewer bounds first.
    pub const ALL: [Self; 4] = [
        Self::Causal,
        Self::CausalInterval,
        Self::Bidirectional,
        Self::BidirectionalInterval,
    ];

    /// Names of the bounds of a column, in order.
    pub fn bounds(self) -> &'static [&'static str] {
        match self {
            Self::Causal => &["LTS"],
            Self::CausalInterval => &["LTS", "LTE"],
            Self::Bidirectional => &["LTS", "UTE"],
            Self::BidirectionalInterval => &["LTS", "LTE", "UTS", "UTE"],
        }
    }

    /// Tells whether the form masks what lies above the diagonal.
    pub fn is_causal(self) -> bool {
        match self {
            Self::Causal | Self::CausalInterval => true,
            Self::Bidirectional | Self::BidirectionalInterval => false,
        }
    }
}

impl fmt::Display for FlashMaskKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sort = if self.is_causal() {
            "causal"
        } else {
            "bidirectional"
        };
        write!(f, "{sort} {}", self.bounds().join("/"))
    }
}

/// A mask as `FlashMask`'s `startend_row_indices`; also an evaluator of its cells.
///
/// # Shapes
/// The bounds are `[batch, heads, kv_len, bounds per key]`, row-major.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlashMaskColumns {
    kind: FlashMaskKind,
    geometry: Geometry,
    bounds: Vec<i32>,
}

impl FlashMaskColumns {
    /// Takes bounds from outside, after checking them.
    ///
    /// # Errors
    /// [`BlockMaskError::FlashMaskLen`], [`BlockMaskError::FlashMaskBound`], or [`BlockMaskError::SeveralCalls`] if
    /// the bucket has more than one member.
    pub fn new(
        geometry: Geometry,
        kind: FlashMaskKind,
        bounds: Vec<i32>,
    ) -> Result<Self, BlockMaskError> {
        if !geometry.bucket().is_single() {
            return Err(BlockMaskError::SeveralCalls {
                operation: "FlashMask",
                bucket: Box::new(geometry.bucket().clone()),
            });
        }
        let columns = Self {
            kind,
            geometry,
            bounds,
        };
        columns.check()?;
        Ok(columns)
    }

    fn check(&self) -> Result<(), BlockMaskError> {
        let (geometry, names) = (&self.geometry, self.kind.bounds());
        let entries = u128::from(geometry.batch()) * u128::from(geometry.heads());
        let expected = u128::from(geometry.kv_len())
            .saturating_mul(entries)
            .saturating_mul(names.len() as u128);
        if self.bounds.len() as u128 != expected {
            return Err(BlockMaskError::FlashMaskLen {
                expected,
                batch: geometry.batch(),
                heads: geometry.heads(),
                kv_len: geometry.kv_len(),
                bounds: names.len(),
                found: self.bounds.len(),
            });
        }
        for (index, column) in (0_u64..).zip(self.bounds.chunks(names.len())) {
            let entry = index / geometry.kv_len();
            for (at, (&value, &bound)) in column.iter().zip(names).enumerate() {
                // The end of an interval does not lie before its start.
                let low = match (self.kind, at) {
                    (
                        FlashMaskKind::CausalInterval | FlashMaskKind::BidirectionalInterval,
                        1 | 3,
                    ) => i64::from(column[at - 1]),
                    (
                        FlashMaskKind::Causal
                        | FlashMaskKind::CausalInterval
                        | FlashMaskKind::Bidirectional
                        | FlashMaskKind::BidirectionalInterval,
                        _,
                    ) => 0,
                };
                let fits = low <= i64::from(value)
                    && u64::try_from(value).is_ok_and(|v| v <= geometry.q_len());
                if !fits {
                    return Err(BlockMaskError::FlashMaskBound {
                        bound,
                        b: (entry / u64::from(geometry.heads())) as u32,
                        h: (entry % u64::from(geometry.heads())) as u32,
                        column: index % geometry.kv_len(),
                        value,
                        low,
                        high: geometry.q_len(),
                    });
                }
            }
        }
        Ok(())
    }

    /// The form of the bounds.
    pub fn kind(&self) -> FlashMaskKind {
        self.kind
    }

    /// Shape and place of the mask.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The bounds, `[batch, heads, kv_len, bounds per key]`.
    pub fn bounds(&self) -> &[i32] {
        &self.bounds
    }

    /// The two intervals of masked rows of a column, and the rows that causality masks.
    fn masked(&self, b: u32, h: u32, column: u64) -> [Range<u64>; 3] {
        let geometry = &self.geometry;
        let entry = u64::from(b) * u64::from(geometry.heads()) + u64::from(h);
        let n = self.kind.bounds().len();
        let at = (entry * geometry.kv_len() + column) as usize * n;
        let bound = |index: usize| self.bounds[at + index] as u64;
        let q_len = geometry.q_len();
        match self.kind {
            FlashMaskKind::Causal => [bound(0)..q_len, 0..0, 0..diagonal(geometry, column)],
            FlashMaskKind::CausalInterval => {
                [bound(0)..bound(1), 0..0, 0..diagonal(geometry, column)]
            }
            FlashMaskKind::Bidirectional => [bound(0)..q_len, 0..bound(1), 0..0],
            FlashMaskKind::BidirectionalInterval => [bound(0)..bound(1), bound(2)..bound(3), 0..0],
        }
    }
}

/// The first row that causality lets see a column.
fn diagonal(geometry: &Geometry, column: u64) -> u64 {
    (column + geometry.q_len())
        .saturating_sub(geometry.kv_len())
        .min(geometry.q_len())
}

impl MaskEvaluator for FlashMaskColumns {
    /// Cells outside the lengths are not allowed.
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
        bits[..n_q * words_per_row].fill(0);
        let geometry = &self.geometry;
        let local = |index: u32, offset: u32, logical: u32| {
            let local = if logical == 1 {
                Some(0)
            } else {
                index.checked_sub(offset)
            };
            local.filter(|&local| local < logical)
        };
        let (Some(b), Some(h)) = (
            local(b, geometry.batch_offset(), geometry.batch()),
            local(h, geometry.head_offset(), geometry.heads()),
        ) else {
            return;
        };
        for col in 0..n_kv {
            let column = i128::from(kv0) + col as i128 - i128::from(geometry.kv_offset());
            let Some(column) = u64::try_from(column)
                .ok()
                .filter(|&column| column < geometry.kv_len())
            else {
                continue;
            };
            let masked = self.masked(b, h, column);
            for row in 0..n_q {
                let at = i128::from(q0) + row as i128 - i128::from(geometry.q_offset());
                let Ok(at) = u64::try_from(at) else { continue };
                if at < geometry.q_len() && !masked.iter().any(|rows| rows.contains(&at)) {
                    bits[row * words_per_row + col / 64] |= 1 << (col % 64);
                }
            }
        }
    }
}

impl BlockMask {
    /// Writes the mask as `FlashMask` columns, by a scan of the rows of each column.
    ///
    /// The evaluator is asked about partial blocks only. Where a bound is not needed it names an empty interval:
    /// `LTS` and `LTE` are `q_len`, `UTS` and `UTE` are 0.
    ///
    /// # Errors
    /// [`BlockMaskError::FlashMaskColumn`] with the first column that needs more intervals than the form has,
    /// [`BlockMaskError::TooLarge`] if rows do not fit an `i32` or the bounds do not fit in memory, and
    /// [`BlockMaskError::SeveralCalls`] if the bucket has more than one member.
    pub fn to_flashmask(
        &self,
        kind: FlashMaskKind,
        evaluator: &dyn MaskEvaluator,
    ) -> Result<FlashMaskColumns, BlockMaskError> {
        self.require_single("FlashMask")?;
        let (q_len, kv_len) = (self.q_len(), self.kv_len());
        let elements = u128::from(kv_len)
            .saturating_mul(u128::from(self.batch()) * u128::from(self.heads()))
            .saturating_mul(kind.bounds().len() as u128);
        let mut bounds: Vec<i32> = Vec::new();
        let reserved = usize::try_from(elements)
            .ok()
            .and_then(|n| bounds.try_reserve_exact(n).ok());
        if reserved.is_none() || i32::try_from(q_len).is_err() {
            let what = "the bounds of FlashMask columns";
            return Err(BlockMaskError::TooLarge { what, elements });
        }
        for (b, h) in self.logical_entries() {
            let mut start = 0;
            while start < kv_len {
                let cols = start..(start + STRIP_COLS).min(kv_len);
                start = cols.end;
                for (column, masked) in cols.clone().zip(self.masked_rows(evaluator, (b, h), cols))
                {
                    let fitted = masked.fit(kind, diagonal(self.geometry(), column), q_len);
                    let Some(values) = fitted else {
                        return Err(BlockMaskError::FlashMaskColumn {
                            kind,
                            b,
                            h,
                            column,
                            found: masked.to_string(),
                        });
                    };
                    bounds.extend(
                        values
                            .iter()
                            .take(kind.bounds().len())
                            .map(|&row| row as i32),
                    );
                }
            }
        }
        FlashMaskColumns::new(self.geometry().clone(), kind, bounds)
    }

    /// Finds the exact classes of `FlashMask` columns.
    ///
    /// # Errors
    /// [`BlockMaskError::SeveralCalls`] if the bucket has more than one member.
    pub fn from_flashmask(columns: &FlashMaskColumns) -> Result<Self, BlockMaskError> {
        Self::from_evaluator(columns.geometry(), columns)
    }

    /// The masked rows of each of some columns.
    fn masked_rows(
        &self,
        evaluator: &dyn MaskEvaluator,
        entry: (u32, u32),
        cols: Range<u64>,
    ) -> Vec<MaskedRows> {
        let n = (cols.end - cols.start) as usize;
        let words_per_row = words_for(n as u64);
        let mut found = vec![MaskedRows::default(); n];
        // Before the first row all cells count as allowed, so that a change is a beginning or an end.
        let mut before: Vec<u64> = (0..words_per_row)
            .map(|word| low_mask((n - word * 64).min(64)))
            .collect();
        let (mut bits, mut scratch) = (Vec::new(), Vec::new());
        let mut row = 0;
        while row < self.q_len() {
            let rows = row..(row + STRIP_ROWS).min(self.q_len());
            bits.resize((rows.end - rows.start) as usize * words_per_row, 0);
            self.cells(
                evaluator,
                entry,
                rows.clone(),
                cols.clone(),
                &mut bits,
                &mut scratch,
            );
            for (row, line) in rows.clone().zip(bits.chunks(words_per_row)) {
                for (word, (now, before)) in line.iter().zip(&mut before).enumerate() {
                    let mut changed = now ^ *before;
                    *before = *now;
                    while changed != 0 {
                        found[word * 64 + changed.trailing_zeros() as usize].turn(row);
                        changed &= changed - 1;
                    }
                }
            }
            row = rows.end;
        }
        for column in &mut found {
            if column.turns % 2 == 1 {
                column.turn(self.q_len());
            }
        }
        found
    }
}

/// Keys and rows that are looked at together.
const STRIP_COLS: u64 = 4096;
const STRIP_ROWS: u64 = 128;

/// Where a column turns masked and allowed again, the first three intervals.
#[derive(Clone, Copy, Default)]
struct MaskedRows {
    rows: [u64; 6],
    turns: u64,
}

impl MaskedRows {
    fn turn(&mut self, row: u64) {
        if let Some(slot) = self.rows.get_mut(self.turns as usize) {
            *slot = row;
        }
        self.turns += 1;
    }

    fn intervals(&self) -> impl Iterator<Item = (u64, u64)> {
        let known = (self.turns as usize).min(self.rows.len());
        self.rows[..known]
            .as_chunks::<2>()
            .0
            .iter()
            .map(|&[start, end]| (start, end))
    }

    /// The bounds of the column in a form, or `None` if it takes more intervals than that has.
    fn fit(&self, kind: FlashMaskKind, diagonal: u64, q_len: u64) -> Option<[u64; 4]> {
        let mut intervals: Vec<(u64, u64)> = self.intervals().collect();
        if 6 <= self.turns {
            return None;
        }
        if kind.is_causal() && 0 < diagonal {
            // What lies above the diagonal is masked by the form, and must be masked here.
            let (start, end) = *intervals.first()?;
            if start != 0 || end < diagonal {
                return None;
            }
            if end == diagonal {
                intervals.remove(0);
            } else {
                intervals[0].0 = diagonal;
            }
        }
        let none = (q_len, q_len);
        match kind {
            FlashMaskKind::Causal => match *intervals {
                [] => Some([q_len, 0, 0, 0]),
                [(start, end)] if end == q_len => Some([start, 0, 0, 0]),
                _ => None,
            },
            FlashMaskKind::CausalInterval => match *intervals {
                [] => Some([none.0, none.1, 0, 0]),
                [(start, end)] => Some([start, end, 0, 0]),
                _ => None,
            },
            FlashMaskKind::Bidirectional => match *intervals {
                [] => Some([q_len, 0, 0, 0]),
                [(0, end)] => Some([q_len, end, 0, 0]),
                [(start, end)] if end == q_len => Some([start, 0, 0, 0]),
                [(0, upper), (start, end)] if end == q_len => Some([start, upper, 0, 0]),
                _ => None,
            },
            FlashMaskKind::BidirectionalInterval => {
                let (lower, upper) = match *intervals {
                    [] => (none, (0, 0)),
                    [(0, end)] => (none, (0, end)),
                    [only] => (only, (0, 0)),
                    [upper, lower] => (lower, upper),
                    _ => return None,
                };
                Some([lower.0, lower.1, upper.0, upper.1])
            }
        }
    }
}

impl fmt::Display for MaskedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.turns == 0 {
            return f.write_str("none");
        }
        for (index, (start, end)) in self.intervals().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{start}..{end}")?;
        }
        if 6 < self.turns {
            write!(f, " and {} more", (self.turns - 6).div_ceil(2))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
