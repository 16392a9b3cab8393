//! A rule as CUDA text, before any kernel holds it.

use std::collections::BTreeSet;

use crate::plan::{ParamType, ParamValue};

use super::support::Support;

/// The functions of one rule.
///
/// For a mask the text defines `MaskRow` and `mask_row(p, b, h, q)`, what depends on the query alone; `MaskCol` and
/// `mask_col(p, b, h, kv)`, what depends on the key alone; and the predicate `mask_mod(p, b, h, q, kv, row, col)`. For a `score_mod` it
/// defines `ScoreRow`, `score_row`, `ScoreCol`, `score_col` and `score_mod(p, score, b, h, q, kv, row, col)`.
///
/// `p` is the `Params` of the kernel, which has the fields of `params` and the sizes `q_len`, `rule_kv_len`, `batch` and
/// `num_q_heads` as `int`. The text must be compiled without contraction (`--fmad=false`) and without fast mathematics, and
/// its functions must be called at cells of the call alone: reads are proved in range there and nowhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleText {
    /// Fields that the text needs in `Params`, beside the sizes.
    pub params: Vec<(String, ParamType, ParamValue)>,
    /// The definitions.
    pub functions: String,
    /// Whether the struct of the row holds anything.
    pub has_row: bool,
    /// Whether the struct of the column holds anything.
    pub has_col: bool,
    /// Functions that the text calls; [`super::support_text`] defines those of all rules of a kernel, once.
    pub support: BTreeSet<Support>,
}
