//! A `score_mod` at one call: compiled scores against the interpreter, to the bit.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use maskwright_dsl::bucket::Member;
use maskwright_dsl::eval::{Point, RowEvaluator, Sizes};
use maskwright_dsl::ir::{Const, Rule, Var};
use maskwright_dsl::pipeline::Prepared;
use rayon::prelude::*;

use super::error::VerifyError;
use super::mismatch::{CellDifference, CellValue, Finding, MAX_CELLS, MismatchReport, same_bits};
use super::random::Random;
use super::subject::{Rect, call_shape, panic_text, reads, sizes};
use crate::jit::{BoundEvaluator, CompiledRule};

/// A `score_mod` under verification.
pub(super) struct ScoreUnderTest<'a> {
    pub(super) prepared: &'a Prepared,
    pub(super) compiled: &'a Arc<CompiledRule>,
    /// The mask outside of which every score becomes -∞, where there is one.
    pub(super) derived: Option<&'a Arc<Rule>>,
    pub(super) generated_captures: bool,
}

/// Calls of no more cells in a plane are checked whole; of the longest call, so many more.
pub(super) const WHOLE_SCORES: u64 = 1 << 13;
pub(super) const WHOLE_SCORES_OF_THE_LONGEST: u64 = 1 << 20;

/// Pieces of a larger call, and their rows and columns.
const PATCHES: u64 = 24;
const PATCH: (u64, u64) = (4, 160);

/// Planes of a call.
const PLANES: u64 = 4;

const STREAM: u64 = 3;

/// What the check of a call came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ScoresChecked {
    pub(super) cells: u64,
    pub(super) whole: bool,
}

/// Scores that are easily mistaken for one another.
const SPECIAL: [f32; 12] = [
    0.0,
    -0.0,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    f32::MAX,
    f32::MIN,
    f32::MIN_POSITIVE,
    1.0e-42,
    1.0,
    -1.0,
    16_777_216.0,
];

/// Checks the scores of one call on generated inputs.
pub(super) fn check_scores(
    under_test: &ScoreUnderTest<'_>,
    member: Member,
    whole_cells: u64,
    seed: u64,
) -> Result<ScoresChecked, VerifyError> {
    let prepared = under_test.prepared;
    let sizes = sizes(prepared, &member);
    let compiled = BoundEvaluator::new(Arc::clone(under_test.compiled), prepared, sizes)?;
    let stream = STREAM ^ member.q_len << 40 ^ member.kv_len << 16 ^ member.q_offset as u64;
    let mut random = Random::new(seed, stream);
    let cells = member.q_len.saturating_mul(member.kv_len);
    let whole = cells <= whole_cells;
    let mut rects = Vec::new();
    for (b, h) in planes(prepared, &mut random) {
        let patch = |rows: (u64, u64), cols: (u64, u64)| Rect {
            b,
            h,
            rows: rows.0..rows.1,
            cols: cols.0..cols.1,
        };
        if whole {
            rects.push(patch((0, member.q_len), (0, member.kv_len)));
            continue;
        }
        for index in 0..PATCHES {
            let (n_q, n_kv) = (PATCH.0.min(member.q_len), PATCH.1.min(member.kv_len));
            let mut row = random.below(member.q_len - n_q + 1);
            let mut col = random.below(member.kv_len - n_kv + 1);
            // The ends of both axes, where tails are.
            if index % 4 == 1 {
                row = member.q_len - n_q;
            }
            if index % 4 == 2 {
                col = member.kv_len - n_kv;
            }
            rects.push(patch((row, row + n_q), (col, col + n_kv)));
        }
    }
    let seeds: Vec<u64> = rects.iter().map(|_| random.next()).collect();
    let check = Check {
        under_test,
        member,
        sizes,
        compiled,
    };
    let done: Vec<Result<(), VerifyError>> = rects
        .par_iter()
        .zip(&seeds)
        .map(|(rect, seed)| check.rect(rect, Random::new(*seed, 0)))
        .collect();
    done.into_iter().collect::<Result<(), VerifyError>>()?;
    let checked = rects.iter().map(Rect::cells).sum();
    Ok(ScoresChecked {
        cells: checked,
        whole: whole && all_planes(prepared),
    })
}

/// Batch entries and heads that the rule tells apart.
fn axes(prepared: &Prepared) -> (u64, u64) {
    let (original, scope) = (prepared.original(), prepared.scope());
    let axis = |n: u32, var| {
        let varies = original.reference().is_some()
            || reads(original.rule(), var)
            || reads(prepared.rule(), var);
        if varies {
            u64::from(n)
        } else {
            1.min(u64::from(n))
        }
    };
    (axis(scope.batch, Var::B), axis(scope.num_q_heads, Var::H))
}

