//! Rules for comparisons. What ranges decide is decided before these are asked.

use super::{BinaryOp, Const, ExprId, Simplifier, Ty, UnaryOp};

impl Simplifier {
    pub(super) fn compare(&mut self, op: BinaryOp, lhs: ExprId, rhs: ExprId) -> ExprId {
        // a > b is b < a, a >= b is b <= a
        let (op, lhs, rhs) = match op {
            BinaryOp::Gt => (BinaryOp::Lt, rhs, lhs),
            BinaryOp::Ge => (BinaryOp::Le, rhs, lhs),
            other => (other, lhs, rhs),
        };
        let ty = self.arena.ty(lhs);
        // x == x, x < x; not of floats, where x may be NaN
        if lhs == rhs && ty != Ty::F32 {
            let holds = matches!(op, BinaryOp::Eq | BinaryOp::Le);
            return self.arena.constant(Const::Bool(holds));
        }
        if let Some(value) = self.fold(op, lhs, rhs) {
            return value;
        }
        if ty == Ty::Bool {
            return self.compare_bools(op, lhs, rhs);
        }
        if ty.is_int()
            && let Some((lhs, rhs)) = self.move_literal(lhs, rhs)
        {
            return self.compare(op, lhs, rhs);
        }
        // A literal stands on the right of `==` and `!=`.
        if matches!(op, BinaryOp::Eq | BinaryOp::Ne) && self.arena.as_const(lhs).is_some() {
            return self.arena.binary(op, rhs, lhs);
        }
        self.arena.binary(op, lhs, rhs)
    }

    fn compare_bools(&mut self, op: BinaryOp, lhs: ExprId, rhs: ExprId) -> ExprId {
        let (known, other) = match (self.arena.as_const(lhs), self.arena.as_const(rhs)) {
            (Some(Const::Bool(v)), _) => (v, rhs),
            (_, Some(Const::Bool(v))) => (v, lhs),
            _ => return self.arena.binary(op, lhs, rhs),
        };
        // x == true, x != false are x; x == false, x != true are !x
        if known == (op == BinaryOp::Eq) {
            other
        } else {
            self.unary(UnaryOp::Not, other)
        }
    }

    /// `x + c < d` is `x < d - c`, and `x - y < 0` is `x < y`: exact arithmetic has no other answer.
    fn move_literal(&mut self, lhs: ExprId, rhs: ExprId) -> Option<(ExprId, ExprId)> {
        if let Some(limit) = self.as_int(rhs) {
            return self.moved(lhs, limit);
        }
        let limit = self.as_int(lhs)?;
        self.moved(rhs, limit).map(|(x, limit)| (limit, x))
    }

    /// What to compare instead of a sum or difference and a literal.
    fn moved(&mut self, sum: ExprId, limit: i64) -> Option<(ExprId, ExprId)> {
        let ty = self.arena.ty(sum);
        if let Some((x, c)) = self.as_binary(sum, BinaryOp::Add) {
            let limit = limit.checked_sub(self.as_int(c)?)?;
            return Some((x, self.int(ty, limit)?));
        }
        let (x, y) = self.as_binary(sum, BinaryOp::Sub)?;
        if let Some(c) = self.as_int(y) {
            let limit = limit.checked_add(c)?;
            return Some((x, self.int(ty, limit)?));
        }
        (limit == 0).then_some((x, y))
    }
}
