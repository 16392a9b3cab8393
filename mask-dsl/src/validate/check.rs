//! The proof obligations: each operation that could fail, in each context that it stands in.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::prove::is_at_most_zero;
use crate::analysis::facts::EnvId;
use crate::analysis::interval::IntRange;
use crate::analysis::linear::{Atom, Linear};
use crate::analysis::range::Ranges;
use crate::capture::Bindings;
use crate::ir::{BinaryOp, CaptureId, CaptureKind, Expr, ExprId, Extent, Ty, UnaryOp};

/// An operation that is not proved to succeed.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    /// The operation; for a read the index.
    pub(super) at: ExprId,
    pub(super) kind: FaultKind,
}

#[derive(Clone, Debug)]
pub(super) enum FaultKind {
    /// A read may leave its buffer.
    OutOfBounds {
        capture: CaptureId,
        axis: usize,
        index: IntRange,
    },
    /// An exact result may leave its type.
    Overflow { result: IntRange, ty: Ty },
    /// A divisor may be 0.
    DivisorZero { divisor: ExprId, range: IntRange },
    /// A shift may be by too much.
    ShiftAmount { amount: IntRange, bits: u32 },
    /// An exponent may be negative.
    NegativeExponent { exponent: IntRange },
    /// The bounds of a clamp may cross.
    CrossedClamp,
}

/// What a walk over the rule found.
pub(super) struct Checked {
    pub(super) faults: Vec<Fault>,
    /// Elements that a buffer needs along an axis whose extent is not declared.
    pub(super) needed: BTreeMap<(CaptureId, usize), i128>,
}

/// Checks the whole rule; each expression is reported once per kind of fault.
pub(super) fn check(ranges: &mut Ranges<'_>, bindings: &Bindings) -> Checked {
    let mut ctx = Ctx {
        ranges,
        bindings,
        reported: BTreeSet::new(),
        result: Checked {
            faults: Vec::new(),
            needed: BTreeMap::new(),
        },
    };
    let root = ctx.ranges.rule().root;
    let mut visited = HashSet::from([(root, EnvId::ROOT)]);
    let mut stack = vec![(root, EnvId::ROOT)];
    let mut operands = Vec::new();
    while let Some((id, env)) = stack.pop() {
        ctx.node(id, env);
        operands.clear();
        ctx.ranges.operands(id, env, &mut operands);
        for &(operand, inner) in operands.iter().rev() {
            if ctx.ranges.is_dead(inner) {
                continue;
            }
            let place = (operand, ctx.ranges.relevant(operand, inner));
            if visited.insert(place) {
                stack.push(place);
            }
        }
    }
    ctx.result
}

struct Ctx<'c, 'a> {
    ranges: &'c mut Ranges<'a>,
    bindings: &'c Bindings,
    reported: BTreeSet<(ExprId, ExprId, usize)>,
    result: Checked,
}

impl Ctx<'_, '_> {
    fn node(&mut self, id: ExprId, env: EnvId) {
        let rule = self.ranges.rule();
        let ty = rule.arena.ty(id);
        match rule.arena.expr(id) {
            Expr::Load { buffer, index } => {
                for (axis, &at) in index.iter().enumerate() {
                    self.read(id, *buffer, axis, at, env);
                }
            }
            Expr::Unary {
                op: UnaryOp::Neg | UnaryOp::Abs,
                ..
            } if ty.is_int() => self.exact(id, env),
            Expr::Binary { op, lhs, rhs } => self.binary(id, *op, (*lhs, *rhs), env),
            Expr::Clamp { lo, hi, .. } => self.clamp(id, *lo, *hi, env),
            Expr::Const(_)
            | Expr::Var(_)
            | Expr::Scalar(_)
            | Expr::Dim(_)
            | Expr::Unary { .. }
            | Expr::Cast { .. }
            | Expr::Select { .. }
            | Expr::Then { .. } => {}
        }
    }

    fn report(&mut self, at: ExprId, key: (ExprId, usize), kind: FaultKind) {
        if self.reported.insert((at, key.0, key.1)) {
            self.result.faults.push(Fault { at, kind });
        }
    }

    fn read(&mut self, load: ExprId, capture: CaptureId, axis: usize, at: ExprId, env: EnvId) {
        let range = self.ranges.value(at, env).int();
        if range.is_empty() {
            return;
        }
        let rule = self.ranges.rule();
        let CaptureKind::Buffer { extents, .. } = &rule.captures[capture.index()].kind else {
            unreachable!("a read names a buffer");
        };
        let form = self.ranges.form(at).clone();
        let not_negative = 0 <= range.lo || self.is_at_most_zero(Some(form.negated()), env);
        let below = match extents.get(axis) {
            Some(Extent::AtLeast(extent)) => {
                let gap = form
                    .minus(self.ranges.form(*extent))
                    .and_then(|gap| gap.combine(1, &Linear::constant(1), 1));
                range.hi < self.ranges.root_int(*extent).lo || self.is_at_most_zero(gap, env)
            }
            Some(Extent::Unspecified) => {
                let extent = self.bindings.buffer(capture).shape()[axis] as i128;
                let gap = form.combine(1, &Linear::constant(1 - extent), 1);
                let fits = range.hi < extent || self.is_at_most_zero(gap, env);
                if fits {
                    let needed = self.result.needed.entry((capture, axis)).or_insert(0);
                    *needed = (*needed).max((range.hi + 1).min(extent));
                }
                fits
            }
            None => unreachable!("a read has one index per axis"),
        };
        if !(not_negative && below) {
            let kind = FaultKind::OutOfBounds {
                capture,
                axis,
                index: range,
            };
            self.report(at, (load, axis), kind);
        }
    }

