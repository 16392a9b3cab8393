//! One mask at one call: every engine that computes it, and their comparison over rectangles of cells.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use maskwright_dsl::bind::{BoundRule, Reference};
use maskwright_dsl::block_mask::{BlockMask, CallShape, MaskEvaluator};
use maskwright_dsl::bucket::Member;
use maskwright_dsl::eval::{EvalError, Point, RowMask, ScalarEvaluator, Sizes};
use maskwright_dsl::ir::{Const, Expr, Rule, Var};
use maskwright_dsl::pipeline::{Prepared, Scope};

use super::bits;
use super::classes::MixedBlocks;
use super::error::VerifyError;
use super::mismatch::{
    CellDifference, CellValue, Finding, MAX_CELLS, MismatchReport, Neighbourhood,
};
use crate::jit::{BoundEvaluator, CompiledRule};

/// Rows and columns of one plane, counted from the first query and key of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rect {
    pub(super) b: u32,
    pub(super) h: u32,
    pub(super) rows: Range<u64>,
    pub(super) cols: Range<u64>,
}

impl Rect {
    pub(super) fn cells(&self) -> u64 {
        (self.rows.end - self.rows.start) * (self.cols.end - self.cols.start)
    }
}

/// Narrower rectangles are interpreted cell by cell: the row interpreter computes 128 keys in any case.
const NARROW: u64 = 8;

/// A bound rule under verification and what was made of it.
pub(super) struct MaskUnderTest<'a> {
    pub(super) prepared: &'a Prepared,
    pub(super) compiled: &'a Arc<CompiledRule>,
    pub(super) masks: &'a [BlockMask],
    /// Whether simplification changed the rule, so that there are two rules to compare.
    pub(super) simplified: bool,
    pub(super) generated_captures: bool,
}

/// The engines of one mask at one call.
pub(super) struct Subject<'a> {
    pub(super) under_test: &'a MaskUnderTest<'a>,
    pub(super) member: Member,
    sizes: Sizes,
    pub(super) original: RowMask,
    /// Where it is not the original.
    simplified: Option<RowMask>,
    compiled: BoundEvaluator,
    pub(super) author: Option<&'a Reference>,
    /// Whether the member is the one that an exact mask's partial blocks speak of.
    pub(super) largest: bool,
}

/// The sizes of a call.
pub(super) fn sizes(prepared: &Prepared, member: &Member) -> Sizes {
    let scope = prepared.scope();
    Sizes {
        batch: scope.batch as i32,
        num_q_heads: scope.num_q_heads as i32,
        q_len: member.q_len as i32,
        kv_len: member.kv_len as i32,
    }
}

/// The shape of a call, as reports name it.
pub(super) fn call_shape(scope: &Scope, member: &Member) -> CallShape {
    CallShape {
        batch: scope.batch,
        heads: scope.num_q_heads,
        q_len: member.q_len,
        kv_len: member.kv_len,
        q_offset: member.q_offset,
    }
}

/// Whether the result of a rule depends on a variable.
pub(super) fn reads(rule: &Rule, var: Var) -> bool {
    let live = rule.live();
    rule.arena
        .ids()
        .any(|id| live[id.index()] && *rule.arena.expr(id) == Expr::Var(var))
}

impl<'a> Subject<'a> {
    pub(super) fn new(
        under_test: &'a MaskUnderTest<'a>,
        member: Member,
        largest: bool,
    ) -> Result<Self, VerifyError> {
        let prepared = under_test.prepared;
        let sizes = sizes(prepared, &member);
        let original = prepared.original();
        let row_mask =
            |rule: &Arc<Rule>| RowMask::new(Arc::clone(rule), prepared.bindings().clone(), sizes);
        Ok(Self {
            under_test,
            member,
            sizes,
            original: row_mask(original.rule()),
            simplified: under_test.simplified.then(|| row_mask(prepared.rule())),
            compiled: BoundEvaluator::new(Arc::clone(under_test.compiled), prepared, sizes)?,
            author: original.reference(),
            largest,
        })
    }

