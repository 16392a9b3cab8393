//! Compiles a mask for one plane into a tape of abstract operations, with everything that the plane fixes folded.

use std::collections::HashMap;
use std::sync::Arc;

use crate::bucket::Relation;
use crate::capture::Bindings;
use crate::eval::scalar;
use crate::ir::{BinaryOp, CaptureId, Const, Elem, Expr, ExprId, Rule, Ty, UnaryOp, Var};

use super::affine::{Affine, gcd};
use super::region::Region;
use super::table::AxisTable;
use super::tri::Tri;
use super::value::Value;

/// Bounds of what the members of a bucket may have, for rules that read lengths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LengthRanges {
    pub(crate) q_len: (i64, i64),
    pub(crate) kv_len: (i64, i64),
    /// How the two relate in every member.
    pub(crate) relation: Relation,
}

/// What one node of the rule is on this plane.
#[derive(Clone, Copy, Debug)]
enum Fact {
    Const(Const),
    Int(usize),
    Bool(usize),
    /// A float, or anything that only cells decide.
    Opaque,
}

#[derive(Clone, Copy, Debug)]
enum IntStep {
    Affine(Affine),
    Range(i64, i64),
    Load(usize, usize),
    FromBool(usize),
    Neg(usize),
    Not(usize),
    Abs(usize),
    Signum(usize),
    Add(usize, usize),
    Sub(usize, usize),
    Mul(usize, usize),
    Div(usize, usize, Rounding),
    Rem(usize, usize, Rounding),
    Min(usize, usize),
    Max(usize, usize),
    BitAnd(usize, usize),
    BitOr(usize, usize),
    BitXor(usize, usize),
    Shl(usize, usize),
    Shr(usize, usize),
    Select(usize, usize, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rounding {
    Truncate,
    Floor,
    Euclid,
}

#[derive(Clone, Copy, Debug)]
enum BoolStep {
    Unknown,
    FromInt(usize),
    Equal(usize, usize, Option<usize>),
    /// Whether an integer is negative: every order comparison is one of a difference.
    Less(usize, usize, Option<usize>),
    Not(usize),
    And(usize, usize),
    Or(usize, usize),
    Xor(usize, usize),
    Select(usize, usize, usize),
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Int(IntStep, Ty),
    Bool(BoolStep),
}

/// Which axes a value varies along.
const ALONG_Q: u8 = 1;
const ALONG_KV: u8 = 2;

#[derive(Clone, Copy, Debug)]
struct Static {
    affine: Option<Affine>,
    /// The value is congruent to `.1` modulo `.0`.
    congruent: (i64, i64),
    along: u8,
}

/// A mask on one (batch, head) plane, ready to be decided over regions.
#[derive(Debug)]
pub(crate) struct PlaneClassifier {
    steps: Vec<Step>,
    statics: Vec<Static>,
    tables: Vec<Arc<AxisTable>>,
    lengths: LengthRanges,
    root: Root,
    ints: Vec<Value>,
    bools: Vec<Tri>,
}

#[derive(Clone, Copy, Debug)]
enum Root {
    Always(bool),
    Step(usize),
}

/// Tables that several planes share: by buffer, axis and first element.
pub(crate) type TableCache = HashMap<(CaptureId, usize, usize), Option<Arc<AxisTable>>>;

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
        let mut plane = PlaneClassifier {
            ints: vec![Value::constant(0); steps.len()],
            bools: vec![Tri::UNKNOWN; steps.len()],
            steps,
            statics,
            tables,
            lengths,
            root,
        };
        plane.drop_dead_steps();
        plane
    }

    /// What the mask is over a region.
    pub(crate) fn decide(&mut self, region: &Region) -> Tri {
        let root = match self.root {
            Root::Always(value) => return Tri::constant(value),
            Root::Step(root) => root,
        };
        for at in 0..self.steps.len() {
            match self.steps[at] {
                Step::Int(step, ty) => self.ints[at] = self.int_step(step, ty, region),
                Step::Bool(step) => self.bools[at] = self.bool_step(step),
            }
        }
        self.bools[root]
    }

