//! Range analysis: what each expression can be, over every cell of a scope and under the guards around it.
//!
//! An interval speaks of the cells where the expression is evaluated, and assumes that nothing in it failed: validation
//! proves that separately. Integers are kept as linear forms, so that `kv - kv_len` is known to be negative although both
//! vary, and guards add facts about such forms. All walks use stacks of their own: depth costs no call stack.

use std::collections::HashMap;

use super::facts::{EnvId, Envs, Fact, extend};
use super::interval::{FAR, FloatRange, IntRange, Truth, Value};
use super::linear::{Atom, Linear, gcd, node_bit};
use super::transfer;
use crate::bind::BoundRule;
use crate::bucket::Relation;
use crate::ir::{
    BinaryOp, CaptureId, CaptureKind, Const, DimId, Expr, ExprId, Extent, Rule, Ty, UnaryOp, Var,
};
use crate::pipeline::{Prepared, Scope};

mod bounds;
mod form;

/// The least and greatest value of an integer expression (0 and 1 for `bool`) of the simplified rule, wherever it is
/// evaluated; `None` for a float, and for an expression that no cell evaluates.
pub fn interval_of(prepared: &Prepared, expr: ExprId) -> Option<(i64, i64)> {
    intervals(prepared)[expr.index()]
}

/// [`interval_of`] for every expression of the simplified rule, by arena position.
pub fn intervals(prepared: &Prepared) -> Vec<Option<(i64, i64)>> {
    let Some(sizes) = SizeRanges::of(prepared.scope()) else {
        return vec![None; prepared.rule().arena.len()];
    };
    let mut ranges = Ranges::new(prepared.rule(), sizes, prepared.assumptions().clone());
    let ids: Vec<ExprId> = prepared.rule().arena.ids().collect();
    ids.into_iter()
        .map(|id| match ranges.value(id, EnvId::ROOT) {
            Value::Int(range) if !range.is_empty() => Some((range.lo as i64, range.hi as i64)),
            Value::Bool(truth) if truth != Truth::NEITHER => {
                Some((i64::from(!truth.may_be_false), i64::from(truth.may_be_true)))
            }
            Value::Int(_) | Value::Bool(_) | Value::Float(_) => None,
        })
        .collect()
}

/// The sizes and offsets of all calls of a scope that have a cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SizeRanges {
    pub(crate) q_len: IntRange,
    pub(crate) kv_len: IntRange,
    pub(crate) q_offset: IntRange,
    pub(crate) batch: IntRange,
    pub(crate) num_q_heads: IntRange,
    pub(crate) relation: Relation,
}

impl SizeRanges {
    /// The sizes of a scope; `None` if no call has a cell.
    pub(crate) fn of(scope: &Scope) -> Option<Self> {
        Self::of_lengths_to(scope, u64::MAX)
    }

    /// The same, of calls whose lengths are no greater than `longest`.
    pub(crate) fn of_lengths_to(scope: &Scope, longest: u64) -> Option<Self> {
        let bucket = &scope.bucket;
        let lengths = |range: &std::ops::RangeInclusive<u64>| {
            IntRange::new(
                i128::from(*range.start()).max(1),
                i128::from(*range.end()).min(i128::from(longest)),
            )
        };
        let (mut q_len, mut kv_len) = (lengths(&bucket.q_len), lengths(&bucket.kv_len));
        match bucket.relation {
            Relation::Equal => {
                q_len = q_len.meet(kv_len);
                kv_len = q_len;
            }
            Relation::AtMost => {
                q_len = IntRange::new(q_len.lo, q_len.hi.min(kv_len.hi));
                kv_len = IntRange::new(kv_len.lo.max(q_len.lo), kv_len.hi);
            }
            Relation::Free => {}
        }
        let q_offset = IntRange::new(
            i128::from(*bucket.q_offset.start()),
            i128::from(*bucket.q_offset.end()),
        );
        let sizes = Self {
            q_len,
            kv_len,
            q_offset,
            batch: IntRange::new(1, i128::from(scope.batch)),
            num_q_heads: IntRange::new(
                i128::from(scope.num_q_heads.max(1)),
                i128::from(scope.num_q_heads),
            ),
            relation: bucket.relation,
        };
        let empty = [q_len, kv_len, q_offset, sizes.batch, sizes.num_q_heads]
            .iter()
            .any(|range| range.is_empty());
        (!empty).then_some(sizes)
    }

