//! A kernel that evaluates a rule alone, so that its text can be compared with the interpreter on any device.

use maskwright_dsl::ir::RuleKind;
use maskwright_dsl::pipeline::Prepared;
use tera::Context;

use crate::plan::{ParamLayout, ParamType, ParamValue};

use super::error::CudaError;
use super::fields::fields;
use super::print::{print_mask, print_score};
use super::source::CudaSource;
use super::support::support_text;
use super::template::{EVALUATE, render};

/// The name of the kernel.
const ENTRY: &str = "evaluate";

/// Threads of a block, which is eight warps.
const THREADS: u32 = 256;

/// The kernel that evaluates a rule over a rectangle of cells of one `(b, h)`.
///
/// Of a mask it writes bits ([`ParamValue::EvalBits`]), a warp for each word, so it takes `ceil(rows * ceil(cols / 32) / 8)`
/// blocks; of a `score_mod` it changes scores in place ([`ParamValue::EvalScores`]), a thread for each, in `ceil(rows * cols / 256)`
/// blocks. A rectangle without cells must not be launched.
///
/// # Errors
/// [`CudaError`] as in [`print_mask`].
pub fn emit_evaluator(prepared: &Prepared) -> Result<CudaSource, CudaError> {
    let is_mask = prepared.rule().kind == RuleKind::Mask;
    let (text, result) = if is_mask {
        let bits = ("bits", ParamType::Pointer("unsigned"), ParamValue::EvalBits);
        (print_mask(prepared)?, bits)
    } else {
        let scores = (
            "scores",
            ParamType::Pointer("float"),
            ParamValue::EvalScores,
        );
        (print_score(prepared)?, scores)
    };
    let mut params = ParamLayout::default();
    for (name, ty, value) in [
        result,
        ("b", ParamType::I32, ParamValue::EvalB),
        ("h", ParamType::I32, ParamValue::EvalH),
        ("q0", ParamType::I32, ParamValue::EvalQ),
        ("kv0", ParamType::I32, ParamValue::EvalKv),
        ("rows", ParamType::I32, ParamValue::EvalRows),
        ("cols", ParamType::I32, ParamValue::EvalCols),
        ("q_len", ParamType::I32, ParamValue::QLen),
        ("rule_kv_len", ParamType::I32, ParamValue::RuleKvLen),
        ("batch", ParamType::I32, ParamValue::Batch),
        ("num_q_heads", ParamType::I32, ParamValue::NumQHeads),
    ] {
        params.push(name, ty, value);
    }
    for (name, ty, value) in &text.params {
        params.push(name.clone(), *ty, *value);
    }
    let support = support_text(&text.support);
    let parts = [support.trim(), text.functions.trim()];
    let rules: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let mut context = Context::new();
    context.insert("is_mask", &is_mask);
    context.insert("fields", &fields(&params));
    context.insert("rules", &rules.join("\n\n"));
    context.insert("threads", &THREADS);
    context.insert("entry", ENTRY);
    Ok(CudaSource {
        text: render(EVALUATE, &context)?,
        entry: ENTRY.to_owned(),
        params,
        threads: THREADS,
        shared_bytes: 0,
    })
}
