//! A rule with its captured values, and the algebra of such rules.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitXor, Not, Sub};
use std::sync::Arc;

use crate::capture::{Bindings, CaptureValue};
use crate::eval::{Point, ScalarEvaluator, Sizes};
use crate::fingerprint::Fingerprint;
use crate::ir::{
    Arena, BinaryOp, CaptureId, CaptureKind, Const, DimId, Expr, ExprId, Extent, Replacement, Rule,
    RuleKind, UnaryOp, Var,
};

/// The author's own function, compiled by rustc, over the same captured values.
pub type Reference = Arc<dyn Fn(&Point, &Sizes) -> Const + Send + Sync>;

/// Why captured values do not fit a rule.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// Too few or too many values.
    #[error("rule {rule} captures {expected} values ({names}), found {found}")]
    Count {
        /// The rule.
        rule: String,
        /// Captures of the rule.
        expected: usize,
        /// Their names.
        names: String,
        /// Values given.
        found: usize,
    },
    /// A value has another type than its capture.
    #[error("capture {capture} of rule {rule}: expected {expected}, found {found}")]
    Type {
        /// The rule.
        rule: String,
        /// The capture.
        capture: String,
        /// Declared type.
        expected: String,
        /// Type of the value.
        found: String,
    },
    /// A dimension name stands for an extent that no `i32` holds, or nothing binds it.
    #[error("dimension {dim} of rule {rule}: {reason}")]
    Dimension {
        /// The rule.
        rule: String,
        /// The dimension name.
        dim: String,
        /// What is wrong.
        reason: String,
    },
}

/// A rule and the values it captured.
#[derive(Clone)]
pub struct BoundRule {
    rule: Arc<Rule>,
    bindings: Bindings,
    reference: Option<Reference>,
}

impl fmt::Debug for BoundRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundRule")
            .field("rule", &self.rule.name)
            .field("captures", &self.bindings.values.len())
            .field("has_reference", &self.reference.is_some())
            .finish_non_exhaustive()
    }
}

impl BoundRule {
    /// Binds values to the captures of a rule, by slot. A dimension name takes the smallest extent that a buffer has
    /// there, unless `dims` gives its value.
    ///
    /// # Errors
    /// [`BindError`] if a value has another type or rank than its capture, or a dimension name stays unbound.
    pub fn new(
        rule: Arc<Rule>,
        values: Vec<CaptureValue>,
        dims: &[(&str, i32)],
    ) -> Result<Self, BindError> {
        check_values(&rule, &values)?;
        let dims = resolve_dims(&rule, &values, dims)?;
        Ok(Self {
            rule,
            bindings: Bindings { values, dims },
            reference: None,
        })
    }

    /// Adds the author's own function, which verification takes as the law.
    #[must_use]
    pub fn with_reference(mut self, reference: Reference) -> Self {
        self.reference = Some(reference);
        self
    }

    /// Whether both are the same rule, whatever it is called, with the same captured values.
    pub fn is_same(&self, other: &BoundRule) -> bool {
        let of = |bound| Fingerprint::of(bound, |_| false);
        of(self) == of(other)
    }

    /// Another rule over the same captures, with the same values.
    pub(crate) fn with_rule(&self, rule: Arc<Rule>) -> Self {
        Self {
            rule,
            bindings: self.bindings.clone(),
            reference: None,
        }
    }

    /// The rule.
    pub fn rule(&self) -> &Arc<Rule> {
        &self.rule
    }

    /// The captured values.
    pub fn bindings(&self) -> &Bindings {
        &self.bindings
    }

    /// The author's own function, where there is one.
    pub fn reference(&self) -> Option<&Reference> {
        self.reference.as_ref()
    }

