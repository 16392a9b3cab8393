//! Conformance: calls on a machine against dense attention in float64 and, where the machine is a GPU, against the same
//! kernels in the emulator.
//!
//! The machine runs all calls first, one after the other, so that one which hangs or breaks it is the last that was
//! announced. Then all cores compute what they are compared with. The emulator's results are computed there and then
//! and not carried along: sixteen cores need seconds for what would be hundreds of megabytes.

mod compare;
mod groups;
mod launch;

use std::time::{Duration, Instant};

use maskwright::Kernel;
use maskwright::cache::CacheMode;
use maskwright::cuda::{Checks, EmulatorOptions, KernelStore, Machine};
use rayon::prelude::*;

use crate::arguments::Arguments;
use crate::error::{RunError, chain};
use crate::folder::Folder;
use crate::{Outcome, say};
use compare::{Agreement, Three, against_emulator, against_emulator_failure, against_float64};
use launch::{Results, launch};

pub(crate) use compare::Summary;
pub(crate) use groups::{Call, Group, groups};

/// Seconds for the emulator, unless the command line says otherwise.
const EMULATOR_SECS: u64 = 60;

/// A call that ran.
struct Ran<'a> {
    group: &'a Group,
    kernel: &'a Kernel,
    call: Call,
    results: Results,
}

/// `check DIR`.
pub(crate) fn run(arguments: &mut Arguments) -> Result<Outcome, RunError> {
    let folder = Folder::new(arguments.place("DIR")?);
    let only = arguments.flag("--only").unwrap_or_default();
    let secs = arguments
        .number("--emulator-seconds")?
        .unwrap_or(EMULATOR_SECS);
    let machine = arguments.machine()?;
    arguments.finish()?;
    let manifest = folder.manifest()?;
    let kernels = folder.kernels(CacheMode::NoCompile)?;
    let mut groups = groups(manifest.list)?;
    groups.retain(|group| group.to_string().contains(&only));
    // The emulator in the place of a GPU would be compared with itself.
    let for_emulator = machine.gpu().map(|_| Duration::from_secs(secs));
    let summary = check(&groups, &machine, &kernels, for_emulator);
    say(&summary.table());
    let good = summary.is_good();
    let calls: usize = groups.iter().map(|group| group.calls.len()).sum();
    say(&format!(
        "check on {machine}: {} of {calls} calls pass, {} kernels, {}",
        summary.passed(),
        groups.len(),
        manifest.compiler,
    ));
    Ok(if good { Outcome::Good } else { Outcome::Bad })
}

/// Runs and compares everything, whatever fails; with the emulator too, where it is given time.
pub(crate) fn check(
    groups: &[Group],
    machine: &Machine,
    kernels: &KernelStore,
    for_emulator: Option<Duration>,
) -> Summary {
    let mut summary = Summary::default();
    let compiled: Vec<Result<Kernel, RunError>> = groups
        .iter()
        .map(|group| Ok(Kernel::compile(&group.rules, &group.scope)?))
        .collect();
    let mut ran = Vec::new();
    let started = Instant::now();
    for (group, kernel) in groups.iter().zip(&compiled) {
        say(&format!(
            "{:6.1} s  {group}",
            started.elapsed().as_secs_f64()
        ));
        for &call in &group.calls {
            let results = match kernel {
                Ok(kernel) => launch(group, kernel, &call, machine, kernels)
                    .map(|results| (kernel, results))
                    .map_err(|error| chain(&error)),
                Err(error) => Err(chain(error)),
            };
            match results {
                Ok((kernel, results)) => ran.push(Ran {
                    group,
                    kernel,
                    call,
                    results,
                }),
                Err(reason) => {
                    say(&format!("FAIL {group} {call}: {reason}"));
                    summary.add_failure(group.shape.dtype);
                }
            }
        }
    }
    let say_now = |what: &str| {
        let secs = started.elapsed().as_secs_f64();
        say(&format!("{secs:6.1} s  {what} {} calls", ran.len()));
    };
    say_now("float64 of");
    let mut agreements: Vec<Result<Agreement, String>> = ran
        .par_iter()
        .map(|ran| {
            let agreement = against_float64(ran.group, &ran.call, &ran.results);
            agreement.map_err(|error| chain(&error))
        })
        .collect();
    let mut failures: Vec<Option<String>> = Vec::new();
    for (ran, agreement) in ran.iter().zip(&agreements) {
        let failure = match agreement {
            Ok(agreement) => agreement.failure(),
            Err(reason) => Some(reason.clone()),
        };
        if let Some(reason) = &failure {
            say(&format!("FAIL {} {}: {reason}", ran.group, ran.call));
        }
        failures.push(failure);
    }
    if let Some(time) = for_emulator {
        say_now("the emulator's");
        let deadline = Instant::now() + time;
        let emulated: Vec<Option<Result<Three, String>>> = ran
            .par_iter()
            .map(|ran| (Instant::now() < deadline).then(|| emulate(ran, kernels)))
            .collect();
        for (at, emulated) in emulated.into_iter().enumerate() {
            let failure = match emulated {
                Some(Ok(three)) => {
                    if let Ok(agreement) = &mut agreements[at] {
                        agreement.emulator = Some(three);
                    }
                    against_emulator_failure(&three)
                }
                Some(Err(reason)) => Some(format!("in the emulator: {reason}")),
                None => None,
            };
            if let Some(reason) = failure {
                say(&format!(
                    "FAIL {} {}: {reason}",
                    ran[at].group, ran[at].call
                ));
                failures[at].get_or_insert(reason);
            }
        }
    }
    for ((ran, agreement), failure) in ran.iter().zip(agreements).zip(failures) {
        let agreement = agreement.unwrap_or_default();
        summary.add(ran.group.shape.dtype, &agreement, failure.is_none());
    }
    summary
}

/// What the emulator gives for a call, beside what the machine gave.
fn emulate(ran: &Ran<'_>, kernels: &KernelStore) -> Result<Three, String> {
    let emulator = Machine::emulator(EmulatorOptions {
        checks: Checks::none(),
        // The calls are spread over the cores already.
        threads: 1,
        ..EmulatorOptions::default()
    });
    let emulated = launch(ran.group, ran.kernel, &ran.call, &emulator, kernels);
    let emulated = emulated.map_err(|error| chain(&error))?;
    Ok(against_emulator(ran.group, &ran.results, &emulated))
}
