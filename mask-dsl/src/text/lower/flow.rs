//! The body of an item: an early return becomes a branch of everything that follows it.

use std::rc::Rc;

use crate::ir::Ty;

use super::super::ast::{self, Block, ExprKind, Loc, Name, Stmt};
use super::stmt::{BranchBody, Pending};
use super::{Lowering, Val};

/// What is left to do in the body of an item.
struct Work<'t> {
    kind: WorkKind<'t>,
    next: Option<Rc<Work<'t>>>,
}

enum WorkKind<'t> {
    /// Statements of a block.
    Block {
        stmts: &'t [Stmt],
        tail: Option<&'t ast::Expr>,
        /// Names in scope after the block.
        scope: usize,
        loc: Loc,
    },
    /// Further copies of a loop body.
    Loop {
        var: &'t Name,
        body: &'t Block,
        next: i64,
        end: i64,
        ty: Ty,
        /// Names in scope after the loop.
        scope: usize,
    },
}

impl<'t> BranchBody<'t> {
    pub(super) fn loc(self) -> Loc {
        match self {
            BranchBody::Block(block) => block.loc,
            BranchBody::Expr(expr) => expr.loc,
            BranchBody::Nothing(loc) => loc,
        }
    }

    fn diverges(self) -> bool {
        match self {
            BranchBody::Block(block) => block_diverges(block),
            BranchBody::Expr(expr) => diverges(expr),
            BranchBody::Nothing(_) => false,
        }
    }

    /// The branch as work before `next`.
    fn work(self, scope: usize, next: Option<Rc<Work<'t>>>) -> Option<Rc<Work<'t>>> {
        let (stmts, tail, loc) = match self {
            BranchBody::Block(block) => (block.stmts.as_slice(), block.tail.as_deref(), block.loc),
            BranchBody::Expr(expr) => match &expr.kind {
                ExprKind::Block(block) => {
                    (block.stmts.as_slice(), block.tail.as_deref(), block.loc)
                }
                _ => (&[][..], Some(expr), expr.loc),
            },
            BranchBody::Nothing(_) => return next,
        };
        Some(Rc::new(Work {
            kind: WorkKind::Block {
                stmts,
                tail,
                scope,
                loc,
            },
            next,
        }))
    }
}

impl Lowering<'_> {
    /// The result of an item.
    pub(super) fn run_body(&mut self, body: &Block, returns: Ty) -> Val {
        let work = BranchBody::Block(body).work(self.frame.scope.len(), None);
        self.run(work, returns)
    }

    fn run(&mut self, work: Option<Rc<Work<'_>>>, returns: Ty) -> Val {
        let loc = Loc::new(0, 0);
        let value = if self.enter(work.as_ref().map_or(loc, |work| match &work.kind {
            WorkKind::Block { loc, .. } => *loc,
            WorkKind::Loop { body, .. } => body.loc,
        })) {
            self.run_work(work, returns)
        } else {
            Val::Error
        };
        self.leave();
        value
    }

    fn run_work(&mut self, mut work: Option<Rc<Work<'_>>>, returns: Ty) -> Val {
        let mut pending = Vec::new();
        let mut last_loc = Loc::new(0, 0);
        while let Some(current) = work.take() {
            if self.too_large {
                return Val::Error;
            }
            let (stmts, tail, scope, loc) = match &current.kind {
                WorkKind::Loop {
                    var,
                    body,
                    next,
                    end,
                    ty,
                    scope,
                } => {
                    self.frame.scope.truncate(*scope);
                    if next == end {
                        work.clone_from(&current.next);
                        continue;
                    }
                    self.bind_index(var, *next, *ty);
                    let rest = Rc::new(Work {
                        kind: WorkKind::Loop {
                            var,
                            body,
                            next: next + 1,
                            end: *end,
                            ty: *ty,
                            scope: *scope,
                        },
                        next: current.next.clone(),
                    });
                    work = BranchBody::Block(body).work(self.frame.scope.len(), Some(rest));
                    continue;
                }
                WorkKind::Block {
                    stmts,
                    tail,
                    scope,
                    loc,
                } => (*stmts, *tail, *scope, *loc),
            };
            last_loc = loc;
            let mut jumped = false;
            for (i, stmt) in stmts.iter().enumerate() {
                let rest = || {
                    Some(Rc::new(Work {
                        kind: WorkKind::Block {
                            stmts: &stmts[i + 1..],
                            tail,
                            scope,
                            loc,
                        },
                        next: current.next.clone(),
                    }))
                };
                match stmt {
                    Stmt::Return { value, .. } => {
                        let value = self.expr_of(value, returns, "as the result");
                        return self.fold(pending, value);
                    }
                    Stmt::For {
                        var, range, body, ..
                    } if block_returns(body) => {
                        let (next, end, ty) = self.iterations(range).unwrap_or((0, 0, Ty::I32));
                        work = Some(Rc::new(Work {
                            kind: WorkKind::Loop {
                                var,
                                body,
                                next,
                                end,
                                ty,
                                scope: self.frame.scope.len(),
                            },
                            next: rest(),
                        }));
                        jumped = true;
                    }
                    Stmt::Expr(expr) if expr_returns(expr) => {
                        work = self.jump(expr, rest(), &mut pending, returns);
                        jumped = true;
                    }
                    Stmt::Let { .. } | Stmt::Assign { .. } | Stmt::For { .. } | Stmt::Expr(_) => {
                        self.stmt(stmt, &mut pending);
                    }
                }
                if jumped {
                    break;
                }
            }
            if jumped {
                continue;
            }
            match tail {
                Some(tail) if current.next.is_none() => {
                    let value = self.result(tail, returns);
                    return self.fold(pending, value);
                }
                Some(tail) if expr_returns(tail) => {
                    let rest = Some(Rc::new(Work {
                        kind: WorkKind::Block {
                            stmts: &[],
                            tail: None,
                            scope,
                            loc,
                        },
                        next: current.next.clone(),
                    }));
                    work = self.jump(tail, rest, &mut pending, returns);
                    continue;
                }
                Some(tail) => self.effect(tail, &mut pending),
                None => {}
            }
            self.frame.scope.truncate(scope);
            work.clone_from(&current.next);
        }
        self.fault_help(
            "missing-value",
            format!("expected a value of type `{returns}` at the end, found none"),
            last_loc,
            "the last line of a block, without `;`, is its value",
        );
        Val::Error
    }