    /// The same rule with another value in one slot: other contents, same code.
    ///
    /// The author's function is dropped, as it holds the old values.
    ///
    /// # Errors
    /// [`BindError`] as in [`BoundRule::new`].
    pub fn rebind(&self, slot: CaptureId, value: CaptureValue) -> Result<Self, BindError> {
        let mut values = self.bindings.values.clone();
        if let Some(place) = values.get_mut(slot.index()) {
            *place = value;
        }
        Self::new(Arc::clone(&self.rule), values, &[])
    }

    /// Evaluates the law at one cell: the author's function where there is one, the interpreter otherwise.
    fn law(&self, point: &Point, sizes: &Sizes) -> Const {
        match &self.reference {
            Some(reference) => reference(point, sizes),
            None => ScalarEvaluator::new(&self.rule, &self.bindings, *sizes)
                .eval(point)
                .unwrap_or_else(|error| {
                    panic!("rule {} was not validated: {error}", self.rule.name)
                }),
        }
    }
}

fn check_values(rule: &Rule, values: &[CaptureValue]) -> Result<(), BindError> {
    if values.len() != rule.captures.len() {
        let names: Vec<_> = rule.captures.iter().map(|c| c.name.as_str()).collect();
        return Err(BindError::Count {
            rule: rule.name.clone(),
            expected: rule.captures.len(),
            names: names.join(", "),
            found: values.len(),
        });
    }
    for (decl, value) in rule.captures.iter().zip(values) {
        let fits = match (&decl.kind, value) {
            (CaptureKind::Scalar(ty), CaptureValue::Scalar(value)) => *ty == value.ty(),
            (CaptureKind::Buffer { elem, extents }, CaptureValue::Buffer(buffer)) => {
                let bits = *elem == crate::ir::Elem::Bool && buffer.elem() == crate::ir::Elem::Bits;
                (*elem == buffer.elem() || bits) && extents.len() == buffer.shape().len()
            }
            (CaptureKind::Scalar(_), CaptureValue::Buffer(_))
            | (CaptureKind::Buffer { .. }, CaptureValue::Scalar(_)) => false,
        };
        if !fits {
            return Err(BindError::Type {
                rule: rule.name.clone(),
                capture: decl.name.clone(),
                expected: describe_kind(&decl.kind),
                found: describe_value(value),
            });
        }
    }
    Ok(())
}

fn describe_kind(kind: &CaptureKind) -> String {
    match kind {
        CaptureKind::Scalar(ty) => format!("a scalar of type {ty}"),
        CaptureKind::Buffer { elem, extents } => {
            format!("a buffer of {elem} with {} axes", extents.len())
        }
    }
}

fn describe_value(value: &CaptureValue) -> String {
    match value {
        CaptureValue::Scalar(value) => format!("a scalar of type {}", value.ty()),
        CaptureValue::Buffer(buffer) => {
            format!(
                "a buffer of {} with shape {:?}",
                buffer.elem(),
                buffer.shape()
            )
        }
    }
}

fn resolve_dims(
    rule: &Rule,
    values: &[CaptureValue],
    given: &[(&str, i32)],
) -> Result<Vec<i32>, BindError> {
    let error = |dim: usize, reason: String| BindError::Dimension {
        rule: rule.name.clone(),
        dim: rule.dims[dim].name.clone(),
        reason,
    };
    let mut dims: Vec<Option<usize>> = vec![None; rule.dims.len()];
    for (decl, value) in rule.captures.iter().zip(values) {
        let (CaptureKind::Buffer { extents, .. }, CaptureValue::Buffer(buffer)) =
            (&decl.kind, value)
        else {
            continue;
        };
        for (extent, &found) in extents.iter().zip(buffer.shape()) {
            let Extent::AtLeast(expr) = extent else {
                continue;
            };
            if let Expr::Dim(dim) = rule.arena.expr(*expr) {
                let least = dims[dim.index()].map_or(found, |known| known.min(found));
                dims[dim.index()] = Some(least);
            }
        }
    }
    (0..rule.dims.len())
        .map(|dim| {
            if let Some((_, value)) = given.iter().find(|(name, _)| *name == rule.dims[dim].name) {
                return Ok(*value);
            }
            let extent = dims[dim].ok_or_else(|| {
                error(
                    dim,
                    "no buffer has it as a whole extent, so it must be set".to_owned(),
                )
            })?;
            i32::try_from(extent)
                .map_err(|_| error(dim, format!("extent {extent} does not fit i32")))
        })
        .collect()
}

