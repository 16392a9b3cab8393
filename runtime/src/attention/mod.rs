//! Attention: rules in, output and a record of what ran out.
//!
//! [`attention`] does everything for one call. A [`Kernel`] is compiled once for a bucket of lengths and runs for each
//! of its calls, with block masks that are built once as well.

mod error;
mod rules;

mod kernel;
mod request;

mod dispatch;
mod launch;

mod cpu;
mod evaluator;

use half::{bf16, f16};
use maskwright_dsl::bucket::Bucket;
use maskwright_dsl::pipeline::Scope;

use crate::tensor::{Dtype, Tensor};

pub use dispatch::{Backend, Refusal};
pub use error::{AttentionError, CompileError};
pub use evaluator::RuleEvaluator;
pub use kernel::Kernel;
pub use launch::{LaunchRecord, Shapes, Tiles};
pub use maskwright_cpu::{Micro, Output, TensorDataMut};
#[cfg(feature = "cuda")]
pub(crate) use request::Frame;
pub(crate) use request::{Call, Origin};
pub use request::{ElementsRef, ForwardOptions, TensorRef};
pub use rules::Rules;

/// The result of [`attention`].
#[derive(Clone, Debug)]
pub struct Attended {
    /// `[B, Hq, Lq, Dv]`, of the type of `q`, or `f32` where that is `f64`.
    pub out: Tensor,
    /// `[B, Hq, Lq]`: the natural logarithm of the sum of `exp(score)` over attended keys.
    pub lse: Vec<f32>,
    /// `[B, Hq, Lq]`: the largest score over attended keys.
    pub row_max: Vec<f32>,
    /// What ran.
    pub record: LaunchRecord,
}

/// Computes attention for one call: prepares and compiles the rules for its exact shape, builds the block mask unless
/// one is given, and runs.
///
/// # Example
/// ```
/// use maskwright::{ForwardOptions, Rules, TensorRef, attention};
///
/// let x = vec![0.5_f32; 2 * 3 * 4];
/// let view = TensorRef::contiguous(&x, [1, 2, 3, 4])?;
/// let done = attention(view, view, view, &Rules::dense(), &ForwardOptions::default())?;
/// assert_eq!(done.out.shape, [1, 2, 3, 4]);
/// assert_eq!(done.record.shapes.k, [1, 2, 3, 4]);
///
/// let short = TensorRef::contiguous(&x, [1, 2, 4, 3])?;
/// let error = attention(view, short, view, &Rules::dense(), &ForwardOptions::default()).unwrap_err();
/// assert_eq!(error.to_string(), "k and v must have the same length, found 4 and 3");
/// # Ok::<(), maskwright::AttentionError>(())
/// ```
///
/// # Errors
/// [`AttentionError`], as [`Kernel::compile`] and [`Kernel::forward`].
pub fn attention(
    q: TensorRef<'_>,
    k: TensorRef<'_>,
    v: TensorRef<'_>,
    rules: &Rules,
    options: &ForwardOptions<'_>,
) -> Result<Attended, AttentionError> {
    let call = Call::new(q, k, v, options.q_offset, options.block_mask)?;
    let kernel = Kernel::compile(rules, &scope_of(&call))?;
    let too_many = AttentionError::TooLong {
        axis: "the number of query rows",
        found: usize::MAX,
    };
    let Some(n_rows) = call.n_rows() else {
        return Err(too_many);
    };
    let Some(n_out) = n_rows.checked_mul(call.d_v) else {
        return Err(too_many);
    };
    let (mut lse, mut row_max) = (vec![0.0; n_rows], vec![0.0; n_rows]);
    let mut run = |out: TensorDataMut<'_>| {
        let output = Output {
            out,
            lse: Some(&mut lse),
            row_max: Some(&mut row_max),
        };
        kernel.forward(q, k, v, options, output)
    };
    let [batch, heads, q_len, _] = q.shape();
    let shape = vec![batch, heads, q_len, call.d_v];
    let (record, data) = match q.dtype() {
        Dtype::F16 => {
            let mut out = vec![f16::ZERO; n_out];
            (run(TensorDataMut::F16(&mut out))?, out.into())
        }
        Dtype::BF16 => {
            let mut out = vec![bf16::ZERO; n_out];
            (run(TensorDataMut::BF16(&mut out))?, out.into())
        }
        Dtype::F32
        | Dtype::F64
        | Dtype::Bool
        | Dtype::I8
        | Dtype::U8
        | Dtype::I16
        | Dtype::U16
        | Dtype::I32
        | Dtype::U32
        | Dtype::I64
        | Dtype::U64 => {
            let mut out = vec![0.0_f32; n_out];
            (run(TensorDataMut::F32(&mut out))?, out.into())
        }
    };
    Ok(Attended {
        out: Tensor { shape, data },
        lse,
        row_max,
        record,
    })
}

/// The scope of one call, from the origin that its block mask gives; one batch entry and head where there are none.
fn scope_of(call: &Call<'_>) -> Scope {
    let Origin { b, h, kv } = call.origin;
    let shape = call.shape;
    let kv_len = shape.kv_len.saturating_add_signed(kv.max(0));
    Scope::new(
        Bucket::single(shape.q_len, kv_len, shape.q_offset),
        b.saturating_add(shape.batch.max(1)),
        h.saturating_add(shape.heads.max(1)),
    )
}

#[cfg(test)]
mod tests;
