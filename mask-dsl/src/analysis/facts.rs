//! What holds where an expression stands: facts that guards add, in environments that nest.

use std::collections::HashMap;

use super::linear::{Atom, Linear, gcd, node_bit};
use super::range::Ranges;
use crate::ir::{BinaryOp, Const, Expr, ExprId, UnaryOp};

/// An environment: what is known at some place of the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EnvId(u32);

impl EnvId {
    /// No guard.
    pub(crate) const ROOT: EnvId = EnvId(0);
}

/// `form <= max`; the form has no constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fact {
    pub(crate) form: Linear,
    pub(crate) max: i128,
    mask: u64,
}

impl Fact {
    /// `form <= 0`, its constant moved to the other side and divided by what its coefficients share.
    pub(crate) fn at_most_zero(form: Linear) -> Self {
        let mut form = form;
        let mut max = -form.constant;
        form.constant = 0;
        let is_primitive = form.terms.iter().any(|term| term.1.abs() == 1);
        let shared = if is_primitive {
            1
        } else {
            form.terms.iter().fold(0, |g, term| gcd(term.1.abs(), g))
        };
        if 1 < shared {
            for term in &mut form.terms {
                term.1 /= shared;
            }
            max = max.div_euclid(shared);
        }
        let mask = form.mask();
        Self { form, max, mask }
    }
}

#[derive(Debug, Default)]
struct Env {
    parent: Option<EnvId>,
    /// The nearest environments further out that have facts, and that know a form or condition.
    with_facts: Option<EnvId>,
    with_truths: Option<EnvId>,
    facts: Vec<Fact>,
    /// Forms without constant, and a value that each does not have.
    distinct: Vec<(Linear, i128)>,
    truths: Vec<(ExprId, bool)>,
    /// The nodes and atoms that this environment says more of than its parent.
    news: u64,
    is_dead: bool,
}

/// All environments of one analysis.
#[derive(Debug)]
pub(crate) struct Envs {
    envs: Vec<Env>,
    extensions: HashMap<(EnvId, ExprId, bool), EnvId>,
}

/// Guards further out than this many facts are passed over, which keeps long chains of guards linear.
const MAX_FACTS: usize = 128;

impl Envs {
    pub(crate) fn new() -> Self {
        Self {
            envs: vec![Env::default()],
            extensions: HashMap::new(),
        }
    }

    /// Whether nothing can reach a place with these facts.
    pub(crate) fn is_dead(&self, env: EnvId) -> bool {
        self.at(env).is_dead
    }

    /// The outermost environment that knows as much of the nodes in `mask`.
    pub(crate) fn relevant(&self, env: EnvId, mask: u64) -> EnvId {
        let mut env = env;
        loop {
            let here = self.at(env);
            match here.parent {
                Some(parent) if here.news & mask == 0 && !here.is_dead => env = parent,
                Some(_) | None => return env,
            }
        }
    }

    fn at(&self, env: EnvId) -> &Env {
        &self.envs[env.0 as usize]
    }

    fn chain(
        &self,
        env: EnvId,
        next: impl Fn(&Env) -> Option<EnvId>,
    ) -> impl Iterator<Item = &Env> {
        std::iter::successors(Some(self.at(env)), move |env| {
            next(env).map(|outer| self.at(outer))
        })
        .take(MAX_FACTS)
    }

    /// Guard facts, the innermost first.
    pub(crate) fn facts(&self, env: EnvId, mask: u64) -> impl Iterator<Item = &Fact> {
        self.chain(env, |env| env.with_facts)
            .flat_map(|env| env.facts.iter())
            .take(MAX_FACTS)
            .filter(move |fact| fact.mask & mask != 0)
    }

    /// Whether guards say that `form` is not 0.
    pub(crate) fn is_nonzero(&self, env: EnvId, form: &Linear) -> bool {
        let (terms, sign, constant) = form.split();
        self.is_distinct(env, &terms, -sign * constant)
    }

