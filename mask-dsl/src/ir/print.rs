//! Prints rules: as a listing of their nodes, and single expressions in the syntax of the language.

use std::fmt::Write;

use super::arena::{Expr, ExprId};
use super::encode::canonical_order;
use super::op::{BinaryOp, UnaryOp};
use super::rule::{CaptureKind, Extent, Rule, RuleKind};
use super::ty::Const;

impl Rule {
    /// The rule node by node, in an order that does not depend on how its arena was filled: captures and dimension
    /// names with what was declared of them, then one line per live node.
    pub fn to_listing(&self) -> String {
        let mut text = String::new();
        let kind = match self.kind {
            RuleKind::Mask => "mask",
            RuleKind::Score => "score",
        };
        line(&mut text, format_args!("{kind} {} {{", self.name));
        for decl in &self.captures {
            let mut declared = match &decl.kind {
                CaptureKind::Scalar(ty) => ty.name().to_owned(),
                CaptureKind::Buffer { elem, extents } => {
                    let extents = extents.iter().map(|extent| match extent {
                        Extent::AtLeast(id) => self.to_expression_string(*id),
                        Extent::Unspecified => "_".to_owned(),
                    });
                    format!("[{elem}; {}]", extents.collect::<Vec<_>>().join(", "))
                }
            };
            if decl.min.is_some() || decl.max.is_some() {
                let bound = |id: Option<ExprId>| {
                    id.map_or(String::new(), |id| self.to_expression_string(id))
                };
                let equals = if decl.max.is_some() { "=" } else { "" };
                let (min, max) = (bound(decl.min), bound(decl.max));
                let _ = write!(declared, " in {min}..{equals}{max}");
            }
            line(
                &mut text,
                format_args!("  capture {}: {declared}", decl.name),
            );
        }
        for decl in &self.dims {
            line(&mut text, format_args!("  dim {}", decl.name));
        }
        let live = self.live();
        let mut numbers = vec![0; self.arena.len()];
        let order = canonical_order(self);
        for (number, id) in order.into_iter().filter(|id| live[id.index()]).enumerate() {
            numbers[id.index()] = number;
            let node = self.node_text(id, &numbers);
            line(
                &mut text,
                format_args!("  %{number} = {node} : {}", self.arena.ty(id)),
            );
        }
        line(
            &mut text,
            format_args!("  return %{}", numbers[self.root.index()]),
        );
        text.push_str("}\n");
        text
    }

    /// The right side of a node's line.
    fn node_text(&self, id: ExprId, numbers: &[usize]) -> String {
        let expr = self.arena.expr(id);
        let mut operands = Vec::new();
        expr.for_each_operand(|operand| operands.push(format!("%{}", numbers[operand.index()])));
        let operands = operands.join(", ");
        match expr {
            Expr::Const(value) => format!("const {value}"),
            Expr::Var(var) => format!("var {}", var.name()),
            Expr::Scalar(slot) => format!("scalar {}", self.captures[slot.index()].name),
            Expr::Dim(slot) => format!("dim {}", self.dims[slot.index()].name),
            Expr::Load { buffer, .. } => {
                format!("load {}[{operands}]", self.captures[buffer.index()].name)
            }
            Expr::Unary { op, .. } => format!("{} {operands}", unary_name(*op)),
            Expr::Binary { op, .. } => format!("{} {operands}", binary_name(*op)),
            Expr::Clamp { .. } => format!("clamp {operands}"),
            Expr::Cast { .. } => format!("cast {operands}"),
            Expr::Select { .. } => format!("select {operands}"),
            Expr::Then { .. } => format!("then {operands}"),
        }
    }

    /// The node as one line in the syntax of the language, with no more parentheses than it needs. Parts that lie
    /// too deep for a line of a message stand as `…`.
    pub fn to_expression_string(&self, id: ExprId) -> String {
        let mut text = Printer::render(self, id, 1).0;
        for depth in 2..=self.arena.depth(id) {
            let (longer, elided) = Printer::render(self, id, depth);
            if MAX_CHARS < longer.chars().count() {
                break;
            }
            text = longer;
            if !elided {
                break;
            }
        }
        text
    }
}

/// Characters that a printed expression may have before its deepest parts are left out.
const MAX_CHARS: usize = 120;

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    let _ = writeln!(text, "{line}");
}

/// How tightly the outermost operator of a text binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    /// `if` and blocks, which stand alone only.
    Block,
    Or,
    And,
    Comparison,
    BitOr,
    BitXor,
    BitAnd,
    Shift,
    Sum,
    Product,
    Cast,
    Prefix,
    /// Names, calls, reads, literals.
    Atom,
}

