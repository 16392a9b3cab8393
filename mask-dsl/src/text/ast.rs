//! The syntax tree of the rule language: what was written, before names and types mean anything.

use std::sync::Arc;

use crate::ir::{BinaryOp, Elem, RuleKind, Source, Span, Ty};

/// Where a node was written. Positions are no part of what a tree means, so all of them are equal.
#[derive(Clone, Copy, Debug)]
pub struct Loc(pub Span);

impl Loc {
    /// Bytes `start..end` of the source.
    pub fn new(start: u32, end: u32) -> Self {
        Self(Span { start, end })
    }

    /// From the start of `self` to the end of `other`.
    pub fn to(self, other: Loc) -> Self {
        Self::new(self.0.start, self.0.end.max(other.0.end))
    }
}

impl PartialEq for Loc {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Loc {}

/// A file of rules and functions.
#[derive(Clone, Debug)]
pub struct Module {
    /// The text that was parsed.
    pub source: Arc<Source>,
    /// Rules and functions, in the order of the text.
    pub items: Vec<Item>,
}

/// Modules are equal if their items are, wherever they were written.
impl PartialEq for Module {
    fn eq(&self, other: &Self) -> bool {
        self.items == other.items
    }
}

/// An identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// As it was written.
    pub text: String,
    /// Where.
    pub loc: Loc,
}

/// A rule or a function.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// The documentation above it, lines joined by line feeds.
    pub doc: String,
    /// What it is.
    pub kind: ItemKind,
    /// Its name.
    pub name: Name,
    /// Captures, variables or plain parameters, as `kind` says.
    pub params: Vec<Param>,
    /// What it computes.
    pub body: Block,
    /// From its first word to its end.
    pub loc: Loc,
}

/// What an [`Item`] is, which decides what its parameters are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemKind {
    /// `mask` or `score`: every variable is there, parameters are captures.
    Rule(RuleKind),
    /// An annotated Rust function: parameters named like variables are these, the others are captures.
    RustRule(RuleKind),
    /// `fn`: parameters are plain values, or buffers passed by name.
    Function {
        /// The type of its result.
        returns: Ty,
    },
}

/// A parameter of an [`Item`].
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Its name.
    pub name: Name,
    /// Its type.
    pub ty: ParamTy,
    /// The declared range of its values.
    pub range: Option<Range>,
    /// Where it stands.
    pub loc: Loc,
}

/// The type of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum ParamTy {
    /// One value.
    Scalar(Ty),
    /// `const K: i32`, known when the rule is compiled.
    Const(Ty),
    /// `[i32; batch, kv_len]`: a buffer with declared extents, outermost first.
    Shaped {
        /// Element type in memory.
        elem: Elem,
        /// One integer expression per axis.
        dims: Vec<Expr>,
    },
    /// `&[i32]` or `Buffer<i32, 2>`: a buffer whose extents are not declared.
    Unshaped {
        /// Element type in memory.
        elem: Elem,
        /// Number of axes.
        rank: usize,
    },
}

/// `lo..hi` or `lo..=hi`.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    /// First value.
    pub lo: Box<Expr>,
    /// The end.
    pub hi: Box<Expr>,
    /// Whether the end is in the range.
    pub inclusive: bool,
    /// Where it stands.
    pub loc: Loc,
}

/// Statements and the value after them.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// In order.
    pub stmts: Vec<Stmt>,
    /// The value, if the block has one.
    pub tail: Option<Box<Expr>>,
    /// Where it stands, with its braces.
    pub loc: Loc,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Stmt {
    /// `let x: i32 = e;`
    Let {
        /// The new name.
        name: Name,
        /// Whether it may be assigned to.
        mutable: bool,
        /// Its declared type.
        ty: Option<Ty>,
        /// What it stands for.
        value: Expr,
        /// Where it stands.
        loc: Loc,
    },
    /// `x = e;` or `x += e;`
    Assign {
        /// A name declared with `let mut`.
        name: Name,
        /// The operator before the `=`.
        op: Option<BinaryOp>,
        /// The right side.
        value: Expr,
        /// Where it stands.
        loc: Loc,
    },
    /// `for i in 0..n { .. }`, unrolled.
    For {
        /// The loop variable.
        var: Name,
        /// Constant bounds.
        range: Range,
        /// What is repeated.
        body: Block,
        /// Where it stands.
        loc: Loc,
    },
    /// `return e;`
    Return {
        /// The result of the item.
        value: Expr,
        /// Where it stands.
        loc: Loc,
    },
    /// An `if`, `match` or block for what its statements do.
    Expr(Expr),
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where it stands.
    pub loc: Loc,
}