    /// Whether guards say that `terms` (as [`Linear::split`] gives them) do not sum to `value`.
    pub(crate) fn is_distinct(&self, env: EnvId, terms: &Linear, value: i128) -> bool {
        self.chain(env, |env| env.with_truths)
            .flat_map(|env| env.distinct.iter())
            .any(|(other, except)| *except == value && other == terms)
    }

    /// What guards say of a condition.
    pub(crate) fn truth(&self, env: EnvId, cond: ExprId) -> Option<bool> {
        self.chain(env, |env| env.with_truths)
            .flat_map(|env| env.truths.iter())
            .find_map(|(known, value)| (*known == cond).then_some(*value))
    }

    fn push(&mut self, env: Env) -> EnvId {
        let id = EnvId(self.envs.len() as u32);
        self.envs.push(env);
        id
    }
}

/// What one guard adds, before it is an environment.
#[derive(Default)]
struct Learned {
    /// Forms that are at most 0.
    at_most_zero: Vec<Linear>,
    distinct: Vec<(Linear, i128)>,
    truths: Vec<(ExprId, bool)>,
    is_dead: bool,
}

impl Learned {
    fn is_nothing(&self) -> bool {
        !self.is_dead
            && self.at_most_zero.is_empty()
            && self.distinct.is_empty()
            && self.truths.is_empty()
    }
}

/// The environment inside a guard: `cond` is known to be `holds` there.
pub(crate) fn extend(ranges: &mut Ranges<'_>, env: EnvId, cond: ExprId, holds: bool) -> EnvId {
    if ranges.envs.is_dead(env) {
        return env;
    }
    let key = (env, cond, holds);
    if let Some(&known) = ranges.envs.extensions.get(&key) {
        return known;
    }
    let learned = learn(ranges, env, cond, holds);
    let inner = if learned.is_nothing() {
        env
    } else {
        enter(ranges, env, learned)
    };
    ranges.envs.extensions.insert(key, inner);
    inner
}

fn enter(ranges: &mut Ranges<'_>, env: EnvId, learned: Learned) -> EnvId {
    let mut facts: Vec<Fact> = Vec::new();
    let mut is_dead = learned.is_dead;
    for form in learned.at_most_zero {
        match form.as_constant() {
            Some(value) => is_dead |= 0 < value,
            None => add_fact(ranges, &mut facts, form),
        }
    }
    let mut distinct = learned.distinct;
    distinct.retain(|(terms, value)| match terms.as_constant() {
        Some(_) => {
            is_dead |= *value == 0;
            false
        }
        None => true,
    });
    let mut news = facts.iter().fold(0, |mask, fact| mask | fact.mask);
    // What is linked to something new through an older guard may be known better too.
    for _ in 0..2 {
        for fact in ranges.envs.facts(env, u64::MAX) {
            if fact.mask & news != 0 {
                news |= fact.mask;
            }
        }
    }
    news = ranges.linked_by_scope(news);
    news |= distinct
        .iter()
        .fold(0, |mask, (terms, _)| mask | terms.mask());
    news |= learned
        .truths
        .iter()
        .fold(0, |mask, (cond, _)| mask | node_bit(*cond));
    let outer = ranges.envs.at(env);
    let inner = ranges.envs.push(Env {
        parent: Some(env),
        with_facts: if outer.facts.is_empty() {
            outer.with_facts
        } else {
            Some(env)
        },
        with_truths: if outer.truths.is_empty() && outer.distinct.is_empty() {
            outer.with_truths
        } else {
            Some(env)
        },
        facts,
        distinct,
        truths: learned.truths,
        news,
        is_dead,
    });
    if !is_dead {
        let at = inner.0 as usize;
        let contradicted = (0..ranges.envs.envs[at].facts.len()).any(|i| {
            let fact = &ranges.envs.envs[at].facts[i];
            ranges.contradicts(fact, inner)
        });
        ranges.envs.envs[at].is_dead = contradicted;
    }
    inner
}

