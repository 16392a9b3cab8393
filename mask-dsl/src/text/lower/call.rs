//! Calls of rules, functions and built-in functions. Arguments are eager, and recursion is refused.

use std::rc::Rc;
use std::sync::Arc;

use crate::diagnostic::Diagnostic;
use crate::ir::{CaptureId, RuleKind, Ty, Var};

use super::super::ast::{self, ExprKind, Item, ItemKind, Loc, Module, Name, Param, ParamTy};
use super::head::names_in;
use super::{Frame, FrameKind, Local, Lowering, Meaning, Val, result_ty};

/// The name of a dimension, with the axes that it is the whole extent of.
type DimAxes = (Rc<str>, Vec<(CaptureId, usize)>);

/// What a called item gets.
#[derive(Default)]
struct Arguments {
    /// Names that its body sees.
    scope: Vec<Local>,
    /// Values that must be provable where the call stands.
    eager: Vec<(Val, Loc)>,
    /// Variables that were passed by position.
    vars: [Option<Val>; 9],
    /// Axes that its dimension names stand for.
    dims: Vec<DimAxes>,
}

impl Lowering<'_> {
    /// The item called `name`, from this text or the library.
    pub(super) fn find_item(&self, name: &str) -> Option<(Arc<Module>, usize)> {
        let module = &self.frame.module;
        if let Some(at) = module.items.iter().position(|item| item.name.text == name) {
            return Some((Arc::clone(module), at));
        }
        let (module, at) = self.library.find(name)?;
        module.items.get(at)?;
        Some((module, at))
    }

    /// The item that a call means.
    fn find_callee(&self, path: &[Name]) -> Option<(Arc<Module>, usize)> {
        let (name, before) = path.split_last()?;
        let own = self.frame.module.items.iter();
        let mut own = own.map(|item| item.name.text.as_str());
        if !before.is_empty() || !own.any(|own| own == name.text) {
            let words: Vec<&str> = path.iter().map(|name| name.text.as_str()).collect();
            let found = self.library.find_path(&self.frame.module, &words);
            // While a function is checked by itself, a longer path is a function elsewhere.
            if found.is_some() || (self.checking() && !before.is_empty()) {
                return found;
            }
        }
        self.find_item(&name.text)
    }

    pub(super) fn call(
        &mut self,
        path: &[Name],
        generics: &[ast::Expr],
        args: &[ast::Expr],
        expected: Option<Ty>,
        loc: Loc,
    ) -> Val {
        let Some((name, before)) = path.split_last() else {
            return Val::Error;
        };
        let of = before.last().and_then(|module| Ty::from_name(&module.text));
        let arguments: Vec<&ast::Expr> = args.iter().collect();
        if let Some(value) = self.built_in(name, of, &arguments, expected, loc) {
            return value;
        }
        if let (Some(to), "from", [arg]) = (of, name.text.as_str(), args) {
            return self.convert(to, arg, loc);
        }
        if of.is_none()
            && let Some((module, at)) = self.find_callee(path)
        {
            return self.call_item(&module, at, generics, args, name, loc);
        }
        // The arguments may have faults of their own.
        for arg in args {
            let is_buffer = matches!(&arg.kind, ExprKind::Path(path) if self.is_buffer(path));
            if !is_buffer {
                self.expr(arg, None);
            }
        }
        match &mut self.assumed {
            Some(count) if of.is_none() => *count += 1,
            Some(_) | None => self.unknown_function(&name.text, name.loc),
        }
        Val::Error
    }

    fn is_buffer(&mut self, path: &[Name]) -> bool {
        let [name] = path else { return false };
        let found = self
            .frame
            .scope
            .iter()
            .rev()
            .find(|local| *local.name == name.text);
        matches!(found.map(|local| &local.meaning), Some(Meaning::Buffer(_)))
    }

    pub(super) fn method(
        &mut self,
        receiver: &ast::Expr,
        name: &Name,
        args: &[ast::Expr],
        expected: Option<Ty>,
        loc: Loc,
    ) -> Val {
        let arguments: Vec<&ast::Expr> = std::iter::once(receiver).chain(args).collect();
        if let Some(value) = self.built_in(name, None, &arguments, expected, loc) {
            return value;
        }
        let is_buffer = matches!(&receiver.kind, ExprKind::Path(path) if self.is_buffer(path));
        if !is_buffer {
            self.expr(receiver, None);
        }
        for arg in args {
            self.expr(arg, None);
        }
        self.unknown_function(&name.text, name.loc);
        Val::Error
    }

    fn call_item(
        &mut self,
        module: &Arc<Module>,
        at: usize,
        generics: &[ast::Expr],
        args: &[ast::Expr],
        name: &Name,
        loc: Loc,
    ) -> Val {
        let item = &module.items[at];
        if self.reports_cycle(module, at, name) {
            return Val::Error;
        }
        let caller = self.frame.kind;
        let (kind, rule, returns) = match item.kind {
            ItemKind::Rule(rule) => (FrameKind::TextRule, rule, result_ty(rule)),
            ItemKind::RustRule(rule) => (FrameKind::RustRule, rule, result_ty(rule)),
            ItemKind::Function { returns } => (FrameKind::Function, self.frame.rule, returns),
        };
        // Between functions of Rust every argument is written; otherwise a rule gets the variables of its caller.
        let positional = match (kind, caller) {
            (FrameKind::Function, _) | (FrameKind::RustRule, FrameKind::RustRule) => true,
            (FrameKind::TextRule | FrameKind::RustRule, FrameKind::Function) => {
                let written = kind == FrameKind::RustRule;
                if !written {
                    self.fault_help(
                        "call-in-function",
                        format!(
                            "the rule `{}` needs the variables `q`, `kv` and so on",
                            name.text
                        ),
                        loc,
                        "a function sees its parameters only: call the rule from a rule",
                    );
                    return Val::Error;
                }
                written
            }
            (FrameKind::TextRule | FrameKind::RustRule, FrameKind::TextRule)
            | (FrameKind::TextRule, FrameKind::RustRule) => false,
            (FrameKind::TextRule | FrameKind::RustRule | FrameKind::Head, FrameKind::Head)
            | (FrameKind::Head, _) => {
                self.fault(
                    "syntax",
                    format!("the rule `{}` cannot be called in a head", name.text),
                    loc,
                );
                return Val::Error;
            }
        };
        if kind != FrameKind::Function
            && rule == RuleKind::Score
            && self.frame.rule == RuleKind::Mask
        {
            self.fault_help(
                "score-in-mask",
                format!("a mask does not call the score rule `{}`", name.text),
                loc,
                "a mask gives a bool and knows no score",
            );
            return Val::Error;
        }
        let Some(arguments) = self.arguments(item, rule, positional, generics, args, loc) else {
            return Val::Error;
        };
        let vars = match kind {
            FrameKind::Function | FrameKind::Head => None,
            FrameKind::TextRule | FrameKind::RustRule => {
                let mut vars = self.frame.vars.as_deref().copied().unwrap_or_default();
                for (var, given) in vars.iter_mut().zip(arguments.vars) {
                    *var = given.or(*var);
                }
                Some(Rc::new(vars))
            }
        };
        let outer_site = self.call_site;
        if self.call_site.is_none() && !same_source(module, &self.source) {
            self.call_site = Some(loc.0);
        }
        let frame = Frame {
            kind,
            rule,
            module: Arc::clone(module),
            scope: arguments.scope,
            vars,
            barrier: 0,
        };
        let caller_frame = std::mem::replace(&mut self.frame, frame);
        let index_depth = std::mem::take(&mut self.index_depth);
        let constant_context = std::mem::take(&mut self.constant_context);
        self.calls.push((Arc::clone(module), at));
        self.check_params(item);
        if kind == FrameKind::RustRule && !positional {
            self.implicit_variables(item, rule);
        }
        let mut value = self.run_body(&item.body, returns);
        self.calls.pop();
        self.constant_context = constant_context;
        self.index_depth = index_depth;
        self.frame = caller_frame;
        self.call_site = outer_site;
        for (first, first_loc) in arguments.eager.into_iter().rev() {
            value = self.then(first, value, first_loc);
        }
        value
    }

    /// Puts the variables that a Rust head declares in scope, as the caller sees them.
    fn implicit_variables(&mut self, item: &Item, rule: RuleKind) {
        for param in &item.params {
            if let Some(var) = Var::from_name(&param.name.text) {
                let value = if var == Var::Score && rule == RuleKind::Mask {
                    Val::Error
                } else {
                    self.variable(var, param.name.loc)
                };
                let value = self.check_variable(param, var, rule, value);
                self.push_local(param, Meaning::Value(value));
            }
        }
    }

    fn push_local(&mut self, param: &Param, meaning: Meaning) {
        self.frame.scope.push(Local {
            name: Rc::from(param.name.text.as_str()),
            meaning,
            mutable: true,
        });
    }

    fn reports_cycle(&mut self, module: &Arc<Module>, at: usize, name: &Name) -> bool {
        let start = self
            .calls
            .iter()
            .position(|(other, item)| *item == at && same_source(other, &module.source));
        let Some(start) = start else { return false };
        let mut cycle: Vec<String> = self.calls[start..]
            .iter()
            .map(|(module, item)| format!("`{}`", module.items[*item].name.text))
            .collect();
        cycle.push(format!("`{}`", name.text));
        self.fault_help(
            "recursion",
            format!("`{}` calls itself: {}", name.text, cycle.join(" -> ")),
            name.loc,
            "rules and functions are copied where they are called; repeat with `for`, `any`, `all` or `sum`",
        );
        true
    }

    /// Matches arguments with parameters.
    fn arguments(
        &mut self,
        item: &Item,
        rule: RuleKind,
        positional: bool,
        generics: &[ast::Expr],
        args: &[ast::Expr],
        loc: Loc,
    ) -> Option<Arguments> {
        let is_rule = !matches!(item.kind, ItemKind::Function { .. });
        let is_variable = |param: &Param| is_rule && Var::from_name(&param.name.text).is_some();
        let is_const = |param: &Param| matches!(param.ty, ParamTy::Const(_));
        let consts = item.params.iter().filter(|p| is_const(p)).count();
        if !generics.is_empty() && generics.len() != consts {
            self.fault(
                "argument-count",
                format!(
                    "`{}` has {consts} constants, found {} between `<` and `>`",
                    item.name.text,
                    generics.len()
                ),
                loc,
            );
            return None;
        }
        let wanted: Vec<&Param> = item
            .params
            .iter()
            .filter(|param| !is_const(param) || generics.is_empty())
            .filter(|param| positional || !is_variable(param))
            .collect();
        if wanted.len() != args.len() {
            let names: Vec<_> = wanted.iter().map(|p| p.name.text.as_str()).collect();
            let help = if is_rule && !positional && names.len() < args.len() {
                Some("a rule gets `b`, `h`, `q`, `kv` and the sizes by itself".to_owned())
            } else if names.is_empty() {
                None
            } else {
                Some(format!("write `{}({})`", item.name.text, names.join(", ")))
            };
            let mut fault = Diagnostic::new(
                "argument-count",
                format!(
                    "`{}` takes {} argument{}, found {}",
                    item.name.text,
                    wanted.len(),
                    if wanted.len() == 1 { "" } else { "s" },
                    args.len()
                ),
                self.span(loc),
            );
            fault.help = help;
            self.report(fault);
            return None;
        }
        let mut arguments = Arguments::default();
        let mut sound = true;
        let constants = item.params.iter().filter(|p| is_const(p)).zip(generics);
        for (param, arg) in constants.chain(wanted.into_iter().zip(args)) {
            let meaning = match &param.ty {
                ParamTy::Const(ty) => self.constant_argument(param, *ty, arg),
                ParamTy::Scalar(ty) => {
                    let what = format!("for the parameter `{}`", param.name.text);
                    let value = self.expr_of(arg, *ty, &what);
                    arguments.eager.push((value, arg.loc));
                    self.check_argument_range(param, value, arg.loc);
                    Meaning::Value(value)
                }
                ParamTy::Shaped { elem, dims } => {
                    self.buffer_argument(param, elem.loads_as(), dims.len(), arg)
                }
                ParamTy::Unshaped { elem, rank } => {
                    self.buffer_argument(param, elem.loads_as(), *rank, arg)
                }
            };
            if let Meaning::Value(Val::Error) = meaning {
                sound = false;
            }
            if is_variable(param)
                && let Some(var) = Var::from_name(&param.name.text)
                && let Meaning::Value(value) = meaning
            {
                let value = self.check_variable(param, var, rule, value);
                arguments.vars[var as usize] = Some(value);
            }
            if let (Meaning::Buffer(buffer), ParamTy::Shaped { dims, .. }) = (&meaning, &param.ty) {
                for (axis, dim) in dims.iter().enumerate() {
                    dim_axis(item, dim, (buffer.id, axis), &mut arguments.dims);
                }
            }
            arguments.scope.push(Local {
                name: Rc::from(param.name.text.as_str()),
                meaning,
                mutable: !matches!(item.kind, ItemKind::Rule(_)),
            });
        }
        if !sound && !self.checking() {
            return None;
        }
        finish_dims(item, &mut arguments);
        Some(arguments)
    }

    fn constant_argument(&mut self, param: &Param, ty: Ty, arg: &ast::Expr) -> Meaning {
        let outer = std::mem::replace(&mut self.constant_context, true);
        let what = format!("for the constant `{}`", param.name.text);
        let value = self.expr_of(arg, ty, &what);
        self.constant_context = outer;
        if let Val::Node(_) = value
            && self.known_int(value).is_none()
        {
            self.fault_help(
                "not-constant",
                format!("expected a constant for `{}`", param.name.text),
                arg.loc,
                "constants are literals, `const K: i32` parameters and the indices of loops",
            );
            return Meaning::Value(Val::Error);
        }
        self.check_argument_range(param, value, arg.loc);
        Meaning::Value(value)
    }

    /// Checks a constant argument against the declared range of its parameter, where both are literals.
    fn check_argument_range(&mut self, param: &Param, value: Val, loc: Loc) {
        let (Some(range), Some(value)) = (&param.range, self.known_int(value)) else {
            return;
        };
        let (Some(lo), Some(hi)) = (literal(&range.lo), literal(&range.hi)) else {
            return;
        };
        let hi = hi - i128::from(!range.inclusive);
        let value = i128::from(value);
        if value < lo || hi < value {
            self.fault(
                "out-of-range",
                format!(
                    "expected `{}` in {lo}..={hi}, found {value}",
                    param.name.text
                ),
                loc,
            );
        }
    }

    fn buffer_argument(&mut self, param: &Param, ty: Ty, rank: usize, arg: &ast::Expr) -> Meaning {
        let name = match &arg.kind {
            ExprKind::Path(path) if path.len() == 1 => Some(&path[0]),
            _ => None,
        };
        let meaning = match name {
            Some(name) => {
                let meaning = self.resolve(&name.text, name.loc);
                if meaning.is_none() {
                    self.unknown_name(&name.text, name.loc);
                    return Meaning::Value(Val::Error);
                }
                meaning
            }
            None => None,
        };
        match meaning {
            Some(Meaning::Buffer(buffer)) => {
                let found = buffer.elem.loads_as();
                if found == ty && buffer.rank == rank {
                    return Meaning::Buffer(buffer);
                }
                self.fault(
                    "type-mismatch",
                    format!(
                        "expected a buffer of `{ty}` with {rank} axes for `{}`, found one of `{found}` with {}",
                        param.name.text, buffer.rank
                    ),
                    arg.loc,
                );
            }
            Some(Meaning::Value(Val::Error)) => {}
            Some(Meaning::Value(Val::Node(_)) | Meaning::DimOf(_)) | None => {
                self.fault_help(
                    "type-mismatch",
                    format!("expected the name of a buffer for `{}`", param.name.text),
                    arg.loc,
                    "captured buffers are passed by name",
                );
            }
        }
        Meaning::Value(Val::Error)
    }
}

