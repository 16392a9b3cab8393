//! Block classes at one call, compared with the cells that the law gives.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;

use maskwright_dsl::block_mask::{BlockClass, WrongBlock};

use super::bits;
use super::error::VerifyError;
use super::mismatch::{Finding, MismatchReport};
use super::subject::{Rect, Subject, draw_window};

impl Subject<'_> {
    /// Compares the classes of one block mask with the cells of a rectangle.
    pub(super) fn check_classes(
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
