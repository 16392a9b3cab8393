//! The plan of the forward kernel.

use maskwright_dsl::ir::RuleKind;
use maskwright_dsl::pipeline::Prepared;

use super::error::PlanError;
use super::params::{ParamLayout, ParamType, ParamValue, Tensor};
use super::pressure::Pressure;
use super::shared::Shared;
use super::tiles::{MAX_SUMS, SHARED_ANYWHERE, Tiling, shared_limit, tiling};
use crate::spec::{Float, KernelSpec, TileSize};

/// A kernel as data: whatever its template asks has its answer here.
///
/// # Shapes
/// A block of threads computes `tile.q` rows of one query head of one batch entry, and there is one for each tile of rows:
/// `ceil(q_len / tile.q) * num_q_heads * batch` blocks, all along the first axis of the grid, which has room for 2^31 - 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelPlan {
    /// What the kernel is made for.
    pub spec: KernelSpec,
    /// Rows and keys that are computed at a time.
    pub tile: TileSize,
    /// Warps of a block.
    pub warps: u32,
    /// Fragments of 16 rows that a warp computes.
    pub row_blocks: u32,
    /// Tiles of `K`, and of `V`, that shared memory holds.
    pub stages: u32,
    /// Blocks that the registers leave room for on one multiprocessor.
    pub min_blocks: u32,
    /// Where tiles lie in shared memory.
    pub shared: Shared,
    /// Whether a rule says which cells are attended.
    pub has_mask: bool,
    /// Whether a rule changes the scores.
    pub has_score: bool,
    /// The parameters but those of the rules, which come behind them.
    pub params: ParamLayout,
}

impl KernelPlan {
    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        self.warps * 32
    }
}

/// Plans the kernel of a spec and its rules.
///
/// # Errors
/// [`PlanError`] if the spec is not one that kernels exist for, or asks for a tile that does not fit.
pub fn plan(
    spec: &KernelSpec,
    mask: Option<&Prepared>,
    score: Option<&Prepared>,
) -> Result<KernelPlan, PlanError> {
    for (axis, found) in [("d_qk", spec.d_qk), ("d_v", spec.d_v)] {
        if !(16..=256).contains(&found) || !found.is_multiple_of(8) {
            return Err(PlanError::HeadDim { axis, found });
        }
    }
    if spec.out_dtype != spec.dtype && spec.out_dtype != Float::F32 {
        return Err(PlanError::OutDtype {
            dtype: spec.dtype,
            found: spec.out_dtype,
        });
    }
    kind(mask, RuleKind::Mask, "mask")?;
    kind(score, RuleKind::Score, "score_mod")?;
    let tiling = if let Some(tile) = spec.tile {
        asked_for(spec, tile)?
    } else {
        let d = spec.d_qk.max(spec.d_v);
        tiling(spec.dtype, d, Pressure::of(spec.target, mask, score))
    };
    Ok(KernelPlan {
        spec: *spec,
        tile: TileSize {
            q: tiling.q,
            kv: tiling.kv,
        },
        warps: tiling.warps,
        row_blocks: tiling.q / tiling.warps / 16,
        stages: tiling.stages,
        min_blocks: tiling.min_blocks,
        shared: shared(spec, &tiling),
        has_mask: mask.is_some(),
        has_score: score.is_some(),
        params: params(),
    })
}

/// Checks that a rule is of the kind that its place is for.
fn kind(rule: Option<&Prepared>, kind: RuleKind, expected: &'static str) -> Result<(), PlanError> {
    match rule {
        Some(rule) if rule.rule().kind != kind => Err(PlanError::Kind {
            expected,
            name: rule.rule().name.clone(),
        }),
        Some(_) | None => Ok(()),
    }
}

fn shared(spec: &KernelSpec, tiling: &Tiling) -> Shared {
    Shared::new(
        spec.dtype,
        (tiling.q, tiling.kv),
        (spec.d_qk, spec.d_v),
        tiling.stages,
    )
}

