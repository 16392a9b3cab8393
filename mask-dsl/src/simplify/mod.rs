//! Rewrites a valid rule into a cheaper one that has the same value at every cell of the scope.
//!
//! One pass from the leaves up, each node through the rules of its operator. A rewrite may rely on what validation
//! proved (no operation fails) and on what is declared, never on the values that happen to be bound: scalars and buffers
//! stay run-time values.

mod and;
mod arith;
mod cast;
mod compare;
mod not;
mod or;
mod select;

use crate::analysis::interval::{IntRange, Value};
use crate::analysis::range::Ranges;
use crate::ir::{Arena, BinaryOp, CaptureKind, Const, Expr, ExprId, Extent, Rule, Ty, UnaryOp};

/// The same rule, cheaper; its captures keep their slots.
pub(crate) fn simplify(ranges: &Ranges<'_>) -> Rule {
    let rule = ranges.rule();
    let mut pass = Simplifier {
        arena: Arena::new(),
    };
    let live = rule.live();
    let mut map: Vec<Option<ExprId>> = vec![None; rule.arena.len()];
    for id in rule.arena.ids().filter(|id| live[id.index()]) {
        let moved = rule
            .arena
            .expr(id)
            .map_operands(|operand| map[operand.index()].expect("operands precede what uses them"));
        let new = pass.node(ranges, id, moved);
        map[id.index()] = Some(new);
    }
    let root = map[rule.root.index()].expect("the root is live");
    assemble(rule, &pass.arena, root)
}

/// A rule with a new root, and without the nodes that nothing uses.
fn assemble(rule: &Rule, from: &Arena, root: ExprId) -> Rule {
    let mut arena = Arena::new();
    let root = arena.import(from, root, &mut |_, _| None);
    let mut captures = rule.captures.clone();
    for decl in &mut captures {
        let mut moved = |bound: ExprId| arena.import(&rule.arena, bound, &mut |_, _| None);
        decl.min = decl.min.map(&mut moved);
        decl.max = decl.max.map(&mut moved);
        if let CaptureKind::Buffer { extents, .. } = &mut decl.kind {
            for extent in extents {
                if let Extent::AtLeast(expr) = extent {
                    *expr = moved(*expr);
                }
            }
        }
    }
    Rule {
        name: rule.name.clone(),
        doc: rule.doc.clone(),
        kind: rule.kind,
        captures,
        dims: rule.dims.clone(),
        arena,
        root,
        source: rule.source.clone(),
    }
}

struct Simplifier {
    arena: Arena,
}

impl Simplifier {
    /// The node for `old`, whose operands have been rewritten to those of `moved`.
    fn node(&mut self, ranges: &Ranges<'_>, old: ExprId, moved: Expr) -> ExprId {
        let rule = ranges.rule();
        let ty = rule.arena.ty(old);
        if let Value::Bool(truth) = ranges.plain(old)
            && let Some(decided) = truth.decided()
        {
            return self.arena.constant(Const::Bool(decided));
        }
        let new = match (rule.arena.expr(old), &moved) {
            (
                Expr::Binary {
                    lhs: old_lhs,
                    rhs: old_rhs,
                    ..
                },
                Expr::Binary { op, lhs, rhs },
            ) if rule.arena.ty(*old_lhs).is_int() => {
                self.int_binary(ranges, *op, (*old_lhs, *old_rhs), (*lhs, *rhs))
            }
            (Expr::Unary { arg: old_arg, .. }, Expr::Unary { op, arg })
                if ty.is_int() && *op == UnaryOp::Abs =>
            {
                let range = ranges.plain(*old_arg).int();
                self.int_abs(*arg, range)
            }
            (
                Expr::Clamp {
                    arg: old_arg,
                    lo: old_lo,
                    hi: old_hi,
                },
                Expr::Clamp { arg, lo, hi },
            ) if ty.is_int() => {
                self.int_clamp(ranges, (*old_arg, *old_lo, *old_hi), (*arg, *lo, *hi))
            }
            _ => self.rewrite(moved, ty),
        };
        if self.arena.span(new).is_none() && rule.arena.span(old).is_some() {
            // Interning once more only adds the place.
            let expr = self.arena.expr(new).clone();
            let ty = self.arena.ty(new);
            return self
                .arena
                .intern(expr, Some(ty), rule.arena.span(old))
                .expect("the node is there already");
        }
        new
    }

    /// The rules that need no ranges.
    fn rewrite(&mut self, expr: Expr, ty: Ty) -> ExprId {
        match &expr {
            Expr::Binary { op, lhs, rhs } => self.binary(*op, *lhs, *rhs),
            Expr::Unary { op, arg } => self.unary(*op, *arg),
            Expr::Clamp { arg, lo, hi } => {
                let known = [*arg, *lo, *hi].map(|id| self.arena.as_const(id));
                if let [Some(arg), Some(lo), Some(hi)] = known
                    && let Ok(value) = crate::eval::clamp(arg, lo, hi)
                {
                    return self.arena.constant(value);
                }
                self.arena.known(&expr)
            }
            Expr::Cast { to, arg } => self.cast(*to, *arg),
            Expr::Select {
                cond,
                then,
                otherwise,
            } => self.select(*cond, *then, *otherwise),
            // What an eager `let` computes has been proved not to fail, and nothing else of it shows.
            Expr::Then { value, .. } => *value,
            Expr::Const(_) | Expr::Var(_) | Expr::Scalar(_) | Expr::Dim(_) | Expr::Load { .. } => {
                self.arena
                    .intern(expr, Some(ty), None)
                    .expect("the old arena was well typed")
            }
        }
    }

