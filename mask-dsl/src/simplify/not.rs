//! Rules for operators with one argument: `!`, and the signs.

use super::{BinaryOp, Expr, ExprId, Simplifier, Ty, UnaryOp};

impl Simplifier {
    pub(super) fn unary(&mut self, op: UnaryOp, arg: ExprId) -> ExprId {
        if let Some(value) = self.arena.as_const(arg)
            && let Ok(value) = crate::eval::unary(op, value)
        {
            return self.arena.constant(value);
        }
        // !!x, -(-x); the float sign bit flips twice as well
        if let Expr::Unary {
            op: inner,
            arg: original,
        } = *self.arena.expr(arg)
        {
            let cancels = match op {
                UnaryOp::Not | UnaryOp::Neg | UnaryOp::WrappingNeg => inner == op,
                UnaryOp::Abs | UnaryOp::Signum | UnaryOp::Math(_) => false,
            };
            if cancels {
                return original;
            }
            // abs(-x), abs(abs(x))
            if op == UnaryOp::Abs && matches!(inner, UnaryOp::Neg | UnaryOp::Abs) {
                return self.arena.unary(UnaryOp::Abs, original);
            }
        }
        if op == UnaryOp::Not && self.arena.ty(arg) == Ty::Bool {
            return self.not(arg);
        }
        self.arena.unary(op, arg)
    }

    fn not(&mut self, arg: ExprId) -> ExprId {
        let Expr::Binary { op, lhs, rhs } = *self.arena.expr(arg) else {
            return self.arena.unary(UnaryOp::Not, arg);
        };
        let is_float = self.arena.ty(lhs) == Ty::F32;
        match op {
            // NaN is unequal to everything, so these are opposites of floats too
            BinaryOp::Eq => self.arena.binary(BinaryOp::Ne, lhs, rhs),
            BinaryOp::Ne => self.arena.binary(BinaryOp::Eq, lhs, rhs),
            // !(a < b) is b <= a, unless either may be NaN
            BinaryOp::Lt if !is_float => self.arena.binary(BinaryOp::Le, rhs, lhs),
            BinaryOp::Le if !is_float => self.arena.binary(BinaryOp::Lt, rhs, lhs),
            BinaryOp::Lt
            | BinaryOp::Le
            | BinaryOp::Gt
            | BinaryOp::Ge
            | BinaryOp::Add
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
            | BinaryOp::Max
            | BinaryOp::And
            | BinaryOp::Or => self.arena.unary(UnaryOp::Not, arg),
        }
    }
}
