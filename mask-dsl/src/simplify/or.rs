//! Rules for `||`.

use super::{BinaryOp, ExprId, Simplifier};

impl Simplifier {
    pub(super) fn or(&mut self, lhs: ExprId, rhs: ExprId) -> ExprId {
        // false || x, x || false, x || x
        if self.is_bool(lhs, false) || lhs == rhs {
            return rhs;
        }
        if self.is_bool(rhs, false) {
            return lhs;
        }
        // true || x, x || true, x || !x
        if self.is_bool(lhs, true) || self.is_bool(rhs, true) || self.are_opposites(lhs, rhs) {
            return self.arena.constant(super::Const::Bool(true));
        }
        // x || (x && y)
        if let Some((a, b)) = self.as_binary(rhs, BinaryOp::And)
            && (a == lhs || b == lhs)
        {
            return lhs;
        }
        // (x && y) || x
        if let Some((a, _)) = self.as_binary(lhs, BinaryOp::And)
            && a == rhs
        {
            return rhs;
        }
        // x || (x || y), (x || y) || x, (x || y) || y
        if let Some((a, _)) = self.as_binary(rhs, BinaryOp::Or)
            && a == lhs
        {
            return rhs;
        }
        if let Some((a, b)) = self.as_binary(lhs, BinaryOp::Or)
            && (a == rhs || b == rhs)
        {
            return lhs;
        }
        self.arena.binary(BinaryOp::Or, lhs, rhs)
    }
}