/// Adds a fact, and what it says of the operands of its atoms.
fn add_fact(ranges: &Ranges<'_>, facts: &mut Vec<Fact>, form: Linear) {
    let mut pending = vec![form];
    while let Some(form) = pending.pop() {
        if facts.len() < 24 {
            pending.extend(consequences(ranges, &form));
            let fact = Fact::at_most_zero(form);
            if !facts.contains(&fact) {
                facts.push(fact);
            }
        }
    }
}

/// If `form <= 0`, so are these: an upper bound of `|x|` or `max(x, y)` bounds `x`, one of `x / 16` bounds `x`.
fn consequences(ranges: &Ranges<'_>, form: &Linear) -> Vec<Linear> {
    let arena = &ranges.rule().arena;
    let mut result = Vec::new();
    for &(atom, coefficient) in &form.terms {
        let Atom::Expr(id) = atom else { continue };
        let mut replaced = |by: Option<Linear>| {
            if let Some(form) = by.and_then(|by| form.substitute(atom, &by)) {
                result.push(form);
            }
        };
        match arena.expr(id) {
            Expr::Unary {
                op: UnaryOp::Abs,
                arg,
            } if 0 < coefficient => {
                let arg = ranges.form(*arg);
                replaced(Some(arg.clone()));
                replaced(Some(arg.negated()));
            }
            Expr::Binary {
                op: BinaryOp::Max,
                lhs,
                rhs,
            } if 0 < coefficient => {
                replaced(Some(ranges.form(*lhs).clone()));
                replaced(Some(ranges.form(*rhs).clone()));
            }
            Expr::Binary {
                op: BinaryOp::Min,
                lhs,
                rhs,
            } if coefficient < 0 => {
                replaced(Some(ranges.form(*lhs).clone()));
                replaced(Some(ranges.form(*rhs).clone()));
            }
            Expr::Binary {
                op: BinaryOp::Div | BinaryOp::DivFloor | BinaryOp::DivEuclid | BinaryOp::Shr,
                ..
            } => {
                // The quotient is between (x - (d - 1)) / d and x / d, so the whole form is scaled by d.
                let Some((divisor, dividend, floors)) = ranges.constant_division(id) else {
                    continue;
                };
                let slack = if 0 < coefficient {
                    1 - divisor
                } else if floors {
                    0
                } else {
                    divisor - 1
                };
                let scaled = form
                    .combine(1, &Linear::atom(atom), -coefficient)
                    .and_then(|rest| rest.combine(divisor, dividend, coefficient))
                    .and_then(|form| form.combine(1, &Linear::constant(slack), coefficient));
                result.extend(scaled);
            }
            Expr::Const(_)
            | Expr::Var(_)
            | Expr::Scalar(_)
            | Expr::Dim(_)
            | Expr::Load { .. }
            | Expr::Unary { .. }
            | Expr::Binary { .. }
            | Expr::Clamp { .. }
            | Expr::Cast { .. }
            | Expr::Select { .. }
            | Expr::Then { .. } => {}
        }
    }
    result
}

