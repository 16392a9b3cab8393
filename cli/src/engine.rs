//! A prepared rule with its machine code, or the interpreter where that is asked for.

use std::sync::Arc;

use maskwright::jit::{BoundEvaluator, CompiledRule};
use maskwright::{BoundRule, MaskRule};
use maskwright_dsl::block_mask::{BlockMask, BlockSize, BuildStats, MaskEvaluator};
use maskwright_dsl::eval::{RowMask, Sizes};
use maskwright_dsl::ir::RuleKind;
use maskwright_dsl::pipeline::{Prepared, Scope, prepare};

use crate::args::BackendArg;
use crate::error::CliError;

/// Evaluates the cells of a mask at the longest lengths of its scope.
pub(crate) enum MaskEngine {
    Compiled(BoundEvaluator),
    Interpreted(Box<RowMask>),
}

impl MaskEngine {
    /// Compiles a prepared mask, unless the reference is asked for.
    pub(crate) fn new(prepared: &Prepared, backend: BackendArg) -> Result<Self, CliError> {
        match backend {
            BackendArg::Auto | BackendArg::Cpu => {
                let compiled = Arc::new(CompiledRule::compile(prepared)?);
                let sizes = longest(prepared.scope());
                Ok(Self::Compiled(BoundEvaluator::new(
                    compiled, prepared, sizes,
                )?))
            }
            BackendArg::Reference => Ok(Self::Interpreted(Box::new(RowMask::of(prepared)))),
            BackendArg::Cuda => Err(CliError::NoBlocksThere { found: "cuda" }),
            BackendArg::Emulator => Err(CliError::NoBlocksThere { found: "emulator" }),
        }
    }
}

impl MaskEvaluator for MaskEngine {
    fn tile(
        &self,
        b: u32,
        h: u32,
        q0: i64,
        n_q: usize,
        kv0: i64,
        n_kv: usize,
        bits: &mut [u64],
        words_per_row: usize,
    ) {
        match self {
            Self::Compiled(code) => code.mask_tile(b, h, q0, n_q, kv0, n_kv, bits, words_per_row),
            Self::Interpreted(rows) => rows.tile(b, h, q0, n_q, kv0, n_kv, bits, words_per_row),
        }
    }
}

/// The sizes of the longest call of a scope.
pub(crate) fn longest(scope: &Scope) -> Sizes {
    Sizes {
        batch: scope.batch as i32,
        num_q_heads: scope.num_q_heads as i32,
        q_len: *scope.bucket.q_len.end() as i32,
        kv_len: *scope.bucket.kv_len.end() as i32,
    }
}

/// The mask that decides about blocks: the rule itself, or the one that a score rule implies.
pub(crate) fn mask_of(bound: &BoundRule, scope: &Scope) -> Result<Prepared, CliError> {
    let prepared = prepare(bound, scope)?;
    match prepared.rule().kind {
        RuleKind::Mask => Ok(prepared),
        RuleKind::Score => match prepared.derived_mask() {
            Some(derived) => {
                let dims: Vec<(&str, i32)> = derived
                    .dims
                    .iter()
                    .zip(&prepared.bindings().dims)
                    .map(|(dim, value)| (dim.name.as_str(), *value))
                    .collect();
                let values = prepared.bindings().values.clone();
                let derived = BoundRule::new(Arc::clone(derived), values, &dims)?;
                Ok(prepare(&derived, scope)?)
            }
            None => Ok(prepare(MaskRule::constant(true).bound(), scope)?),
        },
    }
}

/// A built mask with what it came from.
pub(crate) struct Built {
    pub(crate) engine: MaskEngine,
    pub(crate) mask: BlockMask,
    pub(crate) stats: BuildStats,
}

/// Prepares the mask of a rule, compiles it, and builds its blocks.
pub(crate) fn build(
    bound: &BoundRule,
    scope: &Scope,
    block: BlockSize,
    backend: BackendArg,
) -> Result<Built, CliError> {
    let prepared = mask_of(bound, scope)?;
    let engine = MaskEngine::new(&prepared, backend)?;
    let (mask, stats) = BlockMask::build_with(&prepared, block, &engine)?;
    Ok(Built {
        engine,
        mask,
        stats,
    })
}
