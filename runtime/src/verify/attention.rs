//! The attention part of a verification: an engine's output, LSE and row maxima against dense attention in float64.
//!
//! Both sides come in as functions, so that every engine is checked by the same code.

use std::error::Error;
use std::fmt;

use maskwright_dsl::block_mask::BlockMask;
use maskwright_dsl::bucket::Member;
use maskwright_dsl::pipeline::Scope;
use serde::{Deserialize, Serialize};

use super::error::VerifyError;
use super::mismatch::{CellDifference, CellValue, Finding, MAX_CELLS, MismatchReport};
use super::random::Random;
use super::subject::call_shape;
use crate::attention::Rules;

/// The longest lengths at which dense attention is computed.
pub const MAX_ATTENTION_LEN: u64 = 512;

/// Cells of all heads that dense attention is asked for at most, so that it stays a matter of milliseconds.
const MAX_CELLS_PER_CALL: u64 = 1 << 20;

/// Calls at which attention is compared.
const CALLS: usize = 4;

const STREAM: u64 = 5;

/// Width of a head in generated inputs: more than one vector register, and no multiple of it.
pub const HEAD_DIM: usize = 40;

/// One attention call on generated inputs.
///
/// # Shapes
/// `q` is `[batch, num_q_heads, q_len, head_dim]`, `k` and `v` are `[batch, num_q_heads, kv_len, head_dim]`, all
/// row-major.
#[derive(Clone, Copy, Debug)]
pub struct AttentionCase<'a> {
    /// The rules.
    pub rules: &'a Rules,
    /// The calls that they are verified for.
    pub scope: &'a Scope,
    /// The block masks that were built for the scope.
    pub block_masks: &'a [BlockMask],
    /// Batch entries.
    pub batch: usize,
    /// Query heads, and heads of keys and values.
    pub num_q_heads: usize,
    /// Lengths and offset.
    pub member: Member,
    /// Width of a head.
    pub head_dim: usize,
    /// Factor of the scores.
    pub sm_scale: f32,
    /// Queries.
    pub q: &'a [f32],
    /// Keys.
    pub k: &'a [f32],
    /// Values.
    pub v: &'a [f32],
}

/// What attention gives.
///
/// # Shapes
/// `out` is `[batch, num_q_heads, q_len, head_dim]`, the others are `[batch, num_q_heads, q_len]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttentionResult<T> {
    /// The output; 0 for a row that sees no key.
    pub out: Vec<T>,
    /// The natural logarithm of the sum of exponentials; −∞ for a row that sees no key.
    pub lse: Vec<T>,
    /// The greatest score; −∞ for a row that sees no key.
    pub row_max: Vec<T>,
}

/// How far an engine may be from float64: `|found − expected| <= absolute + relative · |expected|`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tolerance {
    /// Its name, with the data type and the reason for the size.
    pub name: String,
    /// Absolute part.
    pub absolute: f64,
    /// Relative part.
    pub relative: f64,
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            absolute,
            relative,
        } = self;
        write!(f, "{name}: {absolute:e} + {relative:e} of the value")
    }
}

impl Tolerance {
    /// Whether a value is near enough; infinities and NaN must be the same.
    pub fn allows(&self, expected: f64, found: f64) -> bool {
        expected == found
            || (expected.is_nan() && found.is_nan())
            || (expected.is_finite()
                && (found - expected).abs() <= self.absolute + self.relative * expected.abs())
    }
}

/// A failure of an engine or a reference, which is no mismatch.
pub type AttentionFailure = Box<dyn Error + Send + Sync>;

/// An attention engine and the dense attention that it is compared with.
#[derive(Clone)]
pub struct AttentionCheck<'a> {
    /// The engine's name in certificates and reports.
    pub engine: String,
    /// The engine.
    pub run:
        &'a (dyn Fn(&AttentionCase<'_>) -> Result<AttentionResult<f32>, AttentionFailure> + Sync),
    /// Dense attention in float64.
    pub reference:
        &'a (dyn Fn(&AttentionCase<'_>) -> Result<AttentionResult<f64>, AttentionFailure> + Sync),
    /// For outputs, LSE and row maxima alike.
    pub tolerance: Tolerance,
    /// Width of a head of the inputs, [`HEAD_DIM`] unless the engine wants another.
    pub head_dim: usize,
}

impl fmt::Debug for AttentionCheck<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttentionCheck")
            .field("engine", &self.engine)
            .field("tolerance", &self.tolerance)
            .finish_non_exhaustive()
    }
}

/// What attention is computed under.
pub(super) struct AttentionRules<'a> {
    pub(super) name: String,
    pub(super) rules: &'a Rules,
    pub(super) scope: &'a Scope,
    pub(super) block_masks: &'a [BlockMask],
}

