//! `match`: each arm becomes a condition on the matched value, in order.

use crate::diagnostic::Diagnostic;
use crate::ir::{BinaryOp, Const, Expr, ExprId, Ty};

use super::super::ast::{self, Arm, Loc, Name, Pattern};
use super::expr::{is_flexible, value_loc};
use super::{Lowering, Meaning, Val};

/// The condition of an arm (none where it takes all that is left), and the name that it binds.
pub(super) type ArmTest<'t> = (Option<Val>, Option<(&'t Name, Val)>);

/// What a pattern asks of the matched value.
enum Test<'t> {
    /// Nothing; it may bind a name.
    All(Option<&'t Name>),
    /// That this holds.
    When(ExprId),
    /// A fault has been reported.
    Broken,
}

impl Lowering<'_> {
    /// `match` as a value.
    pub(super) fn match_value(
        &mut self,
        scrutinee: &ast::Expr,
        arms: &[Arm],
        expected: Option<Ty>,
        loc: Loc,
    ) -> Val {
        let value = self.expr(scrutinee, None);
        let conds = self.arm_conditions(value, scrutinee, arms, loc);
        // The first arm that is not built from literals says the type of those that are.
        let leader = arms.iter().position(|arm| !is_flexible(&arm.body));
        let mut values: Vec<Option<Val>> = vec![None; arms.len()];
        let mut ty = expected;
        let order = leader.into_iter().chain(0..arms.len());
        for at in order {
            if values[at].is_some() {
                continue;
            }
            let Some((_, bind)) = conds.get(at) else {
                continue;
            };
            let scope = self.frame.scope.len();
            self.bind(*bind);
            let result = self.expr(&arms[at].body, ty);
            self.frame.scope.truncate(scope);
            ty = self.ty(result).or(ty);
            values[at] = Some(result);
        }
        let mut result: Option<(Val, Loc)> = None;
        for (at, (cond, _)) in conds.iter().enumerate().rev() {
            let Some(arm) = values[at] else { continue };
            let arm_loc = value_loc(&arms[at].body);
            result = Some(match (result, cond) {
                (Some(rest), Some(cond)) => {
                    (self.branches(*cond, (arm, arm_loc), rest, loc), arm_loc)
                }
                (Some(_) | None, _) => (arm, arm_loc),
            });
        }
        match result {
            Some((result, _)) => self.then(value, result, scrutinee.loc),
            None => Val::Error,
        }
    }

    /// The condition of each arm (none where the arm takes all that is left), and the name that it binds. Arms after
    /// one that takes everything are left out.
    pub(super) fn arm_conditions<'t>(
        &mut self,
        value: Val,
        scrutinee: &ast::Expr,
        arms: &'t [Arm],
        loc: Loc,
    ) -> Vec<ArmTest<'t>> {
        let ty = self.ty(value);
        if ty == Some(Ty::F32) {
            self.fault_help(
                "type-mismatch",
                "expected an integer or a bool to match, found `f32`",
                scrutinee.loc,
                "write `if x < 1.0 { .. } else { .. }`",
            );
        }
        let mut conds = Vec::new();
        let mut seen = [false; 2];
        for arm in arms {
            let mut tests = Vec::new();
            let mut bind = None;
            let mut takes_all = false;
            for pattern in &arm.patterns {
                match self.pattern(pattern, value, ty, arm.loc) {
                    Test::All(name) => {
                        takes_all = true;
                        bind = bind.or(name.map(|name| (name, value)));
                    }
                    Test::When(test) => tests.push(test),
                    Test::Broken => {}
                }
                if let (Pattern::Bool(which), None) = (pattern, &arm.guard) {
                    seen[usize::from(*which)] = true;
                }
            }
            let scope = self.frame.scope.len();
            self.bind(bind);
            let guard = arm
                .guard
                .as_ref()
                .map(|guard| self.expr_of(guard, Ty::Bool, "as a guard"));
            self.frame.scope.truncate(scope);
            let all = takes_all || seen == [true, true];
            let test = if all {
                None
            } else {
                Some(self.balanced(BinaryOp::Or, &tests, arm.loc))
            };
            let cond = match (test, guard) {
                (Some(Val::Node(lhs)), Some(Val::Node(rhs))) => Some(self.known_node(
                    Expr::Binary {
                        op: BinaryOp::And,
                        lhs,
                        rhs,
                    },
                    arm.loc,
                )),
                (Some(Val::Error), _) | (_, Some(Val::Error)) => Some(Val::Error),
                (Some(test), None) => Some(test),
                (None, guard) => guard,
            };
            let last = cond.is_none();
            conds.push((cond, bind));
            if last {
                return conds;
            }
        }
        let fault = Diagnostic::new(
            "missing-else",
            "expected an arm for every value",
            self.span(loc),
        )
        .help("add `_ => ..` as the last arm");
        self.report(fault);
        conds
    }

    fn pattern<'t>(
        &mut self,
        pattern: &'t Pattern,
        value: Val,
        ty: Option<Ty>,
        loc: Loc,
    ) -> Test<'t> {
        let (Val::Node(scrutinee), Some(ty)) = (value, ty) else {
            return match pattern {
                Pattern::Any => Test::All(None),
                Pattern::Name(name) => Test::All(Some(name)),
                Pattern::Int(_) | Pattern::Bool(_) | Pattern::Range { .. } => Test::Broken,
            };
        };
        let found = match pattern {
            Pattern::Any => return Test::All(None),
            Pattern::Name(name) => {
                // A constant in scope is compared with, as in Rust.
                let constant = match self.lookup_local(&name.text) {
                    Some(Meaning::Value(constant)) if self.known_int(constant).is_some() => {
                        constant
                    }
                    _ => return Test::All(Some(name)),
                };
                let constant = self.expect_ty(constant, ty, name.loc, "as a pattern");
                return self.compare(BinaryOp::Eq, scrutinee, constant, name.loc);
            }
            Pattern::Bool(which) => {
                if ty == Ty::Bool {
                    let test = if *which { value } else { self.not(value, loc) };
                    return match test {
                        Val::Node(test) => Test::When(test),
                        Val::Error => Test::Broken,
                    };
                }
                "a bool"
            }
            Pattern::Int(at) => {
                if ty.is_int() {
                    let at = self.pattern_constant(*at, ty, loc);
                    return self.compare(BinaryOp::Eq, scrutinee, at, loc);
                }
                "an integer"
            }
            Pattern::Range { lo, hi, inclusive } => {
                if ty.is_int() {
                    return self.range_test(scrutinee, ty, (*lo, *hi, *inclusive), loc);
                }
                "an integer"
            }
        };
        if ty != Ty::F32 {
            self.fault(
                "type-mismatch",
                format!("expected a pattern of type `{ty}`, found {found}"),
                loc,
            );
        }
        Test::Broken
    }

    fn range_test<'t>(
        &mut self,
        scrutinee: ExprId,
        ty: Ty,
        (lo, hi, inclusive): (Option<i64>, Option<i64>, bool),
        loc: Loc,
    ) -> Test<'t> {
        let mut tests = Vec::new();
        if let Some(lo) = lo {
            let lo = self.pattern_constant(lo, ty, loc);
            match self.compare(BinaryOp::Ge, scrutinee, lo, loc) {
                Test::When(test) => tests.push(test),
                Test::All(_) | Test::Broken => return Test::Broken,
            }
        }
        if let Some(hi) = hi {
            let op = if inclusive {
                BinaryOp::Le
            } else {
                BinaryOp::Lt
            };
            let hi = self.pattern_constant(hi, ty, loc);
            match self.compare(op, scrutinee, hi, loc) {
                Test::When(test) => tests.push(test),
                Test::All(_) | Test::Broken => return Test::Broken,
            }
        }
        match self.balanced(BinaryOp::And, &tests, loc) {
            Val::Node(test) => Test::When(test),
            Val::Error => Test::Broken,
        }
    }

    fn pattern_constant(&mut self, value: i64, ty: Ty, loc: Loc) -> Val {
        let Some(constant) = Const::from_int(ty, value) else {
            self.fault(
                "out-of-range",
                format!("`{value}` does not fit `{ty}`"),
                loc,
            );
            return Val::Error;
        };
        self.constant(constant, loc)
    }

    fn compare<'t>(&mut self, op: BinaryOp, lhs: ExprId, rhs: Val, loc: Loc) -> Test<'t> {
        let Val::Node(rhs) = rhs else {
            return Test::Broken;
        };
        match self.known_node(Expr::Binary { op, lhs, rhs }, loc) {
            Val::Node(test) => Test::When(test),
            Val::Error => Test::Broken,
        }
    }
}
