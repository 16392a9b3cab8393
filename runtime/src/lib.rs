//! Attention masks and score rules in Rust.
//!
//! A rule is a Rust function: which query may see which key, or how a score changes. The function stays a function; a
//! struct of the same name binds the values that it captures.
//!
//! ```
//! use maskwright::prelude::*;
//!
//! /// Causal attention inside packed documents.
//! #[attention_mask]
//! fn packed_causal(q_idx: i32, kv_idx: i32, doc: &[i32]) -> bool {
//!     kv_idx <= q_idx && doc[q_idx] == doc[kv_idx]
//! }
//!
//! let packed = packed_causal::bind(&[0, 0, 1, 1]);
//! let window = 2;
//! let rule = packed & mask!(|q, kv| q - kv < window);
//!
//! // The function is what the compiled rule is checked against.
//! assert!(packed_causal(3, 2, &[0, 0, 1, 1]));
//! assert!(rule.bound().reference().is_some());
//! ```

#![deny(missing_docs)]

// Code that our macros write says `::maskwright`, also in here.
extern crate self as maskwright;

#[cfg(feature = "cranelift")]
pub mod artifact;
pub mod attention;
pub mod cache;
mod capture;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
pub mod device;
#[cfg(any(feature = "cranelift", feature = "cuda"))]
pub mod jit;
mod operator;
pub mod prelude;
mod private;
pub mod reference;
mod rust_rule;
pub mod tensor;
#[cfg(feature = "cranelift")]
pub mod verify;

pub use attention::{
    Attended, AttentionError, Backend, ForwardOptions, Kernel, LaunchRecord, Rules, TensorRef,
    attention,
};
#[cfg(all(doctest, feature = "cranelift"))]
#[doc = include_str!("../../README.md")]
struct Readme;

/// What the code that our macros write calls.
#[doc(hidden)]
pub mod __private {
    pub use crate::private::*;
}

pub use capture::{Bits, Buffer, Capture, Element, Held, Index, IntoBuffer, Slice};
pub use maskwright_dsl::bind::{BindError, BoundRule, MaskRule, ScoreRule};
pub use maskwright_dsl::block_mask::{self, BlockMask, BlockSize};
pub use maskwright_dsl::bucket::{self, Bucket};
pub use maskwright_dsl::capture::{BufferError, CapturedBuffer};
pub use maskwright_dsl::diagnostic::Diagnostics;
pub use maskwright_dsl::pipeline::{Prepared, Scope, prepare};
pub use maskwright_dsl::{analysis, catalogue, dense, eval, ir, math, text};
pub use operator::{div_floor, rem_floor};
pub use rust_rule::RustRuleError;

