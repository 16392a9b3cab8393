//! Statements: a name that changes in a branch becomes a select.

use std::rc::Rc;

use crate::ir::{BinaryOp, Const, ExprId, Ty};

use super::super::ast::{self, Block, ExprKind, Loc, Name, Stmt};
use super::flow::block_returns;
use super::{Local, Lowering, Meaning, Val};

/// What must be done to the value that follows, the outermost first.
pub(super) enum Pending {
    /// An eager `let`: evaluate this before.
    First(Val, Loc),
    /// Where the condition holds, the result is this.
    Returned(Val, Val, Loc),
}

/// A branch of an `if` or `match`, with the condition that chooses it (none for the rest).
pub(super) struct Branch<'t> {
    pub(super) cond: Option<Val>,
    pub(super) body: BranchBody<'t>,
    pub(super) bind: Option<(&'t Name, Val)>,
}

#[derive(Clone, Copy)]
pub(super) enum BranchBody<'t> {
    Block(&'t Block),
    Expr(&'t ast::Expr),
    Nothing(Loc),
}

impl Lowering<'_> {
    /// The branches of an `if` or `match`, in order; `None` for anything else.
    pub(super) fn choices<'t>(
        &mut self,
        expr: &'t ast::Expr,
        pending: &mut Vec<Pending>,
    ) -> Option<Vec<Branch<'t>>> {
        match &expr.kind {
            ExprKind::If {
                cond,
                then,
                otherwise,
            } => {
                let cond_value = self.expr_of(cond, Ty::Bool, "as a condition");
                let last = match otherwise {
                    Some(otherwise) => BranchBody::Expr(otherwise),
                    None => BranchBody::Nothing(expr.loc),
                };
                let mut branches = vec![Branch {
                    cond: Some(cond_value),
                    body: BranchBody::Block(then),
                    bind: None,
                }];
                if otherwise.is_some() {
                    branches.push(Branch {
                        cond: None,
                        body: last,
                        bind: None,
                    });
                }
                Some(branches)
            }
            ExprKind::Match { scrutinee, arms } => {
                let value = self.expr(scrutinee, None);
                pending.push(Pending::First(value, scrutinee.loc));
                let conds = self.arm_conditions(value, scrutinee, arms, expr.loc);
                Some(
                    conds
                        .into_iter()
                        .zip(arms)
                        .map(|((cond, bind), arm)| Branch {
                            cond,
                            body: BranchBody::Expr(&arm.body),
                            bind,
                        })
                        .collect(),
                )
            }
            _ => None,
        }
    }

    pub(super) fn bind(&mut self, bind: Option<(&Name, Val)>) {
        if let Some((name, value)) = bind {
            self.put_in_scope(&name.text, value);
        }
    }

    /// Wraps a value in what came before it.
    pub(super) fn fold(&mut self, pending: Vec<Pending>, mut value: Val) -> Val {
        for before in pending.into_iter().rev() {
            value = match before {
                Pending::First(first, first_loc) => self.then(first, value, first_loc),
                Pending::Returned(cond, result, at) => self.select(cond, result, value, at),
            };
        }
        value
    }

    /// The value of a block that is an expression: what it changes stays within it.
    pub(super) fn block_value(&mut self, block: &Block, expected: Option<Ty>) -> Val {
        let scope = self.frame.scope.len();
        let barrier = std::mem::replace(&mut self.frame.barrier, scope);
        let mut pending = Vec::new();
        for stmt in &block.stmts {
            self.stmt(stmt, &mut pending);
        }
        let value = if let Some(tail) = &block.tail {
            self.expr(tail, expected)
        } else {
            if !block_returns(block) {
                self.fault_help(
                    "missing-value",
                    "expected a value at the end of this block, found none",
                    block.loc,
                    "the last line of a block, without `;`, is its value",
                );
            }
            Val::Error
        };
        let value = self.fold(pending, value);
        self.frame.scope.truncate(scope);
        self.frame.barrier = barrier;
        value
    }

    /// A statement that does not return.
    pub(super) fn stmt(&mut self, stmt: &Stmt, pending: &mut Vec<Pending>) {
        let loc = match stmt {
            Stmt::Let { loc, .. }
            | Stmt::Assign { loc, .. }
            | Stmt::For { loc, .. }
            | Stmt::Return { loc, .. } => *loc,
            Stmt::Expr(expr) => expr.loc,
        };
        if self.enter(loc) {
            self.stmt_kind(stmt, pending);
        }
        self.leave();
    }

    fn stmt_kind(&mut self, stmt: &Stmt, pending: &mut Vec<Pending>) {
        match stmt {
            Stmt::Let {
                name,
                mutable,
                ty,
                value,
                ..
            } => {
                let meaning = self.let_meaning(value, *ty);
                if let Meaning::Value(value_of) = meaning {
                    pending.push(Pending::First(value_of, value.loc));
                }
                self.frame.scope.push(Local {
                    name: Rc::from(name.text.as_str()),
                    meaning,
                    mutable: *mutable,
                });
            }
            Stmt::Assign {
                name,
                op,
                value,
                loc,
            } => self.assign(name, *op, value, *loc, pending),
            Stmt::For {
                var, range, body, ..
            } => {
                let Some((lo, hi, ty)) = self.iterations(range) else {
                    return;
                };
                for i in lo..hi {
                    let scope = self.frame.scope.len();
                    let faults = self.faults.len();
                    self.bind_index(var, i, ty);
                    self.block_effect(body, pending);
                    self.frame.scope.truncate(scope);
                    if self.too_large || faults != self.faults.len() {
                        // The next copy of the body would have the same faults.
                        break;
                    }
                }
            }
            Stmt::Return { loc, value } => {
                self.expr(value, None);
                self.fault_help(
                    "return-position",
                    "expected a value, found `return`",
                    *loc,
                    "a `return` stands in the body of the rule, or in an `if`, `match` or `for` that is a statement of it",
                );
            }
            Stmt::Expr(expr) => self.effect(expr, pending),
        }
    }

    /// What a `let` makes of its name: a value, or another name of a buffer.
    fn let_meaning(&mut self, value: &ast::Expr, ty: Option<Ty>) -> Meaning {
        if let (ExprKind::Path(path), None) = (&value.kind, ty)
            && let [name] = path.as_slice()
            && let Some(Meaning::Buffer(buffer)) = self.lookup_local(&name.text)
            && buffer.rank != 0
        {
            return Meaning::Buffer(buffer);
        }
        Meaning::Value(match ty {
            Some(ty) => self.expr_of(value, ty, "for this name"),
            None => self.expr(value, None),
        })
    }

    pub(super) fn lookup_local(&self, name: &str) -> Option<Meaning> {
        let local = self.frame.scope.iter().rev().find(|l| &*l.name == name)?;
        Some(local.meaning.clone())
    }

    fn assign(
        &mut self,
        name: &Name,
        op: Option<BinaryOp>,
        value: &ast::Expr,
        loc: Loc,
        pending: &mut Vec<Pending>,
    ) {
        let at = self
            .frame
            .scope
            .iter()
            .rposition(|local| *local.name == name.text);
        let Some(at) = at else {
            if let Some(meaning) = self.resolve(&name.text, name.loc) {
                if meaning != Meaning::Value(Val::Error) {
                    self.fault_help(
                        "immutable",
                        format!("`{}` cannot be assigned to", name.text),
                        name.loc,
                        format!("copy it first: `let mut x = {};`", name.text),
                    );
                }
            } else {
                self.unknown_name(&name.text, name.loc);
            }
            self.expr(value, None);
            return;
        };
        let local = self.frame.scope[at].clone();
        let old = match local.meaning {
            Meaning::Value(old) => old,
            Meaning::Buffer(_) | Meaning::DimOf(_) => {
                self.fault(
                    "immutable",
                    format!("`{}` cannot be assigned to", name.text),
                    name.loc,
                );
                self.expr(value, None);
                return;
            }
        };
        let ty = self.ty(old);
        let hint = match op {
            Some(BinaryOp::Shl | BinaryOp::Shr) => Some(Ty::I32),
            _ => ty,
        };
        let right = self.expr(value, hint);
        let new = match op {
            Some(op) => self.binary_of(op, (old, name.loc), (right, value.loc), loc),
            None => match ty {
                Some(ty) => self.expect_ty(right, ty, value.loc, &format!("for `{}`", name.text)),
                None => right,
            },
        };
        if !local.mutable {
            self.fault_help(
                "immutable",
                format!("`{}` cannot be assigned to", name.text),
                name.loc,
                if self.captures.iter().any(|decl| decl.name == name.text) {
                    format!("copy it first: `let mut x = {};`", name.text)
                } else {
                    format!("declare it with `let mut {}`", name.text)
                },
            );
        } else if at < self.frame.barrier {
            self.fault_help(
                "immutable",
                format!("`{}` cannot be assigned to within a value", name.text),
                name.loc,
                "assign in a statement of the body, or in an `if`, `match` or `for` that is a statement of it",
            );
        }
        pending.push(Pending::First(new, value.loc));
        self.frame.scope[at].meaning = Meaning::Value(new);
    }

    /// An expression for what its statements do.
    pub(super) fn effect(&mut self, expr: &ast::Expr, pending: &mut Vec<Pending>) {
        match &expr.kind {
            ExprKind::Block(block) => self.block_effect(block, pending),
            ExprKind::If { .. } | ExprKind::Match { .. } => {
                if let Some(branches) = self.choices(expr, pending) {
                    self.branch_effects(&branches, expr.loc, pending);
                }
            }
            ExprKind::Error => {}
            _ => {
                self.expr(expr, None);
                self.fault_help(
                    "unused-value",
                    "this value is not used",
                    expr.loc,
                    "a statement here assigns, as in `x = ..;`",
                );
            }
        }
    }

    pub(super) fn block_effect(&mut self, block: &Block, pending: &mut Vec<Pending>) {
        let scope = self.frame.scope.len();
        for stmt in &block.stmts {
            self.stmt(stmt, pending);
        }
        if let Some(tail) = &block.tail {
            self.effect(tail, pending);
        }
        self.frame.scope.truncate(scope);
    }

    /// What the branches of a statement do: a name that differs after them becomes a select.
    fn branch_effects(&mut self, branches: &[Branch<'_>], loc: Loc, pending: &mut Vec<Pending>) {
        let Some((branch, rest)) = branches.split_first() else {
            return;
        };
        let scope = self.frame.scope.len();
        let before: Vec<Local> = self.frame.scope.clone();
        let mut first = Vec::new();
        self.bind(branch.bind);
        match branch.body {
            BranchBody::Block(block) => self.block_effect(block, &mut first),
            BranchBody::Expr(expr) => self.effect(expr, &mut first),
            BranchBody::Nothing(_) => {}
        }
        self.frame.scope.truncate(scope);
        let Some(cond) = branch.cond else {
            pending.extend(first);
            return;
        };
        let then_scope = std::mem::replace(&mut self.frame.scope, before);
        let mut second = Vec::new();
        // A long `match` recurses once for each arm.
        if self.enter(loc) {
            self.branch_effects(rest, loc, &mut second);
        }
        self.leave();
        let mut merged = (Vec::new(), Vec::new());
        for (at, then_local) in then_scope.into_iter().enumerate() {
            let (Meaning::Value(then), Meaning::Value(otherwise)) =
                (then_local.meaning, self.frame.scope[at].meaning.clone())
            else {
                continue;
            };
            if then == otherwise {
                continue;
            }
            let value = self.select(cond, then, otherwise, loc);
            self.frame.scope[at].meaning = Meaning::Value(value);
            if let (Val::Node(then), Val::Node(otherwise)) = (then, otherwise) {
                merged.0.push(then);
                merged.1.push(otherwise);
                pending.push(Pending::First(value, loc));
            }
        }
        // What a branch computes must be provable where the branch is taken, even if nothing uses it.
        let then = self.leftovers(first, &merged.0, loc);
        let otherwise = self.leftovers(second, &merged.1, loc);
        if then.is_some() || otherwise.is_some() {
            let nothing = self.constant(Const::Bool(true), loc);
            let both = self.select(
                cond,
                then.unwrap_or(nothing),
                otherwise.unwrap_or(nothing),
                loc,
            );
            pending.push(Pending::First(both, loc));
        }
    }

    /// What must be evaluated besides the values that a branch leaves, if anything.
    fn leftovers(&mut self, pending: Vec<Pending>, values: &[ExprId], loc: Loc) -> Option<Val> {
        let left: Vec<Pending> = pending
            .into_iter()
            .filter(|before| match before {
                Pending::First(Val::Node(first), _) => {
                    self.can_fail(Val::Node(*first))
                        && !values.iter().any(|value| self.evaluates(*value, *first))
                }
                Pending::First(Val::Error, _) => false,
                Pending::Returned(..) => true,
            })
            .collect();
        if left.is_empty() {
            return None;
        }
        let nothing = self.constant(Const::Bool(true), loc);
        Some(self.fold(left, nothing))
    }
}
