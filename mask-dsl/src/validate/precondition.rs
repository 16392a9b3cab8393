//! What must hold of captured values, today's and every later binding's.

use std::fmt;

use super::describe::expression;
use crate::analysis::range::{Assumptions, Ranges, SizeRanges};
use crate::bind::BoundRule;
use crate::capture::{CaptureValue, CapturedBuffer};
use crate::diagnostic::Diagnostic;
use crate::ir::{CaptureDecl, CaptureId, CaptureKind, Const, ExprId, Extent, Rule};
use crate::pipeline::Scope;

/// Something that proofs rest on, checked at every binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Precondition {
    /// Name of the capture, or of the dimension.
    pub capture: String,
    /// What must hold of it.
    pub kind: PreconditionKind,
    /// Who says so.
    pub origin: Origin,
}

/// What must hold of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreconditionKind {
    /// A buffer has at least so many elements along an axis.
    MinExtent {
        /// The axis, outermost first.
        axis: usize,
        /// Fewest elements.
        at_least: u64,
    },
    /// A scalar lies between these, inclusive.
    ScalarRange {
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
    },
    /// Every element of a buffer lies between these, inclusive.
    ContentRange {
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
    },
    /// The value of a dimension name lies between these, inclusive.
    DimRange {
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
    },
}

/// The greatest value of a dimension name, which as a bound asks for nothing.
pub(super) const UNBOUNDED: i64 = i32::MAX as i64;

/// Where a [`Precondition`] comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The rule or the bucket declares it.
    Declared,
    /// A proof needed it of the values at binding.
    Inferred,
}

impl fmt::Display for Precondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.capture;
        match self.kind {
            PreconditionKind::MinExtent { axis, at_least } => {
                write!(
                    f,
                    "{name} has at least {at_least} elements along axis {axis}"
                )
            }
            PreconditionKind::DimRange {
                min,
                max: UNBOUNDED,
            } => write!(f, "{name} is at least {min}"),
            PreconditionKind::ScalarRange { min, max }
            | PreconditionKind::DimRange { min, max } => {
                write!(f, "{name} is in {}", range_text(min, max))
            }
            PreconditionKind::ContentRange { min, max } => {
                write!(f, "every {name} is in {}", range_text(min, max))
            }
        }
    }
}

/// What is declared of the captures, as it stands over all sizes of the scope, and where bound values breach it.
pub(super) fn declared(
    bound: &BoundRule,
    sizes: &SizeRanges,
    scope: &Scope,
) -> (Vec<Precondition>, Vec<Diagnostic>) {
    let rule = bound.rule();
    let ranges = Ranges::of_declarations(rule, *sizes, Assumptions::pinned(bound));
    let mut ctx = Ctx {
        rule,
        preconditions: Vec::new(),
        diagnostics: Vec::new(),
    };
    for (slot, decl) in rule.captures.iter().enumerate() {
        let value = &bound.bindings().values[slot];
        if let (CaptureKind::Buffer { extents, .. }, CaptureValue::Buffer(buffer)) =
            (&decl.kind, value)
        {
            for (axis, extent) in extents.iter().enumerate() {
                if let Extent::AtLeast(extent) = extent {
                    ctx.extent(&ranges, decl, buffer, axis, *extent);
                }
            }
        }
        // The tightest over all lengths: what is bound now is read at each of them.
        let min = decl.min.map(|min| ranges.root_int(min).hi as i64);
        let max = decl.max.map(|max| ranges.root_int(max).lo as i64);
        if min.is_some() || max.is_some() {
            let (min, max) = (min.unwrap_or(i64::MIN), max.unwrap_or(i64::MAX));
            let (kind, origin) = match value {
                CaptureValue::Scalar(_) => {
                    (PreconditionKind::ScalarRange { min, max }, Origin::Declared)
                }
                CaptureValue::Buffer(_) => (
                    PreconditionKind::ContentRange { min, max },
                    Origin::Declared,
                ),
            };
            ctx.require(bound, decl, kind, origin, "declared");
        }
        if let (Some(&(min, max)), CaptureValue::Scalar(_)) =
            (scope.scalar_ranges.get(&decl.name), value)
        {
            ctx.of_bucket(decl, &ranges, (min, max));
            if decl.min.is_none() && decl.max.is_none() {
                let kind = PreconditionKind::ScalarRange { min, max };
                ctx.require(bound, decl, kind, Origin::Declared, "given with the bucket");
            }
        }
    }
    for (slot, &value) in bound.bindings().dims.iter().enumerate() {
        if value < 0 {
            let name = &rule.dims[slot].name;
            ctx.diagnostics.push(Diagnostic::new(
                "precondition",
                format!(
                    "dimension `{name}` of rule {} is {value}, but it counts elements",
                    rule.name
                ),
                rule.dims[slot].span,
            ));
        }
    }
    (ctx.preconditions, ctx.diagnostics)
}

