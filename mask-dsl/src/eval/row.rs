//! The row interpreter: the same meaning as the scalar one, for many keys of one query at once.
//!
//! Every live node is computed once for 128 keys, in both branches of an `if` and on both sides of `&&`. What the
//! scalar interpreter would refuse is recorded as a *poisoned lane* beside the value instead, and a lazy operator
//! drops the poison of the side that it does not take. So a cell fails exactly where the scalar interpreter fails, and
//! no order of evaluation has to be found for nodes that are shared between guarded and unguarded places.

mod exec;
mod int;
mod lanes;
mod load;
mod ops;
mod tape;

use std::sync::{Arc, Mutex};

use self::exec::State;
use self::lanes::LANES;
use self::tape::Tape;
use super::{EvalError, Point, ScalarEvaluator, Sizes};
use crate::block_mask::MaskEvaluator;
use crate::capture::Bindings;
use crate::ir::{Rule, RuleKind};
use crate::pipeline::Prepared;

/// Evaluates one rule at many keys of a query at once.
#[derive(Debug)]
pub struct RowEvaluator<'a> {
    rule: &'a Rule,
    bindings: &'a Bindings,
    sizes: Sizes,
    tape: Tape,
    state: State,
}

impl<'a> RowEvaluator<'a> {
    /// An interpreter of `rule` with these captures at these sizes.
    pub fn new(rule: &'a Rule, bindings: &'a Bindings, sizes: Sizes) -> Self {
        let tape = Tape::new(rule);
        let state = State::new(&tape, rule, bindings, sizes);
        Self {
            rule,
            bindings,
            sizes,
            tape,
            state,
        }
    }

    /// Evaluates a mask at the keys `kv0..kv0 + n` of one query: key `kv0 + j` is bit `j % 64` of word `j / 64`.
    ///
    /// All of `bits` is written; bits without a key are 0.
    ///
    /// # Errors
    /// The error of the scalar interpreter at the first key where it has one.
    ///
    /// # Panics
    /// If the rule is a `score_mod`, or `bits` has fewer than `n` bits.
    pub fn mask_row(
        &mut self,
        b: i32,
        h: i32,
        q_idx: i32,
        kv0: i32,
        n: usize,
        bits: &mut [u64],
    ) -> Result<(), EvalError> {
        let context = Context {
            rule: self.rule,
            bindings: self.bindings,
            sizes: self.sizes,
            tape: &self.tape,
        };
        context.mask_row(&mut self.state, (b, h, q_idx), kv0, n, bits)
    }

    /// Applies a `score_mod` in place to the scores of the keys `kv0..kv0 + scores.len()` of one query.
    ///
    /// # Errors
    /// The error of the scalar interpreter at the first key where it has one; scores of earlier keys may be changed.
    ///
    /// # Panics
    /// If the rule is a mask.
    pub fn score_row(
        &mut self,
        b: i32,
        h: i32,
        q_idx: i32,
        kv0: i32,
        scores: &mut [f32],
    ) -> Result<(), EvalError> {
        let context = Context {
            rule: self.rule,
            bindings: self.bindings,
            sizes: self.sizes,
            tape: &self.tape,
        };
        context.score_row(&mut self.state, (b, h, q_idx), kv0, scores)
    }
}

/// A mask with its captures and sizes, evaluated by rows from any number of threads.
#[derive(Debug)]
pub struct RowMask {
    rule: Arc<Rule>,
    bindings: Bindings,
    sizes: Sizes,
    tape: Tape,
    /// Scratch of finished calls, for the next ones: a call takes one or makes one.
    idle: Mutex<Vec<State>>,
}

impl RowMask {
    /// Compiles the mask to a tape.
    ///
    /// # Panics
    /// If the rule is a `score_mod`.
    pub fn new(rule: Arc<Rule>, bindings: Bindings, sizes: Sizes) -> Self {
        assert_eq!(rule.kind, RuleKind::Mask, "a tile of bits comes of a mask");
        let tape = Tape::new(&rule);
        Self {
            rule,
            bindings,
            sizes,
            tape,
            idle: Mutex::default(),
        }
    }

    /// The simplified mask of a prepared rule, at the longest lengths of its scope.
    ///
    /// # Panics
    /// As [`RowMask::new`].
    pub fn of(prepared: &Prepared) -> Self {
        let scope = prepared.scope();
        let sizes = Sizes {
            batch: scope.batch as i32,
            num_q_heads: scope.num_q_heads as i32,
            q_len: *scope.bucket.q_len.end() as i32,
            kv_len: *scope.bucket.kv_len.end() as i32,
        };
        Self::new(
            Arc::clone(prepared.rule()),
            prepared.bindings().clone(),
            sizes,
        )
    }

