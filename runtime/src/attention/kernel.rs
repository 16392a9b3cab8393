//! Rules that are prepared and compiled for a bucket, ready to run for any of its calls.

use std::sync::OnceLock;
use std::time::Instant;

use maskwright_cpu::{Output, TensorDataMut};
use maskwright_dsl::bind::{MaskRule, ScoreRule};
use maskwright_dsl::block_mask::{
    Authority, BlockClass, BlockMask, BlockSize, CallShape, Geometry,
};
use maskwright_dsl::bucket::Bucket;
use maskwright_dsl::eval::Sizes;
use maskwright_dsl::fingerprint::Fingerprint;
use maskwright_dsl::pipeline::{Prepared, Scope, prepare};

use super::cpu::{self, TileRules};
use super::dispatch::{Chosen, choose};
use super::error::{AttentionError, CompileError};
use super::evaluator::{Engine, Part, RuleEvaluator, longest};
use super::launch::{LaunchRecord, Shapes, Tiles};
#[cfg(feature = "cuda")]
use super::request::Frame;
use super::request::{Call, ForwardOptions, Origin, TensorRef};
use super::rules::Rules;
#[cfg(feature = "cuda")]
use crate::cuda::CudaState;
use crate::reference::{DenseCall, dense_attention};

/// Rules, prepared and compiled for a scope: runs for any call in its bucket, and for any captured values that keep the
/// preconditions.
///
/// It runs as well for a call that is a part of one in its bucket, as a decoding step is a part of self-attention,
/// unless a rule reads the lengths.
#[derive(Clone, Debug)]
pub struct Kernel {
    rules: Rules,
    scope: Scope,
    mask: Option<Part>,
    score: Option<Part>,
    sources: OnceLock<Vec<Fingerprint>>,
    #[cfg(feature = "cuda")]
    cuda: CudaState,
}

impl Kernel {
    /// Prepares both rules for a scope, and compiles them to machine code; without the feature `cranelift` the row
    /// interpreter evaluates them.
    ///
    /// # Errors
    /// [`CompileError`] if the scope has no calls or too long ones, a rule is refused, or it has no machine code.
    pub fn compile(rules: &Rules, scope: &Scope) -> Result<Self, CompileError> {
        #[cfg(feature = "cranelift")]
        let engine = Engine::Compiled;
        #[cfg(not(feature = "cranelift"))]
        let engine = Engine::Interpreted;
        Self::with_engine(rules, scope, engine)
    }

    /// Prepares both rules for a scope, to be evaluated by the row interpreter: slower, and nothing is compiled.
    ///
    /// # Errors
    /// [`CompileError`] if the scope has no calls or too long ones, or a rule is refused.
    pub fn interpret(rules: &Rules, scope: &Scope) -> Result<Self, CompileError> {
        Self::with_engine(rules, scope, Engine::Interpreted)
    }

    fn with_engine(rules: &Rules, scope: &Scope, engine: Engine) -> Result<Self, CompileError> {
        check_scope(scope)?;
        let score = rules.score.as_ref();
        let score = score
            .map(|rule| Part::new(rule.bound(), scope, engine))
            .transpose()?;
        let mask = effective_mask(rules, score.as_ref());
        let mask = mask
            .map(|rule| Part::new(rule.bound(), scope, engine))
            .transpose()?;
        Ok(Self {
            rules: rules.clone(),
            scope: scope.clone(),
            mask,
            score,
            sources: OnceLock::new(),
            #[cfg(feature = "cuda")]
            cuda: CudaState::default(),
        })
    }

