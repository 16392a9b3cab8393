//! Tests of the text front end: text in, values or drawn faults out.

mod diagnostics;
mod meaning;
mod published;
mod robustness;
mod round_trip;

use std::collections::BTreeMap;
use std::sync::Arc;

use half::f16;

use super::{EmptyLibrary, Library, LowerOptions, Module, lower, lower_expression, parse};
use crate::capture::{Bindings, BufferData, CaptureValue, CapturedBuffer};
use crate::diagnostic::Diagnostics;
use crate::eval::{Point, ScalarEvaluator, Sizes};
use crate::ir::{Const, Rule, RuleKind, Source};

fn source(text: &str) -> Arc<Source> {
    Arc::new(Source {
        name: "rule.mask".to_owned(),
        text: text.to_owned(),
    })
}

#[track_caller]
fn module(text: &str) -> Module {
    match parse(source(text)) {
        Ok(module) => module,
        Err(faults) => panic!("{}", faults.render(false)),
    }
}

#[track_caller]
fn unwrap_rule(result: Result<Rule, Diagnostics>) -> Rule {
    match result {
        Ok(rule) => rule,
        Err(faults) => panic!("{}", faults.render(false)),
    }
}

#[track_caller]
fn rule_with(text: &str, consts: &[(&str, i64)]) -> Rule {
    let options = LowerOptions {
        consts: consts
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value))
            .collect::<BTreeMap<_, _>>(),
        ..LowerOptions::default()
    };
    let module = module(text);
    let last = module.items.last().expect("the text has a rule");
    unwrap_rule(lower(
        &module,
        Some(&last.name.text),
        &options,
        &EmptyLibrary,
    ))
}

/// The last rule of a text.
#[track_caller]
fn rule(text: &str) -> Rule {
    rule_with(text, &[])
}

/// A buffer of `i32` with one axis.
fn ints(values: &[i32]) -> CaptureValue {
    buffer(BufferData::I32(values.into()), &[values.len()])
}

fn buffer(data: BufferData, shape: &[usize]) -> CaptureValue {
    CaptureValue::Buffer(CapturedBuffer::new(data, shape.to_vec()).expect("the data has the shape"))
}

fn halves(values: &[f32]) -> CaptureValue {
    let data: Vec<f16> = values.iter().copied().map(f16::from_f32).collect();
    buffer(BufferData::F16(data.into()), &[values.len()])
}

fn scalar(value: i32) -> CaptureValue {
    CaptureValue::Scalar(Const::I32(value))
}

const SIZES: Sizes = Sizes {
    batch: 2,
    num_q_heads: 4,
    q_len: 8,
    kv_len: 8,
};

fn at(q_idx: i32, kv_idx: i32) -> Point {
    Point {
        b: 0,
        h: 1,
        q_idx,
        kv_idx,
        score: 0.5,
    }
}

fn bindings(values: &[CaptureValue], dims: &[i32]) -> Bindings {
    Bindings {
        values: values.to_vec(),
        dims: dims.to_vec(),
    }
}

/// The result of a rule at one cell, printed; an operation that breaks a promise prints its fault.
fn value(rule: &Rule, bindings: &Bindings, point: &Point) -> String {
    match ScalarEvaluator::new(rule, bindings, SIZES).eval(point) {
        Ok(value) => value.to_string(),
        Err(error) => error.to_string(),
    }
}

/// Checks an expression without captures at `h = 1`, `score = 0.5` and some cell.
#[track_caller]
fn check_score(text: &str, (q, kv): (i32, i32), expected: &str) {
    let options = LowerOptions::default();
    let rule = unwrap_rule(lower_expression(
        text,
        RuleKind::Score,
        &options,
        &EmptyLibrary,
    ));
    let found = value(&rule, &Bindings::default(), &at(q, kv));
    assert_eq!(found, expected, "{text} at ({q}, {kv})");
}

/// Draws a mask over 8 by 8 cells, `#` where it attends.
#[track_caller]
fn draw(rule: &Rule, bindings: &Bindings) -> String {
    let mut lines = String::new();
    for q in 0..8 {
        for kv in 0..8 {
            let cell = value(rule, bindings, &at(q, kv));
            lines.push(match cell.as_str() {
                "true" => '#',
                "false" => '.',
                _ => panic!("at ({q}, {kv}): {cell}"),
            });
        }
        lines.push('\n');
    }
    lines
}

/// Checks that two texts mean the same mask, cell by cell.
#[track_caller]
fn check_same(text: &str, other: &str) {
    let bindings = Bindings::default();
    assert_eq!(
        draw(&rule(text), &bindings),
        draw(&rule(other), &bindings),
        "{text}\n{other}"
    );
}

/// A library of one text.
struct TextLibrary(Arc<Module>);

impl Library for TextLibrary {
    fn find(&self, name: &str) -> Option<(Arc<Module>, usize)> {
        let at = self.0.items.iter().position(|i| i.name.text == name)?;
        Some((Arc::clone(&self.0), at))
    }
}
