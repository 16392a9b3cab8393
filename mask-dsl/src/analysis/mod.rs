//! Facts about a rule over a whole scope, or over a region of its cells; nothing here rewrites, and nothing guesses.

pub(crate) mod classify;
pub mod dependence;
pub(crate) mod derive;
pub(crate) mod facts;
pub(crate) mod interval;
pub(crate) mod linear;
pub mod range;
mod transfer;