/// A bound `mask_mod`: which query may see which key. `&`, `|`, `!`, `^` and `-` (difference) combine them.
#[derive(Clone, Debug)]
pub struct MaskRule(BoundRule);

/// A bound `score_mod`: how a score changes.
#[derive(Clone, Debug)]
pub struct ScoreRule(BoundRule);

impl MaskRule {
    /// Takes a bound rule that is a mask; gives one that is not back.
    ///
    /// # Errors
    /// The rule itself, if it is a `score_mod`.
    pub fn new(bound: BoundRule) -> Result<Self, BoundRule> {
        match bound.rule.kind {
            RuleKind::Mask => Ok(Self(bound)),
            RuleKind::Score => Err(bound),
        }
    }

    /// The bound rule.
    pub fn bound(&self) -> &BoundRule {
        &self.0
    }

    /// The mask that allows every cell (`true`) or none.
    pub fn constant(allow: bool) -> Self {
        let mut arena = Arena::new();
        let root = arena.constant(Const::Bool(allow));
        let rule = Rule {
            name: if allow { "all" } else { "none" }.to_owned(),
            doc: String::new(),
            kind: RuleKind::Mask,
            captures: Vec::new(),
            dims: Vec::new(),
            arena,
            root,
            source: None,
        };
        Self(BoundRule {
            rule: Arc::new(rule),
            bindings: Bindings::default(),
            reference: None,
        })
    }

    /// Cells that every one of the rules allows; all cells if there are none.
    pub fn all_of(rules: impl IntoIterator<Item = MaskRule>) -> Self {
        rules
            .into_iter()
            .reduce(|a, b| a & b)
            .unwrap_or_else(|| Self::constant(true))
    }

    /// Cells that any of the rules allows; none if there are none.
    pub fn any_of(rules: impl IntoIterator<Item = MaskRule>) -> Self {
        rules
            .into_iter()
            .reduce(|a, b| a | b)
            .unwrap_or_else(|| Self::constant(false))
    }

    /// `self` on the heads where `heads` (which reads `h` alone, or `b` and `h`) holds, `other` on the rest.
    pub fn select_heads(heads: &MaskRule, on: &MaskRule, off: &MaskRule) -> Self {
        let name = format!(
            "if {} {{ {} }} else {{ {} }}",
            heads.0.rule.name, on.0.rule.name, off.0.rule.name
        );
        combine(
            &[heads, on, off],
            name,
            |arena, roots| arena.select(roots[0], roots[1], roots[2]),
            |v| if v[0] { v[1] } else { v[2] },
        )
    }

    /// The mask moved by whole tokens: the new rule at `(q, kv)` is the old one at `(q - by_q, kv - by_kv)`.
    pub fn shift(&self, by_q: i32, by_kv: i32) -> Self {
        let mut builder = Builder::default();
        let root = builder.add(&self.0, |arena, var| {
            let by = match var {
                Var::QIdx => by_q,
                Var::KvIdx => by_kv,
                Var::B
                | Var::H
                | Var::Score
                | Var::QLen
                | Var::KvLen
                | Var::Batch
                | Var::NumQHeads => 0,
            };
            if by == 0 {
                return None;
            }
            let index = arena.var(var);
            let by = arena.constant(Const::I32(by));
            Some(arena.binary(BinaryOp::Sub, index, by))
        });
        let reference = self.0.reference.is_some().then(|| {
            let old = self.0.clone();
            let moved: Reference = Arc::new(move |point: &Point, sizes: &Sizes| {
                let point = Point {
                    q_idx: point.q_idx - by_q,
                    kv_idx: point.kv_idx - by_kv,
                    ..*point
                };
                old.law(&point, sizes)
            });
            moved
        });
        let name = format!("{} shifted by ({by_q}, {by_kv})", self.0.rule.name);
        Self(builder.finish(name, root, reference))
    }
}

