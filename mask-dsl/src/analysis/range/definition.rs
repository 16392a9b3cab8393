//! Facts that hold of an atom because of what it is: a minimum is at most its operands, a remainder below its divisor.

use super::{
    Atom, BinaryOp, CaptureId, EnvId, Expr, ExprId, Fact, IntRange, Linear, Ranges, UnaryOp, Value,
};

impl Ranges<'_> {
    /// What is declared of a capture, said of one value of it.
    pub(super) fn declared_fact(
        &self,
        atom: Atom,
        slot: CaptureId,
        is_upper: bool,
    ) -> Option<Fact> {
        let (min, max) = self.declared[slot.index()];
        let bound = if is_upper { max } else { min }?;
        // A bound has no form yet while declarations are read.
        let bound = self.forms[bound.index()].as_ref()?;
        bounded(&Linear::atom(atom), bound, 0, is_upper)
    }

    /// Upper or lower bounds of an atom in terms of its operands.
    pub(super) fn definition_facts(&self, id: ExprId, is_upper: bool, env: EnvId) -> Vec<Fact> {
        let own = Linear::atom(Atom::Expr(id));
        let bounds: Vec<(Linear, i128)> = match self.rule.arena.expr(id) {
            Expr::Load { buffer, .. } => {
                let fact = self.declared_fact(Atom::Expr(id), *buffer, is_upper);
                return fact.into_iter().collect();
            }
            Expr::Unary {
                op: UnaryOp::Abs,
                arg,
            } if !is_upper => {
                let arg = self.form(*arg);
                vec![(arg.clone(), 0), (arg.negated(), 0)]
            }
            Expr::Binary { op, lhs, rhs } => {
                if let Some(fact) = self.division_fact(id, is_upper, env) {
                    return vec![fact];
                }
                self.operator_bounds(*op, (*lhs, *rhs), is_upper, env)
            }
            Expr::Clamp { arg, lo, hi } => {
                let limit = if is_upper { *hi } else { *lo };
                let mut bounds = vec![(self.form(limit).clone(), 0)];
                let arg_range = self.known_range(*arg, env);
                let is_past_other = if is_upper {
                    self.known_range(*lo, env).hi <= arg_range.lo
                } else {
                    arg_range.hi <= self.known_range(*hi, env).lo
                };
                if is_past_other {
                    bounds.push((self.form(*arg).clone(), 0));
                }
                bounds
            }
            Expr::Const(_)
            | Expr::Var(_)
            | Expr::Scalar(_)
            | Expr::Dim(_)
            | Expr::Unary { .. }
            | Expr::Cast { .. }
            | Expr::Select { .. }
            | Expr::Then { .. } => Vec::new(),
        };
        bounds
            .iter()
            .filter_map(|(other, slack)| bounded(&own, other, *slack, is_upper))
            .collect()
    }

    /// What is known so far of an operand.
    fn known_range(&self, id: ExprId, env: EnvId) -> IntRange {
        self.known(id, self.relevant(id, env))
            .map_or_else(|| self.root_int(id), Value::int)
    }

    /// Of a quotient `x / d` with a positive constant `d`: `d * quotient` is within `d - 1` of `x`.
    fn division_fact(&self, id: ExprId, is_upper: bool, env: EnvId) -> Option<Fact> {
        let (divisor, dividend, floors) = self.constant_division(id)?;
        let Expr::Binary { lhs, .. } = self.rule.arena.expr(id) else {
            return None;
        };
        let scaled = Linear::default().combine(1, &Linear::atom(Atom::Expr(id)), divisor)?;
        let floors = floors || 0 <= self.known_range(*lhs, env).lo;
        let slack = if is_upper && floors { 0 } else { divisor - 1 };
        bounded(&scaled, dividend, slack, is_upper)
    }

    fn operator_bounds(
        &self,
        op: BinaryOp,
        (lhs, rhs): (ExprId, ExprId),
        is_upper: bool,
        env: EnvId,
    ) -> Vec<(Linear, i128)> {
        let left = || (self.form(lhs).clone(), 0);
        let right = |slack: i128| (self.form(rhs).clone(), slack);
        let is_positive = |id: ExprId| 0 <= self.known_range(id, env).lo;
        let divides = || 1 <= self.known_range(rhs, env).lo;
        let mut bounds = Vec::new();
        match op {
            BinaryOp::Min if is_upper => bounds.extend([left(), right(0)]),
            BinaryOp::Max if !is_upper => bounds.extend([left(), right(0)]),
            BinaryOp::Div | BinaryOp::DivFloor | BinaryOp::DivEuclid | BinaryOp::Shr => {
                if is_upper && is_positive(lhs) && (op == BinaryOp::Shr || divides()) {
                    bounds.push(left());
                }
            }
            BinaryOp::Rem | BinaryOp::RemFloor | BinaryOp::RemEuclid => {
                if is_upper && divides() {
                    bounds.push(right(-1));
                    if is_positive(lhs) {
                        bounds.push(left());
                    }
                }
            }
            BinaryOp::BitAnd => {
                if is_upper && is_positive(lhs) {
                    bounds.push(left());
                }
                if is_upper && is_positive(rhs) {
                    bounds.push(right(0));
                }
            }
            BinaryOp::Min
            | BinaryOp::Max
            | BinaryOp::Add
            | BinaryOp::Sub
            | BinaryOp::Mul
            | BinaryOp::Pow
            | BinaryOp::Powi
            | BinaryOp::Powf
            | BinaryOp::WrappingAdd
            | BinaryOp::WrappingSub
            | BinaryOp::WrappingMul
            | BinaryOp::BitOr
            | BinaryOp::BitXor
            | BinaryOp::Shl
            | BinaryOp::And
            | BinaryOp::Or
            | BinaryOp::Eq
            | BinaryOp::Ne
            | BinaryOp::Lt
            | BinaryOp::Le
            | BinaryOp::Gt
            | BinaryOp::Ge => {}
        }
        bounds
    }
}

/// `form <= other + slack` for an upper bound, `other <= form + slack` for a lower one.
fn bounded(form: &Linear, other: &Linear, slack: i128, is_upper: bool) -> Option<Fact> {
    let difference = if is_upper {
        form.minus(other)
    } else {
        other.minus(form)
    };
    let difference = difference?.combine(1, &Linear::constant(slack), -1)?;
    Some(Fact::at_most_zero(difference))
}
