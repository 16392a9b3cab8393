//! The transposed plane, which the backward pass over key blocks walks.

use super::plane::{merge_rows, segments};
use super::{BlockClass, Plane, PlaneBuilder};

impl Plane {
    /// Swaps rows and columns: per key block, the runs of query blocks.
    ///
    /// A run of the result begins and ends where neighbouring rows differ, so the cost follows those places and not
    /// the number of blocks.
    pub fn transposed(&self) -> Self {
        let mut builder = PlaneBuilder::new(self.cols(), self.rows());
        // The row since which each column has had its class.
        let mut since = vec![0; self.cols() as usize];
        let mut previous = &[][..];
        for row in 0..self.rows() {
            let current = self.row(row);
            merge_rows(previous, current, self.cols(), |cols, before, now| {
                if before != now {
                    for col in cols {
                        let start = std::mem::replace(&mut since[col as usize], row);
                        builder.push(col, start, row - start, before);
                    }
                }
            });
            previous = current;
        }
        for (cols, class) in segments(previous, self.cols()) {
            if class != BlockClass::Empty {
                for col in cols {
                    let start = since[col as usize];
                    builder.push(col, start, self.rows() - start, class);
                }
            }
        }
        builder.finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::model::any_plane;

    proptest! {
        #[test]
        fn transposing_swaps_indices(plane in any_plane(0..9, 0..9)) {
            let transposed = plane.transposed();
            prop_assert_eq!((transposed.rows(), transposed.cols()), (plane.cols(), plane.rows()));
            for row in 0..plane.rows() {
                for col in 0..plane.cols() {
                    prop_assert_eq!(transposed.class(col, row), plane.class(row, col));
                }
            }
            prop_assert_eq!(transposed.transposed(), plane);
        }
    }
}