impl ScoreRule {
    /// Takes a bound rule that is a `score_mod`; gives one that is not back.
    ///
    /// # Errors
    /// The rule itself, if it is a mask.
    pub fn new(bound: BoundRule) -> Result<Self, BoundRule> {
        match bound.rule.kind {
            RuleKind::Score => Ok(Self(bound)),
            RuleKind::Mask => Err(bound),
        }
    }

    /// The bound rule.
    pub fn bound(&self) -> &BoundRule {
        &self.0
    }
}

macro_rules! mask_operator {
    ($($trait:ident, $method:ident, |$a:ident, $b:ident| $result:expr;)*) => {$(
        impl $trait<&MaskRule> for &MaskRule {
            type Output = MaskRule;

            fn $method(self, other: &MaskRule) -> MaskRule {
                let ($a, $b) = (self, other);
                $result
            }
        }

        impl $trait<MaskRule> for &MaskRule {
            type Output = MaskRule;

            fn $method(self, other: MaskRule) -> MaskRule {
                self.$method(&other)
            }
        }

        impl $trait<&MaskRule> for MaskRule {
            type Output = MaskRule;

            fn $method(self, other: &MaskRule) -> MaskRule {
                (&self).$method(other)
            }
        }

        impl $trait for MaskRule {
            type Output = MaskRule;

            fn $method(self, other: MaskRule) -> MaskRule {
                (&self).$method(&other)
            }
        }
    )*};
}

// `-` is the difference: cells that the left allows and the right does not.
mask_operator! {
    BitAnd, bitand, |a, b| binary(a, b, BinaryOp::And, "&", |a, b| a && b);
    BitOr, bitor, |a, b| binary(a, b, BinaryOp::Or, "|", |a, b| a || b);
    BitXor, bitxor, |a, b| binary(a, b, BinaryOp::BitXor, "^", |a, b| a != b);
    Sub, sub, |a, b| a & !b;
}

impl Not for &MaskRule {
    type Output = MaskRule;

    fn not(self) -> MaskRule {
        let name = format!("!({})", self.0.rule.name);
        combine(
            &[self],
            name,
            |arena, roots| arena.unary(UnaryOp::Not, roots[0]),
            |v| !v[0],
        )
    }
}

impl Not for MaskRule {
    type Output = MaskRule;

    fn not(self) -> MaskRule {
        !&self
    }
}

fn binary(
    a: &MaskRule,
    b: &MaskRule,
    op: BinaryOp,
    sign: &str,
    law: fn(bool, bool) -> bool,
) -> MaskRule {
    let name = format!("({} {sign} {})", a.0.rule.name, b.0.rule.name);
    combine(
        &[a, b],
        name,
        |arena, roots| arena.binary(op, roots[0], roots[1]),
        move |v| law(v[0], v[1]),
    )
}

/// Joins masks into one rule: their captures side by side, their results combined.
fn combine(
    parts: &[&MaskRule],
    name: String,
    root: impl FnOnce(&mut Arena, &[ExprId]) -> ExprId,
    law: impl Fn(&[bool]) -> bool + Send + Sync + 'static,
) -> MaskRule {
    let mut builder = Builder::default();
    let roots: Vec<ExprId> = parts
        .iter()
        .map(|part| builder.add(&part.0, |_, _| None))
        .collect();
    let root = root(&mut builder.arena, &roots);
    let reference = parts
        .iter()
        .any(|part| part.0.reference.is_some())
        .then(|| {
            let parts: Vec<BoundRule> = parts.iter().map(|part| part.0.clone()).collect();
            let joined: Reference = Arc::new(move |point: &Point, sizes: &Sizes| {
                let values: Vec<bool> = parts
                    .iter()
                    .map(|part| part.law(point, sizes) == Const::Bool(true))
                    .collect();
                Const::Bool(law(&values))
            });
            joined
        });
    MaskRule(builder.finish(name, root, reference))
}

