//! The one straight path from a bound rule to a [`Prepared`] one, the only thing that code generation accepts.

use std::collections::BTreeMap;
use std::sync::Arc;

pub use crate::analysis::dependence::Reads;

use crate::analysis::dependence::reads;
use crate::analysis::derive::derived_mask;
use crate::analysis::range::{Assumptions, Ranges};
use crate::bind::{BindError, BoundRule, MaskRule};
use crate::bucket::Bucket;
use crate::capture::{Bindings, CaptureValue};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::ir::{CaptureKind, Const, Expr, Extent, Rule};
use crate::simplify::simplify;
use crate::validate::{Precondition, breaches, is_valid, validate};

/// What a rule is prepared for: every call in the bucket, with these batch and head counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Lengths and offsets.
    pub bucket: Bucket,
    /// Greatest batch count.
    pub batch: u32,
    /// Query heads.
    pub num_q_heads: u32,
    /// Ranges, inclusive, of run-time scalars by name: a declaration for those that the rule declares nothing of.
    pub scalar_ranges: BTreeMap<String, (i64, i64)>,
}

impl Scope {
    /// The calls of a bucket, with scalars as they are bound.
    pub fn new(bucket: Bucket, batch: u32, num_q_heads: u32) -> Self {
        Self {
            bucket,
            batch,
            num_q_heads,
            scalar_ranges: BTreeMap::new(),
        }
    }

    /// The range that the scope gives a scalar. Joining masks renames the second `window` to `window_2`, so a range
    /// of `window` speaks of that one, too.
    pub fn scalar_range(&self, name: &str) -> Option<(i64, i64)> {
        let own = self.scalar_ranges.get(name);
        let renamed = || {
            let (first, number) = name.rsplit_once('_')?;
            number.bytes().all(|c| c.is_ascii_digit()).then_some(())?;
            self.scalar_ranges.get(first)
        };
        own.or_else(renamed).copied()
    }
}

/// A rule that is proved to keep the promises of the language at every cell of its scope.
#[derive(Clone, Debug)]
pub struct Prepared {
    original: BoundRule,
    rule: Arc<Rule>,
    scope: Scope,
    reads: Reads,
    assumptions: Assumptions,
    preconditions: Vec<Precondition>,
    derived_mask: Option<Arc<Rule>>,
}

impl Prepared {
    /// The rule as it was written, with its captured values and the author's function.
    pub fn original(&self) -> &BoundRule {
        &self.original
    }

    /// The simplified rule; its captures have the slots of the original.
    pub fn rule(&self) -> &Arc<Rule> {
        &self.rule
    }

    /// The captured values.
    pub fn bindings(&self) -> &Bindings {
        self.original.bindings()
    }

    /// What the proofs hold for.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// What the rule depends on.
    pub fn reads(&self) -> Reads {
        self.reads
    }

    /// What the proofs rest on; [`Prepared::rebind`] checks it.
    pub fn preconditions(&self) -> &[Precondition] {
        &self.preconditions
    }

    /// Of a `score_mod`, the mask of the cells that some score attends: elsewhere the result is -∞ whatever the score.
    /// Its captures have the slots of the original. `None` if no cell is left out, and for a mask.
    pub fn derived_mask(&self) -> Option<&Arc<Rule>> {
        self.derived_mask.as_ref()
    }

    /// [`Prepared::derived_mask`] with the captured values: what joins the mask of a call.
    pub fn derived_mask_rule(&self) -> Option<MaskRule> {
        let mask = self.original.with_rule(Arc::clone(self.derived_mask()?));
        Some(MaskRule::new(mask).expect("what is derived from a score is a mask"))
    }

