//! Gives meaning to a syntax tree: names, types, calls, statements and loops become one expression of the arena.

mod call;
mod expr;
mod flow;
mod function;
mod head;
mod name;
mod node;
mod pattern;
mod reduce;
mod stmt;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::ir::{
    Arena, CaptureDecl, CaptureId, DimDecl, Elem, ExprId, Rule, RuleKind, Source, Span, Ty,
};

use super::ast::{Block, Item, ItemKind, Loc, Module, Name};
use super::parse::{parse_expression, parse_rust_fn};

/// What a rule is lowered with.
#[derive(Clone, Debug, Default)]
pub struct LowerOptions {
    /// Values of `const` parameters, by name.
    pub consts: BTreeMap<String, i64>,
    /// Names that an expression without a head may use as captured scalars.
    pub free_scalars: BTreeMap<String, Ty>,
    /// Names that an expression without a head may use as captured buffers: element type and number of axes.
    pub free_buffers: BTreeMap<String, (Elem, usize)>,
}

/// Rules and functions that a text may call without containing them.
pub trait Library {
    /// The module that holds the item called `name`, and its position there.
    fn find(&self, name: &str) -> Option<(Arc<Module>, usize)>;
}

/// A library without items.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmptyLibrary;

impl Library for EmptyLibrary {
    fn find(&self, _: &str) -> Option<(Arc<Module>, usize)> {
        None
    }
}

/// Gives meaning to the rule called `name`, or to the only one.
///
/// # Errors
/// [`Diagnostics`] with every fault of the rule and of what it calls.
pub fn lower(
    module: &Module,
    name: Option<&str>,
    options: &LowerOptions,
    library: &dyn Library,
) -> Result<Rule, Diagnostics> {
    let mut lowering = Lowering::new(Arc::clone(&module.source), options, library);
    lowering.check_names(module);
    let item = match choose(module, name) {
        Ok(item) => item,
        Err(fault) => {
            lowering.faults.push(*fault);
            return Err(lowering.into_faults());
        }
    };
    lowering.rule(&Arc::new(module.clone()), item)
}

/// Gives meaning to one expression, such as `kv <= q && q - kv < w`. Names that `options` lists as free become
/// captures, in the order of their first use.
///
/// # Errors
/// [`Diagnostics`] with every fault of syntax or meaning.
pub fn lower_expression(
    text: &str,
    kind: RuleKind,
    options: &LowerOptions,
    library: &dyn Library,
) -> Result<Rule, Diagnostics> {
    let source = Arc::new(Source {
        name: "expression".to_owned(),
        text: text.to_owned(),
    });
    let body = parse_expression(&source)?;
    let loc = body.loc;
    let item = Item {
        doc: String::new(),
        kind: ItemKind::Rule(kind),
        name: Name {
            text: "expression".to_owned(),
            loc,
        },
        params: Vec::new(),
        body,
        loc,
    };
    let module = Module {
        source: Arc::clone(&source),
        items: vec![item],
    };
    let mut lowering = Lowering::new(source, options, library);
    lowering.free_names = true;
    lowering.rule(&Arc::new(module), 0)
}

/// Checks the text of an annotated function where what it calls is not known: a call of an unknown function is taken
/// to be right.
///
/// Gives every fault, in the order of the text; none means that the function is well formed by itself.
pub fn check_rust_fn(source: Arc<Source>, kind: RuleKind) -> Vec<Diagnostic> {
    let item = match parse_rust_fn(Arc::clone(&source), kind) {
        Ok(item) => item,
        Err(faults) => return faults.items,
    };
    let module = Module {
        source: Arc::clone(&source),
        items: vec![item],
    };
    let options = LowerOptions::default();
    let mut lowering = Lowering::new(source, &options, &EmptyLibrary);
    lowering.assumed = Some(0);
    lowering.check_names(&module);
    match lowering.rule(&Arc::new(module), 0) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.items,
    }
}

/// A value of the rule being lowered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Val {
    /// A node of the arena.
    Node(ExprId),
    /// What has no meaning because of a fault that has been reported; agrees with everything.
    Error,
}

/// What a name means where it stands.
#[derive(Clone, Debug, PartialEq)]
enum Meaning {
    Value(Val),
    Buffer(Buffer),
    /// A dimension name of a rule that was called: the extent of one of these axes, the smallest.
    DimOf(Rc<[(CaptureId, usize)]>),
}

/// A captured buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Buffer {
    id: CaptureId,
    elem: Elem,
    rank: usize,
}

/// A name in scope.
#[derive(Clone, Debug)]
struct Local {
    name: Rc<str>,
    meaning: Meaning,
    mutable: bool,
}

/// How names that are not in scope are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameKind {
    /// The extents and ranges of a head: sizes only.
    Head,
    /// A rule of text: every variable is there.
    TextRule,
    /// A rule of Rust: what its head declares.
    RustRule,
    /// A function: its parameters.
    Function,
}

/// The names of the item that is being lowered.
#[derive(Clone, Debug)]
struct Frame {
    kind: FrameKind,
    /// Mask or score; of a function, that of the rule which called it.
    rule: RuleKind,
    module: Arc<Module>,
    scope: Vec<Local>,
    /// What the variables mean here, by `Var as usize`: themselves unless told; nothing within functions.
    vars: Option<Rc<[Option<Val>; 9]>>,
    /// Names below this position cannot be assigned to here.
    barrier: usize,
}

