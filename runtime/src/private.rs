//! What the code that our macros write calls. No part of the API.

pub use std::vec;

pub use maskwright_dsl::eval::{Point, Sizes};
pub use maskwright_dsl::ir::RuleKind;

pub use crate::capture::{Capture, Held, Index, IntoBuffer, Slice, read};
/// The functions of the rule language.
pub mod operator {
    pub use maskwright_dsl::math::{
        ceil, cos, erf, exp, exp2, floor, ln, log2, log10, powf, powi, round, sin, sqrt, tan, tanh,
        trunc,
    };

    pub use crate::operator::{
        abs, clamp, div_euclid, div_floor, max, min, pow, rem_euclid, rem_floor, signum,
        wrapping_add, wrapping_mul, wrapping_neg, wrapping_sub,
    };
}

pub use crate::rust_rule::{AnnotatedFn, Callees, Captured, RustClosure, RustFn, RustRuleError};

/// Stands for a rule after an error that has been reported, so that it is the only one.
pub fn reported<T>() -> T {
    unreachable!("code with a reported error does not compile")
}

/// Panics with what is wrong with a rule.
#[track_caller]
pub fn bound<T>(rule: Result<T, RustRuleError>) -> T {
    match rule {
        Ok(rule) => rule,
        Err(error) => panic!("{error}"),
    }
}
