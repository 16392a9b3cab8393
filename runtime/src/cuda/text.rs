//! A kernel before it is compiled: its plan, with a tile that goes with the mask, and its text.

use std::fmt::Write as _;

use maskwright_codegen::back::cuda::{CudaSource, emit_forward};
use maskwright_codegen::plan::{KernelPlan, PlanError, plan};
use maskwright_codegen::spec::{Float, KernelKind, KernelSpec, Target, TileSize};
use maskwright_dsl::block_mask::{Authority, BlockMask, BlockSize};
use maskwright_dsl::pipeline::Prepared;

use super::error::KernelError;
use super::tile_runs::{TileError, check_tile};

/// What a kernel is to be made for, beside its rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KernelShape {
    /// Element type of `q`, `k` and `v`.
    pub dtype: Float,
    /// Element type of the output: that of the inputs, or `f32`.
    pub out_dtype: Float,
    /// Head dimension of queries and keys.
    pub d_qk: u32,
    /// Head dimension of values.
    pub d_v: u32,
    /// The masks that it will be used with; `None` for calls without any.
    pub blocks: Option<MaskBlocks>,
}

/// What a kernel must know of the masks that it is used with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MaskBlocks {
    /// Rows and columns of a block.
    pub block: BlockSize,
    /// Whether their lists are the law: then a tile lies within one block.
    pub authority: Authority,
}

impl MaskBlocks {
    /// Those of a mask.
    pub fn of(mask: &BlockMask) -> Self {
        Self {
            block: mask.block(),
            authority: mask.authority(),
        }
    }

    fn check(self, tile: TileSize) -> Result<(), TileError> {
        let Self { block, authority } = self;
        check_tile(tile, block)?;
        match authority {
            Authority::Rule => Ok(()),
            Authority::Lists if tile.q <= block.q && tile.kv <= block.kv => Ok(()),
            Authority::Lists => Err(TileError::CoversLaw { tile, block }),
        }
    }
}

/// Tiles that are tried where the planner's own does not go with a mask, the best first.
const TILES: [(u32, u32); 8] = [
    (128, 64),
    (64, 64),
    (128, 128),
    (64, 128),
    (128, 32),
    (64, 32),
    (128, 16),
    (64, 16),
];

/// A kernel as text, for one target.
#[derive(Clone, Debug)]
pub struct KernelText {
    plan: KernelPlan,
    source: CudaSource,
    rules: Vec<RuleIdentity>,
}

impl KernelText {
    /// Plans a kernel and writes its text.
    ///
    /// The tile is the planner's own if it goes with the mask's blocks, and else the first that does.
    ///
    /// # Errors
    /// [`KernelError::Plan`], [`KernelError::Tile`] or [`KernelError::Emit`].
    pub fn new(
        mask: Option<&Prepared>,
        score: Option<&Prepared>,
        shape: &KernelShape,
        target: Target,
    ) -> Result<Self, KernelError> {
        let plan = plan_for(mask, score, shape, target)?;
        let source = emit_forward(&plan, mask, score)?;
        let rules = [("mask", mask), ("score", score)];
        let rules = rules
            .into_iter()
            .filter_map(|(role, prepared)| Some(RuleIdentity::of(role, prepared?)));
        Ok(Self {
            plan,
            source,
            rules: rules.collect(),
        })
    }

    /// The plan.
    pub fn plan(&self) -> &KernelPlan {
        &self.plan
    }

    /// The text, with what a launch must know.
    pub fn source(&self) -> &CudaSource {
        &self.source
    }

    pub(crate) fn unit(&self) -> Unit<'_> {
        Unit {
            name: self.name(),
            target: self.plan.spec.target,
            // All of its fields, also those that a later version adds.
            spec: format!("{:?}", self.plan.spec),
            source: &self.source,
            rules: &self.rules,
        }
    }

    /// The kernel with its tile, types and target, as records name it.
    pub fn name(&self) -> String {
        let KernelPlan { spec, tile, .. } = &self.plan;
        let mut name = format!(
            "{} {}x{} {}",
            self.source.entry, tile.q, tile.kv, spec.dtype
        );
        if spec.out_dtype != spec.dtype {
            let _ = write!(name, " to {}", spec.out_dtype);
        }
        let _ = write!(name, " d{}", spec.d_qk);
        if spec.d_v != spec.d_qk {
            let _ = write!(name, ",{}", spec.d_v);
        }
        let _ = write!(name, " {}", spec.target);
        name
    }
}

/// A text to be compiled, with what its key is made of.
pub(crate) struct Unit<'a> {
    pub(crate) name: String,
    pub(crate) target: Target,
    pub(crate) spec: String,
    pub(crate) source: &'a CudaSource,
    pub(crate) rules: &'a [RuleIdentity],
}

impl Unit<'_> {
    /// The rules by name.
    pub(crate) fn rule_names(&self) -> String {
        if self.rules.is_empty() {
            return "no rules".to_owned();
        }
        let names: Vec<&str> = self.rules.iter().map(|rule| rule.name.as_str()).collect();
        names.join(" with ")
    }
}

/// A rule that a kernel computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuleIdentity {
    pub(crate) role: &'static str,
    pub(crate) name: String,
    pub(crate) identity: [u8; 32],
}

impl RuleIdentity {
    pub(crate) fn of(role: &'static str, prepared: &Prepared) -> Self {
        let rule = prepared.rule();
        Self {
            role,
            name: rule.name.clone(),
            identity: rule.identity(),
        }
    }
}

/// Plans a kernel whose tile goes with the mask's blocks.
pub(super) fn plan_for(
    mask: Option<&Prepared>,
    score: Option<&Prepared>,
    shape: &KernelShape,
    target: Target,
) -> Result<KernelPlan, KernelError> {
    let spec = |tile| KernelSpec {
        kind: KernelKind::Forward,
        target,
        dtype: shape.dtype,
        out_dtype: shape.out_dtype,
        d_qk: shape.d_qk,
        d_v: shape.d_v,
        tile,
    };
    let chosen = plan(&spec(None), mask, score)?;
    let Some(blocks) = shape.blocks else {
        return Ok(chosen);
    };
    let Err(fault) = blocks.check(chosen.tile) else {
        return Ok(chosen);
    };
    for (q, kv) in TILES {
        let tile = TileSize { q, kv };
        if blocks.check(tile).is_err() {
            continue;
        }
        match plan(&spec(Some(tile)), mask, score) {
            Ok(plan) => return Ok(plan),
            // Another may fit into registers and shared memory.
            Err(
                PlanError::TileShape { .. }
                | PlanError::Registers { .. }
                | PlanError::SharedMemory { .. },
            ) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(fault.into())
}
