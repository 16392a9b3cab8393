//! Why a request cannot be computed: one variant per cause, with what was expected and found.

use crate::tensor::DType;

/// Why the engine refused a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CpuError {
    /// A view reaches elements that its slice does not hold.
    #[error(
        "view of shape {shape:?} with strides {strides:?} at offset {offset} reaches elements \
         {lowest}..={highest}, but the data holds {len}"
    )]
    ViewOutOfBounds {
        /// The view's extents.
        shape: [usize; 4],
        /// The view's strides, in elements.
        strides: [isize; 4],
        /// Index of the view's first element.
        offset: usize,
        /// The lowest index reached, saturated.
        lowest: i64,
        /// The highest index reached, saturated.
        highest: i64,
        /// Elements in the slice.
        len: usize,
    },
    /// The tensors disagree about the batch size.
    #[error("q, k and v must have the same batch size, found {q}, {k} and {v}")]
    BatchMismatch {
        /// Batch size of `q`.
        q: usize,
        /// Batch size of `k`.
        k: usize,
        /// Batch size of `v`.
        v: usize,
    },
    /// `k` and `v` have different numbers of heads.
    #[error("k and v must have the same number of heads, found {k} and {v}")]
    KvHeadMismatch {
        /// Heads of `k`.
        k: usize,
        /// Heads of `v`.
        v: usize,
    },
    /// The query heads do not divide into groups, one per key head.
    #[error(
        "the number of query heads must be a multiple of the number of kv heads, found \
         {num_q_heads} query heads and {num_kv_heads} kv heads"
    )]
    HeadRatio {
        /// Query heads.
        num_q_heads: usize,
        /// Key and value heads.
        num_kv_heads: usize,
    },
    /// `k` and `v` have different lengths.
    #[error("k and v must have the same length, found {k} and {v}")]
    KvLenMismatch {
        /// Length of `k`.
        k: usize,
        /// Length of `v`.
        v: usize,
    },
    /// `q` and `k` have different head dimensions.
    #[error("q and k must have the same head dimension, found {q} and {k}")]
    HeadDimMismatch {
        /// Head dimension of `q`.
        q: usize,
        /// Head dimension of `k`.
        k: usize,
    },
    /// A head dimension is 0.
    #[error("head dimensions must be at least 1, found {qk} for q and k, {v} for v")]
    ZeroHeadDim {
        /// Head dimension of `q` and `k`.
        qk: usize,
        /// Head dimension of `v`.
        v: usize,
    },
    /// An output slice has the wrong length.
    #[error("{name} must hold {expected} elements, found {found}")]
    OutputLen {
        /// Which output: `out`, `lse` or `row_max`.
        name: &'static str,
        /// Elements needed.
        expected: u128,
        /// Elements given.
        found: usize,
    },
    /// The output is neither of the queries' type nor f32.
    #[error("out must be {q} like q, or f32, found {out}")]
    OutputDType {
        /// Element type of `q`.
        q: DType,
        /// Element type of `out`.
        out: DType,
    },
    /// A mask block has no cells.
    #[error("mask blocks must be at least 1 x 1, found {q_block} x {kv_block}")]
    ZeroBlock {
        /// Queries per mask block.
        q_block: usize,
        /// Keys per mask block.
        kv_block: usize,
    },
    /// The runs of a block row overlap or are not ascending.
    #[error(
        "runs of batch {b}, head {h}, block row {row} must ascend without overlap: a run starts at \
         block {first}, before {previous_end}, the end of the one before it"
    )]
    RunOrder {
        /// Batch index.
        b: usize,
        /// Query head.
        h: usize,
        /// Block row.
        row: usize,
        /// First block of the run at fault.
        first: u64,
        /// One past the last block of the run before it.
        previous_end: u64,
    },
    /// `MASKWRIGHT_MICRO` names no micro-kernel.
    #[error("MASKWRIGHT_MICRO must be `portable` or `avx2`, found `{found}`")]
    UnknownMicro {
        /// The variable's value.
        found: String,
    },
    /// A micro-kernel was demanded that this processor cannot run.
    #[error("micro-kernel `{micro}` needs {needs}, which this processor does not offer")]
    MicroUnavailable {
        /// The micro-kernel's name.
        micro: &'static str,
        /// The missing features.
        needs: &'static str,
    },
}
