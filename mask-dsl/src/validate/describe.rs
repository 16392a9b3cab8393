//! Faults in words: what was found, what was expected, the length at which it breaks, and what to write instead.

use std::collections::BTreeMap;

use super::check::{Fault, FaultKind};
use super::faults_up_to;
use crate::analysis::interval::IntRange;
use crate::analysis::range::Assumptions;
use crate::bind::BoundRule;
use crate::diagnostic::Diagnostic;
use crate::ir::{CaptureId, CaptureKind, Expr, ExprId, Extent, Rule, Span, Ty, UnaryOp};
use crate::pipeline::Scope;

/// The message for one fault.
pub(super) fn diagnostic(lengths: &mut Lengths<'_>, fault: &Fault) -> Diagnostic {
    let (bound, scope) = (lengths.bound, lengths.scope);
    let rule = bound.rule();
    let span = rule.arena.span(fault.at);
    match &fault.kind {
        FaultKind::OutOfBounds {
            capture,
            axis,
            index,
        } => out_of_bounds(bound, fault.at, *capture, *axis, *index),
        FaultKind::Overflow { result, ty } => {
            let first = lengths.shortest(fault.at);
            let bucket = &scope.bucket;
            let least = if bucket.is_single() {
                1
            } else {
                *bucket.q_len.start().max(bucket.kv_len.start()).max(&1)
            };
            overflow(rule, fault.at, (*result, *ty), first, least)
        }
        FaultKind::DivisorZero { divisor, range } => {
            let sign = operator(rule, fault.at);
            Diagnostic::new(
                "zero-divisor",
                format!("divisor of `{sign}` can be 0: it can be {range}"),
                rule.arena.span(*divisor).or(span),
            )
            .labelled(format!("can be {range}"))
            .help("guard the division with `divisor != 0 && …`, or declare a range without 0, as in `n: i32 in 1..=64`")
        }
        FaultKind::ShiftAmount { amount, bits } => Diagnostic::new(
            "shift-amount",
            format!("a shift can be by {amount}, outside 0..{bits}"),
            span,
        )
        .labelled(format!("by {amount}"))
        .help(format!("mask the amount with `& {}`, or clamp it", bits - 1)),
        FaultKind::NegativeExponent { exponent } => Diagnostic::new(
            "negative-exponent",
            format!("exponent of an integer `pow` can be {exponent}, but must not be negative"),
            span,
        )
        .labelled(format!("exponent can be {exponent}"))
        .help("clamp the exponent, declare its range, or use `powi` of a float"),
        FaultKind::CrossedClamp => Diagnostic::new(
            "crossed-clamp",
            "the bounds of `clamp` are not proved to be in order: expected lower <= upper at every cell",
            span,
        )
        .help("declare ranges that keep the bounds apart, or write `max(lower).min(upper)`"),
    }
}

fn out_of_bounds(
    bound: &BoundRule,
    at: ExprId,
    capture: CaptureId,
    axis: usize,
    index: IntRange,
) -> Diagnostic {
    let rule = bound.rule();
    let decl = &rule.captures[capture.index()];
    let name = &decl.name;
    let CaptureKind::Buffer { extents, .. } = &decl.kind else {
        unreachable!("a read names a buffer");
    };
    let found = bound.bindings().buffer(capture).shape()[axis];
    let (limit, declared) = match extents[axis] {
        Extent::AtLeast(extent) => (expression(rule, extent), true),
        Extent::Unspecified => (found.to_string(), false),
    };
    let along = if extents.len() == 1 {
        String::new()
    } else {
        format!(" along axis {axis}")
    };
    let message = format!("index of `{name}`{along} can be {index}, outside 0..{limit}");
    let mut help = Vec::new();
    if index.lo < 0 {
        help.push("guard the read with `0 <= index && …`".to_owned());
    } else {
        help.push(format!("guard the read with `index < {limit} && …`"));
    }
    if !declared && 0 <= index.lo {
        help.push(format!("bind at least {} elements", index.hi + 1));
    }
    if let Some(inner) = undeclared_source(rule, at) {
        help.push(format!("declare a range of `{inner}`, as in `in 0..n`"));
    } else {
        help.push("clamp the index".to_owned());
    }
    let place = index_place(rule, at, capture, axis);
    let mut diagnostic = Diagnostic::new("out-of-bounds", message, place)
        .labelled(format!("can be {index}"))
        .help(help.join(", or "));
    if place.is_some() {
        diagnostic = diagnostic.and_label(decl.span, format!("0..{limit}{along}"));
    }
    diagnostic
}

