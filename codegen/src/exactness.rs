//! Which values must have the same bits on every engine.

use maskwright_dsl::ir::{BinaryOp, Expr, MathFn, Rule, Ty, UnaryOp};

/// Whether the value of each node decides something: it reaches a comparison, a cast to an integer, an index or a function
/// with steps, so that an approximation could change more than the last bits of a score. All values of a mask do.
pub(crate) fn decides(rule: &Rule) -> Vec<bool> {
    let arena = &rule.arena;
    let mut decides = vec![false; arena.len()];
    decides[rule.root.index()] = arena.ty(rule.root) != Ty::F32;
    for id in arena.ids().rev() {
        let here = decides[id.index()] || has_steps(arena.expr(id));
        arena.expr(id).for_each_operand(|operand| {
            // Conditions, indices and what is converted to a float are discrete.
            decides[operand.index()] |= here || arena.ty(operand) != Ty::F32;
        });
    }
    decides
}

/// Whether a small change of an operand may change the result by more.
fn has_steps(expr: &Expr) -> bool {
    match expr {
        Expr::Binary { op, .. } => op.is_comparison() || *op == BinaryOp::Rem,
        Expr::Unary { op, .. } => matches!(
            op,
            UnaryOp::Signum
                | UnaryOp::Math(MathFn::Floor | MathFn::Ceil | MathFn::Round | MathFn::Trunc)
        ),
        Expr::Const(_)
        | Expr::Var(_)
        | Expr::Scalar(_)
        | Expr::Dim(_)
        | Expr::Load { .. }
        | Expr::Clamp { .. }
        | Expr::Cast { .. }
        | Expr::Select { .. }
        | Expr::Then { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use maskwright_dsl::ir::{Arena, ExprId, RuleKind, Var};

    use super::*;

    #[test]
    fn a_value_decides_only_where_it_is_compared() {
        let mut arena = Arena::new();
        let score = arena.var(Var::Score);
        let tanh = arena.unary(UnaryOp::Math(MathFn::Tanh), score);
        let exp = arena.unary(UnaryOp::Math(MathFn::Exp), score);
        let cond = arena.binary(BinaryOp::Lt, exp, score);
        let root = arena.select(cond, tanh, score);
        let rule = Rule {
            name: "gate".to_owned(),
            doc: String::new(),
            kind: RuleKind::Score,
            captures: Vec::new(),
            dims: Vec::new(),
            arena,
            root,
            source: None,
        };
        let decides = decides(&rule);
        let at = |id: ExprId| decides[id.index()];
        assert_eq!([at(tanh), at(exp), at(root)], [false, true, false]);
    }
}
