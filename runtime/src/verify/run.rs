//! The order of the checks of one verification, and the certificate that comes of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use maskwright_dsl::bind::{BoundRule, MaskRule, ScoreRule};
use maskwright_dsl::block_mask::{BlockMask, BlockMaskError, BlockSize, MaskEvaluator};
use maskwright_dsl::bucket::{Bucket, Member};
use maskwright_dsl::ir::RuleKind;
use maskwright_dsl::pipeline::{Prepared, Scope, prepare};
use rayon::prelude::*;

use super::attention::{self, AttentionCheck, AttentionRules, Tolerance};
use super::captured::{self, Generation};
use super::certificate::{Certificate, Check, CheckedShape, RuleName};
use super::error::VerifyError;
#[cfg(feature = "cuda")]
use super::gpu::{self, GpuRequest};
use super::members::{cells, largest, members};
use super::random::Random;
use super::report::{BlockReport, VerifyReport, hex};
use super::request::VerifyRequest;
use super::sample::{Depth, Sampled, sample};
use super::scores::{ScoreUnderTest, WHOLE_SCORES, WHOLE_SCORES_OF_THE_LONGEST, check_scores};
use super::subject::{MaskUnderTest, Rect, Subject};
use super::sweep::{Hash, Patience, SMALL_CELLS, sweep};
use super::versions::Versions;
#[cfg(feature = "cuda")]
use crate::artifact::ArtifactKernel;
use crate::artifact::{Artifact, artifact_key};
use crate::attention::Rules;
use crate::jit::CompiledRule;

/// Calls but the largest are checked whole up to so many computed cells, and sampled beyond.
const WHOLE_CELLS: u128 = 1 << 17;

/// Rows and keys of a call that are looked at with generated captured values.
const GENERATED_WINDOW: (u64, u64) = (48, 200);

/// Calls at which generated captured values are tried.
const GENERATED_CALLS: usize = 3;

/// Longer budgets are taken as this one.
const MAX_BUDGET_SECS: f64 = 1.0e6;

const STREAM: u64 = 4;
const TILE_STREAM: u64 = 6;

/// Tiles at odd places of a call that is checked whole.
const ODD_TILES: u64 = 3;

/// How a block mask comes about; tests put wrong ones in.
pub(super) type BuildMask<'a> =
    &'a dyn Fn(&Prepared, BlockSize, &dyn MaskEvaluator) -> Result<BlockMask, BlockMaskError>;

/// The block mask of a rule, as the runtime builds it.
pub(super) fn build_mask(
    prepared: &Prepared,
    block: BlockSize,
    evaluator: &dyn MaskEvaluator,
) -> Result<BlockMask, BlockMaskError> {
    BlockMask::build_with(prepared, block, evaluator).map(|(mask, _)| mask)
}

/// A rule that was prepared and compiled.
struct Ready {
    prepared: Prepared,
    compiled: Arc<CompiledRule>,
}

impl Ready {
    fn new(bound: &BoundRule, scope: &Scope) -> Result<Self, VerifyError> {
        let rule = &bound.rule().name;
        let prepared = prepare(bound, scope).map_err(|diagnostics| VerifyError::Refused {
            rule: rule.clone(),
            diagnostics,
        })?;
        let compiled = CompiledRule::compile(&prepared).map_err(|source| VerifyError::Jit {
            rule: rule.clone(),
            source,
        })?;
        Ok(Self {
            prepared,
            compiled: Arc::new(compiled),
        })
    }

    /// Whether simplification changed what is computed.
    fn simplified(&self) -> bool {
        self.prepared.original().rule().identity() != self.prepared.rule().identity()
    }
}

fn name(bound: &BoundRule) -> RuleName {
    RuleName {
        name: bound.rule().name.clone(),
        identity: hex(&bound.rule().identity()),
        author: bound.reference().is_some(),
    }
}

/// What the checks came to so far.
#[derive(Default)]
struct Findings {
    checks: Vec<Check>,
    shapes: Vec<CheckedShape>,
    notes: Vec<String>,
    tolerances: Vec<Tolerance>,
    report: VerifyReport,
    /// Whether the scores of the largest call were compared at every cell; also where there is no score rule.
    all_scores: bool,
}

