//! Expressions: literals take their types from what surrounds them, everything else says its own.

use crate::diagnostic::Diagnostic;
use crate::ir::{BinaryOp, Const, Expr, ExprId, Ty, UnaryOp};

use super::super::ast::{self, Block, ExprKind, Loc, Name, Sign};
use super::{Buffer, FrameKind, Lowering, Meaning, Val};

impl Lowering<'_> {
    /// The value of an expression. `expected` is what literals in it take as their type; the result may have another.
    pub(super) fn expr(&mut self, expr: &ast::Expr, expected: Option<Ty>) -> Val {
        let value = if self.enter(expr.loc) {
            self.expr_kind(expr, expected)
        } else {
            Val::Error
        };
        self.leave();
        value
    }

    fn expr_kind(&mut self, expr: &ast::Expr, expected: Option<Ty>) -> Val {
        let loc = expr.loc;
        match &expr.kind {
            ExprKind::Int { value, suffix } => {
                self.int_literal(i128::from(*value), *suffix, expected, loc)
            }
            ExprKind::Float(value) => self.constant(Const::F32(*value), loc),
            ExprKind::Bool(value) => self.constant(Const::Bool(*value), loc),
            ExprKind::Path(path) => self.path(path, loc),
            ExprKind::Unary { op, arg } => self.signed(*op, arg, expected, loc),
            ExprKind::Binary { .. } => self.binary(expr, expected),
            ExprKind::Cast { arg, to } => self.cast(arg, *to, loc),
            ExprKind::Call {
                path,
                generics,
                args,
            } => self.call(path, generics, args, expected, loc),
            ExprKind::Method {
                receiver,
                name,
                args,
            } => self.method(receiver, name, args, expected, loc),
            ExprKind::Index { buffer, index } => self.index(buffer, index, loc),
            ExprKind::If {
                cond,
                then,
                otherwise,
            } => self.if_value(cond, then, otherwise.as_deref(), expected, loc),
            ExprKind::Match { scrutinee, arms } => self.match_value(scrutinee, arms, expected, loc),
            ExprKind::Block(block) => self.block_value(block, expected),
            ExprKind::Reduce {
                op,
                var,
                range,
                body,
                ty,
            } => self.reduce(*op, var, range, body, ty.or(expected), *ty, loc),
            ExprKind::Error => Val::Error,
        }
    }

    /// A value of a known type, or a fault.
    pub(super) fn expr_of(&mut self, expr: &ast::Expr, ty: Ty, what: &str) -> Val {
        let value = self.expr(expr, Some(ty));
        self.expect_ty(value, ty, expr.loc, what)
    }

    /// `value`, or a fault where it has another type; `what` says what it is for.
    pub(super) fn expect_ty(&mut self, value: Val, ty: Ty, loc: Loc, what: &str) -> Val {
        let Some(found) = self.ty(value) else {
            return value;
        };
        if found == ty {
            return value;
        }
        let message = format!("expected `{ty}` {what}, found `{found}`");
        match self.cast_help(found, ty, loc) {
            Some(help) => self.fault_help("type-mismatch", message, loc, help),
            None => self.fault("type-mismatch", message, loc),
        }
        Val::Error
    }

    /// How a value of one type becomes one of another.
    pub(super) fn cast_help(&self, from: Ty, to: Ty, loc: Loc) -> Option<String> {
        let written = self.written(loc);
        match (from, to) {
            (from, to) if from == to => None,
            (_, Ty::Bool) => {
                let zero = if from == Ty::F32 { "0.0" } else { "0" };
                Some(format!("compare it, as in `{written} != {zero}`"))
            }
            (Ty::F32, _) => Some(format!(
                "write `{written} as {to}`, which truncates towards zero"
            )),
            (_, _) => Some(format!("write `{written} as {to}`")),
        }
    }

    /// What was written at a place, if it is short, as an operand.
    fn written(&self, loc: Loc) -> String {
        let range = loc.0.start as usize..loc.0.end as usize;
        let text = match self.call_site {
            None => self.source.text.get(range),
            Some(_) => None,
        };
        match text {
            Some(text) if text.len() <= 32 && !text.contains('\n') && !text.is_empty() => {
                let simple = text
                    .chars()
                    .all(|c| c.is_alphanumeric() || matches!(c, '_' | '[' | ']' | '.'))
                    || (text.starts_with('(')
                        && text.ends_with(')')
                        && text.matches('(').count() == 1);
                if simple {
                    text.to_owned()
                } else {
                    format!("({text})")
                }
            }
            Some(_) | None => "(..)".to_owned(),
        }
    }

    fn int_literal(
        &mut self,
        value: i128,
        suffix: Option<Ty>,
        expected: Option<Ty>,
        loc: Loc,
    ) -> Val {
        if suffix.is_none() && expected == Some(Ty::F32) {
            self.fault_help(
                "type-mismatch",
                format!("expected `f32`, found the integer `{value}`"),
                loc,
                format!("write `{value}.0`"),
            );
            return Val::Error;
        }
        let ty = suffix
            .or(expected.filter(|ty| ty.is_int()))
            .unwrap_or(Ty::I32);
        let constant = i64::try_from(value)
            .ok()
            .and_then(|value| Const::from_int(ty, value));
        if let Some(constant) = constant {
            return self.constant(constant, loc);
        }
        let message = format!("`{value}` does not fit `{ty}`");
        if i64::try_from(value).is_ok() && ty != Ty::I64 {
            self.fault_help(
                "out-of-range",
                message,
                loc,
                format!("`{value}i64` is an `i64`; the other operands need `as i64` then"),
            );
        } else {
            self.fault("out-of-range", message, loc);
        }
        Val::Error
    }

    fn signed(&mut self, op: Sign, arg: &ast::Expr, expected: Option<Ty>, loc: Loc) -> Val {
        match (op, &arg.kind) {
            (Sign::Neg, ExprKind::Int { value, suffix }) => {
                self.int_literal(-i128::from(*value), *suffix, expected, loc)
            }
            (Sign::Neg, _) => {
                let value = self.expr(arg, expected);
                self.unary(UnaryOp::Neg, value, arg.loc, loc)
            }
            (Sign::Not, _) => {
                let value = self.expr(arg, expected);
                self.unary(UnaryOp::Not, value, arg.loc, loc)
            }
        }
    }

    /// A row of operators, from left to right by a loop.
    fn binary(&mut self, expr: &ast::Expr, expected: Option<Ty>) -> Val {
        let mut row = Vec::new();
        let mut first = expr;
        let mut hint = expected;
        while let ExprKind::Binary { op, lhs, rhs } = &first.kind {
            // What is expected of both sides, or of the left one alone.
            hint = match op {
                BinaryOp::And | BinaryOp::Or => Some(Ty::Bool),
                op if op.is_comparison() => None,
                _ => hint,
            };
            row.push((*op, rhs.as_ref(), hint, first.loc));
            first = lhs;
        }
        row.reverse();
        // Where the row begins with literals, the first other operand says their type.
        let mut early = None;
        if is_flexible(first) {
            let at = row
                .iter()
                .position(|(op, rhs, ..)| !is_arithmetic(*op) || !is_flexible(rhs));
            if let Some(at) = at {
                let (op, rhs, rhs_hint, _) = row[at];
                let same_ty = !matches!(
                    op,
                    BinaryOp::Shl | BinaryOp::Shr | BinaryOp::And | BinaryOp::Or
                );
                if same_ty && !is_flexible(rhs) {
                    let value = self.expr(rhs, rhs_hint);
                    hint = self.ty(value);
                    early = Some((at, value));
                }
            }
        }
        let mut value = self.expr(first, hint);
        let mut value_loc = first.loc;
        for (i, (op, rhs, rhs_hint, loc)) in row.into_iter().enumerate() {
            let right = match early {
                Some((at, value)) if at == i => value,
                Some(_) | None => {
                    let rhs_hint = match op {
                        BinaryOp::Shl | BinaryOp::Shr => Some(Ty::I32),
                        BinaryOp::And | BinaryOp::Or => Some(Ty::Bool),
                        _ => self.ty(value).or(rhs_hint),
                    };
                    self.expr(rhs, rhs_hint)
                }
            };
            value = self.binary_of(op, (value, value_loc), (right, rhs.loc), loc);
            value_loc = loc;
        }
        value
    }

    /// Two operands of one type: a literal takes the type of the other.
    pub(super) fn pair(
        &mut self,
        lhs: &ast::Expr,
        rhs: &ast::Expr,
        expected: Option<Ty>,
    ) -> (Val, Val) {
        if is_flexible(lhs) && !is_flexible(rhs) {
            let right = self.expr(rhs, expected);
            let left = self.expr(lhs, self.ty(right).or(expected));
            return (left, right);
        }
        let left = self.expr(lhs, expected);
        let right = self.expr(rhs, self.ty(left).or(expected));
        (left, right)
    }

    /// `lhs op rhs`.
    pub(super) fn binary_of(
        &mut self,
        op: BinaryOp,
        (lhs, lhs_loc): (Val, Loc),
        (rhs, rhs_loc): (Val, Loc),
        loc: Loc,
    ) -> Val {
        if let BinaryOp::And | BinaryOp::Or = op {
            let what = format!("beside `{}`", op.symbol());
            let lhs = self.expect_ty(lhs, Ty::Bool, lhs_loc, &what);
            let rhs = self.expect_ty(rhs, Ty::Bool, rhs_loc, &what);
            return self.binary_node(op, lhs, rhs, loc);
        }
        let (Some(left), Some(right)) = (self.ty(lhs), self.ty(rhs)) else {
            return Val::Error;
        };
        let own_types = matches!(
            op,
            BinaryOp::Shl | BinaryOp::Shr | BinaryOp::Pow | BinaryOp::Powi
        );
        if !own_types && left != right {
            self.mismatch(op, (left, lhs_loc), (right, rhs_loc));
            return Val::Error;
        }
        let (Val::Node(lhs_id), Val::Node(rhs_id)) = (lhs, rhs) else {
            return Val::Error;
        };
        let node = Expr::Binary {
            op,
            lhs: lhs_id,
            rhs: rhs_id,
        };
        match self.intern(node, None, loc) {
            Ok(value) => value,
            Err(error) => {
                let left_is_fine = own_types
                    && left.is_int() != (op == BinaryOp::Powi)
                    && error.found == right.name();
                let at = if left_is_fine { rhs_loc } else { lhs_loc };
                self.takes(op.symbol(), &error, at);
                Val::Error
            }
        }
    }

    pub(super) fn binary_node(&mut self, op: BinaryOp, lhs: Val, rhs: Val, loc: Loc) -> Val {
        match (lhs, rhs) {
            (Val::Node(lhs), Val::Node(rhs)) => self.known_node(Expr::Binary { op, lhs, rhs }, loc),
            (Val::Error, _) | (_, Val::Error) => Val::Error,
        }
    }

    fn mismatch(&mut self, op: BinaryOp, (left, lhs_loc): (Ty, Loc), (right, rhs_loc): (Ty, Loc)) {
        let message = format!(
            "`{}` takes two values of one type, found `{left}` and `{right}`",
            op.symbol()
        );
        // Towards the float, or the wider integer.
        let rank = |ty: Ty| match ty {
            Ty::Bool => 0,
            Ty::I32 => 1,
            Ty::U32 => 2,
            Ty::I64 => 3,
            Ty::F32 => 4,
        };
        let help = if rank(left) < rank(right) {
            self.cast_help(left, right, lhs_loc)
        } else {
            self.cast_help(right, left, rhs_loc)
        };
        let mut fault = Diagnostic::new("type-mismatch", message, self.span(lhs_loc))
            .labelled(format!("this is `{left}`"))
            .and_label(self.span(rhs_loc), format!("this is `{right}`"));
        fault.help = help;
        self.report(fault);
    }

    fn cast(&mut self, arg: &ast::Expr, to: Option<Ty>, loc: Loc) -> Val {
        let Some(to) = to else {
            let value = self.expr(arg, None);
            if self.index_depth == 0 {
                self.fault_help(
                    "unsupported",
                    "expected a type of the language, found `usize`",
                    loc,
                    "`as usize` stands within an index only, where an `i32` does as well",
                );
                return Val::Error;
            }
            return value;
        };
        let hint = match (&arg.kind, to) {
            // `5 as u32` and `5_000_000_000 as i64` are literals of that type, `-1 as u32` is not.
            (ExprKind::Int { .. }, Ty::I32 | Ty::I64 | Ty::U32) => Some(to),
            (ExprKind::Unary { .. }, Ty::I64) if is_flexible(arg) => Some(to),
            _ => None,
        };
        let value = self.expr(arg, hint);
        let Val::Node(id) = value else {
            return Val::Error;
        };
        let from = self.arena.ty(id);
        if from == to {
            return value;
        }
        if to == Ty::Bool {
            let help = self.cast_help(from, to, arg.loc).unwrap_or_default();
            self.fault_help(
                "type-mismatch",
                format!("`as bool` takes a bool, found `{from}`"),
                loc,
                help,
            );
            return Val::Error;
        }
        self.known_node(Expr::Cast { to, arg: id }, loc)
    }

    /// `i64::from(x)`: a cast that keeps every value.
    pub(super) fn convert(&mut self, to: Ty, arg: &ast::Expr, loc: Loc) -> Val {
        let Val::Node(id) = self.expr(arg, None) else {
            return Val::Error;
        };
        let from = self.arena.ty(id);
        if from == to {
            return Val::Node(id);
        }
        if !matches!((from, to), (Ty::Bool, _) | (Ty::I32 | Ty::U32, Ty::I64)) {
            let help = self.cast_help(from, to, arg.loc).unwrap_or_default();
            self.fault_help(
                "type-mismatch",
                format!("`{to}::from` takes a value that every `{to}` can hold, found `{from}`"),
                arg.loc,
                help,
            );
            return Val::Error;
        }
        self.known_node(Expr::Cast { to, arg: id }, loc)
    }

    fn index(&mut self, name: &Name, index: &[ast::Expr], loc: Loc) -> Val {
        let meaning = self.resolve(&name.text, name.loc);
        self.index_depth += 1;
        let mut ids = Vec::with_capacity(index.len());
        let mut sound = true;
        for expr in index {
            let value = self.expr(expr, Some(Ty::I32));
            match self.ty(value) {
                Some(ty) if ty.is_int() => {}
                Some(ty) => {
                    sound = false;
                    let help = self.cast_help(ty, Ty::I32, expr.loc).unwrap_or_default();
                    self.fault_help(
                        "index-type",
                        format!("expected an integer index, found `{ty}`"),
                        expr.loc,
                        help,
                    );
                }
                None => sound = false,
            }
            if let Val::Node(id) = value {
                ids.push(id);
            }
        }
        self.index_depth -= 1;
        match meaning {
            Some(Meaning::Buffer(buffer)) => {
                if buffer.rank != index.len() {
                    let letters = ["i", "j", "k", "l", "m", "n", "o", "p"];
                    let wanted = letters[..buffer.rank.min(letters.len())].join(", ");
                    self.fault_help(
                        "rank",
                        format!(
                            "buffer `{}` has {} ax{}, found {} ind{}",
                            name.text,
                            buffer.rank,
                            if buffer.rank == 1 { "is" } else { "es" },
                            index.len(),
                            if index.len() == 1 { "ex" } else { "ices" },
                        ),
                        loc,
                        if self.frame.kind == FrameKind::RustRule && buffer.rank != 1 {
                            format!("write `{}[[{wanted}]]`", name.text)
                        } else {
                            format!("write `{}[{wanted}]`", name.text)
                        },
                    );
                    return Val::Error;
                }
                if sound {
                    self.load(buffer, ids, loc)
                } else {
                    Val::Error
                }
            }
            Some(Meaning::Value(Val::Error)) => Val::Error,
            Some(Meaning::Value(Val::Node(_)) | Meaning::DimOf(_)) => {
                self.fault_help(
                    "type-mismatch",
                    format!("expected a buffer, found the value `{}`", name.text),
                    name.loc,
                    "only captured buffers are read by index",
                );
                Val::Error
            }
            None => {
                self.unknown_name(&name.text, name.loc);
                Val::Error
            }
        }
    }

    pub(super) fn load(&mut self, buffer: Buffer, index: Vec<ExprId>, loc: Loc) -> Val {
        self.intern(
            Expr::Load {
                buffer: buffer.id,
                index: index.into_boxed_slice(),
            },
            Some(buffer.elem.loads_as()),
            loc,
        )
        .expect("each index was checked to be an integer")
    }

    fn if_value(
        &mut self,
        cond: &ast::Expr,
        then: &Block,
        otherwise: Option<&ast::Expr>,
        expected: Option<Ty>,
        loc: Loc,
    ) -> Val {
        let cond_value = self.expr_of(cond, Ty::Bool, "as a condition");
        let Some(otherwise) = otherwise else {
            self.block_value(then, expected);
            self.fault_help(
                "missing-else",
                "expected `else`: this `if` is a value",
                loc,
                "every case needs a value, as in `if c { x } else { y }`",
            );
            return Val::Error;
        };
        let (left, right) = if is_flexible_block(then) && !is_flexible(otherwise) {
            let right = self.expr(otherwise, expected);
            let left = self.block_value(then, self.ty(right).or(expected));
            (left, right)
        } else {
            let left = self.block_value(then, expected);
            let right = self.expr(otherwise, self.ty(left).or(expected));
            (left, right)
        };
        self.branches(
            cond_value,
            (left, block_loc(then)),
            (right, value_loc(otherwise)),
            loc,
        )
    }

    /// `if cond { left } else { right }`, or a fault where the types differ.
    pub(super) fn branches(
        &mut self,
        cond: Val,
        (left, left_loc): (Val, Loc),
        (right, right_loc): (Val, Loc),
        loc: Loc,
    ) -> Val {
        if let (Some(a), Some(b)) = (self.ty(left), self.ty(right))
            && a != b
        {
            let mut fault = Diagnostic::new(
                "type-mismatch",
                format!("expected one type in all branches, found `{a}` and `{b}`"),
                self.span(right_loc),
            )
            .labelled(format!("this is `{b}`"))
            .and_label(self.span(left_loc), format!("this is `{a}`"));
            fault.help = self.cast_help(b, a, right_loc);
            self.report(fault);
            return Val::Error;
        }
        self.select(cond, left, right, loc)
    }
}

