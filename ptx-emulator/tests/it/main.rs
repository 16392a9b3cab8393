//! Instructions, one by one, as small kernels.

mod bits;
mod control;
mod convert;
mod faults;
mod float;
mod harness;
mod integer;
mod memory;
mod moves;
mod mutants;
mod warp;