    /// Affine forms made many steps needless; keeps what the root needs.
    fn drop_dead_steps(&mut self) {
        let Root::Step(root) = self.root else { return };
        let mut needed = vec![false; self.steps.len()];
        needed[root] = true;
        for at in (0..=root).rev() {
            if needed[at] {
                for_each_operand(&self.steps[at], |operand| needed[operand] = true);
            }
        }
        let mut moved = vec![usize::MAX; self.steps.len()];
        let mut kept = 0;
        for at in 0..self.steps.len() {
            if needed[at] {
                moved[at] = kept;
                self.steps[kept] = renumbered(self.steps[at], &moved);
                self.statics[kept] = self.statics[at];
                kept += 1;
            }
        }
        self.steps.truncate(kept);
        self.statics.truncate(kept);
        self.ints.truncate(kept);
        self.bools.truncate(kept);
        self.root = Root::Step(moved[root]);
    }

    fn apart(&self, a: usize, b: usize) -> bool {
        self.statics[a].along & self.statics[b].along == 0
    }

    fn int_step(&self, step: IntStep, ty: Ty, region: &Region) -> Value {
        let v = |i: usize| self.ints[i];
        match step {
            IntStep::Affine(affine) => self.affine(affine, region),
            IntStep::Range(lo, hi) => Value::range(lo, hi),
            IntStep::Load(table, index) => {
                let table = &self.tables[table];
                let i = v(index);
                let (lo, hi) = (i.lo.max(0), i.hi.min(table.extent() - 1));
                if hi < lo {
                    // No cell of the region performs the read.
                    return Value::of_type(ty);
                }
                let (least, greatest) = table.query(lo, hi);
                // Each position is read by some cell only if all were in range and densely attained.
                let dense =
                    i.step == 1 && (i.at_lo, i.at_hi) == (lo, hi) && (i.lo, i.hi) == (lo, hi);
                if dense {
                    Value::attained(least, greatest, greatest.saturating_sub(least).max(1))
                } else {
                    Value::range(least, greatest)
                }
            }
            IntStep::FromBool(cond) => {
                let tri = self.bools[cond];
                if tri.is_true() {
                    Value::constant(1)
                } else if tri.is_false() {
                    Value::constant(0)
                } else if tri.is_mixed() {
                    Value::attained(0, 1, 1)
                } else {
                    Value::range(0, 1)
                }
            }
            IntStep::Neg(a) => v(a).neg().wrapped(ty),
            IntStep::Not(a) => match ty {
                // `!x` is `-1 - x` in two's complement, and `MAX - x` unsigned.
                Ty::U32 => Value::constant(i64::from(u32::MAX)).sub(v(a), false),
                Ty::Bool | Ty::I32 | Ty::I64 | Ty::F32 => Value::constant(-1).sub(v(a), false),
            },
            IntStep::Abs(a) => v(a).abs(),
            IntStep::Signum(a) => v(a).signum(),
            IntStep::Add(a, b) => v(a).add(v(b), self.apart(a, b)).wrapped(ty),
            IntStep::Sub(a, b) => v(a).sub(v(b), self.apart(a, b)).wrapped(ty),
            IntStep::Mul(a, b) => v(a).mul(v(b)).wrapped(ty),
            IntStep::Div(a, b, rounding) => divide(v(a), v(b), rounding),
            IntStep::Rem(a, b, rounding) => self.remainder(a, v(b), rounding, region),
            IntStep::Min(a, b) => v(a).min(v(b), self.apart(a, b)),
            IntStep::Max(a, b) => v(a).max(v(b), self.apart(a, b)),
            IntStep::BitAnd(a, b) => v(a).bit_and(v(b)).wrapped(ty),
            IntStep::BitOr(a, b) => v(a).bit_or(v(b)).wrapped(ty),
            IntStep::BitXor(a, b) => v(a).bit_xor(v(b)).wrapped(ty),
            IntStep::Shl(a, b) => v(a).shl(v(b)).wrapped(ty),
            IntStep::Shr(a, b) => v(a).shr(v(b)),
            IntStep::Select(c, t, e) => {
                let cond = self.bools[c];
                if cond.is_true() {
                    v(t)
                } else if cond.is_false() {
                    v(e)
                } else {
                    v(t).join(v(e))
                }
            }
        }
    }

