//! Finding classes by evaluating cells: of all blocks, or of the partial ones that nothing was proved of.

use super::evaluator::CellScan;
use super::plane::segments;
use super::{
    BlockClass, BlockMask, BlockMaskError, Exactness, Geometry, MaskEvaluator, PlaneBuilder,
};

impl BlockMask {
    /// Evaluates every cell, and gives each block its exact class.
    ///
    /// The stored axes are those of the geometry: where it counts one batch entry or head, the first is evaluated.
    /// The cost is the area of the mask; building from a rule by analysis costs its boundary.
    ///
    /// # Errors
    /// [`BlockMaskError::SeveralCalls`] if the geometry's bucket has more than one member.
    pub fn from_evaluator(
        geometry: &Geometry,
        evaluator: &dyn MaskEvaluator,
    ) -> Result<Self, BlockMaskError> {
        let unknown = Self::uniform(geometry.clone(), BlockClass::Partial);
        unknown.spread()?.reclassify(evaluator)
    }

    /// Evaluates the partial blocks of a coarse mask, and makes it exact. An exact mask is returned as it is.
    ///
    /// An axis that is stored once is evaluated at its first index. Blocks beyond the partial ones are believed.
    ///
    /// # Errors
    /// [`BlockMaskError::SeveralCalls`] if the bucket has more than one member, since no cells speak for all.
    pub fn reclassify(&self, evaluator: &dyn MaskEvaluator) -> Result<Self, BlockMaskError> {
        self.require_single("reclassifying")?;
        if self.is_exact() {
            return Ok(self.clone());
        }
        let mut scan = CellScan::new(self.geometry(), evaluator);
        // Heads with equal classes may differ in the cells of their partial blocks, so each entry is looked at.
        let planes = self.stored_entries().map(|(b, h)| {
            let mut builder = PlaneBuilder::new(self.rows(), self.cols());
            for row in 0..self.rows() {
                for (cols, class) in segments(self.row(b, h, row), self.cols()) {
                    match class {
                        BlockClass::Partial => {
                            for col in cols {
                                builder.push(row, col, 1, scan.block((b, h), row, col).class());
                            }
                        }
                        BlockClass::Full | BlockClass::Empty => {
                            builder.push(row, cols.start, cols.end - cols.start, class);
                        }
                    }
                }
            }
            builder.finish()
        });
        let planes = planes.collect();
        let exact = Self::from_planes(
            self.geometry().clone(),
            self.stored_batch(),
            self.stored_heads(),
            planes,
            Exactness::Exact,
        )?;
        Ok(exact.with_authority(self.authority()))
    }

    /// Calls every full block partial, which changes no result: a kernel then asks the rule there as well.
    pub fn demote_full(&self) -> Self {
        self.map_planes(Exactness::Coarse, |plane| {
            let mut builder = PlaneBuilder::new(plane.rows(), plane.cols());
            for row in 0..plane.rows() {
                for run in plane.row(row) {
                    builder.push(row, run.first(), run.count(), BlockClass::Partial);
                }
            }
            builder.finish()
        })
    }

    /// Stores every batch entry and head, so that each can get classes of its own.
    fn spread(&self) -> Result<Self, BlockMaskError> {
        let planes = self
            .logical_entries()
            .map(|(b, h)| self.plane(b, h).clone())
            .collect();
        Self::from_shared(
            self.geometry().clone(),
            self.batch(),
            self.heads(),
            planes,
            self.exactness(),
        )
    }
}
