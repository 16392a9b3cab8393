//! Blocks and statements.

use crate::diagnostic::Diagnostic;
use crate::ir::BinaryOp;

use super::super::ast::{Block, Expr, ExprKind, Loc, Stmt};
use super::super::lex::Tok;
use super::{Height, Parser, error_at};

/// The operator of an assignment sign such as `+=`.
fn assignment_operator(tok: &Tok) -> Option<BinaryOp> {
    let Tok::Sign(sign) = tok else {
        return None;
    };
    Some(match *sign {
        "+=" => BinaryOp::Add,
        "-=" => BinaryOp::Sub,
        "*=" => BinaryOp::Mul,
        "/=" => BinaryOp::Div,
        "%=" => BinaryOp::Rem,
        "&=" => BinaryOp::BitAnd,
        "|=" => BinaryOp::BitOr,
        "^=" => BinaryOp::BitXor,
        "<<=" => BinaryOp::Shl,
        ">>=" => BinaryOp::Shr,
        _ => return None,
    })
}

/// Whether an expression ends with a brace and needs no `;` as a statement.
fn is_block_like(expr: &Expr) -> bool {
    matches!(
        expr.kind,
        ExprKind::If { .. } | ExprKind::Match { .. } | ExprKind::Block(_)
    )
}

impl Parser {
    /// `{ statements; value }`
    pub(super) fn block(&mut self) -> Block {
        let loc = self.loc();
        let mut block = Block {
            stmts: Vec::new(),
            tail: None,
            loc,
        };
        self.height = Height::default();
        if !self.eat("{") {
            self.unexpected("`{`");
            return block;
        }
        let height = self.nested(|p| p.statements(&mut block));
        self.height = height.unwrap_or_default().up();
        if !self.eat("}") {
            self.report(
                Diagnostic::new(
                    "syntax",
                    format!("expected `}}`, found {}", self.found()),
                    Some(self.loc().0),
                )
                .and_label(Some(loc.0), "the block starts here"),
            );
        }
        block.loc = loc.to(self.last_loc());
        block
    }

    fn statements(&mut self, block: &mut Block) -> Height {
        let mut height = Height::default();
        while !self.at("}") && !self.at_rule() && self.peek() != &Tok::End {
            let before = self.pos;
            self.height = Height::default();
            if let Tok::Doc(_) | Tok::Sign(";") = self.peek() {
                self.bump();
                continue;
            }
            if block.tail.is_some() {
                self.unexpected("`}` after the value of the block");
                self.recover();
                continue;
            }
            self.statement(block);
            height = height.join(self.height.up());
            if self.pos == before {
                self.recover();
                if self.pos == before {
                    break;
                }
            }
        }
        height
    }

    /// Skips what is left of a statement.
    fn recover(&mut self) {
        self.skip_to(&[";"]);
        if self.at(")") || self.at("]") {
            self.bump();
        }
        self.eat(";");
    }

    fn statement(&mut self, block: &mut Block) {
        let loc = self.loc();
        if self.at_word("let") {
            if let Some(stmt) = self.let_stmt() {
                block.stmts.push(stmt);
            } else {
                self.recover();
            }
            return;
        }
        if self.at_word("for") {
            if let Some(stmt) = self.for_stmt() {
                block.stmts.push(stmt);
            } else {
                self.skip_to(&[";", "{"]);
                if self.at("{") {
                    self.block();
                }
            }
            return;
        }
        if self.at_word("return") {
            let stmt = self.return_stmt();
            block.stmts.push(stmt);
            self.end_of_statement();
            return;
        }
        if self.at_word("fn") || self.at_word("const") || self.at_word("static") {
            self.report(
                Diagnostic::new(
                    "unsupported",
                    format!("expected a statement, found {}", self.found()),
                    Some(loc.0),
                )
                .help("functions stand outside of rules; a constant is a `let`"),
            );
            self.skip_to(&[";", "{"]);
            if self.at("{") {
                self.block();
            }
            return;
        }
        let starts_block_like = self.at("{") || self.at_word("if") || self.at_word("match");
        let mut expr;
        if starts_block_like {
            expr = self.block_like();
            if self.at(".") {
                expr = self.postfix_after(expr);
                expr = self.binary_after(expr, 0);
            } else if self.no_operator_after_block(expr.loc) {
                self.recover();
                return;
            }
        } else {
            expr = self.expr_before_assign();
        }
        let assigned = matches!(self.peek(), Tok::Sign(_));
        let expr = if assigned {
            match self.assignment(expr) {
                Ok(stmt) => {
                    block.stmts.push(stmt);
                    self.end_of_statement();
                    return;
                }
                Err(expr) => expr,
            }
        } else {
            expr
        };
        let block_like = is_block_like(&expr);
        if self.at("}") || self.at_rule() || self.peek() == &Tok::End {
            block.tail = Some(Box::new(expr));
        } else if self.eat(";") || block_like {
            if block_like {
                block.stmts.push(Stmt::Expr(expr));
            } else if !matches!(expr.kind, ExprKind::Error) {
                self.instead(
                    "this value is not used",
                    expr.loc,
                    "leave out the `;` to make it the value of the block, or give it a name with `let`",
                );
            }
        } else if matches!(expr.kind, ExprKind::Error) && self.fault_at == Some(self.pos) {
            self.recover();
        } else {
            self.unexpected("an operator, `;` or `}`");
            self.recover();
        }
    }