    fn of_var(&self, var: Var) -> IntRange {
        let up_to = |count: IntRange| IntRange::new(0, count.hi - 1);
        match var {
            Var::B => up_to(self.batch),
            Var::H => up_to(self.num_q_heads),
            Var::QIdx => IntRange::new(self.q_offset.lo, self.q_offset.hi + self.q_len.hi - 1),
            Var::KvIdx => up_to(self.kv_len),
            Var::QLen => self.q_len,
            Var::KvLen => self.kv_len,
            Var::Batch => self.batch,
            Var::NumQHeads => self.num_q_heads,
            Var::Score => unreachable!("the score is no integer"),
        }
    }
}

/// What an analysis takes for granted of run-time values, beyond declarations and types; `None` is nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assumptions {
    /// Of integer scalars, by capture slot.
    pub(crate) scalars: Vec<Option<(i64, i64)>>,
    /// Of the contents of integer buffers, by capture slot.
    pub(crate) contents: Vec<Option<(i64, i64)>>,
    /// Of dimension names, by slot.
    pub(crate) dims: Vec<Option<(i64, i64)>>,
}

impl Assumptions {
    /// Nothing.
    pub(crate) fn none(rule: &Rule) -> Self {
        Self {
            scalars: vec![None; rule.captures.len()],
            contents: vec![None; rule.captures.len()],
            dims: vec![None; rule.dims.len()],
        }
    }

    /// Scalars and dimension names as they are bound.
    pub(crate) fn pinned(bound: &BoundRule) -> Self {
        let mut pinned = Self::none(bound.rule());
        let bindings = bound.bindings();
        for (slot, decl) in bound.rule().captures.iter().enumerate() {
            if let CaptureKind::Scalar(_) = decl.kind {
                let value = bindings.scalar(CaptureId(slot as u32)).as_int();
                pinned.scalars[slot] = value.map(|v| (v, v));
            }
        }
        pinned.dims = bindings
            .dims
            .iter()
            .map(|&v| Some((i64::from(v), i64::from(v))))
            .collect();
        pinned
    }
}

/// How far a bound is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    depth: u32,
    steps: u32,
}

impl Effort {
    /// For every expression: what one or two facts give.
    pub(crate) const QUICK: Effort = Effort {
        depth: 2,
        steps: 24,
    };
    /// For a proof that would otherwise fail.
    pub(crate) const THOROUGH: Effort = Effort {
        depth: 6,
        steps: 600,
    };
}

/// How often declared ranges are read again: as deep as they may rest on one another, with what is deeper left wide.
const DECLARED_ROUNDS: usize = 3;

/// Evaluations under guards beyond this many forget the guard: sound, and bounded in time.
const MAX_EVALUATIONS: usize = 40_000;

/// The analysis of one rule over one scope, under some assumptions.
#[derive(Debug)]
pub(crate) struct Ranges<'a> {
    rule: &'a Rule,
    sizes: SizeRanges,
    assumptions: Assumptions,
    /// Declared lower and upper bounds by capture slot, which hold of scalars and of what is read.
    declared: Vec<(Option<ExprId>, Option<ExprId>)>,
    /// By variable.
    scope_facts: Vec<Vec<Fact>>,
    forms: Vec<Option<Linear>>,
    masks: Vec<u64>,
    /// Whether a node has more than one place.
    shared: Vec<bool>,
    root: Vec<Option<Value>>,
    guarded: HashMap<(ExprId, EnvId), Value>,
    pub(super) envs: Envs,
}

impl<'a> Ranges<'a> {
    /// Analyses every expression of the rule without guards.
    pub(crate) fn new(rule: &'a Rule, sizes: SizeRanges, assumptions: Assumptions) -> Self {
        let mut ranges = Self::of_declarations(rule, sizes, assumptions);
        for id in rule.arena.ids() {
            ranges.read(id);
        }
        ranges
    }

