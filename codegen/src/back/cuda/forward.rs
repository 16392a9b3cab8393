//! The forward kernel as CUDA text: a plan and the texts of its rules, put into the template.

use std::collections::{BTreeMap, BTreeSet};

use maskwright_dsl::pipeline::Prepared;
use tera::Context;

use crate::plan::{KernelPlan, ParamLayout, SharedTile};
use crate::spec::Float;

use super::error::CudaError;
use super::fields::fields;
use super::print::{print_mask, print_score};
use super::source::CudaSource;
use super::support::support_text;
use super::template::{FORWARD_SM80, PRELUDE, render};

/// The name of the kernel.
const ENTRY: &str = "forward";

/// Writes the kernel of a plan, with the rules that it was planned for.
///
/// # Errors
/// [`CudaError`] if a rule has no text, or is not what the plan was made with.
pub fn emit_forward(
    plan: &KernelPlan,
    mask: Option<&Prepared>,
    score: Option<&Prepared>,
) -> Result<CudaSource, CudaError> {
    for (kind, planned, rule) in [
        ("mask", plan.has_mask, mask),
        ("score_mod", plan.has_score, score),
    ] {
        if planned != rule.is_some() {
            return Err(CudaError::Planned { kind, planned });
        }
    }
    let mask = mask.map(print_mask).transpose()?;
    let score = score.map(print_score).transpose()?;
    let mut params = plan.params.clone();
    let mut support = BTreeSet::new();
    let mut rules = Vec::new();
    for rule in [&mask, &score].into_iter().flatten() {
        for (name, ty, value) in &rule.params {
            params.push(name.clone(), *ty, *value);
        }
        support.extend(rule.support.iter().copied());
        rules.push(rule.functions.trim());
    }
    let support = support_text(&support);
    rules.insert(0, support.trim());
    rules.retain(|text| !text.is_empty());

    let mut context = facts(plan, &params);
    context.insert("rules", &rules.join("\n\n"));
    let prelude = render(PRELUDE, &context)?;
    context.insert("prelude", prelude.trim());
    Ok(CudaSource {
        text: render(FORWARD_SM80, &context)?,
        entry: ENTRY.to_owned(),
        params,
        threads: plan.threads(),
        shared_bytes: plan.shared.bytes,
    })
}

/// Every fact that the templates ask for.
fn facts(plan: &KernelPlan, params: &ParamLayout) -> Context {
    let spec = plan.spec;
    let shared = plan.shared;
    let is_f32 = spec.dtype == Float::F32;
    // Fragments of V come in pairs from transposed loads, one by one otherwise.
    let value_blocks = match spec.dtype {
        Float::F16 | Float::BF16 => spec.d_v.next_multiple_of(16) / 8,
        Float::F32 => spec.d_v / 8,
    };
    let mut context = Context::new();
    for (name, value) in [
        ("dtype", spec.dtype.name()),
        ("out_dtype", spec.out_dtype.name()),
        ("entry", ENTRY),
    ] {
        context.insert(name, value);
    }
    for (name, value) in [
        ("threads", plan.threads()),
        ("min_blocks", plan.min_blocks),
        ("tile_q", plan.tile.q),
        ("tile_kv", plan.tile.kv),
        ("row_blocks", plan.row_blocks),
        ("rows", 2 * plan.row_blocks),
        ("rows_per_warp", 16 * plan.row_blocks),
        ("key_blocks", plan.tile.kv / 8),
        ("value_blocks", value_blocks),
        ("k_steps", shared.k.chunks / 2),
        ("d_v", spec.d_v),
        ("k_stage", shared.k.bytes()),
        ("v_stage", shared.v.bytes()),
    ] {
        context.insert(name, &value);
    }
    for (name, value) in [
        ("is_f32", is_f32),
        ("out_is_f32", spec.out_dtype == Float::F32),
        ("two_stages", plan.stages == 2),
        ("has_mask", plan.has_mask),
        ("has_score", plan.has_score),
        ("has_rule", plan.has_mask || plan.has_score),
        ("d_qk_padded", shared.k.filled < shared.k.chunks),
        ("d_v_padded", shared.v.filled < shared.v.chunks),
    ] {
        context.insert(name, &value);
    }
    let tiles = [("Q", shared.q), ("K", shared.k), ("V", shared.v)];
    context.insert("tiles", &tiles.map(|(name, tile)| tile_facts(name, tile)));
    context.insert("params", &fields(params));
    context
}

fn tile_facts(name: &str, tile: SharedTile) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        ("name", name.to_owned()),
        ("rows", tile.rows.to_string()),
        ("chunks", tile.chunks.to_string()),
        ("filled", tile.filled.to_string()),
        ("lanes", tile.lanes.to_string()),
        ("pitch", tile.pitch.to_string()),
        ("shift", tile.shift.to_string()),
        ("mask", tile.mask.to_string()),
        ("at", tile.at.to_string()),
    ])
}