    /// The same code with other captured values: nothing is analysed again, every precondition is checked.
    ///
    /// The author's own function is dropped, as it holds the old values. A dimension name that was set by hand keeps
    /// its value.
    ///
    /// # Errors
    /// [`Diagnostics`] with every precondition that the values breach: rule, capture, value and bound.
    pub fn rebind(&self, values: Vec<CaptureValue>) -> Result<Prepared, Diagnostics> {
        let old = &self.original;
        let fail = |items: Vec<Diagnostic>| Diagnostics {
            source: old.rule().source.clone(),
            items,
        };
        let dims = dims_set_by_hand(old);
        let original =
            BoundRule::new(Arc::clone(old.rule()), values, &dims).map_err(|error: BindError| {
                fail(vec![Diagnostic::new("bind", error.to_string(), None)])
            })?;
        let (preconditions, breaches) = breaches(&original, &self.scope, &self.preconditions);
        if !breaches.is_empty() {
            return Err(fail(breaches));
        }
        Ok(Prepared {
            original,
            preconditions,
            ..self.clone()
        })
    }

    /// What range analysis takes for granted.
    pub(crate) fn assumptions(&self) -> &Assumptions {
        &self.assumptions
    }
}

/// Validates, simplifies and analyses a bound rule.
///
/// # Errors
/// [`Diagnostics`] with every fault of the rule in this scope.
pub fn prepare(bound: &BoundRule, scope: &Scope) -> Result<Prepared, Diagnostics> {
    let validated = validate(bound, scope)?;
    // Only what is declared may shape the code: inferred values may change with the next binding.
    let (rule, derived_mask) = match validated.declared {
        Some(ranges) => {
            let rule = simplify(&ranges);
            let derived_mask = derived_mask(&rule)
                .filter(|mask| is_valid(mask, bound.bindings(), scope, &validated.assumptions))
                .map(|mask| {
                    let declared = ranges.assumptions().clone();
                    simplify(&Ranges::new(&mask, *ranges.sizes(), declared))
                })
                .filter(|mask| *mask.arena.expr(mask.root) != Expr::Const(Const::Bool(true)));
            (rule, derived_mask)
        }
        None => (Rule::clone(bound.rule()), None),
    };
    Ok(Prepared {
        original: bound.clone(),
        reads: reads(&rule),
        rule: Arc::new(rule),
        scope: scope.clone(),
        assumptions: validated.assumptions,
        preconditions: validated.preconditions,
        derived_mask: derived_mask.map(Arc::new),
    })
}

/// A rule as it stands, with nothing proved: for tests of code generators, at values no valid rule could give.
#[cfg(feature = "unchecked-prepare")]
pub fn prepare_unchecked(bound: &BoundRule, scope: &Scope) -> Prepared {
    Prepared {
        original: bound.clone(),
        rule: Arc::clone(bound.rule()),
        scope: scope.clone(),
        reads: reads(bound.rule()),
        assumptions: Assumptions::none(bound.rule()),
        preconditions: Vec::new(),
        derived_mask: None,
    }
}

/// Dimension names whose value is not the extent that binding would find.
fn dims_set_by_hand(bound: &BoundRule) -> Vec<(&str, i32)> {
    let rule = bound.rule();
    let mut found: Vec<Option<usize>> = vec![None; rule.dims.len()];
    for (decl, value) in rule.captures.iter().zip(&bound.bindings().values) {
        let (CaptureKind::Buffer { extents, .. }, CaptureValue::Buffer(buffer)) =
            (&decl.kind, value)
        else {
            continue;
        };
        for (extent, &len) in extents.iter().zip(buffer.shape()) {
            if let Extent::AtLeast(expr) = extent
                && let Expr::Dim(dim) = rule.arena.expr(*expr)
            {
                let least = found[dim.index()].map_or(len, |known| known.min(len));
                found[dim.index()] = Some(least);
            }
        }
    }
    let dims = rule.dims.iter().zip(&bound.bindings().dims).zip(found);
    dims.filter(|((_, value), found)| found.is_none_or(|len| len as i128 != i128::from(**value)))
        .map(|((decl, value), _)| (decl.name.as_str(), *value))
        .collect()
}
