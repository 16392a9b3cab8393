//! Decides a mask over regions of one (batch, head) plane: intervals with affine forms, residues, known bits, and
//! minima and maxima of captured buffers. Guards need no facts here: a value that a guard keeps from being
//! computed may be anything, and the guard's own answer decides.

mod affine;
mod compile;
mod region;
mod table;
mod tape;
mod tri;
mod value;

pub(crate) use compile::TableCache;
pub(crate) use region::Region;
pub(crate) use tape::{LengthRanges, PlaneClassifier};
pub(crate) use tri::Tri;

#[cfg(test)]
pub(crate) mod random;
#[cfg(test)]
mod tests;