    /// Analyses the expressions of declared ranges and extents alone, which everything else rests on.
    pub(crate) fn of_declarations(
        rule: &'a Rule,
        sizes: SizeRanges,
        assumptions: Assumptions,
    ) -> Self {
        let n = rule.arena.len();
        let mut ranges = Self {
            rule,
            sizes,
            assumptions,
            declared: rule.captures.iter().map(|c| (c.min, c.max)).collect(),
            scope_facts: Vec::new(),
            forms: vec![None; n],
            masks: vec![0; n],
            shared: shared_nodes(rule),
            root: vec![None; n],
            guarded: HashMap::new(),
            envs: Envs::new(),
        };
        ranges.scope_facts = ranges.all_scope_facts();
        let declared = declared_nodes(rule);
        for id in rule.arena.ids().filter(|id| declared[id.index()]) {
            ranges.read(id);
        }
        // A scalar within the bound of another may stand before its own bounds; what is known by then is a start.
        for _ in 0..DECLARED_ROUNDS {
            for id in rule.arena.ids().filter(|id| declared[id.index()]) {
                ranges.root[id.index()] = None;
                ranges.value(id, EnvId::ROOT);
            }
        }
        ranges
    }

    fn read(&mut self, id: ExprId) {
        if self.forms[id.index()].is_none() {
            self.masks[id.index()] = self.mask_of(id);
            self.forms[id.index()] = Some(self.form_of(id));
            self.value(id, EnvId::ROOT);
        }
    }

    /// What is taken for granted.
    pub(crate) fn assumptions(&self) -> &Assumptions {
        &self.assumptions
    }

    pub(crate) fn sizes(&self) -> &SizeRanges {
        &self.sizes
    }

