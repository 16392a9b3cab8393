//! The engines: each computes a case its own way.

mod attention;
mod blocks;
mod compiled;
mod cuda;
mod emulated;
mod rows;
mod scalar;

pub use attention::{AttentionEngine, unit_matrix};
pub use blocks::BlockMasks;
pub use compiled::Compiled;
pub use cuda::CudaRule;
pub use emulated::{EmulatedKernel, KernelCall};
pub use rows::{Rows, SimplifiedRows};
pub use scalar::ScalarInterpreter;

use crate::case::Kind;
use crate::expect::{self, Attention, Blocks};
use crate::program::Program;

/// What an engine computed.
#[derive(Debug)]
pub enum Outcome {
    /// The cells of a mask, `[batch, heads, queries, keys]`.
    Mask(Vec<bool>),
    /// The scores of a score rule, of the same shape, from those of [`crate::recipe::score_input`].
    Scores(Vec<f32>),
    /// The classes of the blocks of a mask, by block size.
    Blocks(Vec<Blocks>),
    /// Attention under the rule, with the same scores.
    Attention(Attention),
    /// Attention under the rule, which the engine has compared with dense attention by itself.
    Compared,
}

/// Why there is no outcome.
#[derive(Debug)]
pub enum NoOutcome {
    /// The case is none for this engine.
    Skip(&'static str),
    /// The engine refused the case.
    Fault(String),
}

/// Something that evaluates rules.
pub trait Engine: Sync {
    /// How it is called in reports.
    fn name(&self) -> &'static str;

    /// Computes a case.
    ///
    /// # Errors
    /// [`NoOutcome`], with the reason.
    fn run(&self, program: &Program) -> Result<Outcome, NoOutcome>;
}

/// Compares an outcome with what the case expects.
///
/// # Errors
/// Everything that differs.
pub fn check(program: &Program, outcome: &Outcome) -> Result<(), String> {
    let case = program.case;
    match outcome {
        Outcome::Mask(cells) => expect::check_mask(case, cells),
        Outcome::Scores(scores) => expect::check_scores(case, scores),
        Outcome::Blocks(blocks) => expect::check_blocks(case, blocks),
        Outcome::Attention(attention) => {
            let scores = reference_scores(program)?;
            expect::check_attention(case.size[3] as usize, &scores, attention)
        }
        Outcome::Compared => Ok(()),
    }
}

/// The scores that attention is compared with, `-inf` where a mask has no cell: those of the row interpreter, once
/// they were compared with the case.
fn reference_scores(program: &Program) -> Result<Vec<f32>, String> {
    let outcome = Rows.run(program).map_err(|error| format!("{error:?}"))?;
    check(program, &outcome)?;
    match outcome {
        Outcome::Mask(cells) => {
            let scores = crate::recipe::score_input(cells.len());
            let masked = scores.iter().zip(&cells);
            Ok(masked
                .map(|(score, cell)| if *cell { *score } else { f32::NEG_INFINITY })
                .collect())
        }
        Outcome::Scores(scores) => Ok(scores),
        Outcome::Blocks(_) | Outcome::Attention(_) | Outcome::Compared => {
            Err("the row interpreter gives cells or scores".to_owned())
        }
    }
}

/// Runs `tile` over whole planes and collects their bits, one `bool` a cell. `tile(b, h, bits, words_per_row)` writes
/// the bits of one plane.
fn collect_planes<E>(
    program: &Program,
    mut tile: impl FnMut(u32, u32, &mut [u64], usize) -> Result<(), E>,
) -> Result<Vec<bool>, E> {
    let [batch, heads, q_len, kv_len] = program.case.size;
    let words = (kv_len as usize).div_ceil(64);
    let mut bits = vec![0; q_len as usize * words];
    let mut cells = Vec::with_capacity(program.case.cells());
    for b in 0..batch {
        for h in 0..heads {
            tile(b, h, &mut bits, words)?;
            for row in bits.chunks(words) {
                cells.extend((0..kv_len as usize).map(|kv| row[kv / 64] >> (kv % 64) & 1 == 1));
            }
        }
    }
    Ok(cells)
}

/// The input scores, one row of keys after another, each changed in place by `row(b, h, q, scores)`.
fn collect_scores<E>(
    program: &Program,
    mut row: impl FnMut(u32, u32, u32, &mut [f32]) -> Result<(), E>,
) -> Result<Vec<f32>, E> {
    let [batch, heads, q_len, kv_len] = program.case.size;
    let mut scores = crate::recipe::score_input(program.case.cells());
    let mut rows = scores.chunks_mut(kv_len as usize);
    for b in 0..batch {
        for h in 0..heads {
            for q in 0..q_len {
                let scores = rows.next().expect("there is a row for each query");
                row(b, h, q, scores)?;
            }
        }
    }
    Ok(scores)
}

/// What the rule of a program computes.
fn kind(program: &Program) -> Kind {
    program.file.kind
}
