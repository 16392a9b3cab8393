//! What a proof needs to know of values that nothing is declared of: as little as will do.

use super::check::{Fault, check};
use super::precondition::{Origin, Precondition, PreconditionKind, UNBOUNDED};
use crate::analysis::range::{Assumptions, Ranges, SizeRanges};
use crate::bind::BoundRule;
use crate::capture::CaptureValue;
use crate::ir::{CaptureDecl, Expr};
use crate::pipeline::Scope;

/// What inference came to.
pub(super) struct Inferred<'a> {
    /// The analysis from declarations and types alone.
    pub(super) declared: Ranges<'a>,
    /// What could not be proved, whatever was assumed.
    pub(super) faults: Vec<Fault>,
    pub(super) assumptions: Assumptions,
    pub(super) preconditions: Vec<Precondition>,
}

/// A value that nothing is declared of, with what may be assumed of it, the weakest first.
struct Candidate {
    place: Place,
    levels: Vec<(i64, i64)>,
}

#[derive(Clone, Copy)]
enum Place {
    Dim(usize),
    Content(usize),
    Scalar(usize),
}

fn place(assumptions: &mut Assumptions, place: Place) -> &mut Option<(i64, i64)> {
    match place {
        Place::Dim(slot) => &mut assumptions.dims[slot],
        Place::Content(slot) => &mut assumptions.contents[slot],
        Place::Scalar(slot) => &mut assumptions.scalars[slot],
    }
}

/// Proves the rule from declarations and types, and only where that fails from the values bound today.
pub(super) fn infer<'a>(bound: &'a BoundRule, scope: &Scope, sizes: &SizeRanges) -> Inferred<'a> {
    let run = |assumptions: &Assumptions| {
        let mut ranges = Ranges::new(bound.rule(), *sizes, assumptions.clone());
        check(&mut ranges, bound.bindings())
    };
    let mut assumptions = of_scope(bound, scope);
    let mut declared = Ranges::new(bound.rule(), *sizes, assumptions.clone());
    let mut checked = check(&mut declared, bound.bindings());
    let mut candidates = Vec::new();
    if !checked.faults.is_empty() {
        candidates = all_candidates(bound, &assumptions);
    }
    if !candidates.is_empty() {
        for candidate in &candidates {
            *place(&mut assumptions, candidate.place) = candidate.levels.last().copied();
        }
        checked = run(&assumptions);
    }
    if checked.faults.is_empty() {
        for candidate in &candidates {
            let weaker = std::iter::once(None).chain(candidate.levels.iter().copied().map(Some));
            for level in weaker.take(candidate.levels.len()) {
                let mut fewer = assumptions.clone();
                *place(&mut fewer, candidate.place) = level;
                let again = run(&fewer);
                if again.faults.is_empty() {
                    assumptions = fewer;
                    checked = again;
                    break;
                }
            }
        }
    }
    let mut preconditions = Vec::new();
    let names = &bound.rule().captures;
    let mut add = |name: &str, kind: PreconditionKind| {
        preconditions.push(Precondition {
            capture: name.to_owned(),
            kind,
            origin: Origin::Inferred,
        });
    };
    for (&(slot, axis), &needed) in &checked.needed {
        let at_least = needed as u64;
        let kind = PreconditionKind::MinExtent { axis, at_least };
        add(&names[slot.index()].name, kind);
    }
    for candidate in &candidates {
        let Some((min, max)) = *place(&mut assumptions, candidate.place) else {
            continue;
        };
        match candidate.place {
            Place::Dim(slot) => add(
                &bound.rule().dims[slot].name,
                PreconditionKind::DimRange { min, max },
            ),
            Place::Content(slot) => add(
                &names[slot].name,
                PreconditionKind::ContentRange { min, max },
            ),
            Place::Scalar(slot) => {
                add(
                    &names[slot].name,
                    PreconditionKind::ScalarRange { min, max },
                );
            }
        }
    }
    Inferred {
        declared,
        faults: checked.faults,
        assumptions,
        preconditions,
    }
}

/// What the scope declares of scalars that the rule declares nothing of.
fn of_scope(bound: &BoundRule, scope: &Scope) -> Assumptions {
    let mut assumptions = Assumptions::none(bound.rule());
    for (slot, decl) in bound.rule().captures.iter().enumerate() {
        if is_undeclared(decl) {
            assumptions.scalars[slot] = scope.scalar_ranges.get(&decl.name).copied();
        }
    }
    assumptions
}

fn is_undeclared(decl: &CaptureDecl) -> bool {
    decl.min.is_none() && decl.max.is_none()
}

fn all_candidates(bound: &BoundRule, known: &Assumptions) -> Vec<Candidate> {
    let rule = bound.rule();
    let mut scalars = vec![false; rule.captures.len()];
    let mut buffers = vec![false; rule.captures.len()];
    let live = rule.live();
    for id in rule.arena.ids().filter(|id| live[id.index()]) {
        match rule.arena.expr(id) {
            Expr::Scalar(slot) => scalars[slot.index()] = true,
            Expr::Load { buffer, .. } => buffers[buffer.index()] = true,
            Expr::Const(_)
            | Expr::Var(_)
            | Expr::Dim(_)
            | Expr::Unary { .. }
            | Expr::Binary { .. }
            | Expr::Clamp { .. }
            | Expr::Cast { .. }
            | Expr::Select { .. }
            | Expr::Then { .. } => {}
        }
    }
    let mut candidates = Vec::new();
    for (slot, decl) in rule.captures.iter().enumerate() {
        if !is_undeclared(decl) {
            continue;
        }
        match &bound.bindings().values[slot] {
            CaptureValue::Scalar(value) => {
                if let (Some(v), true, None) = (value.as_int(), scalars[slot], known.scalars[slot])
                {
                    candidates.push(Candidate {
                        place: Place::Scalar(slot),
                        levels: vec![(v, v)],
                    });
                }
            }
            CaptureValue::Buffer(buffer) => {
                if let (Some(range), true) = (buffer.int_range(), buffers[slot]) {
                    candidates.push(Candidate {
                        place: Place::Content(slot),
                        levels: vec![range],
                    });
                }
            }
        }
    }
    for (slot, &v) in bound.bindings().dims.iter().enumerate() {
        // A later batch may have more documents, so all that is asked for first is that there is one.
        let v = i64::from(v);
        let mut levels = vec![(v, v)];
        if 1 <= v {
            levels.insert(0, (1, UNBOUNDED));
        }
        candidates.push(Candidate {
            place: Place::Dim(slot),
            levels,
        });
    }
    candidates
}
