//! Compiles a mask for one plane into a tape of abstract operations, with everything that the plane fixes folded.

use std::collections::HashMap;
use std::sync::Arc;

use crate::capture::Bindings;
use crate::eval::scalar;
use crate::ir::{BinaryOp, CaptureId, Const, Elem, Expr, ExprId, Rule, Ty, UnaryOp, Var};

use super::affine::{Affine, gcd};
use super::table::AxisTable;
use super::tape::{
    ALONG_KV, ALONG_Q, BoolStep, Circle, IntStep, LengthRanges, PlaneClassifier, Root, Rounding,
    Static, Step,
};

/// Tables that several planes share: by buffer, axis and first element.
pub(crate) type TableCache = HashMap<(CaptureId, usize, usize), Option<Arc<AxisTable>>>;

/// What one node of the rule is on this plane.
#[derive(Clone, Copy, Debug)]
enum Fact {
    Const(Const),
    Int(usize),
    Bool(usize),
    /// A float, or anything that only cells decide.
    Opaque,
}

struct Compiler<'a> {
    rule: &'a Rule,
    bindings: &'a Bindings,
    b: i32,
    h: i32,
    counts: (i32, i32),
    lengths: LengthRanges,
    scalar_ranges: &'a [Option<(i64, i64)>],
    cache: &'a mut TableCache,
    facts: Vec<Fact>,
    steps: Vec<Step>,
    statics: Vec<Static>,
    tables: Vec<Arc<AxisTable>>,
}

impl PlaneClassifier {
    /// Compiles a validated mask for batch `b` and head `h`. `counts` are batch and head counts; `scalar_ranges` has,
    /// by capture slot, the range of a scalar that may change within the bucket.
    pub(crate) fn new(
        rule: &Rule,
        bindings: &Bindings,
        (b, h): (i32, i32),
        counts: (i32, i32),
        lengths: LengthRanges,
        scalar_ranges: &[Option<(i64, i64)>],
        cache: &mut TableCache,
    ) -> PlaneClassifier {
        let mut compiler = Compiler {
            rule,
            bindings,
            b,
            h,
            counts,
            lengths,
            scalar_ranges,
            cache,
            facts: Vec::with_capacity(rule.arena.len()),
            steps: Vec::new(),
            statics: Vec::new(),
            tables: Vec::new(),
        };
        let live = rule.live();
        for id in rule.arena.ids() {
            let fact = if live[id.index()] {
                compiler.node(id)
            } else {
                Fact::Opaque
            };
            compiler.facts.push(fact);
        }
        let root = match compiler.facts[rule.root.index()] {
            Fact::Const(value) => Root::Always(value == Const::Bool(true)),
            Fact::Bool(at) => Root::Step(at),
            Fact::Int(_) | Fact::Opaque => Root::Step(compiler.push_bool(BoolStep::Unknown, 0)),
        };
        let Compiler {
            steps,
            statics,
            tables,
            ..
        } = compiler;
        PlaneClassifier::from_tape(steps, statics, tables, lengths, root)
    }
}