pub(super) fn verify_with(
    request: &VerifyRequest<'_>,
    build: BuildMask<'_>,
) -> Result<Artifact, VerifyError> {
    let started = Instant::now();
    let budget_secs = match request.budget_secs {
        nan if nan.is_nan() => 0.0,
        secs => secs.clamp(0.0, MAX_BUDGET_SECS),
    };
    let scope = checked_scope(&request.scope)?;
    let ready =
        |bound: Option<&BoundRule>| bound.map(|bound| Ready::new(bound, &scope)).transpose();
    if request.mask.is_none() && request.score.is_none() {
        return Err(VerifyError::NothingToVerify);
    }
    let score = ready(request.score.map(ScoreRule::bound))?;
    let effective = request.effective_mask(score.as_ref().map(|ready| &ready.prepared));
    let mask = ready(effective.as_ref().map(MaskRule::bound))?;
    let members = members(&scope.bucket, request.seed);
    let largest = largest(&scope.bucket);
    let mut findings = Findings {
        all_scores: true,
        ..Findings::default()
    };

    let mut masks = Vec::new();
    if let Some(mask) = &mask {
        let under_test = under_test(mask, &[]);
        let evaluator = Subject::new(&under_test, largest, true)?;
        for block in request.distinct_blocks() {
            masks.push(build(&mask.prepared, block, &evaluator)?);
        }
    }
    if let Some(score) = &score {
        check_score(request, score, &members, &mut findings)?;
    }
    for ready in [&mask, &score].into_iter().flatten() {
        check_generated(request, ready, &members, &mut findings)?;
    }
    if let Some(mask) = &mask {
        let end = started + Duration::from_secs_f64(budget_secs);
        let under_test = under_test(mask, &masks);
        check_mask(request, &under_test, &members, end, &mut findings)?;
    }
    // Last, since a wrong cell says more than the wrong output that comes of it.
    let reads_lengths = [&mask, &score]
        .into_iter()
        .flatten()
        .any(|ready| ready.prepared.reads().lengths);
    let part = if reads_lengths {
        None
    } else {
        attention::part(&largest, scope.batch, scope.num_q_heads)
            .filter(|part| holds_for(part, &scope, [&mask, &score]))
    };
    check_attention(request, &scope, &masks, (&members, part), &mut findings)?;
    #[cfg(feature = "cuda")]
    let kernels = match &request.gpu {
        Some(gpu) => {
            if let Some(mask) = &mask {
                check_predicate(gpu, &under_test(mask, &[]), &members, &mut findings)?;
            }
            note_kernels(gpu, &pair_of(request), &scope, &masks, &mut findings)?
        }
        None => Vec::new(),
    };

    let mut preconditions = Vec::new();
    for ready in [&mask, &score].into_iter().flatten() {
        let name = &ready.prepared.original().rule().name;
        let lines = ready.prepared.preconditions().iter();
        preconditions.extend(lines.map(|line| format!("{name}: {line}")));
    }
    let seconds = started.elapsed().as_secs_f64();
    let mut report = findings.report;
    report.exhaustive &= findings.all_scores;
    report.blocks = masks.iter().map(BlockReport::of).collect();
    report.seconds = seconds;
    let certificate = Certificate {
        mask: request.mask.map(|mask| name(mask.bound())),
        score: request.score.map(|score| name(score.bound())),
        effective_mask: effective.as_ref().map(|mask| name(mask.bound())),
        bucket: scope.bucket.to_string(),
        relation: scope.bucket.relation.to_string(),
        batch: scope.batch,
        num_q_heads: scope.num_q_heads,
        blocks: masks.iter().map(|mask| mask.block().to_string()).collect(),
        checks: findings.checks,
        shapes: findings.shapes,
        cells_checked: report.cells_checked,
        exhaustive: report.exhaustive,
        preconditions,
        notes: findings.notes,
        tolerances: findings.tolerances,
        seed: request.seed,
        budget_secs,
        versions: Versions::current(),
        seconds,
    };
    let lowered = |ready: Option<Ready>| ready.map(|ready| Arc::clone(ready.prepared.rule()));
    let artifact = Artifact::new(
        artifact_key(request),
        (lowered(mask), lowered(score)),
        masks,
        certificate,
        report,
    );
    #[cfg(feature = "cuda")]
    let artifact = artifact.with_kernels(kernels);
    Ok(artifact)
}

