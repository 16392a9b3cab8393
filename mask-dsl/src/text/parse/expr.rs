//! Expressions, with the precedence of Rust.

use crate::diagnostic::Diagnostic;
use crate::ir::{BinaryOp, Ty};

use super::super::ast::{Expr, ExprKind, Sign};
use super::super::lex::Tok;
use super::{Height, Parser, error_at};

/// Tighter than any operator between two operands.
const TIGHTEST: u8 = 10;
/// Comparisons.
pub(super) const COMPARE: u8 = 3;

/// The operator that a sign between two operands stands for, and how tightly it binds.
fn operator(sign: &str) -> Option<(BinaryOp, u8)> {
    Some(match sign {
        "||" => (BinaryOp::Or, 1),
        "&&" => (BinaryOp::And, 2),
        "==" => (BinaryOp::Eq, COMPARE),
        "!=" => (BinaryOp::Ne, COMPARE),
        "<" => (BinaryOp::Lt, COMPARE),
        "<=" => (BinaryOp::Le, COMPARE),
        ">" => (BinaryOp::Gt, COMPARE),
        ">=" => (BinaryOp::Ge, COMPARE),
        "|" => (BinaryOp::BitOr, 4),
        "^" => (BinaryOp::BitXor, 5),
        "&" => (BinaryOp::BitAnd, 6),
        "<<" => (BinaryOp::Shl, 7),
        ">>" => (BinaryOp::Shr, 7),
        "+" => (BinaryOp::Add, 8),
        "-" => (BinaryOp::Sub, 8),
        "*" => (BinaryOp::Mul, 9),
        "/" => (BinaryOp::Div, 9),
        "%" => (BinaryOp::Rem, 9),
        _ => return None,
    })
}

/// How tightly an operator of the tree binds; the printer asks too.
pub(in super::super) fn precedence(op: BinaryOp) -> u8 {
    operator(op.symbol()).map_or(TIGHTEST, |(_, precedence)| precedence)
}

impl Parser {
    /// An expression; `=` in it is a comparison that was misspelt.
    pub(super) fn expr(&mut self) -> Expr {
        let expr = self.expr_before_assign();
        if !self.at("=") {
            return expr;
        }
        let loc = self.loc();
        self.instead("expected `==`, found `=`", loc, "a comparison is `==`");
        self.bump();
        let rhs = self.expr_before_assign();
        error_at(expr.loc.to(rhs.loc))
    }

    /// An expression that may be the left side of an assignment.
    pub(super) fn expr_before_assign(&mut self) -> Expr {
        let loc = self.loc();
        match self.nested(|p| p.binary(0)) {
            Some(expr) => expr,
            None => error_at(loc),
        }
    }

    fn peek_operator(&mut self) -> Option<(BinaryOp, u8)> {
        match self.peek() {
            Tok::Sign(sign) => operator(sign),
            Tok::Ident(word) if word == "and" => Some((BinaryOp::And, 2)),
            Tok::Ident(word) if word == "or" => Some((BinaryOp::Or, 1)),
            Tok::Ident(_)
            | Tok::Int(..)
            | Tok::Float(_)
            | Tok::Str(_)
            | Tok::Lifetime
            | Tok::Doc(_)
            | Tok::Bad
            | Tok::End => None,
        }
    }

    pub(super) fn binary(&mut self, min: u8) -> Expr {
        let lhs = self.unary();
        self.binary_after(lhs, min)
    }

    /// Reads the operators that follow an operand.
    pub(super) fn binary_after(&mut self, mut lhs: Expr, min: u8) -> Expr {
        loop {
            if self.at_word("as") {
                lhs = self.cast(lhs);
                continue;
            }
            if self.at_word("if") && min == 0 {
                self.instead(
                    "expected an operator, found `if`",
                    self.loc(),
                    "write `if c { x } else { y }`",
                );
                self.fault_at = Some(self.pos);
                return lhs;
            }
            let Some((op, precedence)) = self.peek_operator() else {
                return lhs;
            };
            if precedence < min {
                return lhs;
            }
            let sign_loc = self.loc();
            if let Tok::Ident(word) = self.peek() {
                let message = format!("expected `{}`, found `{word}`", op.symbol());
                self.instead(message, sign_loc, format!("write `{}`", op.symbol()));
            }
            self.bump();
            if op == BinaryOp::Mul && self.at("*") {
                self.instead(
                    "expected an operand, found `*`",
                    sign_loc.to(self.loc()),
                    "a power is `x.pow(2)` of an integer, `x.powi(2)` or `x.powf(0.5)` of a float",
                );
                self.bump();
            }
            let lhs_height = self.height;
            let rhs = match self.nested(|p| p.binary(precedence + 1)) {
                Some(rhs) => rhs,
                None => error_at(sign_loc),
            };
            let rhs_height = self.height.up();
            let lhs_is_row = matches!(lhs.kind, ExprKind::Binary { .. });
            self.height = Height {
                walk: (lhs_height.walk + u32::from(!lhs_is_row)).max(rhs_height.walk),
                tree: (lhs_height.tree + 1).max(rhs_height.tree),
            };
            let loc = lhs.loc.to(rhs.loc);
            self.check_height(loc);
            lhs = Expr {
                kind: ExprKind::Binary {
                    op,
                    lhs: Box::new(lhs),
                    rhs: Box::new(rhs),
                },
                loc,
            };
            if precedence == COMPARE {
                lhs = self.no_chain(lhs);
            }
        }
    }

