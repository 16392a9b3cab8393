//! Why a rule was not verified.

use maskwright_dsl::block_mask::{BlockMaskError, CallShape};
use maskwright_dsl::bucket::BucketError;
use maskwright_dsl::diagnostic::Diagnostics;
use maskwright_dsl::eval::EvalError;

use super::mismatch::MismatchReport;
use crate::jit::{EvaluatorError, JitError};

/// Why a rule was not verified; nothing of it may be cached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// Neither a mask nor a `score_mod` was given.
    #[error("expected a mask or a score_mod to verify, found neither")]
    NothingToVerify,
    /// The rule breaks the language's promises somewhere in the scope.
    #[error("rule {rule} is refused")]
    Refused {
        /// The rule.
        rule: String,
        /// Its faults.
        #[source]
        diagnostics: Diagnostics,
    },
    /// An engine does not do what the rule says.
    #[error("{0}")]
    Mismatch(Box<MismatchReport>),
    /// The rule could not be compiled.
    #[error("rule {rule} could not be compiled")]
    Jit {
        /// The rule.
        rule: String,
        /// The cause.
        source: JitError,
    },
    /// The compiled code could not be used for a call of the scope.
    #[error("the compiled rule cannot be used for a call of its scope")]
    Evaluator(#[from] EvaluatorError),
    /// The block mask could not be built.
    #[error("the block mask cannot be built")]
    BlockMask(#[from] BlockMaskError),
    /// The bucket holds no call.
    #[error("there is no call to verify")]
    Bucket(#[from] BucketError),
    /// A size of the scope is no `i32`, as every index and size of the language is.
    #[error("expected {what} of at most 2147483647, found {found}")]
    Size {
        /// Which size.
        what: &'static str,
        /// What was asked for.
        found: String,
    },
    /// The interpreter fails at a cell that the rule was validated for.
    #[error("rule {rule} fails at a cell of {shape}")]
    Interpreter {
        /// The rule.
        rule: String,
        /// The call.
        shape: CallShape,
        /// The failure.
        source: EvalError,
    },
    /// The author's own function panics at a cell of the scope.
    #[error(
        "the author's function of rule {rule} panics at {shape}, cell (b={b}, h={h}, q={q_idx}, kv={kv_idx}): {message}"
    )]
    AuthorPanicked {
        /// The rule.
        rule: String,
        /// The call.
        shape: CallShape,
        /// Batch index.
        b: u32,
        /// Query head index.
        h: u32,
        /// Position of the query.
        q_idx: i64,
        /// Position of the key.
        kv_idx: i64,
        /// What the panic says.
        message: String,
    },
    /// A kernel for GPUs could not be made, or the emulator found a fault in it.
    #[cfg(feature = "cuda")]
    #[error("kernels cannot be verified on {machine}")]
    Gpu {
        /// What was to run them.
        machine: String,
        /// The cause.
        source: Box<crate::cuda::KernelError>,
    },
    /// An attention engine or its reference could not be run.
    #[error("{engine} could not be run at {shape}")]
    Attention {
        /// The engine.
        engine: String,
        /// The call.
        shape: CallShape,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl From<Box<MismatchReport>> for VerifyError {
    fn from(report: Box<MismatchReport>) -> Self {
        VerifyError::Mismatch(report)
    }
}
