//! The variables and operators of the language. A new operator stops the build at every `match` that must know it.

use super::ty::Ty;
pub use crate::math::MathFn;

/// What a rule may read besides its captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Var {
    /// Batch index.
    B,
    /// Query head index.
    H,
    /// Absolute position of the query: `q_offset + row`.
    QIdx,
    /// Absolute position of the key.
    KvIdx,
    /// The score after `sm_scale`; only in a `score_mod`.
    Score,
    /// Number of query rows of the call.
    QLen,
    /// Number of keys there are.
    KvLen,
    /// Number of batch rows.
    Batch,
    /// Number of query heads.
    NumQHeads,
}

impl Var {
    /// The type: `f32` for the score, `i32` for everything else.
    pub fn ty(self) -> Ty {
        match self {
            Var::Score => Ty::F32,
            Var::B
            | Var::H
            | Var::QIdx
            | Var::KvIdx
            | Var::QLen
            | Var::KvLen
            | Var::Batch
            | Var::NumQHeads => Ty::I32,
        }
    }

    /// The name that prints.
    pub fn name(self) -> &'static str {
        match self {
            Var::B => "b",
            Var::H => "h",
            Var::QIdx => "q",
            Var::KvIdx => "kv",
            Var::Score => "score",
            Var::QLen => "q_len",
            Var::KvLen => "kv_len",
            Var::Batch => "batch",
            Var::NumQHeads => "num_q_heads",
        }
    }

    /// Finds a variable by any of its names (`q` and `q_idx`, `kv` and `kv_idx`).
    pub fn from_name(name: &str) -> Option<Var> {
        Some(match name {
            "b" => Var::B,
            "h" => Var::H,
            "q" | "q_idx" => Var::QIdx,
            "kv" | "kv_idx" => Var::KvIdx,
            "score" => Var::Score,
            "q_len" => Var::QLen,
            "kv_len" => Var::KvLen,
            "batch" => Var::Batch,
            "num_q_heads" => Var::NumQHeads,
            _ => return None,
        })
    }
}

/// An operator with one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnaryOp {
    /// `!x` of a `bool`, or of an integer's bits.
    Not,
    /// `-x` of a signed integer (exact) or a float.
    Neg,
    /// `x.wrapping_neg()` of an integer.
    WrappingNeg,
    /// `|x|` of a signed integer (exact) or a float.
    Abs,
    /// -1, 0 or 1 for a signed integer; for a float as `f32::signum`.
    Signum,
    /// A float function.
    Math(MathFn),
}

/// An operator with two arguments of one type, unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BinaryOp {
    /// Integer (exact) or float.
    Add,
    /// Integer (exact) or float.
    Sub,
    /// Integer (exact) or float.
    Mul,
    /// Integers truncate, a zero divisor is refused; floats are IEEE.
    Div,
    /// Sign of the dividend; a zero divisor is refused for integers.
    Rem,
    /// Floor division of integers.
    DivFloor,
    /// Remainder of floor division: sign of the divisor.
    RemFloor,
    /// Euclidean division of integers.
    DivEuclid,
    /// Euclidean remainder: never negative.
    RemEuclid,
    /// Integer power with a `u32` or `i32` exponent on the right that is not negative; exact.
    Pow,
    /// `f32` to an `i32` power.
    Powi,
    /// `f32` to an `f32` power.
    Powf,
    /// Modulo 2^bits.
    WrappingAdd,
    /// Modulo 2^bits.
    WrappingSub,
    /// Modulo 2^bits.
    WrappingMul,
    /// Integers, or `bool` (both sides evaluated).
    BitAnd,
    /// Integers, or `bool` (both sides evaluated).
    BitOr,
    /// Integers, or `bool`.
    BitXor,
    /// Bits shifted out are lost; the amount (any integer type) must be in `0..bits`.
    Shl,
    /// Arithmetic for signed types; the amount (any integer type) must be in `0..bits`.
    Shr,
    /// The smaller; of floats the one that is a number.
    Min,
    /// The greater; of floats the one that is a number.
    Max,
    /// Lazy: the right side is evaluated only where the left is true.
    And,
    /// Lazy: the right side is evaluated only where the left is false.
    Or,
    /// Equality of any type.
    Eq,
    /// Inequality of any type.
    Ne,
    /// Numbers.
    Lt,
    /// Numbers.
    Le,
    /// Numbers.
    Gt,
    /// Numbers.
    Ge,
}

impl BinaryOp {
    /// Whether the operator compares and gives `bool`.
    pub fn is_comparison(self) -> bool {
        match self {
            BinaryOp::Eq
            | BinaryOp::Ne
            | BinaryOp::Lt
            | BinaryOp::Le
            | BinaryOp::Gt
            | BinaryOp::Ge => true,
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
            | BinaryOp::BitAnd
            | BinaryOp::BitOr
            | BinaryOp::BitXor
            | BinaryOp::Shl
            | BinaryOp::Shr
            | BinaryOp::Min
            | BinaryOp::Max
            | BinaryOp::And
            | BinaryOp::Or => false,
        }
    }

    /// How the operator is written: a sign between, or the name of a function.
    pub fn symbol(self) -> &'static str {
        match self {
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::Mul => "*",
            BinaryOp::Div => "/",
            BinaryOp::Rem => "%",
            BinaryOp::DivFloor => "div_floor",
            BinaryOp::RemFloor => "rem_floor",
            BinaryOp::DivEuclid => "div_euclid",
            BinaryOp::RemEuclid => "rem_euclid",
            BinaryOp::Pow => "pow",
            BinaryOp::Powi => "powi",
            BinaryOp::Powf => "powf",
            BinaryOp::WrappingAdd => "wrapping_add",
            BinaryOp::WrappingSub => "wrapping_sub",
            BinaryOp::WrappingMul => "wrapping_mul",
            BinaryOp::BitAnd => "&",
            BinaryOp::BitOr => "|",
            BinaryOp::BitXor => "^",
            BinaryOp::Shl => "<<",
            BinaryOp::Shr => ">>",
            BinaryOp::Min => "min",
            BinaryOp::Max => "max",
            BinaryOp::And => "&&",
            BinaryOp::Or => "||",
            BinaryOp::Eq => "==",
            BinaryOp::Ne => "!=",
            BinaryOp::Lt => "<",
            BinaryOp::Le => "<=",
            BinaryOp::Gt => ">",
            BinaryOp::Ge => ">=",
        }
    }
}