    /// The same code with other captured values: `rules` are other bindings of the same rules.
    ///
    /// # Errors
    /// [`CompileError::OtherRule`] if they are not, [`CompileError::Refused`] if a value breaks what proofs rest on.
    pub fn rebind(&self, rules: &Rules) -> Result<Self, CompileError> {
        let rebind = |part: &Option<Part>, kind, bound: Option<&_>| match (part, bound) {
            (Some(part), Some(bound)) => part.rebind(bound).map(Some),
            (None, None) => Ok(None),
            (Some(part), None) => Err(CompileError::OtherRule {
                expected: format!("rule {}", part.prepared().original().rule().name),
                found: format!("no {kind}"),
            }),
            (None, Some(_)) => Err(CompileError::OtherRule {
                expected: format!("no {kind}"),
                found: "one".to_owned(),
            }),
        };
        let score = rules.score.as_ref().map(ScoreRule::bound);
        let score = rebind(&self.score, "score rule", score)?;
        let mask = effective_mask(rules, score.as_ref());
        let mask = rebind(&self.mask, "mask", mask.as_ref().map(MaskRule::bound))?;
        Ok(Self {
            rules: rules.clone(),
            scope: self.scope.clone(),
            mask,
            score,
            sources: OnceLock::new(),
            #[cfg(feature = "cuda")]
            cuda: self.cuda.rebound(),
        })
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn cuda_state(&self) -> &CudaState {
        &self.cuda
    }

    /// Refuses a call that the proofs of the rules do not cover, or a block mask that is not theirs.
    #[cfg(feature = "cuda")]
    pub(crate) fn check_call(
        &self,
        frame: &Frame,
        block_mask: Option<&BlockMask>,
    ) -> Result<(), AttentionError> {
        for part in [&self.mask, &self.score].into_iter().flatten() {
            part.sizes_for(&frame.shape, frame.origin)?;
        }
        match block_mask {
            Some(given) => self.check_mask(given, &frame.shape),
            None => Ok(()),
        }
    }

    /// The rules with their captured values.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// What the kernel was compiled for.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The mask as it was prepared.
    pub fn prepared_mask(&self) -> Option<&Prepared> {
        self.mask.as_ref().map(|part| part.prepared().as_ref())
    }

    /// The score rule as it was prepared.
    pub fn prepared_score(&self) -> Option<&Prepared> {
        self.score.as_ref().map(|part| part.prepared().as_ref())
    }

    /// The mask for the whole bucket: full and empty blocks are so for each of its calls. Without a mask rule, all
    /// blocks are full.
    ///
    /// # Errors
    /// [`AttentionError::BlockMask`] if the scope has no batch entry or head, or more blocks than a mask can count.
    pub fn block_mask(&self, block: BlockSize) -> Result<BlockMask, AttentionError> {
        let Some(mask) = &self.mask else {
            let geometry = Geometry::new(
                self.scope.batch,
                self.scope.num_q_heads,
                &self.scope.bucket,
                block,
            )?;
            return Ok(BlockMask::uniform(geometry, BlockClass::Full));
        };
        let evaluator = mask.evaluator(longest(&self.scope));
        Ok(BlockMask::build_with(mask.prepared(), block, &evaluator)?.0)
    }

    /// The exact mask of one call, for the batch and head counts of the scope.
    ///
    /// # Errors
    /// [`AttentionError::OutOfScope`] if the proofs of the mask do not cover the call, and those of
    /// [`Kernel::block_mask`].
    pub fn block_mask_at(
        &self,
        q_len: u64,
        kv_len: u64,
        q_offset: i64,
        block: BlockSize,
    ) -> Result<BlockMask, AttentionError> {
        self.exact_mask(&self.call_shape(q_len, kv_len, q_offset), block)
    }

    /// The mask at the sizes of one call, to be asked for cells; `None` without a mask rule.
    ///
    /// # Errors
    /// [`AttentionError::OutOfScope`] if the proofs of the mask do not cover the call.
    pub fn mask_evaluator(
        &self,
        q_len: u64,
        kv_len: u64,
        q_offset: i64,
    ) -> Result<Option<RuleEvaluator>, AttentionError> {
        let call = self.call_shape(q_len, kv_len, q_offset);
        evaluator(self.mask.as_ref(), &call, Origin::default())
    }

    /// The score rule at the sizes of one call, to be asked for scores; `None` without a score rule.
    ///
    /// # Errors
    /// [`AttentionError::OutOfScope`] if the proofs of the rule do not cover the call.
    pub fn score_evaluator(
        &self,
        q_len: u64,
        kv_len: u64,
        q_offset: i64,
    ) -> Result<Option<RuleEvaluator>, AttentionError> {
        let call = self.call_shape(q_len, kv_len, q_offset);
        evaluator(self.score.as_ref(), &call, Origin::default())
    }

    fn call_shape(&self, q_len: u64, kv_len: u64, q_offset: i64) -> CallShape {
        CallShape {
            batch: self.scope.batch,
            heads: self.scope.num_q_heads,
            q_len,
            kv_len,
            q_offset,
        }
    }

    fn exact_mask(&self, call: &CallShape, block: BlockSize) -> Result<BlockMask, AttentionError> {
        let bucket = Bucket::single(call.q_len, call.kv_len, call.q_offset);
        let Some(mask) = &self.mask else {
            let geometry = Geometry::new(call.batch, call.heads, &bucket, block)?;
            return Ok(BlockMask::uniform(geometry, BlockClass::Full));
        };
        let evaluator = mask.evaluator(mask.sizes_for(call, Origin::default())?);
        let mut scope = self.scope.clone();
        scope.bucket = bucket;
        (scope.batch, scope.num_q_heads) = (call.batch, call.heads);
        // The scalars have their values of today, which an exact mask is of.
        scope.scalar_ranges.clear();
        let exact = prepare(mask.prepared().original(), &scope).map_err(CompileError::Refused)?;
        Ok(BlockMask::build_with(&exact, block, &evaluator)?.0)
    }

    /// Computes attention.
    ///
    /// Scores are `sm_scale · Q Kᵀ`, changed by the score rule; then the mask is applied. A row without a key to attend
    /// to gets output 0, lse −∞ and row max −∞. A block mask decides which blocks are looked into; one whose lists are
    /// the law decides alone outside its partial blocks, and one that was sliced says where the positions of the rule
    /// begin.
    ///
    /// # Shapes
    /// `q` `[B, Hq, Lq, Dqk]`, `k` `[B, Hkv, Lkv, Dqk]`, `v` `[B, Hkv, Lkv, Dv]`, `out` `[B, Hq, Lq, Dv]`, `lse` and
    /// `row_max` `[B, Hq, Lq]`; query head `h` reads key head `h / (Hq / Hkv)`.
    ///
    /// # Errors
    /// [`AttentionError`]; the outputs are untouched then, except where the reference finds no value of a rule.
    pub fn forward(
        &self,
        q: TensorRef<'_>,
        k: TensorRef<'_>,
        v: TensorRef<'_>,
        options: &ForwardOptions<'_>,
        output: Output<'_>,
    ) -> Result<LaunchRecord, AttentionError> {
        let call = Call::new(q, k, v, options.q_offset, options.block_mask)?;
        call.check_output(&output)?;
        let sm_scale = call.scale(options)?;
        let mask = evaluator(self.mask.as_ref(), &call.shape, call.origin)?;
        let score = evaluator(self.score.as_ref(), &call.shape, call.origin)?;
        if let Some(given) = options.block_mask {
            self.check_mask(given, &call.shape)?;
        }
        let (chosen, refusals) = choose(self, &call, options, &output.out)?;
        let mut record = LaunchRecord {
            backend: chosen.backend(),
            kernel: chosen.kernel(),
            refusals,
            tiles: Tiles::default(),
            shapes: Shapes {
                q: q.shape(),
                k: k.shape(),
                v: v.shape(),
            },
            dtype: q.dtype(),
            device: format!("cpu ({})", std::env::consts::ARCH),
            threads: rayon::current_num_threads(),
            version: env!("CARGO_PKG_VERSION"),
            seconds: 0.0,
        };
        let started;
        let build = || {
            let wanted = options.block_mask.is_none() && mask.is_some() && call.has_cells();
            let built = wanted.then(|| self.exact_mask(&call.shape, options.block));
            built.transpose()
        };
        match chosen {
            #[cfg(feature = "cuda")]
            Chosen::Gpu(run) => {
                let built = build()?;
                let blocks = options.block_mask.or(built.as_ref());
                started = Instant::now();
                let ran = run.run(&call, sm_scale, options.q_offset, blocks, output)?;
                record.kernel = ran.kernel;
                record.tiles = ran.tiles;
                record.device = ran.device;
                record.threads = ran.threads;
            }
            Chosen::Cpu(micro) => {
                let built = build()?;
                let rules = TileRules {
                    mask: mask.as_ref(),
                    score: score.as_ref(),
                    origin: call.origin,
                    q_offset: options.q_offset,
                };
                let blocks = options.block_mask.or(built.as_ref());
                started = Instant::now();
                let (kernel, tiles) = cpu::run(micro, &call, sm_scale, blocks, &rules, output)?;
                kernel.clone_into(&mut record.kernel);
                record.tiles = tiles;
            }
            Chosen::Reference => {
                started = Instant::now();
                let dense = dense_attention(&DenseCall {
                    sm_scale: Some(sm_scale),
                    q_offset: options.q_offset,
                    block_mask: options.block_mask,
                    ..DenseCall::new(q, k, v, &self.rules)
                })?;
                write_rounded(output, &dense.out, &dense.lse, &dense.row_max);
            }
        }
        record.seconds = started.elapsed().as_secs_f64();
        Ok(record)
    }

    /// What a block mask for this call may have been built from: the mask that attention applies, or a part of it,
    /// with the scalars of today or for any of the bucket.
    fn sources(&self) -> &[Fingerprint] {
        self.sources.get_or_init(|| {
            let applied = self.mask.as_ref().map(|part| part.prepared().original());
            let derived = self
                .score
                .as_ref()
                .and_then(|part| part.prepared().derived_mask_rule());
            let parts = self.rules.mask.iter().chain(&derived).map(MaskRule::bound);
            let mut sources = Vec::new();
            for bound in applied.into_iter().chain(parts) {
                let captures = &bound.rule().captures;
                let in_bucket =
                    |slot: usize| self.scope.scalar_range(&captures[slot].name).is_some();
                sources.push(Fingerprint::of(bound, in_bucket));
                sources.push(Fingerprint::of(bound, |_| false));
            }
            sources
        })
    }

    /// Refuses a block mask that fits the shape of the call but not the rules.
    fn check_mask(&self, given: &BlockMask, call: &CallShape) -> Result<(), AttentionError> {
        // Where the lists are the law, they mean what they say whatever the rule is.
        if given.authority() == Authority::Lists {
            return Ok(());
        }
        let Some(mask) = &self.mask else {
            let cols = given.cols();
            let all_full = given.distinct_planes().all(|plane| {
                (0..plane.rows()).all(|row| {
                    let run = plane.row(row).first();
                    cols == 0 || run.is_some_and(|run| run.is_full() && run.count() == cols)
                })
            });
            if all_full {
                return Ok(());
            }
            return Err(AttentionError::NoMaskRule {
                built: Box::new(given.geometry().clone()),
            });
        };
        if let Some(source) = given.source()
            && !self.sources().contains(&source)
        {
            return Err(AttentionError::OtherMask {
                rule: mask.prepared().original().rule().name.clone(),
            });
        }
        let reads = mask.prepared().reads();
        for (axis, var, varies, one, many) in [
            ("batch", "b", reads.b, given.batch(), call.batch),
            ("head", "h", reads.h, given.heads(), call.heads),
        ] {
            if varies && one == 1 && 1 < many {
                return Err(AttentionError::Broadcast {
                    axis,
                    var,
                    rule: mask.prepared().rule().name.clone(),
                    built: Box::new(given.geometry().clone()),
                    call: Box::new(*call),
                });
            }
        }
        Ok(())
    }
}

/// The mask that attention applies: that of the call, and what the score rule sends to −∞ whatever the score is.
fn effective_mask(rules: &Rules, score: Option<&Part>) -> Option<MaskRule> {
    let derived = score.and_then(|score| score.prepared().derived_mask_rule());
    match (rules.mask.clone(), derived) {
        // The two may be one and the same, and then say nothing more together.
        (Some(mask), Some(derived)) if mask.bound().is_same(derived.bound()) => Some(mask),
        (Some(mask), Some(derived)) => Some(mask & derived),
        (mask, derived) => mask.or(derived),
    }
}

fn evaluator(
    part: Option<&Part>,
    call: &CallShape,
    origin: Origin,
) -> Result<Option<RuleEvaluator>, AttentionError> {
    let Some(part) = part else { return Ok(None) };
    let sizes: Sizes = part.sizes_for(call, origin)?;
    Ok(Some(part.evaluator(sizes)))
}

/// Checks that the bucket has calls, and that all positions and sizes in it are `i32`.
fn check_scope(scope: &Scope) -> Result<(), CompileError> {
    let tight = scope.bucket.tight()?;
    let last_q = i128::from(*tight.q_offset.end()) + i128::from(*tight.q_len.end()) - 1;
    for (axis, found) in [
        ("batch", i128::from(scope.batch)),
        ("num_q_heads", i128::from(scope.num_q_heads)),
        ("q_len", i128::from(*tight.q_len.end())),
        ("kv_len", i128::from(*tight.kv_len.end())),
        ("q_offset", i128::from(*tight.q_offset.start())),
        ("q_offset", i128::from(*tight.q_offset.end())),
        ("q_idx", last_q),
    ] {
        if i32::try_from(found).is_err() {
            return Err(CompileError::TooLong { axis, found });
        }
    }
    Ok(())
}

fn write_rounded(output: Output<'_>, out: &[f64], lse: &[f64], row_max: &[f64]) {
    match output.out {
        TensorDataMut::F32(to) => round_into(to, out, |x| x as f32),
        TensorDataMut::F16(to) => round_into(to, out, half::f16::from_f64),
        TensorDataMut::BF16(to) => round_into(to, out, half::bf16::from_f64),
    }
    for (to, from) in [(output.lse, lse), (output.row_max, row_max)] {
        if let Some(to) = to {
            round_into(to, from, |x| x as f32);
        }
    }
}

fn round_into<T>(to: &mut [T], from: &[f64], round: impl Fn(f64) -> T) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = round(*from);
    }
}
