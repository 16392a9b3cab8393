//! The tape: abstract operations of one plane, run over a region.

use std::sync::Arc;

use crate::bucket::Relation;
use crate::ir::Ty;

use super::affine::Affine;
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

#[derive(Clone, Copy, Debug)]
pub(super) enum IntStep {
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
    /// By a positive constant.
    RemConst(usize, Circle, Rounding),
    Min(usize, usize),
    Max(usize, usize),
    BitAnd(usize, usize),
    BitOr(usize, usize),
    BitXor(usize, usize),
    Shl(usize, usize),
    Shr(usize, usize),
    Select(usize, usize, usize),
}

/// Residues modulo a positive constant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circle {
    pub(super) m: i64,
    /// The dividend is always congruent to `residue` modulo `stride`, which divides `m`.
    pub(super) stride: i64,
    pub(super) residue: i64,
    /// So many query positions, or so many keys, run through every such residue.
    pub(super) sweep: (i64, i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounding {
    Truncate,
    Floor,
    Euclid,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum BoolStep {
    Unknown,
    FromInt(usize),
    /// Equality; the difference is congruent to `.2.1` modulo `.2.0`.
    Equal(usize, usize, (i64, i64)),
    Less(usize, usize),
    /// Equality of an affine difference with 0.
    Zero(usize, (i64, i64)),
    /// Order by an affine difference.
    Negative(usize),
    Not(usize),
    And(usize, usize),
    Or(usize, usize),
    Xor(usize, usize),
    Select(usize, usize, usize),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Int(IntStep, Ty),
    Bool(BoolStep),
}

/// Which axes a value varies along.
pub(super) const ALONG_Q: u8 = 1;
pub(super) const ALONG_KV: u8 = 2;

#[derive(Clone, Copy, Debug)]
pub(super) struct Static {
    pub(super) affine: Option<Affine>,
    /// The value is congruent to `.1` modulo `.0`.
    pub(super) congruent: (i64, i64),
    pub(super) along: u8,
}

/// A mask on one (batch, head) plane, ready to be decided over regions.
#[derive(Debug)]
pub(crate) struct PlaneClassifier {
    steps: Vec<Step>,
    statics: Vec<Static>,
    tables: Vec<Arc<AxisTable>>,
    lengths: LengthRanges,
    root: Root,
    /// Steps whose answer, where it is this one everywhere, is that of the whole mask.
    settles: Vec<Option<bool>>,
    /// Steps that vary along the query axis alone, and those that vary along the key axis alone.
    axes: [Axis; 2],
    /// The other steps that vary, in order.
    mixed: Vec<usize>,
    ints: Vec<Value>,
    bools: Vec<Tri>,
}

/// The part of a tape that depends on one axis. Regions share rows and columns, so its results are kept.
#[derive(Debug, Default)]
struct Axis {
    steps: Vec<usize>,
    /// Steps that others read, or that may settle the mask.
    exports: Vec<usize>,
    keys: Vec<Option<AxisKey>>,
    ints: Vec<Value>,
    bools: Vec<Tri>,
}

/// Range of positions, least number of them in a block, and whether the region is one block.
type AxisKey = ((i64, i64), i64, bool);

/// Results kept per axis; a power of two. Cutting a plane comes back to the same ranges soon or never.
const KEPT: usize = 256;

#[derive(Clone, Copy, Debug)]
pub(super) enum Root {
    Always(bool),
    Step(usize),
}

impl PlaneClassifier {
    pub(super) fn from_tape(
        steps: Vec<Step>,
        statics: Vec<Static>,
        tables: Vec<Arc<AxisTable>>,
        lengths: LengthRanges,
        root: Root,
    ) -> PlaneClassifier {
        let mut plane = PlaneClassifier {
            ints: vec![Value::constant(0); steps.len()],
            bools: vec![Tri::UNKNOWN; steps.len()],
            steps,
            statics,
            tables,
            lengths,
            root,
            settles: Vec::new(),
            axes: Default::default(),
            mixed: Vec::new(),
        };
        plane.drop_dead_steps();
        plane.find_settling_steps();
        plane.split_by_axis();
        plane
    }

    /// What the mask is over a region.
    pub(crate) fn decide(&mut self, region: &Region) -> Tri {
        let root = match self.root {
            Root::Always(value) => return Tri::constant(value),
            Root::Step(root) => root,
        };
        for axis in 0..2 {
            if let Some(answer) = self.run_axis(axis, region) {
                return answer;
            }
        }
        for i in 0..self.mixed.len() {
            let at = self.mixed[i];
            self.run_step(at, region);
            if let Some(answer) = self.settled(at) {
                return answer;
            }
        }
        self.bools[root]
    }

    fn run_step(&mut self, at: usize, region: &Region) {
        match self.steps[at] {
            Step::Int(step, ty) => self.ints[at] = self.int_step(step, ty, region),
            Step::Bool(step) => self.bools[at] = self.bool_step(step),
        }
    }

    fn settled(&self, at: usize) -> Option<Tri> {
        match self.settles[at] {
            Some(false) if self.bools[at].is_false() => Some(Tri::FALSE),
            Some(true) if self.bools[at].is_true() => Some(Tri::TRUE),
            Some(_) | None => None,
        }
    }

    fn run_axis(&mut self, axis: usize, region: &Region) -> Option<Tri> {
        let n_exports = self.axes[axis].exports.len();
        if n_exports == 0 {
            return None;
        }
        let key = match axis {
            0 => (region.q, region.block_q, region.single),
            _ => (region.kv, region.block_kv, region.single),
        };
        let mixed_up = (key.0.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ (key.0.1 as u64).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
        let slot = (mixed_up >> 40) as usize % KEPT;
        let base = slot * n_exports;
        if self.axes[axis].keys[slot] == Some(key) {
            for i in 0..n_exports {
                let at = self.axes[axis].exports[i];
                match self.steps[at] {
                    Step::Int(..) => self.ints[at] = self.axes[axis].ints[base + i],
                    Step::Bool(_) => self.bools[at] = self.axes[axis].bools[base + i],
                }
            }
        } else {
            for i in 0..self.axes[axis].steps.len() {
                let at = self.axes[axis].steps[i];
                self.run_step(at, region);
            }
            let kept = &mut self.axes[axis];
            kept.keys[slot] = Some(key);
            for (i, &at) in kept.exports.iter().enumerate() {
                kept.ints[base + i] = self.ints[at];
                kept.bools[base + i] = self.bools[at];
            }
        }
        (0..n_exports).find_map(|i| self.settled(self.axes[axis].exports[i]))
    }

    /// Sorts the steps by the axis they vary along; those that do not vary are computed here, once.
    fn split_by_axis(&mut self) {
        let along = |statics: &[Static], at: usize| statics[at].along;
        let mut exported = vec![false; self.steps.len()];
        if let Root::Step(root) = self.root {
            exported[root] = true;
        }
        for (at, step) in self.steps.iter().enumerate() {
            let own = along(&self.statics, at);
            exported[at] |= self.settles[at].is_some();
            for_each_operand(step, |operand| {
                exported[operand] |= along(&self.statics, operand) != own;
            });
        }
        let nowhere = Region {
            q: (0, 0),
            kv: (0, 0),
            block_q: 1,
            block_kv: 1,
            single: true,
        };
        for (at, is_exported) in exported.into_iter().enumerate() {
            let axis = match along(&self.statics, at) {
                0 => {
                    self.run_step(at, &nowhere);
                    // It may still settle the mask, so it is looked at with the mixed steps.
                    if self.settles[at].is_some() {
                        self.mixed.push(at);
                    }
                    continue;
                }
                ALONG_Q => &mut self.axes[0],
                ALONG_KV => &mut self.axes[1],
                _ => {
                    self.mixed.push(at);
                    continue;
                }
            };
            axis.steps.push(at);
            if is_exported {
                axis.exports.push(at);
            }
        }
        for axis in &mut self.axes {
            let n = KEPT * axis.exports.len();
            axis.keys = vec![None; KEPT];
            axis.ints = vec![Value::constant(0); n];
            axis.bools = vec![Tri::UNKNOWN; n];
        }
    }

    /// A false part of a conjunction at the root, or a true part of a disjunction, makes the rest needless.
    fn find_settling_steps(&mut self) {
        self.settles = vec![None; self.steps.len()];
        let Root::Step(root) = self.root else { return };
        let mut open = vec![root];
        let settling = match self.steps[root] {
            Step::Bool(BoolStep::And(..)) => false,
            Step::Bool(BoolStep::Or(..)) => true,
            Step::Bool(_) | Step::Int(..) => return,
        };
        while let Some(at) = open.pop() {
            match (self.steps[at], settling) {
                (Step::Bool(BoolStep::And(a, b)), false)
                | (Step::Bool(BoolStep::Or(a, b)), true) => {
                    open.extend([a, b]);
                }
                _ => self.settles[at] = Some(settling),
            }
        }
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
            IntStep::Rem(a, b, rounding) => remainder(v(a), v(b), rounding),
            IntStep::RemConst(a, circle, rounding) => {
                remainder_by_constant(v(a), circle, rounding, region)
            }
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
            BoolStep::Equal(x, y, congruent) => {
                self.ints[x].equals(self.ints[y], self.apart(x, y), congruent)
            }
            BoolStep::Zero(d, congruent) => {
                self.ints[d].equals(Value::constant(0), true, congruent)
            }
            BoolStep::Less(x, y) => self.ints[x]
                .sub(self.ints[y], self.apart(x, y))
                .is_negative(),
            BoolStep::Negative(d) => self.ints[d].is_negative(),
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
}

fn remainder(x: Value, divisor: Value, rounding: Rounding) -> Value {
    let reach = divisor.lo.saturating_abs().max(divisor.hi.saturating_abs());
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

fn remainder_by_constant(x: Value, circle: Circle, rounding: Rounding, region: &Region) -> Value {
    if rounding == Rounding::Truncate && x.lo < 0 {
        return remainder(x, Value::constant(circle.m), rounding);
    }
    let sweeps = circle.sweep.0 <= region.block_q || circle.sweep.1 <= region.block_kv;
    x.rem_floor(circle.m, circle.stride, circle.residue, sweeps)
}

fn divide(x: Value, divisor: Value, rounding: Rounding) -> Value {
    match rounding {
        Rounding::Truncate => x.div(divisor, |a, b| a / b),
        // By a positive divisor, Euclid's quotient is the floor.
        Rounding::Floor | Rounding::Euclid => x.div(divisor, i64::div_euclid),
    }
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
            | IntStep::Signum(a)
            | IntStep::RemConst(a, ..) => f(a),
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
            BoolStep::Zero(d, _) | BoolStep::Negative(d) => f(d),
            BoolStep::Equal(a, b, _)
            | BoolStep::Less(a, b)
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
                IntStep::RemConst(a, circle, r) => IntStep::RemConst(m(a), circle, r),
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
            BoolStep::Equal(a, b, c) => BoolStep::Equal(m(a), m(b), c),
            BoolStep::Less(a, b) => BoolStep::Less(m(a), m(b)),
            BoolStep::Zero(d, c) => BoolStep::Zero(m(d), c),
            BoolStep::Negative(d) => BoolStep::Negative(m(d)),
            BoolStep::And(a, b) => BoolStep::And(m(a), m(b)),
            BoolStep::Or(a, b) => BoolStep::Or(m(a), m(b)),
            BoolStep::Xor(a, b) => BoolStep::Xor(m(a), m(b)),
            BoolStep::Select(c, t, e) => BoolStep::Select(m(c), m(t), m(e)),
        }),
    }
}
