//! The codes of types, variables and operators. They are part of the format: a new variant takes a new one, and none is
//! ever given to another variant.

use super::super::op::{BinaryOp, MathFn, UnaryOp, Var};
use super::super::ty::{Elem, Ty};

pub(super) const TYPES: [Ty; 5] = [Ty::Bool, Ty::I32, Ty::I64, Ty::U32, Ty::F32];

pub(super) fn ty_code(ty: Ty) -> u8 {
    match ty {
        Ty::Bool => 0,
        Ty::I32 => 1,
        Ty::I64 => 2,
        Ty::U32 => 3,
        Ty::F32 => 4,
    }
}

pub(super) fn elem_code(elem: Elem) -> u8 {
    match elem {
        Elem::Bool => 0,
        Elem::Bits => 1,
        Elem::I8 => 2,
        Elem::U8 => 3,
        Elem::I16 => 4,
        Elem::U16 => 5,
        Elem::I32 => 6,
        Elem::I64 => 7,
        Elem::U32 => 8,
        Elem::F16 => 9,
        Elem::Bf16 => 10,
        Elem::F32 => 11,
        Elem::F64 => 12,
    }
}

pub(super) const VARS: [Var; 9] = [
    Var::B,
    Var::H,
    Var::QIdx,
    Var::KvIdx,
    Var::Score,
    Var::QLen,
    Var::KvLen,
    Var::Batch,
    Var::NumQHeads,
];

pub(super) fn var_code(var: Var) -> u8 {
    match var {
        Var::B => 0,
        Var::H => 1,
        Var::QIdx => 2,
        Var::KvIdx => 3,
        Var::Score => 4,
        Var::QLen => 5,
        Var::KvLen => 6,
        Var::Batch => 7,
        Var::NumQHeads => 8,
    }
}

pub(super) fn unary_ops() -> impl Iterator<Item = UnaryOp> {
    [
        UnaryOp::Not,
        UnaryOp::Neg,
        UnaryOp::WrappingNeg,
        UnaryOp::Abs,
        UnaryOp::Signum,
    ]
    .into_iter()
    .chain(MathFn::ALL.into_iter().map(UnaryOp::Math))
}

pub(super) fn unary_code(op: UnaryOp) -> u8 {
    match op {
        UnaryOp::Not => 0,
        UnaryOp::Neg => 1,
        UnaryOp::WrappingNeg => 2,
        UnaryOp::Abs => 3,
        UnaryOp::Signum => 4,
        UnaryOp::Math(f) => match f {
            MathFn::Exp => 32,
            MathFn::Exp2 => 33,
            MathFn::Ln => 34,
            MathFn::Log2 => 35,
            MathFn::Log10 => 36,
            MathFn::Tanh => 37,
            MathFn::Sqrt => 38,
            MathFn::Sin => 39,
            MathFn::Cos => 40,
            MathFn::Tan => 41,
            MathFn::Erf => 42,
            MathFn::Floor => 43,
            MathFn::Ceil => 44,
            MathFn::Round => 45,
            MathFn::Trunc => 46,
        },
    }
}

pub(super) const BINARY_OPS: [BinaryOp; 30] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::Rem,
    BinaryOp::DivFloor,
    BinaryOp::RemFloor,
    BinaryOp::DivEuclid,
    BinaryOp::RemEuclid,
    BinaryOp::Pow,
    BinaryOp::Powi,
    BinaryOp::Powf,
    BinaryOp::WrappingAdd,
    BinaryOp::WrappingSub,
    BinaryOp::WrappingMul,
    BinaryOp::BitAnd,
    BinaryOp::BitOr,
    BinaryOp::BitXor,
    BinaryOp::Shl,
    BinaryOp::Shr,
    BinaryOp::Min,
    BinaryOp::Max,
    BinaryOp::And,
    BinaryOp::Or,
    BinaryOp::Eq,
    BinaryOp::Ne,
    BinaryOp::Lt,
    BinaryOp::Le,
    BinaryOp::Gt,
    BinaryOp::Ge,
];

pub(super) fn binary_code(op: BinaryOp) -> u8 {
    match op {
        BinaryOp::Add => 0,
        BinaryOp::Sub => 1,
        BinaryOp::Mul => 2,
        BinaryOp::Div => 3,
        BinaryOp::Rem => 4,
        BinaryOp::DivFloor => 5,
        BinaryOp::RemFloor => 6,
        BinaryOp::DivEuclid => 7,
        BinaryOp::RemEuclid => 8,
        BinaryOp::Pow => 9,
        BinaryOp::Powi => 10,
        BinaryOp::Powf => 11,
        BinaryOp::WrappingAdd => 12,
        BinaryOp::WrappingSub => 13,
        BinaryOp::WrappingMul => 14,
        BinaryOp::BitAnd => 15,
        BinaryOp::BitOr => 16,
        BinaryOp::BitXor => 17,
        BinaryOp::Shl => 18,
        BinaryOp::Shr => 19,
        BinaryOp::Min => 20,
        BinaryOp::Max => 21,
        BinaryOp::And => 22,
        BinaryOp::Or => 23,
        BinaryOp::Eq => 24,
        BinaryOp::Ne => 25,
        BinaryOp::Lt => 26,
        BinaryOp::Le => 27,
        BinaryOp::Gt => 28,
        BinaryOp::Ge => 29,
    }
}
