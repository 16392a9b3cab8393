//! Code generation: a prepared rule becomes Cranelift IR or CUDA text. Pure: values in, values out.
#![forbid(unsafe_code)]

pub mod spec;

pub mod plan;

mod exactness;

mod levels;

pub mod back;
