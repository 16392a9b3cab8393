//! Printed CUDA functions mean what the interpreter says, wherever there is a C++ compiler.

#![allow(
    clippy::disallowed_methods,
    reason = "the compiler takes and leaves files"
)]

mod host;
mod operators;
mod rules;

use host::{Subject, compare};
use maskwright_codegen::back::cuda::{emit_evaluator, print_score};

#[track_caller]
fn check(subjects: &[Subject]) {
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    match compare(subjects, folder.path()) {
        Some(faults) => assert!(faults.is_empty(), "{}", faults.join("\n")),
        None => eprintln!("skipped: no C++ compiler was found"),
    }
}

#[test]
fn the_catalogue_agrees_with_the_interpreter() {
    check(&rules::catalogue());
}

#[test]
fn operators_agree_with_the_interpreter() {
    check(&operators::binary());
    check(&operators::unary());
}

#[test]
fn reads_agree_with_the_interpreter() {
    check(&operators::reads());
}

#[test]
fn text_grows_with_the_rule_and_no_faster() {
    let length = |links| {
        print_score(&operators::chain(links))
            .unwrap()
            .functions
            .len()
    };
    let (short, long) = (length(1000), length(10_000));
    assert!(long < 11 * short, "{short} characters, then {long}");
    let refused = print_score(&operators::chain(20_000)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the rule has 60004 expressions, which is more than the 50000 that are compiled"
    );
}

#[test]
fn a_mask_is_no_score() {
    let mask = &rules::catalogue()[4];
    let refused = print_score(&mask.prepared).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "expected a score_mod, found the mask `causal`"
    );
}

/// What a kernel would hold of a rule.
fn printed(name: &str) -> String {
    let all = rules::catalogue();
    let subject = all.iter().find(|subject| subject.name == name);
    let text = host::print(&subject.expect("the catalogue has it").prepared);
    let params = text.params.iter();
    let params = params.map(|(name, ty, value)| format!("// {name}: {ty:?} = {value:?}\n"));
    let support = maskwright_codegen::back::cuda::support_text(&text.support);
    let calls: Vec<&str> = support
        .lines()
        .filter(|line| line.starts_with("__device__"))
        .collect();
    let calls = if calls.is_empty() {
        String::new()
    } else {
        format!("{}\n", calls.join("\n"))
    };
    format!(
        "{}\n{calls}\n{}",
        params.collect::<String>(),
        text.functions
    )
}

#[test]
fn rules_read_as_a_person_would_write_them() {
    for name in [
        "document_causal",
        "natten_2d",
        "bigbird_random",
        "flashmask_columns",
        "swin_bias",
        "t5_buckets",
        "learned_bias",
        "softcap",
    ] {
        insta::assert_snapshot!(name, printed(name));
    }
}

#[test]
fn an_evaluator_is_one_kernel() {
    let all = rules::catalogue();
    for subject in &all {
        let kernel = emit_evaluator(&subject.prepared).unwrap();
        assert!(!kernel.text.contains("<$") && !kernel.text.contains("<%"));
    }
    for name in ["document_causal", "softcap"] {
        let subject = all.iter().find(|subject| subject.name == name).unwrap();
        let kernel = emit_evaluator(&subject.prepared).unwrap();
        insta::assert_snapshot!(format!("evaluate_{name}"), kernel.text);
    }
}
