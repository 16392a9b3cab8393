//! The head of the rule that is lowered: variables, captures, constants, dimension names and declared ranges.

use std::rc::Rc;
use std::sync::Arc;

use crate::diagnostic::Diagnostic;
use crate::ir::{
    BinaryOp, CaptureDecl, CaptureId, CaptureKind, Const, DimDecl, DimId, Expr, ExprId, Extent,
    RuleKind, Ty, Var,
};

use super::super::ast::{self, ExprKind, Item, ItemKind, Loc, Module, Name, Param, ParamTy};
use super::function::is_built_in;
use super::{Buffer, Frame, FrameKind, Local, Lowering, Meaning, Val};

/// Stands for a constant whose value is not known while a function is checked.
const CHECKED_CONST: i64 = 2;

impl Lowering<'_> {
    /// Reports items of one name, and items that hide built-in functions.
    pub(super) fn check_names(&mut self, module: &Module) {
        for (i, item) in module.items.iter().enumerate() {
            let name = &item.name;
            if is_built_in(&name.text) {
                self.fault_help(
                    "duplicate-name",
                    format!("`{}` is a built-in function", name.text),
                    name.loc,
                    "choose another name",
                );
            }
            if let Some(first) = module.items[..i]
                .iter()
                .find(|other| other.name.text == name.text)
            {
                self.duplicate("item", &first.name, name);
            }
        }
    }

    fn duplicate(&mut self, what: &str, first: &Name, second: &Name) {
        let fault = Diagnostic::new(
            "duplicate-name",
            format!("the name `{}` of this {what} is taken", second.text),
            self.span(second.loc),
        )
        .and_label(self.span(first.loc), "it is first declared here");
        self.report(fault);
    }

    pub(super) fn check_params(&mut self, item: &Item) {
        for (i, param) in item.params.iter().enumerate() {
            if let Some(first) = item.params[..i]
                .iter()
                .find(|other| other.name.text == param.name.text)
            {
                self.duplicate("parameter", &first.name, &param.name);
            }
        }
    }

    /// Puts the names of the rule that is lowered in scope, and declares its captures.
    pub(super) fn head(&mut self, module: &Arc<Module>, item: &Item, rule: RuleKind) {
        self.check_params(item);
        let kind = match item.kind {
            ItemKind::Rule(_) => FrameKind::TextRule,
            ItemKind::RustRule(_) => FrameKind::RustRule,
            ItemKind::Function { .. } => FrameKind::Function,
        };
        self.frame = Frame {
            kind: FrameKind::Head,
            rule,
            module: Arc::clone(module),
            scope: Vec::new(),
            vars: Some(Rc::new([None; 9])),
            barrier: 0,
        };
        // Scalars and constants first, so that extents and ranges may speak of any of them.
        let mut slots = Vec::with_capacity(item.params.len());
        for param in &item.params {
            slots.push(self.declare(kind, rule, param));
        }
        self.declare_dims(item);
        for (param, slot) in item.params.iter().zip(slots) {
            if let Some(slot) = slot {
                self.declare_extents(param, slot);
                self.declare_range(param, slot);
            } else if let (ParamTy::Const(_), Some(range)) = (&param.ty, &param.range) {
                self.check_const_range(param, range);
            }
        }
        self.frame.kind = kind;
        if kind == FrameKind::RustRule {
            // Whether a parameter is `mut` is for rustc to say.
            for local in &mut self.frame.scope {
                local.mutable = true;
            }
        }
        let buffers: Vec<Local> = self
            .captures
            .iter()
            .enumerate()
            .filter_map(|(slot, decl)| {
                let CaptureKind::Buffer { elem, extents } = &decl.kind else {
                    return None;
                };
                Some(Local {
                    name: Rc::from(decl.name.as_str()),
                    meaning: Meaning::Buffer(Buffer {
                        id: CaptureId(slot as u32),
                        elem: *elem,
                        rank: extents.len(),
                    }),
                    mutable: false,
                })
            })
            .collect();
        self.frame.scope.extend(buffers);
        if kind == FrameKind::RustRule {
            self.declare_variables(item, rule);
        }
    }

    /// Declares a capture (giving its slot) or a constant.
    fn declare(&mut self, kind: FrameKind, rule: RuleKind, param: &Param) -> Option<CaptureId> {
        let name = param.name.text.as_str();
        if let Some(var) = Var::from_name(name) {
            if kind == FrameKind::RustRule {
                return None;
            }
            let help = if var == Var::Score && rule == RuleKind::Mask {
                "choose another name for the capture"
            } else {
                "every rule has it without declaring it; choose another name for a capture"
            };
            self.fault_help(
                "duplicate-name",
                format!("`{name}` is a variable, not a capture"),
                param.name.loc,
                help,
            );
            return None;
        }
        let capture = match &param.ty {
            ParamTy::Const(ty) => {
                let value = self.const_value(param, *ty);
                self.put_in_scope(name, value);
                return None;
            }
            ParamTy::Scalar(ty) => CaptureKind::Scalar(*ty),
            ParamTy::Shaped { elem, dims } => CaptureKind::Buffer {
                elem: *elem,
                extents: vec![Extent::Unspecified; dims.len()],
            },
            ParamTy::Unshaped { elem, rank } => CaptureKind::Buffer {
                elem: *elem,
                extents: vec![Extent::Unspecified; *rank],
            },
        };
        let slot = CaptureId(self.captures.len() as u32);
        if let CaptureKind::Scalar(ty) = capture {
            let value = self
                .intern(Expr::Scalar(slot), Some(ty), param.name.loc)
                .expect("a leaf takes no operands");
            self.put_in_scope(name, value);
        }
        self.captures.push(CaptureDecl {
            name: name.to_owned(),
            kind: capture,
            min: None,
            max: None,
            span: Some(param.loc.0),
        });
        Some(slot)
    }

    pub(super) fn put_in_scope(&mut self, name: &str, value: Val) {
        self.frame.scope.push(Local {
            name: Rc::from(name),
            meaning: Meaning::Value(value),
            mutable: false,
        });
    }

    fn const_value(&mut self, param: &Param, ty: Ty) -> Val {
        let name = &param.name.text;
        let value = match self.options.consts.get(name) {
            Some(value) => *value,
            None if self.checking() => i64::from(ty != Ty::Bool) * CHECKED_CONST,
            None => {
                self.fault_help(
                    "missing-constant",
                    format!("expected a value for the constant `{name}`, found none"),
                    param.loc,
                    format!("give it with `--set {name}=..`"),
                );
                return Val::Error;
            }
        };
        let Some(value) = Const::from_int(ty, value) else {
            self.fault(
                "type-mismatch",
                format!("expected a value of type `{ty}` for the constant `{name}`, found {value}"),
                param.loc,
            );
            return Val::Error;
        };
        self.constant(value, param.name.loc)
    }

    fn check_const_range(&mut self, param: &Param, range: &ast::Range) {
        let ParamTy::Const(ty) = param.ty else {
            return;
        };
        let bounds = self.bounds(range, Some(ty));
        let meaning = self.resolve(&param.name.text, param.name.loc);
        if let (Some(Meaning::Value(value)), Some((lo, hi, _))) = (meaning, bounds)
            && let Some(value) = self.known_int(value)
            && !(lo..hi).contains(&value)
            && !self.checking()
        {
            self.fault(
                "out-of-range",
                format!(
                    "expected `{}` in {lo}..={}, found {value}",
                    param.name.text,
                    hi - 1
                ),
                param.loc,
            );
        }
    }

    /// Declares the names in extents and ranges that nothing else declares.
    fn declare_dims(&mut self, item: &Item) {
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
            if let Some(param) = item.params.iter().find(|p| p.name.text == name.text) {
                if let ParamTy::Shaped { .. } | ParamTy::Unshaped { .. } = param.ty {
                    self.fault_help(
                        "type-mismatch",
                        format!("expected a size, found the buffer `{}`", name.text),
                        name.loc,
                        "extents and ranges speak of sizes, scalars and dimension names",
                    );
                    self.put_in_scope(&name.text, Val::Error);
                }
                continue;
            }
            let taken = Var::from_name(&name.text).is_some() || name.text == "inf";
            if taken || self.dims.iter().any(|dim| dim.name == name.text) {
                continue;
            }
            let id = DimId(self.dims.len() as u32);
            self.dims.push(DimDecl {
                name: name.text.clone(),
                span: Some(name.loc.0),
            });
            let value = self.known_node(Expr::Dim(id), name.loc);
            self.put_in_scope(&name.text, value);
        }
    }

    fn declare_extents(&mut self, param: &Param, slot: CaptureId) {
        let ParamTy::Shaped { dims, .. } = &param.ty else {
            return;
        };
        for (axis, dim) in dims.iter().enumerate() {
            let value = self.expr(dim, Some(Ty::I32));
            let Some(extent) = self.head_integer(value, dim.loc) else {
                continue;
            };
            if self.known_int(Val::Node(extent)).is_some_and(|v| v < 0) {
                self.fault(
                    "out-of-range",
                    "expected an extent that is not negative",
                    dim.loc,
                );
            }
            if let CaptureKind::Buffer { extents, .. } = &mut self.captures[slot.index()].kind {
                extents[axis] = Extent::AtLeast(extent);
            }
        }
    }

    /// An integer of a head, with constants computed.
    fn head_integer(&mut self, value: Val, loc: Loc) -> Option<ExprId> {
        let Val::Node(id) = value else {
            return None;
        };
        let ty = self.arena.ty(id);
        if !ty.is_int() {
            self.fault(
                "type-mismatch",
                format!("expected an integer, found `{ty}`"),
                loc,
            );
            return None;
        }
        let folded = match self.known_int(value) {
            Some(known) => {
                let known = Const::from_int(ty, known)?;
                self.constant(known, loc)
            }
            None => value,
        };
        match folded {
            Val::Node(id) => Some(id),
            Val::Error => None,
        }
    }

    fn declare_range(&mut self, param: &Param, slot: CaptureId) {
        let Some(range) = &param.range else {
            return;
        };
        let ty = self.captures[slot.index()].value_ty();
        if !ty.is_int() {
            self.fault_help(
                "type-mismatch",
                format!("expected an integer before `in`, found `{ty}`"),
                range.loc,
                "ranges are declared for integers",
            );
            return;
        }
        let lo = self.expr(&range.lo, Some(ty));
        let hi = self.expr(&range.hi, Some(ty));
        let lo = self.head_integer(lo, range.lo.loc);
        let hi = self.head_integer(hi, range.hi.loc);
        let (Some(lo), Some(hi)) = (lo, hi) else {
            return;
        };
        let hi_ty = self.arena.ty(hi);
        let hi = if range.inclusive {
            hi
        } else if let Some(end) = self.known_int(Val::Node(hi)) {
            let Some(last) = end.checked_sub(1).and_then(|v| Const::from_int(hi_ty, v)) else {
                self.fault(
                    "out-of-range",
                    "expected a range that is not empty",
                    range.loc,
                );
                return;
            };
            match self.constant(last, range.hi.loc) {
                Val::Node(id) => id,
                Val::Error => return,
            }
        } else {
            let one = Const::from_int(hi_ty, 1).expect("1 is a value of every integer type");
            let one = self.constant(one, range.hi.loc);
            let Val::Node(one) = one else { return };
            let last = self.known_node(
                Expr::Binary {
                    op: BinaryOp::Sub,
                    lhs: hi,
                    rhs: one,
                },
                range.hi.loc,
            );
            let Val::Node(last) = last else { return };
            last
        };
        let known = (self.known_int(Val::Node(lo)), self.known_int(Val::Node(hi)));
        if let (Some(least), Some(greatest)) = known
            && greatest < least
        {
            self.fault(
                "out-of-range",
                format!("expected a range that is not empty, found {least}..={greatest}"),
                range.loc,
            );
        }
        let decl = &mut self.captures[slot.index()];
        decl.min = Some(lo);
        decl.max = Some(hi);
    }

    /// Puts the variables that a Rust head declares in scope.
    fn declare_variables(&mut self, item: &Item, rule: RuleKind) {
        for param in &item.params {
            let Some(var) = Var::from_name(&param.name.text) else {
                continue;
            };
            let value = self.known_node(Expr::Var(var), param.name.loc);
            let value = self.check_variable(param, var, rule, value);
            self.frame.scope.push(Local {
                name: Rc::from(param.name.text.as_str()),
                meaning: Meaning::Value(value),
                mutable: true,
            });
        }
    }

    /// Checks the declaration of a variable in a Rust head.
    pub(super) fn check_variable(
        &mut self,
        param: &Param,
        var: Var,
        rule: RuleKind,
        value: Val,
    ) -> Val {
        let name = &param.name.text;
        if var == Var::Score && rule == RuleKind::Mask {
            self.fault_help(
                "score-in-mask",
                "a mask does not read `score`",
                param.loc,
                "write a score_mod, or choose another name for a capture",
            );
            return Val::Error;
        }
        if param.ty != ParamTy::Scalar(var.ty()) {
            self.fault_help(
                "type-mismatch",
                format!("expected `{name}: {}`", var.ty()),
                param.loc,
                format!("`{name}` is a variable of every rule; choose another name for a capture"),
            );
            return Val::Error;
        }
        if let Some(range) = &param.range {
            self.fault(
                "syntax",
                format!("expected no range for the variable `{name}`"),
                range.loc,
            );
        }
        value
    }
}

/// Collects the single names of an expression, in order.
pub(super) fn names_in<'e>(expr: &'e ast::Expr, names: &mut Vec<&'e Name>) {
    let mut open = vec![expr];
    while let Some(expr) = open.pop() {
        match &expr.kind {
            ExprKind::Path(path) => {
                if let [name] = path.as_slice() {
                    names.push(name);
                }
            }
            ExprKind::Unary { arg, .. } | ExprKind::Cast { arg, .. } => open.push(arg),
            ExprKind::Binary { lhs, rhs, .. } => {
                open.push(rhs);
                open.push(lhs);
            }
            ExprKind::Call { args, .. } => open.extend(args.iter().rev()),
            ExprKind::Method { receiver, args, .. } => {
                open.extend(args.iter().rev());
                open.push(receiver);
            }
            ExprKind::Int { .. }
            | ExprKind::Float(_)
            | ExprKind::Bool(_)
            | ExprKind::Index { .. }
            | ExprKind::If { .. }
            | ExprKind::Match { .. }
            | ExprKind::Block(_)
            | ExprKind::Reduce { .. }
            | ExprKind::Error => {}
        }
    }
}
