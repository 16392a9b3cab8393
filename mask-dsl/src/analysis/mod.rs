//! Facts about a rule: never rewrites, and never a guess.

pub(crate) mod classify;
