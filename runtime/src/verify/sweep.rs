//! Every cell of a call, in bands of rows over all keys, on all threads of the current pool.

use std::time::Instant;

use maskwright_dsl::dense::DenseSummarizer;
use rayon::prelude::*;

use super::bits;
use super::classes::MixedBlocks;
use super::error::VerifyError;
use super::subject::{Rect, Subject};

/// Rows of a band, and the words that its bits take at most.
const BAND_ROWS: u64 = 128;
const BAND_WORDS: u64 = 1 << 15;

/// Bands per thread that are computed before time is looked at, and whose bits are held for hashing.
const GROUP: usize = 4;

/// A call of no more cells is always checked whole: a sample would hardly be cheaper.
pub(super) const SMALL_CELLS: u64 = 1 << 22;

/// What every cell of a call comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Swept {
    /// Cells of all batch entries and heads.
    pub(super) cells: u64,
    pub(super) allowed: u64,
    pub(super) rows_without_any_key: u64,
    pub(super) packbits_sha256: Option<[u8; 32]>,
}

/// Whether a sweep may end before its last cell.
#[derive(Clone, Copy, Debug)]
pub(super) enum Patience {
    /// It goes through, however long it takes.
    Endless,
    /// It is given up when it would end later than this, as far as its speed tells.
    Until(Instant),
}

/// Whether the bits are hashed in the order of `numpy.packbits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    No,
    Packbits,
}

struct Band {
    bits: Vec<u64>,
    allowed: u64,
    rows_without_any_key: u64,
}

/// Checks every cell of a call; `None` if patience ended before. Planes that the rule cannot tell apart are checked
/// once.
pub(super) fn sweep(
    subject: &Subject<'_>,
    patience: Patience,
    hash: Hash,
) -> Result<Option<Swept>, VerifyError> {
    let (q_len, kv_len) = (subject.member.q_len, subject.member.kv_len);
    let planes = subject.planes();
    let words = kv_len.div_ceil(64).max(1);
    let band_rows = (BAND_WORDS / words).clamp(1, BAND_ROWS);
    let starts: Vec<u64> = (0..q_len).step_by(band_rows as usize).collect();
    let group = GROUP * rayon::current_num_threads();
    let total = u128::from(q_len) * u128::from(kv_len) * planes.len() as u128;
    let started = Instant::now();
    let mut done = 0_u128;
    let mut swept = Swept {
        cells: 0,
        allowed: 0,
        rows_without_any_key: 0,
        packbits_sha256: None,
    };
    let mut summarizer = (hash == Hash::Packbits).then(DenseSummarizer::default);
    // Hashing goes through all planes in order, so it is done along the way only where each plane is computed.
    let along = planes.iter().all(|(_, copies)| *copies == 1);
    for &((b, h), copies) in &planes {
        let mixed = MixedBlocks::default();
        for group in starts.chunks(group) {
            let bands: Vec<Result<Band, VerifyError>> = group
                .par_iter()
                .map(|&start| {
                    let rect = Rect {
                        b,
                        h,
                        rows: start..(start + band_rows).min(q_len),
                        cols: 0..kv_len,
                    };
                    let mut bits = Vec::new();
                    subject.check(&rect, &mut bits, Some(&mixed))?;
                    let mut band =
                        summary(&bits, kv_len, (rect.rows.end - rect.rows.start) as usize);
                    if along && hash == Hash::Packbits {
                        band.bits = bits;
                    }
                    Ok(band)
                })
                .collect();
            for band in bands {
                let band = band?;
                swept.allowed += copies * band.allowed;
                swept.rows_without_any_key += copies * band.rows_without_any_key;
                if let Some(summarizer) = &mut summarizer {
                    push(summarizer, &band.bits, kv_len);
                }
            }
            let rows = group.len() as u64 * band_rows;
            done += u128::from(rows.min(q_len)) * u128::from(kv_len);
            if let Patience::Until(end) = patience {
                let left = total.saturating_sub(done) as f64 / done.max(1) as f64;
                let needed = started.elapsed().mul_f64(left);
                if end.saturating_duration_since(Instant::now()) < needed {
                    return Ok(None);
                }
            }
        }
        swept.cells += copies * q_len * kv_len;
    }
    if let Some(mut summarizer) = summarizer {
        if kv_len == 0 || !along {
            summarizer = hash_compiled(subject);
        }
        swept.packbits_sha256 = Some(summarizer.finish().packbits_sha256);
    }
    Ok(Some(swept))
}

/// Hashes the planes of all batch entries and heads as the compiled rule computes them, after it was found equal.
fn hash_compiled(subject: &Subject<'_>) -> DenseSummarizer {
    let shape = subject.shape();
    let mut summarizer = DenseSummarizer::default();
    let mut bits = Vec::new();
    if shape.kv_len == 0 {
        return summarizer;
    }
    for b in 0..shape.batch {
        for h in 0..shape.heads {
            for start in (0..shape.q_len).step_by(BAND_ROWS as usize) {
                let rows = start..(start + BAND_ROWS).min(shape.q_len);
                subject.compiled_rows(b, h, rows, &mut bits);
                push(&mut summarizer, &bits, shape.kv_len);
            }
        }
    }
    summarizer
}

fn push(summarizer: &mut DenseSummarizer, bits: &[u64], kv_len: u64) {
    for line in bits.chunks(kv_len.div_ceil(64).max(1) as usize) {
        summarizer.push_row(line, kv_len as usize);
    }
}

fn summary(bits: &[u64], kv_len: u64, n_q: usize) -> Band {
    let mut band = Band {
        bits: Vec::new(),
        allowed: 0,
        rows_without_any_key: 0,
    };
    if kv_len == 0 {
        band.rows_without_any_key = n_q as u64;
        return band;
    }
    for line in bits.chunks(kv_len.div_ceil(64) as usize) {
        let allowed = bits::count(line, 0..kv_len as usize);
        band.allowed += allowed;
        band.rows_without_any_key += u64::from(allowed == 0);
    }
    band
}
