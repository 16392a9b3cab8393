//! The scalar interpreter: the meaning of each operator, with every promise about it checked as it runs.

use super::{Point, Sizes};
use crate::capture::Bindings;
use crate::ir::{BinaryOp, CaptureId, Const, Expr, ExprId, Rule, Ty, UnaryOp, Var};
use crate::math;

/// An operation that a valid rule never performs.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{kind}")]
pub struct EvalError {
    /// Which expression.
    pub at: ExprId,
    /// What went wrong there.
    pub kind: EvalErrorKind,
}

/// What went wrong in an [`EvalError`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EvalErrorKind {
    /// A read left its buffer.
    #[error("index {index} leaves axis {axis} of capture {}, which has extent {extent}", capture.0)]
    OutOfBounds {
        /// Which capture.
        capture: CaptureId,
        /// Which axis.
        axis: usize,
        /// The index.
        index: i64,
        /// The extent.
        extent: usize,
    },
    /// An integer result does not fit its type.
    #[error("`{op}` leaves the range of {ty}")]
    Overflow {
        /// The operator.
        op: &'static str,
        /// The type.
        ty: Ty,
    },
    /// An integer divisor is 0.
    #[error("divisor of `{op}` is 0")]
    DivisorZero {
        /// The operator.
        op: &'static str,
    },
    /// A shift by a negative amount or by the width or more.
    #[error("shift by {amount} is not in 0..{bits}")]
    ShiftAmount {
        /// The amount.
        amount: i64,
        /// Width of the shifted type.
        bits: u32,
    },
    /// A negative exponent of an integer power.
    #[error("exponent {exponent} of an integer power is negative")]
    NegativeExponent {
        /// The exponent.
        exponent: i64,
    },
    /// `clamp` with a lower bound above the upper one (or a NaN bound).
    #[error("clamp bounds are crossed: {lo} and {hi}")]
    CrossedClamp {
        /// Lower bound.
        lo: Const,
        /// Upper bound.
        hi: Const,
    },
}

/// Evaluates one rule at one cell after another.
#[derive(Debug)]
pub struct ScalarEvaluator<'a> {
    rule: &'a Rule,
    bindings: &'a Bindings,
    sizes: Sizes,
    memo: Vec<Option<Const>>,
}

impl<'a> ScalarEvaluator<'a> {
    /// An interpreter of `rule` with these captures at these sizes.
    pub fn new(rule: &'a Rule, bindings: &'a Bindings, sizes: Sizes) -> Self {
        Self {
            rule,
            bindings,
            sizes,
            memo: vec![None; rule.arena.len()],
        }
    }

    /// The rule's result at a cell: `Bool` for a mask, `F32` for a score.
    ///
    /// # Errors
    /// [`EvalError`] where the rule breaks a promise of the language: a read outside its buffer, an overflow.
    pub fn eval(&mut self, point: &Point) -> Result<Const, EvalError> {
        self.eval_expr(self.rule.root, point)
    }

    /// The value of one expression of the rule at a cell.
    ///
    /// # Errors
    /// As [`ScalarEvaluator::eval`].
    pub fn eval_expr(&mut self, id: ExprId, point: &Point) -> Result<Const, EvalError> {
        self.memo.fill(None);
        self.visit(id, point)
    }

    fn visit(&mut self, id: ExprId, point: &Point) -> Result<Const, EvalError> {
        if let Some(value) = self.memo[id.index()] {
            return Ok(value);
        }
        let rule = self.rule;
        let value = match rule.arena.expr(id) {
            Expr::Const(value) => *value,
            Expr::Var(var) => self.var(*var, point),
            Expr::Scalar(slot) => self.bindings.scalar(*slot),
            Expr::Dim(dim) => Const::I32(self.bindings.dims[dim.index()]),
            Expr::Load { buffer, index } => {
                let mut at = Vec::with_capacity(index.len());
                for &i in index {
                    at.push(int(self.visit(i, point)?));
                }
                self.load(id, *buffer, &at)?
            }
            Expr::Unary { op, arg } => {
                let arg = self.visit(*arg, point)?;
                unary(*op, arg).map_err(|kind| EvalError { at: id, kind })?
            }
            Expr::Binary {
                op: BinaryOp::And,
                lhs,
                rhs,
            } => Const::Bool(truth(self.visit(*lhs, point)?) && truth(self.visit(*rhs, point)?)),
            Expr::Binary {
                op: BinaryOp::Or,
                lhs,
                rhs,
            } => Const::Bool(truth(self.visit(*lhs, point)?) || truth(self.visit(*rhs, point)?)),
            Expr::Binary { op, lhs, rhs } => {
                let lhs = self.visit(*lhs, point)?;
                let rhs = self.visit(*rhs, point)?;
                binary(*op, lhs, rhs).map_err(|kind| EvalError { at: id, kind })?
            }
            Expr::Clamp { arg, lo, hi } => {
                let arg = self.visit(*arg, point)?;
                let lo = self.visit(*lo, point)?;
                let hi = self.visit(*hi, point)?;
                clamp(arg, lo, hi).map_err(|kind| EvalError { at: id, kind })?
            }
            Expr::Cast { to, arg } => cast(*to, self.visit(*arg, point)?),
            Expr::Select {
                cond,
                then,
                otherwise,
            } => {
                let branch = if truth(self.visit(*cond, point)?) {
                    *then
                } else {
                    *otherwise
                };
                self.visit(branch, point)?
            }
            Expr::Then { first, value } => {
                self.visit(*first, point)?;
                self.visit(*value, point)?
            }
        };
        self.memo[id.index()] = Some(value);
        Ok(value)
    }

