//! What lowering must know of each node: where it can be computed, whether it may be computed at all, how it is read.

use maskwright_dsl::ir::{Arena, BinaryOp, Expr, ExprId, Rule, Ty, UnaryOp, Var};

use crate::levels::{Level, certain, for_each_source, levels, reached};

use super::callee::Callee;

/// How a read that depends on the key reaches memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// The last index grows by one with the key, and no other index depends on it.
    Ascending,
    /// The last index falls by one with the key, and no other index depends on it.
    Descending,
    /// Lane by lane.
    Gather,
}

/// Facts by node of the arena.
#[derive(Debug)]
pub(super) struct Facts {
    /// How often the node is computed.
    pub(super) level: Vec<Level>,
    /// Whether the node is evaluated at every cell, so that its promises hold there; others are only guarded.
    pub(super) certain: Vec<bool>,
    /// How a read is done; meaningful for reads that vary.
    pub(super) access: Vec<Access>,
    /// Whether the result depends on the node.
    pub(super) needed: Vec<bool>,
    /// Whether vector code needs the node as lanes (not only as the index of a contiguous read).
    pub(super) in_lanes: Vec<bool>,
    /// Whether vector code needs the node as a scalar at the first key of a step.
    pub(super) at_first: Vec<bool>,
    /// Whether vector code takes the node, which is the same for all keys, as lanes.
    pub(super) splat: Vec<bool>,
    /// Calls on the longest path below the node, itself included: calls of one rank are made together.
    pub(super) rank: Vec<u32>,
}

impl Facts {
    pub(super) fn new(rule: &Rule) -> Self {
        let arena = &rule.arena;
        let level = levels(arena);
        let certain = certain(rule);
        let access = accesses(arena, &level);
        let needed = reached(arena, rule.root, |_, _| true);
        let is_stream =
            |id: ExprId| level[id.index()].varies() && access[id.index()] != Access::Gather;
        let in_lanes = reached(arena, rule.root, |parent, operand| {
            level[operand.index()].varies() && !is_index_of_stream(arena, parent, is_stream)
        });
        let mut at_first = vec![false; arena.len()];
        let mut splat = vec![false; arena.len()];
        splat[rule.root.index()] = !level[rule.root.index()].varies();
        for id in arena.ids().filter(|id| in_lanes[id.index()]) {
            if !level[id.index()].varies() {
                continue;
            }
            let stream = matches!(arena.expr(id), Expr::Load { .. }) && is_stream(id);
            arena.expr(id).for_each_operand(|operand| {
                let varies = level[operand.index()].varies();
                at_first[operand.index()] |= stream && varies;
                splat[operand.index()] |= !stream && !varies;
            });
        }
        for id in arena.ids().rev() {
            if !at_first[id.index()] {
                continue;
            }
            for_each_source(arena.expr(id), |operand| {
                at_first[operand.index()] |= level[operand.index()].varies();
            });
        }
        let rank = ranks(arena, &level);
        Self {
            level,
            certain,
            access,
            needed,
            in_lanes,
            at_first,
            splat,
            rank,
        }
    }
}

fn is_index_of_stream(arena: &Arena, parent: ExprId, is_stream: impl Fn(ExprId) -> bool) -> bool {
    matches!(arena.expr(parent), Expr::Load { .. }) && is_stream(parent)
}

/// How each exact integer grows from one key to the next, where that is known; 0 where it does not depend on the key.
fn key_steps(arena: &Arena, level: &[Level]) -> Vec<Option<i64>> {
    let mut steps: Vec<Option<i64>> = Vec::with_capacity(arena.len());
    for id in arena.ids() {
        let at = |id: ExprId| steps[id.index()];
        let step = if level[id.index()].varies() {
            match arena.expr(id) {
                Expr::Var(Var::KvIdx) => Some(1),
                Expr::Binary {
                    op: BinaryOp::Add,
                    lhs,
                    rhs,
                } => at(*lhs).zip(at(*rhs)).and_then(|(a, b)| a.checked_add(b)),
                Expr::Binary {
                    op: BinaryOp::Sub,
                    lhs,
                    rhs,
                } => at(*lhs).zip(at(*rhs)).and_then(|(a, b)| a.checked_sub(b)),
                Expr::Unary {
                    op: UnaryOp::Neg,
                    arg,
                } => at(*arg).and_then(i64::checked_neg),
                // A cast to a narrower type, or from a sign to none, may wrap between two keys.
                Expr::Cast { to: Ty::I64, arg } if arena.ty(*arg).is_int() => at(*arg),
                Expr::Then { value, .. } => at(*value),
                Expr::Const(_)
                | Expr::Var(_)
                | Expr::Scalar(_)
                | Expr::Dim(_)
                | Expr::Load { .. }
                | Expr::Unary { .. }
                | Expr::Binary { .. }
                | Expr::Clamp { .. }
                | Expr::Cast { .. }
                | Expr::Select { .. } => None,
            }
        } else {
            Some(0)
        };
        steps.push(step.filter(|_| arena.ty(id).is_int()));
    }
    steps
}

fn accesses(arena: &Arena, level: &[Level]) -> Vec<Access> {
    let steps = key_steps(arena, level);
    let access = |id: ExprId| {
        let Expr::Load { index, .. } = arena.expr(id) else {
            return Access::Gather;
        };
        let Some((last, others)) = index.split_last() else {
            return Access::Gather;
        };
        if others.iter().any(|i| level[i.index()].varies()) {
            return Access::Gather;
        }
        match steps[last.index()] {
            Some(1) => Access::Ascending,
            Some(-1) => Access::Descending,
            Some(_) | None => Access::Gather,
        }
    };
    arena.ids().map(access).collect()
}

fn ranks(arena: &Arena, level: &[Level]) -> Vec<u32> {
    let mut ranks: Vec<u32> = Vec::with_capacity(arena.len());
    for id in arena.ids() {
        let mut rank = 0;
        arena
            .expr(id)
            .for_each_operand(|operand| rank = rank.max(ranks[operand.index()]));
        let calls = level[id.index()].varies() && lane_call(arena, id).is_some();
        ranks.push(rank + u32::from(calls));
    }
    ranks
}

/// The function that computes a node on many values at once, if there is one.
pub(super) fn lane_call(arena: &Arena, id: ExprId) -> Option<Callee> {
    match arena.expr(id) {
        Expr::Unary {
            op: UnaryOp::Math(f),
            ..
        } => Callee::of_math(*f),
        Expr::Binary {
            op: BinaryOp::Powf, ..
        } => Some(Callee::Powf),
        Expr::Binary {
            op: BinaryOp::Powi, ..
        } => Some(Callee::Powi),
        Expr::Binary {
            op: BinaryOp::Rem,
            lhs,
            ..
        } if arena.ty(*lhs) == Ty::F32 => Some(Callee::Rem),
        Expr::Const(_)
        | Expr::Var(_)
        | Expr::Scalar(_)
        | Expr::Dim(_)
        | Expr::Load { .. }
        | Expr::Unary { .. }
        | Expr::Binary { .. }
        | Expr::Clamp { .. }
        | Expr::Cast { .. }
        | Expr::Select { .. }
        | Expr::Then { .. } => None,
    }
}