    pub(crate) fn rule(&self) -> &'a Rule {
        self.rule
    }

    /// The linear form of an integer expression.
    pub(crate) fn form(&self, id: ExprId) -> &Linear {
        self.forms[id.index()]
            .as_ref()
            .expect("operands are read before what uses them")
    }

    /// The environment inside a guard.
    pub(crate) fn under(&mut self, env: EnvId, cond: ExprId, holds: bool) -> EnvId {
        if MAX_EVALUATIONS < self.guarded.len() {
            return env;
        }
        extend(self, env, cond, holds)
    }

    /// Whether a node is an operand in more than one place.
    pub(super) fn is_shared(&self, id: ExprId) -> bool {
        self.shared[id.index()]
    }

    /// Whether nothing can reach a place with these facts.
    pub(crate) fn is_dead(&self, env: EnvId) -> bool {
        self.envs.is_dead(env)
    }

    /// Whether guards say that an integer expression is not 0.
    pub(crate) fn is_nonzero(&self, id: ExprId, env: EnvId) -> bool {
        self.envs.is_nonzero(env, self.form(id))
    }

    /// The outermost environment that says as much of `id`.
    pub(crate) fn relevant(&self, id: ExprId, env: EnvId) -> EnvId {
        self.envs.relevant(env, self.masks[id.index()])
    }

    fn mask_of(&self, id: ExprId) -> u64 {
        let own = match self.rule.arena.expr(id) {
            Expr::Const(_) => 0,
            Expr::Var(var) => Atom::Var(self.size_var(*var)).bit() | Atom::Var(*var).bit(),
            Expr::Scalar(slot) => Atom::Scalar(*slot).bit() | node_bit(id),
            Expr::Dim(dim) => Atom::Dim(*dim).bit(),
            Expr::Load { .. }
            | Expr::Unary { .. }
            | Expr::Binary { .. }
            | Expr::Clamp { .. }
            | Expr::Cast { .. }
            | Expr::Select { .. }
            | Expr::Then { .. } => node_bit(id),
        };
        let mut mask = own;
        self.rule
            .arena
            .expr(id)
            .for_each_operand(|operand| mask |= self.masks[operand.index()]);
        mask
    }

    /// `kv_len` stands for `q_len` too where they are equal.
    fn size_var(&self, var: Var) -> Var {
        if var == Var::QLen && self.sizes.relation == Relation::Equal {
            Var::KvLen
        } else {
            var
        }
    }

    /// What a fact about these atoms says of others through the sizes of a call.
    pub(super) fn linked_by_scope(&self, mask: u64) -> u64 {
        let bit = |var: Var| Atom::Var(self.size_var(var)).bit();
        let mut mask = mask;
        let links = [
            (Var::QIdx, Var::QLen),
            (Var::KvIdx, Var::KvLen),
            (Var::QLen, Var::KvLen),
            (Var::KvLen, Var::KvIdx),
            (Var::QLen, Var::QIdx),
            (Var::Batch, Var::B),
            (Var::NumQHeads, Var::H),
        ];
        for (from, to) in links {
            if mask & bit(from) != 0 {
                mask |= bit(to);
            }
        }
        mask
    }

    fn known(&self, id: ExprId, env: EnvId) -> Option<Value> {
        if env == EnvId::ROOT {
            self.root[id.index()]
        } else {
            self.guarded.get(&(id, env)).copied()
        }
    }

    fn remember(&mut self, id: ExprId, env: EnvId, value: Value) {
        if env == EnvId::ROOT {
            self.root[id.index()] = Some(value);
        } else {
            self.guarded.insert((id, env), value);
        }
    }

    /// What `id` can be in an environment.
    pub(crate) fn value(&mut self, id: ExprId, env: EnvId) -> Value {
        if self.envs.is_dead(env) {
            return Value::nothing(self.rule.arena.ty(id));
        }
        let start = (id, self.relevant(id, env));
        if let Some(value) = self.known(start.0, start.1) {
            return value;
        }
        let mut stack = vec![start];
        let mut operands = Vec::new();
        while let Some(&(id, env)) = stack.last() {
            if self.known(id, env).is_some() {
                stack.pop();
                continue;
            }
            operands.clear();
            self.operands(id, env, &mut operands);
            let before = stack.len();
            for &(operand, inner) in &operands {
                if self.envs.is_dead(inner) {
                    continue;
                }
                let inner = self.relevant(operand, inner);
                if self.known(operand, inner).is_none() {
                    stack.push((operand, inner));
                }
            }
            if stack.len() == before {
                let value = self.compute(id, env, &operands);
                self.remember(id, env, value);
                stack.pop();
            }
        }
        self.known(start.0, start.1)
            .expect("the walk ends when the start is known")
    }

    /// Each operand with the environment it is evaluated in.
    pub(crate) fn operands(&mut self, id: ExprId, env: EnvId, into: &mut Vec<(ExprId, EnvId)>) {
        match self.rule.arena.expr(id) {
            Expr::Binary {
                op: BinaryOp::And,
                lhs,
                rhs,
            } => into.extend([(*lhs, env), (*rhs, self.under(env, *lhs, true))]),
            Expr::Binary {
                op: BinaryOp::Or,
                lhs,
                rhs,
            } => into.extend([(*lhs, env), (*rhs, self.under(env, *lhs, false))]),
            Expr::Select {
                cond,
                then,
                otherwise,
            } => {
                let on = self.under(env, *cond, true);
                let off = self.under(env, *cond, false);
                into.extend([(*cond, env), (*then, on), (*otherwise, off)]);
            }
            other => other.for_each_operand(|operand| into.push((operand, env))),
        }
    }

    fn get(&self, (id, env): (ExprId, EnvId)) -> Value {
        if self.envs.is_dead(env) {
            return Value::nothing(self.rule.arena.ty(id));
        }
        self.known(id, self.relevant(id, env))
            .expect("operands are evaluated first")
    }

    fn compute(&self, id: ExprId, env: EnvId, operands: &[(ExprId, EnvId)]) -> Value {
        let ty = self.rule.arena.ty(id);
        let direct = self.transfer(id, operands);
        match (ty, direct) {
            (Ty::Bool, Value::Bool(truth)) => Value::Bool(self.refine_truth(id, env, truth)),
            (Ty::I32 | Ty::I64 | Ty::U32, Value::Int(range)) => {
                let range = range.meet(IntRange::of_ty(ty));
                Value::Int(self.refine(self.form(id), env, range))
            }
            (Ty::Bool | Ty::I32 | Ty::I64 | Ty::U32 | Ty::F32, value) => value,
        }
    }

    /// The range of an exact integer operation before it is cut to its type; its operands have been evaluated.
    pub(crate) fn exact(&mut self, id: ExprId, env: EnvId) -> IntRange {
        if self.envs.is_dead(env) {
            return IntRange::EMPTY;
        }
        let mut operands = Vec::new();
        self.operands(id, env, &mut operands);
        for &(operand, inner) in &operands {
            self.value(operand, inner);
        }
        let direct = self.transfer(id, &operands).int();
        let form = self.form(id);
        if form.as_atom() == Some(Atom::Expr(id)) {
            // The range kept for the atom itself is cut already, so only guards may narrow it.
            return direct.meet(self.guarded_range(id, env));
        }
        self.refine(form, env, direct)
    }

    /// The result from the operands alone.
    fn transfer(&self, id: ExprId, operands: &[(ExprId, EnvId)]) -> Value {
        let arena = &self.rule.arena;
        let at = |i: usize| self.get(operands[i]);
        match arena.expr(id) {
            Expr::Const(value) => match value {
                Const::Bool(v) => Value::Bool(Truth::known(*v)),
                Const::F32(v) => Value::Float(FloatRange::point(*v)),
                Const::I32(v) => Value::Int(IntRange::point(i128::from(*v))),
                Const::I64(v) => Value::Int(IntRange::point(i128::from(*v))),
                Const::U32(v) => Value::Int(IntRange::point(i128::from(*v))),
            },
            Expr::Var(Var::Score) => Value::Float(FloatRange::ANY),
            Expr::Var(var) => Value::Int(self.sizes.of_var(*var)),
            Expr::Scalar(slot) => self.captured(*slot, self.assumptions.scalars[slot.index()]),
            Expr::Dim(dim) => Value::Int(self.dim_range(*dim)),
            Expr::Load { buffer, .. } => {
                if operands
                    .iter()
                    .any(|&operand| self.get(operand).int().is_empty())
                {
                    return Value::nothing(arena.ty(id));
                }
                self.captured(*buffer, self.assumptions.contents[buffer.index()])
            }
            Expr::Unary { op, .. } => transfer::unary(*op, arena.ty(id), at(0)),
            Expr::Binary {
                op: BinaryOp::And, ..
            } => {
                let (lhs, rhs) = (at(0).truth(), at(1).truth());
                Value::Bool(Truth::new(
                    lhs.may_be_true && rhs.may_be_true,
                    lhs.may_be_false || lhs.may_be_true && rhs.may_be_false,
                ))
            }
            Expr::Binary {
                op: BinaryOp::Or, ..
            } => {
                let (lhs, rhs) = (at(0).truth(), at(1).truth());
                Value::Bool(Truth::new(
                    lhs.may_be_true || lhs.may_be_false && rhs.may_be_true,
                    lhs.may_be_false && rhs.may_be_false,
                ))
            }
            Expr::Binary { op, lhs, .. } => transfer::binary(*op, arena.ty(*lhs), at(0), at(1)),
            Expr::Clamp { .. } => transfer::clamp(at(0), at(1), at(2)),
            Expr::Cast { to, .. } => transfer::cast(*to, at(0)),
            Expr::Select { .. } => {
                let cond = at(0).truth();
                let mut value = Value::nothing(arena.ty(id));
                if cond.may_be_true {
                    value = value.join(at(1));
                }
                if cond.may_be_false {
                    value = value.join(at(2));
                }
                value
            }
            Expr::Then { .. } => at(1),
        }
    }

    /// A scalar, or an element of a buffer.
    fn captured(&self, slot: CaptureId, assumed: Option<(i64, i64)>) -> Value {
        let decl = &self.rule.captures[slot.index()];
        let ty = decl.value_ty();
        let (min, max) = self.declared[slot.index()];
        match ty {
            Ty::Bool => Value::Bool(match assumed {
                Some((lo, hi)) => Truth::new(hi == 1, lo == 0),
                None => Truth::BOTH,
            }),
            Ty::F32 => {
                let (Some(min), Some(max)) = (min, max) else {
                    return Value::Float(FloatRange::ANY);
                };
                let (lo, hi) = (self.root_int(min).lo, self.root_int(max).hi);
                Value::Float(FloatRange::new(lo as f32, hi as f32, false))
            }
            Ty::I32 | Ty::I64 | Ty::U32 => {
                let mut range = match &decl.kind {
                    CaptureKind::Scalar(ty) => IntRange::of_ty(*ty),
                    CaptureKind::Buffer { elem, .. } => {
                        let (lo, hi) = elem.int_range().expect("the element is an integer");
                        IntRange::new(i128::from(lo), i128::from(hi))
                    }
                };
                if let Some(min) = min {
                    range = range.meet(IntRange::new(self.root_int(min).lo, FAR));
                }
                if let Some(max) = max {
                    range = range.meet(IntRange::new(-FAR, self.root_int(max).hi));
                }
                if let Some((lo, hi)) = assumed {
                    range = range.meet(IntRange::new(i128::from(lo), i128::from(hi)));
                }
                Value::Int(range)
            }
        }
    }

    fn dim_range(&self, dim: DimId) -> IntRange {
        match self.assumptions.dims[dim.index()] {
            Some((lo, hi)) => IntRange::new(i128::from(lo), i128::from(hi)),
            None => IntRange::new(0, i128::from(i32::MAX)),
        }
    }

    /// The unguarded range of an integer expression, or of its type while that is not known yet.
    pub(crate) fn root_int(&self, id: ExprId) -> IntRange {
        match self.root[id.index()] {
            Some(value) => value.int(),
            None => IntRange::of_ty(self.rule.arena.ty(id)),
        }
    }

    fn refine_truth(&self, id: ExprId, env: EnvId, truth: Truth) -> Truth {
        let mut truth = truth;
        if let Some(known) = self.envs.truth(env, id) {
            truth = Truth::new(truth.may_be_true && known, truth.may_be_false && !known);
        }
        let Expr::Binary { op, lhs, rhs } = self.rule.arena.expr(id) else {
            return truth;
        };
        if !op.is_comparison() || !self.rule.arena.ty(*lhs).is_int() || truth.decided().is_some() {
            return truth;
        }
        let Some(difference) = self.form(*lhs).minus(self.form(*rhs)) else {
            return truth;
        };
        let all = IntRange::new(i128::MIN, i128::MAX);
        let range = self.refine(&difference, env, all);
        let zero = Value::Int(IntRange::point(0));
        let decided = transfer::binary(*op, Ty::I64, Value::Int(range), zero).truth();
        let mut truth = Truth::new(
            truth.may_be_true && decided.may_be_true,
            truth.may_be_false && decided.may_be_false,
        );
        if self.envs.is_nonzero(env, &difference) {
            match op {
                BinaryOp::Eq => truth.may_be_true = false,
                BinaryOp::Ne => truth.may_be_false = false,
                _ => {} // The other comparisons hold or fail next to 0, which a hole at 0 does not decide.
            }
        }
        truth
    }

    /// The divisor, the form of the dividend and whether the result rounds down, of a division by a positive constant.
    pub(super) fn constant_division(&self, id: ExprId) -> Option<(i128, &Linear, bool)> {
        let Expr::Binary { op, lhs, rhs } = self.rule.arena.expr(id) else {
            return None;
        };
        let divisor = self.form(*rhs).as_constant()?;
        let (divisor, floors) = match op {
            BinaryOp::Div => (divisor, 0 <= self.root_int(*lhs).lo),
            BinaryOp::DivFloor | BinaryOp::DivEuclid => (divisor, true),
            BinaryOp::Shr if (0..=40).contains(&divisor) => (1 << divisor, true),
            _ => return None,
        };
        (0 < divisor && divisor < 1 << 40).then(|| (divisor, self.form(*lhs), floors))
    }
}

