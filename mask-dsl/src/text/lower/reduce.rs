//! Constant ranges: the copies of a loop body, and `any`, `all` and `sum`.

use crate::ir::{BinaryOp, Const, Expr, ExprId, Ty};

use super::super::ast::{self, Loc, Name, Range, Reduction};
use super::{Lowering, Val};

/// Copies of a loop body; the limits on nodes and steps are reached first where the body is large.
const MAX_ITERATIONS: i64 = 1 << 16;

impl Lowering<'_> {
    /// The first and one past the last value of a constant range, and the type of its values.
    pub(super) fn bounds(&mut self, range: &Range, expected: Option<Ty>) -> Option<(i64, i64, Ty)> {
        let outer = std::mem::replace(&mut self.constant_context, true);
        let (lo, hi) = self.pair(&range.lo, &range.hi, expected);
        self.constant_context = outer;
        let ty = self.ty(lo);
        let hi = match ty {
            Some(ty) => self.expect_ty(hi, ty, range.hi.loc, "as the other bound"),
            None => hi,
        };
        let lo = self.bound(lo, range.lo.loc);
        let hi = self.bound(hi, range.hi.loc);
        let hi = hi?.saturating_add(i64::from(range.inclusive));
        Some((lo?, hi, ty?))
    }

    fn bound(&mut self, value: Val, loc: Loc) -> Option<i64> {
        let ty = self.ty(value)?;
        if !ty.is_int() {
            self.fault(
                "type-mismatch",
                format!("expected an integer bound, found `{ty}`"),
                loc,
            );
            return None;
        }
        let known = self.known_int(value);
        if known.is_none() && !self.checking() {
            self.fault_help(
                "not-constant",
                "expected a constant bound",
                loc,
                "bounds are literals, `const K: i32` parameters and the indices of outer loops; within the loop, a guard such as `i < n && ..` may read anything",
            );
        } else if known.is_none() {
            // A bound may be wrong only for the value that stands for an unknown constant.
            if !self.is_constant(value) {
                self.fault_help(
                    "not-constant",
                    "expected a constant bound",
                    loc,
                    "bounds are literals, `const N: i32` parameters and the indices of outer loops",
                );
            }
        }
        known
    }

    /// Whether a value is built from constants alone.
    fn is_constant(&self, value: Val) -> bool {
        let Val::Node(root) = value else {
            return true;
        };
        let mut open = vec![root];
        let mut budget = 1_000u32;
        while let Some(id) = open.pop() {
            if budget == 0 {
                return false;
            }
            budget -= 1;
            match self.arena.expr(id) {
                Expr::Var(_) | Expr::Scalar(_) | Expr::Dim(_) | Expr::Load { .. } => return false,
                expr @ (Expr::Const(_)
                | Expr::Unary { .. }
                | Expr::Binary { .. }
                | Expr::Clamp { .. }
                | Expr::Cast { .. }
                | Expr::Select { .. }
                | Expr::Then { .. }) => {
                    expr.for_each_operand(|operand| open.push(operand));
                }
            }
        }
        true
    }

    /// The values of a loop index, or a fault.
    pub(super) fn iterations(&mut self, range: &Range) -> Option<(i64, i64, Ty)> {
        let (lo, hi, ty) = self.bounds(range, Some(Ty::I32))?;
        if MAX_ITERATIONS < hi.saturating_sub(lo) {
            self.fault_help(
                "too-large",
                format!(
                    "expected at most {MAX_ITERATIONS} repetitions, found {}",
                    hi.saturating_sub(lo)
                ),
                range.loc,
                "loops are unrolled; capture a buffer with what the loop computes",
            );
            return None;
        }
        Some((lo, hi.max(lo), ty))
    }

    /// Binds a loop index.
    pub(super) fn bind_index(&mut self, var: &Name, value: i64, ty: Ty) {
        let value = Const::from_int(ty, value).expect("a value between two of its type has it too");
        let value = self.constant(value, var.loc);
        self.put_in_scope(&var.text, value);
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one node of the tree, and what is expected of it"
    )]
    pub(super) fn reduce(
        &mut self,
        op: Reduction,
        var: &Name,
        range: &Range,
        body: &ast::Expr,
        hint: Option<Ty>,
        declared: Option<Ty>,
        loc: Loc,
    ) -> Val {
        let hint = match op {
            Reduction::Any | Reduction::All => Some(Ty::Bool),
            Reduction::Sum => hint,
        };
        let iterations = self.iterations(range);
        let (lo, hi, ty) = iterations.unwrap_or((0, 0, Ty::I32));
        let barrier = std::mem::replace(&mut self.frame.barrier, self.frame.scope.len());
        let mut terms = Vec::new();
        let mut failed = iterations.is_none();
        // A range without values still has a body whose faults and type matter.
        for i in lo..hi.max(lo.saturating_add(1)) {
            self.bind_index(var, i, ty);
            let term = match (op, declared) {
                (Reduction::Any | Reduction::All, _) => {
                    self.expr_of(body, Ty::Bool, &format!("within `{}`", op.name()))
                }
                (Reduction::Sum, Some(ty)) => self.expr_of(body, ty, "within this `sum`"),
                (Reduction::Sum, None) => self.expr(body, hint),
            };
            self.frame.scope.pop();
            match term {
                Val::Node(id) => terms.push(id),
                Val::Error => {
                    failed = true;
                    // The next copy of the body would have the same faults.
                    break;
                }
            }
        }
        self.frame.barrier = barrier;
        if failed {
            return Val::Error;
        }
        let empty = lo == hi;
        match op {
            Reduction::Any | Reduction::All => {
                let op = if op == Reduction::Any {
                    BinaryOp::Or
                } else {
                    BinaryOp::And
                };
                self.balanced(op, if empty { &[] } else { &terms }, loc)
            }
            Reduction::Sum => self.sum(&terms, empty, body.loc, loc),
        }
    }

    /// Terms added from left to right: the order of float additions is part of the meaning.
    fn sum(&mut self, terms: &[ExprId], empty: bool, body_loc: Loc, loc: Loc) -> Val {
        let ty = self.arena.ty(terms[0]);
        let zero = match ty {
            // As the sum of no floats in Rust.
            Ty::F32 => Const::F32(-0.0),
            Ty::I32 => Const::I32(0),
            Ty::I64 => Const::I64(0),
            Ty::U32 => Const::U32(0),
            Ty::Bool => {
                self.fault_help(
                    "type-mismatch",
                    "`sum` takes numbers, found `bool`",
                    body_loc,
                    "`any` and `all` join bools; a bool becomes 0 or 1 with `as i32`",
                );
                return Val::Error;
            }
        };
        if empty {
            return self.constant(zero, loc);
        }
        let mut total = Val::Node(terms[0]);
        for &term in &terms[1..] {
            total = self.binary_node(BinaryOp::Add, total, Val::Node(term), loc);
        }
        total
    }
}
