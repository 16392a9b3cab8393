//! What a failed check found: the first cells that differ, or the wrong block, and a drawing of the place.

use std::fmt;

use maskwright_dsl::block_mask::{BlockSize, CallShape, WrongBlock};

/// Cells that a report names at most.
pub(super) const MAX_CELLS: usize = 16;

/// What an engine gives for a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CellValue {
    /// A mask: whether the query may see the key.
    Attend(bool),
    /// A `score_mod`: its result.
    Score(f32),
    /// A value of an attention result, as the engine or the float64 reference gives it.
    Value(f64),
}

/// Equal bits, or both NaN.
pub(super) fn same_bits(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

impl fmt::Display for CellValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CellValue::Attend(value) => value.fmt(f),
            CellValue::Score(value) => write!(f, "{value:?}"),
            CellValue::Value(value) => write!(f, "{value:?}"),
        }
    }
}

/// One cell about which two engines disagree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellDifference {
    /// Batch index.
    pub b: u32,
    /// Query head index.
    pub h: u32,
    /// Absolute position of the query.
    pub q_idx: i64,
    /// Absolute position of the key; of an attention result, the place in its row.
    pub kv_idx: i64,
    /// What the law gives.
    pub expected: CellValue,
    /// What the engine gives.
    pub found: CellValue,
    /// The score that a `score_mod` was given.
    pub score: Option<f32>,
}

impl fmt::Display for CellDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            b,
            h,
            q_idx,
            kv_idx,
            ..
        } = self;
        write!(f, "(b={b}, h={h}, q={q_idx}, kv={kv_idx})")?;
        if let Some(score) = self.score {
            write!(f, " of score {score:?}")?;
        }
        write!(f, ": expected {}, found {}", self.expected, self.found)
    }
}

/// The cells around a place, a line per query, `#` where the query may see the key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbourhood {
    /// Position of the first line.
    pub q_idx: i64,
    /// Position of the first column.
    pub kv_idx: i64,
    /// As the law has it.
    pub expected: Vec<String>,
    /// As the engine has it.
    pub found: Vec<String>,
}

/// What differs.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// Cells, in rising order: the first ones of the region that was compared.
    Cells(Vec<CellDifference>),
    /// A block whose class its cells do not bear out.
    Block {
        /// Rows and columns of the blocks.
        block: BlockSize,
        /// The block and the cell that speaks against it.
        wrong: WrongBlock,
    },
}

/// A check that failed.
#[derive(Clone, Debug, PartialEq)]
pub struct MismatchReport {
    /// The rule.
    pub rule: String,
    /// What was compared with what.
    pub what: String,
    /// What is wrong: the compiled code, the interpreter, the block mask.
    pub engine: String,
    /// The call.
    pub shape: CallShape,
    /// Whether the captured values were generated for the check, so that they are not those of the rule.
    pub generated_captures: bool,
    /// What differs.
    pub finding: Finding,
    /// The place; of a mask only.
    pub around: Option<Neighbourhood>,
}

impl MismatchReport {
    /// The first cell that differs, as `(b, h, q_idx, kv_idx)`.
    pub fn first_cell(&self) -> Option<(u32, u32, i64, i64)> {
        match &self.finding {
            Finding::Cells(cells) => cells.first().map(|c| (c.b, c.h, c.q_idx, c.kv_idx)),
            Finding::Block { wrong, .. } => {
                Some((wrong.b, wrong.h, wrong.witness.0, wrong.witness.1))
            }
        }
    }

    /// The cells around the first difference, as expected and as found, side by side; a column of `^` marks cells that
    /// differ. Empty for scores.
    pub fn draw(&self) -> String {
        let Some(around) = &self.around else {
            return String::new();
        };
        let width = around
            .expected
            .first()
            .map_or(0, String::len)
            .max("expected".len());
        let last = around.q_idx + around.expected.len() as i64;
        let margin = around.q_idx.to_string().len().max(last.to_string().len());
        let mut out = format!("keys from {}\n", around.kv_idx);
        let mut add = |line: String| {
            out.push_str(line.trim_end());
            out.push('\n');
        };
        add(format!("{:margin$}  {:width$}  found", "", "expected"));
        for (i, (expected, found)) in around.expected.iter().zip(&around.found).enumerate() {
            let q_idx = around.q_idx + i as i64;
            add(format!("{q_idx:margin$}  {expected:width$}  {found}"));
            if expected != found {
                let marks: String = expected
                    .chars()
                    .zip(found.chars())
                    .map(|(a, b)| if a == b { ' ' } else { '^' })
                    .collect();
                add(format!("{:margin$}  {:width$}  {marks}", "", ""));
            }
        }
        out
    }
}

impl fmt::Display for MismatchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of rule {} at {}: {}",
            self.engine, self.rule, self.shape, self.what
        )?;
        if self.generated_captures {
            f.write_str(", with generated captured values")?;
        }
        match &self.finding {
            Finding::Cells(cells) => cells.iter().try_for_each(|cell| write!(f, "\n  {cell}")),
            Finding::Block { block, wrong } => write!(f, "\n  blocks of {block}: {wrong}"),
        }
    }
}
