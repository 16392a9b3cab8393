//! What a rule depends on besides its captures.

use crate::ir::{Expr, Rule, Var};

/// What the simplified rule depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "a set of seven, and every reader asks for one by name"
)]
pub struct Reads {
    /// The batch index.
    pub b: bool,
    /// The query head index.
    pub h: bool,
    /// The query position.
    pub q_idx: bool,
    /// The key position.
    pub kv_idx: bool,
    /// `q_len` or `kv_len`.
    pub lengths: bool,
    /// `batch` or `num_q_heads`.
    pub counts: bool,
    /// The score.
    pub score: bool,
}

/// What the result of `rule` depends on.
pub(crate) fn reads(rule: &Rule) -> Reads {
    let mut reads = Reads::default();
    let live = rule.live();
    for id in rule.arena.ids().filter(|id| live[id.index()]) {
        let Expr::Var(var) = rule.arena.expr(id) else {
            continue;
        };
        match var {
            Var::B => reads.b = true,
            Var::H => reads.h = true,
            Var::QIdx => reads.q_idx = true,
            Var::KvIdx => reads.kv_idx = true,
            Var::Score => reads.score = true,
            Var::QLen | Var::KvLen => reads.lengths = true,
            Var::Batch | Var::NumQHeads => reads.counts = true,
        }
    }
    reads
}