/// Notes that a dimension name of a called rule is a whole extent of a buffer that it got.
fn dim_axis(item: &Item, dim: &ast::Expr, axis: (CaptureId, usize), dims: &mut Vec<DimAxes>) {
    let ExprKind::Path(path) = &dim.kind else {
        return;
    };
    let [name] = path.as_slice() else { return };
    if !is_dim_name(item, &name.text) {
        return;
    }
    match dims.iter_mut().find(|(other, _)| **other == name.text) {
        Some((_, axes)) => axes.push(axis),
        None => dims.push((Rc::from(name.text.as_str()), vec![axis])),
    }
}

/// Puts the dimension names of a called rule in scope.
fn finish_dims(item: &Item, arguments: &mut Arguments) {
    let mut names = Vec::new();
    for param in &item.params {
        if let ParamTy::Shaped { dims, .. } = &param.ty {
            for dim in dims {
                names_in(dim, &mut names);
            }
        }
        if let Some(range) = &param.range {
            names_in(&range.lo, &mut names);
            names_in(&range.hi, &mut names);
        }
    }
    for name in names {
        let known = arguments.scope.iter().any(|l| *l.name == name.text);
        if known || !is_dim_name(item, &name.text) {
            continue;
        }
        let axes = arguments
            .dims
            .iter()
            .find(|(other, _)| **other == name.text)
            .map_or(Vec::new(), |(_, axes)| axes.clone());
        arguments.scope.push(Local {
            name: Rc::from(name.text.as_str()),
            meaning: Meaning::DimOf(Rc::from(axes)),
            mutable: false,
        });
    }
}

/// Whether a name in the extents of an item is declared there and nowhere else.
fn is_dim_name(item: &Item, name: &str) -> bool {
    Var::from_name(name).is_none() && !item.params.iter().any(|param| param.name.text == name)
}

fn literal(expr: &ast::Expr) -> Option<i128> {
    match &expr.kind {
        ExprKind::Int { value, .. } => Some(i128::from(*value)),
        ExprKind::Unary {
            op: ast::Sign::Neg,
            arg,
        } => literal(arg).map(|value| -value),
        _ => None,
    }
}

fn same_source(module: &Module, source: &Arc<crate::ir::Source>) -> bool {
    Arc::ptr_eq(&module.source, source) || module.source == *source
}