    fn binary(&mut self, op: BinaryOp, lhs: ExprId, rhs: ExprId) -> ExprId {
        if let Some(value) = self.fold(op, lhs, rhs) {
            return value;
        }
        match op {
            BinaryOp::And => self.and(lhs, rhs),
            BinaryOp::Or => self.or(lhs, rhs),
            BinaryOp::BitAnd if self.arena.ty(lhs) == Ty::Bool => self.and(lhs, rhs),
            BinaryOp::BitOr if self.arena.ty(lhs) == Ty::Bool => self.or(lhs, rhs),
            BinaryOp::Eq
            | BinaryOp::Ne
            | BinaryOp::Lt
            | BinaryOp::Le
            | BinaryOp::Gt
            | BinaryOp::Ge => self.compare(op, lhs, rhs),
            BinaryOp::Add
            | BinaryOp::Sub
            | BinaryOp::Mul
            | BinaryOp::Div
            | BinaryOp::Rem
            | BinaryOp::DivFloor
            | BinaryOp::RemFloor
            | BinaryOp::DivEuclid
            | BinaryOp::RemEuclid
            | BinaryOp::Pow
            | BinaryOp::Powi
            | BinaryOp::Powf
            | BinaryOp::WrappingAdd
            | BinaryOp::WrappingSub
            | BinaryOp::WrappingMul
            | BinaryOp::BitAnd
            | BinaryOp::BitOr
            | BinaryOp::BitXor
            | BinaryOp::Shl
            | BinaryOp::Shr
            | BinaryOp::Min
            | BinaryOp::Max => self.arith(op, lhs, rhs),
        }
    }

    /// The value of an operation on two literals, by the interpreter's own arithmetic.
    fn fold(&mut self, op: BinaryOp, lhs: ExprId, rhs: ExprId) -> Option<ExprId> {
        let lhs = self.arena.as_const(lhs)?;
        let rhs = self.arena.as_const(rhs)?;
        let value = crate::eval::binary(op, lhs, rhs).ok()?;
        Some(self.arena.constant(value))
    }

    fn is_bool(&self, id: ExprId, value: bool) -> bool {
        self.arena.as_const(id) == Some(Const::Bool(value))
    }

    fn as_int(&self, id: ExprId) -> Option<i64> {
        if self.arena.ty(id).is_int() {
            self.arena.as_const(id)?.as_int()
        } else {
            None
        }
    }

    fn int(&mut self, ty: Ty, value: i64) -> Option<ExprId> {
        let value = Const::from_int(ty, value)?;
        Some(self.arena.constant(value))
    }

    /// Whether one is the negation of the other.
    fn are_opposites(&self, a: ExprId, b: ExprId) -> bool {
        if self.negated(a) == Some(b) || self.negated(b) == Some(a) {
            return true;
        }
        let (
            Expr::Binary { op, lhs, rhs },
            Expr::Binary {
                op: other_op,
                lhs: other_lhs,
                rhs: other_rhs,
            },
        ) = (self.arena.expr(a), self.arena.expr(b))
        else {
            return false;
        };
        let is_float = self.arena.ty(*lhs) == Ty::F32;
        match (op, other_op) {
            (BinaryOp::Eq, BinaryOp::Ne) | (BinaryOp::Ne, BinaryOp::Eq) => {
                lhs == other_lhs && rhs == other_rhs
            }
            // a < b and b <= a, unless either may be NaN
            (BinaryOp::Lt, BinaryOp::Le) | (BinaryOp::Le, BinaryOp::Lt) => {
                !is_float && lhs == other_rhs && rhs == other_lhs
            }
            (_, _) => false,
        }
    }

    /// What `id` is the logical negation of.
    fn negated(&self, id: ExprId) -> Option<ExprId> {
        match self.arena.expr(id) {
            Expr::Unary {
                op: UnaryOp::Not,
                arg,
            } if self.arena.ty(id) == Ty::Bool => Some(*arg),
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

    /// The operands of `id`, if it is the binary operator `op`.
    fn as_binary(&self, id: ExprId, op: BinaryOp) -> Option<(ExprId, ExprId)> {
        match self.arena.expr(id) {
            Expr::Binary {
                op: found,
                lhs,
                rhs,
            } if *found == op => Some((*lhs, *rhs)),
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
}

/// The exponent, if `v` is a power of two.
fn log2(v: i64) -> Option<u32> {
    (0 < v && v.count_ones() == 1).then(|| v.trailing_zeros())
}

/// Whether every member is at least 0.
fn is_not_negative(range: IntRange) -> bool {
    0 <= range.lo
}

#[cfg(test)]
mod tests;
