//! Why a block is full, partial or empty: the parts of the rule that decide it, with their ranges over its cells.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use maskwright::BoundRule;
use maskwright_dsl::block_mask::{BlockClass, BlockMask, MaskEvaluator};
use maskwright_dsl::eval::{Point, ScalarEvaluator};
use maskwright_dsl::ir::{BinaryOp, Const, Expr, ExprId, Rule, Ty, UnaryOp};
use maskwright_dsl::pipeline::Scope;
use serde_json::json;

use super::cell::value_text;
use crate::args::ExplainArgs;
use crate::engine::{MaskEngine, longest, mask_of};
use crate::error::CliError;
use crate::{Outcome, bucket, output};

/// Cells of a block that are looked at, at most; a larger one is thinned out evenly.
const MOST_CELLS: u64 = 1 << 15;

pub(super) fn explain(
    args: &ExplainArgs,
    bound: &BoundRule,
    scope: &Scope,
    at: (i64, i64),
) -> Result<Outcome, CliError> {
    let prepared = mask_of(bound, scope)?;
    let engine = MaskEngine::new(&prepared, args.flags.backend)?;
    let block = bucket::one_block(&args.flags)?;
    // The grid first, to know where the block lies; then once more, to see what is asked about it.
    let (mask, _) = BlockMask::build_with(&prepared, block, &engine)?;
    let row = inside("block row", at.0, mask.rows())?;
    let col = inside("block column", at.1, mask.cols())?;
    let geometry = mask.geometry();
    let q_offset = geometry.q_offset();
    let rows = geometry.row_span(row);
    let queries = q_offset + rows.start as i64..q_offset + rows.end as i64;
    let cols = geometry.col_span(col);
    let keys = cols.start as i64..cols.end as i64;
    let watch = Watch {
        inner: &engine,
        queries: queries.clone(),
        keys: keys.clone(),
        cells: AtomicU64::new(0),
    };
    BlockMask::build_with(&prepared, block, &watch)?;
    let looked_at = watch.cells.load(Ordering::Relaxed);

    let class = mask.class(args.b, args.h, row, col);
    let original = prepared.original();
    let seen = look(args, original, scope, (&queries, &keys));
    let rule = original.rule();
    let mut deciders = Vec::new();
    decide(rule, &seen.parts, rule.root, &mut deciders);
    let why: Vec<String> = deciders
        .iter()
        .map(|&id| describe(rule, &seen.parts, id))
        .collect();
    let proof = if looked_at == 0 {
        "proved for all of its cells at once, by ranges".to_owned()
    } else {
        format!("found by computing {looked_at} of its cells")
    };
    let overhangs = geometry.overhangs(row, col);
    if args.json {
        output::print_json(&json!({
            "rule": args.rule,
            "b": args.b,
            "h": args.h,
            "row": row,
            "col": col,
            "class": class.name(),
            "reported_class": mask.reported_class(args.b, args.h, row, col).name(),
            "queries": [queries.start, queries.end],
            "keys": [keys.start, keys.end],
            "cells_computed": looked_at,
            "because": why,
            "attended": seen.witness(true),
            "masked": seen.witness(false),
        }))?;
        return Ok(Outcome::Done);
    }
    let mut text = format!(
        "block {row},{col} of {}: queries {}..{}, keys {}..{}, b={} h={}\n",
        mask.block(),
        queries.start,
        queries.end,
        keys.start,
        keys.end,
        args.b,
        args.h
    );
    let _ = writeln!(text, "{}: {proof}", class.name());
    if overhangs && class == BlockClass::Full {
        text.push_str("it reaches beyond the lengths, so reports count it as partial\n");
    }
    if !mask.is_exact() {
        text.push_str("the class holds for every call of the bucket; the cells below are those of the longest\n");
    }
    text.push_str("\nbecause\n");
    for line in why {
        let _ = writeln!(text, "  {line}");
    }
    if class == BlockClass::Partial {
        for (attends, name) in [(true, "attended"), (false, "masked")] {
            if let Some((q, kv)) = seen.witness(attends) {
                let _ = writeln!(text, "first {name} cell: q={q} kv={kv}");
            }
        }
    }
    text.push_str("\nparts of the rule over this block\n");
    let live = rule.live();
    let parts: Vec<Vec<String>> = rule
        .arena
        .ids()
        .filter(|id| live[id.index()] && !matches!(rule.arena.expr(*id), Expr::Const(_)))
        .map(|id| {
            vec![
                format!("  {}", rule.to_expression_string(id)),
                seen.parts[id.index()].to_string(),
            ]
        })
        .collect();
    text.push_str(&output::table(&parts));
    if seen.thinned {
        text.push_str("the block is large: every part was looked at in a grid of its cells\n");
    }
    output::print(&text)?;
    Ok(Outcome::Done)
}

