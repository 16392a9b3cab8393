//! Kernels in the emulator against the reference, the cache of compiled kernels, and every refusal.

mod bench;

mod agreement;
mod cache;
mod refusals;