    fn bool_step(&self, step: BoolStep) -> Tri {
        let b = |i: usize| self.bools[i];
        match step {
            BoolStep::Unknown => Tri::UNKNOWN,
            BoolStep::FromInt(a) => self.ints[a].equals(Value::constant(0), true, (1, 0)).not(),
            BoolStep::Equal(x, y, difference) => {
                if let Some(d) = difference {
                    let congruent = self.statics[d].congruent;
                    return self.ints[d].equals(Value::constant(0), true, congruent);
                }
                let (a, b) = (self.statics[x].congruent, self.statics[y].congruent);
                let congruent = (gcd(a.0, b.0), a.1.wrapping_sub(b.1));
                let congruent = if congruent.0 == 0 { (1, 0) } else { congruent };
                self.ints[x].equals(self.ints[y], self.apart(x, y), congruent)
            }
            BoolStep::Less(x, y, difference) => match difference {
                Some(d) => self.ints[d].is_negative(),
                None => self.ints[x]
                    .sub(self.ints[y], self.apart(x, y))
                    .is_negative(),
            },
            BoolStep::Not(a) => b(a).not(),
            BoolStep::And(x, y) => b(x).and(b(y)),
            BoolStep::Or(x, y) => b(x).or(b(y)),
            BoolStep::Xor(x, y) => b(x).xor(b(y)),
            BoolStep::Select(c, t, e) => b(c).select(b(t), b(e)),
        }
    }

    fn affine(&self, a: Affine, region: &Region) -> Value {
        let span = |c: i64, (lo, hi): (i64, i64)| {
            let (x, y) = (c.saturating_mul(lo), c.saturating_mul(hi));
            (x.min(y), x.max(y))
        };
        let (q, kv) = (span(a.q, region.q), span(a.kv, region.kv));
        let lengths = self.length_span(a.q_len, a.kv_len);
        let sum = |x: i64, y: i64, z: i64| {
            x.saturating_add(y)
                .saturating_add(z)
                .saturating_add(a.constant)
        };
        let (lo, hi) = (sum(q.0, kv.0, lengths.0), sum(q.1, kv.1, lengths.1));
        if !region.single || lengths.0 != lengths.1 {
            return Value::range(lo, hi);
        }
        // Neighbouring rows (or columns) of values overlap where one coefficient is 1 and the other short.
        let n_q = region.q.1 - region.q.0 + 1;
        let n_kv = region.kv.1 - region.kv.0 + 1;
        let (cq, ckv) = (a.q.saturating_abs(), a.kv.saturating_abs());
        let dense = ckv == 1 && (cq <= n_kv || n_q == 1) || cq == 1 && (ckv <= n_q || n_kv == 1);
        let step = if dense {
            1
        } else if cq == 0 && ckv != 0 {
            ckv
        } else if ckv == 0 && cq != 0 {
            cq
        } else {
            hi.saturating_sub(lo).max(1)
        };
        if lo == i64::MIN || hi == i64::MAX {
            return Value::range(lo, hi);
        }
        Value::attained(lo, hi, step)
    }

    /// Bounds of `q * q_len + kv * kv_len` over the members of the bucket.
    fn length_span(&self, q: i64, kv: i64) -> (i64, i64) {
        if q == 0 && kv == 0 {
            return (0, 0);
        }
        let l = &self.lengths;
        let span = |c: i64, (lo, hi): (i64, i64)| {
            let (x, y) = (c.saturating_mul(lo), c.saturating_mul(hi));
            (x.min(y), x.max(y))
        };
        if l.relation == Relation::Equal {
            let both = (l.q_len.0.max(l.kv_len.0), l.q_len.1.min(l.kv_len.1));
            return span(q.saturating_add(kv), both);
        }
        let (a, b) = (span(q, l.q_len), span(kv, l.kv_len));
        let apart = (a.0.saturating_add(b.0), a.1.saturating_add(b.1));
        if l.relation == Relation::Free {
            return apart;
        }
        // The same sum as q * (q_len - kv_len) + (q + kv) * kv_len, where the difference is not positive.
        let difference = (l.q_len.0 - l.kv_len.1, (l.q_len.1 - l.kv_len.0).min(0));
        let (a, b) = (span(q, difference), span(q.saturating_add(kv), l.kv_len));
        (
            apart.0.max(a.0.saturating_add(b.0)),
            apart.1.min(a.1.saturating_add(b.1)),
        )
    }