/// Where an index stands. A variable or scalar stands in many places, so a read of the capture by it is shown instead.
fn index_place(rule: &Rule, at: ExprId, capture: CaptureId, axis: usize) -> Option<Span> {
    let arena = &rule.arena;
    let is_leaf = matches!(
        arena.expr(at),
        Expr::Var(_) | Expr::Scalar(_) | Expr::Dim(_) | Expr::Const(_)
    );
    let reads_by_it = |id: &ExprId| match arena.expr(*id) {
        Expr::Load { buffer, index } => *buffer == capture && index[axis] == at,
        _ => false,
    };
    let read = arena.ids().filter(|_| is_leaf).find(reads_by_it);
    read.and_then(|read| arena.span(read)).or(arena.span(at))
}

/// A capture below `at` that has no declared range.
fn undeclared_source(rule: &Rule, at: ExprId) -> Option<String> {
    let mut pending = vec![at];
    let mut steps = 0;
    while let Some(id) = pending.pop() {
        steps += 1;
        if 64 < steps {
            return None;
        }
        let expr = rule.arena.expr(id);
        if let Expr::Load { buffer: slot, .. } | Expr::Scalar(slot) = expr {
            let decl = &rule.captures[slot.index()];
            if decl.min.is_none() && decl.max.is_none() && decl.value_ty().is_int() {
                return Some(decl.name.clone());
            }
        }
        expr.for_each_operand(|operand| pending.push(operand));
    }
    None
}

fn overflow(
    rule: &Rule,
    at: ExprId,
    (result, ty): (IntRange, Ty),
    first: Option<u64>,
    least: u64,
) -> Diagnostic {
    let sign = operator(rule, at);
    let when = match first {
        Some(length) if length <= least => ", at every length".to_owned(),
        Some(length) => format!("; the shortest length at which it does is {length}"),
        None => String::new(),
    };
    let message = format!("`{sign}` can give {result}, which {ty} cannot hold{when}");
    let mut help = Vec::new();
    if ty == Ty::U32 && result.lo < 0 {
        help.push("use a signed type, `as i64`".to_owned());
    } else if ty != Ty::I64 {
        help.push("widen the operands with `as i64`".to_owned());
    }
    if let Some(name) = undeclared_source(rule, at) {
        help.push(format!("declare a range of `{name}`, as in `in 1..=64`"));
    }
    if ["+", "-", "*"].contains(&sign) {
        help.push(format!(
            "use `wrapping_{}` where wrapping is meant",
            wrapping(rule, at)
        ));
    }
    let diagnostic = Diagnostic::new("overflow", message, rule.arena.span(at))
        .labelled(format!("can be {result}"));
    if help.is_empty() {
        diagnostic
    } else {
        diagnostic.help(help.join(", or "))
    }
}

/// Which operations can overflow where lengths end at a given one; faults of one rule share the search.
pub(super) struct Lengths<'a> {
    bound: &'a BoundRule,
    scope: &'a Scope,
    assumptions: &'a Assumptions,
    overflowing: BTreeMap<u64, Vec<ExprId>>,
}

impl<'a> Lengths<'a> {
    pub(super) fn new(
        bound: &'a BoundRule,
        scope: &'a Scope,
        assumptions: &'a Assumptions,
    ) -> Self {
        Self {
            bound,
            scope,
            assumptions,
            overflowing: BTreeMap::new(),
        }
    }

