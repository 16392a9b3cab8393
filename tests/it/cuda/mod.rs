//! The forward kernel for GPUs: generated, compiled by NVRTC, and executed in the emulator.

mod agreement;
mod bits;
mod captures;
mod contracts;
mod counts;
mod golden;
mod mutants;

use maskwright::cuda::{Float, KernelShape, KernelStore, KernelText, MaskBlocks, Target};
use maskwright::{
    BlockMask, BlockSize, Kernel, MaskRule, Prepared, Rules, Scope, ScoreRule, bucket::Bucket,
    bucket::Relation, jit::nvrtc,
};
use maskwright_dsl::capture::{BufferData, CaptureValue};
use maskwright_dsl::ir::Const;
use maskwright_tests::call::{Extents, Inputs, Ran, Setting, run};
use maskwright_tests::direct::{bind, bind_mask, buffer, int, ints};
use maskwright_tests::work::check_products;

const TYPES: [Float; 3] = [Float::F16, Float::BF16, Float::F32];

/// Says why a test is skipped where there is no compiler, unless one is required.
#[track_caller]
fn has_compiler() -> bool {
    nvrtc::for_test().is_some()
}

/// Calls of any lengths up to these, from any position up to 128.
fn free(q_len: u64, kv_len: u64, batch: u32, heads: u32) -> Scope {
    let bucket = Bucket {
        q_len: 0..=q_len,
        kv_len: 0..=kv_len,
        relation: Relation::Free,
        q_offset: 0..=128,
    };
    Scope::new(bucket, batch, heads)
}

#[track_caller]
fn compile(rules: &Rules, scope: &Scope) -> Kernel {
    Kernel::compile(rules, scope).unwrap_or_else(|error| panic!("{error}"))
}

/// The exact mask of a call.
#[track_caller]
fn exact(kernel: &Kernel, extents: Extents, q_offset: i64, block: (u32, u32)) -> BlockMask {
    let block = BlockSize {
        q: block.0,
        kv: block.1,
    };
    kernel
        .block_mask_at(extents.q_len as u64, extents.kv_len as u64, q_offset, block)
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a call, and compares it with the reference and its work with its record.
fn check(kernel: &Kernel, inputs: &Inputs, setting: &Setting<'_>) -> Result<Ran, String> {
    let ran = run(kernel, inputs, setting)?;
    let reference = inputs.reference(kernel.rules(), setting.q_offset, setting.block_mask);
    ran.compare(&reference, inputs.dtype)?;
    check_products(&ran.plan, &ran.record, ran.counters.as_ref())?;
    Ok(ran)
}

/// The kernel as text for `sm_80`, to be compiled by itself.
#[track_caller]
fn text(
    dtype: Float,
    (d_qk, d_v): (u32, u32),
    mask: Option<&Prepared>,
    score: Option<&Prepared>,
    blocks: Option<MaskBlocks>,
) -> KernelText {
    let shape = KernelShape {
        dtype,
        out_dtype: dtype,
        d_qk,
        d_v,
        blocks,
    };
    KernelText::new(mask, score, &shape, Target::SM80).unwrap_or_else(|error| panic!("{error}"))
}

/// Names of rules of [`rules`], each of another kind.
const RULES: [&str; 7] = [
    "none",
    "causal",
    "window",
    "documents",
    "alibi",
    "softcap",
    "all",
];

/// Rules by name, with captured values for up to `len` positions and 8 heads.
fn rules(name: &str, len: usize) -> Rules {
    let documents = |of: i32| {
        let ids: Vec<i32> = (0..len as i32).map(|i| i / of).collect();
        bind_mask(
            "mask documents(doc: [i32; n]) = doc[q] == doc[kv] || kv < 3",
            &[ints(&ids)],
        )
    };
    let alibi = || {
        let slopes: Vec<f32> = (1..=8).map(|h| 2_f32.powi(-h)).collect();
        let slopes = buffer(BufferData::F32(slopes.into()), &[8]);
        let rule = "score alibi(slope: [f32; 8]) = score + slope[h] * (kv - q) as f32";
        ScoreRule::new(bind(rule, &[slopes])).expect("it is a score rule")
    };
    let softcap = || {
        let rule = "score softcap(cap: f32) = cap * tanh(score / cap)";
        let cap = CaptureValue::Scalar(Const::F32(1.5));
        ScoreRule::new(bind(rule, &[cap])).expect("it is a score rule")
    };
    match name {
        "none" => Rules::dense(),
        "causal" => Rules::mask(bind_mask("mask causal() = kv <= q", &[])),
        "window" => Rules::mask(window(40)),
        "wide window" => Rules::mask(window(210)),
        "documents" => Rules::mask(documents(37)),
        "long documents" => Rules::mask(documents(168)),
        "alibi" => Rules::both(bind_mask("mask causal() = kv <= q", &[]), alibi()),
        "softcap" => Rules::score(softcap()),
        "all" => Rules::both(documents(168), softcap()),
        other => panic!("there are no rules named {other}"),
    }
}

fn window(width: i32) -> MaskRule {
    let rule = "mask window(width: i32 in 1..=1000) = kv <= q && q - kv < width";
    bind_mask(rule, &[int(width)])
}

/// Kernels that nothing keeps.
fn nothing_kept() -> KernelStore {
    KernelStore::none()
}