    fn remainder(
        &self,
        dividend: usize,
        divisor: Value,
        rounding: Rounding,
        region: &Region,
    ) -> Value {
        let x = self.ints[dividend];
        let reach = divisor.lo.saturating_abs().max(divisor.hi.saturating_abs());
        let floor_like = match rounding {
            Rounding::Truncate => 0 <= x.lo,
            Rounding::Floor | Rounding::Euclid => true,
        };
        if divisor.is_constant() && 0 < divisor.lo && floor_like {
            let m = divisor.lo;
            let congruent = self.statics[dividend].congruent;
            let stride = gcd(congruent.0, m).max(1);
            let sweeps = self.statics[dividend]
                .affine
                .is_some_and(|affine| sweeps_residues(affine, m, stride, region));
            return x.rem_floor(m, stride, congruent.1, sweeps);
        }
        let limit = reach.saturating_sub(1).max(0);
        let lo = match rounding {
            Rounding::Euclid => 0,
            Rounding::Truncate if 0 <= x.lo => 0,
            Rounding::Floor if 0 < divisor.lo => 0,
            Rounding::Truncate | Rounding::Floor => -limit,
        };
        let hi = match rounding {
            Rounding::Truncate if x.hi <= 0 => 0,
            Rounding::Floor if divisor.hi < 0 => 0,
            Rounding::Truncate if 0 <= x.lo => limit.min(x.hi),
            Rounding::Truncate | Rounding::Floor | Rounding::Euclid => limit,
        };
        Value::range(lo, hi.max(lo))
    }
}

fn divide(x: Value, divisor: Value, rounding: Rounding) -> Value {
    match rounding {
        Rounding::Truncate => x.div(divisor, |a, b| a / b),
        // By a positive divisor, Euclid's quotient is the floor.
        Rounding::Floor | Rounding::Euclid => x.div(divisor, i64::div_euclid),
    }
}

/// Whether each block of the region runs through all residues of the form modulo `m` that are `stride` apart.
fn sweeps_residues(a: Affine, m: i64, stride: i64, region: &Region) -> bool {
    let along = |coefficient: i64, cells: i64| {
        let cycle = gcd(coefficient, m);
        coefficient != 0 && cycle == stride && m / cycle <= cells
    };
    a.q_len == 0 && a.kv_len == 0 && (along(a.kv, region.block_kv) || along(a.q, region.block_q))
}

fn for_each_operand(step: &Step, mut f: impl FnMut(usize)) {
    match *step {
        Step::Int(step, _) => match step {
            IntStep::Affine(_) | IntStep::Range(..) => {}
            IntStep::Load(_, a)
            | IntStep::FromBool(a)
            | IntStep::Neg(a)
            | IntStep::Not(a)
            | IntStep::Abs(a)
            | IntStep::Signum(a) => f(a),
            IntStep::Add(a, b)
            | IntStep::Sub(a, b)
            | IntStep::Mul(a, b)
            | IntStep::Div(a, b, _)
            | IntStep::Rem(a, b, _)
            | IntStep::Min(a, b)
            | IntStep::Max(a, b)
            | IntStep::BitAnd(a, b)
            | IntStep::BitOr(a, b)
            | IntStep::BitXor(a, b)
            | IntStep::Shl(a, b)
            | IntStep::Shr(a, b) => {
                f(a);
                f(b);
            }
            IntStep::Select(c, t, e) => {
                f(c);
                f(t);
                f(e);
            }
        },
        Step::Bool(step) => match step {
            BoolStep::Unknown => {}
            BoolStep::FromInt(a) | BoolStep::Not(a) => f(a),
            // A comparison with a difference needs nothing else.
            BoolStep::Equal(_, _, Some(d)) | BoolStep::Less(_, _, Some(d)) => f(d),
            BoolStep::Equal(a, b, None)
            | BoolStep::Less(a, b, None)
            | BoolStep::And(a, b)
            | BoolStep::Or(a, b)
            | BoolStep::Xor(a, b) => {
                f(a);
                f(b);
            }
            BoolStep::Select(c, t, e) => {
                f(c);
                f(t);
                f(e);
            }
        },
    }
}

