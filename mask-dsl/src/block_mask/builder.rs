//! Building a plane from runs that come row by row or in any interleaving of rows.

use std::ops::Range;

use super::{BlockClass, Plane, Run};

/// Collects runs, in ascending columns within each row, and merges those that touch.
///
/// Runs are kept in one list, linked backwards per row, so that a push costs the same whatever the order of rows is.
///
/// # Example
/// ```
/// use maskwright_dsl::block_mask::{BlockClass, PlaneBuilder};
/// let mut builder = PlaneBuilder::new(2, 4);
/// builder.push(1, 0, 1, BlockClass::Full);
/// builder.fill(0..2, 1..3, BlockClass::Full);
/// let plane = builder.finish();
/// assert_eq!(plane.row(1).len(), 1);
/// assert_eq!(plane.class(0, 0), BlockClass::Empty);
/// ```
#[derive(Clone, Debug)]
pub struct PlaneBuilder {
    cols: u32,
    tails: Vec<Tail>,
    nodes: Vec<Node>,
}

#[derive(Clone, Copy, Debug)]
struct Tail {
    /// The last run of the row, which may still grow; kept here so that a push touches nothing else.
    open: Option<Run>,
    /// Node of the run before it, or [`NONE`].
    previous: u32,
    n_runs: u32,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    run: Run,
    previous: u32,
}

const NONE: u32 = u32::MAX;

impl PlaneBuilder {
    /// Starts a plane whose blocks are all empty.
    pub fn new(rows: u32, cols: u32) -> Self {
        let tail = Tail {
            open: None,
            previous: NONE,
            n_runs: 0,
        };
        Self {
            cols,
            tails: vec![tail; rows as usize],
            nodes: Vec::new(),
        }
    }

    /// Adds `count` blocks of a class to a row; empty ones need not be added, and adding them does nothing.
    ///
    /// # Panics
    /// If the blocks are out of range, or begin before the end of what the row already has.
    pub fn push(&mut self, row: u32, first: u32, count: u32, class: BlockClass) {
        let end = u64::from(first) + u64::from(count);
        assert!(
            end <= u64::from(self.cols),
            "blocks {first}..{end} of row {row} lie within {} columns",
            self.cols
        );
        let Some(run) = Run::new(first, count, class) else {
            return;
        };
        let tail = &mut self.tails[row as usize];
        if let Some(last) = tail.open {
            assert!(
                last.end() <= first,
                "row {row} takes runs in ascending order: {first} after {}",
                last.end()
            );
            if last.end() == first && last.class() == class {
                tail.open = Run::new(last.first(), last.count() + count, class);
                return;
            }
            let index = self.nodes.len() as u32;
            assert!(
                self.nodes.len() < NONE as usize,
                "a plane has fewer than 2^32 runs"
            );
            self.nodes.push(Node {
                run: last,
                previous: tail.previous,
            });
            tail.previous = index;
        }
        tail.open = Some(run);
        tail.n_runs += 1;
    }

    /// Gives a rectangle of blocks one class.
    ///
    /// # Panics
    /// As [`PlaneBuilder::push`].
    pub fn fill(&mut self, rows: Range<u32>, cols: Range<u32>, class: BlockClass) {
        for row in rows {
            self.push(row, cols.start, cols.end.saturating_sub(cols.start), class);
        }
    }

    /// Brings the runs into rows.
    pub fn finish(self) -> Plane {
        let mut row_ptr = Vec::with_capacity(self.tails.len() + 1);
        let mut total = 0_u32;
        row_ptr.push(total);
        for tail in &self.tails {
            total = total
                .checked_add(tail.n_runs)
                .expect("a plane has fewer than 2^32 runs");
            row_ptr.push(total);
        }
        let filler = Run::new(0, 1, BlockClass::Full).expect("one block is a run");
        let mut runs = vec![filler; total as usize];
        for (tail, &end) in self.tails.iter().zip(&row_ptr[1..]) {
            let Some(open) = tail.open else { continue };
            let mut slot = end as usize - 1;
            runs[slot] = open;
            let mut at = tail.previous;
            while let Some(node) = self.nodes.get(at as usize) {
                slot -= 1;
                runs[slot] = node.run;
                at = node.previous;
            }
        }
        Plane::from_parts(self.cols, row_ptr, runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaved_rows_end_up_sorted_and_merged() {
        let mut builder = PlaneBuilder::new(3, 10);
        builder.fill(0..3, 0..2, BlockClass::Full);
        builder.push(2, 2, 1, BlockClass::Partial);
        builder.push(0, 2, 3, BlockClass::Full);
        builder.push(2, 3, 1, BlockClass::Partial);
        builder.push(1, 9, 1, BlockClass::Partial);
        builder.push(2, 5, 0, BlockClass::Full);
        builder.push(2, 6, 2, BlockClass::Empty);
        let plane = builder.finish();
        let row = |row| -> Vec<_> {
            let runs = plane.row(row).iter();
            runs.map(|run| (run.first(), run.count(), run.class()))
                .collect()
        };
        assert_eq!(row(0), [(0, 5, BlockClass::Full)]);
        assert_eq!(
            row(1),
            [(0, 2, BlockClass::Full), (9, 1, BlockClass::Partial)]
        );
        assert_eq!(
            row(2),
            [(0, 2, BlockClass::Full), (2, 2, BlockClass::Partial)]
        );
    }

    #[test]
    fn a_run_is_eight_bytes() {
        assert_eq!(size_of::<Run>(), 8);
        assert_eq!(Run::new(0, 1 << 31, BlockClass::Full), None);
        assert_eq!(Run::new(u32::MAX, 1, BlockClass::Full), None);
        assert_eq!(Run::new(3, 0, BlockClass::Full), None);
    }

    #[test]
    fn no_rows_and_no_columns_are_planes_too() {
        assert_eq!(
            PlaneBuilder::new(0, 0).finish(),
            Plane::uniform(0, 0, BlockClass::Full)
        );
        assert_eq!(
            PlaneBuilder::new(3, 0).finish(),
            Plane::uniform(3, 0, BlockClass::Full)
        );
    }
}
