//! One file per command: flags in, text out.

pub(crate) mod bench;
pub(crate) mod cache;
pub(crate) mod catalogue;
pub(crate) mod doctor;
pub(crate) mod emit;
pub(crate) mod eval;
pub(crate) mod explain;
pub(crate) mod precompile;
pub(crate) mod run;
pub(crate) mod shell;
pub(crate) mod show;
pub(crate) mod tour;
pub(crate) mod verify;
