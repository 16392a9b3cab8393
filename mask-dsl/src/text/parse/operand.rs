//! Operands: literals, names, calls, parentheses, and what other languages write in their place.

use crate::diagnostic::Diagnostic;

use super::super::ast::{Block, Expr, ExprKind, Loc};
use super::super::lex::Tok;
use super::expr::COMPARE;
use super::{Height, Parser, error_at};

impl Parser {
    pub(super) fn primary(&mut self) -> Expr {
        let loc = self.loc();
        self.height = Height::default();
        if self.at_rule() {
            self.unexpected("an expression");
            return error_at(loc);
        }
        let kind = match self.peek().clone() {
            Tok::Int(value, suffix) => {
                self.bump();
                ExprKind::Int { value, suffix }
            }
            Tok::Float(value) => {
                self.bump();
                ExprKind::Float(value)
            }
            Tok::Ident(word) => return self.word(&word),
            Tok::Sign("(") => return self.parens(),
            Tok::Sign("{") => {
                let block = self.block();
                self.height = self.height.up();
                ExprKind::Block(block)
            }
            Tok::Sign(sign @ ("&" | "*")) => {
                self.report(
                    Diagnostic::new(
                        "unsupported",
                        format!("expected a value, found `{sign}`"),
                        Some(loc.0),
                    )
                    .help("there are no references: leave it out"),
                );
                self.bump();
                return self.nested_or_error(Self::unary, loc);
            }
            Tok::Sign("|" | "||") => {
                self.report(
                    Diagnostic::new("unsupported", "expected a value, found a closure", Some(loc.0))
                        .help("closures stand in `(0..4).any(|i| ..)`, `.all(|i| ..)` and `.map(|i| ..).sum()` only"),
                );
                self.skip_to(&[";", ","]);
                ExprKind::Error
            }
            Tok::Sign("[") => {
                self.report(
                    Diagnostic::new("unsupported", "expected a value, found a list", Some(loc.0))
                        .help("capture a buffer, or write `match i { 0 => a, 1 => b, _ => c }`"),
                );
                self.bump();
                self.skip_to(&[]);
                self.eat("]");
                ExprKind::Error
            }
            Tok::Str(_) => {
                self.report(Diagnostic::new(
                    "unsupported",
                    "expected a value, found a string",
                    Some(loc.0),
                ));
                self.bump();
                ExprKind::Error
            }
            Tok::Sign(_) | Tok::Lifetime | Tok::Doc(_) | Tok::Bad | Tok::End => {
                self.unexpected("an expression");
                let closes = match self.peek() {
                    Tok::Sign(sign) => {
                        matches!(*sign, ")" | "]" | "}" | "," | ";" | "=" | "=>" | "{")
                    }
                    Tok::End | Tok::Doc(_) => true,
                    Tok::Ident(_)
                    | Tok::Int(..)
                    | Tok::Float(_)
                    | Tok::Str(_)
                    | Tok::Lifetime
                    | Tok::Bad => false,
                };
                if !closes {
                    self.bump();
                }
                ExprKind::Error
            }
        };
        Expr {
            kind,
            loc: loc.to(self.last_loc()),
        }
    }

    pub(super) fn nested_or_error(&mut self, read: fn(&mut Self) -> Expr, loc: Loc) -> Expr {
        match self.nested(read) {
            Some(expr) => expr,
            None => error_at(loc),
        }
    }

