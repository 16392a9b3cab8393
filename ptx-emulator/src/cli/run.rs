//! `ptx-emulator run`: a launch, and what came of it.

use std::fs;

use ptx_emulator::ast::{Function, Module};
use ptx_emulator::{Checks, Counters, Launch, Memory, Options};

use super::args::RunArgs;
use super::bind::{Output, bind};
use super::check::{kernels, load};
use super::error::CliError;
use super::print::{as_json, as_text, print, report_json};
use crate::Outcome;

/// A launch that came to its end.
pub(super) struct Ran {
    pub(super) counters: Counters,
    pub(super) results: Vec<Done>,
}

/// Memory as the kernel left it.
pub(super) struct Done {
    pub(super) output: Output,
    pub(super) bytes: Vec<u8>,
    /// Whether every byte has been written.
    pub(super) is_whole: bool,
}

/// Launches a kernel, prints what it did, and writes its results.
pub(crate) fn run(args: &RunArgs) -> Result<Outcome, CliError> {
    let loaded = load(&args.file)?;
    let kernel = choose(&loaded.module, args.kernel.as_deref())?;
    let memory = Memory::new();
    let bound = bind(kernel, &args.values, &memory)?;
    let launch = Launch {
        kernel: &kernel.name,
        grid: args.grid,
        block: args.block,
        dynamic_shared_bytes: args.shared,
        params: &bound.params,
    };
    let options = Options {
        checks: if args.no_checks {
            Checks::none()
        } else {
            Checks::all()
        },
        seed: args.seed,
        threads: args.threads,
        profile: args.profile,
        ..Options::default()
    };
    let counters = match loaded.program.launch(&memory, &launch, &options) {
        Ok(counters) => counters,
        // Nothing ran, so the flags are at fault.
        Err(report) if report.location.line == 0 => {
            return Err(CliError::Launch { report });
        }
        Err(report) => {
            print(&if args.json {
                format!("{:#}\n", report_json(&report))
            } else {
                format!("{report}\n")
            });
            return Ok(Outcome::Fault);
        }
    };
    let mut results = Vec::new();
    for output in bound.outputs {
        let index = output.index;
        let failed = |source| CliError::Memory { index, source };
        let length = output.bytes as usize;
        let bytes = memory.read(output.address, length).map_err(failed)?;
        let is_whole = memory.is_written(output.address, length).map_err(failed)?;
        if let Some(path) = &output.to {
            let file = [output.header.as_slice(), &bytes].concat();
            fs::write(path, file).map_err(|source| CliError::Write {
                path: path.clone(),
                source,
            })?;
        }
        results.push(Done {
            output,
            bytes,
            is_whole,
        });
    }
    let ran = Ran { counters, results };
    print(&if args.json {
        format!("{:#}\n", as_json(&ran))
    } else {
        as_text(&ran, &loaded.text)
    });
    Ok(Outcome::Done)
}

/// The kernel of a name, or the only one.
fn choose<'m>(module: &'m Module, name: Option<&str>) -> Result<&'m Function, CliError> {
    let all: Vec<_> = kernels(module).collect();
    let known = || all.iter().map(|it| it.name.clone()).collect();
    match (name, all.as_slice()) {
        (None, [kernel]) => Ok(kernel),
        (None, _) => Err(CliError::WhichKernel { known: known() }),
        (Some(name), _) => {
            let found = all.iter().find(|it| it.name == name);
            found.copied().ok_or_else(|| CliError::UnknownKernel {
                name: name.to_owned(),
                known: known(),
            })
        }
    }
}