/// Collects the captures of several bound rules in one.
#[derive(Default)]
struct Builder {
    arena: Arena,
    captures: Vec<crate::ir::CaptureDecl>,
    dims: Vec<crate::ir::DimDecl>,
    bindings: Bindings,
}

impl Builder {
    fn add(
        &mut self,
        part: &BoundRule,
        mut substitute: impl FnMut(&mut Arena, Var) -> Option<ExprId>,
    ) -> ExprId {
        let first_capture = self.captures.len() as u32;
        let first_dim = self.dims.len() as u32;
        let rule = &part.rule;
        let mut replace = |arena: &mut Arena, expr: &Expr| -> Option<Replacement> {
            match expr {
                Expr::Var(var) => substitute(arena, *var).map(Replacement::Node),
                Expr::Scalar(slot) => Some(Replacement::Expr(Expr::Scalar(CaptureId(
                    first_capture + slot.0,
                )))),
                Expr::Dim(dim) => Some(Replacement::Expr(Expr::Dim(DimId(first_dim + dim.0)))),
                Expr::Load { buffer, index } => Some(Replacement::Expr(Expr::Load {
                    buffer: CaptureId(first_capture + buffer.0),
                    index: index.clone(),
                })),
                Expr::Const(_)
                | Expr::Unary { .. }
                | Expr::Binary { .. }
                | Expr::Clamp { .. }
                | Expr::Cast { .. }
                | Expr::Select { .. }
                | Expr::Then { .. } => None,
            }
        };
        let arena = &mut self.arena;
        let root = arena.import(&rule.arena, rule.root, &mut replace);
        for decl in &rule.captures {
            let mut decl = decl.clone();
            let mut moved = |expr: ExprId| arena.import(&rule.arena, expr, &mut replace);
            decl.min = decl.min.map(&mut moved);
            decl.max = decl.max.map(&mut moved);
            if let CaptureKind::Buffer { extents, .. } = &mut decl.kind {
                for extent in extents {
                    if let Extent::AtLeast(expr) = extent {
                        *expr = moved(*expr);
                    }
                }
            }
            decl.name = unused_name(&decl.name, &self.captures.iter().map(|c| c.name.as_str()));
            self.captures.push(decl);
        }
        for decl in &rule.dims {
            let mut decl = decl.clone();
            decl.name = unused_name(&decl.name, &self.dims.iter().map(|d| d.name.as_str()));
            self.dims.push(decl);
        }
        self.bindings
            .values
            .extend(part.bindings.values.iter().cloned());
        self.bindings.dims.extend(&part.bindings.dims);
        root
    }

    fn finish(self, name: String, root: ExprId, reference: Option<Reference>) -> BoundRule {
        let rule = Rule {
            name,
            doc: String::new(),
            kind: RuleKind::Mask,
            captures: self.captures,
            dims: self.dims,
            arena: self.arena,
            root,
            // Spans of several texts are meaningless together.
            source: None,
        };
        BoundRule {
            rule: Arc::new(rule),
            bindings: self.bindings,
            reference,
        }
    }
}

fn unused_name<'a>(name: &str, taken: &(impl Iterator<Item = &'a str> + Clone)) -> String {
    let mut candidate = name.to_owned();
    let mut n = 1;
    while taken.clone().any(|other| other == candidate) {
        n += 1;
        candidate = format!("{name}_{n}");
    }
    candidate
}
