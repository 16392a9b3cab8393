//! How many registers the rules of a kernel ask for, roughly: what decides between tiles.

use std::collections::BTreeSet;

use maskwright_dsl::ir::{Expr, Var};
use maskwright_dsl::pipeline::Prepared;

use crate::levels::{Level, for_each_source, levels};
use crate::spec::Target;

/// Values of rows and keys, beside their positions, from which on they weigh as much as loads for each cell.
const MANY: usize = 4;

/// How many registers the rules of a kernel ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pressure {
    /// Little more than the positions of rows and keys.
    Low,
    /// Values for each row or key, such as its document beside its position.
    Values,
    /// Many of them; or a `score_mod` that loads something for each cell, with addresses and values under way at once.
    Loads,
}

impl Pressure {
    /// Of a pair of rules.
    pub(super) fn of(target: Target, mask: Option<&Prepared>, score: Option<&Prepared>) -> Self {
        if score.is_some_and(loads_for_each_cell) {
            return Pressure::Loads;
        }
        let values = [mask, score].into_iter().flatten().map(kept).sum::<usize>();
        match values {
            // The compiler for sm_120 needs a few registers more.
            0 if target.major < 12 => Pressure::Low,
            0..MANY => Pressure::Values,
            MANY.. => Pressure::Loads,
        }
    }
}

fn loads_for_each_cell(rule: &Prepared) -> bool {
    let rule = rule.rule();
    let (levels, live) = (levels(&rule.arena), rule.live());
    rule.arena.ids().any(|id| {
        live[id.index()]
            && levels[id.index()] == Level::Cell
            && matches!(rule.arena.expr(id), Expr::Load { .. })
    })
}

/// Values of a row or a key, beside the positions themselves, that cells are computed from.
fn kept(rule: &Prepared) -> usize {
    let rule = rule.rule();
    let (levels, live) = (levels(&rule.arena), rule.live());
    let mut kept = BTreeSet::new();
    for id in rule.arena.ids() {
        if !live[id.index()] || levels[id.index()] != Level::Cell {
            continue;
        }
        for_each_source(rule.arena.expr(id), |operand| {
            let of_one = matches!(levels[operand.index()], Level::Row | Level::Key);
            let position = matches!(rule.arena.expr(operand), Expr::Var(Var::QIdx | Var::KvIdx));
            if of_one && !position {
                kept.insert(operand.index());
            }
        });
    }
    kept.len()
}
