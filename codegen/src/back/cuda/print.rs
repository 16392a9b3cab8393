//! Prints a prepared rule as CUDA functions.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use maskwright_dsl::ir::{ExprId, Rule, RuleKind};
use maskwright_dsl::pipeline::Prepared;

use crate::exactness::decides;
use crate::levels::reached;
use crate::plan::RuleRole;

use super::body::{Goal, Writer};
use super::captures::Captures;
use super::error::CudaError;
use super::expr::Operators;
use super::lines::write_statement;
use super::names::Names;
use super::place::{Facts, place, source};
use super::rule_text::RuleText;
use super::support::c_type;

/// Nodes beyond which a rule is refused: compilers would take minutes for its text.
const MAX_NODES: usize = 50_000;

/// Prints a mask.
///
/// # Errors
/// [`CudaError`] if the rule is no mask, or too large.
pub fn print_mask(prepared: &Prepared) -> Result<RuleText, CudaError> {
    print(prepared, RuleKind::Mask)
}

/// Prints a `score_mod`.
///
/// # Errors
/// [`CudaError`] if the rule is no `score_mod`, or too large.
pub fn print_score(prepared: &Prepared) -> Result<RuleText, CudaError> {
    print(prepared, RuleKind::Score)
}

/// How the parts of a kind are called.
struct Words {
    kind: RuleKind,
    prefix: &'static str,
    role: RuleRole,
    row_type: &'static str,
    col_type: &'static str,
}

const MASK: Words = Words {
    kind: RuleKind::Mask,
    prefix: "mask_",
    role: RuleRole::Mask,
    row_type: "MaskRow",
    col_type: "MaskCol",
};

const SCORE: Words = Words {
    kind: RuleKind::Score,
    prefix: "score_",
    role: RuleRole::Score,
    row_type: "ScoreRow",
    col_type: "ScoreCol",
};

fn print(prepared: &Prepared, kind: RuleKind) -> Result<RuleText, CudaError> {
    let rule: &Rule = prepared.rule();
    let words = match kind {
        RuleKind::Mask => MASK,
        RuleKind::Score => SCORE,
    };
    if rule.kind != words.kind {
        return Err(CudaError::Kind {
            expected: kind_name(words.kind),
            found: kind_name(rule.kind),
            name: rule.name.clone(),
        });
    }
    let needed = reached(&rule.arena, rule.root, |_, _| true);
    let nodes = needed.iter().filter(|needed| **needed).count();
    if MAX_NODES < nodes {
        return Err(CudaError::TooLarge {
            nodes,
            limit: MAX_NODES,
        });
    }
    let facts = Facts::new(rule);
    let decides = decides(rule);
    let placement = place(rule, &facts);
    let mut writer = Writer {
        rule,
        facts: &facts,
        decides: &decides,
        captures: Captures::new(rule, prepared.bindings(), words.role, words.prefix),
        operators: Operators::default(),
    };
    let row_goals: Vec<Goal> = placement
        .row
        .iter()
        .map(|id| Goal::Value(*id))
        .chain(placement.row_offsets.iter().map(|id| Goal::Offset(*id)))
        .collect();
    let col_goals: Vec<Goal> = placement.col.iter().map(|id| Goal::Value(*id)).collect();

    let mut known = BTreeMap::new();
    let mut functions = String::new();
    let p = words.prefix;
    for side in [
        Side {
            name: "row",
            ty: words.row_type,
            of: "query",
            parameter: "q",
            goals: &row_goals,
        },
        Side {
            name: "col",
            ty: words.col_type,
            of: "key",
            parameter: "kv",
            goals: &col_goals,
        },
    ] {
        let text = writer.side(p, &side, &mut known);
        functions.push_str(&text);
    }
    let _ = writeln!(functions, "// {}", comment(prepared.original().rule()));
    let score = match kind {
        RuleKind::Mask => "",
        RuleKind::Score => "float score, ",
    };
    let result = c_type(rule.arena.ty(rule.root));
    let _ = writeln!(
        functions,
        "__device__ __forceinline__ {result} {p}mod(const Params& p, {score}int b, int h, int q, int kv,\n    \
         const {}& row, const {}& col) {{",
        words.row_type, words.col_type,
    );
    let root = Goal::Value(source(rule, rule.root));
    let body = writer.body(&[root], &known, &BTreeMap::new(), &mut Names::default());
    for statement in &body.statements {
        write_statement(&mut functions, 2, statement);
    }
    write_statement(
        &mut functions,
        2,
        &format!("return {};", body.goals[0].text),
    );
    functions.push_str("}\n");
    Ok(RuleText {
        params: writer.captures.into_params(),
        functions,
        has_row: !row_goals.is_empty(),
        has_col: !col_goals.is_empty(),
        support: writer.operators.support,
    })
}

