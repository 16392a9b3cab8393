//! What a rule means: the scalar interpreter is the law that every engine is compared with.

mod row;
pub(crate) mod scalar;

pub use row::{RowEvaluator, RowMask};
pub use scalar::{EvalError, EvalErrorKind, ScalarEvaluator};
pub(crate) use scalar::{binary, cast, clamp, unary};

/// The sizes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Batch rows.
    pub batch: i32,
    /// Query heads.
    pub num_q_heads: i32,
    /// Query rows of the call.
    pub q_len: i32,
    /// Keys there are.
    pub kv_len: i32,
}

/// One cell of the score matrix, in absolute positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Batch index.
    pub b: i32,
    /// Query head index.
    pub h: i32,
    /// `q_offset + row`.
    pub q_idx: i32,
    /// Position of the key.
    pub kv_idx: i32,
    /// The score after `sm_scale`; a mask does not read it.
    pub score: f32,
}
