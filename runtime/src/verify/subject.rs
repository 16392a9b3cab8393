//! One mask at one call: every engine that computes it, and their comparison over rectangles of cells.

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use maskwright_dsl::bind::{BoundRule, Reference};
use maskwright_dsl::block_mask::{BlockClass, BlockMask, CallShape, MaskEvaluator, WrongBlock};
use maskwright_dsl::bucket::Member;
use maskwright_dsl::eval::{EvalError, Point, RowMask, ScalarEvaluator, Sizes};
use maskwright_dsl::ir::{Const, Expr, Rule, Var};
use maskwright_dsl::pipeline::Prepared;

use super::bits;
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
    under_test: &'a MaskUnderTest<'a>,
    pub(super) member: Member,
    sizes: Sizes,
    original: RowMask,
    /// Where it is not the original.
    simplified: Option<RowMask>,
    compiled: BoundEvaluator,
    author: Option<&'a Reference>,
    /// Whether the member is the one that an exact mask's partial blocks speak of.
    largest: bool,
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
pub(super) fn call_shape(prepared: &Prepared, member: &Member) -> CallShape {
    CallShape {
        batch: prepared.scope().batch,
        heads: prepared.scope().num_q_heads,
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
        call_shape(self.under_test.prepared, &self.member)
    }

    fn bound(&self) -> &BoundRule {
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

    fn q_idx(&self, row: u64) -> i64 {
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

    fn interpret(
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

    fn ask_author(
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

    /// Compares the classes of one block mask with the cells of a rectangle.
    fn check_classes(
        &self,
        index: usize,
        rect: &Rect,
        law: &[u64],
        mixed: Option<&MixedBlocks>,
    ) -> Result<(), VerifyError> {
        let mask = &self.masks()[index];
        let (bq, bkv) = (u64::from(mask.block().q), u64::from(mask.block().kv));
        let words = (rect.cols.end - rect.cols.start).div_ceil(64) as usize;
        if rect.rows.is_empty() || words == 0 {
            return Ok(());
        }
        let counted = mixed.filter(|_| self.largest && mask.is_exact());
        let block_rows = rect.rows.start / bq..(rect.rows.end - 1) / bq + 1;
        for block_row in block_rows {
            let rows =
                (block_row * bq).max(rect.rows.start)..((block_row + 1) * bq).min(rect.rows.end);
            let runs = mask.row(rect.b, rect.h, block_row as u32);
            let mut ones = Vec::new();
            if counted.is_some() {
                ones.resize(mask.cols() as usize, 0_u64);
            }
            for row in rows.clone() {
                let line = &law[(row - rect.rows.start) as usize * words..][..words];
                let clip = |first: u64, end: u64| {
                    let start = first.max(rect.cols.start) - rect.cols.start;
                    let end = end.min(rect.cols.end).max(rect.cols.start) - rect.cols.start;
                    start.min(end) as usize..end as usize
                };
                let mut done = 0;
                let wrong = |claimed, col: usize| {
                    self.wrong_block(index, rect, (row, rect.cols.start + col as u64), claimed)
                };
                for run in runs {
                    let (first, end) = (u64::from(run.first()) * bkv, u64::from(run.end()) * bkv);
                    if let Some(col) = bits::first_one(line, clip(done, first)) {
                        return wrong(BlockClass::Empty, col);
                    }
                    done = end;
                    if run.is_full() {
                        if let Some(col) = bits::first_zero(line, clip(first, end)) {
                            return wrong(BlockClass::Full, col);
                        }
                    } else if !ones.is_empty() {
                        for col in run.first()..run.end() {
                            let first = u64::from(col) * bkv;
                            ones[col as usize] += bits::count(line, clip(first, first + bkv));
                        }
                    }
                }
                if let Some(col) = bits::first_one(line, clip(done, u64::MAX)) {
                    return wrong(BlockClass::Empty, col);
                }
            }
            if let Some(mixed) = counted {
                let whole = mask.geometry().row_span(block_row as u32);
                let n_rows = whole.end - whole.start;
                let key = (index, rect.b, rect.h, block_row as u32);
                if let Some(ones) = mixed.add(key, rows.end - rows.start, n_rows, ones) {
                    self.check_mixed(index, rect, block_row as u32, &ones)?;
                }
            }
        }
        Ok(())
    }

    /// Checks that each partial block of a row has allowed and masked cells. `ones` counts the allowed ones.
    fn check_mixed(
        &self,
        index: usize,
        rect: &Rect,
        block_row: u32,
        ones: &[u64],
    ) -> Result<(), VerifyError> {
        let mask = &self.masks()[index];
        let rows = mask.geometry().row_span(block_row);
        for run in mask.row(rect.b, rect.h, block_row) {
            if run.is_full() {
                continue;
            }
            for col in run.first()..run.end() {
                self.check_partial(index, rect, col, rows.clone(), ones[col as usize])?;
            }
        }
        Ok(())
    }

    /// Checks that a partial block is neither full nor empty.
    fn check_partial(
        &self,
        index: usize,
        rect: &Rect,
        col: u32,
        rows: Range<u64>,
        ones: u64,
    ) -> Result<(), VerifyError> {
        let cols = self.masks()[index].geometry().col_span(col);
        let cells = (rows.end - rows.start) * (cols.end - cols.start);
        if ones == 0 || ones == cells {
            return self.wrong_block(index, rect, (rows.start, cols.start), BlockClass::Partial);
        }
        Ok(())
    }

    /// Computes one partial block of a mask whole, cut at the lengths of the call; gives the number of its cells.
    pub(super) fn check_block(
        &self,
        index: usize,
        (b, h): (u32, u32),
        (row, col): (u32, u32),
        law: &mut Vec<u64>,
    ) -> Result<u64, VerifyError> {
        let mask = &self.masks()[index];
        let (rows, cols) = (mask.geometry().row_span(row), mask.geometry().col_span(col));
        let rect = Rect {
            b,
            h,
            rows: rows.start.min(self.member.q_len)..rows.end.min(self.member.q_len),
            cols: cols.start.min(self.member.kv_len)..cols.end.min(self.member.kv_len),
        };
        self.check(&rect, law, None)?;
        let n_kv = (rect.cols.end - rect.cols.start) as usize;
        if self.largest && mask.is_exact() {
            let lines = law.chunks(n_kv.div_ceil(64).max(1));
            let ones = lines.map(|line| bits::count(line, 0..n_kv)).sum();
            self.check_partial(index, &rect, col, rows, ones)?;
        }
        Ok(rect.cells())
    }

    /// Reports a block whose class does not hold at a cell, given as row and column of the call.
    fn wrong_block(
        &self,
        index: usize,
        rect: &Rect,
        cell: (u64, u64),
        claimed: BlockClass,
    ) -> Result<(), VerifyError> {
        let mask = &self.masks()[index];
        let block = mask.block();
        let (row, col) = (cell.0 / u64::from(block.q), cell.1 / u64::from(block.kv));
        let (rows, cols) = (
            mask.geometry().row_span(row as u32),
            mask.geometry().col_span(col as u32),
        );
        let whole = Rect {
            rows: rows.start..rows.end.min(self.member.q_len),
            cols: cols.start..cols.end.min(self.member.kv_len),
            ..rect.clone()
        };
        let words = (whole.cols.end - whole.cols.start).div_ceil(64) as usize;
        let mut law = vec![0; (whole.rows.end - whole.rows.start) as usize * words];
        match self.author {
            Some(author) => self.ask_author(author, &whole, &mut law)?,
            None => self.interpret(&self.original, self.bound().rule(), &whole, &mut law)?,
        }
        let n_kv = (whole.cols.end - whole.cols.start) as usize;
        let ones: u64 = law
            .chunks(words)
            .map(|line| bits::count(line, 0..n_kv))
            .sum();
        let actual = if ones == 0 {
            BlockClass::Empty
        } else if ones == whole.cells() {
            BlockClass::Full
        } else {
            BlockClass::Partial
        };
        let place = (
            (cell.0 - whole.rows.start) as i64,
            (cell.1 - whole.cols.start) as i64,
        );
        let says = claimed == BlockClass::Full;
        let around = draw_window(&whole, self.member.q_offset, place, |row, col| {
            let value = bits::bit(&law, row as usize * words * 64 + col as usize);
            // A partial block says nothing of a single cell.
            (
                value,
                if claimed == BlockClass::Partial {
                    value
                } else {
                    says
                },
            )
        });
        Err(VerifyError::Mismatch(Box::new(MismatchReport {
            rule: self.bound().rule().name.clone(),
            what: "block classes against the cells".to_owned(),
            engine: format!("the block mask of {block}"),
            shape: self.shape(),
            generated_captures: self.under_test.generated_captures,
            finding: Finding::Block {
                block,
                wrong: WrongBlock {
                    b: rect.b,
                    h: rect.h,
                    row: row as u32,
                    col: col as u32,
                    claimed,
                    actual,
                    witness: (self.q_idx(cell.0), cell.1 as i64),
                },
            },
            around: Some(around),
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
fn draw_window(
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

/// Mask, batch index, head index and block row.
type BlockRowKey = (usize, u32, u32, u32);

/// Allowed cells of the blocks of rows that several rectangles share, until all of them are in.
#[derive(Debug, Default)]
pub(super) struct MixedBlocks {
    open: Mutex<BTreeMap<BlockRowKey, (u64, Vec<u64>)>>,
}

impl MixedBlocks {
    /// Adds some rows of a block row of `n_rows`; gives the counts once it is whole.
    fn add(&self, key: BlockRowKey, rows: u64, n_rows: u64, ones: Vec<u64>) -> Option<Vec<u64>> {
        if rows == n_rows {
            return Some(ones);
        }
        let mut open = self
            .open
            .lock()
            .expect("nothing panics while it holds this lock");
        let (seen, sums) = open.entry(key).or_insert_with(|| (0, vec![0; ones.len()]));
        *seen += rows;
        for (sum, ones) in sums.iter_mut().zip(ones) {
            *sum += ones;
        }
        if *seen < n_rows {
            return None;
        }
        open.remove(&key).map(|(_, sums)| sums)
    }
}