/// The struct of rows or of columns.
struct Side<'a> {
    name: &'static str,
    ty: &'static str,
    of: &'static str,
    parameter: &'static str,
    goals: &'a [Goal],
}

impl Writer<'_> {
    /// The struct and the function that fills it; its fields become known.
    fn side(
        &mut self,
        prefix: &str,
        side: &Side<'_>,
        known: &mut BTreeMap<Goal, String>,
    ) -> String {
        let Side {
            name,
            ty,
            of,
            parameter,
            goals,
        } = side;
        let mut names = Names::default();
        let mut fields = BTreeMap::new();
        let mut text = String::new();
        if goals.is_empty() {
            let _ = writeln!(
                text,
                "// Nothing depends on the {of} alone.\nstruct {ty} {{}};\n"
            );
            let _ = writeln!(
                text,
                "__device__ __forceinline__ {ty} {prefix}{name}(const Params& p, int b, int h, int {parameter}) {{\n  \
                 return {ty}{{}};\n}}\n",
            );
            return text;
        }
        let _ = writeln!(text, "// What depends on the {of} alone.\nstruct {ty} {{");
        for goal in *goals {
            let (c_type, field) = match goal {
                Goal::Value(id) => (self.c_type(*id), self.describe(*id, 2)),
                Goal::Offset(id) => ("long long", self.describe_offset(*id)),
            };
            let field = match field {
                Some(field) => names.take(&field),
                None => names.take_temporary(),
            };
            let _ = writeln!(text, "  {c_type} {field};");
            fields.insert(*goal, format!("{name}.{field}"));
        }
        text.push_str("};\n\n");
        let _ = writeln!(
            text,
            "__device__ __forceinline__ {ty} {prefix}{name}(const Params& p, int b, int h, int {parameter}) {{\n  \
             {ty} {name};",
        );
        let body = self.body(goals, &BTreeMap::new(), &fields, &mut Names::default());
        for statement in &body.statements {
            write_statement(&mut text, 2, statement);
        }
        let _ = writeln!(text, "  return {name};\n}}\n");
        known.extend(fields);
        text
    }

    fn c_type(&self, id: ExprId) -> &'static str {
        c_type(self.rule.arena.ty(id))
    }
}

fn kind_name(kind: RuleKind) -> &'static str {
    match kind {
        RuleKind::Mask => "mask",
        RuleKind::Score => "score_mod",
    }
}

/// The rule as its author wrote it, within one line of a comment.
fn comment(rule: &Rule) -> String {
    let span = rule.arena.span(source(rule, rule.root));
    let quoted = rule.source.as_ref().zip(span).and_then(|(source, span)| {
        let text = source.text.get(span.start as usize..span.end as usize)?;
        Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
    });
    let written = quoted
        .filter(|text| !text.is_empty() && text.len() <= MAX_COMMENT)
        .unwrap_or_else(|| rule.to_expression_string(rule.root));
    let text = format!("{}: {written}", rule.name).replace('…', "...");
    let keep = |c: char| {
        // A backslash at its end would make the next line a comment.
        if c == '\\' || c.is_control() || !c.is_ascii() {
            ' '
        } else {
            c
        }
    };
    let text: String = text.chars().map(keep).collect();
    text.trim_end().to_owned()
}

/// Characters of a rule that are quoted as they stand.
const MAX_COMMENT: usize = 200;
