//! CUDA C++ of prepared rules, and of the kernels that call them.

mod body;
mod captures;
mod error;
mod evaluate;
mod expr;
mod fields;
mod forward;
mod lines;
mod literal;
mod math;
mod names;
mod place;
mod precedence;
mod print;
mod rule_text;
mod source;
mod support;
mod template;

pub use error::CudaError;
pub use evaluate::emit_evaluator;
pub use forward::emit_forward;
pub use print::{print_mask, print_score};
pub use rule_text::RuleText;
pub use source::CudaSource;
pub use support::{Support, support_text};
