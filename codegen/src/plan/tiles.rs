//! Which tile a kernel computes at a time, by element size and head dimension.

use super::pressure::Pressure;
use crate::spec::{Float, Target};

/// How a kernel is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tiling {
    /// The greatest head dimension that the row of the table is for.
    pub(super) up_to: u32,
    /// The greatest pressure that it is for.
    pub(super) most: Pressure,
    /// Query rows.
    pub(super) q: u32,
    /// Keys.
    pub(super) kv: u32,
    /// Warps of a block, which share the rows.
    pub(super) warps: u32,
    /// Tiles of `K` and of `V` that are under way or in use.
    pub(super) stages: u32,
    /// Blocks that the registers leave room for on one multiprocessor.
    pub(super) min_blocks: u32,
}

/// Sums per thread, of scores and of outputs, that leave room for everything else among 255 registers.
pub(super) const MAX_SUMS: u32 = 192;

/// Shared memory that every GPU from `sm_80` on offers a block of threads.
pub(super) const SHARED_ANYWHERE: u32 = 99 * 1024;

// With 32 rows a warp, each load of K and V from shared memory feeds two products instead of one. Where the sums of 32 rows
// do not fit into registers, a warp has 16 rows, and shared memory is what bounds it. No row takes more than SHARED_ANYWHERE,
// and none spills registers on sm_80 or sm_90a with a rule of its pressure.
const HALVES: &[Tiling] = &[
    // 48 KiB at 64, with both stages: two blocks a multiprocessor even on the GPUs with the least shared memory.
    Tiling {
        up_to: 64,
        most: Pressure::Values,
        q: 128,
        kv: 64,
        warps: 4,
        stages: 2,
        min_blocks: 2,
    },
    // 32 KiB at 64.
    Tiling {
        up_to: 64,
        most: Pressure::Loads,
        q: 128,
        kv: 32,
        warps: 4,
        stages: 2,
        min_blocks: 2,
    },
    // 48 KiB at 96. With 64 keys, a causal mask alone would spill.
    Tiling {
        up_to: 96,
        most: Pressure::Values,
        q: 128,
        kv: 32,
        warps: 4,
        stages: 2,
        min_blocks: 2,
    },
    // 64 KiB at 128, where all but the simplest rules would spill.
    Tiling {
        up_to: 128,
        most: Pressure::Low,
        q: 128,
        kv: 32,
        warps: 4,
        stages: 2,
        min_blocks: 2,
    },
    // 48 KiB at 128: two blocks, which hide each other's softmax, are worth more than a second stage.
    Tiling {
        up_to: 128,
        most: Pressure::Values,
        q: 64,
        kv: 64,
        warps: 4,
        stages: 1,
        min_blocks: 2,
    },
    // 48 KiB at 128.
    Tiling {
        up_to: 128,
        most: Pressure::Loads,
        q: 64,
        kv: 32,
        warps: 4,
        stages: 2,
        min_blocks: 2,
    },
    // 96 KiB at 192: one block, so it has eight warps.
    Tiling {
        up_to: 192,
        most: Pressure::Values,
        q: 128,
        kv: 64,
        warps: 8,
        stages: 1,
        min_blocks: 1,
    },
    // 96 KiB at 256, a third of them for 64 rows of Q.
    Tiling {
        up_to: 256,
        most: Pressure::Values,
        q: 64,
        kv: 64,
        warps: 4,
        stages: 1,
        min_blocks: 1,
    },
    // 48 KiB at 256.
    Tiling {
        up_to: 256,
        most: Pressure::Loads,
        q: 64,
        kv: 16,
        warps: 4,
        stages: 1,
        min_blocks: 2,
    },
];

// Floats take twice the memory, and every load of K and V is split into two parts, which 32 rows a warp make half as often.
const FLOATS: &[Tiling] = &[
    // 66 KiB at 64. Sixty-four keys would leave hardly a register to the rule.
    Tiling {
        up_to: 64,
        most: Pressure::Values,
        q: 128,
        kv: 32,
        warps: 4,
        stages: 2,
        min_blocks: 1,
    },
    // 97 KiB at 128.
    Tiling {
        up_to: 128,
        most: Pressure::Values,
        q: 128,
        kv: 32,
        warps: 4,
        stages: 1,
        min_blocks: 1,
    },
    // 65 KiB at 128.
    Tiling {
        up_to: 128,
        most: Pressure::Loads,
        q: 64,
        kv: 32,
        warps: 4,
        stages: 1,
        min_blocks: 1,
    },
    // 97 KiB at 192.
    Tiling {
        up_to: 192,
        most: Pressure::Values,
        q: 64,
        kv: 32,
        warps: 4,
        stages: 1,
        min_blocks: 1,
    },
    // 97 KiB at 256.
    Tiling {
        up_to: 256,
        most: Pressure::Loads,
        q: 64,
        kv: 16,
        warps: 4,
        stages: 1,
        min_blocks: 1,
    },
];

/// The first row of the table that is for a greatest head dimension, of up to 256, and for the rules of a kernel.
pub(super) fn tiling(dtype: Float, d: u32, pressure: Pressure) -> Tiling {
    let table = match dtype {
        Float::F16 | Float::BF16 => HALVES,
        Float::F32 => FLOATS,
    };
    *table
        .iter()
        .find(|row| d <= row.up_to && pressure <= row.most)
        .expect("the tables end at the greatest head dimension and pressure")
}

/// Shared memory that a block of threads can have.
pub(super) fn shared_limit(target: Target) -> u32 {
    match (target.major, target.minor) {
        (8, 0 | 7) => 163 * 1024,
        (9..=11, _) => 227 * 1024,
        _ => SHARED_ANYWHERE,
    }
}