    fn var(&self, var: Var, point: &Point) -> Const {
        match var {
            Var::B => Const::I32(point.b),
            Var::H => Const::I32(point.h),
            Var::QIdx => Const::I32(point.q_idx),
            Var::KvIdx => Const::I32(point.kv_idx),
            Var::Score => Const::F32(point.score),
            Var::QLen => Const::I32(self.sizes.q_len),
            Var::KvLen => Const::I32(self.sizes.kv_len),
            Var::Batch => Const::I32(self.sizes.batch),
            Var::NumQHeads => Const::I32(self.sizes.num_q_heads),
        }
    }

    fn load(&self, id: ExprId, slot: CaptureId, index: &[i64]) -> Result<Const, EvalError> {
        let buffer = self.bindings.buffer(slot);
        if let Some(value) = buffer.load(index) {
            return Ok(value);
        }
        let (axis, (&index, &extent)) = index
            .iter()
            .zip(buffer.shape())
            .enumerate()
            .find(|(_, (i, extent))| **i < 0 || **extent as i64 <= **i)
            .expect("a read fails only where an index leaves its axis");
        Err(EvalError {
            at: id,
            kind: EvalErrorKind::OutOfBounds {
                capture: slot,
                axis,
                index,
                extent,
            },
        })
    }
}

fn truth(value: Const) -> bool {
    match value {
        Const::Bool(v) => v,
        Const::I32(_) | Const::I64(_) | Const::U32(_) | Const::F32(_) => {
            unreachable!("the arena is typed: a condition is a bool")
        }
    }
}

fn int(value: Const) -> i64 {
    value
        .as_int()
        .expect("the arena is typed: an index is an integer")
}

/// `op arg`, with the meaning that every engine must have.
///
/// # Errors
/// [`EvalErrorKind::Overflow`] where an exact integer result does not fit.
pub(crate) fn unary(op: UnaryOp, arg: Const) -> Result<Const, EvalErrorKind> {
    let ty = arg.ty();
    let exact = |name: &'static str, v: Option<i64>| {
        v.and_then(|v| Const::from_int(ty, v))
            .ok_or(EvalErrorKind::Overflow { op: name, ty })
    };
    match (op, arg) {
        (UnaryOp::Not, Const::Bool(v)) => Ok(Const::Bool(!v)),
        (UnaryOp::Not, Const::I32(v)) => Ok(Const::I32(!v)),
        (UnaryOp::Not, Const::I64(v)) => Ok(Const::I64(!v)),
        (UnaryOp::Not, Const::U32(v)) => Ok(Const::U32(!v)),
        (UnaryOp::Neg, Const::F32(v)) => Ok(Const::F32(-v)),
        (UnaryOp::Neg, v) => exact("-", int(v).checked_neg()),
        (UnaryOp::WrappingNeg, v) => Ok(wrap(ty, i128::from(int(v)).wrapping_neg())),
        (UnaryOp::Abs, Const::F32(v)) => Ok(Const::F32(v.abs())),
        (UnaryOp::Abs, v) => exact("abs", int(v).checked_abs()),
        (UnaryOp::Signum, Const::F32(v)) => Ok(Const::F32(math::signum(v))),
        (UnaryOp::Signum, v) => exact("signum", Some(int(v).signum())),
        (UnaryOp::Math(f), Const::F32(v)) => Ok(Const::F32(f.apply(v))),
        (UnaryOp::Not, Const::F32(_)) | (UnaryOp::Math(_), _) => {
            unreachable!("the arena is typed: {op:?} of {ty}")
        }
    }
}

