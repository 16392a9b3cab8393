//! Expected results, and how what an engine computed is compared with them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::case::Case;
use crate::recipe::splitmix;

/// How far a score may lie from its reference, absolutely or relatively. The reference computes in f64 from f32
/// captures; engines compute in f32, a few operations of which cost up to 1e-5.
pub const SCORE_TOLERANCE: f64 = 2e-5;

/// What a rule must come to.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Expected {
    /// Of a mask.
    Mask(MaskExpected),
    /// Of a score rule, every score.
    Scores(ScoresExpected),
    /// Of a score rule, some scores.
    Samples(SamplesExpected),
}

/// What a mask must come to.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaskExpected {
    /// Cells that attend.
    pub allowed: usize,
    /// Rows that see no key.
    pub rows_without_any_key: usize,
    /// Whether all batch rows are alike.
    pub same_for_every_batch: bool,
    /// Whether all heads are alike.
    pub same_for_every_head: bool,
    /// SHA-256 of the cells `[batch, heads, queries, keys]`, eight to a byte, the first one most significant.
    pub packbits_sha256: String,
    /// Classes of blocks, by their size on both axes.
    pub blocks: BTreeMap<String, BlocksExpected>,
    /// The rows of small cases, one drawing for each batch row and head.
    #[serde(default)]
    pub rows: Vec<String>,
}

/// Classes of the blocks of a mask.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlocksExpected {
    /// Rows and columns of blocks.
    pub grid: [u32; 2],
    /// Blocks within the lengths whose cells all attend.
    pub full: usize,
    /// Blocks some of whose cells attend, and overhanging ones that are not empty.
    pub partial: usize,
    /// Blocks without a cell that attends.
    pub empty: usize,
    /// SHA-256 of a byte per block, 0 for empty, 1 for partial, 2 for full: `[batch, heads, rows, columns]`.
    pub sha256: String,
}

/// What every score must be.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoresExpected {
    /// Rows of scores, over batch rows, heads and queries.
    pub scores: Vec<Vec<f64>>,
    /// The logarithm of the sum of exponentials of each row.
    pub row_logsumexp: Vec<f64>,
}

/// What some scores must be.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplesExpected {
    /// Scores that are neither infinite nor NaN.
    pub finite_cells: usize,
    /// Batch row, head, query, key, and the score there.
    pub samples: Vec<(usize, usize, usize, usize, f64)>,
}

/// The classes that an engine found for one block size.
#[derive(Debug)]
pub struct Blocks {
    /// Rows and columns of a block.
    pub size: u32,
    /// Rows and columns of blocks.
    pub grid: [u32; 2],
    /// A byte per block, as in [`BlocksExpected::sha256`].
    pub classes: Vec<u8>,
}

/// What attention gave.
#[derive(Debug)]
pub struct Attention {
    /// Weights of the keys, `[batch, heads, queries, keys]`: the values were the unit matrix.
    pub weights: Vec<f32>,
    /// The logarithm of the sum of exponentials of each row.
    pub lse: Vec<f32>,
}

/// Checks the cells of a mask.
///
/// # Errors
/// Everything that differs.
pub fn check_mask(case: &Case, cells: &[bool]) -> Result<(), String> {
    let Expected::Mask(expected) = &case.expected else {
        return Err("expected scores, found a mask".to_owned());
    };
    if cells.len() != case.cells() {
        return Err(differs("cells", case.cells(), cells.len()));
    }
    let [batch, heads, q_len, kv_len] = case.size.map(|n| n as usize);
    let mut faults = Vec::new();
    let mut check = |what: &str, expected: String, found: String| {
        if expected != found {
            faults.push(differs(what, expected, found));
        }
    };
    let drawings: Vec<String> = cells
        .chunks((q_len * kv_len).max(1))
        .map(|plane| draw(plane, kv_len))
        .collect();
    for (at, (expected, found)) in expected.rows.iter().zip(&drawings).enumerate() {
        check(
            &format!("plane {at}"),
            format!("\n{expected}"),
            format!("\n{found}"),
        );
    }
    if !expected.rows.is_empty() {
        check(
            "planes",
            expected.rows.len().to_string(),
            drawings.len().to_string(),
        );
    }
    let allowed = cells.iter().filter(|cell| **cell).count();
    check(
        "allowed cells",
        expected.allowed.to_string(),
        allowed.to_string(),
    );
    let empty = cells
        .chunks(kv_len.max(1))
        .filter(|row| !row.contains(&true))
        .count();
    check(
        "rows without any key",
        expected.rows_without_any_key.to_string(),
        empty.to_string(),
    );
    let same_batch = (1..batch).all(|b| drawings[b * heads..][..heads] == drawings[..heads]);
    check(
        "same for every batch",
        expected.same_for_every_batch.to_string(),
        same_batch.to_string(),
    );
    let same_head = drawings
        .chunks(heads)
        .all(|planes| planes.iter().all(|plane| *plane == planes[0]));
    check(
        "same for every head",
        expected.same_for_every_head.to_string(),
        same_head.to_string(),
    );
    check(
        "sha256 of cells",
        expected.packbits_sha256.clone(),
        packbits_sha256(cells),
    );
    result(&faults)
}