struct Lowering<'a> {
    source: Arc<Source>,
    options: &'a LowerOptions,
    library: &'a dyn Library,
    /// Whether free names of the options may become captures.
    free_names: bool,
    /// While a function is checked by itself: how many calls of unknown functions were taken to be right.
    assumed: Option<u32>,
    arena: Arena,
    /// Whether evaluating a node can break a promise of the language, by arena position.
    fails: Vec<bool>,
    /// The integer that a node always is, by arena position.
    known: Vec<Option<i64>>,
    captures: Vec<CaptureDecl>,
    dims: Vec<DimDecl>,
    faults: Vec<Diagnostic>,
    frame: Frame,
    /// Items that are being lowered, the innermost last.
    calls: Vec<(Arc<Module>, usize)>,
    /// The call in our source that leads to the item in another source.
    call_site: Option<Span>,
    /// Whether a bound is being lowered, where free names are constants.
    constant_context: bool,
    /// Reads around the expression: `as usize` means nothing there.
    index_depth: u32,
    depth: u32,
    steps: u32,
    too_large: bool,
}

impl<'a> Lowering<'a> {
    fn new(source: Arc<Source>, options: &'a LowerOptions, library: &'a dyn Library) -> Self {
        let module = Arc::new(Module {
            source: Arc::clone(&source),
            items: Vec::new(),
        });
        Self {
            source,
            options,
            library,
            free_names: false,
            assumed: None,
            arena: Arena::new(),
            fails: Vec::new(),
            known: Vec::new(),
            captures: Vec::new(),
            dims: Vec::new(),
            faults: Vec::new(),
            frame: Frame {
                kind: FrameKind::Head,
                rule: RuleKind::Mask,
                module,
                scope: Vec::new(),
                vars: None,
                barrier: 0,
            },
            calls: Vec::new(),
            call_site: None,
            constant_context: false,
            index_depth: 0,
            depth: 0,
            steps: 0,
            too_large: false,
        }
    }

    fn into_faults(self) -> Diagnostics {
        Diagnostics::sorted(Some(self.source), self.faults)
    }

    /// Whether a function is checked by itself, where constants and what it calls are not known.
    fn checking(&self) -> bool {
        self.assumed.is_some()
    }

    /// Where something stands in our source: the call that led to it, if it stands in another.
    #[expect(
        clippy::unnecessary_wraps,
        reason = "nodes and faults take an optional place"
    )]
    fn span(&self, loc: Loc) -> Option<Span> {
        Some(self.call_site.unwrap_or(loc.0))
    }

    fn fault(&mut self, code: &'static str, message: impl Into<String>, loc: Loc) {
        let fault = Diagnostic::new(code, message, self.span(loc));
        self.report(fault);
    }

    fn fault_help(
        &mut self,
        code: &'static str,
        message: impl Into<String>,
        loc: Loc,
        help: impl Into<String>,
    ) {
        let fault = Diagnostic::new(code, message, self.span(loc)).help(help);
        self.report(fault);
    }

    fn report(&mut self, mut fault: Diagnostic) {
        if self.too_large {
            return;
        }
        if self.call_site.is_some()
            && let Some((module, item)) = self.calls.last()
        {
            let name = &module.items[*item].name.text;
            fault.message = format!("in `{name}`: {}", fault.message);
        }
        self.faults.push(fault);
    }

    /// Lowers an item and everything it calls.
    fn rule(mut self, module: &Arc<Module>, index: usize) -> Result<Rule, Diagnostics> {
        let item = &module.items[index];
        let kind = match item.kind {
            ItemKind::Rule(kind) | ItemKind::RustRule(kind) => kind,
            ItemKind::Function { .. } => RuleKind::Mask,
        };
        self.calls.push((Arc::clone(module), index));
        self.head(module, item, kind);
        let root = self.body(&item.body, result_ty(kind));
        let root = match root {
            Val::Node(root) if self.faults.is_empty() => root,
            Val::Node(_) | Val::Error => {
                // Without a fault, only an unknown call that was taken to be right leaves no value.
                return Err(self.into_faults());
            }
        };
        Ok(Rule {
            name: item.name.text.clone(),
            doc: item.doc.clone(),
            kind,
            captures: self.captures,
            dims: self.dims,
            arena: self.arena,
            root,
            source: Some(self.source),
        })
    }

    /// Lowers the body of an item whose names are in scope.
    fn body(&mut self, body: &Block, returns: Ty) -> Val {
        self.run_body(body, returns)
    }
}

/// The type of a rule's result.
fn result_ty(kind: RuleKind) -> Ty {
    match kind {
        RuleKind::Mask => Ty::Bool,
        RuleKind::Score => Ty::F32,
    }
}

/// Chooses the rule to lower.
fn choose(module: &Module, name: Option<&str>) -> Result<usize, Box<Diagnostic>> {
    let rules: Vec<(usize, &Item)> = module
        .items
        .iter()
        .enumerate()
        .filter(|(_, item)| !matches!(item.kind, ItemKind::Function { .. }))
        .collect();
    let names: Vec<&str> = rules.iter().map(|(_, r)| r.name.text.as_str()).collect();
    let listed = format!("`{}`", names.join("`, `"));
    let Some(name) = name else {
        return match rules.as_slice() {
            [(index, _)] => Ok(*index),
            [] => Err(Box::new(Diagnostic::new(
                "unknown-name",
                "expected a rule, found none",
                None,
            ))),
            [_, _, ..] => Err(Box::new(
                Diagnostic::new(
                    "unknown-name",
                    format!("expected the name of one of {} rules", rules.len()),
                    None,
                )
                .help(format!("the rules are {listed}")),
            )),
        };
    };
    if let Some((index, _)) = rules.iter().find(|(_, rule)| rule.name.text == name) {
        return Ok(*index);
    }
    let fault = Diagnostic::new(
        "unknown-name",
        format!("expected the name of a rule, found `{name}`"),
        None,
    );
    Err(Box::new(if names.is_empty() {
        fault.help("there are no rules in this text")
    } else {
        fault.help(format!("the rules are {listed}"))
    }))
}
