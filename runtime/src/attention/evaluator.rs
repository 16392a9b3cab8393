//! A prepared rule with what evaluates it: machine code, or the row interpreter.

use std::sync::Arc;

use maskwright_dsl::bind::BoundRule;
use maskwright_dsl::block_mask::{CallShape, MaskEvaluator};
use maskwright_dsl::eval::{RowEvaluator, RowMask, Sizes};
use maskwright_dsl::ir::RuleKind;
use maskwright_dsl::pipeline::{Prepared, Scope, prepare};

use super::error::{AttentionError, CompileError};
use super::request::Origin;
#[cfg(feature = "cranelift")]
use crate::jit::{BoundEvaluator, CompiledRule};

/// How cells are evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    /// Machine code.
    #[cfg(feature = "cranelift")]
    Compiled,
    /// The row interpreter.
    Interpreted,
}

/// One rule of a kernel.
#[derive(Clone, Debug)]
pub(super) struct Part {
    prepared: Arc<Prepared>,
    code: Code,
}

#[derive(Clone, Debug)]
enum Code {
    #[cfg(feature = "cranelift")]
    Compiled(Arc<CompiledRule>),
    Interpreted,
}

impl Part {
    pub(super) fn new(
        bound: &BoundRule,
        scope: &Scope,
        engine: Engine,
    ) -> Result<Self, CompileError> {
        let prepared = Arc::new(prepare(bound, scope)?);
        let code = match engine {
            #[cfg(feature = "cranelift")]
            Engine::Compiled => Code::Compiled(Arc::new(CompiledRule::compile(&prepared)?)),
            Engine::Interpreted => Code::Interpreted,
        };
        Ok(Self { prepared, code })
    }

    /// The same code with the values of another binding of the same rule.
    pub(super) fn rebind(&self, bound: &BoundRule) -> Result<Self, CompileError> {
        let mine = self.prepared.original().rule();
        let other = || CompileError::OtherRule {
            expected: format!("rule {}", mine.name),
            found: format!("rule {}", bound.rule().name),
        };
        if !Arc::ptr_eq(mine, bound.rule()) && mine.identity() != bound.rule().identity() {
            return Err(other());
        }
        let prepared = Arc::new(prepare(bound, self.prepared.scope())?);
        match &self.code {
            #[cfg(feature = "cranelift")]
            Code::Compiled(code) if !code.fits(&prepared) => return Err(other()),
            #[cfg(feature = "cranelift")]
            Code::Compiled(_) => {}
            Code::Interpreted => {}
        }
        Ok(Self {
            prepared,
            code: self.code.clone(),
        })
    }

    pub(super) fn prepared(&self) -> &Arc<Prepared> {
        &self.prepared
    }

    /// The sizes at which the rule is evaluated for a call, if its proofs cover the call.
    ///
    /// A call within the bucket has its own sizes. Any other may be a part of one within it, as a decoding step or a
    /// slice is, which matters only to a rule that reads the sizes.
    pub(super) fn sizes_for(
        &self,
        call: &CallShape,
        origin: Origin,
    ) -> Result<Sizes, AttentionError> {
        let scope = self.prepared.scope();
        let reads = self.prepared.reads();
        let refuse = |reason| {
            Err(AttentionError::OutOfScope {
                rule: self.prepared.rule().name.clone(),
                scope: format!(
                    "[B<={}, H={}, {}]",
                    scope.batch, scope.num_q_heads, scope.bucket
                ),
                call: Box::new(*call),
                reason,
            })
        };
        let whole = origin.b == 0 && origin.h == 0;
        if reads.counts && !(whole && call.batch <= scope.batch && call.heads == scope.num_q_heads)
        {
            return refuse("the rule reads the batch or head count");
        }
        let fits = |first: u32, n: u32, all: u32| {
            first.checked_add(n).is_some_and(|end| n == 0 || end <= all)
        };
        if reads.b && !fits(origin.b, call.batch, scope.batch) {
            return refuse("the rule reads the batch index, and has no such entries");
        }
        if reads.h && !fits(origin.h, call.heads, scope.num_q_heads) {
            return refuse("the rule reads the head index, and has no such heads");
        }
        let batch = if reads.counts {
            call.batch
        } else {
            scope.batch
        };
        let sizes = |q_len: u64, kv_len: u64| Sizes {
            batch: batch as i32,
            num_q_heads: scope.num_q_heads as i32,
            q_len: q_len as i32,
            kv_len: kv_len as i32,
        };
        let bucket = &scope.bucket;
        if origin.kv == 0 && bucket.contains(call.q_len, call.kv_len, call.q_offset) {
            return Ok(sizes(call.q_len, call.kv_len));
        }
        if reads.lengths {
            return refuse("the rule reads the lengths, and the call is not within the bucket");
        }
        let longest = longest(scope);
        let last_q = bucket.q_offset.end().saturating_add(longest.q_len.into());
        let queries_fit = call.q_len == 0
            || (*bucket.q_offset.start() <= call.q_offset
                && call.q_offset.saturating_add(call.q_len as i64) <= last_q);
        if !queries_fit {
            return refuse("its queries lie outside");
        }
        let last_kv = origin.kv.saturating_add(call.kv_len as i64);
        if 0 < call.kv_len && (origin.kv < 0 || i64::from(longest.kv_len) < last_kv) {
            return refuse("its keys lie outside");
        }
        Ok(longest_with_batch(longest, batch))
    }

