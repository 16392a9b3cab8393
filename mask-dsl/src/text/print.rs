//! Prints a syntax tree as canonical text: parsing it again gives an equal tree.

use std::fmt::Write;

use crate::ir::{BinaryOp, RuleKind, Ty};

use super::ast::{
    Arm, Block, Expr, ExprKind, Item, ItemKind, Module, Param, ParamTy, Pattern, Range, Sign, Stmt,
};
use super::parse::precedence;

/// Prints every item, in order, in one layout.
pub fn print(module: &Module) -> String {
    let mut printer = Printer::default();
    for (i, item) in module.items.iter().enumerate() {
        if i != 0 {
            printer.out.push('\n');
        }
        printer.item(item);
    }
    printer.out
}

/// Prints one expression.
pub fn print_expr(expr: &Expr) -> String {
    let mut printer = Printer::default();
    printer.expr(expr);
    printer.out
}

/// How tightly what surrounds an operand binds: `-x` and `x.f()` tighter than every sign between two operands.
const CAST: u8 = 10;
const UNARY: u8 = 11;
const POSTFIX: u8 = 12;
/// `a < b < c` is no expression, so a comparison within a comparison is in parentheses on both sides.
const COMPARE: u8 = 3;

#[derive(Default)]
struct Printer {
    out: String,
    indent: usize,
}

impl Printer {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn line(&mut self) {
        self.out.push('\n');
        for _ in 0..self.indent {
            self.out.push_str("    ");
        }
    }

    fn list<T>(&mut self, items: &[T], mut each: impl FnMut(&mut Self, &T)) {
        for (i, item) in items.iter().enumerate() {
            if i != 0 {
                self.put(", ");
            }
            each(self, item);
        }
    }

    fn item(&mut self, item: &Item) {
        if !item.doc.is_empty() {
            for line in item.doc.split('\n') {
                let space = if line.is_empty() { "" } else { " " };
                let _ = writeln!(self.out, "///{space}{line}");
            }
        }
        let name = item.name.text.as_str();
        let is_generic =
            |param: &&Param| matches!(param.ty, ParamTy::Const(_)) && param.range.is_none();
        match item.kind {
            ItemKind::Rule(kind) => {
                self.put(match kind {
                    RuleKind::Mask => "mask ",
                    RuleKind::Score => "score ",
                });
                self.put(name);
                self.put("(");
                self.list(&item.params, Self::param);
                self.put(")");
            }
            ItemKind::RustRule(kind) => {
                self.put(match kind {
                    RuleKind::Mask => "#[attention_mask]\nfn ",
                    RuleKind::Score => "#[score_mod]\nfn ",
                });
                self.put(name);
                let generics: Vec<_> = item.params.iter().take_while(is_generic).cloned().collect();
                if !generics.is_empty() {
                    self.put("<");
                    self.list(&generics, Self::param);
                    self.put(">");
                }
                self.put("(");
                self.list(&item.params[generics.len()..], Self::param);
                self.put(match kind {
                    RuleKind::Mask => ") -> bool",
                    RuleKind::Score => ") -> f32",
                });
            }
            ItemKind::Function { returns } => {
                let _ = write!(self.out, "fn {name}(");
                self.list(&item.params, Self::param);
                let _ = write!(self.out, ") -> {returns}");
            }
        }
        match &item.body.tail {
            Some(tail) if item.body.stmts.is_empty() => {
                self.put(" = ");
                self.expr(tail);
            }
            _ => {
                self.put(" ");
                self.block(&item.body);
            }
        }
        self.put("\n");
    }

    fn param(&mut self, param: &Param) {
        let name = &param.name.text;
        match &param.ty {
            ParamTy::Scalar(ty) => {
                let _ = write!(self.out, "{name}: {ty}");
            }
            ParamTy::Const(ty) => {
                let _ = write!(self.out, "const {name}: {ty}");
            }
            ParamTy::Shaped { elem, dims } => {
                let _ = write!(self.out, "{name}: [{elem};");
                if !dims.is_empty() {
                    self.put(" ");
                }
                self.list(dims, Self::expr);
                self.put("]");
            }
            ParamTy::Unshaped { elem, rank } => {
                let _ = write!(self.out, "{name}: Buffer<{elem}, {rank}>");
            }
        }
        if let Some(range) = &param.range {
            self.put(" in ");
            self.range(range);
        }
    }