/// Checks the classes of blocks.
///
/// # Errors
/// Everything that differs.
pub fn check_blocks(case: &Case, found: &[Blocks]) -> Result<(), String> {
    let Expected::Mask(expected) = &case.expected else {
        return Err("expected scores, found blocks".to_owned());
    };
    let mut faults = Vec::new();
    for blocks in found {
        let size = blocks.size.to_string();
        let mut counts = [0; 3];
        for class in &blocks.classes {
            counts[usize::from(*class)] += 1;
        }
        let [empty, partial, full] = counts;
        let found = BlocksExpected {
            grid: blocks.grid,
            full,
            partial,
            empty,
            sha256: sha256(&blocks.classes),
        };
        match expected.blocks.get(&size) {
            Some(expected) if *expected == found => {}
            Some(expected) => faults.push(differs(
                &format!("blocks of {size}"),
                format!("{expected:?}"),
                format!("{found:?}"),
            )),
            None => faults.push(format!("nothing is expected of blocks of {size}")),
        }
    }
    if found.len() != expected.blocks.len() {
        faults.push(differs("block sizes", expected.blocks.len(), found.len()));
    }
    result(&faults)
}

/// Checks the output of a score rule.
///
/// # Errors
/// Everything that differs.
pub fn check_scores(case: &Case, scores: &[f32]) -> Result<(), String> {
    if scores.len() != case.cells() {
        return Err(differs("scores", case.cells(), scores.len()));
    }
    let [_, heads, q_len, kv_len] = case.size.map(|n| n as usize);
    let mut faults = Vec::new();
    match &case.expected {
        Expected::Mask(_) => return Err("expected a mask, found scores".to_owned()),
        Expected::Scores(expected) => {
            let rows = scores.chunks(kv_len);
            if expected.scores.len() != rows.len() {
                faults.push(differs("rows", expected.scores.len(), rows.len()));
            }
            for (row, (expected_row, found_row)) in expected.scores.iter().zip(rows).enumerate() {
                for (kv, (expected, found)) in expected_row.iter().zip(found_row).enumerate() {
                    check_close(
                        &format!("row {row}, key {kv}"),
                        *expected,
                        *found,
                        &mut faults,
                    );
                }
                let lse = logsumexp(found_row) as f32;
                let what = format!("logsumexp of row {row}");
                check_close(&what, expected.row_logsumexp[row], lse, &mut faults);
            }
        }
        Expected::Samples(expected) => {
            let finite = scores.iter().filter(|score| score.is_finite()).count();
            if finite != expected.finite_cells {
                faults.push(differs("finite cells", expected.finite_cells, finite));
            }
            for (i, (b, h, q, kv, value)) in expected.samples.iter().enumerate() {
                let at = ((b * heads + h) * q_len + q) * kv_len + kv;
                let drawn = splitmix(4242, i as u64) % scores.len() as u64;
                if drawn != at as u64 {
                    faults.push(differs("position of a sample", drawn, at));
                }
                let what = format!("({b}, {h}, {q}, {kv})");
                check_close(&what, *value, scores[at], &mut faults);
            }
        }
    }
    result(&faults)
}

/// Checks weights against the softmax of scores in f64, masked cells being `-inf`.
///
/// # Errors
/// Everything that differs.
pub fn check_attention(kv_len: usize, scores: &[f32], found: &Attention) -> Result<(), String> {
    let mut faults = Vec::new();
    if found.weights.len() != scores.len() || found.lse.len() != scores.len() / kv_len {
        return Err("the output has another shape".to_owned());
    }
    let rows = scores.chunks(kv_len).zip(found.weights.chunks(kv_len));
    for (row, (scores, weights)) in rows.enumerate() {
        let lse = logsumexp(scores);
        check_close(
            &format!("lse of row {row}"),
            lse,
            found.lse[row],
            &mut faults,
        );
        for (kv, (score, weight)) in scores.iter().zip(weights).enumerate() {
            let what = format!("row {row}, key {kv}");
            if *score == f32::NEG_INFINITY {
                // Also where the row has no key at all: exactly 0, and no NaN.
                if *weight != 0.0 {
                    faults.push(differs(&what, 0, weight));
                }
                continue;
            }
            let expected = (f64::from(*score) - lse).exp();
            check_close(&what, expected, *weight, &mut faults);
        }
    }
    result(&faults)
}

