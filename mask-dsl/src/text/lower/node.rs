//! Adds nodes to the arena, with what is known of each: its type, whether it can fail, its constant value.

use std::cmp::Ordering;

use crate::diagnostic::Diagnostic;
use crate::ir::{BinaryOp, Const, Expr, ExprId, Ty, TypeError, UnaryOp};

use super::super::ast::Loc;
use super::{Lowering, Val};

/// More nodes than any rule that a person writes; unrolled loops reach it first.
const MAX_NODES: usize = 200_000;
/// Passes walk the arena by recursion in places.
const MAX_DEPTH: u32 = 3_000;
/// Expressions visited, counting each copy of a loop body or function.
const MAX_STEPS: u32 = 1_000_000;
/// Expressions within one another, through calls as well.
const MAX_RECURSION: u32 = 320;
/// Nodes looked at to see that a value is evaluated anyway.
const EVALUATES_BUDGET: u32 = 64;

impl Lowering<'_> {
    /// Counts a step into an expression or statement; `false` if the rule has become too large.
    pub(super) fn enter(&mut self, loc: Loc) -> bool {
        self.steps += 1;
        self.depth += 1;
        if MAX_RECURSION < self.depth {
            self.too_large(
                loc,
                "expressions and calls within one another go too deep",
                "give parts of it names with `let`",
            );
        } else if MAX_STEPS < self.steps {
            self.too_large(
                loc,
                &format!("this rule has more than {MAX_STEPS} steps when it is unrolled"),
                "use smaller loop bounds, or capture a buffer with what the loop computes",
            );
        }
        !self.too_large
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    pub(super) fn too_large(&mut self, loc: Loc, message: &str, help: &str) {
        if !self.too_large {
            let fault = Diagnostic::new("too-large", message, self.span(loc)).help(help);
            self.report(fault);
        }
        self.too_large = true;
    }

    /// Adds a node.
    pub(super) fn intern(
        &mut self,
        expr: Expr,
        leaf_ty: Option<Ty>,
        loc: Loc,
    ) -> Result<Val, TypeError> {
        let span = self.span(loc);
        let id = self.arena.intern(expr, leaf_ty, span)?;
        if id.index() == self.fails.len() {
            let expr = self.arena.expr(id).clone();
            let mut fails = self.can_fail_itself(&expr);
            expr.for_each_operand(|operand| fails |= self.fails[operand.index()]);
            self.fails.push(fails);
            let known = self.constant_of(&expr, self.arena.ty(id));
            self.known.push(known);
        }
        if MAX_NODES < self.arena.len() {
            self.too_large(
                loc,
                &format!("this rule has more than {MAX_NODES} nodes when it is unrolled"),
                "use smaller loop bounds, or capture a buffer with what the loop computes",
            );
        } else if MAX_DEPTH < self.arena.depth(id) {
            self.too_large(
                loc,
                &format!("this rule is deeper than {MAX_DEPTH} nodes when it is unrolled"),
                "use smaller loop bounds; `any` and `all` are shallow, sums and assignments in loops are not",
            );
        }
        Ok(if self.too_large {
            Val::Error
        } else {
            Val::Node(id)
        })
    }

    /// Adds a node whose operands are known to fit.
    pub(super) fn known_node(&mut self, expr: Expr, loc: Loc) -> Val {
        self.intern(expr, None, loc)
            .expect("the operands were checked")
    }

    pub(super) fn constant(&mut self, value: Const, loc: Loc) -> Val {
        self.known_node(Expr::Const(value), loc)
    }

    pub(super) fn ty(&self, val: Val) -> Option<Ty> {
        match val {
            Val::Node(id) => Some(self.arena.ty(id)),
            Val::Error => None,
        }
    }

    pub(super) fn can_fail(&self, val: Val) -> bool {
        match val {
            Val::Node(id) => self.fails[id.index()],
            Val::Error => false,
        }
    }

    /// The integer that a value always is.
    pub(super) fn known_int(&self, val: Val) -> Option<i64> {
        match val {
            Val::Node(id) => self.known[id.index()],
            Val::Error => None,
        }
    }

    /// `if cond { then } else { otherwise }` of checked types.
    pub(super) fn select(&mut self, cond: Val, then: Val, otherwise: Val, loc: Loc) -> Val {
        let (Val::Node(cond_id), Val::Node(then_id), Val::Node(otherwise_id)) =
            (cond, then, otherwise)
        else {
            return Val::Error;
        };
        if then_id == otherwise_id && !self.can_fail(cond) {
            return then;
        }
        self.known_node(
            Expr::Select {
                cond: cond_id,
                then: then_id,
                otherwise: otherwise_id,
            },
            loc,
        )
    }

    pub(super) fn not(&mut self, val: Val, loc: Loc) -> Val {
        match val {
            Val::Node(arg) => self.known_node(
                Expr::Unary {
                    op: UnaryOp::Not,
                    arg,
                },
                loc,
            ),
            Val::Error => Val::Error,
        }
    }

    /// `value`, after `first` has been evaluated: an eager `let` whose name may not be used.
    pub(super) fn then(&mut self, first: Val, value: Val, loc: Loc) -> Val {
        let (Val::Node(first_id), Val::Node(value_id)) = (first, value) else {
            return Val::Error;
        };
        if !self.can_fail(first) || self.evaluates(value_id, first_id) {
            return value;
        }
        self.known_node(
            Expr::Then {
                first: first_id,
                value: value_id,
            },
            loc,
        )
    }

    /// Whether evaluating `root` surely evaluates `target`; `false` if that takes long to see.
    pub(super) fn evaluates(&self, root: ExprId, target: ExprId) -> bool {
        let mut budget = EVALUATES_BUDGET;
        let mut open = vec![root];
        while let Some(id) = open.pop() {
            if id == target {
                return true;
            }
            if id.index() < target.index() {
                continue;
            }
            if budget == 0 {
                return false;
            }
            budget -= 1;
            match self.arena.expr(id) {
                Expr::Binary {
                    op: BinaryOp::And | BinaryOp::Or,
                    lhs,
                    ..
                } => open.push(*lhs),
                Expr::Select { cond, .. } => open.push(*cond),
                expr @ (Expr::Const(_)
                | Expr::Var(_)
                | Expr::Scalar(_)
                | Expr::Dim(_)
                | Expr::Load { .. }
                | Expr::Unary { .. }
                | Expr::Binary { .. }
                | Expr::Clamp { .. }
                | Expr::Cast { .. }
                | Expr::Then { .. }) => {
                    expr.for_each_operand(|operand| open.push(operand));
                }
            }
        }
        false
    }

    /// Joins values by `&&` or `||`; evaluation goes from left to right, and depth grows with the logarithm.
    pub(super) fn balanced(&mut self, op: BinaryOp, values: &[ExprId], loc: Loc) -> Val {
        match values {
            [] => self.constant(Const::Bool(op == BinaryOp::And), loc),
            [one] => Val::Node(*one),
            [_, _, ..] => {
                let (left, right) = values.split_at(values.len().div_ceil(2));
                let lhs = self.balanced(op, left, loc);
                let rhs = self.balanced(op, right, loc);
                match (lhs, rhs) {
                    (Val::Node(lhs), Val::Node(rhs)) => {
                        self.known_node(Expr::Binary { op, lhs, rhs }, loc)
                    }
                    (Val::Error, _) | (_, Val::Error) => Val::Error,
                }
            }
        }
    }

    /// Whether an operation, given operands, can break a promise of the language.
    fn can_fail_itself(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Load { index, .. } => !index.is_empty(),
            Expr::Clamp { .. } => true,
            Expr::Unary { op, arg } => {
                self.arena.ty(*arg).is_int() && matches!(op, UnaryOp::Neg | UnaryOp::Abs)
            }
            Expr::Binary { op, lhs, rhs } => {
                if !self.arena.ty(*lhs).is_int() {
                    return false;
                }
                let right = self.known[rhs.index()];
                match op {
                    BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Pow => true,
                    BinaryOp::Div
                    | BinaryOp::Rem
                    | BinaryOp::DivFloor
                    | BinaryOp::RemFloor
                    | BinaryOp::DivEuclid
                    | BinaryOp::RemEuclid => right.is_none_or(|v| v == 0 || v == -1),
                    BinaryOp::Shl | BinaryOp::Shr => {
                        let bits = i64::from(self.arena.ty(*lhs).bits());
                        right.is_none_or(|v| v < 0 || bits <= v)
                    }
                    BinaryOp::Powi
                    | BinaryOp::Powf
                    | BinaryOp::WrappingAdd
                    | BinaryOp::WrappingSub
                    | BinaryOp::WrappingMul
                    | BinaryOp::BitAnd
                    | BinaryOp::BitOr
                    | BinaryOp::BitXor
                    | BinaryOp::Min
                    | BinaryOp::Max
                    | BinaryOp::And
                    | BinaryOp::Or
                    | BinaryOp::Eq
                    | BinaryOp::Ne
                    | BinaryOp::Lt
                    | BinaryOp::Le
                    | BinaryOp::Gt
                    | BinaryOp::Ge => false,
                }
            }
            Expr::Const(_)
            | Expr::Var(_)
            | Expr::Scalar(_)
            | Expr::Dim(_)
            | Expr::Cast { .. }
            | Expr::Select { .. }
            | Expr::Then { .. } => false,
        }
    }

    /// The integer (or `bool`) that an operation on known operands gives.
    fn constant_of(&self, expr: &Expr, ty: Ty) -> Option<i64> {
        let known = |id: &ExprId| self.known[id.index()];
        let value = match expr {
            Expr::Const(value) => value.as_int()?,
            Expr::Unary { op, arg } => {
                let arg_value = known(arg)?;
                match op {
                    UnaryOp::Neg => arg_value.checked_neg()?,
                    UnaryOp::Abs => arg_value.checked_abs()?,
                    UnaryOp::Signum => arg_value.signum(),
                    UnaryOp::Not if ty == Ty::Bool => 1 - arg_value,
                    UnaryOp::Not | UnaryOp::WrappingNeg | UnaryOp::Math(_) => return None,
                }
            }
            Expr::Binary { op, lhs, rhs } => constant_binary(*op, known(lhs)?, known(rhs)?)?,
            Expr::Cast { arg, .. } => known(arg)?,
            Expr::Clamp { arg, lo, hi } => {
                let (lo, hi) = (known(lo)?, known(hi)?);
                if lo.cmp(&hi) == Ordering::Greater {
                    return None;
                }
                known(arg)?.clamp(lo, hi)
            }
            Expr::Select {
                cond,
                then,
                otherwise,
            } => known(if known(cond)? == 1 { then } else { otherwise })?,
            Expr::Then { first, value } => {
                known(first)?;
                known(value)?
            }
            Expr::Var(_) | Expr::Scalar(_) | Expr::Dim(_) | Expr::Load { .. } => return None,
        };
        Const::from_int(ty, value).map(|_| value)
    }
}

