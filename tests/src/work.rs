//! What a forward kernel must have executed, by its plan and the tiles that it computed.

use maskwright::LaunchRecord;
use maskwright::cuda::{Counters, Float};
use maskwright_codegen::plan::{KernelPlan, SharedTile};

/// Products of tensor cores, `mma.sync` by warp, that one tile costs.
pub fn products_of_tile(plan: &KernelPlan) -> u64 {
    u64::from(plan.warps * products_of_warp(plan))
}

/// Products of tensor cores that a warp makes of one tile, which are all that the text has: its loop is written once.
pub fn products_of_warp(plan: &KernelPlan) -> u32 {
    let KernelPlan { spec, tile, .. } = plan;
    // S takes 32 bytes of Q and K at a time; P and V are 16 keys at a time of half precision, 8 of floats. Columns that pad
    // V are no output, so the compiler drops their products.
    let of_scores = plan.shared.k.chunks / 2 * (tile.kv / 8);
    let keys_at_once = match spec.dtype {
        Float::F16 | Float::BF16 => 16,
        Float::F32 => 8,
    };
    let of_values = tile.kv / keys_at_once * (spec.d_v / 8);
    // A float is two numbers of TF32, and the product of the two low ones is left out.
    let parts = match spec.dtype {
        Float::F16 | Float::BF16 => 1,
        Float::F32 => 3,
    };
    parts * plan.row_blocks * (of_scores + of_values)
}

/// Loads of matrices, `ldmatrix` by warp, that a warp makes of one tile.
pub fn matrix_loads_of_warp(plan: &KernelPlan) -> u32 {
    let KernelPlan { spec, tile, .. } = plan;
    let of_k = plan.shared.k.chunks / 2 * (tile.kv / 16);
    let of_q = plan.shared.k.chunks / 2 * plan.row_blocks;
    let of_v = match spec.dtype {
        Float::F16 | Float::BF16 => tile.kv / 16 * (spec.d_v.div_ceil(16)),
        Float::F32 => 0,
    };
    of_k + of_q + of_v
}

/// Asynchronous copies that a warp makes of one tile in shared memory.
pub fn copies_of_warp(plan: &KernelPlan, tile: &SharedTile) -> u32 {
    let rows_at_once = plan.threads() / tile.lanes;
    assert!(
        tile.rows.is_multiple_of(rows_at_once),
        "all threads copy equally much"
    );
    tile.rows / rows_at_once * (tile.chunks / tile.lanes)
}

/// Checks that the tensor cores did the work of the tiles of a record, and no more.
///
/// # Errors
/// Both numbers where they differ.
pub fn check_products(
    plan: &KernelPlan,
    record: &LaunchRecord,
    counters: Option<&Counters>,
) -> Result<(), String> {
    let tiles = record.tiles.full + record.tiles.partial;
    let expected = tiles * products_of_tile(plan);
    let found = counters.map_or(0, |counters| counters.tensor.mma);
    if expected == found {
        return Ok(());
    }
    Err(format!(
        "{tiles} tiles are {expected} products of tensor cores, found {found}"
    ))
}

/// Executions of instructions whose name begins so.
pub fn executed(counters: &Counters, prefix: &str) -> u64 {
    let kinds = counters.by_kind.iter();
    kinds
        .filter(|(name, _)| name.starts_with(prefix))
        .map(|(_, n)| n)
        .sum()
}
