//! Rules written in Rust: the text that a macro found, made a rule when it is first bound.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use maskwright_dsl::bind::{BindError, BoundRule, MaskRule, Reference, ScoreRule};
use maskwright_dsl::capture::CaptureValue;
use maskwright_dsl::diagnostic::Diagnostics;
use maskwright_dsl::eval::{Point, Sizes};
use maskwright_dsl::ir::{Const, Rule, RuleKind, Source};
use maskwright_dsl::text::{Library, LowerOptions, Module, lower, parse_rust_fn};

use crate::capture::Held;

/// Why a function or closure of Rust could not become a rule with the values it captured.
///
/// The macros report what they can when they are expanded. What is left depends on functions that are called, on the
/// values of constants or on the types of captures.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RustRuleError {
    /// The function has no meaning as a rule together with what it calls.
    #[error("{}", .0.render(false))]
    Meaning(Diagnostics),
    /// Captured values do not fit.
    #[error(transparent)]
    Bind(#[from] BindError),
}

/// The annotated functions that a body calls, by the paths that it calls them by.
pub type Callees = fn() -> Vec<(&'static str, &'static RustFn)>;

/// What the struct beside an annotated function knows of it.
pub trait AnnotatedFn {
    /// The function as text.
    fn item() -> &'static RustFn;
}

/// An annotated function as text.
#[derive(Debug)]
pub struct RustFn {
    kind: RuleKind,
    place: &'static str,
    doc: &'static str,
    text: &'static str,
    callees: Callees,
    module: OnceLock<Result<Arc<Module>, Diagnostics>>,
    /// By the values of the constants.
    rules: Rules,
}

/// Rules by what they depend on besides their text.
type Rules = Mutex<BTreeMap<String, Result<Arc<Rule>, Diagnostics>>>;

impl RustFn {
    /// A function of this kind, found at `place`.
    pub const fn new(
        kind: RuleKind,
        place: &'static str,
        doc: &'static str,
        text: &'static str,
        callees: Callees,
    ) -> Self {
        Self {
            kind,
            place,
            doc,
            text,
            callees,
            module: OnceLock::new(),
            rules: Mutex::new(BTreeMap::new()),
        }
    }

    fn module(&self) -> Result<Arc<Module>, Diagnostics> {
        let module = self
            .module
            .get_or_init(|| parse(self.kind, self.place, self.text.to_owned(), self.doc));
        module.clone()
    }

    fn rule(&self, consts: &[(&str, i64)]) -> Result<Arc<Rule>, Diagnostics> {
        remembered(&self.rules, format!("{consts:?}"), || {
            let options = LowerOptions {
                consts: consts
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), *value))
                    .collect(),
                ..LowerOptions::default()
            };
            let module = self.module()?;
            lower(&module, None, &options, &Called::by(&module, self.callees)).map(Arc::new)
        })
    }

    /// The mask with these captured values, by slot.
    ///
    /// # Errors
    /// [`RustRuleError`] if the function has no meaning with what it calls, or a value does not fit.
    pub fn mask(
        &self,
        consts: &[(&str, i64)],
        values: Vec<CaptureValue>,
        law: impl Fn(&Point, &Sizes) -> bool + Send + Sync + 'static,
    ) -> Result<MaskRule, RustRuleError> {
        let rule = self.rule(consts).map_err(RustRuleError::Meaning)?;
        bind_mask(rule, values, law)
    }

    /// The score rule with these captured values, by slot.
    ///
    /// # Errors
    /// As [`RustFn::mask`].
    pub fn score(
        &self,
        consts: &[(&str, i64)],
        values: Vec<CaptureValue>,
        law: impl Fn(&Point, &Sizes) -> f32 + Send + Sync + 'static,
    ) -> Result<ScoreRule, RustRuleError> {
        let rule = self.rule(consts).map_err(RustRuleError::Meaning)?;
        bind_score(rule, values, law)
    }
}

/// A value that a closure captured: its name, its type in the rule language, and itself.
#[derive(Clone, Debug)]
pub struct Captured {
    name: &'static str,
    declared: String,
    value: CaptureValue,
}

impl Captured {
    /// What a closure captured by this name.
    pub fn new<H: Held>(name: &'static str, held: &H) -> Self {
        Self {
            name,
            declared: H::declared(),
            value: held.value(),
        }
    }
}

/// The closure of a `mask!` or `score!` as text.
#[derive(Debug)]
pub struct RustClosure {
    kind: RuleKind,
    place: &'static str,
    shown: &'static str,
    variables: &'static str,
    body: &'static str,
    callees: Callees,
    /// By the types of the captures.
    rules: Rules,
}

impl RustClosure {
    /// A closure of this kind, found at `place`: how it is shown, its declared variables, its body in braces.
    pub const fn new(
        kind: RuleKind,
        place: &'static str,
        shown: &'static str,
        variables: &'static str,
        body: &'static str,
        callees: Callees,
    ) -> Self {
        Self {
            kind,
            place,
            shown,
            variables,
            body,
            callees,
            rules: Mutex::new(BTreeMap::new()),
        }
    }

