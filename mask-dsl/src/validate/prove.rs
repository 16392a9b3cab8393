//! Proofs that a linear form is never positive: bounds first, then what bounds do not see.

use crate::analysis::facts::EnvId;
use crate::analysis::linear::{Atom, Linear};
use crate::analysis::range::{Effort, Ranges};
use crate::ir::{BinaryOp, Expr, ExprId};

/// Whether `form <= 0` is proved where `env` holds.
pub(super) fn is_at_most_zero(ranges: &mut Ranges<'_>, form: &Linear, env: EnvId) -> bool {
    prove(ranges, form, env, 3)
}

/// Tries bounds, then each case of an `if`, a minimum or a maximum within the form, then pairs of quotients.
fn prove(ranges: &mut Ranges<'_>, form: &Linear, env: EnvId, splits: u32) -> bool {
    if ranges.is_dead(env) {
        return true;
    }
    for &(atom, _) in &form.terms {
        if let Atom::Expr(id) = atom {
            ranges.value(id, env);
        }
    }
    if ranges.upper(form, env, Effort::QUICK) <= 0 || ranges.upper(form, env, Effort::THOROUGH) <= 0
    {
        return true;
    }
    if splits == 0 {
        return false;
    }
    for &(atom, factor) in &form.terms {
        let Atom::Expr(id) = atom else { continue };
        if let Some(cases) = cases(ranges, id, factor, env) {
            return cases.into_iter().all(|(env, case)| {
                let by = ranges.form(case).clone();
                form.substitute(atom, &by)
                    .is_some_and(|form| prove(ranges, &form, env, splits - 1))
            });
        }
    }
    by_quotients(ranges, form, env, splits - 1)
}

/// What an atom is one of, each with where that holds.
fn cases(
    ranges: &mut Ranges<'_>,
    id: ExprId,
    factor: i128,
    env: EnvId,
) -> Option<[(EnvId, ExprId); 2]> {
    match *ranges.rule().arena.expr(id) {
        Expr::Select {
            cond,
            then,
            otherwise,
        } => Some([
            (ranges.under(env, cond, true), then),
            (ranges.under(env, cond, false), otherwise),
        ]),
        Expr::Binary {
            op: BinaryOp::Min,
            lhs,
            rhs,
        } if factor < 0 => Some([(env, lhs), (env, rhs)]),
        Expr::Binary {
            op: BinaryOp::Max,
            lhs,
            rhs,
        } if 0 < factor => Some([(env, lhs), (env, rhs)]),
        Expr::Const(_)
        | Expr::Var(_)
        | Expr::Scalar(_)
        | Expr::Dim(_)
        | Expr::Load { .. }
        | Expr::Unary { .. }
        | Expr::Binary { .. }
        | Expr::Clamp { .. }
        | Expr::Cast { .. }
        | Expr::Then { .. } => None,
    }
}

/// `a / d - b / d` is at most 0 if `a <= b`, and at most -1 if `a + d <= b`: a run-time page or group size cancels.
fn by_quotients(ranges: &mut Ranges<'_>, form: &Linear, env: EnvId, splits: u32) -> bool {
    for &(x, factor) in form.terms.iter().filter(|term| 0 < term.1) {
        for &(y, other) in &form.terms {
            let (Atom::Expr(x_id), Atom::Expr(y_id)) = (x, y) else {
                continue;
            };
            if other != -factor {
                continue;
            }
            let Some((op, a, d)) = division(ranges, x_id) else {
                continue;
            };
            if division(ranges, y_id).is_none_or(|other| (op, d) != (other.0, other.2))
                || ranges.value(d, env).int().lo < 1
            {
                continue;
            }
            let b = division(ranges, y_id).expect("checked above").1;
            let steps_down = op != BinaryOp::Div || 0 <= ranges.value(a, env).int().lo;
            let gap = ranges.form(a).minus(ranges.form(b));
            let wider = gap
                .as_ref()
                .and_then(|gap| gap.combine(1, ranges.form(d), 1));
            let mut holds = |gap: Option<Linear>| {
                gap.is_some_and(|gap| prove(ranges, &gap, env, splits.min(1)))
            };
            let difference = if steps_down && holds(wider) {
                -1
            } else if holds(gap) {
                0
            } else {
                continue;
            };
            let rest = form
                .combine(1, &Linear::atom(x), -factor)
                .and_then(|form| form.combine(1, &Linear::atom(y), factor))
                .and_then(|form| form.combine(1, &Linear::constant(difference), factor));
            if rest.is_some_and(|rest| prove(ranges, &rest, env, splits)) {
                return true;
            }
        }
    }
    false
}

/// The flavour, dividend and divisor of a quotient.
fn division(ranges: &Ranges<'_>, id: ExprId) -> Option<(BinaryOp, ExprId, ExprId)> {
    match *ranges.rule().arena.expr(id) {
        Expr::Binary {
            op: op @ (BinaryOp::Div | BinaryOp::DivFloor | BinaryOp::DivEuclid),
            lhs,
            rhs,
        } => Some((op, lhs, rhs)),
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
        | Expr::Then { .. } => None,
    }
}
