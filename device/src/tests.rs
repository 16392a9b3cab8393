//! The whole run, with few and small cases and the emulator in the place of a GPU.

use std::time::Duration;

use maskwright::Kernel;
use maskwright::cache::CacheMode;
use maskwright::cuda::{CompiledKernel, EmulatorOptions, KernelShape, KernelText, Machine};
use maskwright::jit::nvrtc::{self, Output};

use crate::Outcome;
use crate::arguments::Arguments;
use crate::error::RunError;
use crate::folder::{Folder, List};
use crate::{conformance, prepare, table, timing};

fn arguments(words: &[&str]) -> Arguments {
    Arguments::read(words.iter().map(|word| (*word).to_owned())).unwrap()
}

#[test]
fn what_is_prepared_is_checked_and_timed_without_a_compiler() {
    if nvrtc::for_test().is_none() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("run");
    std::fs::create_dir(&dir).unwrap();
    let dir = dir.to_str().unwrap();
    prepare::run(&mut arguments(&[
        "prepare", dir, "--quick", "--commit", "abc",
    ]))
    .unwrap();
    let manifest = Folder::new(dir).manifest().unwrap();
    assert_eq!(
        (manifest.list, manifest.commit.as_deref()),
        (List::Quick, Some("abc"))
    );
    assert!(
        manifest.compiler.starts_with("NVRTC "),
        "{}",
        manifest.compiler
    );

    // Kernels come from the folder: `check` and `time` may not compile.
    let checked = conformance::run(&mut arguments(&["check", dir, "--backend", "emulator"]));
    assert!(
        matches!(checked, Ok(Outcome::Good)),
        "a case failed, as printed"
    );

    // What an H200 looks for is there as well.
    let kernels = Folder::new(dir).kernels(CacheMode::NoCompile).unwrap();
    let found = |kernel: &Kernel, shape: &KernelShape| {
        let (mask, score) = (kernel.prepared_mask(), kernel.prepared_score());
        let target = "sm_90a".parse().unwrap();
        let text = KernelText::new(mask, score, shape, target).unwrap();
        let compiled = CompiledKernel::new(text, Output::Cubin, &kernels).unwrap();
        assert!(
            compiled
                .cubin()
                .is_some_and(|code| code.starts_with(b"\x7fELF"))
        );
    };
    for group in conformance::groups(List::Quick).unwrap() {
        let kernel = Kernel::compile(&group.rules, &group.scope).unwrap();
        found(&kernel, &group.shape);
    }
    for case in Folder::new(dir).cases().unwrap() {
        let kernel = timing::kernel(&case).unwrap();
        found(&kernel, &timing::shape(&case));
    }

    // As on a GPU, but that the two are one: every bit is the same.
    let groups = conformance::groups(List::Quick).unwrap();
    let machine = Machine::emulator(EmulatorOptions::default());
    let time = Some(Duration::from_mins(10));
    let summary = conformance::check(&groups[..1], &machine, &kernels, time);
    assert_eq!(summary.emulated(), (2, 2));
    let none = conformance::check(&groups[..1], &machine, &kernels, Some(Duration::ZERO));
    assert!(none.is_good() && none.emulated() == (0, 0));

    let ours = place.path().join("ours.jsonl");
    let ours = ours.to_str().unwrap();
    timing::run(&mut arguments(&[
        "time",
        dir,
        "--out",
        ours,
        "--backend",
        "emulator",
    ]))
    .unwrap();
    let text = std::fs::read_to_string(ours).unwrap();
    assert_eq!(text.lines().count(), 1 + timing::quick().len());
    assert!(!text.contains("skipped\""), "{text}");
    let table = table::table(&text, "", None).unwrap();
    // 128 rows are one tile of rows; causal masks skip nothing there, and at 256 a quarter.
    assert!(table.contains("| causal | 64 | 256 |"), "{table}");
    table::run(&mut arguments(&["table", ours, "nowhere"])).unwrap();
}

#[test]
fn a_failure_is_told_and_the_others_go_on() {
    // Nothing was compiled for this folder, so no call can run.
    let place = tempfile::tempdir().unwrap();
    let store = Folder::new(place.path())
        .kernels(CacheMode::NoCompile)
        .unwrap();
    let groups = conformance::groups(List::Quick).unwrap();
    let machine = Machine::emulator(EmulatorOptions::default());
    let summary = conformance::check(&groups[..2], &machine, &store, None);
    assert!(!summary.is_good());
    assert_eq!(summary.passed(), 0);
}

#[test]
fn every_case_of_the_full_list_has_a_kernel() {
    for group in conformance::groups(List::Full).unwrap() {
        let kernel = Kernel::interpret(&group.rules, &group.scope)
            .unwrap_or_else(|error| panic!("{group}: {error}"));
        let (mask, score) = (kernel.prepared_mask(), kernel.prepared_score());
        for target in ["sm_80", "sm_90a"] {
            let target = target.parse().unwrap();
            KernelText::new(mask, score, &group.shape, target)
                .unwrap_or_else(|error| panic!("{group}: {error}"));
        }
    }
}

#[test]
fn a_command_line_that_means_nothing_is_refused() {
    for words in [
        &["check"][..],
        &["time", "dir"],
        &["table", "ours", "peers", "more"],
        &["check", "dir", "--backend", "cpu"],
        &["check", "dir", "--emulator-seconds", "some"],
    ] {
        let mut arguments = arguments(words);
        let refused = match words[0] {
            "check" => conformance::run(&mut arguments).map(|_| ()),
            "time" => timing::run(&mut arguments),
            _ => table::run(&mut arguments),
        };
        assert!(matches!(refused, Err(RunError::Usage(_))), "{words:?}");
    }
}
