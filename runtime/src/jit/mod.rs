//! Machine code for CPUs: a prepared rule compiled in memory, and its safe use over tiles of cells.

mod callee;
mod cranelift;
mod evaluator;

pub use cranelift::{CompiledRule, JitError, clif};
pub use evaluator::{BoundEvaluator, EvaluatorError};

#[cfg(test)]
mod tests;
