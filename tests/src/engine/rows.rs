//! The row interpreter, on the rule as it was lowered and on the rule as it was simplified.

use maskwright_dsl::bind::BoundRule;
use maskwright_dsl::dense::{DenseShape, summarize};
use maskwright_dsl::eval::{EvalError, RowEvaluator};
use maskwright_dsl::ir::Rule;

use super::{Engine, NoOutcome, Outcome, collect_planes, collect_scores, kind};
use crate::case::Kind;
use crate::expect;
use crate::program::Program;

/// Evaluates rows of the rule as it was lowered.
#[derive(Clone, Copy, Debug)]
pub struct Rows;

/// Evaluates rows of the rule that preparation made of it.
#[derive(Clone, Copy, Debug)]
pub struct SimplifiedRows;

impl Engine for Rows {
    fn name(&self) -> &'static str {
        "row interpreter"
    }

    fn run(&self, program: &Program) -> Result<Outcome, NoOutcome> {
        let outcome = run(program, &program.bound, program.bound.rule())?;
        if let Outcome::Mask(cells) = &outcome {
            check_summary(program, cells)?;
        }
        Ok(outcome)
    }
}

impl Engine for SimplifiedRows {
    fn name(&self) -> &'static str {
        "simplified rule"
    }

    fn run(&self, program: &Program) -> Result<Outcome, NoOutcome> {
        let prepared = program.prepare().map_err(NoOutcome::Fault)?;
        let outcome = run(program, prepared.original(), prepared.rule())?;
        if let (Outcome::Scores(scores), Some(mask)) = (&outcome, prepared.derived_mask()) {
            check_derived_mask(program, mask, scores)?;
        }
        Ok(outcome)
    }
}

/// Where the mask that was derived of a score rule has no cell, the score must be `-inf`.
fn check_derived_mask(program: &Program, mask: &Rule, scores: &[f32]) -> Result<(), NoOutcome> {
    let cells = mask_cells(program, &program.bound, mask)
        .map_err(|error| NoOutcome::Fault(format!("derived mask: {error}")))?;
    let mut lost = cells.iter().zip(scores).filter(|(cell, _)| !**cell);
    match lost.find(|(_, score)| **score != f32::NEG_INFINITY) {
        Some((_, score)) => Err(NoOutcome::Fault(format!(
            "the derived mask leaves out a cell whose score is {score}"
        ))),
        None => Ok(()),
    }
}

fn run(program: &Program, bound: &BoundRule, rule: &Rule) -> Result<Outcome, NoOutcome> {
    let mut evaluator = RowEvaluator::new(rule, bound.bindings(), program.case.sizes());
    let outcome = match kind(program) {
        Kind::Mask => mask_cells(program, bound, rule).map(Outcome::Mask),
        Kind::Score => collect_scores(program, |b, h, q, scores| {
            evaluator.score_row(b as i32, h as i32, q as i32, 0, scores)
        })
        .map(Outcome::Scores),
    };
    outcome.map_err(|error| NoOutcome::Fault(error.to_string()))
}

fn mask_cells(program: &Program, bound: &BoundRule, rule: &Rule) -> Result<Vec<bool>, EvalError> {
    let sizes = program.case.sizes();
    let mut evaluator = RowEvaluator::new(rule, bound.bindings(), sizes);
    collect_planes(program, |b, h, bits, words| {
        for (q, row) in bits.chunks_mut(words).enumerate() {
            let n = sizes.kv_len as usize;
            evaluator.mask_row(b as i32, h as i32, q as i32, 0, n, row)?;
        }
        Ok(())
    })
}

/// The summary that the product reports of a mask must be that of its cells.
fn check_summary(program: &Program, cells: &[bool]) -> Result<(), NoOutcome> {
    let [batch, heads, q_len, kv_len] = program.case.size;
    let shape = DenseShape {
        batches: 0..batch,
        heads: 0..heads,
        q_offset: 0,
        q_len: q_len as usize,
        kv_len: kv_len as usize,
    };
    let rule = program.bound.rule();
    let summary = summarize(rule, program.bound.bindings(), program.case.sizes(), &shape)
        .map_err(|error| NoOutcome::Fault(error.to_string()))?;
    let hash = expect::hex(&summary.packbits_sha256);
    let allowed = cells.iter().filter(|cell| **cell).count() as u64;
    if hash != expect::packbits_sha256(cells) || summary.allowed != allowed {
        return Err(NoOutcome::Fault(
            "the summary is not that of the cells".to_owned(),
        ));
    }
    Ok(())
}
