//! What both back ends must know of each node of a rule: how often it must be computed, and whether it may be computed at
//! all.

use maskwright_dsl::ir::{Arena, BinaryOp, Expr, ExprId, Rule, Var};

/// What a node depends on, and so how often it must be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// Once per call: literals, sizes, captured scalars, `b`, `h`.
    Call,
    /// Once per row: `q`, not the key.
    Row,
    /// Once per key: `kv`, not the query.
    Key,
    /// For every cell: both, or the score.
    Cell,
}

impl Level {
    /// Whether neighbouring keys have different values.
    pub(crate) fn varies(self) -> bool {
        match self {
            Level::Key | Level::Cell => true,
            Level::Call | Level::Row => false,
        }
    }

    /// The level of what depends on both.
    pub(crate) fn join(self, other: Level) -> Level {
        match (self, other) {
            (Level::Call, level) | (level, Level::Call) => level,
            (Level::Row, Level::Row) => Level::Row,
            (Level::Key, Level::Key) => Level::Key,
            (Level::Row | Level::Key | Level::Cell, Level::Row | Level::Key | Level::Cell) => {
                Level::Cell
            }
        }
    }
}

/// What each node depends on.
pub(crate) fn levels(arena: &Arena) -> Vec<Level> {
    let mut levels: Vec<Level> = Vec::with_capacity(arena.len());
    for id in arena.ids() {
        let mut level = match arena.expr(id) {
            Expr::Var(Var::Score) => Level::Cell,
            Expr::Var(Var::KvIdx) => Level::Key,
            Expr::Var(Var::QIdx) => Level::Row,
            Expr::Var(Var::B | Var::H | Var::QLen | Var::KvLen | Var::Batch | Var::NumQHeads)
            | Expr::Const(_)
            | Expr::Scalar(_)
            | Expr::Dim(_)
            | Expr::Load { .. }
            | Expr::Unary { .. }
            | Expr::Binary { .. }
            | Expr::Clamp { .. }
            | Expr::Cast { .. }
            | Expr::Select { .. }
            | Expr::Then { .. } => Level::Call,
        };
        for_each_source(arena.expr(id), |operand| {
            level = level.join(levels[operand.index()]);
        });
        levels.push(level);
    }
    levels
}

/// Whether each node is evaluated at every cell, so that its promises hold there; others are only guarded.
pub(crate) fn certain(rule: &Rule) -> Vec<bool> {
    let arena = &rule.arena;
    let mut certain = vec![false; arena.len()];
    certain[rule.root.index()] = true;
    for id in arena.ids().rev() {
        if !certain[id.index()] {
            continue;
        }
        match arena.expr(id) {
            Expr::Binary {
                op: BinaryOp::And | BinaryOp::Or,
                lhs,
                ..
            } => certain[lhs.index()] = true,
            Expr::Select { cond, .. } => certain[cond.index()] = true,
            expr @ (Expr::Const(_)
            | Expr::Var(_)
            | Expr::Scalar(_)
            | Expr::Dim(_)
            | Expr::Load { .. }
            | Expr::Unary { .. }
            | Expr::Binary { .. }
            | Expr::Clamp { .. }
            | Expr::Cast { .. }
            | Expr::Then { .. }) => expr.for_each_operand(|operand| {
                certain[operand.index()] = true;
            }),
        }
    }
    certain
}

/// What the value of `root` depends on, through operands that `follow` admits.
pub(crate) fn reached(
    arena: &Arena,
    root: ExprId,
    follow: impl Fn(ExprId, ExprId) -> bool,
) -> Vec<bool> {
    let mut reached = vec![false; arena.len()];
    reached[root.index()] = true;
    for id in arena.ids().rev() {
        if !reached[id.index()] {
            continue;
        }
        for_each_source(arena.expr(id), |operand| {
            reached[operand.index()] |= follow(id, operand);
        });
    }
    reached
}

/// Calls `f` for each operand that the value comes from: the first part of a `let` gives no value.
pub(crate) fn for_each_source(expr: &Expr, mut f: impl FnMut(ExprId)) {
    if let Expr::Then { value, .. } = expr {
        f(*value);
    } else {
        expr.for_each_operand(f);
    }
}