    pub(super) fn masks(&self) -> &'a [BlockMask] {
        self.under_test.masks
    }

    pub(super) fn shape(&self) -> CallShape {
        call_shape(self.under_test.prepared.scope(), &self.member)
    }

    pub(super) fn bound(&self) -> &BoundRule {
        self.under_test.prepared.original()
    }

    /// The planes that have to be computed, each with the number of planes it stands for. A plane stands for others
    /// where the rule does not read the batch or head index; the author's function may read what the rule does not.
    pub(super) fn planes(&self) -> Vec<((u32, u32), u64)> {
        let scope = self.under_test.prepared.scope();
        let varies = |var| {
            self.author.is_some()
                || reads(self.bound().rule(), var)
                || reads(self.under_test.prepared.rule(), var)
        };
        let axis = |n: u32, varies: bool| {
            if varies {
                (n, 1)
            } else {
                (n.min(1), u64::from(n))
            }
        };
        let (n_b, b_copies) = axis(scope.batch, varies(Var::B));
        let (n_h, h_copies) = axis(scope.num_q_heads, varies(Var::H));
        (0..n_b)
            .flat_map(|b| (0..n_h).map(move |h| ((b, h), b_copies * h_copies)))
            .collect()
    }

    pub(super) fn q_idx(&self, row: u64) -> i64 {
        self.member.q_offset + row as i64
    }

    /// The bits of the compiled rule over whole rows.
    pub(super) fn compiled_rows(&self, b: u32, h: u32, rows: Range<u64>, bits: &mut Vec<u64>) {
        let words = self.member.kv_len.div_ceil(64) as usize;
        let n_q = (rows.end - rows.start) as usize;
        bits.clear();
        bits.resize(n_q * words, 0);
        let q0 = self.q_idx(rows.start);
        self.compiled
            .mask_tile(b, h, q0, n_q, 0, self.member.kv_len as usize, bits, words);
    }

    /// Computes a rectangle on every engine and compares them with the law, and the law with the block classes. Leaves
    /// the bits of the law in `law`, in rows of whole words.
    pub(super) fn check(
        &self,
        rect: &Rect,
        law: &mut Vec<u64>,
        mixed: Option<&MixedBlocks>,
    ) -> Result<(), VerifyError> {
        let words = (rect.cols.end - rect.cols.start).div_ceil(64) as usize;
        let n_q = (rect.rows.end - rect.rows.start) as usize;
        let mut interpreted = vec![0; n_q * words];
        self.interpret(&self.original, self.bound().rule(), rect, &mut interpreted)?;
        if let Some(simplified) = &self.simplified {
            let mut bits = vec![0; n_q * words];
            self.interpret(simplified, self.under_test.prepared.rule(), rect, &mut bits)?;
            let what = "the simplified rule against the interpreter of the rule as written";
            self.compare(rect, &interpreted, &bits, "the simplified rule", what)?;
        }
        law.clear();
        let against = if let Some(author) = self.author {
            law.resize(n_q * words, 0);
            self.ask_author(author, rect, law)?;
            let what = "the interpreter against the author's function";
            self.compare(rect, law, &interpreted, "the interpreter", what)?;
            "compiled mask bits against the author's function"
        } else {
            law.extend_from_slice(&interpreted);
            "compiled mask bits against the interpreter"
        };
        let compiled = &mut interpreted;
        self.compiled.mask_tile(
            rect.b,
            rect.h,
            self.q_idx(rect.rows.start),
            n_q,
            rect.cols.start as i64,
            (rect.cols.end - rect.cols.start) as usize,
            compiled,
            words,
        );
        self.compare(rect, law, compiled, "the compiled mask", against)?;
        for index in 0..self.masks().len() {
            self.check_classes(index, rect, law, mixed)?;
        }
        Ok(())
    }

    /// The sizes that the rule sees.
    #[cfg(feature = "cuda")]
    pub(super) fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Compares what another engine gave for a rectangle with the law.
    #[cfg(feature = "cuda")]
    pub(super) fn check_found(
        &self,
        rect: &Rect,
        found: &[u64],
        engine: &str,
        what: &str,
    ) -> Result<(), VerifyError> {
        let words = (rect.cols.end - rect.cols.start).div_ceil(64) as usize;
        let mut law = vec![0; (rect.rows.end - rect.rows.start) as usize * words];
        match self.author {
            Some(author) => self.ask_author(author, rect, &mut law)?,
            None => self.interpret(&self.original, self.bound().rule(), rect, &mut law)?,
        }
        self.compare(rect, &law, found, engine, what)
    }

    pub(super) fn interpret(
        &self,
        mask: &RowMask,
        rule: &Rule,
        rect: &Rect,
        bits: &mut [u64],
    ) -> Result<(), VerifyError> {
        let (q0, kv0) = (self.q_idx(rect.rows.start), rect.cols.start as i64);
        let n_q = (rect.rows.end - rect.rows.start) as usize;
        let n_kv = rect.cols.end - rect.cols.start;
        if n_q == 0 || n_kv == 0 {
            return Ok(());
        }
        if n_kv < NARROW {
            let mut scalar = ScalarEvaluator::new(rule, self.bound().bindings(), self.sizes);
            for (row, word) in bits.iter_mut().enumerate() {
                *word = 0;
                for col in 0..n_kv {
                    let point = self.point(rect, row as u64, col);
                    let value = scalar.eval(&point).map_err(|error| self.failed(error))?;
                    *word |= u64::from(value == Const::Bool(true)) << col;
                }
            }
            return Ok(());
        }
        let words = n_kv.div_ceil(64) as usize;
        mask.try_tile(rect.b, rect.h, q0, n_q, kv0, n_kv as usize, bits, words)
            .map_err(|error| self.failed(error))
    }

    fn failed(&self, source: EvalError) -> VerifyError {
        VerifyError::Interpreter {
            rule: self.bound().rule().name.clone(),
            shape: self.shape(),
            source,
        }
    }

    fn point(&self, rect: &Rect, row: u64, col: u64) -> Point {
        Point {
            b: rect.b as i32,
            h: rect.h as i32,
            q_idx: self.q_idx(rect.rows.start + row) as i32,
            kv_idx: (rect.cols.start + col) as i32,
            score: 0.0,
        }
    }

    pub(super) fn ask_author(
        &self,
        author: &Reference,
        rect: &Rect,
        bits: &mut [u64],
    ) -> Result<(), VerifyError> {
        let n_kv = rect.cols.end - rect.cols.start;
        let words = n_kv.div_ceil(64) as usize;
        // The cell that is being asked about, for the report if it panics.
        let mut at = (0, 0);
        let asked = catch_unwind(AssertUnwindSafe(|| {
            for row in 0..rect.rows.end - rect.rows.start {
                let line = &mut bits[row as usize * words..][..words];
                line.fill(0);
                for col in 0..n_kv {
                    at = (row, col);
                    let value = author(&self.point(rect, row, col), &self.sizes);
                    let on = u64::from(value == Const::Bool(true));
                    line[col as usize / 64] |= on << (col % 64);
                }
            }
        }));
        asked.map_err(|panic| VerifyError::AuthorPanicked {
            rule: self.bound().rule().name.clone(),
            shape: self.shape(),
            b: rect.b,
            h: rect.h,
            q_idx: self.q_idx(rect.rows.start + at.0),
            kv_idx: (rect.cols.start + at.1) as i64,
            message: panic_text(&*panic),
        })
    }

    fn compare(
        &self,
        rect: &Rect,
        expected: &[u64],
        found: &[u64],
        engine: &str,
        what: &str,
    ) -> Result<(), VerifyError> {
        if expected == found {
            return Ok(());
        }
        let n_kv = rect.cols.end - rect.cols.start;
        let words = n_kv.div_ceil(64).max(1) as usize;
        let mut cells = Vec::new();
        let lines = expected.chunks(words).zip(found.chunks(words));
        'rows: for (row, (expected, found)) in lines.enumerate() {
            for col in 0..n_kv as usize {
                let (expected, found) = (bits::bit(expected, col), bits::bit(found, col));
                if expected != found {
                    cells.push(CellDifference {
                        b: rect.b,
                        h: rect.h,
                        q_idx: self.q_idx(rect.rows.start + row as u64),
                        kv_idx: rect.cols.start as i64 + col as i64,
                        expected: CellValue::Attend(expected),
                        found: CellValue::Attend(found),
                        score: None,
                    });
                    if cells.len() == MAX_CELLS {
                        break 'rows;
                    }
                }
            }
        }
        let around = cells.first().map(|cell| {
            let place = (
                cell.q_idx - self.q_idx(rect.rows.start),
                cell.kv_idx - rect.cols.start as i64,
            );
            draw_window(rect, self.member.q_offset, place, |row, col| {
                let at = row as usize * words * 64 + col as usize;
                (bits::bit(expected, at), bits::bit(found, at))
            })
        });
        Err(VerifyError::Mismatch(Box::new(MismatchReport {
            rule: self.bound().rule().name.clone(),
            what: what.to_owned(),
            engine: engine.to_owned(),
            shape: self.shape(),
            generated_captures: self.under_test.generated_captures,
            finding: Finding::Cells(cells),
            around,
        })))
    }
}

