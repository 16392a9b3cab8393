//! One plane of blocks, the mask of one batch entry and head, as runs in CSR form.

use std::ops::Range;

/// What a rule does to the cells of one block that lie within the lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BlockClass {
    /// No cell is allowed.
    Empty,
    /// Some cells are allowed and some are not, or nothing was proved.
    Partial,
    /// Every cell is allowed.
    Full,
}

impl BlockClass {
    /// The byte that stands for the class in hashes: 0 empty, 1 partial, 2 full.
    pub fn byte(self) -> u8 {
        match self {
            Self::Empty => 0,
            Self::Partial => 1,
            Self::Full => 2,
        }
    }

    /// The class in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Partial => "partial",
            Self::Full => "full",
        }
    }
}

/// Adjacent blocks of one row that share a class, full or partial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    first: u32,
    /// The count in the low 31 bits; the top bit says full.
    packed: u32,
}

const FULL_BIT: u32 = 1 << 31;

impl Run {
    /// Packs a run; `None` for an empty class, and where the count is 0 or the end does not fit.
    pub fn new(first: u32, count: u32, class: BlockClass) -> Option<Self> {
        let bit = match class {
            BlockClass::Empty => return None,
            BlockClass::Partial => 0,
            BlockClass::Full => FULL_BIT,
        };
        let end = first.checked_add(count)?;
        (0 < count && end < FULL_BIT).then_some(Self {
            first,
            packed: count | bit,
        })
    }

    /// First block column.
    pub fn first(self) -> u32 {
        self.first
    }

    /// Number of blocks, at least 1.
    pub fn count(self) -> u32 {
        self.packed & !FULL_BIT
    }

    /// The block column after the last one.
    pub fn end(self) -> u32 {
        self.first + self.count()
    }

    /// [`BlockClass::Full`] or [`BlockClass::Partial`].
    pub fn class(self) -> BlockClass {
        if self.is_full() {
            BlockClass::Full
        } else {
            BlockClass::Partial
        }
    }

    /// Tells whether the blocks are full.
    pub fn is_full(self) -> bool {
        self.packed & FULL_BIT != 0
    }

    /// The two words of the run, as files keep it.
    pub(super) fn words(self) -> (u32, u32) {
        (self.first, self.packed)
    }

    pub(super) fn from_words(first: u32, packed: u32) -> Option<Self> {
        let class = if packed & FULL_BIT == 0 {
            BlockClass::Partial
        } else {
            BlockClass::Full
        };
        Self::new(first, packed & !FULL_BIT, class)
    }
}

/// The blocks of one batch entry and head: ascending runs per block row.
///
/// Runs do not overlap, and adjacent runs differ in class, so equal planes have equal runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plane {
    cols: u32,
    row_ptr: Vec<u32>,
    runs: Vec<Run>,
}

impl Plane {
    /// Takes parts that the caller built in canonical form.
    pub(super) fn from_parts(cols: u32, row_ptr: Vec<u32>, runs: Vec<Run>) -> Self {
        debug_assert!(is_canonical(cols, &row_ptr, &runs));
        Self {
            cols,
            row_ptr,
            runs,
        }
    }

    /// Takes parts from outside; `None` unless they are in canonical form.
    pub(super) fn checked(cols: u32, row_ptr: Vec<u32>, runs: Vec<Run>) -> Option<Self> {
        is_canonical(cols, &row_ptr, &runs).then_some(Self {
            cols,
            row_ptr,
            runs,
        })
    }

    /// Makes a plane of blocks of one class.
    pub fn uniform(rows: u32, cols: u32, class: BlockClass) -> Self {
        let run = Run::new(0, cols, class);
        let per_row = u32::from(run.is_some());
        Self {
            cols,
            row_ptr: (0..=rows).map(|row| row * per_row).collect(),
            runs: run.map_or_else(Vec::new, |run| vec![run; rows as usize]),
        }
    }