impl Level {
    /// What the right side of a left-associative operator must have.
    fn above(self) -> Level {
        match self {
            Level::Block => Level::Or,
            Level::Or => Level::And,
            Level::And => Level::Comparison,
            Level::Comparison => Level::BitOr,
            Level::BitOr => Level::BitXor,
            Level::BitXor => Level::BitAnd,
            Level::BitAnd => Level::Shift,
            Level::Shift => Level::Sum,
            Level::Sum => Level::Product,
            Level::Product => Level::Cast,
            Level::Cast => Level::Prefix,
            Level::Prefix | Level::Atom => Level::Atom,
        }
    }
}

struct Printed {
    text: String,
    level: Level,
    /// After `as i32`, a `<` would open a list of types in Rust.
    ends_in_cast: bool,
}

impl Printed {
    fn atom(text: String) -> Printed {
        Printed {
            text,
            level: Level::Atom,
            ends_in_cast: false,
        }
    }

    /// The text as an operand that must bind at least as tightly as `level`.
    fn at(self, level: Level) -> Printed {
        if level <= self.level {
            return self;
        }
        Printed::atom(format!("({})", self.text))
    }
}

struct Printer<'a> {
    rule: &'a Rule,
    elided: bool,
}

impl Printer<'_> {
    /// The text of a node down to a depth, and whether something was left out.
    fn render(rule: &Rule, id: ExprId, depth: u32) -> (String, bool) {
        let mut printer = Printer {
            rule,
            elided: false,
        };
        let text = printer.text(id, depth).text;
        (text, printer.elided)
    }

    fn text(&mut self, id: ExprId, depth: u32) -> Printed {
        let rule = self.rule;
        let expr = rule.arena.expr(id);
        if depth == 0 && rule.arena.depth(id) != 0 {
            self.elided = true;
            return Printed::atom("…".to_owned());
        }
        let inner = depth.saturating_sub(1);
        match expr {
            Expr::Const(value) => constant(*value),
            Expr::Var(var) => Printed::atom(var.name().to_owned()),
            Expr::Scalar(slot) => Printed::atom(rule.captures[slot.index()].name.clone()),
            Expr::Dim(slot) => Printed::atom(rule.dims[slot.index()].name.clone()),
            Expr::Load { buffer, index } => {
                let name = &rule.captures[buffer.index()].name;
                Printed::atom(format!("{name}[{}]", self.list(index, inner)))
            }
            Expr::Unary { op, arg } => self.unary(*op, *arg, inner),
            Expr::Binary { op, lhs, rhs } => self.binary(*op, *lhs, *rhs, inner),
            Expr::Clamp { arg, lo, hi } => self.call(*arg, "clamp", &[*lo, *hi], inner),
            Expr::Cast { to, arg } => {
                let arg = self.text(*arg, inner).at(Level::Cast).text;
                Printed {
                    text: format!("{arg} as {to}"),
                    level: Level::Cast,
                    ends_in_cast: true,
                }
            }
            Expr::Select {
                cond,
                then,
                otherwise,
            } => {
                let cond = self.text(*cond, inner).at(Level::Or).text;
                let then = self.text(*then, inner).text;
                // `else if` needs no braces.
                let nested = matches!(rule.arena.expr(*otherwise), Expr::Select { .. });
                let otherwise = self.text(*otherwise, inner);
                let otherwise = if nested && otherwise.level == Level::Block {
                    otherwise.text
                } else {
                    format!("{{ {} }}", otherwise.text)
                };
                block(format!("if {cond} {{ {then} }} else {otherwise}"))
            }
            Expr::Then { first, value } => {
                let first = self.text(*first, inner).text;
                let value = self.text(*value, inner).text;
                block(format!("{{ let _ = {first}; {value} }}"))
            }
        }
    }

    fn list(&mut self, ids: &[ExprId], depth: u32) -> String {
        let texts: Vec<String> = ids.iter().map(|id| self.text(*id, depth).text).collect();
        texts.join(", ")
    }

    /// `receiver.name(args)`.
    fn call(&mut self, receiver: ExprId, name: &str, args: &[ExprId], depth: u32) -> Printed {
        let is_int = self.rule.arena.ty(receiver).is_int();
        let literal = is_int && self.rule.arena.as_const(receiver).is_some();
        let mut receiver = self.text(receiver, depth).at(Level::Atom).text;
        if literal && !receiver.starts_with('(') {
            // The dot must not make a float of it.
            receiver = format!("({receiver})");
        }
        Printed::atom(format!("{receiver}.{name}({})", self.list(args, depth)))
    }

    fn unary(&mut self, op: UnaryOp, arg: ExprId, depth: u32) -> Printed {
        let sign = match op {
            UnaryOp::Not => "!",
            UnaryOp::Neg => "-",
            UnaryOp::WrappingNeg | UnaryOp::Abs | UnaryOp::Signum | UnaryOp::Math(_) => {
                return self.call(arg, unary_name(op), &[], depth);
            }
        };
        // `-5` is a literal, and the negation of a literal is not.
        let literal = op == UnaryOp::Neg && self.rule.arena.as_const(arg).is_some();
        let arg = self.text(arg, depth);
        let arg = if literal {
            format!("({})", arg.text)
        } else {
            arg.at(Level::Prefix).text
        };
        Printed {
            text: format!("{sign}{arg}"),
            level: Level::Prefix,
            ends_in_cast: false,
        }
    }

    fn binary(&mut self, op: BinaryOp, lhs: ExprId, rhs: ExprId, depth: u32) -> Printed {
        let level = match op {
            BinaryOp::Or => Level::Or,
            BinaryOp::And => Level::And,
            BinaryOp::Eq
            | BinaryOp::Ne
            | BinaryOp::Lt
            | BinaryOp::Le
            | BinaryOp::Gt
            | BinaryOp::Ge => Level::Comparison,
            BinaryOp::BitOr => Level::BitOr,
            BinaryOp::BitXor => Level::BitXor,
            BinaryOp::BitAnd => Level::BitAnd,
            BinaryOp::Shl | BinaryOp::Shr => Level::Shift,
            BinaryOp::Add | BinaryOp::Sub => Level::Sum,
            BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem => Level::Product,
            BinaryOp::DivFloor
            | BinaryOp::RemFloor
            | BinaryOp::DivEuclid
            | BinaryOp::RemEuclid
            | BinaryOp::Pow
            | BinaryOp::Powi
            | BinaryOp::Powf
            | BinaryOp::WrappingAdd
            | BinaryOp::WrappingSub
            | BinaryOp::WrappingMul
            | BinaryOp::Min
            | BinaryOp::Max => return self.call(lhs, op.symbol(), &[rhs], depth),
        };
        // Comparisons do not chain.
        let left = if level == Level::Comparison {
            level.above()
        } else {
            level
        };
        let mut lhs = self.text(lhs, depth).at(left);
        if lhs.ends_in_cast && matches!(op, BinaryOp::Lt | BinaryOp::Shl) {
            lhs = Printed::atom(format!("({})", lhs.text));
        }
        let rhs = self.text(rhs, depth).at(level.above());
        Printed {
            text: format!("{} {} {}", lhs.text, op.symbol(), rhs.text),
            level,
            ends_in_cast: rhs.ends_in_cast,
        }
    }
}

