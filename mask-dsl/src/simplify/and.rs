//! Rules for `&&`.

use super::{BinaryOp, ExprId, Simplifier};

impl Simplifier {
    pub(super) fn and(&mut self, lhs: ExprId, rhs: ExprId) -> ExprId {
        // true && x, x && true, x && x
        if self.is_bool(lhs, true) || lhs == rhs {
            return rhs;
        }
        if self.is_bool(rhs, true) {
            return lhs;
        }
        // false && x, x && false: the left side has been proved not to fail
        if self.is_bool(lhs, false) || self.is_bool(rhs, false) {
            return self.arena.constant(super::Const::Bool(false));
        }
        // x && !x
        if self.are_opposites(lhs, rhs) {
            return self.arena.constant(super::Const::Bool(false));
        }
        // x && (x || y)
        if let Some((a, b)) = self.as_binary(rhs, BinaryOp::Or)
            && (a == lhs || b == lhs)
        {
            return lhs;
        }
        // (x || y) && x: `y` is not evaluated where it was not before
        if let Some((a, b)) = self.as_binary(lhs, BinaryOp::Or)
            && (a == rhs || b == rhs)
        {
            return rhs;
        }
        // x && (x && y), (x && y) && x, (x && y) && y
        if let Some((a, _)) = self.as_binary(rhs, BinaryOp::And)
            && a == lhs
        {
            return rhs;
        }
        if let Some((a, b)) = self.as_binary(lhs, BinaryOp::And)
            && (a == rhs || b == rhs)
        {
            return lhs;
        }
        self.arena.binary(BinaryOp::And, lhs, rhs)
    }
}