    /// Block rows.
    pub fn rows(&self) -> u32 {
        (self.row_ptr.len() - 1) as u32
    }

    /// Block columns.
    pub fn cols(&self) -> u32 {
        self.cols
    }

    /// Runs of one block row.
    ///
    /// # Panics
    /// If there is no such row, as indexing a slice does.
    pub fn row(&self, row: u32) -> &[Run] {
        let row = row as usize;
        &self.runs[self.row_ptr[row] as usize..self.row_ptr[row + 1] as usize]
    }

    /// Where the runs of each row start, one entry more than there are rows.
    pub fn row_ptr(&self) -> &[u32] {
        &self.row_ptr
    }

    /// The runs of all rows, one row after the other.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Class of one block.
    ///
    /// # Panics
    /// If there is no such row, as indexing a slice does.
    pub fn class(&self, row: u32, col: u32) -> BlockClass {
        class_in(self.row(row), col)
    }

    /// Tells whether some block is partial.
    pub fn has_partial(&self) -> bool {
        self.runs.iter().any(|run| !run.is_full())
    }

    /// Bytes that the plane takes.
    pub fn size_bytes(&self) -> usize {
        size_of_val(self.row_ptr.as_slice()) + size_of_val(self.runs.as_slice())
    }
}

/// Class of one block of a row.
pub(super) fn class_in(runs: &[Run], col: u32) -> BlockClass {
    let after = runs.partition_point(|run| run.first() <= col);
    match after.checked_sub(1).map(|at| runs[at]) {
        Some(run) if col < run.end() => run.class(),
        Some(_) | None => BlockClass::Empty,
    }
}

fn is_canonical(cols: u32, row_ptr: &[u32], runs: &[Run]) -> bool {
    let in_order = row_ptr.first() == Some(&0)
        && row_ptr
            .last()
            .is_some_and(|&end| end as usize == runs.len())
        && row_ptr.windows(2).all(|pair| pair[0] <= pair[1]);
    in_order
        && row_ptr.windows(2).all(|pair| {
            let row = &runs[pair[0] as usize..pair[1] as usize];
            row.last().is_none_or(|last| last.end() <= cols)
                && row.windows(2).all(|two| {
                    let (a, b) = (two[0], two[1]);
                    a.end() < b.first() || (a.end() == b.first() && a.class() != b.class())
                })
        })
}

/// The whole of a row as segments, the empty ones included, in rising order.
pub(super) fn segments(
    runs: &[Run],
    cols: u32,
) -> impl Iterator<Item = (Range<u32>, BlockClass)> + '_ {
    let mut at = 0;
    let mut next = 0;
    std::iter::from_fn(move || {
        if at == cols {
            return None;
        }
        let (class, end) = segment_at(runs, &mut next, at, cols);
        let segment = at..end;
        at = end;
        Some((segment, class))
    })
}

/// Walks two rows together: `visit(columns, class in a, class in b)` for each stretch where neither changes.
pub(super) fn merge_rows(
    a: &[Run],
    b: &[Run],
    cols: u32,
    mut visit: impl FnMut(Range<u32>, BlockClass, BlockClass),
) {
    let (mut next_a, mut next_b, mut at) = (0, 0, 0);
    while at < cols {
        let (class_a, end_a) = segment_at(a, &mut next_a, at, cols);
        let (class_b, end_b) = segment_at(b, &mut next_b, at, cols);
        let end = end_a.min(end_b);
        visit(at..end, class_a, class_b);
        at = end;
    }
}

/// The class at a column and where it may change next; `next` only grows.
fn segment_at(runs: &[Run], next: &mut usize, at: u32, cols: u32) -> (BlockClass, u32) {
    while runs.get(*next).is_some_and(|run| run.end() <= at) {
        *next += 1;
    }
    match runs.get(*next) {
        Some(run) if run.first() <= at => (run.class(), run.end()),
        Some(run) => (BlockClass::Empty, run.first()),
        None => (BlockClass::Empty, cols),
    }
}