/// The logarithm of the sum of exponentials, `-inf` where every score is.
pub fn logsumexp(scores: &[f32]) -> f64 {
    let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if max == f32::NEG_INFINITY {
        return f64::NEG_INFINITY;
    }
    let max = f64::from(max);
    let sum: f64 = scores.iter().map(|s| (f64::from(*s) - max).exp()).sum();
    max + sum.ln()
}

fn check_close(what: &str, expected: f64, found: f32, faults: &mut Vec<String>) {
    if !close(expected, f64::from(found)) {
        faults.push(differs(what, expected, found));
    }
}

/// Whether two scores agree; a NaN agrees with nothing, not even where one is expected.
fn close(expected: f64, found: f64) -> bool {
    if expected.is_infinite() || found.is_infinite() {
        return expected == found;
    }
    let distance = (expected - found).abs();
    distance <= SCORE_TOLERANCE || distance <= SCORE_TOLERANCE * expected.abs()
}

fn differs(what: &str, expected: impl std::fmt::Display, found: impl std::fmt::Display) -> String {
    format!("{what}: expected {expected}, found {found}")
}

/// The faults, the first ones in full.
fn result(faults: &[String]) -> Result<(), String> {
    const SHOWN: usize = 4;
    if faults.is_empty() {
        return Ok(());
    }
    let mut text = faults[..faults.len().min(SHOWN)].join("\n    ");
    if SHOWN < faults.len() {
        let more = faults.len() - SHOWN;
        write!(text, "\n    and {more} more").expect("a string takes any text");
    }
    Err(text)
}

/// Rows of a plane as lines of 0 and 1.
pub fn draw(cells: &[bool], kv_len: usize) -> String {
    let line = |row: &[bool]| -> String {
        row.iter()
            .map(|cell| if *cell { '1' } else { '0' })
            .collect()
    };
    let lines: Vec<String> = cells.chunks(kv_len.max(1)).map(line).collect();
    lines.join("\n")
}

/// SHA-256 of cells packed as `numpy.packbits` packs them.
pub fn packbits_sha256(cells: &[bool]) -> String {
    let pack = |eight: &[bool]| {
        let bits = eight.iter().enumerate();
        bits.fold(0, |byte, (i, on)| byte | u8::from(*on) << (7 - i))
    };
    let bytes: Vec<u8> = cells.chunks(8).map(pack).collect();
    sha256(&bytes)
}

/// SHA-256 of bytes, in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a string takes any text");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_agrees_with_nothing() {
        assert!(close(1.0, 1.000_01) && close(1e6, 1e6 + 10.0));
        assert!(!close(1.0, 1.001));
        assert!(close(f64::NEG_INFINITY, f64::NEG_INFINITY));
        assert!(!close(f64::NEG_INFINITY, f64::INFINITY) && !close(f64::NEG_INFINITY, -1e30));
        assert!(!close(f64::NAN, f64::NAN) && !close(0.0, f64::NAN) && !close(f64::NAN, 0.0));
    }

    #[test]
    fn a_row_without_keys_has_no_weight() {
        let scores = [f32::NEG_INFINITY; 3];
        let attention = |weights: [f32; 3], lse| Attention {
            weights: weights.to_vec(),
            lse: vec![lse],
        };
        let right = attention([0.0; 3], f32::NEG_INFINITY);
        assert_eq!(check_attention(3, &scores, &right), Ok(()));
        let nan = attention([f32::NAN; 3], f32::NAN);
        check_attention(3, &scores, &nan).expect_err("a NaN is flagged");
        let even = attention([1.0 / 3.0; 3], f32::NEG_INFINITY);
        check_attention(3, &scores, &even).expect_err("weight without a key is flagged");
    }

    #[test]
    fn cells_are_packed_with_the_first_one_most_significant() {
        let cells = [true, false, false, true, true, false, true, true, true];
        assert_eq!(packbits_sha256(&cells), sha256(&[0b1001_1011, 0b1000_0000]));
        assert_eq!(draw(&cells, 3), "100\n110\n111");
    }
}
