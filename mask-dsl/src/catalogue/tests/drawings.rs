//! The drawings in the documentation of masks, cell by cell, with the values that their captions give.

use super::*;
use crate::capture::{BufferData, CapturedBuffer};
use crate::eval::{Point, ScalarEvaluator};
use crate::ir::{CaptureKind, Const, Elem, Ty};

/// The caption and the lines of a drawing, if the rule has one.
fn drawing(rule: &Rule) -> Option<(&str, Vec<&str>)> {
    let (before, rest) = rule.doc.split_once("```text\n")?;
    let (drawing, _) = rest.split_once("\n```")?;
    let caption = before.trim_end().rsplit("\n\n").next()?;
    let caption = caption.strip_prefix("With ").unwrap_or("");
    Some((caption, drawing.lines().collect()))
}

/// What stands between backticks as `name = value`.
fn settings(caption: &str) -> Vec<(&str, &str)> {
    let quoted = caption.split('`').skip(1).step_by(2);
    quoted
        .map(|text| text.split_once(" = ").expect("a caption gives values"))
        .collect()
}

/// Numbers in nested brackets, with their shape.
fn nested(text: &str) -> (Vec<usize>, Vec<i32>) {
    let text = text.trim();
    let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) else {
        return (
            Vec::new(),
            vec![text.parse().expect("a caption has numbers")],
        );
    };
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (i, c) in inner.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inner[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&inner[start..]);
    let parts: Vec<_> = parts.into_iter().map(nested).collect();
    let mut shape = vec![parts.len()];
    shape.extend(&parts[0].0);
    assert!(parts.iter().all(|part| part.0 == shape[1..]), "{text}");
    (shape, parts.into_iter().flat_map(|part| part.1).collect())
}

/// The values of the captures by slot.
fn values(rule: &Rule, settings: &[(&str, &str)]) -> Vec<CaptureValue> {
    let value = |name: &str, kind: &CaptureKind| {
        let setting = settings.iter().find(|(set, _)| *set == name);
        let (_, text) = setting.unwrap_or_else(|| panic!("{} draws no {name}", rule.name));
        let (shape, values) = nested(text);
        let data = match kind {
            CaptureKind::Scalar(Ty::I32) => return CaptureValue::Scalar(Const::I32(values[0])),
            CaptureKind::Buffer {
                elem: Elem::I32, ..
            } => BufferData::I32(values.into()),
            CaptureKind::Buffer {
                elem: Elem::Bool, ..
            } => BufferData::Bool(values.iter().map(|v| *v == 1).collect()),
            kind => panic!("no caption gives {kind:?}"),
        };
        CaptureValue::Buffer(CapturedBuffer::new(data, shape).unwrap())
    };
    let captures = rule.captures.iter();
    captures.map(|decl| value(&decl.name, &decl.kind)).collect()
}

#[test]
fn every_mask_draws_what_it_does() {
    for entry in entries().iter().filter(|e| e.kind == RuleKind::Mask) {
        let rule = rule(entry);
        let Some((caption, lines)) = drawing(&rule) else {
            panic!("{} has no drawing", entry.name);
        };
        let settings = settings(caption);
        let index = |name: &str| {
            let setting = settings.iter().find(|(set, _)| *set == name);
            setting.map_or(0, |(_, text)| text.parse().expect("an index"))
        };
        let (b, h): (i32, i32) = (index("b"), index("h"));
        let known = |name: &str| rule.capture_named(name).is_some() || ["b", "h"].contains(&name);
        assert!(settings.iter().all(|(name, _)| known(name)), "{caption}");

        let bucket = Bucket::single(lines.len() as u64, lines[0].len() as u64, 0);
        let (batch, heads) = (1 + b as u32, 1 + h as u32);
        let scope = Scope::new(bucket, batch, heads);
        let prepared = prepared(entry, values(&rule, &settings), &scope);
        let sizes = greatest(&scope.bucket, batch, heads);
        let mut evaluator = ScalarEvaluator::new(&rule, prepared.bindings(), sizes);
        for (q, line) in lines.iter().enumerate() {
            assert_eq!(line.len(), lines[0].len(), "{}", entry.name);
            for (kv, cell) in line.chars().enumerate() {
                assert!(cell == '#' || cell == '.');
                let point = Point {
                    b,
                    h,
                    q_idx: q as i32,
                    kv_idx: kv as i32,
                    score: 0.0,
                };
                let expected = Ok(Const::Bool(cell == '#'));
                let found = evaluator.eval(&point);
                assert_eq!(found, expected, "{} at ({q}, {kv})", entry.name);
            }
        }
    }
}
