//! Which names of a closure's body come from outside.

use std::collections::BTreeSet;

use proc_macro2::Ident;
use syn::visit::{self, Visit};
use syn::{Arm, Block, Expr, ExprCall, ExprClosure, ExprForLoop, ExprIf, Local, Pat, PatIdent};

/// The names that `body` takes from around it, in the order of their first use; `params` are its own.
pub(crate) fn captured(body: &Block, params: &[&Ident]) -> Vec<Ident> {
    let mut scope = Scope {
        bound: params.iter().map(ToString::to_string).collect(),
        captured: Vec::new(),
    };
    scope.visit_block(body);
    scope.captured
}

/// Whether a body gives `name` to something.
pub(crate) fn binds(block: &Block, name: &str) -> bool {
    let mut names = Names(BTreeSet::new());
    names.visit_block(block);
    names.0.contains(name)
}

/// Every name that patterns bind.
struct Names(BTreeSet<String>);

impl<'ast> Visit<'ast> for Names {
    fn visit_pat_ident(&mut self, pat: &'ast PatIdent) {
        self.0.insert(pat.ident.to_string());
        visit::visit_pat_ident(self, pat);
    }
}

struct Scope {
    /// Names in scope, the innermost last.
    bound: Vec<String>,
    captured: Vec<Ident>,
}

impl Scope {
    fn bind(&mut self, pat: &Pat) {
        let mut names = Names(BTreeSet::new());
        match pat {
            // The guard is a value.
            Pat::Guard(guard) => names.visit_pat(&guard.pat),
            _ => names.visit_pat(pat),
        }
        self.bound.extend(names.0);
    }

    fn within(&mut self, walk: impl FnOnce(&mut Self)) {
        let before = self.bound.len();
        walk(self);
        self.bound.truncate(before);
    }
}

impl<'ast> Visit<'ast> for Scope {
    fn visit_block(&mut self, block: &'ast Block) {
        self.within(|scope| visit::visit_block(scope, block));
    }

    fn visit_local(&mut self, local: &'ast Local) {
        if let Some(init) = &local.init {
            visit::visit_local_init(self, init);
        }
        self.bind(&local.pat);
    }

    fn visit_expr_closure(&mut self, closure: &'ast ExprClosure) {
        self.within(|scope| {
            for input in &closure.inputs {
                scope.bind(input);
            }
            scope.visit_expr(&closure.body);
        });
    }

    fn visit_expr_for_loop(&mut self, expr: &'ast ExprForLoop) {
        self.visit_expr(&expr.expr);
        self.within(|scope| {
            scope.bind(&expr.pat);
            scope.visit_block(&expr.body);
        });
    }

    fn visit_expr_if(&mut self, expr: &'ast ExprIf) {
        self.within(|scope| {
            if let Expr::Let(condition) = &*expr.cond {
                scope.visit_expr(&condition.expr);
                scope.bind(&condition.pat);
            } else {
                scope.visit_expr(&expr.cond);
            }
            scope.visit_block(&expr.then_branch);
        });
        if let Some((_, otherwise)) = &expr.else_branch {
            self.visit_expr(otherwise);
        }
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        self.within(|scope| {
            scope.bind(&arm.pat);
            if let Pat::Guard(guard) = &arm.pat {
                scope.visit_expr(&guard.guard);
            }
            scope.visit_expr(&arm.body);
        });
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        // What is called is a function, never a capture.
        if !matches!(&*call.func, Expr::Path(_)) {
            self.visit_expr(&call.func);
        }
        for arg in &call.args {
            self.visit_expr(arg);
        }
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        if let Expr::Path(path) = expr
            && let Some(name) = path.path.get_ident()
        {
            let text = name.to_string();
            let own = self.bound.contains(&text) || text == "self" || text == "inf";
            if !own && !self.captured.contains(name) {
                self.captured.push(name.clone());
            }
            return;
        }
        visit::visit_expr(self, expr);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, expected: &[&str]) {
        let body: Block = syn::parse_str(&format!("{{ {body} }}")).unwrap();
        let [q, kv]: [Ident; 2] = ["q", "kv"].map(|name| syn::parse_str(name).unwrap());
        let names: Vec<String> = captured(&body, &[&q, &kv])
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(names, expected, "{:?}", quote::quote!(#body).to_string());
    }

    #[test]
    fn free_names_are_captured_once_in_order() {
        check(
            "kv <= q && q - kv < w && doc[q] == doc[kv] + w",
            &["w", "doc"],
        );
        check("W < q && q < f32::MAX as i32 && exp(x) < 1.0", &["W", "x"]);
        check("near(q, kv, &doc) && a::near(q)", &["doc"]);
        check("kv as f32 == inf", &[]);
    }

    #[test]
    fn local_names_are_not() {
        check("{ let w = w * 2; let x = w; x < q }", &["w"]);
        check("{ { let x = 1; x }; x }", &["x"]);
        check("(0..n).any(|i| i == q) && i == 0", &["n", "i"]);
        check(
            "{ for i in 0..n { if i == q { return true; } } false }",
            &["n"],
        );
        check(
            "match q { 0 => a, n if n < m => n, _ => b }",
            &["a", "m", "b"],
        );
    }
}
