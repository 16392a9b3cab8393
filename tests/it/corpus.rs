//! Every case of the corpus, on every engine.

use std::collections::{BTreeMap, BTreeSet};

use maskwright_tests::case::{Case, Kind, RuleFile, corpus};
use maskwright_tests::engine::{
    AttentionEngine, BlockMasks, Compiled, CudaRule, EmulatedKernel, Engine, NoOutcome, Rows,
    ScalarInterpreter, SimplifiedRows, check,
};
use maskwright_tests::program::{Form, Program};
use rayon::prelude::*;

/// What came of the cases of one rule.
#[derive(Default)]
struct Results {
    passed: usize,
    faults: Vec<String>,
    skipped: Vec<(&'static str, String)>,
}

/// Runs every case in both forms, and reports everything that went wrong at once. The engine must skip exactly the
/// cases of which `skips` holds.
#[track_caller]
fn run(engine: &dyn Engine, skips: fn(&RuleFile, &Case) -> bool) {
    let results: Vec<Results> = corpus()
        .par_iter()
        .map(|file| run_file(engine, file, skips))
        .collect();
    let faults: Vec<&str> = results
        .iter()
        .flat_map(|results| &results.faults)
        .map(String::as_str)
        .collect();
    let mut skipped: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (reason, program) in results.iter().flat_map(|results| &results.skipped) {
        skipped.entry(reason).or_default().push(program);
    }
    let passed: usize = results.iter().map(|results| results.passed).sum();
    let skips: Vec<String> = skipped
        .iter()
        .map(|(reason, programs)| {
            let n = programs.len();
            format!("\n  skipped {n} ({reason}): {}", programs.join(", "))
        })
        .collect();
    let skips = skips.concat();
    let failed = faults.len();
    let report = format!("{}: {passed} passed, {failed} failed{skips}", engine.name());
    assert!(faults.is_empty(), "{report}:\n{}", faults.join("\n"));
    eprintln!("{report}");
    assert!(0 < passed, "{report}");
}

fn run_file(
    engine: &dyn Engine,
    file: &'static RuleFile,
    skips: fn(&RuleFile, &Case) -> bool,
) -> Results {
    let mut results = Results::default();
    for case in &file.cases {
        for form in [Form::RunTime, Form::Const] {
            let program = match Program::new(file, case, form) {
                Ok(Some(program)) => program,
                Ok(None) => continue,
                Err(error) => {
                    let fault = format!("{}/{} ({form:?}): {error}", file.id, case.id);
                    results.faults.push(fault);
                    continue;
                }
            };
            let outcome = engine.run(&program);
            let is_skipped = matches!(outcome, Err(NoOutcome::Skip(_)));
            if is_skipped != skips(file, case) {
                let expected = if is_skipped { "no" } else { "a" };
                results
                    .faults
                    .push(format!("{program}: expected {expected} skip"));
            }
            match outcome {
                Ok(outcome) => match check(&program, &outcome) {
                    Ok(()) => results.passed += 1,
                    Err(error) => results.faults.push(format!("{program}: {error}")),
                },
                Err(NoOutcome::Skip(reason)) => {
                    results.skipped.push((reason, program.to_string()));
                }
                Err(NoOutcome::Fault(error)) => results.faults.push(format!("{program}: {error}")),
            }
        }
    }
    results
}

#[test]
fn the_corpus_is_complete() {
    let ids: BTreeSet<&str> = corpus().iter().map(|file| file.id.as_str()).collect();
    assert_eq!(ids.len(), corpus().len(), "ids are unique");
    let seen = || corpus().iter().filter(|file| file.is_seen());
    let count = |kind| seen().filter(|file| file.kind == kind).count();
    assert_eq!((count(Kind::Mask), count(Kind::Score)), (64, 25));
    assert_eq!(seen().map(|file| file.cases.len()).sum::<usize>(), 247);
    for file in corpus() {
        let cases: BTreeSet<&str> = file.cases.iter().map(|case| case.id.as_str()).collect();
        assert_eq!(cases.len(), file.cases.len(), "{}: ids are unique", file.id);
        assert!(
            !file.name.is_empty() && !file.seen.is_empty(),
            "{}",
            file.id
        );
    }
}

#[test]
fn scalar_interpreter() {
    run(&ScalarInterpreter, |_, case| 40_000 < case.cells());
}

#[test]
fn row_interpreter() {
    run(&Rows, |_, _| false);
}

#[test]
fn simplified_rules() {
    run(&SimplifiedRows, |_, _| false);
}

#[test]
fn compiled_evaluator() {
    run(&Compiled, |_, _| false);
}

#[test]
fn rules_of_kernels() {
    if maskwright::jit::nvrtc::for_test().is_some() {
        run(&CudaRule, |_, case| !CudaRule::takes(case));
    }
}

#[test]
fn forward_kernel() {
    if maskwright::jit::nvrtc::for_test().is_some() {
        let folder = tempfile::tempdir().expect("there is a folder for temporary files");
        run(&EmulatedKernel::new(folder.path()), |_, _| false);
    }
}

#[test]
fn block_masks() {
    run(&BlockMasks, |file, _| file.kind == Kind::Score);
}

#[test]
fn attention() {
    run(&AttentionEngine, |_, case| !AttentionEngine::takes(case));
}
