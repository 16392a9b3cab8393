//! Code generation: a prepared rule becomes Cranelift IR. Pure: values in, values out.
#![forbid(unsafe_code)]

pub mod back;