impl Compiler<'_> {
    fn node(&mut self, id: ExprId) -> Fact {
        let rule = self.rule;
        let ty = rule.arena.ty(id);
        match rule.arena.expr(id) {
            Expr::Const(value) => Fact::Const(*value),
            Expr::Var(var) => self.var(*var),
            Expr::Scalar(slot) => {
                if let Some((lo, hi)) = self.scalar_ranges.get(slot.index()).copied().flatten() {
                    self.push_int(IntStep::Range(lo, hi), ty, opaque_static(0))
                } else {
                    Fact::Const(self.bindings.scalar(*slot))
                }
            }
            Expr::Dim(dim) => Fact::Const(Const::I32(self.bindings.dims[dim.index()])),
            Expr::Load { buffer, index } => self.load(*buffer, index, ty),
            Expr::Unary { op, arg } => self.unary(*op, *arg, ty),
            Expr::Binary { op, lhs, rhs } => self.binary(*op, *lhs, *rhs, ty),
            Expr::Clamp { arg, lo, hi } => {
                if let (Some(v), Some(lo), Some(hi)) =
                    (self.as_const(*arg), self.as_const(*lo), self.as_const(*hi))
                {
                    // A clamp that fails is guarded, so its value never matters.
                    return scalar::clamp(v, lo, hi).map_or(Fact::Opaque, Fact::Const);
                }
                let (Some(v), Some(lo), Some(hi)) = (self.int(*arg), self.int(*lo), self.int(*hi))
                else {
                    return Fact::Opaque;
                };
                let along = |c: &Self, a: usize, b: usize| c.statics[a].along | c.statics[b].along;
                let bound = opaque_static(along(self, v, lo));
                let Fact::Int(low) = self.push_int(IntStep::Max(v, lo), ty, bound) else {
                    return Fact::Opaque;
                };
                let bound = opaque_static(along(self, low, hi));
                self.push_int(IntStep::Min(low, hi), ty, bound)
            }
            Expr::Cast { to, arg } => self.cast(*to, *arg),
            Expr::Select {
                cond,
                then,
                otherwise,
            } => self.select(*cond, *then, *otherwise, ty),
            Expr::Then { value, .. } => self.facts[value.index()],
        }
    }

    fn var(&mut self, var: Var) -> Fact {
        let mut affine = Affine::constant(0);
        let l = self.lengths;
        match var {
            Var::B => return Fact::Const(Const::I32(self.b)),
            Var::H => return Fact::Const(Const::I32(self.h)),
            Var::Batch => return Fact::Const(Const::I32(self.counts.0)),
            Var::NumQHeads => return Fact::Const(Const::I32(self.counts.1)),
            Var::Score => return Fact::Opaque,
            Var::QLen if l.q_len.0 == l.q_len.1 => {
                return Fact::Const(Const::I32(l.q_len.0 as i32));
            }
            Var::KvLen if l.kv_len.0 == l.kv_len.1 => {
                return Fact::Const(Const::I32(l.kv_len.0 as i32));
            }
            Var::QLen => affine.q_len = 1,
            Var::KvLen => affine.kv_len = 1,
            Var::QIdx => affine.q = 1,
            Var::KvIdx => affine.kv = 1,
        }
        self.push_affine(affine, Ty::I32)
    }

    fn load(&mut self, slot: CaptureId, index: &[ExprId], ty: Ty) -> Fact {
        let buffer = self.bindings.buffer(slot);
        let mut at = Vec::with_capacity(index.len());
        let mut varying = None;
        let mut n_varying = 0;
        let mut along = 0;
        for (axis, &i) in index.iter().enumerate() {
            if let Some(value) = self.as_const(i) {
                at.push(value.as_int().unwrap_or(0));
            } else {
                at.push(0);
                n_varying += 1;
                if let Some(step) = self.int(i) {
                    along |= self.statics[step].along;
                    varying = Some((axis, step));
                }
            }
        }
        if n_varying == 0 {
            // A read that leaves its buffer on this plane is guarded there.
            return buffer
                .load(&at)
                .map_or_else(|| self.anything(ty), Fact::Const);
        }
        if ty == Ty::F32 {
            return Fact::Opaque;
        }
        let value_ty = ty;
        let (lo, hi) = buffer
            .int_range()
            .or_else(|| ty.int_range())
            .unwrap_or((i64::MIN, i64::MAX));
        let step = match varying {
            Some((axis, step)) if n_varying == 1 && buffer.elem() != Elem::F32 => {
                let mut probe = at.clone();
                probe[axis] = 0;
                let key = buffer.element(&probe);
                let table = match key {
                    None => None,
                    Some(first) => self
                        .cache
                        .entry((slot, axis, first))
                        .or_insert_with(|| AxisTable::new(buffer, axis, &at).map(Arc::new))
                        .clone(),
                };
                match table {
                    Some(table) => {
                        self.tables.push(table);
                        IntStep::Load(self.tables.len() - 1, step)
                    }
                    None => IntStep::Range(lo, hi),
                }
            }
            _ => IntStep::Range(lo, hi),
        };
        let Fact::Int(value) = self.push_int(step, value_ty, opaque_static(along)) else {
            return Fact::Opaque;
        };
        if ty == Ty::Bool {
            Fact::Bool(self.push_bool(BoolStep::FromInt(value), along))
        } else {
            Fact::Int(value)
        }
    }

    fn unary(&mut self, op: UnaryOp, arg: ExprId, ty: Ty) -> Fact {
        if let Some(value) = self.as_const(arg) {
            return match scalar::unary(op, value) {
                Ok(value) => Fact::Const(value),
                Err(_) => self.anything(ty),
            };
        }
        if ty == Ty::Bool {
            let Some(a) = self.bool(arg) else {
                return Fact::Opaque;
            };
            return Fact::Bool(self.push_bool(BoolStep::Not(a), self.statics[a].along));
        }
        let Some(a) = self.int(arg) else {
            return Fact::Opaque;
        };
        let known = self.statics[a];
        if op == UnaryOp::Neg
            && let Some(affine) = known.affine.and_then(|affine| affine.times(-1))
        {
            return self.push_affine(affine, ty);
        }
        let (step, congruent) = match op {
            UnaryOp::Not => (IntStep::Not(a), (1, 0)),
            UnaryOp::Neg | UnaryOp::WrappingNeg => (
                IntStep::Neg(a),
                (known.congruent.0, known.congruent.1.wrapping_neg()),
            ),
            UnaryOp::Abs => (IntStep::Abs(a), (1, 0)),
            UnaryOp::Signum => (IntStep::Signum(a), (1, 0)),
            UnaryOp::Math(_) => return Fact::Opaque,
        };
        // A wrap keeps residues of powers of two only; do not rely on it.
        let congruent = if op == UnaryOp::WrappingNeg {
            (1, 0)
        } else {
            congruent
        };
        let known = Static {
            affine: None,
            congruent,
            along: known.along,
        };
        self.push_int(step, ty, known)
    }

    fn binary(&mut self, op: BinaryOp, lhs: ExprId, rhs: ExprId, ty: Ty) -> Fact {
        if let (Some(a), Some(b)) = (self.as_const(lhs), self.as_const(rhs)) {
            return match scalar::binary(op, a, b) {
                Ok(value) => Fact::Const(value),
                Err(_) => self.anything(ty),
            };
        }
        let operand_ty = self.rule.arena.ty(lhs);
        if operand_ty == Ty::Bool {
            return self.bool_binary(op, lhs, rhs);
        }
        let (Some(a), Some(b)) = (self.int(lhs), self.int(rhs)) else {
            return Fact::Opaque;
        };
        if op.is_comparison() {
            return self.comparison(op, a, b);
        }
        self.int_binary(op, a, b, ty)
    }

    fn bool_binary(&mut self, op: BinaryOp, lhs: ExprId, rhs: ExprId) -> Fact {
        // An opaque side may still be outvoted by the other.
        let a = self.bool_or_unknown(lhs);
        let b = self.bool_or_unknown(rhs);
        let along = self.statics[a].along | self.statics[b].along;
        let step = match op {
            BinaryOp::And | BinaryOp::BitAnd => BoolStep::And(a, b),
            BinaryOp::Or | BinaryOp::BitOr => BoolStep::Or(a, b),
            BinaryOp::BitXor | BinaryOp::Ne => BoolStep::Xor(a, b),
            BinaryOp::Eq => {
                let xor = self.push_bool(BoolStep::Xor(a, b), along);
                BoolStep::Not(xor)
            }
            BinaryOp::Add
            | BinaryOp::Sub
            | BinaryOp::Mul
            | BinaryOp::Div
            | BinaryOp::Rem
            | BinaryOp::DivFloor
            | BinaryOp::RemFloor
            | BinaryOp::DivEuclid
            | BinaryOp::RemEuclid
            | BinaryOp::Pow
            | BinaryOp::Powi
            | BinaryOp::Powf
            | BinaryOp::WrappingAdd
            | BinaryOp::WrappingSub
            | BinaryOp::WrappingMul
            | BinaryOp::Shl
            | BinaryOp::Shr
            | BinaryOp::Min
            | BinaryOp::Max
            | BinaryOp::Lt
            | BinaryOp::Le
            | BinaryOp::Gt
            | BinaryOp::Ge => BoolStep::Unknown,
        };
        Fact::Bool(self.push_bool(step, along))
    }

    fn comparison(&mut self, op: BinaryOp, a: usize, b: usize) -> Fact {
        // Each order comparison is `x < y` or its negation.
        let (x, y, equality, negate) = match op {
            BinaryOp::Eq => (a, b, true, false),
            BinaryOp::Ne => (a, b, true, true),
            BinaryOp::Lt => (a, b, false, false),
            BinaryOp::Ge => (a, b, false, true),
            BinaryOp::Gt => (b, a, false, false),
            BinaryOp::Le => (b, a, false, true),
            BinaryOp::Add
            | BinaryOp::Sub
            | BinaryOp::Mul
            | BinaryOp::Div
            | BinaryOp::Rem
            | BinaryOp::DivFloor
            | BinaryOp::RemFloor
            | BinaryOp::DivEuclid
            | BinaryOp::RemEuclid
            | BinaryOp::Pow
            | BinaryOp::Powi
            | BinaryOp::Powf
            | BinaryOp::WrappingAdd
            | BinaryOp::WrappingSub
            | BinaryOp::WrappingMul
            | BinaryOp::BitAnd
            | BinaryOp::BitOr
            | BinaryOp::BitXor
            | BinaryOp::Shl
            | BinaryOp::Shr
            | BinaryOp::Min
            | BinaryOp::Max
            | BinaryOp::And
            | BinaryOp::Or => return Fact::Opaque,
        };
        let along = self.statics[x].along | self.statics[y].along;
        let difference = match (self.statics[x].affine, self.statics[y].affine) {
            (Some(p), Some(q)) => p.plus(q, -1),
            (None, _) | (_, None) => None,
        };
        let step = match difference.map(|affine| self.push_affine_step(affine, Ty::I64)) {
            Some(d) if equality => BoolStep::Zero(d, self.statics[d].congruent),
            Some(d) => BoolStep::Negative(d),
            None if equality => {
                let (p, q) = (self.statics[x].congruent, self.statics[y].congruent);
                BoolStep::Equal(x, y, (gcd(p.0, q.0), p.1.wrapping_sub(q.1)))
            }
            None => BoolStep::Less(x, y),
        };
        let mut at = self.push_bool(step, along);
        if negate {
            at = self.push_bool(BoolStep::Not(at), along);
        }
        Fact::Bool(at)
    }

    fn int_binary(&mut self, op: BinaryOp, a: usize, b: usize, ty: Ty) -> Fact {
        let (x, y) = (self.statics[a], self.statics[b]);
        let affine = match (op, x.affine, y.affine) {
            (BinaryOp::Add, Some(p), Some(q)) => p.plus(q, 1),
            (BinaryOp::Sub, Some(p), Some(q)) => p.plus(q, -1),
            (BinaryOp::Mul, Some(p), Some(q)) => match (p.as_constant(), q.as_constant()) {
                (_, Some(c)) => p.times(c),
                (Some(c), _) => q.times(c),
                (None, None) => None,
            },
            _ => None,
        };
        if let Some(affine) = affine {
            return self.push_affine(affine, ty);
        }
        let sum = |sign: i64| {
            let m = gcd(x.congruent.0, y.congruent.0);
            let r = x.congruent.1.wrapping_add(y.congruent.1.wrapping_mul(sign));
            if m == 0 { (1, 0) } else { (m, r.rem_euclid(m)) }
        };
        let constant = |s: Static| s.affine.and_then(Affine::as_constant);
        let mut congruent = (1, 0);
        let step = match op {
            BinaryOp::Add => {
                congruent = sum(1);
                IntStep::Add(a, b)
            }
            BinaryOp::Sub => {
                congruent = sum(-1);
                IntStep::Sub(a, b)
            }
            BinaryOp::Mul => {
                for (other, c) in [(x, constant(y)), (y, constant(x))] {
                    if let Some(c) = c.filter(|c| *c != 0)
                        && let (Some(m), Some(r)) = (
                            other.congruent.0.checked_mul(c.saturating_abs()),
                            other.congruent.1.checked_mul(c),
                        )
                    {
                        congruent = (m, r);
                    }
                }
                IntStep::Mul(a, b)
            }
            BinaryOp::Div => IntStep::Div(a, b, Rounding::Truncate),
            BinaryOp::DivFloor => IntStep::Div(a, b, Rounding::Floor),
            BinaryOp::DivEuclid => IntStep::Div(a, b, Rounding::Euclid),
            BinaryOp::Rem | BinaryOp::RemFloor | BinaryOp::RemEuclid => {
                let rounding = match op {
                    BinaryOp::RemFloor => Rounding::Floor,
                    BinaryOp::RemEuclid => Rounding::Euclid,
                    _ => Rounding::Truncate,
                };
                match constant(y) {
                    Some(m) if 0 < m => {
                        let circle = circle(x, m);
                        // A truncated remainder keeps the residue class too: a multiple of the stride is taken off.
                        congruent = (circle.stride, circle.residue);
                        IntStep::RemConst(a, circle, rounding)
                    }
                    Some(_) | None => IntStep::Rem(a, b, rounding),
                }
            }
            // The exact sum where it fits, anything of the type where it may have wrapped.
            BinaryOp::WrappingAdd => IntStep::Add(a, b),
            BinaryOp::WrappingSub => IntStep::Sub(a, b),
            BinaryOp::WrappingMul => IntStep::Mul(a, b),
            BinaryOp::BitAnd => IntStep::BitAnd(a, b),
            BinaryOp::BitOr => IntStep::BitOr(a, b),
            BinaryOp::BitXor => IntStep::BitXor(a, b),
            BinaryOp::Shl => IntStep::Shl(a, b),
            BinaryOp::Shr => IntStep::Shr(a, b),
            BinaryOp::Min => IntStep::Min(a, b),
            BinaryOp::Max => IntStep::Max(a, b),
            BinaryOp::Pow => {
                let (lo, hi) = ty.int_range().unwrap_or((i64::MIN, i64::MAX));
                IntStep::Range(lo, hi)
            }
            BinaryOp::Powi
            | BinaryOp::Powf
            | BinaryOp::And
            | BinaryOp::Or
            | BinaryOp::Eq
            | BinaryOp::Ne
            | BinaryOp::Lt
            | BinaryOp::Le
            | BinaryOp::Gt
            | BinaryOp::Ge => return Fact::Opaque,
        };
        let known = Static {
            affine: None,
            congruent,
            along: x.along | y.along,
        };
        self.push_int(step, ty, known)
    }

    fn cast(&mut self, to: Ty, arg: ExprId) -> Fact {
        if let Some(value) = self.as_const(arg) {
            return Fact::Const(scalar::cast(to, value));
        }
        let from = self.rule.arena.ty(arg);
        match (from, to) {
            (Ty::Bool, Ty::Bool) => self.facts[arg.index()],
            (_, Ty::F32) => Fact::Opaque,
            (Ty::F32, _) => self.anything(to),
            (Ty::Bool, _) => {
                let cond = self.bool_or_unknown(arg);
                let known = opaque_static(self.statics[cond].along);
                self.push_int(IntStep::FromBool(cond), to, known)
            }
            (_, Ty::Bool) => Fact::Opaque,
            (Ty::I32 | Ty::I64 | Ty::U32, Ty::I32 | Ty::I64 | Ty::U32) => {
                let Some(a) = self.int(arg) else {
                    return self.anything(to);
                };
                let widens = to == Ty::I64 || to == from;
                if widens {
                    return Fact::Int(a);
                }
                // Adding 0 wraps into the new type, or says that it did not.
                let zero = self.push_affine_step(Affine::constant(0), to);
                let known = opaque_static(self.statics[a].along);
                self.push_int(IntStep::Add(a, zero), to, known)
            }
        }
    }

    fn select(&mut self, cond: ExprId, then: ExprId, otherwise: ExprId, ty: Ty) -> Fact {
        if let Some(value) = self.as_const(cond) {
            let branch = if value == Const::Bool(true) {
                then
            } else {
                otherwise
            };
            return self.facts[branch.index()];
        }
        let c = self.bool_or_unknown(cond);
        if ty == Ty::Bool {
            let (t, e) = (self.bool_or_unknown(then), self.bool_or_unknown(otherwise));
            let along = self.statics[c].along | self.statics[t].along | self.statics[e].along;
            return Fact::Bool(self.push_bool(BoolStep::Select(c, t, e), along));
        }
        let (Some(t), Some(e)) = (self.int(then), self.int(otherwise)) else {
            return Fact::Opaque;
        };
        let along = self.statics[c].along | self.statics[t].along | self.statics[e].along;
        self.push_int(IntStep::Select(c, t, e), ty, opaque_static(along))
    }

    fn as_const(&self, id: ExprId) -> Option<Const> {
        match self.facts[id.index()] {
            Fact::Const(value) => Some(value),
            Fact::Int(_) | Fact::Bool(_) | Fact::Opaque => None,
        }
    }

    /// The step that computes an integer node.
    fn int(&mut self, id: ExprId) -> Option<usize> {
        match self.facts[id.index()] {
            Fact::Int(at) => Some(at),
            Fact::Const(value) => {
                let v = value.as_int()?;
                Some(self.push_affine_step(Affine::constant(v), value.ty()))
            }
            Fact::Bool(_) | Fact::Opaque => None,
        }
    }

    fn bool(&mut self, id: ExprId) -> Option<usize> {
        match self.facts[id.index()] {
            Fact::Bool(at) => Some(at),
            Fact::Const(value) => {
                let v = value.as_int()?;
                let at = self.push_affine_step(Affine::constant(v), Ty::Bool);
                Some(self.push_bool(BoolStep::FromInt(at), 0))
            }
            Fact::Int(_) | Fact::Opaque => None,
        }
    }

    fn bool_or_unknown(&mut self, id: ExprId) -> usize {
        self.bool(id)
            .unwrap_or_else(|| self.push_bool(BoolStep::Unknown, ALONG_Q | ALONG_KV))
    }

    /// A value of which nothing is known.
    fn anything(&mut self, ty: Ty) -> Fact {
        match (ty, ty.int_range()) {
            (Ty::Bool, _) => Fact::Bool(self.push_bool(BoolStep::Unknown, ALONG_Q | ALONG_KV)),
            (Ty::I32 | Ty::I64 | Ty::U32, Some((lo, hi))) => self.push_int(
                IntStep::Range(lo, hi),
                ty,
                opaque_static(ALONG_Q | ALONG_KV),
            ),
            (Ty::I32 | Ty::I64 | Ty::U32 | Ty::F32, _) => Fact::Opaque,
        }
    }

    fn push_affine(&mut self, affine: Affine, ty: Ty) -> Fact {
        if let Some(value) = affine.as_constant().and_then(|v| Const::from_int(ty, v)) {
            return Fact::Const(value);
        }
        Fact::Int(self.push_affine_step(affine, ty))
    }

    fn push_affine_step(&mut self, affine: Affine, ty: Ty) -> usize {
        let m = gcd(gcd(affine.q, affine.kv), gcd(affine.q_len, affine.kv_len));
        let along =
            if affine.q != 0 { ALONG_Q } else { 0 } | if affine.kv != 0 { ALONG_KV } else { 0 };
        self.steps.push(Step::Int(IntStep::Affine(affine), ty));
        self.statics.push(Static {
            affine: Some(affine),
            // A constant is congruent to itself modulo anything; 0 stands for that.
            congruent: (m, affine.constant),
            along,
        });
        self.steps.len() - 1
    }

    fn push_int(&mut self, step: IntStep, ty: Ty, known: Static) -> Fact {
        self.steps.push(Step::Int(step, ty));
        self.statics.push(known);
        Fact::Int(self.steps.len() - 1)
    }

    fn push_bool(&mut self, step: BoolStep, along: u8) -> usize {
        self.steps.push(Step::Bool(step));
        self.statics.push(opaque_static(along));
        self.steps.len() - 1
    }
}

/// The residues of a value modulo `m`, and how many positions along an axis run through all of them.
fn circle(known: Static, m: i64) -> Circle {
    let stride = gcd(known.congruent.0, m).max(1);
    let along = |coefficient: i64| {
        let cycle = gcd(coefficient, m);
        if coefficient != 0 && cycle == stride {
            m / cycle
        } else {
            i64::MAX
        }
    };
    let sweep = match known.affine {
        Some(a) if a.q_len == 0 && a.kv_len == 0 => (along(a.q), along(a.kv)),
        Some(_) | None => (i64::MAX, i64::MAX),
    };
    Circle {
        m,
        stride,
        residue: known.congruent.1,
        sweep,
    }
}

fn opaque_static(along: u8) -> Static {
    Static {
        affine: None,
        congruent: (1, 0),
        along,
    }
}
