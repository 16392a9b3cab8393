//! The part of a verification that kernels for GPUs get: their predicate cell by cell, their attention, and the code
//! for every target that the artifact is to hold.

use std::sync::OnceLock;

use half::{bf16, f16};
use maskwright_codegen::spec::{Float, Target};
use maskwright_dsl::block_mask::BlockMask;
use maskwright_dsl::bucket::Member;
use maskwright_dsl::pipeline::Scope;

use super::attention::{
    AttentionCase, AttentionCheck, AttentionFailure, AttentionResult, Tolerance,
};
use super::error::VerifyError;
use super::members::{cells, largest};
use super::subject::{MaskUnderTest, Rect, Subject, call_shape};
use crate::artifact::ArtifactKernel;
use crate::attention::{
    Call, ElementsRef, ForwardOptions, Kernel, Output, Rules, TensorDataMut, TensorRef,
};
use crate::cuda::{
    Cells, CompiledKernel, CudaEvaluator, KernelError, KernelShape, KernelStore, KernelText,
    Machine, MaskBlocks, kernel_key, prepare_run,
};
use crate::jit::nvrtc;
use crate::reference::{DenseCall, dense_attention};

/// What is verified for GPUs, beside what is for CPUs.
#[derive(Clone, Debug)]
pub struct GpuRequest {
    /// What runs the kernels that are checked: the emulator, or a device.
    pub machine: Machine,
    /// Element types of the kernels.
    pub dtypes: Vec<Float>,
    /// Head dimensions of the kernels, the same for queries and values.
    pub head_dims: Vec<u32>,
    /// GPUs whose machine code the artifact is to hold, beside the PTX.
    pub targets: Vec<Target>,
    /// Where compiled kernels are kept.
    pub kernels: KernelStore,
}

impl GpuRequest {
    /// Kernels of `f16` and `bf16` with heads of 64, checked on a machine; the artifact holds none.
    pub fn new(machine: Machine, kernels: KernelStore) -> Self {
        Self {
            machine,
            dtypes: vec![Float::F16, Float::BF16],
            head_dims: vec![64],
            targets: Vec::new(),
            kernels,
        }
    }

    /// Everything that an artifact depends on, in words.
    pub(crate) fn identity(&self) -> String {
        let Self {
            machine,
            dtypes,
            head_dims,
            targets,
            kernels: _,
        } = self;
        format!("{machine} {dtypes:?} {head_dims:?} {targets:?}")
    }
}

/// Cells of a call up to which all of them are asked for; beyond, its corners are.
const WHOLE_CELLS: u128 = 1 << 16;

/// Rows and keys of a corner.
const CORNER: (u64, u64) = (32, 160);

/// Calls at which the predicate is compared.
const CALLS: usize = 16;

/// What was compared.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Compared {
    pub(super) calls: u64,
    pub(super) cells: u64,
    /// Of the cells, those of calls of which only corners were compared.
    pub(super) sampled: u64,
    /// Whether the largest call was compared at every cell.
    pub(super) whole: bool,
}

/// Compares the predicate that kernels hold with the law, cell by cell.
pub(super) fn check_predicate(
    gpu: &GpuRequest,
    under_test: &MaskUnderTest<'_>,
    members: &[Member],
) -> Result<Compared, VerifyError> {
    let prepared = under_test.prepared;
    let failed = |source: KernelError| VerifyError::Gpu {
        machine: gpu.machine.to_string(),
        source: Box::new(source),
    };
    let evaluator = CudaEvaluator::new(prepared, &gpu.machine, &gpu.kernels).map_err(failed)?;
    let engine = format!("the predicate on {}", gpu.machine);
    let what = format!("mask bits of the kernel on {} against the law", gpu.machine);
    let mut compared = Compared::default();
    let step = members.len().div_ceil(CALLS).max(1);
    // The largest comes last, and is always among them.
    let chosen = members.iter().rev().step_by(step).collect::<Vec<_>>();
    for (at, &&member) in chosen.iter().enumerate().rev() {
        let subject = Subject::new(under_test, member, false)?;
        let mut planes: Vec<(u32, u32)> = subject.planes().into_iter().map(|(at, _)| at).collect();
        let whole = cells(&member) * planes.len() as u128 <= WHOLE_CELLS;
        let rects: Vec<Rect> = if whole {
            let all = |&(b, h): &(u32, u32)| Rect {
                b,
                h,
                rows: 0..member.q_len,
                cols: 0..member.kv_len,
            };
            planes.iter().map(all).collect()
        } else {
            if 2 < planes.len() {
                planes.drain(1..planes.len() - 1);
            }
            planes
                .iter()
                .flat_map(|plane| corners(*plane, &member))
                .collect()
        };
        let sizes = subject.sizes();
        for rect in rects {
            let n = rect.cells();
            if 0 < n {
                let found = evaluator
                    .mask(sizes, &cells_of(&subject, &rect))
                    .map_err(failed)?;
                subject.check_found(&rect, &found, &engine, &what)?;
            }
            compared.cells += n;
            compared.sampled += if whole { 0 } else { n };
        }
        compared.calls += 1;
        if at == 0 {
            compared.whole = whole;
        }
    }
    Ok(compared)
}

