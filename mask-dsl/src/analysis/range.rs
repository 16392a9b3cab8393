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
use crate::bucket::Relation;
use crate::ir::{
    BinaryOp, CaptureId, CaptureKind, Const, DimId, Expr, ExprId, Extent, Rule, Ty, UnaryOp, Var,
};
use crate::pipeline::Prepared;

mod bounds;
mod definition;
mod form;
mod given;

pub(crate) use given::{Assumptions, SizeRanges};

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
    /// Values without any guard, not even those within the expression: a first and cheap answer for everything.
    plain: Vec<Option<Value>>,
    /// Whether there is a guard within the expression.
    branches: Vec<bool>,
    /// Values where only guards within the expression hold.
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
            plain: vec![None; n],
            branches: vec![false; n],
            root: vec![None; n],
            guarded: HashMap::new(),
            envs: Envs::new(),
        };
        ranges.scope_facts = ranges.all_scope_facts();
        let declared = declared_nodes(rule);
        for id in rule.arena.ids().filter(|id| declared[id.index()]) {
            ranges.read(id);
        }
        ranges
    }

    fn read(&mut self, id: ExprId) {
        if self.forms[id.index()].is_none() {
            self.masks[id.index()] = self.mask_of(id);
            self.branches[id.index()] = self.branches_in(id);
            self.forms[id.index()] = Some(self.form_of(id));
            let mut operands = Vec::new();
            self.rule
                .arena
                .expr(id)
                .for_each_operand(|operand| operands.push(operand));
            let direct = self.transfer(id, &|i| self.plain(operands[i]));
            let value = self.refined(id, EnvId::ROOT, direct);
            self.plain[id.index()] = Some(value);
            if !self.branches[id.index()] {
                self.root[id.index()] = Some(value);
            }
        }
    }

    fn branches_in(&self, id: ExprId) -> bool {
        let expr = self.rule.arena.expr(id);
        let mut branches = matches!(
            expr,
            Expr::Select { .. }
                | Expr::Binary {
                    op: BinaryOp::And | BinaryOp::Or,
                    ..
                }
        );
        expr.for_each_operand(|operand| branches |= self.branches[operand.index()]);
        branches
    }

    /// What `id` can be wherever it is evaluated, without a look at guards.
    pub(crate) fn plain(&self, id: ExprId) -> Value {
        self.plain[id.index()].expect("operands are read before what uses them")
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
                let direct = self.transfer(id, &|i| self.get(operands[i]));
                let value = self.refined(id, env, direct);
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

    fn refined(&self, id: ExprId, env: EnvId, direct: Value) -> Value {
        let ty = self.rule.arena.ty(id);
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
        let direct = self.transfer(id, &|i| self.get(operands[i])).int();
        let form = self.form(id);
        if form.as_atom() == Some(Atom::Expr(id)) {
            // The range kept for the atom itself is cut already, so only guards may narrow it.
            return direct.meet(self.guarded_range(id, env));
        }
        self.refine(form, env, direct)
    }

    /// The result from the operands alone.
    fn transfer(&self, id: ExprId, at: &dyn Fn(usize) -> Value) -> Value {
        let arena = &self.rule.arena;
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
            Expr::Load { buffer, index } => {
                if (0..index.len()).any(|i| at(i).int().is_empty()) {
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
        match self.plain[id.index()] {
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
            // The other comparisons hold or fail beside 0, which a hole at 0 does not decide.
            truth.may_be_true &= *op != BinaryOp::Eq;
            truth.may_be_false &= *op != BinaryOp::Ne;
        }
        truth
    }

    /// The divisor, the form of the dividend and whether the result rounds down, of a division by a positive constant.
    pub(super) fn constant_division(&self, id: ExprId) -> Option<(i128, &Linear, bool)> {
        let Expr::Binary { op, lhs, rhs } = self.rule.arena.expr(id) else {
            return None;
        };
        let divisor = self.form(*rhs).as_constant()?;
        let (divisor, floors) = if *op == BinaryOp::Shr && (0..=40).contains(&divisor) {
            (1 << divisor, true)
        } else if matches!(op, BinaryOp::DivFloor | BinaryOp::DivEuclid) {
            (divisor, true)
        } else if *op == BinaryOp::Div {
            (divisor, 0 <= self.root_int(*lhs).lo)
        } else {
            return None;
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
    if b == 1 { a } else { a.div_euclid(b) }
}
