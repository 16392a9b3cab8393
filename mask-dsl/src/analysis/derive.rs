//! The mask that a `score_mod` implies: cells where it gives -∞ whatever the score.

use std::collections::{BTreeMap, BTreeSet};

use crate::ir::{Arena, BinaryOp, Const, Expr, ExprId, Rule, RuleKind, UnaryOp, Var};

/// The derived mask, if some cell may be left out: where it is false the score is -∞ for every input score.
///
/// Conditions that read the score are taken as undecided, so the mask keeps every cell that some score attends.
pub(crate) fn derived_mask(rule: &Rule) -> Option<Rule> {
    if rule.kind != RuleKind::Score {
        return None;
    }
    let mut derived = rule.clone();
    let reads_score = reads_score(rule);
    let outcomes = outcomes(&mut derived.arena, &reads_score);
    let attends = attends(rule, &mut derived.arena, &outcomes);
    derived.root = attends?;
    derived.kind = RuleKind::Mask;
    derived.name = format!("{} (derived mask)", rule.name);
    Some(derived)
}

/// Which nodes depend on the score, by arena position.
fn reads_score(rule: &Rule) -> Vec<bool> {
    let mut reads = vec![false; rule.arena.len()];
    for id in rule.arena.ids() {
        let expr = rule.arena.expr(id);
        let mut found = *expr == Expr::Var(Var::Score);
        expr.for_each_operand(|operand| found |= reads[operand.index()]);
        reads[id.index()] = found;
    }
    reads
}

/// When a condition may hold and when it may fail, without the score.
#[derive(Clone, Copy)]
struct Outcome {
    may_hold: ExprId,
    may_fail: ExprId,
}

/// The outcomes of every condition that reads the score, by its id.
fn outcomes(arena: &mut Arena, reads_score: &[bool]) -> BTreeMap<ExprId, Outcome> {
    let mut outcomes = BTreeMap::new();
    let ids: Vec<ExprId> = arena.ids().take(reads_score.len()).collect();
    let always = arena.constant(Const::Bool(true));
    let undecided = Outcome {
        may_hold: always,
        may_fail: always,
    };
    for id in ids {
        if !reads_score[id.index()] || arena.ty(id) != crate::ir::Ty::Bool {
            continue;
        }
        let outcome = match *arena.expr(id) {
            Expr::Unary {
                op: UnaryOp::Not,
                arg,
            } => {
                let inner = outcome_of(arena, &outcomes, arg);
                Outcome {
                    may_hold: inner.may_fail,
                    may_fail: inner.may_hold,
                }
            }
            Expr::Binary {
                op: op @ (BinaryOp::And | BinaryOp::BitAnd | BinaryOp::Or | BinaryOp::BitOr),
                lhs,
                rhs,
            } => {
                let a = outcome_of(arena, &outcomes, lhs);
                let b = outcome_of(arena, &outcomes, rhs);
                if matches!(op, BinaryOp::And | BinaryOp::BitAnd) {
                    // It fails where the left does, and where the left holds but the right does not; the guard stays.
                    let later = arena.binary(BinaryOp::And, a.may_hold, b.may_fail);
                    Outcome {
                        may_hold: arena.binary(BinaryOp::And, a.may_hold, b.may_hold),
                        may_fail: arena.binary(BinaryOp::Or, a.may_fail, later),
                    }
                } else {
                    let later = arena.binary(BinaryOp::And, a.may_fail, b.may_hold);
                    Outcome {
                        may_hold: arena.binary(BinaryOp::Or, a.may_hold, later),
                        may_fail: arena.binary(BinaryOp::And, a.may_fail, b.may_fail),
                    }
                }
            }
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
            | Expr::Then { .. } => undecided,
        };
        outcomes.insert(id, outcome);
    }
    outcomes
}

fn outcome_of(arena: &mut Arena, outcomes: &BTreeMap<ExprId, Outcome>, cond: ExprId) -> Outcome {
    outcomes.get(&cond).copied().unwrap_or_else(|| Outcome {
        may_hold: cond,
        may_fail: arena.unary(UnaryOp::Not, cond),
    })
}

/// Where the result may be other than -∞; `None` if that is everywhere.
fn attends(rule: &Rule, arena: &mut Arena, outcomes: &BTreeMap<ExprId, Outcome>) -> Option<ExprId> {
    let mut spine = BTreeSet::new();
    let mut pending = vec![rule.root];
    while let Some(id) = pending.pop() {
        if spine.insert(id) {
            match *rule.arena.expr(id) {
                Expr::Select {
                    then, otherwise, ..
                } => pending.extend([then, otherwise]),
                Expr::Then { value, .. } => pending.push(value),
                Expr::Const(_)
                | Expr::Var(_)
                | Expr::Scalar(_)
                | Expr::Dim(_)
                | Expr::Load { .. }
                | Expr::Unary { .. }
                | Expr::Binary { .. }
                | Expr::Clamp { .. }
                | Expr::Cast { .. } => {}
            }
        }
    }
    let always = arena.constant(Const::Bool(true));
    let never = arena.constant(Const::Bool(false));
    let mut attends: BTreeMap<ExprId, ExprId> = BTreeMap::new();
    for id in spine {
        let answer = match *rule.arena.expr(id) {
            Expr::Const(Const::F32(v)) if v == f32::NEG_INFINITY => never,
            Expr::Then { value, .. } => attends[&value],
            Expr::Select {
                cond,
                then,
                otherwise,
            } => {
                let (on, off) = (attends[&then], attends[&otherwise]);
                match outcomes.get(&cond) {
                    None if on == off => on,
                    None => arena.select(cond, on, off),
                    Some(_) if on == always && off == always => always,
                    Some(outcome) => {
                        let on = arena.binary(BinaryOp::And, outcome.may_hold, on);
                        let off = arena.binary(BinaryOp::And, outcome.may_fail, off);
                        arena.binary(BinaryOp::Or, on, off)
                    }
                }
            }
            Expr::Const(_)
            | Expr::Var(_)
            | Expr::Scalar(_)
            | Expr::Dim(_)
            | Expr::Load { .. }
            | Expr::Unary { .. }
            | Expr::Binary { .. }
            | Expr::Clamp { .. }
            | Expr::Cast { .. } => always,
        };
        attends.insert(id, answer);
    }
    let root = attends[&rule.root];
    (root != always).then_some(root)
}
