//! The scalar interpreter, cell by cell: the law.

use maskwright_dsl::eval::{Point, ScalarEvaluator};
use maskwright_dsl::ir::Const;

use super::{Engine, NoOutcome, Outcome, kind};
use crate::case::Kind;
use crate::program::Program;
use crate::recipe::score_input;

/// Cells that are still quick.
const MOST_CELLS: usize = 40_000;

/// Evaluates every cell by itself.
#[derive(Clone, Copy, Debug)]
pub struct ScalarInterpreter;

impl Engine for ScalarInterpreter {
    fn name(&self) -> &'static str {
        "scalar interpreter"
    }

    fn run(&self, program: &Program) -> Result<Outcome, NoOutcome> {
        if MOST_CELLS < program.case.cells() {
            return Err(NoOutcome::Skip("more than 40,000 cells"));
        }
        let [batch, heads, q_len, kv_len] = program.case.size.map(|n| n as i32);
        let rule = program.bound.rule();
        let mut evaluator =
            ScalarEvaluator::new(rule, program.bound.bindings(), program.case.sizes());
        let input = score_input(program.case.cells());
        let mut values = Vec::with_capacity(input.len());
        for b in 0..batch {
            for h in 0..heads {
                for q_idx in 0..q_len {
                    for kv_idx in 0..kv_len {
                        let point = Point {
                            b,
                            h,
                            q_idx,
                            kv_idx,
                            score: input[values.len()],
                        };
                        let value = evaluator.eval(&point);
                        values.push(value.map_err(|error| {
                            NoOutcome::Fault(format!("({b}, {h}, {q_idx}, {kv_idx}): {error}"))
                        })?);
                    }
                }
            }
        }
        Ok(match kind(program) {
            Kind::Mask => {
                let is_true = |value: &Const| *value == Const::Bool(true);
                Outcome::Mask(values.iter().map(is_true).collect())
            }
            Kind::Score => Outcome::Scores(
                values
                    .iter()
                    .map(|value| match value {
                        Const::F32(score) => *score,
                        Const::Bool(_) | Const::I32(_) | Const::I64(_) | Const::U32(_) => f32::NAN,
                    })
                    .collect(),
            ),
        })
    }
}