    /// The value of the last expression of an item, whose branches may return.
    fn result(&mut self, expr: &ast::Expr, returns: Ty) -> Val {
        if !expr_returns(expr) {
            return self.expr_of(expr, returns, "as the result");
        }
        let mut pending = Vec::new();
        // The last branch decides, or there is none.
        let value = if let Some(work) = self.jump(expr, None, &mut pending, returns) {
            self.run(Some(work), returns)
        } else {
            self.fault_help(
                "missing-else",
                "expected a value where no branch is taken, found none",
                expr.loc,
                "add `else { .. }`, or a value after it",
            );
            Val::Error
        };
        self.fold(pending, value)
    }

    /// Lowers a statement that may return, before `rest`. Gives what is left to do where no branch
    /// with a condition is taken.
    fn jump<'t>(
        &mut self,
        expr: &'t ast::Expr,
        rest: Option<Rc<Work<'t>>>,
        pending: &mut Vec<Pending>,
        returns: Ty,
    ) -> Option<Rc<Work<'t>>> {
        let scope = self.frame.scope.len();
        let Some(branches) = self.choices(expr, pending) else {
            return BranchBody::Expr(expr).work(scope, rest);
        };
        for branch in branches {
            self.bind(branch.bind);
            let Some(cond) = branch.cond else {
                return branch.body.work(scope, rest);
            };
            // What follows is lowered once more for a branch that may go on to it.
            let next = if branch.body.diverges() {
                None
            } else {
                rest.clone()
            };
            let saved = self.frame.scope.clone();
            let value = self.run(branch.body.work(scope, next), returns);
            self.frame.scope = saved;
            self.frame.scope.truncate(scope);
            pending.push(Pending::Returned(cond, value, branch.body.loc()));
        }
        rest
    }
}

fn stmt_returns(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::Return { .. } => true,
        Stmt::For { body, .. } => block_returns(body),
        Stmt::Expr(expr) => expr_returns(expr),
        Stmt::Let { .. } | Stmt::Assign { .. } => false,
    }
}

pub(super) fn block_returns(block: &Block) -> bool {
    block.stmts.iter().any(stmt_returns)
        || block.tail.as_ref().is_some_and(|tail| expr_returns(tail))
}

/// Whether a statement may return from the item.
fn expr_returns(expr: &ast::Expr) -> bool {
    match &expr.kind {
        ExprKind::Block(block) => block_returns(block),
        ExprKind::If {
            then, otherwise, ..
        } => block_returns(then) || otherwise.as_ref().is_some_and(|o| expr_returns(o)),
        ExprKind::Match { arms, .. } => arms.iter().any(|arm| expr_returns(&arm.body)),
        _ => false,
    }
}

fn block_diverges(block: &Block) -> bool {
    block.stmts.iter().any(|stmt| match stmt {
        Stmt::Return { .. } => true,
        Stmt::Expr(expr) => diverges(expr),
        Stmt::Let { .. } | Stmt::Assign { .. } | Stmt::For { .. } => false,
    }) || block.tail.as_ref().is_some_and(|tail| diverges(tail))
}

/// Whether a statement surely returns from the item.
fn diverges(expr: &ast::Expr) -> bool {
    match &expr.kind {
        ExprKind::Block(block) => block_diverges(block),
        ExprKind::If {
            then,
            otherwise: Some(otherwise),
            ..
        } => block_diverges(then) && diverges(otherwise),
        ExprKind::Match { arms, .. } => {
            !arms.is_empty() && arms.iter().all(|arm| diverges(&arm.body))
        }
        _ => false,
    }
}
