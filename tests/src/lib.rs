//! The test harness of Maskwright: one corpus, every engine.
//!
//! `cases/*.toml` are rules seen in public code and documents, with concrete sizes, captured values and the results of
//! an independent implementation. [`case`] reads them, [`program`] binds them, each [`engine`] computes them its own
//! way, and [`expect`] compares. [`call`], [`work`] and [`bare`] are for kernels of GPUs in the emulator: tensors of a
//! call, the work it must cost, and launches without the runtime.

pub mod bare;
pub mod call;
pub mod case;
pub mod direct;
pub mod engine;
pub mod expect;
pub mod program;
pub mod recipe;
pub mod work;
