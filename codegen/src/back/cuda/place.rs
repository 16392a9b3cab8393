//! Where each value of a rule is computed: once per row, once per column, or at the cell.

use std::collections::BTreeSet;

use maskwright_dsl::ir::{BinaryOp, Expr, ExprId, MathFn, Rule, Ty, UnaryOp};

use crate::levels::{Level, certain, for_each_source, levels};

/// Values from this cost on are kept rather than computed again at every cell.
const WORTH_KEEPING: u32 = 4;

/// Values of a row that a thread can keep in registers beside everything else.
const MAX_ROW: usize = 16;

/// Values of a column, of which a thread meets many.
const MAX_COL: usize = 8;

/// What the back end knows of the nodes of a rule.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) level: Vec<Level>,
    pub(super) certain: Vec<bool>,
    /// Rough cost of the node alone, in operations.
    own_cost: Vec<u32>,
    /// That of the node with everything below it.
    cost: Vec<u32>,
}

impl Facts {
    pub(super) fn new(rule: &Rule) -> Self {
        let own_cost = own_costs(rule);
        Self {
            level: levels(&rule.arena),
            certain: certain(rule),
            cost: total_costs(rule, &own_cost),
            own_cost,
        }
    }
}

/// What a row and a column hold.
#[derive(Debug, Default)]
pub(super) struct Placement {
    /// Values that depend on the query, or on neither, and that cells use.
    pub(super) row: BTreeSet<ExprId>,
    /// Values that depend on the key and that cells use.
    pub(super) col: BTreeSet<ExprId>,
    /// Reads at cells, of which the row holds the part of the position that does not depend on the key.
    pub(super) row_offsets: BTreeSet<ExprId>,
}

/// The node that gives the value: the first part of a `let` gives none.
pub(super) fn source(rule: &Rule, mut id: ExprId) -> ExprId {
    while let Expr::Then { value, .. } = rule.arena.expr(id) {
        id = *value;
    }
    id
}

/// Decides what rows and columns hold.
pub(super) fn place(rule: &Rule, facts: &Facts) -> Placement {
    let arena = &rule.arena;
    let mut placement = Placement::default();
    let mut at_cell = vec![false; arena.len()];
    at_cell[source(rule, rule.root).index()] = true;
    for id in arena.ids().rev() {
        if !at_cell[id.index()] {
            continue;
        }
        if WORTH_KEEPING <= facts.cost[id.index()] {
            let (kept, limit) = match facts.level[id.index()] {
                Level::Call | Level::Row => (Some(&mut placement.row), MAX_ROW),
                Level::Key => (Some(&mut placement.col), MAX_COL),
                Level::Cell => (None, 0),
            };
            if let Some(kept) = kept
                && kept.len() < limit
            {
                kept.insert(id);
                continue;
            }
        }
        let kept = keeps_offset(rule, facts, id) && placement.row_offsets.len() < MAX_ROW;
        if kept {
            placement.row_offsets.insert(id);
        }
        arena.expr(id).for_each_operand(|operand| {
            if !(kept && index_of_row(rule, facts, operand)) {
                at_cell[source(rule, operand).index()] = true;
            }
        });
    }
    placement.row = worth_keeping(rule, facts, &placement.row);
    placement.col = worth_keeping(rule, facts, &placement.col);
    placement
}

/// Those values that are costly even where the others are kept.
fn worth_keeping(rule: &Rule, facts: &Facts, kept: &BTreeSet<ExprId>) -> BTreeSet<ExprId> {
    let arena = &rule.arena;
    let mut rest = facts.own_cost.clone();
    let mut worth = BTreeSet::new();
    let Some(last) = kept.last() else {
        return worth;
    };
    for id in arena.ids().take_while(|id| id <= last) {
        let mut cost = rest[id.index()];
        arena.expr(id).for_each_operand(|operand| {
            cost = cost.saturating_add(rest[source(rule, operand).index()]);
        });
        if kept.contains(&id) && WORTH_KEEPING <= cost {
            worth.insert(id);
            cost = 0;
        }
        rest[id.index()] = cost;
    }
    worth
}

/// Whether an index belongs to the part of a read's position that the row keeps.
pub(super) fn index_of_row(rule: &Rule, facts: &Facts, index: ExprId) -> bool {
    let index = source(rule, index);
    !facts.level[index.index()].varies()
}

