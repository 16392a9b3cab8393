//! Ranges of bits in a row of words.

use std::ops::Range;

/// The bits `range` of a row, word by word: their word and a mask of the bits that belong to the range.
fn words(range: Range<usize>) -> impl Iterator<Item = (usize, u64)> {
    let last = range.end.saturating_sub(1) / 64;
    let words = if range.is_empty() {
        0..0
    } else {
        range.start / 64..last + 1
    };
    words.map(move |word| {
        let mut mask = u64::MAX;
        if word == range.start / 64 {
            mask &= u64::MAX << (range.start % 64);
        }
        if word == last {
            mask &= u64::MAX >> (63 - (range.end - 1) % 64);
        }
        (word, mask)
    })
}

/// Number of ones in a range.
pub(super) fn count(row: &[u64], range: Range<usize>) -> u64 {
    words(range)
        .map(|(word, mask)| u64::from((row[word] & mask).count_ones()))
        .sum()
}

/// First one in a range.
pub(super) fn first_one(row: &[u64], range: Range<usize>) -> Option<usize> {
    first(range, |word| row[word])
}

/// First zero in a range.
pub(super) fn first_zero(row: &[u64], range: Range<usize>) -> Option<usize> {
    first(range, |word| !row[word])
}

fn first(range: Range<usize>, bits: impl Fn(usize) -> u64) -> Option<usize> {
    words(range).find_map(|(word, mask)| {
        let bits = bits(word) & mask;
        (bits != 0).then(|| word * 64 + bits.trailing_zeros() as usize)
    })
}

/// One bit.
pub(super) fn bit(row: &[u64], at: usize) -> bool {
    row[at / 64] >> (at % 64) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_count_and_find_as_single_bits_do() {
        let row = [0x00ff_0000_0000_f0f0, 0, u64::MAX, 1 << 63];
        for start in 0..256 {
            for end in start..=256 {
                let on: Vec<usize> = (start..end).filter(|&at| bit(&row, at)).collect();
                assert_eq!(count(&row, start..end), on.len() as u64);
                assert_eq!(first_one(&row, start..end), on.first().copied());
                let off = (start..end).find(|&at| !bit(&row, at));
                assert_eq!(first_zero(&row, start..end), off);
            }
        }
    }
}
