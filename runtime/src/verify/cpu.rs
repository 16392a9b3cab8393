//! The CPU engine and dense attention in float64 as the two sides of an attention check.

use maskwright_dsl::bind::{MaskRule, ScoreRule};
use maskwright_dsl::pipeline::Prepared;

use super::attention::{
    AttentionCase, AttentionCheck, AttentionFailure, AttentionResult, Tolerance,
};
use crate::attention::{ForwardOptions, Kernel, Output, Rules, TensorDataMut, TensorRef};
use crate::reference::{DenseCall, dense_attention};

impl AttentionCheck<'static> {
    /// The CPU engine on `f32` inputs against dense attention in float64.
    pub fn cpu() -> Self {
        Self {
            engine: "cpu attention, f32".to_owned(),
            run: &run,
            reference: &reference,
            tolerance: Tolerance {
                name: "f32 sums of at most 512 products, and exp within 2e-7".to_owned(),
                absolute: 2e-5,
                relative: 2e-5,
            },
        }
    }
}

fn run(case: &AttentionCase<'_>) -> Result<AttentionResult<f32>, AttentionFailure> {
    let rules = rules(case)?;
    let scope = case.mask.or(case.score).map(Prepared::scope);
    let scope = scope.ok_or("there is no rule to compute attention under")?;
    let kernel = Kernel::compile(&rules, scope)?;
    let shape = |len: u64| [case.batch, case.num_q_heads, len as usize, case.head_dim];
    let (q_shape, kv_shape) = (shape(case.member.q_len), shape(case.member.kv_len));
    let rows = case.batch * case.num_q_heads * case.member.q_len as usize;
    let mut result = AttentionResult {
        out: vec![0.0; rows * case.head_dim],
        lse: vec![0.0; rows],
        row_max: vec![0.0; rows],
    };
    let options = ForwardOptions {
        sm_scale: Some(case.sm_scale),
        q_offset: case.member.q_offset,
        block_mask: case.block_masks.first(),
        ..ForwardOptions::default()
    };
    kernel.forward(
        TensorRef::contiguous(case.q, q_shape)?,
        TensorRef::contiguous(case.k, kv_shape)?,
        TensorRef::contiguous(case.v, kv_shape)?,
        &options,
        Output {
            out: TensorDataMut::F32(&mut result.out),
            lse: Some(&mut result.lse),
            row_max: Some(&mut result.row_max),
        },
    )?;
    Ok(result)
}

fn reference(case: &AttentionCase<'_>) -> Result<AttentionResult<f64>, AttentionFailure> {
    let rules = rules(case)?;
    let shape = |len: u64| [case.batch, case.num_q_heads, len as usize, case.head_dim];
    let (q_shape, kv_shape) = (shape(case.member.q_len), shape(case.member.kv_len));
    let dense = dense_attention(&DenseCall {
        sm_scale: Some(case.sm_scale),
        q_offset: case.member.q_offset,
        ..DenseCall::new(
            TensorRef::contiguous(case.q, q_shape)?,
            TensorRef::contiguous(case.k, kv_shape)?,
            TensorRef::contiguous(case.v, kv_shape)?,
            &rules,
        )
    })?;
    Ok(AttentionResult {
        out: dense.out,
        lse: dense.lse,
        row_max: dense.row_max,
    })
}

/// The rules as they were written, so that the reference asks the author's own functions.
fn rules(case: &AttentionCase<'_>) -> Result<Rules, AttentionFailure> {
    let original = |prepared: Option<&Prepared>| prepared.map(|rule| rule.original().clone());
    let wrong = |_| "the mask and the score rule have each other's place";
    Ok(Rules {
        mask: original(case.mask)
            .map(MaskRule::new)
            .transpose()
            .map_err(wrong)?,
        score: original(case.score)
            .map(ScoreRule::new)
            .transpose()
            .map_err(wrong)?,
    })
}