/// Makes a function a mask: which query may see which key.
///
/// Parameters are known by name: any of `b`, `h`, `q_idx` or `q`, `kv_idx` or `kv`, and the sizes `q_len`, `kv_len`,
/// `batch`, `num_q_heads`, all `i32`. Every other parameter is a *capture*: a scalar (`i32 i64 u32 f32 bool`), a slice
/// `&[T]`, or a strided [`Buffer`] `&Buffer<T, N>`, read as `table[[h, q_idx]]`; elements are also
/// `u8 u16 i8 i16 f16 bf16 f64` (and [`Bits`] in a `Buffer`), and widen when they are read. `const N: i32` is a bound of loops.
///
/// # What is made
/// The function stays callable, and is the reference that a compiled rule is verified against. In it, two things are
/// rewritten: reads of captures take an index of any integer type and are checked, and float functions are those of
/// [`math`], to the last bit. Beside it stands a struct of the same name:
///
/// * `name::bind(captures..)` takes one argument for each capture, in order: a scalar by value, a buffer as anything
///   that is [`IntoBuffer`]; `name::bind::<4>(..)` gives constants. The result is a [`MaskRule`] that holds the
///   captures and the reference.
/// * `name::try_bind(captures..)` gives a [`RustRuleError`] where `bind` panics: when functions that call one another
///   make no sense together, or a name in a declared extent has no value.
///
/// # What is understood
/// `let`, `if` and `match` as values, loops over constant ranges and `(0..4).any(|i| ..)`, `return`, calls of other
/// annotated functions by any path, operators, casts, the functions of the [text form](maskwright_dsl::text), and of [`math`].
/// Anything else is a compile error at its place, which says what to write instead.
///
/// `#[range(1..=64)]` before a capture declares its values, `#[extent(batch, kv_len)]` the extents of a buffer; proofs rest on them and
/// every binding is checked.
///
/// # Example
/// ```
/// use maskwright::prelude::*;
///
/// #[attention_mask]
/// fn causal(q_idx: i32, kv_idx: i32) -> bool {
///     kv_idx <= q_idx
/// }
///
/// #[attention_mask]
/// fn dilated<const STEPS: i32>(q_idx: i32, kv_idx: i32, #[range(1..=64)] stride: i32) -> bool {
///     causal(q_idx, kv_idx) && (0..STEPS).any(|i| kv_idx == q_idx - i * stride)
/// }
///
/// let rule = dilated::bind::<4>(8);
/// assert!(dilated::<4>(40, 16, 8) && !dilated::<4>(40, 8, 8));
/// # let _ = rule;
/// ```
///
/// ```compile_fail
/// # use maskwright::prelude::*;
/// #[attention_mask]
/// fn chained(q_idx: i32, kv_idx: i32) -> bool {
///     while kv_idx < q_idx {} // loops are `for i in 0..4 { .. }`
///     true
/// }
/// ```
pub use maskwright_macros::attention_mask;

/// Makes a closure a mask: `mask!(|q, kv| kv <= q && q - kv < window)`.
///
/// The closure's parameters are variables, as in [`attention_mask`]; every other name is captured from around it, if it
/// is [`Capture`]. The result is a [`MaskRule`] which holds the captures and the closure, as the reference.
///
/// # Panics
/// If the closure makes no sense as a rule with the types of its captures, or together with the annotated functions
/// that it calls; what can be seen without them is a compile error.
///
/// # Example
/// ```
/// use maskwright::mask;
///
/// let documents = vec![0, 0, 1, 1, 1];
/// let window = 2;
/// let rule = mask!(|q, kv| kv <= q && q - kv < window && documents[q] == documents[kv]);
/// assert_eq!(rule.bound().bindings().values.len(), 2);
/// ```
pub use maskwright_macros::mask;

/// Makes a closure a score rule: `score!(|score, h, q, kv| score + slope[h] * (kv - q) as f32)`.
///
/// `score` is the first parameter; the rest is as in [`mask!`]. Where the result is `-inf`, nothing is attended.
///
/// # Panics
/// As [`mask!`].
///
/// # Example
/// ```
/// use maskwright::score;
///
/// let cap = 30.0f32;
/// let rule = score!(|score| cap * (score / cap).tanh());
/// assert!(rule.bound().reference().is_some());
/// ```
pub use maskwright_macros::score;

/// Makes a function a score rule: how a score changes, after `sm_scale`.
///
/// `score: f32` is its first parameter and `f32` its result; the rest is as in [`attention_mask`].
///
/// # Example
/// ```
/// use maskwright::prelude::*;
///
/// /// ALiBi (Press et al. 2022, arXiv:2108.12409).
/// #[score_mod]
/// fn alibi(score: f32, h: i32, q_idx: i32, kv_idx: i32, slope: &[f32]) -> f32 {
///     score + slope[h] * (kv_idx - q_idx) as f32
/// }
///
/// let rule = alibi::bind([0.5, 0.25]);
/// assert_eq!(alibi(1.0, 1, 4, 2, &[0.5, 0.25]), 0.5);
/// # let _ = rule;
/// ```
pub use maskwright_macros::score_mod;