    fn exact(&mut self, id: ExprId, env: EnvId) {
        let ty = self.ranges.rule().arena.ty(id);
        let all = IntRange::of_ty(ty);
        let result = self.ranges.exact(id, env);
        if result.is_within(all) {
            return;
        }
        let form = self.ranges.form(id).clone();
        if form.as_atom() != Some(Atom::Expr(id)) {
            let above = form.combine(1, &Linear::constant(all.hi), -1);
            let below = form.negated().combine(1, &Linear::constant(all.lo), 1);
            if (result.hi <= all.hi || self.is_at_most_zero(above, env))
                && (all.lo <= result.lo || self.is_at_most_zero(below, env))
            {
                return;
            }
        }
        self.report(id, (id, 0), FaultKind::Overflow { result, ty });
    }

    fn binary(&mut self, id: ExprId, op: BinaryOp, (lhs, rhs): (ExprId, ExprId), env: EnvId) {
        let ty = self.ranges.rule().arena.ty(lhs);
        if !ty.is_int() {
            return;
        }
        match op {
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul => self.exact(id, env),
            BinaryOp::Div
            | BinaryOp::Rem
            | BinaryOp::DivFloor
            | BinaryOp::RemFloor
            | BinaryOp::DivEuclid
            | BinaryOp::RemEuclid => {
                let range = self.ranges.value(rhs, env).int();
                if range.contains(0) && !self.ranges.is_nonzero(rhs, env) {
                    let kind = FaultKind::DivisorZero {
                        divisor: rhs,
                        range,
                    };
                    self.report(id, (id, 1), kind);
                }
                // `MIN % -1` is 0 in mathematics, but the machine's i64 division has no such result.
                let lowest = IntRange::of_ty(ty).lo;
                let dividend = self.ranges.value(lhs, env).int();
                if ty != Ty::U32 && dividend.contains(lowest) && range.contains(-1) {
                    let result = self.ranges.exact(id, env).join(IntRange::point(-lowest));
                    self.report(id, (id, 0), FaultKind::Overflow { result, ty });
                }
            }
            BinaryOp::Pow => {
                let exponent = self.ranges.value(rhs, env).int();
                if !exponent.is_empty() && exponent.lo < 0 {
                    self.report(id, (id, 2), FaultKind::NegativeExponent { exponent });
                }
                self.exact(id, env);
            }
            BinaryOp::Shl | BinaryOp::Shr => {
                let amount = self.ranges.value(rhs, env).int();
                let bits = ty.bits();
                if !amount.is_within(IntRange::new(0, i128::from(bits) - 1)) {
                    self.report(id, (id, 3), FaultKind::ShiftAmount { amount, bits });
                }
            }
            BinaryOp::Powi
            | BinaryOp::Powf
            | BinaryOp::WrappingAdd
            | BinaryOp::WrappingSub
            | BinaryOp::WrappingMul
            | BinaryOp::BitAnd
            | BinaryOp::BitOr
            | BinaryOp::BitXor
            | BinaryOp::Min
            | BinaryOp::Max
            | BinaryOp::And
            | BinaryOp::Or
            | BinaryOp::Eq
            | BinaryOp::Ne
            | BinaryOp::Lt
            | BinaryOp::Le
            | BinaryOp::Gt
            | BinaryOp::Ge => {}
        }
    }

    fn clamp(&mut self, id: ExprId, lo: ExprId, hi: ExprId, env: EnvId) {
        let is_int = self.ranges.rule().arena.ty(lo).is_int();
        let (low, high) = (self.ranges.value(lo, env), self.ranges.value(hi, env));
        let apart = if is_int {
            low.int().is_empty() || high.int().is_empty() || low.int().hi <= high.int().lo || {
                let gap = self.ranges.form(lo).minus(self.ranges.form(hi));
                self.is_at_most_zero(gap, env)
            }
        } else {
            let (low, high) = (low.float(), high.float());
            let ordered = low.has_no_number() || high.has_no_number() || low.hi <= high.lo;
            ordered && !low.nan && !high.nan
        };
        if !apart {
            self.report(id, (id, 4), FaultKind::CrossedClamp);
        }
    }

    /// Whether `form <= 0` is proved.
    fn is_at_most_zero(&mut self, form: Option<Linear>, env: EnvId) -> bool {
        form.is_some_and(|form| is_at_most_zero(self.ranges, &form, env))
    }
}