fn block(text: String) -> Printed {
    Printed {
        text,
        level: Level::Block,
        ends_in_cast: false,
    }
}

fn constant(value: Const) -> Printed {
    let text = value.to_string();
    let negative = text.starts_with('-');
    Printed {
        level: if negative { Level::Prefix } else { Level::Atom },
        text,
        ends_in_cast: false,
    }
}

fn unary_name(op: UnaryOp) -> &'static str {
    match op {
        UnaryOp::Not => "not",
        UnaryOp::Neg => "neg",
        UnaryOp::WrappingNeg => "wrapping_neg",
        UnaryOp::Abs => "abs",
        UnaryOp::Signum => "signum",
        UnaryOp::Math(f) => f.name(),
    }
}

fn binary_name(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "add",
        BinaryOp::Sub => "sub",
        BinaryOp::Mul => "mul",
        BinaryOp::Div => "div",
        BinaryOp::Rem => "rem",
        BinaryOp::BitAnd => "bit_and",
        BinaryOp::BitOr => "bit_or",
        BinaryOp::BitXor => "bit_xor",
        BinaryOp::Shl => "shl",
        BinaryOp::Shr => "shr",
        BinaryOp::And => "and",
        BinaryOp::Or => "or",
        BinaryOp::Eq => "eq",
        BinaryOp::Ne => "ne",
        BinaryOp::Lt => "lt",
        BinaryOp::Le => "le",
        BinaryOp::Gt => "gt",
        BinaryOp::Ge => "ge",
        BinaryOp::DivFloor
        | BinaryOp::RemFloor
        | BinaryOp::DivEuclid
        | BinaryOp::RemEuclid
        | BinaryOp::Pow
        | BinaryOp::Powi
        | BinaryOp::Powf
        | BinaryOp::WrappingAdd
        | BinaryOp::WrappingSub
        | BinaryOp::WrappingMul
        | BinaryOp::Min
        | BinaryOp::Max => op.symbol(),
    }
}

#[cfg(test)]
mod tests;