fn pair_of(request: &VerifyRequest<'_>) -> Rules {
    Rules {
        mask: request.mask.cloned(),
        score: request.score.cloned(),
    }
}

/// Compares the predicate of kernels with the law.
#[cfg(feature = "cuda")]
fn check_predicate(
    gpu: &GpuRequest,
    under_test: &MaskUnderTest<'_>,
    members: &[Member],
    findings: &mut Findings,
) -> Result<(), VerifyError> {
    let compared = gpu::check_predicate(gpu, under_test, members)?;
    findings.checks.push(Check {
        what: format!("mask bits of the kernel on {} against the law", gpu.machine),
        shapes: compared.calls,
        cells: compared.cells,
        exhaustive: compared.whole,
        sampled_cells: compared.sampled,
        blocks: 0,
    });
    Ok(())
}

/// Compiles what the artifact is to hold, and says on what it was not run.
#[cfg(feature = "cuda")]
fn note_kernels(
    gpu: &GpuRequest,
    rules: &Rules,
    scope: &Scope,
    masks: &[BlockMask],
    findings: &mut Findings,
) -> Result<Vec<ArtifactKernel>, VerifyError> {
    let kernels = gpu::compile(gpu, rules, scope, masks)?;
    for kernel in &kernels {
        findings.notes.push(format!(
            "kernel {} was compiled; what ran its text is {}",
            kernel.name, gpu.machine
        ));
    }
    Ok(kernels)
}

fn under_test<'a>(ready: &'a Ready, masks: &'a [BlockMask]) -> MaskUnderTest<'a> {
    MaskUnderTest {
        prepared: &ready.prepared,
        compiled: &ready.compiled,
        masks,
        simplified: ready.simplified(),
        generated_captures: false,
    }
}

/// The scope with a tight bucket, if all of its sizes are those of the language.
fn checked_scope(scope: &Scope) -> Result<Scope, VerifyError> {
    let size = |what: &'static str, value: i128| match i32::try_from(value) {
        Ok(_) => Ok(()),
        Err(_) => Err(VerifyError::Size {
            what,
            found: value.to_string(),
        }),
    };
    let bucket: Bucket = scope.bucket.tight()?;
    size("batch", i128::from(scope.batch))?;
    size("num_q_heads", i128::from(scope.num_q_heads))?;
    size("q_len", i128::from(*bucket.q_len.end()))?;
    size("kv_len", i128::from(*bucket.kv_len.end()))?;
    size("q_offset", i128::from(*bucket.q_offset.start()))?;
    let last = i128::from(*bucket.q_offset.end()) + i128::from(*bucket.q_len.end());
    size("q_offset + q_len", last)?;
    Ok(Scope {
        bucket,
        ..scope.clone()
    })
}

