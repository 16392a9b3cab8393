//! The compiled evaluator: machine code for this processor.

use std::sync::Arc;

use maskwright::jit::{BoundEvaluator, CompiledRule};

use super::{Engine, NoOutcome, Outcome, collect_planes, collect_scores, kind};
use crate::case::Kind;
use crate::program::Program;

/// Compiles the prepared rule and runs it over whole planes.
#[derive(Clone, Copy, Debug)]
pub struct Compiled;

impl Engine for Compiled {
    fn name(&self) -> &'static str {
        "compiled evaluator"
    }

    fn run(&self, program: &Program) -> Result<Outcome, NoOutcome> {
        let prepared = program.prepare().map_err(NoOutcome::Fault)?;
        let compiled = CompiledRule::compile(&prepared)
            .map_err(|error| NoOutcome::Fault(error.to_string()))?;
        let evaluator = BoundEvaluator::new(Arc::new(compiled), &prepared, program.case.sizes())
            .map_err(|error| NoOutcome::Fault(error.to_string()))?;
        let [_, _, q_len, kv_len] = program.case.size.map(|n| n as usize);
        match kind(program) {
            Kind::Mask => collect_planes(program, |b, h, bits, words| {
                evaluator.mask_tile(b, h, 0, q_len, 0, kv_len, bits, words);
                Ok(())
            })
            .map(Outcome::Mask),
            Kind::Score => collect_scores(program, |b, h, q, scores| {
                evaluator.score_tile(b, h, i64::from(q), 1, 0, kv_len, scores, kv_len);
                Ok(())
            })
            .map(Outcome::Scores),
        }
    }
}
