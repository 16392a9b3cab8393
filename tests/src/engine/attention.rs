//! Attention on CPUs: the rule in a kernel, with scores that are given exactly and weights that are read off.

use maskwright::{ForwardOptions, MaskRule, Rules, ScoreRule, TensorRef, attention};
use maskwright_dsl::block_mask::BlockSize;

use super::{Engine, NoOutcome, Outcome, kind};
use crate::case::Kind;
use crate::expect::Attention;
use crate::program::Program;
use crate::recipe::score_input;

/// Multiplications that are still quick: each cell costs one for every key.
const MOST_WORK: usize = 150_000_000;

/// Runs attention with the unit matrix as keys and as values: the queries are the scores, and the output is the
/// weights.
#[derive(Clone, Copy, Debug)]
pub struct AttentionEngine;

impl AttentionEngine {
    /// Whether a case is small enough.
    pub fn takes(case: &crate::case::Case) -> bool {
        case.cells() * case.size[3] as usize <= MOST_WORK
    }
}

impl Engine for AttentionEngine {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn run(&self, program: &Program) -> Result<Outcome, NoOutcome> {
        if !Self::takes(program.case) {
            return Err(NoOutcome::Skip("more than 150,000,000 multiplications"));
        }
        let fault = |error: &dyn std::error::Error| NoOutcome::Fault(error.to_string());
        let not = |_| NoOutcome::Fault("the rule is of the other kind".to_owned());
        let rules = match kind(program) {
            Kind::Mask => Rules::mask(MaskRule::new(program.bound.clone()).map_err(not)?),
            Kind::Score => Rules::score(ScoreRule::new(program.bound.clone()).map_err(not)?),
        };
        let [batch, heads, q_len, kv_len] = program.case.size.map(|n| n as usize);
        let scores = score_input(program.case.cells());
        let unit = unit_matrix(kv_len);
        let q = TensorRef::contiguous(&scores, [batch, heads, q_len, kv_len]);
        // One matrix serves every batch row and head.
        let row = kv_len as isize;
        let k = TensorRef::new(&unit, [batch, heads, kv_len, kv_len], [0, 0, row, 1], 0);
        let (q, k) = (q.map_err(|e| fault(&e))?, k.map_err(|e| fault(&e))?);
        let options = ForwardOptions {
            sm_scale: Some(1.0),
            block: BlockSize { q: 64, kv: 64 },
            ..ForwardOptions::default()
        };
        let done = attention(q, k, k, &rules, &options).map_err(|e| fault(&e))?;
        match done.out.data {
            maskwright::tensor::TensorData::F32(weights) => Ok(Outcome::Attention(Attention {
                weights: weights.to_vec(),
                lse: done.lse,
            })),
            other => Err(NoOutcome::Fault(format!("the output is {other:?}"))),
        }
    }
}

/// The unit matrix, row after row.
pub fn unit_matrix(n: usize) -> Vec<f32> {
    (0..n * n)
        .map(|at| f32::from(u8::from(at % (n + 1) == 0)))
        .collect()
}
