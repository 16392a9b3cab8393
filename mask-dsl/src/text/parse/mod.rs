//! Reads tokens into a syntax tree, with every fault of the text reported at once.

mod branch;
mod expr;
mod item;
mod operand;
mod range;
mod stmt;

use std::sync::Arc;

pub(super) use self::expr::precedence;

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::ir::{RuleKind, Source};

use super::ast::{Block, Expr, ExprKind, Item, Loc, Module, Name};
use super::lex::{Tok, Token, lex};

/// Brackets and operators within one another: enough for any rule, and no risk for the stack.
const MAX_NESTING: u32 = 200;
/// Steps down a tree that a walk takes by recursion.
const MAX_WALK: u32 = 400;
/// Steps down a tree in all; a row of operators is walked by a loop, and dropped by recursion.
const MAX_TREE: u32 = 1_000;
/// Longer texts than this are no rules, and positions must fit 32 bits.
const MAX_TEXT: usize = 1 << 24;

/// Words that cannot be names.
const KEYWORDS: [&str; 17] = [
    "as", "break", "const", "continue", "else", "false", "fn", "for", "if", "in", "let", "loop",
    "match", "mut", "return", "true", "while",
];

/// Reads a file of rules and functions.
///
/// # Errors
/// [`Diagnostics`] with every fault of the syntax.
pub fn parse(source: Arc<Source>) -> Result<Module, Diagnostics> {
    let mut parser = Parser::new(&source);
    let items = parser.items();
    parser.finish(&source)?;
    Ok(Module { source, items })
}

/// Reads one Rust function that is annotated as a rule of this kind.
///
/// # Errors
/// [`Diagnostics`] with every fault of the syntax.
pub fn parse_rust_fn(source: Arc<Source>, kind: RuleKind) -> Result<Item, Diagnostics> {
    let mut parser = Parser::new(&source);
    let item = parser.rust_fn(kind);
    parser.finish(&source)?;
    item.ok_or_else(|| Diagnostics {
        items: vec![Diagnostic::new("syntax", "expected a function", None)],
        source: Some(source),
    })
}

/// Reads one expression, alone in its text.
///
/// # Errors
/// [`Diagnostics`] with every fault of the syntax.
pub(super) fn parse_expression(source: &Arc<Source>) -> Result<Block, Diagnostics> {
    let mut parser = Parser::new(source);
    let tail = parser.expr();
    if parser.peek() != &Tok::End {
        parser.unexpected("an operator or the end");
    }
    if !source.text.trim_end().contains('\n')
        && let Some(loc) = parser.tokens.iter().find_map(|token| token.comment)
    {
        parser.faults.push(
            Diagnostic::new("syntax", "expected an expression without a comment", Some(loc.0))
                .labelled("everything after this is a comment")
                .help("floor division is `x.div_floor(y)`; `/` truncates, which is the same if neither side is negative"),
        );
    }
    parser.finish(source)?;
    Ok(Block {
        loc: tail.loc,
        stmts: Vec::new(),
        tail: Some(Box::new(tail)),
    })
}

/// How far down a tree reaches.
#[derive(Clone, Copy, Default)]
struct Height {
    /// By recursion of a walk.
    walk: u32,
    /// In all.
    tree: u32,
}

impl Height {
    fn join(self, other: Height) -> Height {
        Height {
            walk: self.walk.max(other.walk),
            tree: self.tree.max(other.tree),
        }
    }

    fn up(self) -> Height {
        Height {
            walk: self.walk + 1,
            tree: self.tree + 1,
        }
    }
}

struct Parser {
    tokens: Vec<Token>,
    pos: usize,
    faults: Vec<Diagnostic>,
    /// Token of the last fault: one fault is enough for one place.
    fault_at: Option<usize>,
    nesting: u32,
    /// Of the expression that was read last.
    height: Height,
    /// Set when the text is too deep to read on.
    gave_up: bool,
}

impl Parser {
    fn new(source: &Source) -> Self {
        let mut faults = Vec::new();
        let text = if source.text.len() <= MAX_TEXT {
            source.text.as_str()
        } else {
            faults.push(Diagnostic::new(
                "too-large",
                format!(
                    "expected at most {MAX_TEXT} bytes of text, found {}",
                    source.text.len()
                ),
                None,
            ));
            ""
        };
        let tokens = lex(text, &mut faults);
        Self {
            tokens,
            pos: 0,
            faults,
            fault_at: None,
            nesting: 0,
            height: Height::default(),
            gave_up: false,
        }
    }

    fn finish(&mut self, source: &Arc<Source>) -> Result<(), Diagnostics> {
        if self.faults.is_empty() {
            return Ok(());
        }
        Err(Diagnostics::sorted(
            Some(Arc::clone(source)),
            std::mem::take(&mut self.faults),
        ))
    }

    // Tokens.

    fn peek(&self) -> &Tok {
        &self.tokens[self.pos].tok
    }

    fn peek_at(&self, ahead: usize) -> &Tok {
        let at = (self.pos + ahead).min(self.tokens.len() - 1);
        &self.tokens[at].tok
    }

    fn loc(&self) -> Loc {
        self.tokens[self.pos].loc
    }

    /// Where the token before the next one stands.
    fn last_loc(&self) -> Loc {
        self.tokens[self.pos.saturating_sub(1)].loc
    }

    fn bump(&mut self) {
        if self.pos + 1 < self.tokens.len() {
            self.pos += 1;
        }
    }

