//! The cells of a partial tile that are attended, as bits, and the columns worth computing.

use std::ops::Range;

use crate::micro::{Extent, GROUP, STRIP};
use crate::request::{BlockClass, TileRule};
use crate::tiles::{QueryTileRuns, TILE};

/// Words that hold a row of the largest tile.
pub(crate) const MAX_WORDS: usize = TILE / 64;

/// Where a tile lies.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) b: usize,
    pub(crate) h: usize,
    pub(crate) q: Range<usize>,
    pub(crate) kv: Range<usize>,
}

/// What the bits of a tile turned out to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cells {
    /// No cell is attended.
    None,
    /// Some are.
    Some,
    /// All are.
    All,
}

/// Writes the attended cells of a tile to `bits` and returns what they amount to.
///
/// The block lists are the law: cells of empty blocks are masked and cells of full blocks attended
/// whatever the rule says; the rule decides within partial blocks.
pub(crate) fn attended_cells(
    place: &Place,
    runs: &QueryTileRuns,
    q_block: usize,
    rule: Option<&dyn TileRule>,
    bits: &mut [u64],
) -> Cells {
    let n_kv = place.kv.len();
    let words = n_kv.div_ceil(64);
    let any_partial = (0..runs.num_rows()).any(|row| {
        let met = runs.meeting(row, place.kv.clone());
        met.iter().any(|run| run.class == BlockClass::Partial)
    });
    match rule {
        Some(rule) if any_partial && rule.has_mask() => {
            bits.fill(0);
            let (q0, kv0) = (place.q.start, place.kv.start);
            rule.mask(place.b, place.h, q0, place.q.len(), kv0, n_kv, bits, words);
        }
        Some(_) | None => bits.fill(u64::MAX),
    }

    let first_row = place.q.start / q_block;
    let (mut all, mut any) = (u64::MAX, 0);
    let mut i = 0;
    for row in 0..runs.num_rows() {
        // Cells of partial blocks, and of full ones, in this row of blocks.
        let mut partial = [0; MAX_WORDS];
        let mut full = [0; MAX_WORDS];
        for run in runs.meeting(row, place.kv.clone()) {
            let from = run.from.max(place.kv.start) - place.kv.start;
            let to = run.to.min(place.kv.end) - place.kv.start;
            match run.class {
                BlockClass::Partial => set_range(&mut partial, from..to),
                BlockClass::Full => set_range(&mut full, from..to),
            }
        }
        // Without a block mask there is one block row, however long.
        let end = if row + 1 == runs.num_rows() {
            place.q.len()
        } else {
            (first_row + row + 1) * q_block - place.q.start
        };
        for row_bits in bits[i * words..end * words].chunks_exact_mut(words) {
            for (w, word) in row_bits.iter_mut().enumerate() {
                *word = (*word & partial[w]) | full[w];
                any |= *word;
                // Bits past the tile's last key count as ones here.
                all &= *word | !low_bits(n_kv.saturating_sub(w * 64));
            }
        }
        i = end;
    }
    match (any, all) {
        (0, _) => Cells::None,
        (_, u64::MAX) => Cells::All,
        _ => Cells::Some,
    }
}

/// For every group of rows, the strips of columns from the first to the last attended cell.
pub(crate) fn extents(bits: &[u64], words: usize, out: &mut Vec<Extent>) {
    out.clear();
    for group in bits.chunks(GROUP * words) {
        let mut union = [0; MAX_WORDS];
        for row in group.chunks_exact(words) {
            for (u, word) in union.iter_mut().zip(row) {
                *u |= word;
            }
        }
        let first = (0..words).find(|w| union[*w] != 0);
        let last = (0..words).rfind(|w| union[*w] != 0);
        out.push(match (first, last) {
            (Some(first), Some(last)) => Extent {
                from: (first * 64 + union[first].trailing_zeros() as usize) / STRIP,
                to: (last * 64 + 63 - union[last].leading_zeros() as usize) / STRIP + 1,
            },
            (None, _) | (_, None) => Extent { from: 0, to: 0 },
        });
    }
}

/// A word whose lowest `n` bits are set.
fn low_bits(n: usize) -> u64 {
    if n < 64 { (1 << n) - 1 } else { u64::MAX }
}

fn set_range(words: &mut [u64; MAX_WORDS], range: Range<usize>) {
    for (w, word) in words.iter_mut().enumerate() {
        let from = range.start.saturating_sub(w * 64);
        let to = range.end.saturating_sub(w * 64);
        *word |= low_bits(to) & !low_bits(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cross_words() {
        let mut words = [0; MAX_WORDS];
        set_range(&mut words, 60..70);
        assert_eq!(words, [0xf << 60, 0x3f]);
        set_range(&mut words, 0..128);
        assert_eq!(words, [u64::MAX; 2]);
    }

    #[test]
    fn extents_follow_the_outermost_cells_of_a_group() {
        let mut bits = vec![0; 8 * 2];
        bits[2 * 2] = 1 << 17;
        bits[5 * 2 + 1] = 1 << 1;
        let mut out = Vec::new();
        extents(&bits, 2, &mut out);
        assert_eq!(out, [Extent { from: 1, to: 5 }, Extent { from: 0, to: 0 }]);
    }
}