fn check_mask(
    request: &VerifyRequest<'_>,
    under_test: &MaskUnderTest<'_>,
    members: &[Member],
    end: Instant,
    findings: &mut Findings,
) -> Result<(), VerifyError> {
    let last = members.len() - 1;
    // Collected in order before any is looked at, so that the fault reported is that of the smallest call.
    let small: Vec<Result<Calls, VerifyError>> = members[..last]
        .par_iter()
        .map(|&member| check_member(under_test, member, request.seed))
        .collect();
    let mut calls = Calls::default();
    for (call, &member) in small.into_iter().zip(members) {
        let call = call?;
        calls.add(&call);
        findings.shapes.push(shape(member, call.sampled.cells == 0));
    }
    let subject = Subject::new(under_test, members[last], true)?;
    let hash = if request.want_packbits {
        Hash::Packbits
    } else {
        Hash::No
    };
    let computed = cells(&members[last]) * subject.planes().len() as u128;
    let patience = if hash == Hash::Packbits || computed <= u128::from(SMALL_CELLS) {
        Patience::Endless
    } else {
        Patience::Until(end)
    };
    let report = &mut findings.report;
    let swept = sweep(&subject, patience, hash)?;
    let mut blocks = Vec::new();
    if let Some(swept) = &swept {
        report.allowed = Some(swept.allowed);
        report.rows_without_any_key = Some(swept.rows_without_any_key);
        report.packbits_sha256 = swept.packbits_sha256.map(|hash| hex(&hash));
        calls.whole_cells += swept.cells;
        for mask in under_test.masks {
            blocks.push(u64::try_from(mask.counts().total()).unwrap_or(u64::MAX));
        }
    } else {
        let sampled = sample(&subject, Depth::Largest, request.seed)?;
        findings.notes.push(format!(
            "the largest call was sampled on {} of {} planes: {} cells, of which {} at random, {} of {} partial blocks whole, {} of {} rows and columns of block edges",
            sampled.planes,
            sampled.planes_of,
            sampled.cells,
            sampled.random_cells,
            sampled.undecided_blocks,
            sampled.undecided_blocks_of,
            sampled.edges,
            sampled.edges_of,
        ));
        calls.sampled.cells += sampled.cells;
        blocks = vec![sampled.undecided_blocks; under_test.masks.len()];
    }
    calls.shapes += 1;
    findings.shapes.push(shape(members[last], swept.is_some()));
    report.exhaustive = swept.is_some();
    report.cells_checked = calls.whole_cells + calls.sampled.cells;
    let check = |what: String, blocks: u64| Check {
        what,
        shapes: calls.shapes,
        cells: calls.whole_cells + calls.sampled.cells,
        exhaustive: swept.is_some(),
        sampled_cells: calls.sampled.cells,
        blocks,
    };
    let author = under_test.prepared.original().reference().is_some();
    let mut what = vec![];
    if author {
        what.push("compiled mask bits against the author's function");
        what.push("the interpreter against the author's function");
    } else {
        what.push("compiled mask bits against the interpreter");
    }
    if under_test.simplified {
        what.push("the simplified rule against the interpreter of the rule as written");
    }
    findings
        .checks
        .extend(what.into_iter().map(|what| check(what.to_owned(), 0)));
    for (mask, blocks) in under_test.masks.iter().zip(blocks) {
        let what = format!("classes of {} blocks against the cells", mask.block());
        findings.checks.push(check(what, blocks));
    }
    Ok(())
}

fn shape(member: Member, whole: bool) -> CheckedShape {
    CheckedShape {
        q_len: member.q_len,
        kv_len: member.kv_len,
        q_offset: member.q_offset,
        whole,
    }
}

/// What several calls came to.
#[derive(Clone, Copy, Default)]
struct Calls {
    shapes: u64,
    whole_cells: u64,
    sampled: Sampled,
}

impl Calls {
    fn add(&mut self, other: &Calls) {
        self.shapes += other.shapes;
        self.whole_cells += other.whole_cells;
        self.sampled.cells += other.sampled.cells;
    }
}

fn check_member(
    under_test: &MaskUnderTest<'_>,
    member: Member,
    seed: u64,
) -> Result<Calls, VerifyError> {
    let subject = Subject::new(under_test, member, false)?;
    let mut calls = Calls {
        shapes: 1,
        ..Calls::default()
    };
    if cells(&member) * subject.planes().len() as u128 <= WHOLE_CELLS {
        let swept = sweep(&subject, Patience::Endless, Hash::No)?;
        calls.whole_cells = swept.map_or(0, |swept| swept.cells);
        check_odd_tiles(&subject, seed)?;
    } else {
        calls.sampled = sample(&subject, Depth::Member, seed)?;
    }
    Ok(calls)
}

