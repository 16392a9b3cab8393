//! Rules of the catalogue, with values for what they capture.

use std::sync::Arc;

use maskwright::catalogue::{self, Catalogue, CatalogueEntry};
use maskwright::eval::Sizes;
use maskwright::ir::{Const, RuleKind};
use maskwright::text::{self, LowerOptions};
use maskwright::{BoundRule, MaskRule, Rules, ScoreRule};
use maskwright_dsl::capture::{BufferData, CaptureValue, CapturedBuffer};

use crate::error::RunError;

/// A value by the name of what it is captured as.
pub(crate) type Named = (&'static str, CaptureValue);

/// A rule of the catalogue as it is, with the sample that shows what it does at these sizes.
pub(crate) fn sampled(entry: &CatalogueEntry, sizes: &Sizes) -> Result<Rules, RunError> {
    let bound = bind(entry, entry.sample(sizes))?;
    rules(entry, bound)
}

/// A rule of the catalogue with given values.
pub(crate) fn named(name: &str, values: Vec<Named>) -> Result<Rules, RunError> {
    let entry = catalogue::find(name).ok_or_else(|| RunError::Rule {
        name: name.to_owned(),
        reason: "the catalogue has no such rule".to_owned(),
    })?;
    let bound = bind(entry, values)?;
    rules(entry, bound)
}

/// The mask of one and the score rule of the other.
pub(crate) fn together(mask: Rules, score: Rules) -> Rules {
    Rules {
        mask: mask.mask,
        score: score.score,
    }
}

fn rules(entry: &CatalogueEntry, bound: BoundRule) -> Result<Rules, RunError> {
    let other = |_| RunError::Rule {
        name: entry.name.to_owned(),
        reason: "it is not of the kind that the catalogue says".to_owned(),
    };
    match entry.kind {
        RuleKind::Mask => Ok(MaskRule::new(bound).map_err(other)?.into()),
        RuleKind::Score => Ok(ScoreRule::new(bound).map_err(other)?.into()),
    }
}

fn bind(entry: &CatalogueEntry, mut values: Vec<Named>) -> Result<BoundRule, RunError> {
    let fault = |reason: String| RunError::Rule {
        name: entry.name.to_owned(),
        reason,
    };
    let options = LowerOptions::default();
    let rule = text::parse(entry.source())
        .and_then(|module| text::lower(&module, Some(entry.name), &options, &Catalogue))
        .map_err(|faults| fault(faults.render(false)))?;
    let mut in_order = Vec::new();
    for capture in &rule.captures {
        let at = values.iter().position(|(name, _)| *name == capture.name);
        let at = at.ok_or_else(|| fault(format!("nothing is given for {}", capture.name)))?;
        in_order.push(values.swap_remove(at).1);
    }
    BoundRule::new(Arc::new(rule), in_order, &[]).map_err(|error| fault(error.to_string()))
}

pub(crate) fn int(value: i32) -> CaptureValue {
    CaptureValue::Scalar(Const::I32(value))
}

pub(crate) fn float(value: f32) -> CaptureValue {
    CaptureValue::Scalar(Const::F32(value))
}

pub(crate) fn ints(values: Vec<i32>) -> CaptureValue {
    let shape = vec![values.len()];
    buffer(BufferData::I32(values.into()), shape)
}

pub(crate) fn floats(values: Vec<f32>) -> CaptureValue {
    let shape = vec![values.len()];
    buffer(BufferData::F32(values.into()), shape)
}

fn buffer(data: BufferData, shape: Vec<usize>) -> CaptureValue {
    let buffer = CapturedBuffer::new(data, shape);
    CaptureValue::Buffer(buffer.expect("the elements fill the shape"))
}