fn all_planes(prepared: &Prepared) -> bool {
    let (n_b, n_h) = axes(prepared);
    n_b * n_h <= PLANES
}

/// The first and the last plane, and some others.
fn planes(prepared: &Prepared, random: &mut Random) -> Vec<(u32, u32)> {
    let (n_b, n_h) = axes(prepared);
    let n = n_b * n_h;
    let at = |plane: u64| ((plane / n_h) as u32, (plane % n_h) as u32);
    if n <= PLANES {
        return (0..n).map(at).collect();
    }
    let mut planes = vec![at(0), at(n - 1)];
    planes.extend((2..PLANES).map(|_| at(random.below(n))));
    planes
}

struct Check<'a> {
    under_test: &'a ScoreUnderTest<'a>,
    member: Member,
    sizes: Sizes,
    compiled: BoundEvaluator,
}

impl Check<'_> {
    fn rect(&self, rect: &Rect, mut random: Random) -> Result<(), VerifyError> {
        let n_kv = (rect.cols.end - rect.cols.start) as usize;
        let n_q = (rect.rows.end - rect.rows.start) as usize;
        let before: Vec<f32> = (0..n_q * n_kv)
            .map(|_| match random.below(8) {
                0 => SPECIAL[random.below(SPECIAL.len() as u64) as usize],
                _ => random.small_float(),
            })
            .collect();
        let prepared = self.under_test.prepared;
        let original = prepared.original();
        let interpreted = self.interpret(original.rule(), rect, &before)?;
        let simplified = self.interpret(prepared.rule(), rect, &before)?;
        let what = "the simplified rule against the interpreter of the rule as written";
        self.compare(
            rect,
            &before,
            (&interpreted, &simplified),
            "the simplified score_mod",
            what,
        )?;
        let mut found = before.clone();
        let (q0, kv0) = (self.q_idx(rect, 0), rect.cols.start as i64);
        self.compiled
            .score_tile(rect.b, rect.h, q0, n_q, kv0, n_kv, &mut found, n_kv);
        let what = "compiled scores against the interpreter";
        self.compare(
            rect,
            &before,
            (&interpreted, &found),
            "the compiled score_mod",
            what,
        )?;
        if original.reference().is_some() {
            let law = self.ask_author(rect, &before)?;
            let what = "compiled scores against the author's function";
            self.compare(
                rect,
                &before,
                (&law, &found),
                "the compiled score_mod",
                what,
            )?;
        }
        match self.under_test.derived {
            Some(derived) => self.check_derived(derived, rect, &before, &found),
            None => Ok(()),
        }
    }

    fn q_idx(&self, rect: &Rect, row: usize) -> i64 {
        self.member.q_offset + (rect.rows.start + row as u64) as i64
    }

    fn rows<'s>(
        &self,
        rect: &Rect,
        scores: &'s [f32],
    ) -> impl Iterator<Item = (i32, &'s [f32])> + use<'s> {
        let q0 = self.q_idx(rect, 0);
        let n_kv = (rect.cols.end - rect.cols.start).max(1) as usize;
        let lines = scores.chunks(n_kv).enumerate();
        lines.map(move |(row, line)| ((q0 + row as i64) as i32, line))
    }

    fn interpret(&self, rule: &Rule, rect: &Rect, before: &[f32]) -> Result<Vec<f32>, VerifyError> {
        let prepared = self.under_test.prepared;
        let mut rows = RowEvaluator::new(rule, prepared.bindings(), self.sizes);
        let mut scores = Vec::with_capacity(before.len());
        for (q_idx, line) in self.rows(rect, before) {
            let start = scores.len();
            scores.extend_from_slice(line);
            let (b, h, kv0) = (rect.b as i32, rect.h as i32, rect.cols.start as i32);
            rows.score_row(b, h, q_idx, kv0, &mut scores[start..])
                .map_err(|source| VerifyError::Interpreter {
                    rule: rule.name.clone(),
                    shape: call_shape(prepared.scope(), &self.member),
                    source,
                })?;
        }
        Ok(scores)
    }

    fn ask_author(&self, rect: &Rect, before: &[f32]) -> Result<Vec<f32>, VerifyError> {
        let original = self.under_test.prepared.original();
        let author = original.reference().expect("only asked where there is one");
        let mut scores = Vec::with_capacity(before.len());
        let mut at = (0, 0);
        let asked = catch_unwind(AssertUnwindSafe(|| {
            for (q_idx, line) in self.rows(rect, before) {
                for (col, &score) in line.iter().enumerate() {
                    let kv_idx = rect.cols.start as i32 + col as i32;
                    at = (q_idx, kv_idx);
                    let point = Point {
                        b: rect.b as i32,
                        h: rect.h as i32,
                        q_idx,
                        kv_idx,
                        score,
                    };
                    scores.push(match author(&point, &self.sizes) {
                        Const::F32(score) => score,
                        // Another type agrees with no score, as a NaN that the rule did not give.
                        Const::Bool(_) | Const::I32(_) | Const::I64(_) | Const::U32(_) => f32::NAN,
                    });
                }
            }
        }));
        asked
            .map(|()| scores)
            .map_err(|panic| VerifyError::AuthorPanicked {
                rule: original.rule().name.clone(),
                shape: call_shape(self.under_test.prepared.scope(), &self.member),
                b: rect.b,
                h: rect.h,
                q_idx: i64::from(at.0),
                kv_idx: i64::from(at.1),
                message: panic_text(&*panic),
            })
    }

    fn compare(
        &self,
        rect: &Rect,
        before: &[f32],
        (expected, found): (&[f32], &[f32]),
        engine: &str,
        what: &str,
    ) -> Result<(), VerifyError> {
        let differ = |at: &usize| !same_bits(expected[*at], found[*at]);
        let cells = (0..before.len()).filter(differ).take(MAX_CELLS);
        self.report(
            rect,
            before,
            cells,
            |at| (expected[at], found[at]),
            engine,
            what,
        )
    }

    /// Outside the derived mask every score is -∞, whatever it was.
    fn check_derived(
        &self,
        derived: &Rule,
        rect: &Rect,
        before: &[f32],
        found: &[f32],
    ) -> Result<(), VerifyError> {
        let prepared = self.under_test.prepared;
        let n_kv = (rect.cols.end - rect.cols.start) as usize;
        let mut rows = RowEvaluator::new(derived, prepared.bindings(), self.sizes);
        let mut bits = vec![0; n_kv.div_ceil(64)];
        let mut wrong = Vec::new();
        for (row, (q_idx, line)) in self.rows(rect, found).enumerate() {
            let (b, h, kv0) = (rect.b as i32, rect.h as i32, rect.cols.start as i32);
            rows.mask_row(b, h, q_idx, kv0, n_kv, &mut bits)
                .map_err(|source| VerifyError::Interpreter {
                    rule: derived.name.clone(),
                    shape: call_shape(prepared.scope(), &self.member),
                    source,
                })?;
            let masked = |col: &usize| !super::bits::bit(&bits, *col);
            let outside = (0..n_kv).filter(masked);
            wrong.extend(
                outside
                    .filter(|&col| line[col] != f32::NEG_INFINITY)
                    .map(|col| row * n_kv + col),
            );
        }
        let cells = wrong.into_iter().take(MAX_CELLS);
        let what = "scores outside the mask that was derived from the rule";
        let engine = "the derived mask";
        self.report(
            rect,
            before,
            cells,
            |at| (f32::NEG_INFINITY, found[at]),
            engine,
            what,
        )
    }

    fn report(
        &self,
        rect: &Rect,
        before: &[f32],
        cells: impl Iterator<Item = usize>,
        values: impl Fn(usize) -> (f32, f32),
        engine: &str,
        what: &str,
    ) -> Result<(), VerifyError> {
        let n_kv = (rect.cols.end - rect.cols.start) as usize;
        let cells: Vec<CellDifference> = cells
            .map(|at| {
                let (expected, found) = values(at);
                CellDifference {
                    b: rect.b,
                    h: rect.h,
                    q_idx: self.q_idx(rect, at / n_kv),
                    kv_idx: rect.cols.start as i64 + (at % n_kv) as i64,
                    expected: CellValue::Score(expected),
                    found: CellValue::Score(found),
                    score: Some(before[at]),
                }
            })
            .collect();
        if cells.is_empty() {
            return Ok(());
        }
        Err(VerifyError::Mismatch(Box::new(MismatchReport {
            rule: self.under_test.prepared.rule().name.clone(),
            what: what.to_owned(),
            engine: engine.to_owned(),
            shape: call_shape(self.under_test.prepared.scope(), &self.member),
            generated_captures: self.under_test.generated_captures,
            finding: Finding::Cells(cells),
            around: None,
        })))
    }
}
