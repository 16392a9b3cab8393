//! Rules for arithmetic. Float rules are those that change no bit of a number; a NaN may change its payload.

use super::{
    BinaryOp, Const, Expr, ExprId, IntRange, Ranges, Simplifier, Ty, UnaryOp, is_not_negative, log2,
};

impl Simplifier {
    /// The rules that need no ranges.
    pub(super) fn arith(&mut self, op: BinaryOp, lhs: ExprId, rhs: ExprId) -> ExprId {
        let (lhs, rhs) = self.literal_right(op, lhs, rhs);
        let ty = self.arena.ty(lhs);
        let simpler = match ty {
            Ty::Bool => self.bool_xor(lhs, rhs),
            Ty::I32 | Ty::I64 | Ty::U32 => self.int_arith(op, lhs, rhs),
            Ty::F32 => self.float_arith(op, lhs, rhs),
        };
        simpler.unwrap_or_else(|| self.arena.binary(op, lhs, rhs))
    }

    /// Commuting operators of integers take their literal on the right.
    fn literal_right(&self, op: BinaryOp, lhs: ExprId, rhs: ExprId) -> (ExprId, ExprId) {
        let commutes = matches!(
            op,
            BinaryOp::Add
                | BinaryOp::Mul
                | BinaryOp::WrappingAdd
                | BinaryOp::WrappingMul
                | BinaryOp::BitAnd
                | BinaryOp::BitOr
                | BinaryOp::BitXor
                | BinaryOp::Min
                | BinaryOp::Max
        );
        let is_literal = |id| self.arena.as_const(id).is_some();
        if commutes && self.arena.ty(lhs).is_int() && is_literal(lhs) && !is_literal(rhs) {
            (rhs, lhs)
        } else {
            (lhs, rhs)
        }
    }

    /// `x ^ false`, `x ^ true`, `x ^ x`
    fn bool_xor(&mut self, lhs: ExprId, rhs: ExprId) -> Option<ExprId> {
        if lhs == rhs {
            return Some(self.arena.constant(Const::Bool(false)));
        }
        for (known, other) in [(lhs, rhs), (rhs, lhs)] {
            if self.is_bool(known, false) {
                return Some(other);
            }
            if self.is_bool(known, true) {
                return Some(self.unary(UnaryOp::Not, other));
            }
        }
        None
    }

    fn int_arith(&mut self, op: BinaryOp, lhs: ExprId, rhs: ExprId) -> Option<ExprId> {
        let ty = self.arena.ty(lhs);
        let literal = self.as_int(rhs);
        match op {
            BinaryOp::Add | BinaryOp::WrappingAdd => {
                if literal == Some(0) {
                    return Some(lhs);
                }
                if self.as_int(lhs) == Some(0) {
                    return Some(rhs);
                }
                self.sum_of_literals(op, lhs, rhs)
            }
            BinaryOp::Sub | BinaryOp::WrappingSub => {
                if lhs == rhs {
                    return self.int(ty, 0);
                }
                if literal == Some(0) {
                    return Some(lhs);
                }
                // (x + y) - y, (x + y) - x
                let sum = if op == BinaryOp::Sub {
                    BinaryOp::Add
                } else {
                    BinaryOp::WrappingAdd
                };
                match self.as_binary(lhs, sum) {
                    Some((x, y)) if y == rhs => Some(x),
                    Some((x, y)) if x == rhs => Some(y),
                    Some(_) | None => None,
                }
            }
            BinaryOp::Mul | BinaryOp::WrappingMul => match literal {
                Some(0) => Some(rhs),
                Some(1) => Some(lhs),
                Some(_) | None => None,
            },
            BinaryOp::Div | BinaryOp::DivFloor | BinaryOp::DivEuclid => {
                (literal == Some(1)).then_some(lhs)
            }
            BinaryOp::Rem | BinaryOp::RemFloor | BinaryOp::RemEuclid => {
                if literal == Some(1) {
                    self.int(ty, 0)
                } else {
                    None
                }
            }
            BinaryOp::Pow => match literal {
                Some(0) => self.int(ty, 1),
                Some(1) => Some(lhs),
                Some(_) | None => None,
            },
            BinaryOp::BitAnd => match literal {
                _ if lhs == rhs => Some(lhs),
                Some(0) => Some(rhs),
                Some(-1) => Some(lhs),
                Some(ones) if ty == Ty::U32 && ones == i64::from(u32::MAX) => Some(lhs),
                Some(_) | None => None,
            },
            BinaryOp::BitOr => (lhs == rhs || literal == Some(0)).then_some(lhs),
            BinaryOp::BitXor => {
                if lhs == rhs {
                    self.int(ty, 0)
                } else {
                    (literal == Some(0)).then_some(lhs)
                }
            }
            BinaryOp::Shl | BinaryOp::Shr => (literal == Some(0)).then_some(lhs),
            BinaryOp::Min | BinaryOp::Max => (lhs == rhs).then_some(lhs),
            BinaryOp::Powi
            | BinaryOp::Powf
            | BinaryOp::And
            | BinaryOp::Or
            | BinaryOp::Eq
            | BinaryOp::Ne
            | BinaryOp::Lt
            | BinaryOp::Le
            | BinaryOp::Gt
            | BinaryOp::Ge => unreachable!("{op:?} is no integer arithmetic"),
        }
    }

