//! Rules for `if`.

use super::{BinaryOp, Const, Expr, ExprId, Simplifier, Ty, UnaryOp};

impl Simplifier {
    pub(super) fn select(&mut self, cond: ExprId, then: ExprId, otherwise: ExprId) -> ExprId {
        if self.is_bool(cond, true) || then == otherwise {
            return then;
        }
        if self.is_bool(cond, false) {
            return otherwise;
        }
        // if !c { x } else { y }
        if let Some(cond) = self.negated(cond) {
            return self.select(cond, otherwise, then);
        }
        let then = self.branch(cond, then, true);
        let otherwise = self.branch(cond, otherwise, false);
        if then == otherwise {
            return then;
        }
        if self.arena.ty(then) == Ty::Bool {
            // if c { true } else { x }, if c { x } else { false }, if c { false } else { true }
            if self.is_bool(then, true) {
                return self.or(cond, otherwise);
            }
            if self.is_bool(otherwise, false) {
                return self.and(cond, then);
            }
            if self.is_bool(then, false) && self.is_bool(otherwise, true) {
                return self.unary(UnaryOp::Not, cond);
            }
        }
        self.arena.select(cond, then, otherwise)
    }

    /// A branch where the same condition was just decided.
    fn branch(&mut self, cond: ExprId, branch: ExprId, holds: bool) -> ExprId {
        if branch == cond {
            return self.arena.constant(Const::Bool(holds));
        }
        if self.are_opposites(branch, cond) {
            return self.arena.constant(Const::Bool(!holds));
        }
        match *self.arena.expr(branch) {
            Expr::Select {
                cond: inner,
                then,
                otherwise,
            } if inner == cond => {
                if holds {
                    then
                } else {
                    otherwise
                }
            }
            // c && x and x && c, c || x and x || c
            Expr::Binary {
                op: op @ (BinaryOp::And | BinaryOp::Or),
                lhs,
                rhs,
            } if lhs == cond || rhs == cond => {
                if holds == (op == BinaryOp::And) {
                    if lhs == cond { rhs } else { lhs }
                } else {
                    self.arena.constant(Const::Bool(holds))
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
            | Expr::Then { .. } => branch,
        }
    }
}