    /// The rule at certain sizes, which lie within its scope.
    pub(super) fn evaluator(&self, sizes: Sizes) -> RuleEvaluator {
        let prepared = Arc::clone(&self.prepared);
        let run = match &self.code {
            #[cfg(feature = "cranelift")]
            Code::Compiled(code) => Run::Compiled(
                BoundEvaluator::new(Arc::clone(code), &prepared, sizes)
                    .expect("the code is that of the rule, and the sizes are of its scope"),
            ),
            Code::Interpreted => match prepared.rule().kind {
                RuleKind::Mask => Run::Mask(Box::new(RowMask::new(
                    Arc::clone(prepared.rule()),
                    prepared.bindings().clone(),
                    sizes,
                ))),
                RuleKind::Score => Run::Score,
            },
        };
        RuleEvaluator {
            prepared,
            sizes,
            run,
        }
    }
}

/// Sizes of the longest call of a scope, which is checked.
pub(super) fn longest(scope: &Scope) -> Sizes {
    // Equal and at-most lengths attain both ends together once the ranges are tight.
    let tight = scope
        .bucket
        .tight()
        .unwrap_or_else(|_| scope.bucket.clone());
    Sizes {
        batch: scope.batch as i32,
        num_q_heads: scope.num_q_heads as i32,
        q_len: *tight.q_len.end() as i32,
        kv_len: *tight.kv_len.end() as i32,
    }
}

fn longest_with_batch(longest: Sizes, batch: u32) -> Sizes {
    Sizes {
        batch: batch as i32,
        ..longest
    }
}

/// A rule at certain sizes, ready to evaluate tiles of cells from any thread.
#[derive(Debug)]
pub struct RuleEvaluator {
    prepared: Arc<Prepared>,
    sizes: Sizes,
    run: Run,
}

#[derive(Debug)]
enum Run {
    #[cfg(feature = "cranelift")]
    Compiled(BoundEvaluator),
    Mask(Box<RowMask>),
    Score,
}

impl RuleEvaluator {
    /// The sizes that the rule sees.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Batch and head as the rule is asked for them: a rule that does not read one is the same for all of them, also
    /// beyond those it was prepared for.
    fn plane(&self, b: u32, h: u32) -> (u32, u32) {
        let reads = self.prepared.reads();
        (if reads.b { b } else { 0 }, if reads.h { h } else { 0 })
    }

    /// Evaluates a mask for queries `q0..q0 + n_q` and keys `kv0..kv0 + n_kv`, all absolute positions.
    ///
    /// # Shapes
    /// `bits` has `n_q` rows of `words_per_row` words; key `kv0 + j` of a row is bit `j % 64` of word `j / 64`. Every
    /// word is written, and bits beyond `n_kv` are zero.
    ///
    /// # Panics
    /// If the rule is a `score_mod`, the tile leaves the scope of the rule, or `bits` is too short.
    #[expect(
        clippy::too_many_arguments,
        reason = "a tile has two coordinates and two ranges"
    )]
    pub fn mask_tile(
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
        let (b, h) = self.plane(b, h);
        match &self.run {
            #[cfg(feature = "cranelift")]
            Run::Compiled(compiled) => {
                compiled.mask_tile(b, h, q0, n_q, kv0, n_kv, bits, words_per_row);
            }
            Run::Mask(rows) => rows.tile(b, h, q0, n_q, kv0, n_kv, bits, words_per_row),
            Run::Score => panic!("rule {} has scores, not bits", self.prepared.rule().name),
        }
    }

    /// Changes scores in place, for queries `q0..q0 + n_q` and keys `kv0..kv0 + n_kv`, all absolute positions.
    ///
    /// # Shapes
    /// Row `i` of `scores` starts at `i * row_stride` and has `n_kv` scores.
    ///
    /// # Panics
    /// If the rule is a mask, the tile leaves the scope of the rule, or `scores` is too short.
    #[expect(
        clippy::too_many_arguments,
        reason = "a tile has two coordinates and two ranges"
    )]
    pub fn score_tile(
        &self,
        b: u32,
        h: u32,
        q0: i64,
        n_q: usize,
        kv0: i64,
        n_kv: usize,
        scores: &mut [f32],
        row_stride: usize,
    ) {
        let (b, h) = self.plane(b, h);
        match &self.run {
            #[cfg(feature = "cranelift")]
            Run::Compiled(compiled) => {
                compiled.score_tile(b, h, q0, n_q, kv0, n_kv, scores, row_stride);
            }
            Run::Score => self.interpret_scores((b, h), (q0, n_q), (kv0, n_kv), scores, row_stride),
            Run::Mask(_) => panic!("rule {} has bits, not scores", self.prepared.rule().name),
        }
    }

    fn interpret_scores(
        &self,
        (b, h): (u32, u32),
        (q0, n_q): (i64, usize),
        (kv0, n_kv): (i64, usize),
        scores: &mut [f32],
        row_stride: usize,
    ) {
        let rule = self.prepared.rule();
        let position = |at: i64| i32::try_from(at).expect("positions of a call fit i32");
        let mut rows = RowEvaluator::new(rule, self.prepared.bindings(), self.sizes);
        for i in 0..n_q {
            let row = &mut scores[i * row_stride..][..n_kv];
            let (q, kv) = (position(q0 + i as i64), position(kv0));
            if let Err(error) = rows.score_row(b as i32, h as i32, q, kv, row) {
                panic!("rule {} was not validated: {error}", rule.name);
            }
        }
    }
}

/// # Panics
/// As [`RuleEvaluator::mask_tile`].
impl MaskEvaluator for RuleEvaluator {
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
        self.mask_tile(b, h, q0, n_q, kv0, n_kv, bits, words_per_row);
    }
}
