//! The macros of Maskwright: rules written as Rust functions and closures.
//!
//! They are documented where programs use them, in the crate `maskwright`. Each prints the tokens of a rule as text,
//! has the rule language check it, and turns every fault into an error at its tokens; the rule is made from that text
//! when it is first bound, so it means the same in Rust and in text. Beside it stands the author's own function, compiled by rustc.

mod ast;
mod attr;
mod check;
mod closure;
mod expand;
mod fallback;
mod rewrite;
mod scope;
mod tokens;

use maskwright_dsl::ir::RuleKind;
use proc_macro::TokenStream;

/// Makes a function a mask.
#[proc_macro_attribute]
pub fn attention_mask(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(RuleKind::Mask, &args.into(), item.into()).into()
}

/// Makes a function a score rule.
#[proc_macro_attribute]
pub fn score_mod(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(RuleKind::Score, &args.into(), item.into()).into()
}

/// Makes a closure a mask.
#[proc_macro]
pub fn mask(input: TokenStream) -> TokenStream {
    closure::expand(RuleKind::Mask, input.into()).into()
}

/// Makes a closure a score rule.
#[proc_macro]
pub fn score(input: TokenStream) -> TokenStream {
    closure::expand(RuleKind::Score, input.into()).into()
}
