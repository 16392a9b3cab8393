//! The kernel as data: tiles, threads, shared memory and parameters, without any target's syntax.

mod error;
mod forward;
mod params;
mod pressure;
mod shared;
mod tiles;

pub use error::PlanError;
pub use forward::{KernelPlan, plan};
pub use params::{CapturePart, Param, ParamLayout, ParamType, ParamValue, RuleRole, Tensor};
pub use shared::{Shared, SharedTile};