    fn range(&mut self, range: &Range) {
        self.expr(&range.lo);
        self.put(if range.inclusive { "..=" } else { ".." });
        self.expr(&range.hi);
    }

    fn block(&mut self, block: &Block) {
        self.put("{");
        self.indent += 1;
        for (i, stmt) in block.stmts.iter().enumerate() {
            self.line();
            self.stmt(stmt);
            let last = i + 1 == block.stmts.len() && block.tail.is_none();
            if last && matches!(stmt, Stmt::Expr(_)) {
                // Without it, the statement would be the value of the block.
                self.put(";");
            }
        }
        if let Some(tail) = &block.tail {
            self.line();
            self.expr(tail);
        }
        self.indent -= 1;
        if !block.stmts.is_empty() || block.tail.is_some() {
            self.line();
        }
        self.put("}");
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Let {
                name,
                mutable,
                ty,
                value,
                ..
            } => {
                self.put(if *mutable { "let mut " } else { "let " });
                self.put(&name.text);
                if let Some(ty) = ty {
                    let _ = write!(self.out, ": {ty}");
                }
                self.put(" = ");
                self.expr(value);
                self.put(";");
            }
            Stmt::Assign {
                name, op, value, ..
            } => {
                let sign = op.map_or("", BinaryOp::symbol);
                let _ = write!(self.out, "{} {sign}= ", name.text);
                self.expr(value);
                self.put(";");
            }
            Stmt::For {
                var, range, body, ..
            } => {
                let _ = write!(self.out, "for {} in ", var.text);
                self.range(range);
                self.put(" ");
                self.block(body);
            }
            Stmt::Return { value, .. } => {
                self.put("return ");
                self.expr(value);
                self.put(";");
            }
            Stmt::Expr(expr) => self.expr(expr),
        }
    }

    fn expr(&mut self, expr: &Expr) {
        self.expr_within(expr, 0);
    }

    /// Prints an operand of something that binds as tightly as `outer`.
    fn expr_within(&mut self, expr: &Expr, outer: u8) {
        let inner = match &expr.kind {
            ExprKind::Binary { op, .. } => precedence(*op),
            ExprKind::Cast { .. } => CAST,
            ExprKind::Unary { .. } => UNARY,
            // At the start of a statement a block would end there.
            ExprKind::If { .. } | ExprKind::Match { .. } | ExprKind::Block(_) => {
                if outer == 0 {
                    POSTFIX
                } else {
                    0
                }
            }
            ExprKind::Int { .. }
            | ExprKind::Float(_)
            | ExprKind::Bool(_)
            | ExprKind::Path(_)
            | ExprKind::Call { .. }
            | ExprKind::Method { .. }
            | ExprKind::Index { .. }
            | ExprKind::Reduce { .. }
            | ExprKind::Error => POSTFIX,
        };
        let parens = inner < outer;
        if parens {
            self.put("(");
        }
        self.bare(expr);
        if parens {
            self.put(")");
        }
    }

    fn bare(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Int { value, suffix } => {
                let suffix = suffix.map_or("", Ty::name);
                let _ = write!(self.out, "{value}{suffix}");
            }
            ExprKind::Float(value) => {
                let _ = write!(self.out, "{value:?}");
            }
            ExprKind::Bool(value) => {
                let _ = write!(self.out, "{value}");
            }
            ExprKind::Path(path) => self.path(path),
            ExprKind::Unary { op, arg } => {
                self.put(match op {
                    Sign::Neg => "-",
                    Sign::Not => "!",
                });
                self.expr_within(arg, UNARY);
            }
            ExprKind::Binary { .. } => self.row(expr),
            ExprKind::Cast { arg, to } => {
                self.expr_within(arg, CAST);
                let _ = write!(self.out, " as {}", to.map_or("usize", Ty::name));
            }
            ExprKind::Call {
                path,
                generics,
                args,
            } => {
                self.path(path);
                if !generics.is_empty() {
                    self.put("::<");
                    self.list(generics, |p, expr| p.expr_within(expr, COMPARE + 1));
                    self.put(">");
                }
                self.put("(");
                self.list(args, Self::expr);
                self.put(")");
            }
            ExprKind::Method {
                receiver,
                name,
                args,
            } => {
                self.expr_within(receiver, POSTFIX);
                let _ = write!(self.out, ".{}(", name.text);
                self.list(args, Self::expr);
                self.put(")");
            }
            ExprKind::Index { buffer, index } => {
                self.put(&buffer.text);
                self.put("[");
                self.list(index, Self::expr);
                self.put("]");
            }
            ExprKind::If {
                cond,
                then,
                otherwise,
            } => {
                self.put("if ");
                self.expr(cond);
                self.put(" ");
                self.block(then);
                if let Some(otherwise) = otherwise {
                    self.put(" else ");
                    self.expr(otherwise);
                }
            }
            ExprKind::Match { scrutinee, arms } => {
                self.put("match ");
                self.expr(scrutinee);
                self.put(" {");
                self.indent += 1;
                for arm in arms {
                    self.line();
                    self.arm(arm);
                }
                self.indent -= 1;
                self.line();
                self.put("}");
            }
            ExprKind::Block(block) => self.block(block),
            ExprKind::Reduce {
                op,
                var,
                range,
                body,
                ty,
            } => {
                self.put(op.name());
                if let Some(ty) = ty {
                    let _ = write!(self.out, "::<{ty}>");
                }
                let _ = write!(self.out, "({} in ", var.text);
                self.range(range);
                self.put(", ");
                self.expr(body);
                self.put(")");
            }
            // Only a text with faults has one, and such a text gives no tree.
            ExprKind::Error => self.put("?"),
        }
    }

    /// A row of operators, walked by a loop: it may be long.
    fn row(&mut self, expr: &Expr) {
        let mut operators = Vec::new();
        let mut at = expr;
        while let ExprKind::Binary { op, lhs, rhs } = &at.kind {
            let precedence = precedence(*op);
            let needs = if precedence == COMPARE {
                COMPARE + 1
            } else {
                precedence
            };
            let parens = match &lhs.kind {
                ExprKind::Binary { op, .. } => self::precedence(*op) < needs,
                _ => false,
            };
            operators.push((*op, rhs, parens));
            at = lhs;
            if parens {
                break;
            }
        }
        // What is left of the row: an operand, or a row in parentheses.
        let (first, ..) = operators[operators.len() - 1];
        self.expr_within(
            at,
            if precedence(first) == COMPARE {
                COMPARE + 1
            } else {
                precedence(first)
            },
        );
        for (op, rhs, _) in operators.into_iter().rev() {
            let _ = write!(self.out, " {} ", op.symbol());
            self.expr_within(rhs, precedence(op) + 1);
        }
    }

    fn path(&mut self, path: &[super::ast::Name]) {
        for (i, name) in path.iter().enumerate() {
            if i != 0 {
                self.put("::");
            }
            self.put(&name.text);
        }
    }

    fn arm(&mut self, arm: &Arm) {
        for (i, pattern) in arm.patterns.iter().enumerate() {
            if i != 0 {
                self.put(" | ");
            }
            self.pattern(pattern);
        }
        if let Some(guard) = &arm.guard {
            self.put(" if ");
            self.expr(guard);
        }
        self.put(" => ");
        self.expr(&arm.body);
        self.put(",");
    }

    fn pattern(&mut self, pattern: &Pattern) {
        let _ = match pattern {
            Pattern::Int(value) => write!(self.out, "{value}"),
            Pattern::Bool(value) => write!(self.out, "{value}"),
            Pattern::Range { lo, hi, inclusive } => {
                let end = |v: &Option<i64>| v.map_or(String::new(), |v| v.to_string());
                let dots = if *inclusive { "..=" } else { ".." };
                write!(self.out, "{}{dots}{}", end(lo), end(hi))
            }
            Pattern::Name(name) => write!(self.out, "{}", name.text),
            Pattern::Any => write!(self.out, "_"),
        };
    }
}
