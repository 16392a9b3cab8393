//! The rule as kernels for GPUs hold it, compiled by NVRTC and executed in the emulator.

use maskwright::cuda::{Cells, CudaEvaluator, EmulatorOptions, KernelStore, Machine};
use maskwright::jit::nvrtc;

use super::{Engine, NoOutcome, Outcome, collect_planes, kind};
use crate::case::{Case, Kind};
use crate::program::Program;
use crate::recipe::score_input;

/// Cells that the emulator is still quick for.
const MOST_CELLS: usize = 1 << 17;

/// Asks the text of kernels for every cell.
#[derive(Clone, Copy, Debug)]
pub struct CudaRule;

impl CudaRule {
    /// Whether a case is small enough, and can be compiled here.
    pub fn takes(case: &Case) -> bool {
        case.cells() <= MOST_CELLS && nvrtc::for_test().is_some()
    }
}

impl Engine for CudaRule {
    fn name(&self) -> &'static str {
        "rules of kernels, in the emulator"
    }

    fn run(&self, program: &Program) -> Result<Outcome, NoOutcome> {
        if !Self::takes(program.case) {
            return Err(NoOutcome::Skip("more than 2^17 cells, or no NVRTC"));
        }
        let fault = |error: &dyn std::error::Error| {
            let mut text = error.to_string();
            let mut source = error.source();
            while let Some(cause) = source {
                text = format!("{text}: {cause}");
                source = cause.source();
            }
            NoOutcome::Fault(text)
        };
        let prepared = program.prepare().map_err(NoOutcome::Fault)?;
        let machine = Machine::emulator(EmulatorOptions::default());
        let evaluator = CudaEvaluator::new(&prepared, &machine, &KernelStore::none())
            .map_err(|error| fault(&error))?;
        let [batch, heads, q_len, kv_len] = program.case.size;
        let sizes = program.case.sizes();
        let plane = |b: u32, h: u32| Cells {
            b,
            h,
            q0: 0,
            n_q: q_len,
            kv0: 0,
            n_kv: kv_len,
        };
        match kind(program) {
            Kind::Mask => collect_planes(program, |b, h, bits, _| {
                let found = evaluator.mask(sizes, &plane(b, h));
                bits.copy_from_slice(&found.map_err(|error| fault(&error))?);
                Ok(())
            })
            .map(Outcome::Mask),
            Kind::Score => {
                let mut scores = score_input(program.case.cells());
                let mut planes = scores.chunks_mut((q_len * kv_len) as usize);
                for b in 0..batch {
                    for h in 0..heads {
                        let scores = planes.next().expect("there is one for each head");
                        let found = evaluator.scores(sizes, &plane(b, h), scores);
                        scores.copy_from_slice(&found.map_err(|error| fault(&error))?);
                    }
                }
                Ok(Outcome::Scores(scores))
            }
        }
    }
}