/// What an [`Expr`] is.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// An integer literal.
    Int {
        /// Its value; a minus sign is an operator of its own.
        value: u64,
        /// The type after it, as in `1i64`.
        suffix: Option<Ty>,
    },
    /// A float literal, finite and not negative.
    Float(f32),
    /// `true` or `false`.
    Bool(bool),
    /// `x`, or `f32::consts::PI`.
    Path(Vec<Name>),
    /// `-x` or `!x`.
    Unary {
        /// The sign.
        op: Sign,
        /// The operand.
        arg: Box<Expr>,
    },
    /// An operator between two operands; never one that is a function.
    Binary {
        /// The operator.
        op: BinaryOp,
        /// Left side.
        lhs: Box<Expr>,
        /// Right side.
        rhs: Box<Expr>,
    },
    /// `x as f32`
    Cast {
        /// What is converted.
        arg: Box<Expr>,
        /// The target; `None` is `usize`, which means nothing more than an index.
        to: Option<Ty>,
    },
    /// `f(x, y)`, `math::erf(x)`, `f::<4>(x)`
    Call {
        /// The function; its last name counts.
        path: Vec<Name>,
        /// Values of its `const` parameters.
        generics: Vec<Expr>,
        /// Arguments in order.
        args: Vec<Expr>,
    },
    /// `x.min(y)`
    Method {
        /// The first argument.
        receiver: Box<Expr>,
        /// The function.
        name: Name,
        /// The other arguments.
        args: Vec<Expr>,
    },
    /// `doc[q]`, `table[h, q]`, `table[[h, q]]`, `table[h][q]`
    Index {
        /// The buffer.
        buffer: Name,
        /// One expression per axis.
        index: Vec<Expr>,
    },
    /// `if c { x } else { y }`
    If {
        /// A `bool`.
        cond: Box<Expr>,
        /// Where it holds.
        then: Block,
        /// A block or another `if`.
        otherwise: Option<Box<Expr>>,
    },
    /// `match x { 0 => a, 1 | 2 => b, _ => c }`
    Match {
        /// An integer or a `bool`.
        scrutinee: Box<Expr>,
        /// In order.
        arms: Vec<Arm>,
    },
    /// `{ .. }`
    Block(Block),
    /// `any(i in 0..4, e)`, `all(..)`, `sum(..)`
    Reduce {
        /// What is made of the terms.
        op: Reduction,
        /// The bound name.
        var: Name,
        /// Constant bounds.
        range: Range,
        /// One term.
        body: Box<Expr>,
        /// The type of a sum, where it is written.
        ty: Option<Ty>,
    },
    /// What could not be read; a fault has been reported.
    Error,
}

/// A prefix operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// `-x`
    Neg,
    /// `!x`
    Not,
}

/// How the terms of a range are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Whether some term holds.
    Any,
    /// Whether every term holds.
    All,
    /// The terms added in order.
    Sum,
}

impl Reduction {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Reduction::Any => "any",
            Reduction::All => "all",
            Reduction::Sum => "sum",
        }
    }
}

/// One arm of a `match`.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// Alternatives, at least one.
    pub patterns: Vec<Pattern>,
    /// What must hold besides.
    pub guard: Option<Expr>,
    /// The result.
    pub body: Expr,
    /// The patterns.
    pub loc: Loc,
}

/// One alternative of an [`Arm`].
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// An integer.
    Int(i64),
    /// `true` or `false`.
    Bool(bool),
    /// `lo..=hi`, with open ends.
    Range {
        /// Least value.
        lo: Option<i64>,
        /// The end.
        hi: Option<i64>,
        /// Whether the end belongs to it.
        inclusive: bool,
    },
    /// A constant of that name, or a new name for the value.
    Name(Name),
    /// `_`
    Any,
}
