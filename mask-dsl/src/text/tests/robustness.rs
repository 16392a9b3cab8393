//! No text makes the front end panic, overflow the stack, or point between characters.

use std::fmt::Write;

use proptest::prelude::*;

use super::*;
use crate::text::{check_rust_fn, print};

const WORDS: [&str; 72] = [
    "mask", "score", "fn", "let", "mut", "if", "else", "match", "for", "in", "return", "any",
    "all", "sum", "as", "i32", "f32", "bool", "u32", "i64", "usize", "true", "false", "inf", "q",
    "kv", "h", "x", "doc", "m", "0", "1", "2.5", "7u32", "(", ")", "[", "]", "{", "}", ",", ";",
    ":", "::", ".", "..", "..=", "->", "=>", "=", "==", "<", "<=", ">", "+", "-", "*", "/", "%",
    "&&", "||", "!", "&", "|", "^", "<<", ">>", "+=", "// c\n", "/// d\n", "é≤", "#[",
];

/// Runs everything that reads text, and looks at each fault.
fn read(text: &str) {
    let look = |faults: &Diagnostics| {
        assert!(!faults.items.is_empty(), "{text}");
        for label in faults.items.iter().flat_map(|item| &item.labels) {
            let range = label.span.start as usize..label.span.end as usize;
            assert!(text.get(range.clone()).is_some(), "{range:?} of {text}");
        }
        faults.render(false);
    };
    match parse(source(text)) {
        Err(faults) => look(&faults),
        Ok(module) => {
            print(&module);
            for item in &module.items {
                let result = lower(
                    &module,
                    Some(&item.name.text),
                    &LowerOptions::default(),
                    &EmptyLibrary,
                );
                if let Err(faults) = result {
                    look(&faults);
                }
            }
        }
    }
    let options = LowerOptions::default();
    if let Err(faults) = lower_expression(text, RuleKind::Score, &options, &EmptyLibrary) {
        look(&faults);
    }
    let items = check_rust_fn(source(text), RuleKind::Mask);
    if !items.is_empty() {
        look(&Diagnostics {
            source: Some(source(text)),
            items,
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1500) })]

    #[test]
    fn token_soup(words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..40)) {
        read(&words.join(" "));
    }

    #[test]
    fn soup_within_a_rule(words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..24)) {
        let soup = words.join(" ");
        read(&format!("mask m(x: i32, doc: [i32; kv_len]) {{ {soup} }} mask n() = true"));
        read(&format!("fn m(q: i32, kv: i32, x: i32, doc: &[i32]) -> bool {{ {soup} }}"));
    }

    #[test]
    fn any_characters(text in "\\PC{0,60}") {
        read(&text);
    }
}

/// Debug builds use the most stack, and threads have the least.
fn with_small_stack(run: fn()) {
    std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(run)
        .expect("a thread starts")
        .join()
        .expect("no overflow and no panic");
}

#[track_caller]
fn check_code(text: &str, code: &str) {
    let faults = match parse(source(text)) {
        Err(faults) => faults,
        Ok(module) => lower(&module, None, &LowerOptions::default(), &EmptyLibrary)
            .expect_err("the text has a fault"),
    };
    let codes: Vec<_> = faults.items.iter().map(|item| item.code).collect();
    assert_eq!(codes, [code], "{text:.100}");
}

#[test]
fn deep_texts_are_refused() {
    with_small_stack(|| {
        let n = 100_000;
        for (open, close) in [
            ("(", ")"),
            ("-", ""),
            ("!", ""),
            ("abs(", ")"),
            ("{", "}"),
            ("x[", "]"),
        ] {
            let text = format!("mask m() = {}q{}", open.repeat(n), close.repeat(n));
            check_code(&text, "too-deep");
        }
        for part in [" + q", ".abs()", " as i32", " - (1)", " && q"] {
            check_code(&format!("mask m() = q{}", part.repeat(n)), "too-deep");
        }
        let arms = "if q == 1 { 1 } else ".repeat(n);
        check_code(&format!("mask m() = {arms} {{ 2 }}"), "too-deep");
    });
}

#[test]
fn rules_as_deep_as_allowed_are_read() {
    with_small_stack(|| {
        for (open, close, n) in [
            ("(", ")", 190),
            ("-", "", 190),
            ("abs(", ")", 190),
            ("if q < 3 { ", " } else { 2 }", 60),
        ] {
            let text = format!("mask m() = 0 < {}q{}", open.repeat(n), close.repeat(n));
            let module = module(&text);
            unwrap_rule(lower(
                &module,
                None,
                &LowerOptions::default(),
                &EmptyLibrary,
            ));
            print(&module);
        }
        let text = format!("mask m() = q{} < 3", " + q".repeat(900));
        read(&text);
        unwrap_rule(lower(
            &module(&text),
            None,
            &LowerOptions::default(),
            &EmptyLibrary,
        ));
    });
}

#[test]
fn large_rules_are_refused() {
    with_small_stack(|| {
        check_code(
            "mask m() = any(i in 0..1000, any(j in 0..1000, kv == i * j))",
            "too-large",
        );
        check_code(
            "mask m() { let mut x = 0; for i in 0..60000 { x += q; } x < 3 }",
            "too-large",
        );
        // Each return that may not be taken copies what follows.
        let ifs = "if q < 3 { if kv < 3 { return true; } }".repeat(60);
        check_code(&format!("mask m() {{ {ifs} false }}"), "too-large");
        let mut text = "fn f0(x: i32) -> i32 = x + 1\n".to_owned();
        for i in 1..40 {
            let before = i - 1;
            let _ = writeln!(
                text,
                "fn f{i}(x: i32) -> i32 = f{before}(x) + f{before}(x + {i})"
            );
        }
        check_code(&format!("{text} mask m() = f39(q) < 3"), "too-large");
        let mut text = "fn f0(x: i32) -> i32 = x + 1\n".to_owned();
        for i in 1..400 {
            let before = i - 1;
            let _ = writeln!(text, "fn f{i}(x: i32) -> i32 = f{before}(x)");
        }
        check_code(&format!("{text} mask m() = f399(q) < 3"), "too-large");
    });
}
