//! Facts about a rule over a whole scope of cells; nothing here rewrites.

pub mod dependence;
pub(crate) mod derive;
pub(crate) mod facts;
pub(crate) mod interval;
pub(crate) mod linear;
pub mod range;
mod transfer;