/// The compiled rule as block masks ask for it.
impl MaskEvaluator for Subject<'_> {
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
        self.compiled
            .mask_tile(b, h, q0, n_q, kv0, n_kv, bits, words_per_row);
    }
}

/// Lines and characters of a drawing.
const WINDOW: (i64, i64) = (12, 32);

/// Draws the cells of a rectangle around a place in it.
pub(super) fn draw_window(
    rect: &Rect,
    q_offset: i64,
    place: (i64, i64),
    cell: impl Fn(u64, u64) -> (bool, bool),
) -> Neighbourhood {
    let span = |at: i64, len: u64, window: i64| {
        let len = len as i64;
        let start = (at - window / 2).min(len - window).max(0);
        start as u64..(start + window).min(len) as u64
    };
    let rows = span(place.0, rect.rows.end - rect.rows.start, WINDOW.0);
    let cols = span(place.1, rect.cols.end - rect.cols.start, WINDOW.1);
    let lines = |pick: fn((bool, bool)) -> bool| {
        let line = |row| {
            let cells = cols
                .clone()
                .map(|col| if pick(cell(row, col)) { '#' } else { '.' });
            cells.collect::<String>()
        };
        rows.clone().map(line).collect::<Vec<_>>()
    };
    Neighbourhood {
        q_idx: q_offset + (rect.rows.start + rows.start) as i64,
        kv_idx: (rect.cols.start + cols.start) as i64,
        expected: lines(|both| both.0),
        found: lines(|both| both.1),
    }
}

pub(super) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
        .to_owned()
}
