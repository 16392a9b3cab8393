//! `if` and `match`.

use crate::diagnostic::Diagnostic;

use super::super::ast::{Arm, Block, Expr, ExprKind, Loc, Name, Pattern, Stmt};
use super::super::lex::Tok;
use super::{Height, Parser};

impl Parser {
    pub(super) fn if_expr(&mut self) -> Expr {
        let loc = self.loc();
        self.bump();
        if self.at_word("let") {
            self.report(
                Diagnostic::new(
                    "unsupported",
                    "expected a condition, found `let`",
                    Some(self.loc().0),
                )
                .help("there are no patterns to match here: use `match` on an integer"),
            );
        }
        let cond = self.expr();
        let mut height = self.height;
        let then = self.block();
        height = height.join(self.height);
        let mut otherwise = None;
        if self.at_word("elif") {
            self.instead(
                "expected `else if`, found `elif`",
                self.loc(),
                "write `else if`",
            );
            let expr = self.nested_or_error(Self::if_expr, loc);
            otherwise = Some(Box::new(expr));
        } else if self.eat_word("else") {
            let else_loc = self.loc();
            let expr = if self.at_word("if") {
                self.nested_or_error(Self::if_expr, else_loc)
            } else {
                let block = self.block();
                self.height = self.height.up();
                Expr {
                    kind: ExprKind::Block(block),
                    loc: else_loc.to(self.last_loc()),
                }
            };
            otherwise = Some(Box::new(expr));
        }
        self.height = self.height.join(height).up();
        Expr {
            loc: loc.to(self.last_loc()),
            kind: ExprKind::If {
                cond: Box::new(cond),
                then,
                otherwise,
            },
        }
    }

    pub(super) fn match_expr(&mut self) -> Expr {
        let loc = self.loc();
        self.bump();
        let scrutinee = self.expr();
        let mut height = self.height;
        let mut arms = Vec::new();
        if self.expect("{") {
            while !self.at("}") && self.peek() != &Tok::End {
                let before = self.pos;
                if let Some(arm) = self.arm() {
                    arms.push(arm);
                } else {
                    self.skip_to(&[","]);
                    self.eat(",");
                }
                height = height.join(self.height);
                if self.pos == before {
                    break;
                }
            }
            self.close("}", "`,` or `}`");
        }
        self.height = height.up();
        Expr {
            loc: loc.to(self.last_loc()),
            kind: ExprKind::Match {
                scrutinee: Box::new(scrutinee),
                arms,
            },
        }
    }

    fn arm(&mut self) -> Option<Arm> {
        let loc = self.loc();
        self.eat("|");
        let mut patterns = vec![self.pattern()?];
        while self.eat("|") {
            patterns.push(self.pattern()?);
        }
        let patterns_loc = loc.to(self.last_loc());
        let mut height = Height::default();
        let guard = if self.eat_word("if") {
            let guard = self.expr();
            height = self.height;
            Some(guard)
        } else {
            None
        };
        if !self.expect("=>") {
            return None;
        }
        let body_loc = self.loc();
        let block_like = self.at("{");
        let body = if self.at_word("return") {
            let stmt = self.return_stmt();
            self.arm_block(stmt, body_loc)
        } else {
            let expr = self.expr_before_assign();
            match self.assignment(expr) {
                Ok(stmt) => self.arm_block(stmt, body_loc),
                Err(expr) => expr,
            }
        };
        self.height = self.height.join(height).up();
        if !self.eat(",") && !block_like && !self.at("}") {
            self.unexpected("`,` or `}`");
            return None;
        }
        Some(Arm {
            patterns,
            guard,
            body,
            loc: patterns_loc,
        })
    }

    fn arm_block(&mut self, stmt: Stmt, loc: Loc) -> Expr {
        let loc = loc.to(self.last_loc());
        self.height = self.height.up();
        Expr {
            kind: ExprKind::Block(Block {
                stmts: vec![stmt],
                tail: None,
                loc,
            }),
            loc,
        }
    }

    fn pattern(&mut self) -> Option<Pattern> {
        if self.at("..=") {
            self.bump();
            let hi = self.pattern_int()?;
            return Some(Pattern::Range {
                lo: None,
                hi: Some(hi),
                inclusive: true,
            });
        }
        if self.at("..") {
            self.bump();
            let hi = self.pattern_int()?;
            return Some(Pattern::Range {
                lo: None,
                hi: Some(hi),
                inclusive: false,
            });
        }
        if self.at("-") || matches!(self.peek(), Tok::Int(..)) {
            let lo = self.pattern_int()?;
            let inclusive = self.at("..=");
            if !inclusive && !self.at("..") {
                return Some(Pattern::Int(lo));
            }
            self.bump();
            let more = self.at("-") || matches!(self.peek(), Tok::Int(..));
            let hi = if more || inclusive {
                Some(self.pattern_int()?)
            } else {
                None
            };
            return Some(Pattern::Range {
                lo: Some(lo),
                hi,
                inclusive,
            });
        }
        if self.eat_word("true") {
            return Some(Pattern::Bool(true));
        }
        if self.eat_word("false") {
            return Some(Pattern::Bool(false));
        }
        if self.eat_word("_") {
            return Some(Pattern::Any);
        }
        let name = self.name("a pattern: an integer, a range, `true`, `false` or `_`")?;
        Some(Pattern::Name(Name {
            text: name.text,
            loc: name.loc,
        }))
    }

    fn pattern_int(&mut self) -> Option<i64> {
        let loc = self.loc();
        let negative = self.eat("-");
        if let Tok::Int(value, _) = self.peek() {
            let value = if negative {
                i64::try_from(-i128::from(*value))
            } else {
                i64::try_from(*value)
            };
            self.bump();
            if value.is_err() {
                self.instead(
                    "expected an integer that fits `i64`",
                    loc,
                    "patterns are integers of the matched type",
                );
            }
            return Some(value.unwrap_or(0));
        }
        self.unexpected("an integer");
        None
    }
}