    /// Evaluates the cells `(q0 + i, kv0 + j)` for `i < n_q`, `j < n_kv`: bit `j % 64` of word
    /// `i * words_per_row + j / 64`. Every word of these rows is written; bits without a cell are 0.
    ///
    /// # Errors
    /// The error of the scalar interpreter at the first cell where it has one.
    ///
    /// # Panics
    /// If a position does not fit `i32`, or `bits` or a row of it is too short.
    #[expect(
        clippy::too_many_arguments,
        reason = "a tile is two intervals of one plane"
    )]
    pub fn try_tile(
        &self,
        b: u32,
        h: u32,
        q0: i64,
        n_q: usize,
        kv0: i64,
        n_kv: usize,
        bits: &mut [u64],
        words_per_row: usize,
    ) -> Result<(), EvalError> {
        if n_q == 0 || words_per_row == 0 {
            return Ok(());
        }
        let position = |at: i64| i32::try_from(at).expect("positions of a call fit i32");
        let plane = (position(i64::from(b)), position(i64::from(h)));
        let kv0 = position(kv0);
        let context = Context {
            rule: &self.rule,
            bindings: &self.bindings,
            sizes: self.sizes,
            tape: &self.tape,
        };
        let mut state = self
            .take_idle()
            .unwrap_or_else(|| State::new(&self.tape, &self.rule, &self.bindings, self.sizes));
        let rows = bits[..n_q * words_per_row].chunks_exact_mut(words_per_row);
        let mut done = Ok(());
        for (i, row) in rows.enumerate() {
            let query = (plane.0, plane.1, position(q0 + i as i64));
            done = context.mask_row(&mut state, query, kv0, n_kv, row);
            if done.is_err() {
                break;
            }
        }
        self.idle
            .lock()
            .expect("nothing panics while it holds this lock")
            .push(state);
        done
    }

    fn take_idle(&self) -> Option<State> {
        self.idle
            .lock()
            .expect("nothing panics while it holds this lock")
            .pop()
    }
}

/// # Panics
/// As [`RowMask::try_tile`], and if the mask was not validated for these cells.
impl MaskEvaluator for RowMask {
    fn tile(
        &self,
        b: u32,
        h: u32,
        q0: i64,
        n_q: usize,
        kv0: i64,
        n_kv: usize,
        bits: &mut [u64],
        words_per_row: usize,
    ) {
        if let Err(error) = self.try_tile(b, h, q0, n_q, kv0, n_kv, bits, words_per_row) {
            panic!("rule {} was not validated: {error}", self.rule.name);
        }
    }
}

/// What stays the same from one row to the next.
struct Context<'a> {
    rule: &'a Rule,
    bindings: &'a Bindings,
    sizes: Sizes,
    tape: &'a Tape,
}

impl Context<'_> {
    fn mask_row(
        &self,
        state: &mut State,
        query: (i32, i32, i32),
        kv0: i32,
        n: usize,
        bits: &mut [u64],
    ) -> Result<(), EvalError> {
        assert_eq!(self.rule.kind, RuleKind::Mask, "bits come of a mask");
        assert!(n <= bits.len() * 64, "a row has a bit for each key");
        state.enter(self.tape, self.rule, self.bindings, self.sizes, query);
        let mut chunks = bits.chunks_mut(LANES / 64);
        for first in (0..n).step_by(LANES) {
            let active = (n - first).min(LANES);
            let kv = kv0.wrapping_add(first as i32);
            state.run(self.tape, self.bindings, kv, active, None);
            if let Some(lane) = state.first_poisoned(self.tape, active) {
                return Err(self.error_at(query, kv.wrapping_add(lane as i32), 0.0));
            }
            let words = chunks.next().expect("a row has a bit for each key");
            state.pack(self.tape, active, words);
        }
        chunks.for_each(|words| words.fill(0));
        Ok(())
    }

    fn score_row(
        &self,
        state: &mut State,
        query: (i32, i32, i32),
        kv0: i32,
        scores: &mut [f32],
    ) -> Result<(), EvalError> {
        assert_eq!(
            self.rule.kind,
            RuleKind::Score,
            "scores come of a score_mod"
        );
        state.enter(self.tape, self.rule, self.bindings, self.sizes, query);
        for (chunk, scores) in scores.chunks_mut(LANES).enumerate() {
            let kv = kv0.wrapping_add((chunk * LANES) as i32);
            let active = scores.len();
            state.run(self.tape, self.bindings, kv, active, Some(scores));
            if let Some(lane) = state.first_poisoned(self.tape, active) {
                return Err(self.error_at(query, kv.wrapping_add(lane as i32), scores[lane]));
            }
            state.copy_scores(self.tape, scores);
        }
        Ok(())
    }

    /// The scalar interpreter says what went wrong at a cell, so that the two can never differ in it.
    fn error_at(&self, (b, h, q_idx): (i32, i32, i32), kv_idx: i32, score: f32) -> EvalError {
        let point = Point {
            b,
            h,
            q_idx,
            kv_idx,
            score,
        };
        ScalarEvaluator::new(self.rule, self.bindings, self.sizes)
            .eval(&point)
            .expect_err("a lane is poisoned only where the scalar interpreter fails")
    }
}

#[cfg(test)]
mod tests;