    /// An operand that starts with a word.
    fn word(&mut self, word: &str) -> Expr {
        let loc = self.loc();
        let unsupported = |p: &mut Self, help: &str| {
            p.report(
                Diagnostic::new(
                    "unsupported",
                    format!("expected a value, found `{word}`"),
                    Some(loc.0),
                )
                .help(help),
            );
        };
        let kind = match word {
            "true" | "false" => {
                self.bump();
                ExprKind::Bool(word == "true")
            }
            "if" => return self.nested_or_error(Self::if_expr, loc),
            "match" => return self.nested_or_error(Self::match_expr, loc),
            "any" | "all" | "sum" if self.at_reduction() => return self.reduction(),
            "lambda" if matches!(self.peek_at(1), Tok::Ident(_)) => {
                unsupported(
                    self,
                    "write the expression alone; its variables are `b`, `h`, `q`, `kv`, and `score` in a score rule",
                );
                self.skip_to(&[";"]);
                ExprKind::Error
            }
            "while" | "loop" => {
                unsupported(
                    self,
                    "loops are `for i in 0..4 { .. }` with constant bounds, which are unrolled",
                );
                self.skip_to(&["{"]);
                if self.at("{") {
                    self.block();
                }
                // What stands behind the loop is no fault of its own.
                self.fault_at = Some(self.pos);
                ExprKind::Error
            }
            "for" | "let" | "return" | "break" | "continue" => {
                let help = match word {
                    "for" => {
                        "write `any(i in 0..4, ..)`, `all(..)` or `sum(..)`, or use `for` as a statement of a block"
                    }
                    "break" | "continue" => {
                        "use `if`, or `any(i in 0..4, ..)`, which stops at the first that holds"
                    }
                    _ => "this is a statement: use it in a block `{ .. }`",
                };
                unsupported(self, help);
                self.skip_to(&[";", ","]);
                ExprKind::Error
            }
            "unsafe" | "async" | "move" | "struct" | "enum" | "impl" | "use"
                if !self.sign_ahead(1, "(") && !self.sign_ahead(1, "[") =>
            {
                unsupported(
                    self,
                    "leave it out: a rule is one expression over its parameters",
                );
                self.bump();
                self.skip_to(&[";", ","]);
                ExprKind::Error
            }
            _ if self.sign_ahead(1, "!")
                && ["(", "[", "{"].iter().any(|open| self.sign_ahead(2, open)) =>
            {
                self.report(
                    Diagnostic::new(
                        "unsupported",
                        format!("expected a value, found the macro `{word}!`"),
                        Some(loc.0),
                    )
                    .help("macros are not understood here: write what it expands to"),
                );
                self.bump();
                self.bump();
                self.bump();
                self.skip_to(&[]);
                self.bump();
                ExprKind::Error
            }
            _ => return self.path_or_call(),
        };
        Expr {
            kind,
            loc: loc.to(self.last_loc()),
        }
    }

    fn path_or_call(&mut self) -> Expr {
        let loc = self.loc();
        // A leading `crate::` or `::` says no more than the name does.
        let Some(first) = self.name("an expression") else {
            let closes = self.at_word("in") || self.at_word("else") || self.at_word("fn");
            if !closes {
                self.bump();
            }
            return error_at(loc);
        };
        let mut path = vec![first];
        let mut generics = Vec::new();
        let mut has_generics = false;
        while self.at("::") {
            self.bump();
            if self.eat("<") {
                has_generics = true;
                while !self.at(">") && self.peek() != &Tok::End {
                    // Tighter than `>`; anything else needs braces, as in Rust.
                    generics.push(self.nested_or_error(|p| p.binary(COMPARE + 1), loc));
                    if !self.eat(",") {
                        break;
                    }
                }
                self.close(">", "`,` or `>`");
                break;
            }
            match self.name("a name after `::`") {
                Some(name) => path.push(name),
                None => return error_at(loc),
            }
        }
        // No block starts with `x:`, so a condition before a block is not mistaken for this.
        if self.at("{") && matches!(self.peek_at(1), Tok::Ident(_)) && self.sign_ahead(2, ":") {
            self.report(
                Diagnostic::new(
                    "unsupported",
                    "expected a value, found a struct",
                    Some(loc.0),
                )
                .help("there are no structs: capture each value by its own name"),
            );
            self.bump();
            self.skip_to(&[]);
            self.eat("}");
            return error_at(loc.to(self.last_loc()));
        }
        let kind = if self.at("(") {
            let height = self.height;
            let args = self.args();
            self.height = self.height.join(height).up();
            ExprKind::Call {
                path,
                generics,
                args,
            }
        } else {
            if has_generics {
                self.unexpected("`(`");
            }
            ExprKind::Path(path)
        };
        Expr {
            kind,
            loc: loc.to(self.last_loc()),
        }
    }

    fn parens(&mut self) -> Expr {
        let open = self.loc();
        self.bump();
        if self.eat(")") {
            // `()` is what an empty block gives: nothing.
            let loc = open.to(self.last_loc());
            return Expr {
                kind: ExprKind::Block(Block {
                    stmts: Vec::new(),
                    tail: None,
                    loc,
                }),
                loc,
            };
        }
        let expr = self.expr();
        if self.at("..") || self.at("..=") {
            let height = self.height;
            let range = self.range_after(expr);
            self.height = self.height.join(height);
            self.close(")", "`)`");
            return self.range_method(range);
        }
        if self.at(",") {
            self.report(
                Diagnostic::new(
                    "unsupported",
                    "expected one value, found a tuple",
                    Some(open.0),
                )
                .help("there are no tuples: compare and compute one value at a time"),
            );
            self.skip_to(&[";"]);
            self.eat(")");
            return error_at(open.to(self.last_loc()));
        }
        self.close(")", "`)`");
        // The place of an expression includes its parentheses, so that labels mark all of it.
        Expr {
            loc: open.to(self.last_loc()),
            kind: expr.kind,
        }
    }
}