fn renumbered(step: Step, moved: &[usize]) -> Step {
    let m = |i: usize| moved[i];
    match step {
        Step::Int(step, ty) => {
            let step = match step {
                IntStep::Affine(_) | IntStep::Range(..) => step,
                IntStep::Load(table, a) => IntStep::Load(table, m(a)),
                IntStep::FromBool(a) => IntStep::FromBool(m(a)),
                IntStep::Neg(a) => IntStep::Neg(m(a)),
                IntStep::Not(a) => IntStep::Not(m(a)),
                IntStep::Abs(a) => IntStep::Abs(m(a)),
                IntStep::Signum(a) => IntStep::Signum(m(a)),
                IntStep::Add(a, b) => IntStep::Add(m(a), m(b)),
                IntStep::Sub(a, b) => IntStep::Sub(m(a), m(b)),
                IntStep::Mul(a, b) => IntStep::Mul(m(a), m(b)),
                IntStep::Div(a, b, r) => IntStep::Div(m(a), m(b), r),
                IntStep::Rem(a, b, r) => IntStep::Rem(m(a), m(b), r),
                IntStep::Min(a, b) => IntStep::Min(m(a), m(b)),
                IntStep::Max(a, b) => IntStep::Max(m(a), m(b)),
                IntStep::BitAnd(a, b) => IntStep::BitAnd(m(a), m(b)),
                IntStep::BitOr(a, b) => IntStep::BitOr(m(a), m(b)),
                IntStep::BitXor(a, b) => IntStep::BitXor(m(a), m(b)),
                IntStep::Shl(a, b) => IntStep::Shl(m(a), m(b)),
                IntStep::Shr(a, b) => IntStep::Shr(m(a), m(b)),
                IntStep::Select(c, t, e) => IntStep::Select(m(c), m(t), m(e)),
            };
            Step::Int(step, ty)
        }
        Step::Bool(step) => Step::Bool(match step {
            BoolStep::Unknown => step,
            BoolStep::FromInt(a) => BoolStep::FromInt(m(a)),
            BoolStep::Not(a) => BoolStep::Not(m(a)),
            BoolStep::Equal(a, b, d) => BoolStep::Equal(m(a), m(b), d.map(m)),
            BoolStep::Less(a, b, d) => BoolStep::Less(m(a), m(b), d.map(m)),
            BoolStep::And(a, b) => BoolStep::And(m(a), m(b)),
            BoolStep::Or(a, b) => BoolStep::Or(m(a), m(b)),
            BoolStep::Xor(a, b) => BoolStep::Xor(m(a), m(b)),
            BoolStep::Select(c, t, e) => BoolStep::Select(m(c), m(t), m(e)),
        }),
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
        let difference = difference.map(|affine| self.push_affine_step(affine, Ty::I64));
        let step = if equality {
            BoolStep::Equal(x, y, difference)
        } else {
            BoolStep::Less(x, y, difference)
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
                if let Some(m) = constant(y).filter(|m| *m != 0) {
                    let g = gcd(x.congruent.0, m).max(1);
                    congruent = (g, x.congruent.1.rem_euclid(g));
                }
                let rounding = match op {
                    BinaryOp::RemFloor => Rounding::Floor,
                    BinaryOp::RemEuclid => Rounding::Euclid,
                    _ => Rounding::Truncate,
                };
                IntStep::Rem(a, b, rounding)
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

fn opaque_static(along: u8) -> Static {
    Static {
        affine: None,
        congruent: (1, 0),
        along,
    }
}
