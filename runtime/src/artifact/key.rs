//! The name of an artifact: a hash of everything that it depends on.

use maskwright_dsl::bind::{BoundRule, MaskRule, ScoreRule};
use maskwright_dsl::capture::{Bindings, CaptureValue, CapturedBuffer};
use maskwright_dsl::ir::{Const, Expr, Rule};
use maskwright_dsl::pipeline::{Scope, prepare};

use crate::cache::{Key, KeyBuilder};
use crate::verify::{VerifyRequest, Versions};

/// The name of the artifact that a verification would make.
///
/// It depends on what the rules compute and the types of their captures, whether an author's function is the law, the
/// scope, the block sizes, versions and processor. As a block mask holds for the captured values it was built from,
/// the values that the mask reads count too. Those of a `score_mod` count as far as they decide which scores become −∞.
pub fn artifact_key(request: &VerifyRequest<'_>) -> Key {
    let versions = Versions::current();
    let bucket = request.scope.bucket.tight();
    let scope = Scope {
        bucket: bucket.unwrap_or_else(|_| request.scope.bucket.clone()),
        ..request.scope.clone()
    };
    let mut key = KeyBuilder::new()
        .field("kind", "cpu artifact 1")
        .field("maskwright", &versions.maskwright)
        .field("cranelift", &versions.cranelift)
        .field("target", &versions.target)
        // All of its fields, also those that a later version adds.
        .field("scope", format!("{scope:?}"));
    #[cfg(feature = "cuda")]
    if let Some(gpu) = &request.gpu {
        key = key.field("gpu", gpu.identity());
    }
    let score = request.score.map(ScoreRule::bound);
    // What the score_mod sends to −∞ is part of the block mask. A rule that is refused has no artifact.
    let prepared = score.and_then(|score| prepare(score, &scope).ok());
    let effective = request.effective_mask(prepared.as_ref());
    let mask = effective.as_ref().map(MaskRule::bound);
    for (label, bound) in [("mask", mask), ("score", score)] {
        let Some(bound) = bound else { continue };
        key = key
            .field(label, bound.rule().identity())
            .field(
                "law",
                if bound.reference().is_some() {
                    "author"
                } else {
                    "interpreter"
                },
            )
            .field("capture types", types(bound.bindings()));
    }
    if let Some(mask) = mask {
        key = contents(mask).into_iter().fold(key, |key, (slot, hash)| {
            key.field("captured slot", (slot as u64).to_le_bytes())
                .field("captured values", hash)
        });
        for dim in &mask.bindings().dims {
            key = key.field("dimension", dim.to_le_bytes());
        }
        for block in request.distinct_blocks() {
            key = key.field("block", block.to_string());
        }
    }
    key.finish()
}

fn types(bindings: &Bindings) -> String {
    let types = bindings.values.iter().map(|value| match value {
        CaptureValue::Scalar(value) => format!("{};", value.ty()),
        CaptureValue::Buffer(buffer) => format!("[{}; {}];", buffer.elem(), buffer.shape().len()),
    });
    types.collect()
}

/// The slots that the result of a rule reads, with a hash of what they hold.
fn contents(bound: &BoundRule) -> Vec<(usize, [u8; 32])> {
    let values = bound.bindings().values.iter().enumerate();
    let read = captures_read(bound.rule());
    values
        .filter(|(slot, _)| read[*slot])
        .map(|(slot, value)| (slot, hash(value)))
        .collect()
}

fn captures_read(rule: &Rule) -> Vec<bool> {
    let mut read = vec![false; rule.captures.len()];
    let live = rule.live();
    for id in rule.arena.ids().filter(|id| live[id.index()]) {
        match rule.arena.expr(id) {
            Expr::Scalar(slot) | Expr::Load { buffer: slot, .. } => read[slot.index()] = true,
            Expr::Const(_)
            | Expr::Var(_)
            | Expr::Dim(_)
            | Expr::Unary { .. }
            | Expr::Binary { .. }
            | Expr::Clamp { .. }
            | Expr::Cast { .. }
            | Expr::Select { .. }
            | Expr::Then { .. } => {}
        }
    }
    read
}

/// The values as a rule reads them, in the order of the view: strides and widening do not count.
fn hash(value: &CaptureValue) -> [u8; 32] {
    let bytes = match value {
        CaptureValue::Scalar(value) => bits(*value).to_le_bytes().to_vec(),
        CaptureValue::Buffer(buffer) => buffer_bytes(buffer),
    };
    *KeyBuilder::new().field("values", bytes).finish().as_bytes()
}

fn bits(value: Const) -> u64 {
    value.key().1
}

fn buffer_bytes(buffer: &CapturedBuffer) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 * (buffer.shape().len() + buffer.len()));
    for extent in buffer.shape() {
        bytes.extend((*extent as u64).to_le_bytes());
    }
    buffer.for_each_element(|at| bytes.extend(bits(buffer.data().load(at)).to_le_bytes()));
    bytes
}