fn inside(what: &'static str, found: i64, end: u32) -> Result<u32, CliError> {
    u32::try_from(found)
        .ok()
        .filter(|index| *index < end)
        .ok_or(CliError::Outside {
            what,
            found,
            end: u64::from(end),
        })
}

/// Counts the cells of one block that are asked for.
struct Watch<'a> {
    inner: &'a MaskEngine,
    queries: Range<i64>,
    keys: Range<i64>,
    cells: AtomicU64,
}

impl MaskEvaluator for Watch<'_> {
    fn tile(
        &self,
        b: u32,
        h: u32,
        q0: i64,
        n_q: usize,
        kv0: i64,
        n_kv: usize,
        bits: &mut [u64],
        words_per_row: usize,
    ) {
        let common = |range: &Range<i64>, at: i64, n: usize| {
            (range.end.min(at + n as i64) - range.start.max(at)).max(0) as u64
        };
        let cells = common(&self.queries, q0, n_q) * common(&self.keys, kv0, n_kv);
        self.cells.fetch_add(cells, Ordering::Relaxed);
        self.inner
            .tile(b, h, q0, n_q, kv0, n_kv, bits, words_per_row);
    }
}

/// The values that one part of the rule has over the block.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    cells: u64,
    trues: u64,
    range: Option<(Const, Const)>,
    is_bool: bool,
}

impl Part {
    fn note(&mut self, value: Const) {
        self.cells += 1;
        self.trues += u64::from(value == Const::Bool(true));
        self.is_bool = value.ty() == Ty::Bool;
        let (lo, hi) = self.range.unwrap_or((value, value));
        let less = |a: Const, b: Const| match (a, b) {
            (Const::F32(a), Const::F32(b)) => a < b,
            _ => a.as_int() < b.as_int(),
        };
        self.range = Some((
            if less(value, lo) { value } else { lo },
            if less(hi, value) { value } else { hi },
        ));
    }

    fn always(&self, answer: bool) -> bool {
        self.is_bool && self.cells != 0 && self.trues == if answer { self.cells } else { 0 }
    }
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.range {
            None => f.write_str("not evaluated"),
            Some(_) if self.always(true) => f.write_str("always true"),
            Some(_) if self.always(false) => f.write_str("always false"),
            Some(_) if self.is_bool => write!(f, "true in {} of {} cells", self.trues, self.cells),
            Some((lo, hi)) => write!(f, "{}..={}", value_text(lo), value_text(hi)),
        }
    }
}

/// What the cells of a block show.
struct Seen {
    parts: Vec<Part>,
    attended: Option<(i64, i64)>,
    masked: Option<(i64, i64)>,
    thinned: bool,
}

impl Seen {
    fn witness(&self, attends: bool) -> Option<(i64, i64)> {
        if attends { self.attended } else { self.masked }
    }
}

