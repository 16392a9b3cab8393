//! Every entry has a name, a paper and a meaning; every drawing shows what its rule does.

use super::*;
use crate::capture::{Bindings, CaptureValue};
use crate::eval::{Point, ScalarEvaluator, Sizes};
use crate::ir::{Const, Rule, RuleKind};
use crate::text::{LowerOptions, lower, print};

fn rule(entry: &CatalogueEntry) -> Rule {
    let module = match parse(entry.source()) {
        Ok(module) => module,
        Err(faults) => panic!("{}", faults.render(false)),
    };
    match lower(
        &module,
        Some(entry.name),
        &LowerOptions::default(),
        &Catalogue,
    ) {
        Ok(rule) => rule,
        Err(faults) => panic!("{}", faults.render(false)),
    }
}

#[test]
fn entries_are_complete_and_in_order() {
    assert!(entries().is_sorted_by(|a, b| a.name < b.name));
    for entry in entries() {
        let rule = rule(entry);
        assert_eq!(rule.name, entry.name);
        assert!(
            rule.doc.contains(entry.paper),
            "{} names its paper",
            entry.name
        );
        let module = parse(entry.source()).expect("it was parsed above");
        let printed = Source {
            name: entry.name.to_owned(),
            text: print(&module),
        };
        assert_eq!(parse(Arc::new(printed)), Ok(module), "{}", entry.name);
        assert_eq!(find(entry.name), Some(entry));
        assert!(Catalogue.find(entry.name).is_some());
    }
}

/// The drawing in the documentation of a rule, if it has one.
fn drawing(rule: &Rule) -> Option<Vec<&str>> {
    let (_, rest) = rule.doc.split_once("```text\n")?;
    let (drawing, _) = rest.split_once("\n```")?;
    Some(drawing.lines().collect())
}

#[test]
fn drawings_show_what_rules_do() {
    let values: [(&str, &[i32]); 1] = [("sliding_window", &[3])];
    let mut drawn = 0;
    for entry in entries() {
        let rule = rule(entry);
        let Some(lines) = drawing(&rule) else {
            continue;
        };
        assert_eq!(rule.kind, RuleKind::Mask);
        drawn += 1;
        let captures = values.iter().find(|(name, _)| *name == entry.name);
        let bindings = Bindings {
            values: captures
                .map_or(&[][..], |(_, values)| *values)
                .iter()
                .map(|value| CaptureValue::Scalar(Const::I32(*value)))
                .collect(),
            dims: Vec::new(),
        };
        let sizes = Sizes {
            batch: 1,
            num_q_heads: 1,
            q_len: lines.len() as i32,
            kv_len: lines[0].len() as i32,
        };
        let mut evaluator = ScalarEvaluator::new(&rule, &bindings, sizes);
        for (q, line) in lines.iter().enumerate() {
            for (kv, cell) in line.chars().enumerate() {
                let point = Point {
                    b: 0,
                    h: 0,
                    q_idx: q as i32,
                    kv_idx: kv as i32,
                    score: 0.0,
                };
                let expected = Ok(Const::Bool(cell == '#'));
                assert_eq!(
                    evaluator.eval(&point),
                    expected,
                    "{} at ({q}, {kv})",
                    entry.name
                );
            }
        }
    }
    assert!(3 <= drawn);
}
