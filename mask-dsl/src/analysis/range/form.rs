//! The linear form of each expression, from the forms of its operands.

use super::{Atom, BinaryOp, Expr, ExprId, IntRange, Linear, Ranges, Ty, UnaryOp, transfer};
use crate::analysis::interval::Value;

impl Ranges<'_> {
    /// The form of `id`, whose operands have forms and unguarded values; that of a `bool` or float is never used.
    pub(super) fn form_of(&self, id: ExprId) -> Linear {
        let arena = &self.rule.arena;
        let ty = arena.ty(id);
        if !ty.is_int() {
            return Linear::default();
        }
        self.linear_form(id, ty)
            .unwrap_or_else(|| Linear::atom(Atom::Expr(id)))
    }

    fn linear_form(&self, id: ExprId, ty: Ty) -> Option<Linear> {
        let arena = &self.rule.arena;
        match arena.expr(id) {
            Expr::Const(value) => Some(Linear::constant(i128::from(value.as_int()?))),
            Expr::Var(var) => Some(Linear::atom(Atom::Var(self.size_var(*var)))),
            Expr::Scalar(slot) => Some(Linear::atom(Atom::Scalar(*slot))),
            Expr::Dim(dim) => Some(Linear::atom(Atom::Dim(*dim))),
            Expr::Load { .. } => None,
            Expr::Unary { op, arg } => self.unary_form(*op, *arg, ty),
            Expr::Binary { op, lhs, rhs } => self.binary_form(*op, *lhs, *rhs, ty),
            Expr::Clamp { arg, lo, hi } => {
                let (a, lo_form, hi_form) = (self.form(*arg), self.form(*lo), self.form(*hi));
                (self.is_at_most(lo_form, a) && self.is_at_most(a, hi_form)).then(|| a.clone())
            }
            Expr::Cast { to, arg } => {
                if !arena.ty(*arg).is_int() {
                    return None;
                }
                self.root_int(*arg)
                    .is_within(IntRange::of_ty(*to))
                    .then(|| self.form(*arg).clone())
            }
            Expr::Select {
                then, otherwise, ..
            } => {
                let form = self.form(*then);
                (form == self.form(*otherwise)).then(|| form.clone())
            }
            Expr::Then { value, .. } => Some(self.form(*value).clone()),
        }
    }

    fn unary_form(&self, op: UnaryOp, arg: ExprId, ty: Ty) -> Option<Linear> {
        let form = self.form(arg);
        match op {
            UnaryOp::Neg => Some(form.negated()),
            UnaryOp::Not => {
                let top = if ty == Ty::U32 {
                    i128::from(u32::MAX)
                } else {
                    -1
                };
                Linear::constant(top).minus(form)
            }
            UnaryOp::Abs => {
                let range = self.root_int(arg);
                if 0 <= range.lo {
                    Some(form.clone())
                } else if range.hi <= 0 {
                    Some(form.negated())
                } else {
                    None
                }
            }
            UnaryOp::WrappingNeg | UnaryOp::Signum | UnaryOp::Math(_) => None,
        }
    }

    fn binary_form(&self, op: BinaryOp, lhs: ExprId, rhs: ExprId, ty: Ty) -> Option<Linear> {
        let (a, b) = (self.form(lhs), self.form(rhs));
        let fits = |op: BinaryOp| {
            transfer::binary(
                op,
                ty,
                Value::Int(self.root_int(lhs)),
                Value::Int(self.root_int(rhs)),
            )
            .int()
            .is_within(IntRange::of_ty(ty))
        };
        let product = || match (a.as_constant(), b.as_constant()) {
            (Some(factor), _) => Linear::default().combine(1, b, factor),
            (_, Some(factor)) => Linear::default().combine(1, a, factor),
            (None, None) => None,
        };
        match op {
            BinaryOp::Add => a.combine(1, b, 1),
            BinaryOp::Sub => a.minus(b),
            BinaryOp::Mul => product(),
            BinaryOp::WrappingAdd if fits(BinaryOp::Add) => a.combine(1, b, 1),
            BinaryOp::WrappingSub if fits(BinaryOp::Sub) => a.minus(b),
            BinaryOp::WrappingMul if fits(BinaryOp::Mul) => product(),
            BinaryOp::Shl => {
                let by = b.as_constant().filter(|by| (0..32).contains(by))?;
                let scaled = Linear::default().combine(1, a, 1 << by)?;
                let range = self.root_int(lhs);
                IntRange::new(range.lo << by, range.hi << by)
                    .is_within(IntRange::of_ty(ty))
                    .then_some(scaled)
            }
            BinaryOp::Div | BinaryOp::DivFloor | BinaryOp::DivEuclid => {
                (b.as_constant() == Some(1)).then(|| a.clone())
            }
            BinaryOp::Min => {
                if self.is_at_most(a, b) {
                    Some(a.clone())
                } else {
                    self.is_at_most(b, a).then(|| b.clone())
                }
            }
            BinaryOp::Max => {
                if self.is_at_most(a, b) {
                    Some(b.clone())
                } else {
                    self.is_at_most(b, a).then(|| a.clone())
                }
            }
            BinaryOp::WrappingAdd
            | BinaryOp::WrappingSub
            | BinaryOp::WrappingMul
            | BinaryOp::Rem
            | BinaryOp::RemFloor
            | BinaryOp::RemEuclid
            | BinaryOp::Pow
            | BinaryOp::Powi
            | BinaryOp::Powf
            | BinaryOp::BitAnd
            | BinaryOp::BitOr
            | BinaryOp::BitXor
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
}