fn cells_of(subject: &Subject<'_>, rect: &Rect) -> Cells {
    Cells {
        b: rect.b,
        h: rect.h,
        q0: subject.q_idx(rect.rows.start),
        n_q: (rect.rows.end - rect.rows.start) as u32,
        kv0: rect.cols.start as i64,
        n_kv: (rect.cols.end - rect.cols.start) as u32,
    }
}

fn corners((b, h): (u32, u32), member: &Member) -> Vec<Rect> {
    let ends = |len: u64, window: u64| {
        let mut ends = vec![0..len.min(window), len.saturating_sub(window)..len];
        ends.dedup();
        ends
    };
    let cols = ends(member.kv_len, CORNER.1);
    ends(member.q_len, CORNER.0)
        .into_iter()
        .flat_map(|rows| {
            cols.iter().map(move |cols| Rect {
                b,
                h,
                rows: rows.clone(),
                cols: cols.clone(),
            })
        })
        .collect()
}

/// How far kernels of a type may be from float64 on the same, rounded inputs, all below 4.
fn tolerance(dtype: Float) -> Tolerance {
    let (name, absolute, relative) = match dtype {
        // The weight of each key is rounded to 11 bits before it meets V, the output once more.
        Float::F16 => ("f16, weights and outputs of 11 bits", 4.0e-3, 2.0e-3),
        Float::BF16 => ("bf16, weights and outputs of 8 bits", 3.2e-2, 1.6e-2),
        // Each factor is two parts of 11 bits; the product of the two low ones is left out.
        Float::F32 => (
            "f32, products of 21 bits, sums of at most 512 terms",
            5.0e-5,
            5.0e-5,
        ),
    };
    Tolerance {
        name: name.to_owned(),
        absolute,
        relative,
    }
}

/// Inputs in the type of a kernel.
enum Elements {
    F32(Vec<f32>),
    F16(Vec<f16>),
    BF16(Vec<bf16>),
}

impl Elements {
    fn new(dtype: Float, values: &[f32]) -> Self {
        match dtype {
            Float::F32 => Self::F32(values.to_vec()),
            Float::F16 => Self::F16(values.iter().map(|x| f16::from_f32(*x)).collect()),
            Float::BF16 => Self::BF16(values.iter().map(|x| bf16::from_f32(*x)).collect()),
        }
    }

    fn view(&self) -> ElementsRef<'_> {
        match self {
            Self::F32(x) => x.into(),
            Self::F16(x) => x.into(),
            Self::BF16(x) => x.into(),
        }
    }
}

/// The inputs of a case, rounded to a type.
struct Inputs([(Elements, [usize; 4]); 3]);

impl Inputs {
    fn new(case: &AttentionCase<'_>, dtype: Float) -> Self {
        let shape = |len: u64| [case.batch, case.num_q_heads, len as usize, case.head_dim];
        let (q_len, kv_len) = (case.member.q_len, case.member.kv_len);
        Self(
            [(case.q, q_len), (case.k, kv_len), (case.v, kv_len)]
                .map(|(values, len)| (Elements::new(dtype, values), shape(len))),
        )
    }

    fn views(&self) -> Result<[TensorRef<'_>; 3], AttentionFailure> {
        let [q, k, v] = &self.0;
        Ok([
            TensorRef::contiguous(q.0.view(), q.1)?,
            TensorRef::contiguous(k.0.view(), k.1)?,
            TensorRef::contiguous(v.0.view(), v.1)?,
        ])
    }
}