/// Whether the row keeps a part of the position that `id` reads: some index depends on the query alone, and no product of
/// a stride with what a guard keeps out is computed ahead of it.
fn keeps_offset(rule: &Rule, facts: &Facts, id: ExprId) -> bool {
    let arena = &rule.arena;
    let Expr::Load { index, .. } = arena.expr(id) else {
        return false;
    };
    if facts.level[id.index()] != Level::Cell {
        return false;
    }
    let sources = index.iter().map(|i| source(rule, *i));
    let mut of_row = sources.filter(|i| index_of_row(rule, facts, *i));
    let mut some = false;
    let safe = of_row.all(|i| {
        some |= facts.level[i.index()] == Level::Row;
        // What the row does not hold must be text of its own where the read is guarded.
        let leaf = matches!(arena.expr(i), Expr::Var(_) | Expr::Const(_));
        leaf || (facts.certain[i.index()] && facts.certain[id.index()])
    });
    safe && some
}

fn own_costs(rule: &Rule) -> Vec<u32> {
    let arena = &rule.arena;
    let cost = |id| match arena.expr(id) {
        Expr::Const(_) | Expr::Var(_) | Expr::Scalar(_) | Expr::Dim(_) | Expr::Then { .. } => 0,
        Expr::Load { .. } => 8,
        Expr::Unary { op, .. } => unary_cost(*op),
        Expr::Binary { op, lhs, rhs } => {
            binary_cost(*op, arena.ty(*lhs), arena.as_const(*rhs).is_some())
        }
        Expr::Clamp { .. } => 2,
        Expr::Cast { .. } | Expr::Select { .. } => 1,
    };
    arena.ids().map(cost).collect()
}

fn total_costs(rule: &Rule, own: &[u32]) -> Vec<u32> {
    let mut total = own.to_vec();
    for id in rule.arena.ids() {
        let mut cost = own[id.index()];
        for_each_source(rule.arena.expr(id), |operand| {
            cost = cost.saturating_add(total[operand.index()]);
        });
        total[id.index()] = cost;
    }
    total
}

fn unary_cost(op: UnaryOp) -> u32 {
    match op {
        UnaryOp::Not
        | UnaryOp::Neg
        | UnaryOp::WrappingNeg
        | UnaryOp::Abs
        | UnaryOp::Math(MathFn::Floor | MathFn::Ceil | MathFn::Trunc) => 1,
        UnaryOp::Signum => 2,
        UnaryOp::Math(MathFn::Round) => 4,
        UnaryOp::Math(
            MathFn::Exp
            | MathFn::Exp2
            | MathFn::Ln
            | MathFn::Log2
            | MathFn::Log10
            | MathFn::Tanh
            | MathFn::Sqrt
            | MathFn::Sin
            | MathFn::Cos
            | MathFn::Tan
            | MathFn::Erf,
        ) => 16,
    }
}

fn binary_cost(op: BinaryOp, ty: Ty, by_literal: bool) -> u32 {
    match op {
        BinaryOp::Div
        | BinaryOp::Rem
        | BinaryOp::DivFloor
        | BinaryOp::RemFloor
        | BinaryOp::DivEuclid
        | BinaryOp::RemEuclid => {
            if by_literal && ty.is_int() {
                4
            } else {
                8
            }
        }
        BinaryOp::Pow | BinaryOp::Powi | BinaryOp::Powf => 16,
        BinaryOp::Add
        | BinaryOp::Sub
        | BinaryOp::Mul
        | BinaryOp::WrappingAdd
        | BinaryOp::WrappingSub
        | BinaryOp::WrappingMul
        | BinaryOp::BitAnd
        | BinaryOp::BitOr
        | BinaryOp::BitXor
        | BinaryOp::Shl
        | BinaryOp::Shr
        | BinaryOp::Min
        | BinaryOp::Max
        | BinaryOp::And
        | BinaryOp::Or
        | BinaryOp::Eq
        | BinaryOp::Ne
        | BinaryOp::Lt
        | BinaryOp::Le
        | BinaryOp::Gt
        | BinaryOp::Ge => 1,
    }
}
