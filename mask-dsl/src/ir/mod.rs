//! The typed, hash-consed expression arena that every stage reads: plain data, no behaviour.

mod arena;
mod encode;
mod op;
mod print;
mod rule;
mod ty;

pub use arena::{Arena, Expr, ExprId, Replacement, Span, TypeError};
pub use encode::{DecodeError, decode, encode};
pub use op::{BinaryOp, MathFn, UnaryOp, Var};
pub use rule::{
    CaptureDecl, CaptureId, CaptureKind, DimDecl, DimId, Extent, Rule, RuleKind, Source,
};
pub use ty::{Const, Elem, Ty};