/// Takes a condition apart: conjunctions give all their facts, negations move inwards.
fn learn(ranges: &Ranges<'_>, env: EnvId, cond: ExprId, holds: bool) -> Learned {
    let arena = &ranges.rule().arena;
    let mut learned = Learned::default();
    let mut pending = vec![(cond, holds)];
    while let Some((cond, holds)) = pending.pop() {
        if ranges.envs.truth(env, cond) == Some(!holds) || learned.truths.contains(&(cond, !holds))
        {
            learned.is_dead = true;
            return learned;
        }
        // Nothing asks again about a condition that stands in one place.
        if ranges.is_shared(cond) && learned.truths.len() < MAX_FACTS {
            learned.truths.push((cond, holds));
        }
        match arena.expr(cond) {
            Expr::Const(value) => learned.is_dead |= *value != Const::Bool(holds),
            Expr::Unary { arg, .. } => pending.push((*arg, !holds)),
            Expr::Binary { op, lhs, rhs } => {
                learn_binary(
                    ranges,
                    env,
                    *op,
                    (*lhs, *rhs),
                    holds,
                    &mut learned,
                    &mut pending,
                );
            }
            Expr::Then { value, .. } => pending.push((*value, holds)),
            Expr::Cast { arg, .. } => pending.push((*arg, holds)),
            Expr::Select {
                cond,
                then,
                otherwise,
            } => {
                // A branch that cannot be what is known was not taken.
                let refuted = |branch: ExprId| arena.as_const(branch) == Some(Const::Bool(!holds));
                if refuted(*otherwise) {
                    pending.extend([(*cond, true), (*then, holds)]);
                } else if refuted(*then) {
                    pending.extend([(*cond, false), (*otherwise, holds)]);
                }
            }
            Expr::Var(_)
            | Expr::Scalar(_)
            | Expr::Dim(_)
            | Expr::Load { .. }
            | Expr::Clamp { .. } => {}
        }
    }
    learned
}

fn learn_binary(
    ranges: &Ranges<'_>,
    env: EnvId,
    op: BinaryOp,
    (lhs, rhs): (ExprId, ExprId),
    holds: bool,
    learned: &mut Learned,
    pending: &mut Vec<(ExprId, bool)>,
) {
    let arena = &ranges.rule().arena;
    match op {
        BinaryOp::And | BinaryOp::BitAnd => {
            if holds {
                pending.extend([(rhs, true), (lhs, true)]);
            } else if ranges.envs.truth(env, lhs) == Some(true) {
                pending.push((rhs, false));
            }
            return;
        }
        BinaryOp::Or | BinaryOp::BitOr => {
            if !holds {
                pending.extend([(rhs, false), (lhs, false)]);
            } else if ranges.envs.truth(env, lhs) == Some(false) {
                pending.push((rhs, true));
            }
            return;
        }
        BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => {
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
        | BinaryOp::BitXor
        | BinaryOp::Shl
        | BinaryOp::Shr
        | BinaryOp::Min
        | BinaryOp::Max => return,
    }
    if !arena.ty(lhs).is_int() {
        let constant = match (arena.as_const(lhs), arena.as_const(rhs)) {
            (Some(Const::Bool(value)), _) => Some((rhs, value)),
            (_, Some(Const::Bool(value))) => Some((lhs, value)),
            _ => None,
        };
        if let (Some((cond, value)), BinaryOp::Eq | BinaryOp::Ne) = (constant, op) {
            pending.push((cond, (value == (op == BinaryOp::Eq)) == holds));
        }
        return;
    }
    let Some(difference) = ranges.form(lhs).minus(ranges.form(rhs)) else {
        return;
    };
    let plus = |form: Linear, constant: i128| Linear {
        constant: form.constant + constant,
        ..form
    };
    let holds_if =
        |positive: BinaryOp, negative: BinaryOp| op == if holds { positive } else { negative };
    if holds_if(BinaryOp::Ne, BinaryOp::Eq) {
        let (terms, sign, constant) = difference.split();
        learned.distinct.push((terms, -sign * constant));
    } else if holds_if(BinaryOp::Lt, BinaryOp::Ge) {
        learned.at_most_zero.push(plus(difference, 1));
    } else if holds_if(BinaryOp::Le, BinaryOp::Gt) {
        learned.at_most_zero.push(difference);
    } else if holds_if(BinaryOp::Gt, BinaryOp::Le) {
        learned.at_most_zero.push(plus(difference.negated(), 1));
    } else if holds_if(BinaryOp::Ge, BinaryOp::Lt) {
        learned.at_most_zero.push(difference.negated());
    } else {
        learned.at_most_zero.push(difference.negated());
        learned.at_most_zero.push(difference);
    }
}