/// The calls of at most 512 × 512 at which attention is compared: the largest, the smallest and some between. Members
/// come in rising order of their cells.
pub(super) fn calls(members: &[Member], batch: u32, heads: u32) -> Vec<Member> {
    let planes = u64::from(batch) * u64::from(heads);
    let fits: Vec<Member> = members
        .iter()
        .filter(|m| m.q_len <= MAX_ATTENTION_LEN && m.kv_len <= MAX_ATTENTION_LEN)
        .filter(|m| (m.q_len * m.kv_len).saturating_mul(planes) <= MAX_CELLS_PER_CALL)
        .copied()
        .collect();
    let n = fits.len();
    let mut calls: Vec<Member> = (0..CALLS.min(n))
        .map(|i| fits[i * (n - 1) / (CALLS - 1).max(1)])
        .collect();
    calls.dedup();
    calls
}

/// The first queries and keys of a call that is too long: what a rule that does not read the lengths does there, it
/// does in the whole call too.
pub(super) fn part(largest: &Member, batch: u32, heads: u32) -> Option<Member> {
    let planes = u64::from(batch) * u64::from(heads);
    let mut len = MAX_ATTENTION_LEN;
    while MAX_CELLS_PER_CALL < (len * len).saturating_mul(planes) {
        len /= 2;
    }
    (0 < len).then_some(Member {
        q_len: largest.q_len.min(len),
        kv_len: largest.kv_len.min(len),
        q_offset: largest.q_offset,
    })
}

/// Compares an engine with dense attention at one call; gives the number of values that were compared.
pub(super) fn check_attention(
    check: &AttentionCheck<'_>,
    rules: &AttentionRules<'_>,
    member: Member,
    seed: u64,
) -> Result<u64, VerifyError> {
    let scope = rules.scope;
    let (batch, heads) = (scope.batch as usize, scope.num_q_heads as usize);
    let head_dim = check.head_dim;
    let (q_len, kv_len) = (member.q_len as usize, member.kv_len as usize);
    let mut random = Random::new(seed, STREAM ^ member.q_len << 32 ^ member.kv_len);
    let mut fill = |len: usize| -> Vec<f32> {
        (0..batch * heads * len * head_dim)
            .map(|_| random.small_float() / 2.0)
            .collect()
    };
    let (q, k, v) = (fill(q_len), fill(kv_len), fill(kv_len));
    let case = AttentionCase {
        rules: rules.rules,
        scope,
        block_masks: rules.block_masks,
        batch,
        num_q_heads: heads,
        member,
        head_dim,
        sm_scale: 1.0 / (head_dim as f32).sqrt(),
        q: &q,
        k: &k,
        v: &v,
    };
    let shape = call_shape(scope, &member);
    let failed = |engine: &str| {
        let engine = engine.to_owned();
        move |source| VerifyError::Attention {
            engine,
            shape,
            source,
        }
    };
    let expected = (check.reference)(&case).map_err(failed("dense attention in float64"))?;
    let found = (check.run)(&case).map_err(failed(&check.engine))?;
    let mut compared = 0;
    for (what, expected, found, width) in [
        ("output", &expected.out, &found.out, head_dim),
        ("lse", &expected.lse, &found.lse, 1),
        ("row max", &expected.row_max, &found.row_max, 1),
    ] {
        if expected.len() != found.len() {
            let text = format!(
                "{what} has {} values, expected {}",
                found.len(),
                expected.len()
            );
            return Err(failed(&check.engine)(text.into()));
        }
        compared += expected.len() as u64;
        let pairs = expected.iter().zip(found).enumerate();
        let cells: Vec<CellDifference> = pairs
            .filter(|(_, (expected, found))| {
                !check.tolerance.allows(**expected, f64::from(**found))
            })
            .take(MAX_CELLS)
            .map(|(at, (expected, found))| {
                let row = at / width;
                let plane = row / q_len;
                CellDifference {
                    b: (plane / heads) as u32,
                    h: (plane % heads) as u32,
                    q_idx: member.q_offset + (row % q_len) as i64,
                    kv_idx: (at % width) as i64,
                    expected: CellValue::Value(*expected),
                    found: CellValue::Value(f64::from(*found)),
                    score: None,
                }
            })
            .collect();
        if !cells.is_empty() {
            return Err(VerifyError::Mismatch(Box::new(MismatchReport {
                rule: rules.name.clone(),
                what: format!(
                    "{what} against dense attention in float64 ({})",
                    check.tolerance
                ),
                engine: check.engine.clone(),
                shape,
                generated_captures: false,
                finding: Finding::Cells(cells),
                around: None,
            })));
        }
    }
    Ok(compared)
}