/// Compares tiles that begin and end anywhere: a sweep asks for whole rows, whose first key is 0.
fn check_odd_tiles(subject: &Subject<'_>, seed: u64) -> Result<(), VerifyError> {
    let member = subject.member;
    let mut random = Random::new(seed, TILE_STREAM ^ member.q_len << 32 ^ member.kv_len);
    let planes = subject.planes();
    let mut law = Vec::new();
    for _ in 0..ODD_TILES {
        let Some(((b, h), _)) = planes.get(random.below(planes.len() as u64) as usize) else {
            return Ok(());
        };
        let mut part = |len: u64| {
            let (a, b) = (random.below(len + 1), random.below(len + 1));
            a.min(b)..a.max(b)
        };
        let rect = Rect {
            b: *b,
            h: *h,
            rows: part(member.q_len),
            cols: part(member.kv_len),
        };
        subject.check(&rect, &mut law, None)?;
    }
    Ok(())
}

fn check_score(
    request: &VerifyRequest<'_>,
    score: &Ready,
    members: &[Member],
    findings: &mut Findings,
) -> Result<(), VerifyError> {
    let under_test = ScoreUnderTest {
        prepared: &score.prepared,
        compiled: &score.compiled,
        derived: score.prepared.derived_mask(),
        generated_captures: false,
    };
    let (mut all, mut sampled, mut last_whole) = (0, 0, false);
    for &member in members {
        let is_longest = members.last() == Some(&member);
        let limit = if is_longest {
            WHOLE_SCORES_OF_THE_LONGEST
        } else {
            WHOLE_SCORES
        };
        let checked = check_scores(&under_test, member, limit, request.seed)?;
        all += checked.cells;
        sampled += if checked.whole { 0 } else { checked.cells };
        last_whole = checked.whole;
    }
    findings.all_scores = last_whole;
    let author = score.prepared.original().reference().is_some();
    let mut what = vec!["compiled scores against the interpreter, to the bit"];
    if author {
        what.push("compiled scores against the author's function, to the bit");
    }
    if score.simplified() {
        what.push("the simplified score_mod against the interpreter of the rule as written");
    }
    findings.checks.extend(what.into_iter().map(|what| Check {
        what: what.to_owned(),
        shapes: members.len() as u64,
        cells: all,
        exhaustive: last_whole,
        sampled_cells: sampled,
        blocks: 0,
    }));
    if request.mask.is_none() && score.prepared.derived_mask().is_none() {
        findings.shapes = members.iter().map(|member| shape(*member, false)).collect();
        findings.report.cells_checked = all;
        findings.report.exhaustive = last_whole;
    }
    Ok(())
}

/// Runs the same code on other captured values that keep the preconditions.
fn check_generated(
    request: &VerifyRequest<'_>,
    ready: &Ready,
    members: &[Member],
    findings: &mut Findings,
) -> Result<(), VerifyError> {
    let original = ready.prepared.original();
    let name = &original.rule().name;
    if original.rule().captures.is_empty() {
        findings.notes.push(format!(
            "rule {name} captures nothing, so no captured values were generated"
        ));
        return Ok(());
    }
    // Short calls, but with a whole word and a tail where the bucket has such calls.
    let nonempty = members.iter().filter(|member| cells(member) != 0);
    let mut calls: Vec<Member> = nonempty
        .clone()
        .filter(|m| 64 < m.kv_len)
        .take(GENERATED_CALLS)
        .copied()
        .collect();
    if calls.is_empty() {
        calls = nonempty.copied().collect();
        calls.drain(..calls.len().saturating_sub(GENERATED_CALLS));
    }
    let mut random = Random::new(request.seed, STREAM);
    let (mut all, mut tried) = (0, 0);
    for how in Generation::ALL {
        let Some(prepared) = captured::generated(&ready.prepared, how, &mut random) else {
            findings.notes.push(format!(
                "rule {name}: captured values of one kind ({how}) breach its preconditions and were left out"
            ));
            continue;
        };
        for &member in &calls {
            all += match original.rule().kind {
                RuleKind::Mask => generated_mask(&prepared, &ready.compiled, member)?,
                RuleKind::Score => {
                    let under_test = ScoreUnderTest {
                        prepared: &prepared,
                        compiled: &ready.compiled,
                        derived: prepared.derived_mask(),
                        generated_captures: true,
                    };
                    check_scores(&under_test, member, WHOLE_SCORES, random.next())?.cells
                }
            };
            tried += 1;
        }
    }
    if 0 < tried {
        findings.checks.push(Check {
            what: format!(
                "compiled rule {name} against the interpreter, with generated captured values"
            ),
            shapes: tried,
            cells: all,
            exhaustive: false,
            sampled_cells: all,
            blocks: 0,
        });
    }
    Ok(())
}

