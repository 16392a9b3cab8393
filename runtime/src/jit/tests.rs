//! Compiled rules against the scalar interpreter, bit for bit.

mod build;
mod operators;
mod programs;
mod rules;