/// `lhs op rhs` of an eager operator, with the meaning that every engine must have.
///
/// # Errors
/// [`EvalErrorKind`] where an exact integer result does not exist or does not fit.
pub(crate) fn binary(op: BinaryOp, lhs: Const, rhs: Const) -> Result<Const, EvalErrorKind> {
    match (lhs, rhs) {
        (Const::F32(a), Const::F32(b)) => Ok(float_binary(op, a, b)),
        (Const::F32(a), Const::I32(n)) => Ok(Const::F32(math::powi(a, n))),
        (Const::Bool(a), Const::Bool(b)) => Ok(Const::Bool(match op {
            BinaryOp::BitAnd | BinaryOp::And => a & b,
            BinaryOp::BitOr | BinaryOp::Or => a | b,
            BinaryOp::BitXor | BinaryOp::Ne => a ^ b,
            BinaryOp::Eq => a == b,
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
            | BinaryOp::Shl
            | BinaryOp::Shr
            | BinaryOp::Min
            | BinaryOp::Max
            | BinaryOp::Lt
            | BinaryOp::Le
            | BinaryOp::Gt
            | BinaryOp::Ge => unreachable!("the arena is typed: {op:?} of bool"),
        })),
        (lhs, rhs) => int_binary(op, lhs.ty(), int(lhs), int(rhs)),
    }
}

fn float_binary(op: BinaryOp, a: f32, b: f32) -> Const {
    match op {
        BinaryOp::Add => Const::F32(a + b),
        BinaryOp::Sub => Const::F32(a - b),
        BinaryOp::Mul => Const::F32(a * b),
        BinaryOp::Div => Const::F32(a / b),
        BinaryOp::Rem => Const::F32(math::rem(a, b)),
        BinaryOp::Powf => Const::F32(math::powf(a, b)),
        BinaryOp::Min => Const::F32(math::min(a, b)),
        BinaryOp::Max => Const::F32(math::max(a, b)),
        BinaryOp::Eq => Const::Bool(a == b),
        BinaryOp::Ne => Const::Bool(a != b),
        BinaryOp::Lt => Const::Bool(a < b),
        BinaryOp::Le => Const::Bool(a <= b),
        BinaryOp::Gt => Const::Bool(a > b),
        BinaryOp::Ge => Const::Bool(a >= b),
        BinaryOp::DivFloor
        | BinaryOp::RemFloor
        | BinaryOp::DivEuclid
        | BinaryOp::RemEuclid
        | BinaryOp::Pow
        | BinaryOp::Powi
        | BinaryOp::WrappingAdd
        | BinaryOp::WrappingSub
        | BinaryOp::WrappingMul
        | BinaryOp::BitAnd
        | BinaryOp::BitOr
        | BinaryOp::BitXor
        | BinaryOp::Shl
        | BinaryOp::Shr
        | BinaryOp::And
        | BinaryOp::Or => unreachable!("the arena is typed: {op:?} of f32"),
    }
}