    /// Reports a comparison right after a comparison.
    fn no_chain(&mut self, lhs: Expr) -> Expr {
        let mut loc = lhs.loc;
        let mut chained = false;
        while let Some((op, COMPARE)) = self.peek_operator() {
            if !chained {
                self.faults.push(
                    Diagnostic::new(
                        "chained-comparison",
                        format!("expected one comparison, found another `{}`", op.symbol()),
                        Some(self.loc().0),
                    )
                    .and_label(Some(lhs.loc.0), "the first comparison")
                    .help("comparisons do not chain: write `a < b && b < c`"),
                );
            }
            chained = true;
            self.bump();
            let rhs = self.nested(|p| p.binary(COMPARE + 1));
            loc = rhs.map_or(loc, |rhs| loc.to(rhs.loc));
        }
        if chained { error_at(loc) } else { lhs }
    }

    fn cast(&mut self, arg: Expr) -> Expr {
        self.bump();
        let type_loc = self.loc();
        let to = match self.peek() {
            Tok::Ident(word) if word == "usize" => {
                self.bump();
                None
            }
            Tok::Ident(_)
            | Tok::Int(..)
            | Tok::Float(_)
            | Tok::Str(_)
            | Tok::Lifetime
            | Tok::Doc(_)
            | Tok::Sign(_)
            | Tok::Bad
            | Tok::End => match self.scalar_ty() {
                Some(ty) => Some(ty),
                None => return error_at(arg.loc.to(type_loc)),
            },
        };
        let loc = arg.loc.to(type_loc);
        self.height = self.height.up();
        self.check_height(loc);
        Expr {
            kind: ExprKind::Cast {
                arg: Box::new(arg),
                to,
            },
            loc,
        }
    }

    pub(super) fn unary(&mut self) -> Expr {
        let loc = self.loc();
        let sign = if self.at("-") {
            Sign::Neg
        } else if self.at("!") {
            Sign::Not
        } else if self.at_word("not") && self.starts_operand(1) {
            self.instead("expected `!`, found `not`", loc, "write `!x`");
            Sign::Not
        } else {
            return self.postfix();
        };
        self.bump();
        let arg = match self.nested(Self::unary) {
            Some(arg) => arg,
            None => error_at(loc),
        };
        self.height = self.height.up();
        let loc = loc.to(arg.loc);
        self.check_height(loc);
        Expr {
            kind: ExprKind::Unary {
                op: sign,
                arg: Box::new(arg),
            },
            loc,
        }
    }

    fn starts_operand(&self, ahead: usize) -> bool {
        match self.peek_at(ahead) {
            Tok::Ident(word) => !matches!(word.as_str(), "and" | "or" | "as" | "else" | "in"),
            Tok::Int(..) | Tok::Float(_) => true,
            Tok::Sign(sign) => matches!(*sign, "(" | "!" | "-"),
            Tok::Str(_) | Tok::Lifetime | Tok::Doc(_) | Tok::Bad | Tok::End => false,
        }
    }

    fn postfix(&mut self) -> Expr {
        let operand = self.primary();
        self.postfix_after(operand)
    }

    /// Reads the methods and reads that follow an operand.
    pub(super) fn postfix_after(&mut self, mut expr: Expr) -> Expr {
        loop {
            if self.at(".") {
                expr = self.method(expr);
            } else if self.at("[") {
                expr = self.index(expr);
            } else if self.at("?") {
                self.report(Diagnostic::new(
                    "syntax",
                    "expected an operator, found `?`",
                    Some(self.loc().0),
                ).help("a choice is `if c { x } else { y }`; a read outside of its buffer is refused, so nothing can fail"));
                self.bump();
                return error_at(expr.loc);
            } else {
                self.check_height(expr.loc);
                return expr;
            }
        }
    }