    fn overflows(&mut self, at: ExprId, longest: u64) -> bool {
        let ids = self.overflowing.entry(longest).or_insert_with(|| {
            faults_up_to(self.bound, &from_one(self.scope), self.assumptions, longest)
                .iter()
                .filter(|fault| matches!(fault.kind, FaultKind::Overflow { .. }))
                .map(|fault| fault.at)
                .collect()
        });
        ids.contains(&at)
    }

    /// The shortest greatest length of the bucket at which the operation can overflow.
    fn shortest(&mut self, at: ExprId) -> Option<u64> {
        let bucket = &self.scope.bucket;
        let (mut passes, mut failing) = (0, *bucket.q_len.end().max(bucket.kv_len.end()));
        if !self.overflows(at, failing) {
            return None;
        }
        while passes + 1 < failing {
            let middle = passes + (failing - passes) / 2;
            if self.overflows(at, middle) {
                failing = middle;
            } else {
                passes = middle;
            }
        }
        Some(failing)
    }
}

/// A single call as the longest of a bucket, so that one learns from which length on it is refused.
fn from_one(scope: &Scope) -> Scope {
    let mut scope = scope.clone();
    if scope.bucket.is_single() {
        for lengths in [&mut scope.bucket.q_len, &mut scope.bucket.kv_len] {
            *lengths = (*lengths.end()).min(1)..=*lengths.end();
        }
    }
    scope
}

/// The last part of the name of the wrapping operation.
fn wrapping(rule: &Rule, at: ExprId) -> &'static str {
    match (operator(rule, at), rule.arena.expr(at)) {
        ("-", Expr::Unary { .. }) => "neg",
        ("+", _) => "add",
        ("-", _) => "sub",
        _ => "mul",
    }
}

fn operator(rule: &Rule, at: ExprId) -> &'static str {
    match rule.arena.expr(at) {
        Expr::Binary { op, .. } => op.symbol(),
        Expr::Unary { op, .. } => match op {
            UnaryOp::Abs => "abs",
            UnaryOp::Not => "!",
            UnaryOp::Signum => "signum",
            UnaryOp::WrappingNeg => "wrapping_neg",
            UnaryOp::Math(f) => f.name(),
            UnaryOp::Neg => "-",
        },
        Expr::Const(_)
        | Expr::Var(_)
        | Expr::Scalar(_)
        | Expr::Dim(_)
        | Expr::Load { .. }
        | Expr::Clamp { .. }
        | Expr::Cast { .. }
        | Expr::Select { .. }
        | Expr::Then { .. } => unreachable!("only operators overflow"),
    }
}

/// A size expression as it is written; deep ones end in an ellipsis.
pub(super) fn expression(rule: &Rule, id: ExprId) -> String {
    written(rule, id, 4)
}

fn written(rule: &Rule, id: ExprId, depth: u32) -> String {
    if depth == 0 {
        return "…".to_owned();
    }
    let inner = |id: ExprId| {
        let text = written(rule, id, depth - 1);
        if text.contains(' ') {
            format!("({text})")
        } else {
            text
        }
    };
    match rule.arena.expr(id) {
        Expr::Const(value) => value.to_string(),
        Expr::Var(var) => var.name().to_owned(),
        Expr::Scalar(slot) => rule.captures[slot.index()].name.clone(),
        Expr::Dim(dim) => rule.dims[dim.index()].name.clone(),
        Expr::Binary { op, lhs, rhs } => {
            format!("{} {} {}", inner(*lhs), op.symbol(), inner(*rhs))
        }
        Expr::Load { .. }
        | Expr::Unary { .. }
        | Expr::Clamp { .. }
        | Expr::Cast { .. }
        | Expr::Select { .. }
        | Expr::Then { .. } => "…".to_owned(),
    }
}