fn constant_binary(op: BinaryOp, a: i64, b: i64) -> Option<i64> {
    Some(match op {
        BinaryOp::Add => a.checked_add(b)?,
        BinaryOp::Sub => a.checked_sub(b)?,
        BinaryOp::Mul => a.checked_mul(b)?,
        BinaryOp::Div => a.checked_div(b)?,
        BinaryOp::Rem => a.checked_rem(b)?,
        BinaryOp::DivEuclid => a.checked_div_euclid(b)?,
        BinaryOp::RemEuclid => a.checked_rem_euclid(b)?,
        BinaryOp::DivFloor => {
            let quotient = a.checked_div(b)?;
            quotient - i64::from(a % b != 0 && (a < 0) != (b < 0))
        }
        BinaryOp::RemFloor => {
            let rest = a.checked_rem(b)?;
            if rest != 0 && (rest < 0) != (b < 0) {
                rest + b
            } else {
                rest
            }
        }
        BinaryOp::Pow => a.checked_pow(u32::try_from(b).ok()?)?,
        BinaryOp::BitAnd | BinaryOp::And => a & b,
        BinaryOp::BitOr | BinaryOp::Or => a | b,
        BinaryOp::BitXor => a ^ b,
        BinaryOp::Shr => a.checked_shr(u32::try_from(b).ok()?)?,
        BinaryOp::Shl => a.checked_mul(1i64.checked_shl(u32::try_from(b).ok()?)?)?,
        BinaryOp::Min => a.min(b),
        BinaryOp::Max => a.max(b),
        BinaryOp::Eq => i64::from(a == b),
        BinaryOp::Ne => i64::from(a != b),
        BinaryOp::Lt => i64::from(a < b),
        BinaryOp::Le => i64::from(a <= b),
        BinaryOp::Gt => i64::from(a > b),
        BinaryOp::Ge => i64::from(a >= b),
        BinaryOp::Powi
        | BinaryOp::Powf
        | BinaryOp::WrappingAdd
        | BinaryOp::WrappingSub
        | BinaryOp::WrappingMul => return None,
    })
}