/// Where the values of `bound` breach what was inferred of earlier ones, or what is declared.
pub(crate) fn breaches(
    bound: &BoundRule,
    scope: &Scope,
    known: &[Precondition],
) -> (Vec<Precondition>, Vec<Diagnostic>) {
    let Some(sizes) = SizeRanges::of(scope) else {
        return (Vec::new(), Vec::new());
    };
    let (mut preconditions, mut diagnostics) = declared(bound, &sizes, scope);
    for known in known.iter().filter(|p| p.origin == Origin::Inferred) {
        preconditions.push(known.clone());
        let breach = breach(bound, known);
        diagnostics.extend(breach.map(|breach| {
            Diagnostic::new("precondition", breach, None).help(format!(
                "this range comes from the values bound when the rule was prepared; declare one for `{}`, or prepare again",
                known.capture
            ))
        }));
    }
    (preconditions, diagnostics)
}

struct Ctx<'a> {
    rule: &'a Rule,
    preconditions: Vec<Precondition>,
    diagnostics: Vec<Diagnostic>,
}

impl Ctx<'_> {
    fn extent(
        &mut self,
        ranges: &Ranges<'_>,
        decl: &CaptureDecl,
        buffer: &CapturedBuffer,
        axis: usize,
        extent: ExprId,
    ) {
        let needed = ranges.root_int(extent).hi.max(0);
        let found = buffer.shape()[axis];
        self.preconditions.push(Precondition {
            capture: decl.name.clone(),
            kind: PreconditionKind::MinExtent {
                axis,
                at_least: needed as u64,
            },
            origin: Origin::Declared,
        });
        if needed <= found as i128 {
            return;
        }
        let text = expression(self.rule, extent);
        let value = needed.to_string();
        let needed = if text == value {
            value
        } else {
            format!("{text} = {value}")
        };
        let along = if buffer.shape().len() == 1 {
            String::new()
        } else {
            format!(" along axis {axis}")
        };
        self.diagnostics.push(Diagnostic::new(
            "precondition",
            format!(
                "capture `{}` must have at least {needed} elements{along}, found {found}",
                decl.name
            ),
            decl.span,
        ));
    }

    fn require(
        &mut self,
        bound: &BoundRule,
        decl: &CaptureDecl,
        kind: PreconditionKind,
        origin: Origin,
        said: &str,
    ) {
        let precondition = Precondition {
            capture: decl.name.clone(),
            kind,
            origin,
        };
        if let Some(breach) = breach(bound, &precondition) {
            let item = Diagnostic::new("precondition", breach, decl.span);
            self.diagnostics.push(item.labelled(format!("{said} here")));
        }
        self.preconditions.push(precondition);
    }

    /// A bucket may narrow what a rule declares, not widen it.
    fn of_bucket(&mut self, decl: &CaptureDecl, ranges: &Ranges<'_>, (min, max): (i64, i64)) {
        let least = decl.min.map(|min| ranges.root_int(min).hi);
        let most = decl.max.map(|max| ranges.root_int(max).lo);
        let below = least.is_some_and(|least| i128::from(min) < least);
        let above = most.is_some_and(|most| most < i128::from(max));
        if below || above {
            let bound = |v: Option<i128>| v.map_or(String::new(), |v| v.to_string());
            self.diagnostics.push(Diagnostic::new(
                "precondition",
                format!(
                    "the bucket has `{}` in {min}..={max}, but rule {} declares {}..={}",
                    decl.name,
                    self.rule.name,
                    bound(least),
                    bound(most)
                ),
                decl.span,
            ));
        }
    }
}

