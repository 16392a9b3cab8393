//! The attention engines of this crate, as verification runs them.

use super::attention::{
    AttentionCase, AttentionCheck, AttentionFailure, AttentionResult, HEAD_DIM, Tolerance,
};
use crate::attention::{
    AttentionError, Backend, ForwardOptions, Kernel, Output, TensorDataMut, TensorRef,
};
use crate::reference::{DenseCall, dense_attention};

/// The CPU engine in `f32`, under the block masks that were built.
pub(super) fn cpu_attention() -> AttentionCheck<'static> {
    AttentionCheck {
        engine: "attention on the CPU in f32".to_owned(),
        run: &forward,
        reference: &dense,
        tolerance: Tolerance {
            // 512 terms of f32 rounding, 2^-24 each, of values below 4; exp adds a few units in the last place.
            name: "f32, sums of at most 512 terms".to_owned(),
            absolute: 5.0e-5,
            relative: 5.0e-5,
        },
        head_dim: HEAD_DIM,
    }
}

/// Views of the inputs.
fn views<'a>(case: &AttentionCase<'a>) -> Result<[TensorRef<'a>; 3], AttentionError> {
    let view = |data: &'a [f32], len: u64| {
        let shape = [case.batch, case.num_q_heads, len as usize, case.head_dim];
        TensorRef::contiguous(data, shape)
    };
    Ok([
        view(case.q, case.member.q_len)?,
        view(case.k, case.member.kv_len)?,
        view(case.v, case.member.kv_len)?,
    ])
}

fn forward(case: &AttentionCase<'_>) -> Result<AttentionResult<f32>, AttentionFailure> {
    let [q, k, v] = views(case)?;
    let rows = case.batch * case.num_q_heads * case.member.q_len as usize;
    let mut result = AttentionResult {
        out: vec![0.0; rows * case.head_dim],
        lse: vec![0.0; rows],
        row_max: vec![0.0; rows],
    };
    let kernel = Kernel::compile(case.rules, case.scope)?;
    let options = ForwardOptions {
        sm_scale: Some(case.sm_scale),
        q_offset: case.member.q_offset,
        block_mask: case.block_masks.first(),
        backend: Backend::Cpu,
        ..ForwardOptions::default()
    };
    let output = Output {
        out: TensorDataMut::F32(&mut result.out),
        lse: Some(&mut result.lse),
        row_max: Some(&mut result.row_max),
    };
    kernel.forward(q, k, v, &options, output)?;
    Ok(result)
}

fn dense(case: &AttentionCase<'_>) -> Result<AttentionResult<f64>, AttentionFailure> {
    let [q, k, v] = views(case)?;
    let dense = dense_attention(&DenseCall {
        sm_scale: Some(case.sm_scale),
        q_offset: case.member.q_offset,
        ..DenseCall::new(q, k, v, case.rules)
    })?;
    Ok(AttentionResult {
        out: dense.out,
        lse: dense.lse,
        row_max: dense.row_max,
    })
}
