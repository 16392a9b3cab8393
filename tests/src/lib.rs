//! The test harness of Maskwright: one corpus, every engine.
//!
//! `cases/*.toml` are rules seen in public code and documents, with concrete sizes, captured values and the results of
//! an independent implementation. [`case`] reads them, [`program`] binds them, each [`engine`] computes them its own
//! way, and [`expect`] compares.

pub mod case;
pub mod direct;
pub mod engine;
pub mod expect;
pub mod program;
pub mod recipe;
