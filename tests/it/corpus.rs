//! Every case of the corpus, on every engine.

use std::collections::{BTreeMap, BTreeSet};

use maskwright_tests::case::{Kind, corpus};
use maskwright_tests::engine::{
    BlockMasks, Compiled, Engine, NoOutcome, Rows, ScalarInterpreter, SimplifiedRows, check,
};
use maskwright_tests::program::{Form, Program};

/// Runs every case in both forms, and reports everything that went wrong at once.
#[track_caller]
fn run(engine: &dyn Engine) {
    let mut faults = Vec::new();
    let mut skipped: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut passed = 0;
    for file in corpus() {
        for case in &file.cases {
            for form in [Form::RunTime, Form::Const] {
                let program = match Program::new(file, case, form) {
                    Ok(Some(program)) => program,
                    Ok(None) => continue,
                    Err(error) => {
                        faults.push(format!("{}/{} ({form:?}): {error}", file.id, case.id));
                        continue;
                    }
                };
                match engine.run(&program) {
                    Ok(outcome) => match check(&program, &outcome) {
                        Ok(()) => passed += 1,
                        Err(error) => faults.push(format!("{program}: {error}")),
                    },
                    Err(NoOutcome::Skip(reason)) => {
                        skipped.entry(reason).or_default().push(program.to_string());
                    }
                    Err(NoOutcome::Fault(error)) => faults.push(format!("{program}: {error}")),
                }
            }
        }
    }
    let mut report = format!("{}: {passed} passed", engine.name());
    for (reason, programs) in &skipped {
        report += &format!(
            "\n  skipped {} ({reason}): {}",
            programs.len(),
            programs.join(", ")
        );
    }
    report += &format!("\n  failed {}", faults.len());
    assert!(faults.is_empty(), "{report}:\n{}", faults.join("\n"));
    eprintln!("{report}");
    assert!(0 < passed, "{report}");
}

#[test]
fn the_corpus_is_complete() {
    let ids: BTreeSet<&str> = corpus().iter().map(|file| file.id.as_str()).collect();
    assert_eq!(ids.len(), corpus().len(), "ids are unique");
    let count = |kind| {
        let files = corpus().iter().filter(|file| file.kind == kind);
        // Files whose names have a dash are variants of our own.
        files.filter(|file| !file.id.contains('-')).count()
    };
    assert_eq!((count(Kind::Mask), count(Kind::Score)), (64, 25));
    let cases: usize = corpus()
        .iter()
        .filter(|file| !file.id.contains('-'))
        .map(|file| file.cases.len())
        .sum();
    assert_eq!(cases, 247);
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
    run(&ScalarInterpreter);
}

#[test]
fn row_interpreter() {
    run(&Rows);
}

#[test]
fn simplified_rules() {
    run(&SimplifiedRows);
}

#[test]
fn compiled_evaluator() {
    run(&Compiled);
}

#[test]
fn block_masks() {
    run(&BlockMasks);
}
