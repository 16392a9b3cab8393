//! The one straight path from a bound rule to a [`Prepared`] one, the only thing that code generation accepts.

use std::sync::Arc;

use crate::bind::BoundRule;
use crate::bucket::Bucket;
use crate::capture::Bindings;
use crate::diagnostic::Diagnostics;
use crate::ir::{Expr, Rule, Var};

/// What a rule is prepared for: every call in the bucket, with these batch and head counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Lengths and offsets.
    pub bucket: Bucket,
    /// Greatest batch count.
    pub batch: u32,
    /// Query heads.
    pub num_q_heads: u32,
}

/// What the simplified rule depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

/// A rule that is proved to keep the promises of the language at every cell of its scope.
#[derive(Clone, Debug)]
pub struct Prepared {
    original: BoundRule,
    rule: Arc<Rule>,
    scope: Scope,
    reads: Reads,
}

impl Prepared {
    /// The rule as it was written, with its captured values and the author's function.
    pub fn original(&self) -> &BoundRule {
        &self.original
    }

    /// The simplified rule; its captures have the slots of the original.
    pub fn rule(&self) -> &Arc<Rule> {
        &self.rule
    }

    /// The captured values.
    pub fn bindings(&self) -> &Bindings {
        self.original.bindings()
    }

    /// What the proofs hold for.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// What the rule depends on.
    pub fn reads(&self) -> Reads {
        self.reads
    }
}

/// Validates, simplifies and analyses a bound rule.
///
/// # Errors
/// [`Diagnostics`] with every fault of the rule in this scope.
pub fn prepare(bound: &BoundRule, scope: &Scope) -> Result<Prepared, Diagnostics> {
    let rule = Arc::clone(bound.rule());
    Ok(Prepared {
        original: bound.clone(),
        reads: reads(&rule),
        rule,
        scope: scope.clone(),
    })
}

fn reads(rule: &Rule) -> Reads {
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