/// Runs `check` with an attention engine for each type and head dimension; their kernels are compiled once.
pub(super) fn with_engines(
    gpu: &GpuRequest,
    mut check: impl FnMut(&AttentionCheck<'_>) -> Result<(), VerifyError>,
) -> Result<(), VerifyError> {
    for &dtype in &gpu.dtypes {
        for &head_dim in &gpu.head_dims {
            let kernel = OnceLock::new();
            let run = |case: &AttentionCase<'_>| forward(gpu, dtype, &kernel, case);
            let reference = |case: &AttentionCase<'_>| dense(dtype, case);
            check(&AttentionCheck {
                engine: format!(
                    "attention on {} in {dtype}, heads of {head_dim}",
                    gpu.machine
                ),
                run: &run,
                reference: &reference,
                tolerance: tolerance(dtype),
                head_dim: head_dim as usize,
            })?;
        }
    }
    Ok(())
}

fn forward(
    gpu: &GpuRequest,
    dtype: Float,
    kernel: &OnceLock<Kernel>,
    case: &AttentionCase<'_>,
) -> Result<AttentionResult<f32>, AttentionFailure> {
    let kernel = if let Some(kernel) = kernel.get() {
        kernel
    } else {
        let compiled = Kernel::compile(case.rules, case.scope)?;
        kernel.get_or_init(|| compiled)
    };
    let inputs = Inputs::new(case, dtype);
    let [q, k, v] = inputs.views()?;
    let block_mask = case.block_masks.first();
    let q_offset = case.member.q_offset;
    let call = Call::new(q, k, v, q_offset, block_mask)?;
    let options = ForwardOptions {
        q_offset,
        block_mask,
        kernels: Some(&gpu.kernels),
        ..ForwardOptions::default()
    };
    let rows = case.batch * case.num_q_heads * case.member.q_len as usize;
    let n_out = rows * case.head_dim;
    let (mut lse, mut row_max) = (vec![0.0; rows], vec![0.0; rows]);
    let mut run = |out: TensorDataMut<'_>| -> Result<(), AttentionFailure> {
        let machine = || Ok(gpu.machine.clone());
        let ready = prepare_run(kernel, machine, &call, &options, &out)?;
        let output = Output {
            out,
            lse: Some(&mut lse),
            row_max: Some(&mut row_max),
        };
        ready.run(&call, case.sm_scale, q_offset, block_mask, output)?;
        Ok(())
    };
    let out = match dtype {
        Float::F32 => {
            let mut out = vec![0.0; n_out];
            run(TensorDataMut::F32(&mut out))?;
            out
        }
        Float::F16 => {
            let mut out = vec![f16::ZERO; n_out];
            run(TensorDataMut::F16(&mut out))?;
            out.iter().map(|x| x.to_f32()).collect()
        }
        Float::BF16 => {
            let mut out = vec![bf16::ZERO; n_out];
            run(TensorDataMut::BF16(&mut out))?;
            out.iter().map(|x| x.to_f32()).collect()
        }
    };
    Ok(AttentionResult { out, lse, row_max })
}

fn dense(dtype: Float, case: &AttentionCase<'_>) -> Result<AttentionResult<f64>, AttentionFailure> {
    let inputs = Inputs::new(case, dtype);
    let [q, k, v] = inputs.views()?;
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

/// Compiles the kernels that the artifact is to hold.
pub(super) fn compile(
    gpu: &GpuRequest,
    rules: &Rules,
    scope: &Scope,
    masks: &[BlockMask],
) -> Result<Vec<ArtifactKernel>, VerifyError> {
    let failed = |source: KernelError| VerifyError::Gpu {
        machine: gpu.machine.to_string(),
        source: Box::new(source),
    };
    if gpu.targets.is_empty() {
        return Ok(Vec::new());
    }
    let kernel = Kernel::interpret(rules, scope).map_err(|source| VerifyError::Attention {
        engine: "the kernel".to_owned(),
        shape: call_shape(scope, &largest(&scope.bucket)),
        source: source.into(),
    })?;
    let mut blocks: Vec<Option<MaskBlocks>> = masks
        .iter()
        .map(|mask| Some(MaskBlocks::of(mask)))
        .collect();
    if blocks.is_empty() {
        blocks.push(None);
    }
    let mut kernels: Vec<ArtifactKernel> = Vec::new();
    for &target in &gpu.targets {
        for &dtype in &gpu.dtypes {
            for &head_dim in &gpu.head_dims {
                for &blocks in &blocks {
                    let shape = KernelShape {
                        dtype,
                        out_dtype: dtype,
                        d_qk: head_dim,
                        d_v: head_dim,
                        blocks,
                    };
                    let (mask, score) = (kernel.prepared_mask(), kernel.prepared_score());
                    let text = KernelText::new(mask, score, &shape, target).map_err(failed)?;
                    let output = nvrtc::Output::Cubin;
                    let key = kernel_key(&text.unit(), output, None);
                    if kernels.iter().any(|known| known.key == key) {
                        continue;
                    }
                    let compiled =
                        CompiledKernel::new(text, output, &gpu.kernels).map_err(failed)?;
                    kernels.push(ArtifactKernel {
                        name: compiled.text().name(),
                        key,
                        image: compiled.image().clone(),
                    });
                }
            }
        }
    }
    Ok(kernels)
}

#[cfg(test)]
mod tests;