    /// `(x + c) + d` is `x + (c + d)`: both sums are exact, so the one sum is.
    fn sum_of_literals(&mut self, op: BinaryOp, lhs: ExprId, rhs: ExprId) -> Option<ExprId> {
        let (x, inner) = self.as_binary(lhs, op)?;
        if op != BinaryOp::Add {
            return None;
        }
        let sum = self.as_int(inner)?.checked_add(self.as_int(rhs)?)?;
        let sum = self.int(self.arena.ty(lhs), sum)?;
        Some(self.arith(op, x, sum))
    }

    fn float_arith(&mut self, op: BinaryOp, lhs: ExprId, rhs: ExprId) -> Option<ExprId> {
        let is = |id: ExprId, value: f32| self.arena.as_const(id) == Some(Const::F32(value));
        match op {
            // Only -0 is neutral: 0 + -0 is 0.
            BinaryOp::Add => {
                if is(rhs, -0.0) {
                    Some(lhs)
                } else {
                    is(lhs, -0.0).then_some(rhs)
                }
            }
            BinaryOp::Sub => is(rhs, 0.0).then_some(lhs),
            BinaryOp::Mul => {
                if is(rhs, 1.0) {
                    Some(lhs)
                } else {
                    is(lhs, 1.0).then_some(rhs)
                }
            }
            BinaryOp::Div => is(rhs, 1.0).then_some(lhs),
            BinaryOp::Min | BinaryOp::Max => (lhs == rhs).then_some(lhs),
            BinaryOp::Rem
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
            | BinaryOp::And
            | BinaryOp::Or
            | BinaryOp::Eq
            | BinaryOp::Ne
            | BinaryOp::Lt
            | BinaryOp::Le
            | BinaryOp::Gt
            | BinaryOp::Ge => None,
        }
    }

    /// The rules that ask what the operands `old` can be.
    pub(super) fn int_binary(
        &mut self,
        ranges: &Ranges<'_>,
        op: BinaryOp,
        old: (ExprId, ExprId),
        (lhs, rhs): (ExprId, ExprId),
    ) -> ExprId {
        let a = ranges.plain(old.0).int();
        let b = ranges.plain(old.1).int();
        let decided = match op {
            BinaryOp::Min | BinaryOp::Max => {
                let (x, y) = (ranges.form(old.0), ranges.form(old.1));
                let is_min = op == BinaryOp::Min;
                if ranges.is_at_most(x, y) {
                    Some(if is_min { lhs } else { rhs })
                } else if ranges.is_at_most(y, x) {
                    Some(if is_min { rhs } else { lhs })
                } else {
                    None
                }
            }
            BinaryOp::Div | BinaryOp::DivFloor | BinaryOp::DivEuclid => {
                self.division(op, (a, b), (lhs, rhs))
            }
            BinaryOp::Rem | BinaryOp::RemFloor | BinaryOp::RemEuclid => {
                self.remainder(op, (a, b), (lhs, rhs))
            }
            // A product that fits is the product.
            BinaryOp::WrappingMul
            | BinaryOp::Add
            | BinaryOp::Sub
            | BinaryOp::Mul
            | BinaryOp::Pow
            | BinaryOp::Powi
            | BinaryOp::Powf
            | BinaryOp::WrappingAdd
            | BinaryOp::WrappingSub
            | BinaryOp::BitAnd
            | BinaryOp::BitOr
            | BinaryOp::BitXor
            | BinaryOp::Shl
            | BinaryOp::Shr
            | BinaryOp::And
            | BinaryOp::Or
            | BinaryOp::Eq
            | BinaryOp::Ne
            | BinaryOp::Lt
            | BinaryOp::Le
            | BinaryOp::Gt
            | BinaryOp::Ge => None,
        };
        decided.unwrap_or_else(|| self.binary(op, lhs, rhs))
    }