    fn rule(&self, captures: &[Captured]) -> Result<Arc<Rule>, Diagnostics> {
        let mut head = self.variables.to_owned();
        for capture in captures {
            if !head.is_empty() {
                head.push_str(", ");
            }
            head.push_str(capture.name);
            head.push_str(": ");
            head.push_str(&capture.declared);
        }
        let result = match self.kind {
            RuleKind::Mask => "bool",
            RuleKind::Score => "f32",
        };
        let text = format!("fn closure({head}) -> {result} {}", self.body);
        remembered(&self.rules, head, || {
            let module = parse(self.kind, self.place, text, "")?;
            let library = Called::by(&module, self.callees);
            let mut rule = lower(&module, None, &LowerOptions::default(), &library)?;
            self.shown.clone_into(&mut rule.name);
            Ok(Arc::new(rule))
        })
    }

    fn expect<T>(&self, result: Result<T, RustRuleError>) -> T {
        result.unwrap_or_else(|error| panic!("{}: {error}", self.place))
    }

    /// The mask with these captured values, in the order of their names in the closure.
    ///
    /// # Panics
    /// If the closure has no meaning with what it calls and with the types of its captures.
    pub fn mask(
        &self,
        captures: Vec<Captured>,
        law: impl Fn(&Point, &Sizes) -> bool + Send + Sync + 'static,
    ) -> MaskRule {
        let rule = self.rule(&captures).map_err(RustRuleError::Meaning);
        let values = captures.into_iter().map(|capture| capture.value).collect();
        self.expect(rule.and_then(|rule| bind_mask(rule, values, law)))
    }

    /// The score rule with these captured values, in the order of their names in the closure.
    ///
    /// # Panics
    /// As [`RustClosure::mask`].
    pub fn score(
        &self,
        captures: Vec<Captured>,
        law: impl Fn(&Point, &Sizes) -> f32 + Send + Sync + 'static,
    ) -> ScoreRule {
        let rule = self.rule(&captures).map_err(RustRuleError::Meaning);
        let values = captures.into_iter().map(|capture| capture.value).collect();
        self.expect(rule.and_then(|rule| bind_score(rule, values, law)))
    }
}

fn remembered(
    rules: &Rules,
    key: String,
    make: impl FnOnce() -> Result<Arc<Rule>, Diagnostics>,
) -> Result<Arc<Rule>, Diagnostics> {
    // A panic while a rule was made left no half of one behind.
    let mut rules = rules.lock().unwrap_or_else(PoisonError::into_inner);
    rules.entry(key).or_insert_with(make).clone()
}

fn parse(kind: RuleKind, place: &str, text: String, doc: &str) -> Result<Arc<Module>, Diagnostics> {
    let source = Arc::new(Source {
        name: place.to_owned(),
        text,
    });
    let mut item = parse_rust_fn(Arc::clone(&source), kind)?;
    doc.clone_into(&mut item.doc);
    Ok(Arc::new(Module {
        source,
        items: vec![item],
    }))
}

fn bind_mask(
    rule: Arc<Rule>,
    values: Vec<CaptureValue>,
    law: impl Fn(&Point, &Sizes) -> bool + Send + Sync + 'static,
) -> Result<MaskRule, RustRuleError> {
    let reference: Reference = Arc::new(move |point, sizes| Const::Bool(law(point, sizes)));
    let bound = BoundRule::new(rule, values, &[])?.with_reference(reference);
    Ok(MaskRule::new(bound).expect("the text was read as a mask"))
}

fn bind_score(
    rule: Arc<Rule>,
    values: Vec<CaptureValue>,
    law: impl Fn(&Point, &Sizes) -> f32 + Send + Sync + 'static,
) -> Result<ScoreRule, RustRuleError> {
    let reference: Reference = Arc::new(move |point, sizes| Const::F32(law(point, sizes)));
    let bound = BoundRule::new(rule, values, &[])?.with_reference(reference);
    Ok(ScoreRule::new(bound).expect("the text was read as a score_mod"))
}

/// Every function that a text calls, directly or through others, each with the names that it uses itself.
struct Called {
    items: Vec<(Arc<Module>, Callees)>,
}

impl Called {
    fn by(root: &Arc<Module>, callees: Callees) -> Self {
        let mut items = vec![(Arc::clone(root), callees)];
        let mut next = 0;
        while let Some((_, callees)) = items.get(next) {
            for (_, item) in callees() {
                if let Ok(module) = item.module()
                    && !items.iter().any(|(known, _)| same_text(known, &module))
                {
                    items.push((module, item.callees));
                }
            }
            next += 1;
        }
        Self { items }
    }
}

impl Library for Called {
    fn find(&self, _: &str) -> Option<(Arc<Module>, usize)> {
        None
    }

    fn find_path(&self, caller: &Module, path: &[&str]) -> Option<(Arc<Module>, usize)> {
        let path = path.join("::");
        let (_, callees) = self
            .items
            .iter()
            .find(|(module, _)| same_text(module, caller))?;
        let called = callees();
        let (_, item) = called.iter().find(|(name, _)| *name == path)?;
        item.module().ok().map(|module| (module, 0))
    }
}

/// Whether two modules are of one function: each is parsed once, so its text is one allocation.
fn same_text(a: &Module, b: &Module) -> bool {
    Arc::ptr_eq(&a.source, &b.source)
}