/// Which nodes declared ranges and extents consist of, by arena position.
fn declared_nodes(rule: &Rule) -> Vec<bool> {
    let mut declared = vec![false; rule.arena.len()];
    for decl in &rule.captures {
        for bound in [decl.min, decl.max].into_iter().flatten() {
            declared[bound.index()] = true;
        }
        if let CaptureKind::Buffer { extents, .. } = &decl.kind {
            for extent in extents {
                if let Extent::AtLeast(extent) = extent {
                    declared[extent.index()] = true;
                }
            }
        }
    }
    for id in rule.arena.ids().rev() {
        if declared[id.index()] {
            rule.arena
                .expr(id)
                .for_each_operand(|operand| declared[operand.index()] = true);
        }
    }
    declared
}

fn shared_nodes(rule: &Rule) -> Vec<bool> {
    let mut seen = vec![false; rule.arena.len()];
    let mut shared = vec![false; rule.arena.len()];
    for id in rule.arena.ids() {
        rule.arena.expr(id).for_each_operand(|operand| {
            shared[operand.index()] |= seen[operand.index()];
            seen[operand.index()] = true;
        });
    }
    shared
}

/// Divides rounding down, which an upper bound of an integer may.
fn floor_div(a: i128, b: i128) -> i128 {
    a.div_euclid(b)
}
