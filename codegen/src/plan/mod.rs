//! The kernel as data: tiles, threads, shared memory and parameters, without any target's syntax.

mod params;

pub use params::{CapturePart, Param, ParamLayout, ParamType, ParamValue, RuleRole, Tensor};
