//! What a rule reads, what its proofs rest on, the range of each part, and the first length that refuses it.

use std::fmt::Write as _;

use maskwright::BoundRule;
use maskwright_dsl::analysis::range::intervals;
use maskwright_dsl::bucket::Bucket;
use maskwright_dsl::diagnostic::Diagnostics;
use maskwright_dsl::ir::Expr;
use maskwright_dsl::pipeline::{Prepared, Reads, Scope, prepare};
use serde_json::json;

use crate::args::ExplainArgs;
use crate::error::CliError;
use crate::{Outcome, output, progress};

/// The first length at which a rule is refused, and why.
struct End {
    length: u64,
    faults: Diagnostics,
}

pub(super) fn explain(
    args: &ExplainArgs,
    bound: &BoundRule,
    scope: &Scope,
) -> Result<Outcome, CliError> {
    let prepared = prepare(bound, scope)?;
    let end = progress::spinning("looking for the first length that fails", || {
        first_refused(bound, scope)
    });
    let parts = parts(&prepared);
    let reads = reads(prepared.reads());
    let preconditions: Vec<String> = prepared
        .preconditions()
        .iter()
        .map(ToString::to_string)
        .collect();
    if args.json {
        let parts: Vec<_> = parts
            .iter()
            .map(|(text, lo, hi)| json!({ "expression": text, "min": lo, "max": hi }))
            .collect();
        output::print_json(&json!({
            "rule": args.rule,
            "bucket": scope.bucket.to_string(),
            "reads": reads,
            "preconditions": preconditions,
            "expressions": parts,
            "first_refused_length": end.as_ref().map(|end| end.length),
            "refusals": end.map(|end| CliError::Rule(end.faults).reasons()).unwrap_or_default(),
        }))?;
        return Ok(Outcome::Done);
    }
    let rule = prepared.original().rule();
    let mut text = format!(
        "{} over {}, batch {}, {} heads\n",
        rule.to_expression_string(rule.root),
        scope.bucket,
        scope.batch,
        scope.num_q_heads
    );
    let simple = prepared.rule();
    let simplified = simple.to_expression_string(simple.root);
    if simplified != rule.to_expression_string(rule.root) {
        let _ = writeln!(text, "simplified for this bucket: {simplified}");
    }
    let _ = writeln!(
        text,
        "reads: {}",
        if reads.is_empty() {
            "nothing".to_owned()
        } else {
            reads.join(", ")
        }
    );
    if let Some(derived) = prepared.derived_mask() {
        let _ = writeln!(
            text,
            "implies the mask: {}",
            derived.to_expression_string(derived.root)
        );
    }
    text.push_str("\nits proofs rest on\n");
    if preconditions.is_empty() {
        text.push_str("  nothing beyond the bucket\n");
    }
    for (line, condition) in preconditions.iter().zip(prepared.preconditions()) {
        let _ = writeln!(text, "  {line} ({:?})", condition.origin);
    }
    text.push_str("\nranges of its parts, over every call of the bucket\n");
    let rows: Vec<Vec<String>> = parts
        .iter()
        .map(|(expr, lo, hi)| {
            vec![
                format!("  {expr}"),
                lo.to_string(),
                "..=".to_owned(),
                hi.to_string(),
            ]
        })
        .collect();
    text.push_str(&output::table(&rows));
    text.push('\n');
    match end {
        None => text.push_str("valid at every length up to 2147483647\n"),
        Some(end) => {
            let _ = writeln!(text, "refused from length {} on:", end.length);
            text.push_str(&end.faults.render(false));
        }
    }
    output::print(&text)?;
    Ok(Outcome::Done)
}

/// Integer and bool expressions of the simplified rule with their ranges, parts before the whole.
fn parts(prepared: &Prepared) -> Vec<(String, i64, i64)> {
    let rule = prepared.rule();
    let live = rule.live();
    let ranges = intervals(prepared);
    rule.arena
        .ids()
        .filter(|id| live[id.index()] && !matches!(rule.arena.expr(*id), Expr::Const(_)))
        .filter_map(|id| {
            let (lo, hi) = ranges[id.index()]?;
            Some((rule.to_expression_string(id), lo, hi))
        })
        .collect()
}

fn reads(reads: Reads) -> Vec<&'static str> {
    let Reads {
        b,
        h,
        q_idx,
        kv_idx,
        lengths,
        counts,
        score,
    } = reads;
    [
        (b, "b"),
        (h, "h"),
        (q_idx, "q"),
        (kv_idx, "kv"),
        (lengths, "the lengths"),
        (counts, "batch or num_q_heads"),
        (score, "score"),
    ]
    .into_iter()
    .filter(|(is_read, _)| *is_read)
    .map(|(_, name)| name)
    .collect()
}

/// The shortest greatest length at which the rule is refused, found by halving: what a longer bucket proves, a shorter
/// one proves as well.
fn first_refused(bound: &BoundRule, scope: &Scope) -> Option<End> {
    let faults_to = |longest: u64| {
        let grown = |end: &u64| longest.max(*end);
        let bucket = &scope.bucket;
        let scope = Scope {
            bucket: Bucket {
                q_len: *bucket.q_len.start()..=grown(bucket.q_len.end()),
                kv_len: *bucket.kv_len.start()..=grown(bucket.kv_len.end()),
                ..bucket.clone()
            },
            ..scope.clone()
        };
        prepare(bound, &scope).err()
    };
    // Positions themselves end where i32 does, which is no fault of the rule.
    let start = scope.bucket.q_offset.end().max(&0).unsigned_abs();
    let most = (i32::MAX as u64).saturating_sub(start);
    let mut fails_at = most;
    let mut faults = faults_to(most)?;
    let mut holds_to = *scope.bucket.q_len.end().min(scope.bucket.kv_len.end());
    while holds_to + 1 < fails_at {
        let middle = holds_to + (fails_at - holds_to) / 2;
        match faults_to(middle) {
            Some(found) => (fails_at, faults) = (middle, found),
            None => holds_to = middle,
        }
    }
    Some(End {
        length: fails_at,
        faults,
    })
}