fn int_binary(op: BinaryOp, ty: Ty, a: i64, b: i64) -> Result<Const, EvalErrorKind> {
    let exact = |v: Option<i64>| {
        v.and_then(|v| Const::from_int(ty, v))
            .ok_or(EvalErrorKind::Overflow {
                op: op.symbol(),
                ty,
            })
    };
    let divides = matches!(
        op,
        BinaryOp::Div
            | BinaryOp::Rem
            | BinaryOp::DivFloor
            | BinaryOp::RemFloor
            | BinaryOp::DivEuclid
            | BinaryOp::RemEuclid
    );
    if divides && b == 0 {
        return Err(EvalErrorKind::DivisorZero { op: op.symbol() });
    }
    if matches!(op, BinaryOp::Shl | BinaryOp::Shr) && !(0..i64::from(ty.bits())).contains(&b) {
        return Err(EvalErrorKind::ShiftAmount {
            amount: b,
            bits: ty.bits(),
        });
    }
    match op {
        BinaryOp::Add => exact(a.checked_add(b)),
        BinaryOp::Sub => exact(a.checked_sub(b)),
        BinaryOp::Mul => exact(a.checked_mul(b)),
        BinaryOp::Div => exact(a.checked_div(b)),
        BinaryOp::Rem => exact(a.checked_rem(b)),
        BinaryOp::DivFloor => exact(div_floor(a, b)),
        BinaryOp::RemFloor => exact(a.checked_rem(b).map(|r| {
            if r != 0 && (r < 0) != (b < 0) {
                r + b
            } else {
                r
            }
        })),
        BinaryOp::DivEuclid => exact(a.checked_div_euclid(b)),
        BinaryOp::RemEuclid => exact(a.checked_rem_euclid(b)),
        BinaryOp::Pow => {
            let exponent =
                u32::try_from(b).map_err(|_| EvalErrorKind::NegativeExponent { exponent: b })?;
            exact(a.checked_pow(exponent))
        }
        BinaryOp::WrappingAdd => Ok(wrap(ty, i128::from(a) + i128::from(b))),
        BinaryOp::WrappingSub => Ok(wrap(ty, i128::from(a) - i128::from(b))),
        BinaryOp::WrappingMul => Ok(wrap(ty, i128::from(a) * i128::from(b))),
        BinaryOp::BitAnd => exact(Some(a & b)),
        BinaryOp::BitOr => exact(Some(a | b)),
        BinaryOp::BitXor => exact(Some(a ^ b)),
        BinaryOp::Shl => Ok(wrap(ty, i128::from(a) << b)),
        BinaryOp::Shr => exact(Some(a >> b)),
        BinaryOp::Min => exact(Some(a.min(b))),
        BinaryOp::Max => exact(Some(a.max(b))),
        BinaryOp::Eq => Ok(Const::Bool(a == b)),
        BinaryOp::Ne => Ok(Const::Bool(a != b)),
        BinaryOp::Lt => Ok(Const::Bool(a < b)),
        BinaryOp::Le => Ok(Const::Bool(a <= b)),
        BinaryOp::Gt => Ok(Const::Bool(a > b)),
        BinaryOp::Ge => Ok(Const::Bool(a >= b)),
        BinaryOp::Powi | BinaryOp::Powf | BinaryOp::And | BinaryOp::Or => {
            unreachable!("the arena is typed: {op:?} of {ty}")
        }
    }
}

fn div_floor(a: i64, b: i64) -> Option<i64> {
    let quotient = a.checked_div(b)?;
    let inexact = a % b != 0;
    Some(if inexact && (a < 0) != (b < 0) {
        quotient - 1
    } else {
        quotient
    })
}

/// `v` modulo 2^bits, as a value of the integer type `ty`.
fn wrap(ty: Ty, v: i128) -> Const {
    match ty {
        Ty::I32 => Const::I32(v as i32),
        Ty::I64 => Const::I64(v as i64),
        Ty::U32 => Const::U32(v as u32),
        Ty::Bool | Ty::F32 => unreachable!("the arena is typed: wrapping arithmetic of {ty}"),
    }
}

/// `arg.clamp(lo, hi)`.
///
/// # Errors
/// [`EvalErrorKind::CrossedClamp`] unless `lo <= hi`.
pub(crate) fn clamp(arg: Const, lo: Const, hi: Const) -> Result<Const, EvalErrorKind> {
    let ordered = binary(BinaryOp::Le, lo, hi)?;
    if ordered != Const::Bool(true) {
        return Err(EvalErrorKind::CrossedClamp { lo, hi });
    }
    match (arg, lo, hi) {
        // A NaN stays NaN, as in `f32::clamp`.
        (Const::F32(v), Const::F32(lo), Const::F32(hi)) => Ok(Const::F32(if v < lo {
            lo
        } else if hi < v {
            hi
        } else {
            v
        })),
        _ => binary(BinaryOp::Min, binary(BinaryOp::Max, arg, lo)?, hi),
    }
}

/// `arg as to`, as in Rust.
pub(crate) fn cast(to: Ty, arg: Const) -> Const {
    match (to, arg) {
        (Ty::Bool, Const::Bool(v)) => Const::Bool(v),
        (Ty::F32, Const::F32(v)) => Const::F32(v),
        (Ty::F32, Const::Bool(v)) => Const::F32(f32::from(u8::from(v))),
        (Ty::F32, Const::I32(v)) => Const::F32(v as f32),
        (Ty::F32, Const::I64(v)) => Const::F32(v as f32),
        (Ty::F32, Const::U32(v)) => Const::F32(v as f32),
        (Ty::I32, Const::F32(v)) => Const::I32(v as i32),
        (Ty::I64, Const::F32(v)) => Const::I64(v as i64),
        (Ty::U32, Const::F32(v)) => Const::U32(v as u32),
        (Ty::I32 | Ty::I64 | Ty::U32, v) => wrap(to, i128::from(int(v))),
        (Ty::Bool, _) => unreachable!("the arena is typed: no cast of {} to bool", arg.ty()),
    }
}
