//! From PTX text to the syntax tree.
//!
//! One pass over the tokens, without recursion: a body is read with a stack of scopes, names are resolved where they are
//! met, and labels when the scope that could hold them ends. Time and memory grow with the text and with nothing else.

mod body;
mod cursor;
mod declaration;
mod error;
mod function;
mod initialiser;
mod literal;
mod module;
mod operand;
mod scope;
mod token;

#[cfg(test)]
mod tests;

pub use error::{ParseError, ParseFault};

use crate::ast::Module;

/// Reads a PTX file.
///
/// Everything that NVRTC emits for a kernel is understood: declarations, nested scopes, device functions, calls and jump
/// tables. Debug sections are passed over. Instructions are split into their parts, but not judged.
///
/// # Errors
/// The first fault of the text, with its line and column.
///
/// # Example
/// ```
/// let module = ptx_emulator::parse::parse(
///     ".version 8.0 .target sm_80 .address_size 64
///      .visible .entry nothing() { ret; }",
/// )?;
/// assert_eq!(module.functions[0].name, "nothing");
///
/// let error = ptx_emulator::parse::parse(".version 8.0\n.target sm_80\n.entry f() { bra away; }").unwrap_err();
/// assert_eq!(error.to_string(), "line 3, column 18: no label `away` in scope: `.entry f() { bra away; }`");
/// # Ok::<(), ptx_emulator::parse::ParseError>(())
/// ```
pub fn parse(text: &str) -> Result<Module, ParseError> {
    let cursor = cursor::Cursor::new(text)?;
    module::module(cursor)
}
