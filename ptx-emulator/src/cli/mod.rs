//! The parts of the command.

pub(crate) mod args;
mod bind;
pub(crate) mod check;
pub(crate) mod error;
mod npy;
mod print;
pub(crate) mod run;
mod value;