    fn division(
        &mut self,
        op: BinaryOp,
        (a, b): (IntRange, IntRange),
        (lhs, rhs): (ExprId, ExprId),
    ) -> Option<ExprId> {
        let ty = self.arena.ty(lhs);
        if is_not_negative(a) && a.hi < b.lo {
            return self.int(ty, 0);
        }
        // Floor and Euclidean division by a power of two are an arithmetic shift, also below 0.
        let floors = op != BinaryOp::Div || is_not_negative(a);
        if let (true, Some(by)) = (floors, self.as_int(rhs).and_then(log2))
            && by != 0
        {
            let by = self.int(ty, i64::from(by))?;
            return Some(self.binary(BinaryOp::Shr, lhs, by));
        }
        (op != BinaryOp::Div && is_not_negative(a) && 0 < b.lo)
            .then(|| self.binary(BinaryOp::Div, lhs, rhs))
    }

    fn remainder(
        &mut self,
        op: BinaryOp,
        (a, b): (IntRange, IntRange),
        (lhs, rhs): (ExprId, ExprId),
    ) -> Option<ExprId> {
        if is_not_negative(a) && a.hi < b.lo {
            return Some(lhs);
        }
        // Two's complement: the low bits are the floor remainder, also below 0.
        let floors = op != BinaryOp::Rem || is_not_negative(a);
        if let (true, Some(divisor)) = (floors, self.as_int(rhs))
            && log2(divisor).is_some()
            && divisor != 1
        {
            let mask = self.int(self.arena.ty(lhs), divisor - 1)?;
            return Some(self.binary(BinaryOp::BitAnd, lhs, mask));
        }
        (op != BinaryOp::Rem && is_not_negative(a) && 0 < b.lo)
            .then(|| self.binary(BinaryOp::Rem, lhs, rhs))
    }

    /// `|x|` where the sign is known.
    pub(super) fn int_abs(&mut self, arg: ExprId, range: IntRange) -> ExprId {
        if is_not_negative(range) {
            arg
        } else if range.hi <= 0 && !range.is_empty() {
            self.unary(UnaryOp::Neg, arg)
        } else {
            self.unary(UnaryOp::Abs, arg)
        }
    }

    /// `clamp` without the bounds that never act.
    pub(super) fn int_clamp(
        &mut self,
        ranges: &Ranges<'_>,
        old: (ExprId, ExprId, ExprId),
        (arg, lo, hi): (ExprId, ExprId, ExprId),
    ) -> ExprId {
        let (x, low, high) = (ranges.form(old.0), ranges.form(old.1), ranges.form(old.2));
        if ranges.is_at_most(x, low) {
            return lo;
        }
        if ranges.is_at_most(high, x) {
            return hi;
        }
        match (ranges.is_at_most(low, x), ranges.is_at_most(x, high)) {
            (true, true) => arg,
            (true, false) => self.binary(BinaryOp::Min, arg, hi),
            (false, true) => self.binary(BinaryOp::Max, arg, lo),
            (false, false) => {
                let ty = self.arena.ty(arg);
                self.rewrite(Expr::Clamp { arg, lo, hi }, ty)
            }
        }
    }
}
