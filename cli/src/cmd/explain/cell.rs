//! The value of every part of a rule at one cell.

use maskwright::BoundRule;
use maskwright_dsl::eval::{Point, ScalarEvaluator, Sizes};
use maskwright_dsl::ir::{Const, Expr, RuleKind};
use maskwright_dsl::pipeline::{Scope, prepare};
use serde_json::json;

use crate::args::ExplainArgs;
use crate::engine::longest;
use crate::error::CliError;
use crate::{Outcome, output};

pub(super) fn explain(
    args: &ExplainArgs,
    bound: &BoundRule,
    scope: &Scope,
    (q, kv): (i64, i64),
) -> Result<Outcome, CliError> {
    prepare(bound, scope)?;
    let sizes = longest(scope);
    let point = point_of(args, scope, sizes, (q, kv))?;
    let rule = bound.rule();
    let mut evaluator = ScalarEvaluator::new(rule, bound.bindings(), sizes);
    let live = rule.live();
    let mut parts = Vec::new();
    for id in rule.arena.ids().filter(|id| live[id.index()]) {
        if matches!(rule.arena.expr(id), Expr::Const(_)) {
            continue;
        }
        // Where a guard keeps a part from being evaluated, it may have no value.
        let value = match evaluator.eval_expr(id, &point) {
            Ok(value) => value_text(value),
            Err(_) => "not evaluated".to_owned(),
        };
        parts.push((rule.to_expression_string(id), value));
    }
    let result = evaluator.eval(&point)?;
    if args.json {
        let parts: Vec<_> = parts
            .iter()
            .map(|(text, value)| json!({ "expression": text, "value": value }))
            .collect();
        output::print_json(&json!({
            "rule": args.rule,
            "b": args.b,
            "h": args.h,
            "q": q,
            "kv": kv,
            "value": value_text(result),
            "expressions": parts,
        }))?;
        return Ok(Outcome::Done);
    }
    let mut text = format!("b={} h={} q={q} kv={kv}\n", args.b, args.h);
    let rows: Vec<Vec<String>> = parts
        .into_iter()
        .map(|(expr, value)| vec![format!("  {expr}"), value])
        .collect();
    text.push_str(&output::table(&rows));
    text.push_str(match (rule.kind, result) {
        (RuleKind::Mask, Const::Bool(true)) => "query attends to key\n",
        (RuleKind::Mask, _) => "query does not attend to key\n",
        (RuleKind::Score, Const::F32(f32::NEG_INFINITY)) => {
            "from score 0 comes -inf: query does not attend to key\n"
        }
        (RuleKind::Score, _) => "the score was taken to be 0\n",
    });
    output::print(&text)?;
    Ok(Outcome::Done)
}

/// A cell within the lengths, with score 0.
fn point_of(
    args: &ExplainArgs,
    scope: &Scope,
    sizes: Sizes,
    (q, kv): (i64, i64),
) -> Result<Point, CliError> {
    let offsets = &scope.bucket.q_offset;
    let queries = (*offsets.start(), offsets.end() + i64::from(sizes.q_len));
    let keys = (0, i64::from(sizes.kv_len));
    for (what, found, (start, end)) in [("q", q, queries), ("kv", kv, keys)] {
        if !(start..end).contains(&found) {
            return Err(CliError::OutsidePositions {
                what,
                found,
                start,
                end,
            });
        }
    }
    Ok(Point {
        b: args.b as i32,
        h: args.h as i32,
        q_idx: q as i32,
        kv_idx: kv as i32,
        score: 0.0,
    })
}

/// A value as the language writes it, without its type.
pub(super) fn value_text(value: Const) -> String {
    match value {
        Const::Bool(v) => v.to_string(),
        Const::I32(v) => v.to_string(),
        Const::I64(v) => v.to_string(),
        Const::U32(v) => v.to_string(),
        Const::F32(v) => v.to_string(),
    }
}