/// What is wrong with a bound value, if anything.
fn breach(bound: &BoundRule, precondition: &Precondition) -> Option<String> {
    let rule = bound.rule();
    let name = &precondition.capture;
    let slot = rule.capture_named(name);
    let value = slot.map(|slot: CaptureId| &bound.bindings().values[slot.index()]);
    match (precondition.kind, value) {
        (PreconditionKind::MinExtent { axis, at_least }, Some(CaptureValue::Buffer(buffer))) => {
            let found = buffer.shape()[axis];
            ((found as u64) < at_least).then(|| {
                format!(
                    "capture `{name}` of rule {} must have at least {at_least} elements along axis {axis}, found {found}",
                    rule.name
                )
            })
        }
        (PreconditionKind::ScalarRange { min, max }, Some(CaptureValue::Scalar(value))) => {
            (!is_between(*value, min, max)).then(|| {
                format!(
                    "capture `{name}` of rule {} is {value}, outside {}",
                    rule.name,
                    range_text(min, max)
                )
            })
        }
        (PreconditionKind::ContentRange { min, max }, Some(CaptureValue::Buffer(buffer))) => {
            let (index, value) = first_outside(buffer, min, max)?;
            let at: Vec<String> = index.iter().map(usize::to_string).collect();
            Some(format!(
                "capture `{name}` of rule {} has {value} at [{}], outside {}",
                rule.name,
                at.join(", "),
                range_text(min, max)
            ))
        }
        (PreconditionKind::DimRange { min, max }, _) => {
            let dim = rule.dims.iter().position(|dim| dim.name == *name)?;
            let value = i64::from(bound.bindings().dims[dim]);
            (value < min || max < value).then(|| {
                let max = if max == UNBOUNDED { i64::MAX } else { max };
                format!(
                    "dimension `{name}` of rule {} is {value}, outside {}",
                    rule.name,
                    range_text(min, max)
                )
            })
        }
        (
            PreconditionKind::MinExtent { .. }
            | PreconditionKind::ScalarRange { .. }
            | PreconditionKind::ContentRange { .. },
            _,
        ) => unreachable!("binding checked that `{name}` is what the rule declares"),
    }
}

fn range_text(min: i64, max: i64) -> String {
    match (min, max) {
        (i64::MIN, max) => format!("..={max}"),
        (min, i64::MAX) => format!("{min}.."),
        (min, max) => format!("{min}..={max}"),
    }
}

/// Floats compare with the bounds as floats; NaN is never between them.
fn is_between(value: Const, min: i64, max: i64) -> bool {
    match value {
        Const::F32(v) => min as f32 <= v && v <= max as f32,
        Const::Bool(_) | Const::I32(_) | Const::I64(_) | Const::U32(_) => {
            let v = value.as_int().expect("all but floats are integers");
            min <= v && v <= max
        }
    }
}

/// The first element, in row-major order, that is outside, with its index.
fn first_outside(buffer: &CapturedBuffer, min: i64, max: i64) -> Option<(Vec<usize>, Const)> {
    if let Some((least, greatest)) = buffer.int_range()
        && min <= least
        && greatest <= max
    {
        return None;
    }
    let mut nth = 0;
    let mut found = None;
    buffer.for_each_element(|at| {
        if found.is_none() {
            let value = buffer.data().load(at);
            if !is_between(value, min, max) {
                found = Some((nth, value));
            }
        }
        nth += 1;
    });
    let (mut nth, value) = found?;
    let mut index = vec![0; buffer.shape().len()];
    for (axis, &extent) in buffer.shape().iter().enumerate().rev() {
        index[axis] = nth % extent;
        nth /= extent;
    }
    Some((index, value))
}