    fn at(&self, sign: &str) -> bool {
        matches!(self.peek(), Tok::Sign(s) if *s == sign)
    }

    fn at_word(&self, word: &str) -> bool {
        matches!(self.peek(), Tok::Ident(s) if s == word)
    }

    fn sign_ahead(&self, ahead: usize, sign: &str) -> bool {
        matches!(self.peek_at(ahead), Tok::Sign(s) if *s == sign)
    }

    fn word_ahead(&self, ahead: usize, word: &str) -> bool {
        matches!(self.peek_at(ahead), Tok::Ident(s) if s == word)
    }

    fn eat(&mut self, sign: &str) -> bool {
        let found = self.at(sign);
        if found {
            self.bump();
        }
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        if found {
            self.bump();
        }
        found
    }

    fn expect(&mut self, sign: &str) -> bool {
        let found = self.eat(sign);
        if !found {
            self.unexpected(&format!("`{sign}`"));
        }
        found
    }

    /// A name that is not a word of the language.
    fn name(&mut self, what: &str) -> Option<Name> {
        match self.peek() {
            Tok::Ident(text) if !KEYWORDS.contains(&text.as_str()) => {
                let name = Name {
                    text: text.clone(),
                    loc: self.loc(),
                };
                self.bump();
                Some(name)
            }
            Tok::Ident(_)
            | Tok::Int(..)
            | Tok::Float(_)
            | Tok::Str(_)
            | Tok::Lifetime
            | Tok::Doc(_)
            | Tok::Sign(_)
            | Tok::Bad
            | Tok::End => {
                self.unexpected(what);
                None
            }
        }
    }

    // Faults.

    fn found(&self) -> String {
        match self.peek() {
            Tok::Ident(word) => format!("`{word}`"),
            Tok::Int(value, _) => format!("`{value}`"),
            Tok::Float(value) => format!("`{value:?}`"),
            Tok::Str(_) => "a string".to_owned(),
            Tok::Lifetime => "a lifetime".to_owned(),
            Tok::Doc(_) => "a documentation comment".to_owned(),
            Tok::Sign(sign) => format!("`{sign}`"),
            Tok::Bad => "a broken token".to_owned(),
            Tok::End => "the end of the text".to_owned(),
        }
    }

    /// Reports that the next token is not what was expected.
    fn unexpected(&mut self, expected: &str) {
        let message = format!("expected {expected}, found {}", self.found());
        let mut fault = Diagnostic::new("syntax", message, Some(self.loc().0));
        if self
            .pos
            .checked_sub(1)
            .is_some_and(|before| self.tokens[before].comment.is_some())
        {
            fault = fault.help("`//` starts a comment; floor division is `x.div_floor(y)`");
        }
        if self.peek() == &Tok::Bad {
            // The lexer has said what is wrong.
            self.fault_at = Some(self.pos);
        }
        self.report(fault);
    }

    /// Reports a fault, unless the next token has one already.
    fn report(&mut self, fault: Diagnostic) {
        if self.gave_up || self.fault_at == Some(self.pos) {
            return;
        }
        self.fault_at = Some(self.pos);
        self.faults.push(fault);
    }

    /// Reports something that is understood but has another spelling here, at a place already passed.
    fn instead(&mut self, message: impl Into<String>, loc: Loc, help: impl Into<String>) {
        if !self.gave_up {
            self.faults
                .push(Diagnostic::new("syntax", message, Some(loc.0)).help(help));
        }
    }

    /// Stops reading: the text is deeper than any rule.
    fn give_up(&mut self, loc: Loc) {
        if !self.gave_up {
            self.faults.push(
                Diagnostic::new(
                    "too-deep",
                    format!("expected at most {MAX_NESTING} levels of nesting, found more"),
                    Some(loc.0),
                )
                .help("give parts of it names with `let`, or move them to functions"),
            );
        }
        self.gave_up = true;
        self.pos = self.tokens.len() - 1;
    }

    /// Reads something one level deeper.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if MAX_NESTING <= self.nesting {
            self.give_up(self.loc());
            return None;
        }
        self.nesting += 1;
        let result = read(self);
        self.nesting -= 1;
        Some(result)
    }

    fn check_height(&mut self, loc: Loc) {
        if MAX_WALK < self.height.walk || MAX_TREE < self.height.tree {
            self.give_up(loc);
        }
    }

    /// Skips to the next of these signs at this level of brackets, or to a bracket that closes it.
    fn skip_to(&mut self, signs: &[&str]) {
        let mut depth = 0usize;
        loop {
            match self.peek() {
                Tok::End => return,
                Tok::Sign(sign) => match *sign {
                    "(" | "[" | "{" => {
                        if depth == 0 && signs.contains(sign) {
                            return;
                        }
                        depth += 1;
                    }
                    ")" | "]" | "}" => {
                        if depth == 0 {
                            return;
                        }
                        depth -= 1;
                    }
                    sign if depth == 0 && signs.contains(&sign) => return,
                    _ => {}
                },
                Tok::Ident(_)
                | Tok::Int(..)
                | Tok::Float(_)
                | Tok::Str(_)
                | Tok::Lifetime
                | Tok::Doc(_)
                | Tok::Bad => {}
            }
            if self.at_rule() || (depth == 0 && self.at_item()) {
                return;
            }
            self.bump();
        }
    }
}

/// What stands for an expression that could not be read.
fn error_at(loc: Loc) -> Expr {
    Expr {
        kind: ExprKind::Error,
        loc,
    }
}