    fn block_like(&mut self) -> Expr {
        let loc = self.loc();
        // `primary` reads exactly an `if`, a `match` or a block here.
        match self.nested(Self::primary) {
            Some(expr) => expr,
            None => error_at(loc),
        }
    }

    /// Reports an operator after a block that is a statement of its own.
    fn no_operator_after_block(&mut self, block: Loc) -> bool {
        let operator = match self.peek() {
            Tok::Sign(sign) => matches!(
                *sign,
                "&&" | "||"
                    | "=="
                    | "!="
                    | "<"
                    | "<="
                    | ">"
                    | ">="
                    | "|"
                    | "^"
                    | "&"
                    | "<<"
                    | ">>"
                    | "+"
                    | "*"
                    | "/"
                    | "%"
                    | "["
            ),
            Tok::Ident(word) => matches!(word.as_str(), "as" | "and" | "or"),
            Tok::Int(..)
            | Tok::Float(_)
            | Tok::Str(_)
            | Tok::Lifetime
            | Tok::Doc(_)
            | Tok::Bad
            | Tok::End => false,
        };
        if operator {
            self.report(
                Diagnostic::new(
                    "syntax",
                    format!("expected a statement, found {}", self.found()),
                    Some(self.loc().0),
                )
                .and_label(Some(block.0), "this is a statement of its own")
                .help("put parentheses round it to use its value"),
            );
        }
        operator
    }

    fn end_of_statement(&mut self) {
        if self.eat(";") || self.at("}") {
            return;
        }
        self.unexpected("`;`");
        self.recover();
    }

    /// Reads `= e` or `+= e` after `target`; gives the target back where none follows.
    pub(super) fn assignment(&mut self, target: Expr) -> Result<Stmt, Expr> {
        let op = assignment_operator(self.peek());
        if op.is_none() && !self.at("=") {
            return Err(target);
        }
        let sign_loc = self.loc();
        let height = self.height;
        self.bump();
        let value = self.expr();
        self.height = self.height.join(height).up();
        let loc = target.loc.to(value.loc);
        match target.kind {
            ExprKind::Path(mut path) if path.len() == 1 => Ok(Stmt::Assign {
                name: path.remove(0),
                op,
                value,
                loc,
            }),
            ExprKind::Error => Err(error_at(loc)),
            _ => {
                self.faults.push(
                    Diagnostic::new(
                        "syntax",
                        "expected a name before an assignment",
                        Some(sign_loc.0),
                    )
                    .and_label(Some(target.loc.0), "this is not a name")
                    .help("a comparison is `==`; captured buffers cannot be written"),
                );
                Err(error_at(loc))
            }
        }
    }

    fn let_stmt(&mut self) -> Option<Stmt> {
        let loc = self.loc();
        self.bump();
        let mutable = self.eat_word("mut");
        if self.at("(") || self.at("[") {
            self.report(
                Diagnostic::new(
                    "unsupported",
                    "expected a name, found a pattern",
                    Some(self.loc().0),
                )
                .help("write one `let` for each name"),
            );
            return None;
        }
        let name = self.name("a name after `let`")?;
        let ty = if self.eat(":") {
            Some(self.scalar_ty()?)
        } else {
            None
        };
        if !self.at("=") {
            self.report(
                Diagnostic::new(
                    "syntax",
                    format!("expected `=`, found {}", self.found()),
                    Some(self.loc().0),
                )
                .help("a name gets its value where it is declared"),
            );
            return None;
        }
        self.bump();
        let value = self.expr();
        let loc = loc.to(value.loc);
        let height = self.height;
        if !self.eat(";") {
            self.unexpected("an operator or `;`");
            self.recover();
        }
        self.height = height;
        Some(Stmt::Let {
            name,
            mutable,
            ty,
            value,
            loc,
        })
    }

    fn for_stmt(&mut self) -> Option<Stmt> {
        let loc = self.loc();
        self.bump();
        let var = self.name("the name of the index")?;
        if !self.eat_word("in") {
            self.unexpected("`in`");
            return None;
        }
        let range = self.range()?;
        let height = self.height;
        let body = self.block();
        self.height = self.height.join(height);
        Some(Stmt::For {
            var,
            range,
            body,
            loc: loc.to(self.last_loc()),
        })
    }

    pub(super) fn return_stmt(&mut self) -> Stmt {
        let loc = self.loc();
        self.bump();
        let value = self.expr();
        Stmt::Return {
            loc: loc.to(value.loc),
            value,
        }
    }
}
