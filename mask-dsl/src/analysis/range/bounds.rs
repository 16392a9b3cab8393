//! Bounds of linear forms: sums of what atoms can be, and of facts that cancel atoms against each other.

use std::ops::ControlFlow;

use super::{
    Atom, Effort, EnvId, ExprId, FAR, Fact, IntRange, Linear, Ranges, Relation, Value, Var,
    floor_div, gcd,
};

impl Ranges<'_> {
    /// `range` narrowed by what is known of `form`.
    pub(super) fn refine(&self, form: &Linear, env: EnvId, range: IntRange) -> IntRange {
        if range.is_empty() || form.terms.is_empty() {
            return form
                .as_constant()
                .map_or(range, |v| range.meet(IntRange::point(v)));
        }
        if env == EnvId::ROOT && form.terms.len() == 1 {
            // Nothing to cancel: the range of the atom has it all.
            let (atom, factor) = form.terms[0];
            let all = self.atom_range(atom, env);
            let ends = [all.lo, all.hi].map(|end| end.saturating_mul(factor) + form.constant);
            return if all.is_empty() {
                IntRange::EMPTY
            } else {
                range.meet(IntRange::new(ends[0].min(ends[1]), ends[0].max(ends[1])))
            };
        }
        let hi = self.upper(form, env, Effort::QUICK);
        let lo = -self.upper(&form.negated(), env, Effort::QUICK);
        let mut range = range.meet(IntRange::new(lo, hi));
        if env != EnvId::ROOT {
            let (terms, sign, constant) = form.split();
            for _ in 0..2 {
                if self
                    .envs
                    .is_distinct(env, &terms, sign * (range.lo - constant))
                {
                    range = IntRange::new(range.lo + 1, range.hi);
                }
                if self
                    .envs
                    .is_distinct(env, &terms, sign * (range.hi - constant))
                {
                    range = IntRange::new(range.lo, range.hi - 1);
                }
            }
        }
        range
    }

    /// What guards alone say of the value of `id`, which is an atom.
    pub(super) fn guarded_range(&self, id: ExprId, env: EnvId) -> IntRange {
        let atom = Atom::Expr(id);
        let mut range = IntRange::new(i128::MIN, i128::MAX);
        for fact in self.envs.facts(env, atom.bit()) {
            if let [(only, factor)] = fact.form.terms[..]
                && only == atom
            {
                range = if 0 < factor {
                    range.meet(IntRange::new(i128::MIN, floor_div(fact.max, factor)))
                } else {
                    range.meet(IntRange::new(-floor_div(fact.max, -factor), i128::MAX))
                };
            }
        }
        range
    }

    /// Whether `a <= b` at every cell, without guards.
    pub(crate) fn is_at_most(&self, a: &Linear, b: &Linear) -> bool {
        a.minus(b)
            .is_some_and(|difference| self.upper(&difference, EnvId::ROOT, Effort::QUICK) <= 0)
    }

    /// Whether a fact cannot hold where it stands.
    pub(crate) fn contradicts(&self, fact: &Fact, env: EnvId) -> bool {
        let least = -self.upper(&fact.form.negated(), env, Effort::QUICK);
        fact.max < least
    }

    /// An upper bound of `form` where `env` holds.
    pub(crate) fn upper(&self, form: &Linear, env: EnvId, effort: Effort) -> i128 {
        let mut steps = effort.steps;
        // Of long chains of guards a quick look sees the innermost.
        let max_facts = effort.steps as usize;
        self.upper_within(form, (env, max_facts), effort.depth, &mut steps)
    }

    fn upper_within(
        &self,
        form: &Linear,
        (env, max_facts): (EnvId, usize),
        depth: u32,
        steps: &mut u32,
    ) -> i128 {
        let mut best = form.constant;
        for &(atom, factor) in &form.terms {
            let range = self.atom_range(atom, env);
            if range.is_empty() {
                // No cell has a value for it; every bound holds.
                return -FAR;
            }
            best += if 0 < factor {
                factor * range.hi
            } else {
                factor * range.lo
            };
        }
        if depth == 0 || form.terms.is_empty() {
            return best;
        }
        for &(atom, factor) in form.terms.iter().rev() {
            let _out_of_steps =
                self.for_each_fact(atom, 0 < factor, (env, max_facts), &mut |fact| {
                    if *steps == 0 {
                        return ControlFlow::Break(());
                    }
                    let share = fact.form.coefficient(atom);
                    if share == 0 || (share < 0) != (factor < 0) {
                        return ControlFlow::Continue(());
                    }
                    *steps -= 1;
                    // Most facts have factors of 1, and 128-bit divisions are slow.
                    let (scale, times) = if share.abs() == 1 {
                        (1, factor.abs())
                    } else {
                        let shared = gcd(factor.abs(), share.abs());
                        (share.abs() / shared, factor.abs() / shared)
                    };
                    let rest = if depth == 1 {
                        self.sum_of_combined(form, scale, &fact.form, -times, env)
                    } else {
                        form.combine(scale, &fact.form, -times).map(|rest| {
                            self.upper_within(&rest, (env, max_facts), depth - 1, steps)
                        })
                    };
                    if let Some(rest) = rest {
                        best = best.min(floor_div(rest + times * fact.max, scale));
                    }
                    ControlFlow::Continue(())
                });
        }
        best
    }

    /// The upper bound of a combination from what its atoms can be, without building it.
    fn sum_of_combined(
        &self,
        form: &Linear,
        scale: i128,
        other: &Linear,
        times: i128,
        env: EnvId,
    ) -> Option<i128> {
        let mut sum = 0;
        let mut is_empty = false;
        let constant = form.for_each_combined(scale, other, times, |atom, factor| {
            let range = self.atom_range(atom, env);
            is_empty |= range.is_empty();
            sum += factor * if 0 < factor { range.hi } else { range.lo };
        })?;
        Some(if is_empty { -FAR } else { sum + constant })
    }

    /// What is known of an atom by itself, without looking for more.
    fn atom_range(&self, atom: Atom, env: EnvId) -> IntRange {
        match atom {
            Atom::Var(var) => self.sizes.of_var(var),
            Atom::QOffset => self.sizes.q_offset,
            Atom::Scalar(slot) => {
                match self.captured(slot, self.assumptions.scalars[slot.index()]) {
                    Value::Int(range) => range,
                    Value::Bool(_) | Value::Float(_) => unreachable!("the atom is an integer"),
                }
            }
            Atom::Dim(dim) => self.dim_range(dim),
            Atom::Expr(id) => self
                .known(id, self.relevant(id, env))
                .map_or_else(|| self.root_int(id), Value::int),
        }
    }

    /// Calls `f`, until it breaks off, with facts in which `atom` may have the wanted sign: of guards, of the scope, of its definition.
    fn for_each_fact(
        &self,
        atom: Atom,
        is_upper: bool,
        (env, max_facts): (EnvId, usize),
        f: &mut dyn FnMut(&Fact) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if env != EnvId::ROOT {
            for fact in self.envs.facts(env, atom.bit()).take(max_facts) {
                f(fact)?;
            }
        }
        match atom {
            Atom::Var(var) => self.scope_facts[var as usize].iter().try_for_each(f),
            Atom::QOffset => self.scope_facts[Var::QIdx as usize].iter().try_for_each(f),
            Atom::Scalar(slot) => self
                .declared_fact(atom, slot, is_upper)
                .iter()
                .try_for_each(f),
            Atom::Dim(_) => ControlFlow::Continue(()),
            Atom::Expr(id) => self
                .definition_facts(id, is_upper, env)
                .iter()
                .try_for_each(f),
        }
    }

    /// What the sizes of a call say of each variable, by variable.
    pub(super) fn all_scope_facts(&self) -> Vec<Vec<Fact>> {
        let vars = [
            Var::B,
            Var::H,
            Var::QIdx,
            Var::KvIdx,
            Var::Score,
            Var::QLen,
            Var::KvLen,
            Var::Batch,
            Var::NumQHeads,
        ];
        let mut facts = vec![Vec::new(); vars.len()];
        for var in vars {
            self.facts_of_var(var, &mut |fact| facts[var as usize].push(fact));
        }
        facts
    }

    fn facts_of_var(&self, var: Var, f: &mut dyn FnMut(Fact)) {
        let atom = |var: Var| Atom::Var(self.size_var(var));
        let mut below = |index: Var, count: Var| {
            let fact = Linear::atom(atom(index))
                .minus(&Linear::atom(atom(count)))
                .and_then(|form| form.combine(1, &Linear::constant(1), 1));
            if let Some(form) = fact {
                f(Fact::at_most_zero(form));
            }
        };
        match var {
            Var::B | Var::Batch => below(Var::B, Var::Batch),
            Var::H | Var::NumQHeads => below(Var::H, Var::NumQHeads),
            Var::KvIdx => below(Var::KvIdx, Var::KvLen),
            Var::QIdx | Var::QLen | Var::KvLen => {
                if var == Var::KvLen {
                    below(Var::KvIdx, Var::KvLen);
                }
                if self.sizes.relation == Relation::AtMost && var != Var::QIdx {
                    let form = Linear::atom(atom(Var::QLen)).minus(&Linear::atom(atom(Var::KvLen)));
                    f(Fact::at_most_zero(form.expect("two atoms fit")));
                }
                if var != Var::KvLen || self.sizes.relation == Relation::Equal {
                    // q_offset <= q, and q < q_offset + q_len.
                    let row =
                        Linear::atom(Atom::Var(Var::QIdx)).minus(&Linear::atom(Atom::QOffset));
                    let row = row.expect("two atoms fit");
                    f(Fact::at_most_zero(row.negated()));
                    let past = row
                        .minus(&Linear::atom(atom(Var::QLen)))
                        .and_then(|form| form.combine(1, &Linear::constant(1), 1));
                    f(Fact::at_most_zero(past.expect("three atoms fit")));
                }
            }
            Var::Score => {}
        }
    }
}