fn is_arithmetic(op: BinaryOp) -> bool {
    !op.is_comparison()
        && !matches!(
            op,
            BinaryOp::And | BinaryOp::Or | BinaryOp::Shl | BinaryOp::Shr
        )
}

/// Whether an expression is built from integer literals without types, and so takes any.
pub(super) fn is_flexible(expr: &ast::Expr) -> bool {
    let mut at = expr;
    loop {
        match &at.kind {
            ExprKind::Int { suffix, .. } => return suffix.is_none(),
            ExprKind::Unary { arg, .. } => at = arg,
            ExprKind::Binary { op, lhs, rhs } => {
                if !is_arithmetic(*op) || !is_flexible(rhs) {
                    return false;
                }
                at = lhs;
            }
            ExprKind::If {
                then, otherwise, ..
            } => {
                if !is_flexible_block(then) {
                    return false;
                }
                match otherwise {
                    Some(otherwise) => at = otherwise,
                    None => return false,
                }
            }
            ExprKind::Block(block) => match &block.tail {
                Some(tail) => at = tail,
                None => return false,
            },
            ExprKind::Float(_)
            | ExprKind::Bool(_)
            | ExprKind::Path(_)
            | ExprKind::Cast { .. }
            | ExprKind::Call { .. }
            | ExprKind::Method { .. }
            | ExprKind::Index { .. }
            | ExprKind::Match { .. }
            | ExprKind::Reduce { .. }
            | ExprKind::Error => return false,
        }
    }
}

fn is_flexible_block(block: &Block) -> bool {
    block.tail.as_ref().is_some_and(|tail| is_flexible(tail))
}

/// The place of the value of a block.
pub(super) fn block_loc(block: &Block) -> Loc {
    block.tail.as_ref().map_or(block.loc, |tail| tail.loc)
}

/// The place of what gives an expression its value.
pub(super) fn value_loc(expr: &ast::Expr) -> Loc {
    match &expr.kind {
        ExprKind::Block(block) => block_loc(block),
        _ => expr.loc,
    }
}
