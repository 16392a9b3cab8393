//! Ranges, and what goes over them.

use crate::diagnostic::Diagnostic;

use super::super::ast::{Expr, ExprKind, Range, Reduction};
use super::super::lex::Tok;
use super::{Parser, error_at};

impl Parser {
    /// Reads `..hi` after `lo`.
    pub(super) fn range_after(&mut self, lo: Expr) -> Range {
        let inclusive = self.at("..=");
        self.bump();
        let height = self.height;
        let hi = self.expr();
        self.height = self.height.join(height);
        Range {
            loc: lo.loc.to(hi.loc),
            lo: Box::new(lo),
            hi: Box::new(hi),
            inclusive,
        }
    }

    /// `lo..hi`.
    pub(super) fn range(&mut self) -> Option<Range> {
        let lo = self.expr();
        if self.at("..") || self.at("..=") {
            return Some(self.range_after(lo));
        }
        if !matches!(lo.kind, ExprKind::Error) {
            self.unexpected("a range such as `0..4`");
        }
        None
    }

    /// `.any(|i| e)`, `.all(|i| e)`, `.map(|i| e).sum::<f32>()` after a range.
    pub(super) fn range_method(&mut self, range: Range) -> Expr {
        let loc = range.loc;
        let height = self.height;
        let help =
            "after a range stand `.any(|i| ..)`, `.all(|i| ..)` or `.map(|i| ..).sum::<f32>()`";
        let fail = |p: &mut Self| {
            p.report(
                Diagnostic::new(
                    "syntax",
                    format!("expected `.any(|i| ..)`, found {}", p.found()),
                    Some(p.loc().0),
                )
                .help(help),
            );
            error_at(loc)
        };
        let op = if !self.at(".") {
            return fail(self);
        } else if self.word_ahead(1, "any") {
            Reduction::Any
        } else if self.word_ahead(1, "all") {
            Reduction::All
        } else if self.word_ahead(1, "map") {
            Reduction::Sum
        } else {
            self.bump();
            return fail(self);
        };
        self.bump();
        self.bump();
        if !self.expect("(") || !self.expect("|") {
            return error_at(loc);
        }
        let Some(var) = self.name("the name of the index") else {
            return error_at(loc);
        };
        if self.eat(":") {
            self.scalar_ty();
        }
        if !self.expect("|") {
            return error_at(loc);
        }
        let body = self.expr();
        self.height = self.height.join(height).up();
        self.close(")", "`)`");
        let mut ty = None;
        if op == Reduction::Sum {
            if !(self.at(".") && self.word_ahead(1, "sum")) {
                return fail(self);
            }
            self.bump();
            self.bump();
            if self.eat("::") && self.expect("<") {
                ty = self.scalar_ty();
                self.close(">", "`>`");
            }
            if self.expect("(") {
                self.close(")", "`)`");
            }
        }
        Expr {
            loc: loc.to(self.last_loc()),
            kind: ExprKind::Reduce {
                op,
                var,
                range,
                body: Box::new(body),
                ty,
            },
        }
    }

    /// Whether `any(i in`, or `sum::<f32>(i in`, comes next.
    pub(super) fn at_reduction(&self) -> bool {
        let open = if self.sign_ahead(1, "::") && self.sign_ahead(2, "<") {
            5
        } else {
            1
        };
        self.sign_ahead(open, "(")
            && matches!(self.peek_at(open + 1), Tok::Ident(_))
            && self.word_ahead(open + 2, "in")
    }

    pub(super) fn reduction(&mut self) -> Expr {
        let loc = self.loc();
        let op = if self.at_word("any") {
            Reduction::Any
        } else if self.at_word("all") {
            Reduction::All
        } else {
            Reduction::Sum
        };
        self.bump();
        let mut ty = None;
        if self.eat("::") {
            self.bump();
            ty = self.scalar_ty();
            self.expect(">");
            if op != Reduction::Sum && ty.is_some() {
                self.instead(
                    format!("expected `(` after `{}`, found a type", op.name()),
                    loc,
                    "leave the type out: the result is a bool",
                );
                ty = None;
            }
        }
        if !self.expect("(") {
            return error_at(loc);
        }
        let Some(var) = self.name("the name of the index") else {
            self.skip_to(&[";"]);
            self.eat(")");
            return error_at(loc);
        };
        self.bump();
        let Some(range) = self.range() else {
            self.skip_to(&[";"]);
            self.eat(")");
            return error_at(loc.to(self.last_loc()));
        };
        let height = self.height;
        if !self.expect(",") {
            self.skip_to(&[";"]);
            self.eat(")");
            return error_at(loc.to(self.last_loc()));
        }
        let body = self.expr();
        self.height = self.height.join(height).up();
        self.eat(",");
        self.close(")", "`)`");
        Expr {
            loc: loc.to(self.last_loc()),
            kind: ExprKind::Reduce {
                op,
                var,
                range,
                body: Box::new(body),
                ty,
            },
        }
    }
}