    fn method(&mut self, receiver: Expr) -> Expr {
        self.bump();
        let height = self.height;
        if let Tok::Int(..) = self.peek() {
            self.report(
                Diagnostic::new(
                    "unsupported",
                    "expected the name of a function, found a field",
                    Some(self.loc().0),
                )
                .help("there are no tuples: capture each value by its own name"),
            );
            self.bump();
            return error_at(receiver.loc);
        }
        let Some(name) = self.name("the name of a function") else {
            return error_at(receiver.loc);
        };
        if !self.at("(") {
            self.report(
                Diagnostic::new(
                    "syntax",
                    format!(
                        "expected `(` after `.{}`, found {}",
                        name.text,
                        self.found()
                    ),
                    Some(self.loc().0),
                )
                .help("there are no fields: capture each value by its own name"),
            );
            return error_at(receiver.loc.to(name.loc));
        }
        let args = self.args();
        self.height = self.height.join(height).up();
        self.check_height(name.loc);
        Expr {
            loc: receiver.loc.to(self.last_loc()),
            kind: ExprKind::Method {
                receiver: Box::new(receiver),
                name,
                args,
            },
        }
    }

    /// `(a, b)` after a function.
    pub(super) fn args(&mut self) -> Vec<Expr> {
        self.bump();
        let mut height = Height::default();
        let mut args = Vec::new();
        while !self.at(")") && self.peek() != &Tok::End {
            // A buffer goes to a function of Rust by reference; here its name is enough.
            if self.at("&") && matches!(self.peek_at(1), Tok::Ident(_)) {
                self.bump();
            }
            args.push(self.expr());
            height = height.join(self.height);
            if self.at(":") {
                self.report(
                    Diagnostic::new(
                        "syntax",
                        "expected `,` or `)`, found `:`",
                        Some(self.loc().0),
                    )
                    .help("arguments have no names: they follow the order of the parameters"),
                );
            }
            if !self.eat(",") {
                break;
            }
        }
        self.close(")", "`,` or `)`");
        self.height = height;
        args
    }

    /// Expects a closing bracket, and skips to it if something else stands there.
    pub(super) fn close(&mut self, bracket: &str, expected: &str) {
        if self.eat(bracket) {
            return;
        }
        self.unexpected(expected);
        self.skip_to(&[";"]);
        self.eat(bracket);
    }

    fn index(&mut self, base: Expr) -> Expr {
        let height = self.height;
        let open = self.loc();
        self.bump();
        let double = self.eat("[");
        let mut index = Vec::new();
        self.height = Height::default();
        let mut inner = Height::default();
        while !self.at("]") && self.peek() != &Tok::End {
            if !self.at("..") && !self.at("..=") && !self.at(":") {
                index.push(self.expr());
                inner = inner.join(self.height);
            }
            if self.at("..") || self.at("..=") || self.at(":") {
                self.report(
                    Diagnostic::new(
                        "unsupported",
                        format!("expected one index, found a slice with {}", self.found()),
                        Some(self.loc().0),
                    )
                    .help("a read takes one element: `any(i in 0..4, x[i] == q)` looks at several"),
                );
                self.skip_to(&[","]);
            }
            if !self.eat(",") {
                break;
            }
        }
        self.close("]", "`,` or `]`");
        if double {
            self.close("]", "`]`");
        }
        self.height = inner.join(height).up();
        let loc = base.loc.to(self.last_loc());
        let kind = match base.kind {
            ExprKind::Path(mut path) if path.len() == 1 => ExprKind::Index {
                buffer: path.remove(0),
                index,
            },
            ExprKind::Index {
                buffer,
                index: mut outer,
            } => {
                outer.extend(index);
                ExprKind::Index {
                    buffer,
                    index: outer,
                }
            }
            ExprKind::Error => ExprKind::Error,
            _ => {
                self.faults.push(
                    Diagnostic::new(
                        "syntax",
                        "expected the name of a buffer before `[`",
                        Some(open.0),
                    )
                    .and_label(Some(base.loc.0), "this is a value")
                    .help("only captured buffers are read by index"),
                );
                ExprKind::Error
            }
        };
        Expr { kind, loc }
    }

    /// A type that a value can have.
    pub(super) fn scalar_ty(&mut self) -> Option<Ty> {
        let loc = self.loc();
        let Tok::Ident(mut word) = self.peek().clone() else {
            self.unexpected("a type: `i32`, `i64`, `u32`, `f32` or `bool`");
            return None;
        };
        self.bump();
        while self.at("::") {
            self.bump();
            if let Tok::Ident(next) = self.peek().clone() {
                word = next;
                self.bump();
            }
        }
        if let Some(ty) = Ty::from_name(&word) {
            return Some(ty);
        }
        let help = match word.as_str() {
            "usize" | "isize" | "u8" | "i8" | "u16" | "i16" | "int" => {
                "integers of a rule are `i32` (or `i64`, `u32`); small elements widen when they are read"
            }
            "u64" => "use `i64`, or `u32` and wrapping operations",
            "f64" | "f16" | "bf16" | "float" => "floats of a rule are `f32`",
            _ => "the types are `i32`, `i64`, `u32`, `f32` and `bool`",
        };
        self.instead(
            format!("expected a type, found `{word}`"),
            loc.to(self.last_loc()),
            help,
        );
        None
    }
}
