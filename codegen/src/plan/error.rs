//! Why a spec has no plan.

use crate::spec::{Float, Target, TileSize};

/// Why a spec has no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A head dimension that the kernels do not have.
    #[error("expected {axis} to be a multiple of 8 from 16 to 256, found {found}")]
    HeadDim {
        /// `d_qk` or `d_v`.
        axis: &'static str,
        /// The head dimension.
        found: u32,
    },
    /// An output that is neither of the type of the inputs nor `f32`.
    #[error("expected an output of {dtype} or f32, found {found}")]
    OutDtype {
        /// Type of the inputs.
        dtype: Float,
        /// Type of the output.
        found: Float,
    },
    /// A tile that the kernel cannot divide among its warps.
    #[error(
        "expected a tile of 64 or 128 rows by 16, 32, 64 or 128 keys, found {} by {}",
        found.q, found.kv
    )]
    TileShape {
        /// The tile.
        found: TileSize,
    },
    /// A tile whose scores and outputs do not fit into registers.
    #[error(
        "a tile of {} rows by {} keys keeps {needed} sums per thread, which is more than {limit}",
        tile.q, tile.kv
    )]
    Registers {
        /// The tile.
        tile: TileSize,
        /// Sums of a thread: scores of the tile, and outputs.
        needed: u32,
        /// The most that fit.
        limit: u32,
    },
    /// A tile that does not fit into shared memory.
    #[error(
        "a tile of {} rows by {} keys takes {needed} bytes of shared memory, {target} has {limit}",
        tile.q, tile.kv
    )]
    SharedMemory {
        /// The tile.
        tile: TileSize,
        /// The GPU.
        target: Target,
        /// Bytes that the tile takes.
        needed: u32,
        /// Bytes that a block of threads can have.
        limit: u32,
    },
    /// The two rules were handed over in each other's place.
    #[error("expected a {expected}, found the rule `{name}`")]
    Kind {
        /// `mask` or `score_mod`.
        expected: &'static str,
        /// The rule.
        name: String,
    },
}
