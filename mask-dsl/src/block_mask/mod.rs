//! Block masks: which blocks of the score matrix a rule empties, fills or cuts, and what is done with that knowledge.
//!
//! A [`BlockMask`] keeps, per batch, head and block row, ascending [`Run`]s of full and partial blocks; what no run
//! covers is empty. Its operations work on the runs, so their cost follows the boundary of the mask, not its area,
//! and none of them holds the dense matrix. Cells, where they are needed, come from a [`MaskEvaluator`].

mod algebra;
mod build;
mod builder;
mod dense;
mod draw;
mod error;
mod evaluator;
mod file;
mod flashmask;
mod format;
mod geometry;
mod hand;
mod plane;
mod reclassify;
mod report;
mod slice;
mod torch;
mod transpose;
mod window;

#[cfg(test)]
mod model;

pub use self::build::BuildStats;
pub use self::builder::PlaneBuilder;
pub use self::draw::{DrawLabels, DrawOptions, DrawStyle};
pub use self::error::{BlockMaskError, CallShape, WrongBlock};
pub use self::evaluator::{CellFn, MaskEvaluator, MaskedRule};
pub use self::flashmask::{FlashMaskColumns, FlashMaskKind};
pub use self::format::{Authority, BlockMask, Exactness};
pub use self::geometry::{BlockSize, Geometry};
pub use self::hand::{BlockLists, ListRow, ListsMeaning};
pub use self::plane::{BlockClass, Plane, Run};
pub use self::report::BlockCounts;
pub use self::torch::{TorchBlockMask, TorchTensor};