/// Compares the corners of a call.
fn generated_mask(
    prepared: &Prepared,
    compiled: &Arc<CompiledRule>,
    member: Member,
) -> Result<u64, VerifyError> {
    let under_test = MaskUnderTest {
        prepared,
        compiled,
        masks: &[],
        simplified: true,
        generated_captures: true,
    };
    let subject = Subject::new(&under_test, member, false)?;
    let first = |len: u64, window: u64| 0..len.min(window);
    let last = |len: u64, window: u64| len.saturating_sub(window)..len;
    let (rows, cols) = GENERATED_WINDOW;
    let mut planes: Vec<(u32, u32)> = subject.planes().into_iter().map(|(at, _)| at).collect();
    // The first and the last plane.
    if 2 < planes.len() {
        planes.drain(1..planes.len() - 1);
    }
    let mut law = Vec::new();
    let mut cells = 0;
    for (b, h) in planes {
        let mut rects = vec![
            (first(member.q_len, rows), first(member.kv_len, cols)),
            (last(member.q_len, rows), last(member.kv_len, cols)),
        ];
        rects.dedup();
        for (rows, cols) in rects {
            let rect = Rect { b, h, rows, cols };
            subject.check(&rect, &mut law, None)?;
            cells += rect.cells();
        }
    }
    Ok(cells)
}

/// Whether the rules hold for a shorter call as well: a declared range or extent may name a length.
fn holds_for(part: &Member, scope: &Scope, rules: [&Option<Ready>; 2]) -> bool {
    let mut shorter = scope.clone();
    shorter.bucket = Bucket::single(part.q_len, part.kv_len, part.q_offset);
    let mut rules = rules.into_iter().flatten();
    rules.all(|ready| prepare(ready.prepared.original(), &shorter).is_ok())
}

fn check_attention(
    request: &VerifyRequest<'_>,
    scope: &Scope,
    masks: &[BlockMask],
    (members, part): (&[Member], Option<Member>),
    findings: &mut Findings,
) -> Result<(), VerifyError> {
    let pair = pair_of(request);
    let mut rules = AttentionRules {
        name: request.rule_names(),
        rules: &pair,
        scope,
        block_masks: masks,
    };
    let mut calls = attention::calls(members, scope.batch, scope.num_q_heads);
    if calls.is_empty()
        && let Some(part) = part
    {
        calls.push(part);
        // The block masks are those of whole calls.
        rules.block_masks = &[];
    }
    for check in &request.attention {
        check_engine(check, &rules, &calls, request.seed, findings)?;
    }
    #[cfg(feature = "cuda")]
    if let Some(gpu) = &request.gpu {
        gpu::with_engines(gpu, |check| {
            check_engine(check, &rules, &calls, request.seed, findings)
        })?;
    }
    Ok(())
}

/// Compares one attention engine with dense attention.
fn check_engine(
    check: &AttentionCheck<'_>,
    rules: &AttentionRules<'_>,
    calls: &[Member],
    seed: u64,
    findings: &mut Findings,
) -> Result<(), VerifyError> {
    findings.tolerances.push(check.tolerance.clone());
    if calls.is_empty() {
        findings.notes.push(format!(
            "{} was not compared with dense attention: the bucket has no call of at most {} by {} that is small enough",
            check.engine,
            attention::MAX_ATTENTION_LEN,
            attention::MAX_ATTENTION_LEN
        ));
        return Ok(());
    }
    let mut values = 0;
    for &member in calls {
        values += attention::check_attention(check, rules, member, seed)?;
    }
    findings.checks.push(Check {
        what: format!(
            "{}: output, lse and row max against dense attention in float64",
            check.engine
        ),
        shapes: calls.len() as u64,
        cells: values,
        exhaustive: false,
        sampled_cells: values,
        blocks: 0,
    });
    Ok(())
}
