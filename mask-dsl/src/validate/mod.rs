//! Every fault of a bound rule in a scope, found at once: reads that may leave their buffer, results that may leave
//! their type, operations that may not exist, and captured values that breach what was declared of them.

mod check;
mod describe;
mod infer;
mod precondition;
mod prove;

pub use precondition::{Origin, Precondition, PreconditionKind};

use crate::analysis::range::{Assumptions, Ranges, SizeRanges};
use crate::bind::BoundRule;
use crate::capture::Bindings;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::ir::Rule;
use crate::pipeline::Scope;
use check::{Fault, check};
use infer::infer;

pub(crate) use precondition::breaches;

/// What the proofs of a valid rule rest on.
#[derive(Debug)]
pub(crate) struct Validated<'a> {
    /// The analysis from declarations and types alone, which later stages may use; `None` if there are no cells.
    pub(crate) declared: Option<Ranges<'a>>,
    /// What was taken for granted of run-time values.
    pub(crate) assumptions: Assumptions,
    /// The same, with what was declared, to be checked at every binding.
    pub(crate) preconditions: Vec<Precondition>,
}

/// Proves that no cell of the scope makes the rule fail.
///
/// # Errors
/// [`Diagnostics`] with every fault, in source order.
pub(crate) fn validate<'a>(
    bound: &'a BoundRule,
    scope: &Scope,
) -> Result<Validated<'a>, Diagnostics> {
    let rule = bound.rule();
    let nothing = Assumptions::none(rule);
    let Some(sizes) = SizeRanges::of(scope) else {
        return Ok(Validated {
            declared: None,
            assumptions: nothing,
            preconditions: Vec::new(),
        });
    };
    let fail = |items: Vec<Diagnostic>| Diagnostics {
        source: rule.source.clone(),
        items,
    };
    let too_long = lengths_beyond_i32(rule, &sizes);
    if !too_long.is_empty() {
        return Err(fail(too_long));
    }
    let (declared, mut diagnostics) = precondition::declared(bound, &sizes, scope);
    let inferred = infer(bound, scope, &sizes);
    let mut faults = inferred.faults;
    faults.sort_by_key(|fault| {
        let span = rule.arena.span(fault.at);
        (span.is_none(), span, fault.at)
    });
    let mut lengths = describe::Lengths::new(bound, scope, &inferred.assumptions);
    for fault in &faults {
        diagnostics.push(describe::diagnostic(&mut lengths, fault));
    }
    if !diagnostics.is_empty() {
        return Err(fail(diagnostics));
    }
    let mut preconditions = declared;
    preconditions.extend(inferred.preconditions);
    Ok(Validated {
        declared: Some(inferred.declared),
        assumptions: inferred.assumptions,
        preconditions,
    })
}

/// Whether a rule is proved under given assumptions alone.
pub(crate) fn is_valid(
    rule: &Rule,
    bindings: &Bindings,
    scope: &Scope,
    assumptions: &Assumptions,
) -> bool {
    SizeRanges::of(scope).is_none_or(|sizes| {
        let mut ranges = Ranges::new(rule, sizes, assumptions.clone());
        check(&mut ranges, bindings).faults.is_empty()
    })
}

/// The faults of the same rule where lengths end at `longest`.
fn faults_up_to(
    bound: &BoundRule,
    scope: &Scope,
    assumptions: &Assumptions,
    longest: u64,
) -> Vec<Fault> {
    match SizeRanges::of_lengths_to(scope, longest) {
        Some(sizes) => {
            let mut ranges = Ranges::new(bound.rule(), sizes, assumptions.clone());
            check(&mut ranges, bound.bindings()).faults
        }
        None => Vec::new(),
    }
}

fn lengths_beyond_i32(rule: &Rule, sizes: &SizeRanges) -> Vec<Diagnostic> {
    let most = i128::from(i32::MAX);
    let least = i128::from(i32::MIN);
    let checks = [
        ("q_len", sizes.q_len.hi),
        ("kv_len", sizes.kv_len.hi),
        ("q_idx", sizes.q_offset.hi + sizes.q_len.hi - 1),
        ("batch", sizes.batch.hi),
        ("num_q_heads", sizes.num_q_heads.hi),
    ];
    let mut diagnostics = Vec::new();
    for (name, value) in checks {
        if most < value {
            diagnostics.push(Diagnostic::new(
                "length",
                format!(
                    "{name} reaches {value} in rule {}, but positions and sizes are i32, at most {most}",
                    rule.name
                ),
                None,
            ));
        }
    }
    if sizes.q_offset.lo < least {
        diagnostics.push(Diagnostic::new(
            "length",
            format!(
                "q_idx reaches {} in rule {}, but positions and sizes are i32, at least {least}",
                sizes.q_offset.lo, rule.name
            ),
            None,
        ));
    }
    diagnostics
}

#[cfg(test)]
mod tests;
