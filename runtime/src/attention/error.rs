//! Why rules could not be compiled, and why attention could not be computed.

use maskwright_cpu::CpuError;
use maskwright_dsl::block_mask::{BlockMaskError, CallShape, Geometry};
use maskwright_dsl::bucket::BucketError;
use maskwright_dsl::diagnostic::Diagnostics;
use maskwright_dsl::eval::{EvalError, Point};
use maskwright_dsl::ir::Ty;

use super::dispatch::{Backend, Refusal};
use crate::tensor::Dtype;

/// Why rules could not be compiled for a scope.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// A rule breaks a promise of the language somewhere in the scope.
    #[error(transparent)]
    Refused(#[from] Diagnostics),
    /// The bucket has no member.
    #[error("the bucket of the scope holds no call")]
    Bucket(#[from] BucketError),
    /// Positions and sizes are `i32` in rules.
    #[error(
        "{axis} reaches {found} in this scope, but positions and sizes end at {}",
        i32::MAX
    )]
    TooLong {
        /// Which size.
        axis: &'static str,
        /// Its greatest value, or the one that is out of range.
        found: i128,
    },
    /// The machine code of a rule could not be made.
    #[cfg(feature = "cranelift")]
    #[error("the rule has no machine code")]
    Jit(#[from] crate::jit::JitError),
    /// New values were given for another rule than the one that was compiled.
    #[error("expected values for {expected}, found {found}")]
    OtherRule {
        /// The rule that was compiled.
        expected: String,
        /// The rule that was given.
        found: String,
    },
}

/// Why attention could not be computed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttentionError {
    /// The tensors do not fit one another, or a view leaves its data.
    #[error(transparent)]
    Shape(#[from] CpuError),
    /// A tensor does not have four dimensions.
    #[error("expected a tensor [batch, heads, length, head_dim], found shape {found:?}")]
    Rank {
        /// Its shape.
        found: Vec<usize>,
    },
    /// A tensor's elements are not floats.
    #[error("expected elements of type f32, f16, bf16 or f64, found {found}")]
    Dtype {
        /// Their type.
        found: Dtype,
    },
    /// The output is neither of the queries' type nor `f32`.
    #[error("out must be {}, found {out}", outputs_of(*.q))]
    OutputDtype {
        /// Element type of `q`.
        q: Dtype,
        /// Element type of `out`.
        out: Dtype,
    },
    /// Positions and sizes are `i32` in rules.
    #[error("{axis} is {found}, but positions and sizes end at {}", i32::MAX)]
    TooLong {
        /// Which size.
        axis: &'static str,
        /// What was found.
        found: usize,
    },
    /// Queries have positions that no `i32` holds.
    #[error("queries {q_offset}..{} leave the positions of an i32", i128::from(*.q_offset) + *.q_len as i128)]
    Positions {
        /// Position of the first query.
        q_offset: i64,
        /// Query rows.
        q_len: usize,
    },
    /// The scale of the scores is not a number to multiply by.
    #[error("sm_scale must be finite, found {found}")]
    Scale {
        /// What was given.
        found: f32,
    },
    /// The rules could not be compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The block mask could not be built, or does not hold for the call.
    #[error(transparent)]
    BlockMask(#[from] BlockMaskError),
    /// A mask with one batch entry or head serves any number of them only if the rule is the same for all.
    #[error(
        "a mask built for {built} has one {axis} entry, which cannot serve a call of {call}, since rule {rule} reads \
         `{var}`"
    )]
    Broadcast {
        /// `batch` or `head`.
        axis: &'static str,
        /// `b` or `h`.
        var: &'static str,
        /// The rule.
        rule: String,
        /// Shape of the mask.
        built: Box<Geometry>,
        /// Shape of the call.
        call: Box<CallShape>,
    },
    /// The classes of a block mask say what a rule does, but there is none to ask within partial blocks.
    #[error(
        "a mask built for {built} has blocks that are not full, but the rules have no mask that says which cells; give \
         the rule, or make a mask whose lists are the law"
    )]
    NoMaskRule {
        /// Shape of the mask.
        built: Box<Geometry>,
    },
    /// The block mask was built from another rule, or from other captured values.
    #[error(
        "the block mask was built for another rule than {rule}, or for other captured values: build it from the kernel \
         that runs, or make a mask whose lists are the law"
    )]
    OtherMask {
        /// The mask rule of the call.
        rule: String,
    },
    /// The proofs of a rule do not cover the call.
    #[error(
        "rule {rule} was prepared for {scope}, which does not cover a call of {call}: {reason}"
    )]
    OutOfScope {
        /// The rule.
        rule: String,
        /// What it was prepared for.
        scope: String,
        /// Shape of the call.
        call: Box<CallShape>,
        /// Which part of the call.
        reason: &'static str,
    },
    /// A GPU, or the emulator in its place, could not do it.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Cuda(Box<crate::cuda::KernelError>),
    /// No kernel of the backend that was asked for can run.
    #[error("backend {asked} cannot run: {}", join(.refusals))]
    NoBackend {
        /// What was asked for.
        asked: Backend,
        /// Every candidate, with its reason.
        refusals: Vec<Refusal>,
    },
    /// The law of a rule has no value at a cell.
    #[error(
        "rule {rule} has no value at b={}, h={}, q={}, kv={}", .point.b, .point.h, .point.q_idx, .point.kv_idx
    )]
    Law {
        /// The rule.
        rule: String,
        /// The cell.
        point: Point,
        /// What went wrong there.
        #[source]
        source: EvalError,
    },
    /// The author's own function gave a value of another type than the rule.
    #[error("the function behind rule {rule} gave a value of type {found}, expected {expected}")]
    LawType {
        /// The rule.
        rule: String,
        /// `bool` of a mask, `f32` of a score rule.
        expected: Ty,
        /// What it gave.
        found: Ty,
    },
}

#[cfg(feature = "cuda")]
impl From<crate::cuda::KernelError> for AttentionError {
    fn from(error: crate::cuda::KernelError) -> Self {
        Self::Cuda(Box::new(error))
    }
}

fn outputs_of(q: Dtype) -> String {
    match q {
        Dtype::F16 | Dtype::BF16 => format!("{q} like q, or f32"),
        Dtype::F32
        | Dtype::F64
        | Dtype::Bool
        | Dtype::I8
        | Dtype::U8
        | Dtype::I16
        | Dtype::U16
        | Dtype::I32
        | Dtype::U32
        | Dtype::I64
        | Dtype::U64 => "f32".to_owned(),
    }
}

fn join(refusals: &[Refusal]) -> String {
    let lines: Vec<String> = refusals.iter().map(ToString::to_string).collect();
    lines.join("; ")
}