/// Sums that a thread keeps: its part of the scores of a tile, and of the outputs.
fn sums(spec: &KernelSpec, tiling: &Tiling) -> u32 {
    let per_row = tiling.kv + spec.d_v.next_multiple_of(16);
    tiling.q * per_row / (tiling.warps * 32)
}

/// Divides a tile that the spec asks for.
fn asked_for(spec: &KernelSpec, tile: TileSize) -> Result<Tiling, PlanError> {
    if !matches!(tile.q, 64 | 128) || !matches!(tile.kv, 16 | 32 | 64 | 128) {
        return Err(PlanError::TileShape { found: tile });
    }
    let mut tiling = Tiling {
        up_to: 256,
        most: Pressure::Loads,
        q: tile.q,
        kv: tile.kv,
        warps: 4,
        stages: 2,
        min_blocks: 1,
    };
    if MAX_SUMS < sums(spec, &tiling) {
        // Sixteen rows a warp instead of 32.
        tiling.warps = tile.q / 16;
    }
    let needed = sums(spec, &tiling);
    if MAX_SUMS < needed {
        return Err(PlanError::Registers {
            tile,
            needed,
            limit: MAX_SUMS,
        });
    }
    let limit = shared_limit(spec.target);
    if SHARED_ANYWHERE < shared(spec, &tiling).bytes {
        tiling.stages = 1;
    }
    let needed = shared(spec, &tiling).bytes;
    if limit < needed {
        return Err(PlanError::SharedMemory {
            tile,
            target: spec.target,
            needed,
            limit,
        });
    }
    Ok(tiling)
}

/// The parameters of every forward kernel.
fn params() -> ParamLayout {
    use ParamType::{F32, I32, I64, Pointer, U32};
    let mut layout = ParamLayout::default();
    let tensors = [
        ("q", "const Element", Tensor::Q),
        ("k", "const Element", Tensor::K),
        ("v", "const Element", Tensor::V),
        ("out", "Output", Tensor::Out),
    ];
    for (name, ty, tensor) in tensors {
        layout.push(name, Pointer(ty), ParamValue::Address(tensor));
    }
    for (name, _, tensor) in tensors {
        for (axis, what) in ["batch", "head", "row"].into_iter().enumerate() {
            let value = ParamValue::Stride(tensor, axis);
            layout.push(format!("{name}_{what}_stride"), I64, value);
        }
    }
    for (name, ty, value) in [
        ("lse", Pointer("float"), ParamValue::Lse),
        ("row_max", Pointer("float"), ParamValue::RowMax),
        ("plane_of", Pointer("const unsigned"), ParamValue::PlaneOf),
        ("row_start", Pointer("const unsigned"), ParamValue::RowStart),
        ("runs", Pointer("const uint2"), ParamValue::Runs),
        ("plane_batch_stride", U32, ParamValue::PlaneBatchStride),
        ("plane_head_stride", U32, ParamValue::PlaneHeadStride),
        ("mask_rows", U32, ParamValue::MaskRows),
        ("tiles_per_row", U32, ParamValue::TilesPerRow),
        ("q_len", I32, ParamValue::QLen),
        ("kv_len", I32, ParamValue::KvLen),
        ("rule_kv_len", I32, ParamValue::RuleKvLen),
        ("batch", I32, ParamValue::Batch),
        ("num_q_heads", I32, ParamValue::NumQHeads),
        ("group", U32, ParamValue::Group),
        ("q_offset", I32, ParamValue::QOffset),
        ("kv_offset", I32, ParamValue::KvOffset),
        ("b_offset", I32, ParamValue::BOffset),
        ("h_offset", I32, ParamValue::HOffset),
        ("sm_scale", F32, ParamValue::SmScale),
    ] {
        layout.push(name, ty, value);
    }
    layout
}
