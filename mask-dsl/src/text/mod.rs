#![doc = include_str!("grammar.md")]

mod ast;
mod lex;
mod lower;
mod parse;
mod print;
#[cfg(test)]
mod tests;

pub use ast::{
    Arm, Block, Expr, ExprKind, Item, ItemKind, Loc, Module, Name, Param, ParamTy, Pattern, Range,
    Reduction, Sign, Stmt,
};
pub use lower::{EmptyLibrary, Library, LowerOptions, check_rust_fn, lower, lower_expression};
pub use parse::{parse, parse_rust_fn};
pub use print::{print, print_expr};
