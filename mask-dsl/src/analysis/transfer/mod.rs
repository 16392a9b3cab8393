//! What an operator does to abstract values: every result that members of the operands can give is in the answer.

mod float;
mod int;

use super::interval::{FloatRange, IntRange, Truth, Value};
use crate::ir::{BinaryOp, Ty, UnaryOp};

/// `op arg`; of an exact integer operator before it is cut to the type.
pub(crate) fn unary(op: UnaryOp, ty: Ty, arg: Value) -> Value {
    match arg {
        Value::Bool(t) => Value::Bool(Truth::new(t.may_be_false, t.may_be_true)),
        Value::Int(range) => Value::Int(int::unary(op, ty, range)),
        Value::Float(range) => Value::Float(float::unary(op, range)),
    }
}

/// `lhs op rhs` of an eager operator; of an exact integer operator before it is cut to the type `ty` of the left side.
pub(crate) fn binary(op: BinaryOp, ty: Ty, lhs: Value, rhs: Value) -> Value {
    match (lhs, rhs) {
        (Value::Int(a), Value::Int(b)) => {
            if op.is_comparison() {
                Value::Bool(int::compare(op, a, b))
            } else {
                Value::Int(int::binary(op, ty, a, b))
            }
        }
        (Value::Float(a), Value::Float(b)) => {
            if op.is_comparison() {
                Value::Bool(float::compare(op, a, b))
            } else {
                Value::Float(float::binary(op, a, b))
            }
        }
        (Value::Float(a), Value::Int(n)) => Value::Float(float::powi(a, n)),
        (Value::Bool(a), Value::Bool(b)) => Value::Bool(bool_binary(op, a, b)),
        (Value::Int(_) | Value::Bool(_), _) | (Value::Float(_), Value::Bool(_)) => {
            unreachable!("the arena is typed: {op:?}")
        }
    }
}

fn bool_binary(op: BinaryOp, a: Truth, b: Truth) -> Truth {
    let mut result = Truth::NEITHER;
    for x in [false, true] {
        for y in [false, true] {
            let left = if x { a.may_be_true } else { a.may_be_false };
            let right = if y { b.may_be_true } else { b.may_be_false };
            if left && right {
                let value = match op {
                    BinaryOp::BitAnd | BinaryOp::And => x & y,
                    BinaryOp::BitOr | BinaryOp::Or => x | y,
                    BinaryOp::BitXor | BinaryOp::Ne => x ^ y,
                    BinaryOp::Eq => x == y,
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
                };
                result = result.join(Truth::known(value));
            }
        }
    }
    result
}

/// `arg.clamp(lo, hi)`.
pub(crate) fn clamp(arg: Value, lo: Value, hi: Value) -> Value {
    match (arg, lo, hi) {
        (Value::Int(arg), Value::Int(lo), Value::Int(hi)) => Value::Int(int::clamp(arg, lo, hi)),
        (Value::Float(arg), Value::Float(lo), Value::Float(hi)) => {
            Value::Float(float::clamp(arg, lo, hi))
        }
        (Value::Int(_) | Value::Bool(_) | Value::Float(_), _, _) => {
            unreachable!("the arena is typed: clamp")
        }
    }
}

/// `arg as to`.
pub(crate) fn cast(to: Ty, arg: Value) -> Value {
    match (to, arg) {
        (Ty::Bool, arg) => arg,
        (Ty::F32, Value::Float(range)) => Value::Float(range),
        (Ty::F32, Value::Int(range)) => Value::Float(if range.is_empty() {
            FloatRange::EMPTY
        } else {
            FloatRange::new(range.lo as f32, range.hi as f32, false)
        }),
        (Ty::F32, Value::Bool(truth)) => Value::Float(match truth_range(truth) {
            range if range.is_empty() => FloatRange::EMPTY,
            range => FloatRange::new(range.lo as f32, range.hi as f32, false),
        }),
        (Ty::I32 | Ty::I64 | Ty::U32, Value::Bool(truth)) => Value::Int(truth_range(truth)),
        (Ty::I32 | Ty::I64 | Ty::U32, Value::Int(range)) => Value::Int(int::wrap(to, range)),
        (Ty::I32 | Ty::I64 | Ty::U32, Value::Float(range)) => Value::Int(float::to_int(to, range)),
    }
}

fn truth_range(truth: Truth) -> IntRange {
    IntRange::new(
        i128::from(!truth.may_be_false),
        i128::from(truth.may_be_true),
    )
}