fn look(
    args: &ExplainArgs,
    bound: &BoundRule,
    scope: &Scope,
    (queries, keys): (&Range<i64>, &Range<i64>),
) -> Seen {
    let rule = bound.rule();
    let mut evaluator = ScalarEvaluator::new(rule, bound.bindings(), longest(scope));
    let live = rule.live();
    let ids: Vec<ExprId> = rule.arena.ids().filter(|id| live[id.index()]).collect();
    let mut seen = Seen {
        parts: vec![Part::default(); rule.arena.len()],
        attended: None,
        masked: None,
        thinned: false,
    };
    let cells = (queries.end - queries.start) as u64 * (keys.end - keys.start) as u64;
    let step = (cells.div_ceil(MOST_CELLS).max(1) as f64).sqrt().ceil() as usize;
    seen.thinned = 1 < step;
    // The ends of each axis are where ranges end.
    let places = |range: &Range<i64>| -> Vec<i64> {
        let mut places: Vec<i64> = range.clone().step_by(step).collect();
        if places.last() != Some(&(range.end - 1)) && !range.is_empty() {
            places.push(range.end - 1);
        }
        places
    };
    for &q in &places(queries) {
        for &kv in &places(keys) {
            let point = Point {
                b: args.b as i32,
                h: args.h as i32,
                q_idx: q as i32,
                kv_idx: kv as i32,
                score: 0.0,
            };
            for &id in &ids {
                // A part that a guard excludes may have no value.
                let Ok(value) = evaluator.eval_expr(id, &point) else {
                    continue;
                };
                seen.parts[id.index()].note(value);
                if id == rule.root {
                    let witness = if value == Const::Bool(true) {
                        &mut seen.attended
                    } else {
                        &mut seen.masked
                    };
                    witness.get_or_insert((q, kv));
                }
            }
        }
    }
    seen
}

/// The smallest parts that decide a condition: those that are always true or false where it is, and those that vary
/// where it varies.
fn decide(rule: &Rule, parts: &[Part], id: ExprId, out: &mut Vec<ExprId>) {
    let children: Vec<ExprId> = match *rule.arena.expr(id) {
        Expr::Binary {
            op: BinaryOp::And | BinaryOp::Or | BinaryOp::BitAnd | BinaryOp::BitOr,
            lhs,
            rhs,
        } if rule.arena.ty(id) == Ty::Bool => vec![lhs, rhs],
        Expr::Unary {
            op: UnaryOp::Not,
            arg,
        } if rule.arena.ty(id) == Ty::Bool => vec![arg],
        Expr::Const(_)
        | Expr::Var(_)
        | Expr::Scalar(_)
        | Expr::Dim(_)
        | Expr::Load { .. }
        | Expr::Unary { .. }
        | Expr::Binary { .. }
        | Expr::Clamp { .. }
        | Expr::Cast { .. }
        | Expr::Select { .. }
        | Expr::Then { .. } => Vec::new(),
    };
    let part = &parts[id.index()];
    let is_not = matches!(rule.arena.expr(id), Expr::Unary { .. });
    let deciding: Vec<ExprId> = children
        .iter()
        .copied()
        .filter(|child| {
            let child = &parts[child.index()];
            let varies = !child.always(true) && !child.always(false);
            if part.always(true) {
                child.always(!is_not)
            } else if part.always(false) {
                child.always(is_not)
            } else {
                varies
            }
        })
        .collect();
    if deciding.is_empty() {
        if !out.contains(&id) {
            out.push(id);
        }
        return;
    }
    for child in deciding {
        decide(rule, parts, child, out);
    }
}

/// A deciding part with the ranges of what it compares.
fn describe(rule: &Rule, parts: &[Part], id: ExprId) -> String {
    let mut text = format!("{} is {}", rule.to_expression_string(id), parts[id.index()]);
    let Expr::Binary { lhs, rhs, .. } = *rule.arena.expr(id) else {
        return text;
    };
    let sides: Vec<String> = [lhs, rhs]
        .into_iter()
        .filter(|side| !matches!(rule.arena.expr(*side), Expr::Const(_)))
        .filter(|side| rule.arena.ty(*side) != Ty::Bool)
        .map(|side| {
            format!(
                "{} is {}",
                rule.to_expression_string(side),
                parts[side.index()]
            )
        })
        .collect();
    if !sides.is_empty() {
        let _ = write!(text, ": {}", sides.join(", "));
    }
    text
}
