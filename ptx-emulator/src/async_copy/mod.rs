//! Asynchronous copies: `cp.async` and bulk groups, `mbarrier`, tensor maps and the copies of the TMA unit.
//!
//! Nothing here touches memory: a caller executes what these values say, as late as the rules allow, so that a wait
//! that is missing shows.

pub mod element;
pub mod group;
pub mod mbarrier;
pub mod spelling;
pub mod tensor_map;
pub mod tma;
