//! `maskwright bench`: time and memory of building a block mask.

use std::time::Instant;

use maskwright_dsl::block_mask::{BlockMask, BuildStats};
use serde::Serialize;

use crate::args::{BenchArgs, BenchMaskArgs, BenchWhat};
use crate::engine::{MaskEngine, mask_of};
use crate::error::CliError;
use crate::{Outcome, bucket, memory, output, progress, rule};

/// Builds are repeated until they took so long together.
const ENOUGH_SECS: f64 = 0.5;
const MOST_RUNS: usize = 200;
const FEWEST_RUNS: usize = 3;

#[derive(Debug, Serialize)]
struct MaskFigures {
    median_ms: f64,
    peak_bytes: u64,
    mask_bytes: u64,
    runs: u64,
    blocks_proved: u64,
    blocks_evaluated: u64,
    cells_evaluated: u64,
}

pub(crate) fn run(args: &BenchArgs) -> Result<Outcome, CliError> {
    match &args.what {
        BenchWhat::Mask(args) => mask(args),
    }
}

fn mask(args: &BenchMaskArgs) -> Result<Outcome, CliError> {
    let bound = rule::resolve(&args.rule, &args.flags)?;
    let scope = bucket::one_scope(&args.flags, Some((args.len, args.len)))?;
    bucket::check_scalars(&scope, &[bound.rule()])?;
    let started = Instant::now();
    let prepared = mask_of(&bound, &scope)?;
    let prepare_secs = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let engine = MaskEngine::new(&prepared, args.flags.backend)?;
    let compile_secs = started.elapsed().as_secs_f64();
    let block = bucket::one_block(&args.flags)?;

    let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    let build = || BlockMask::build_with(&prepared, block, &engine);
    let (first, peak_bytes) = one_thread.install(|| memory::peak_of(build));
    let (built, stats) = first?;
    let mut times = progress::spinning("building", || {
        one_thread.install(|| {
            let mut times: Vec<f64> = Vec::new();
            while times.len() < FEWEST_RUNS
                || (times.len() < MOST_RUNS && times.iter().sum::<f64>() < ENOUGH_SECS)
            {
                let started = Instant::now();
                let again = build();
                times.push(started.elapsed().as_secs_f64());
                drop(again);
            }
            times
        })
    });
    times.sort_by(f64::total_cmp);
    let BuildStats {
        blocks_proved,
        blocks_evaluated,
        cells_evaluated,
    } = stats;
    let runs: usize = built
        .distinct_planes()
        .map(|plane| plane.runs().len())
        .sum();
    let figures = MaskFigures {
        median_ms: times[times.len() / 2] * 1e3,
        peak_bytes,
        mask_bytes: built.size_bytes() as u64,
        runs: runs as u64,
        blocks_proved,
        blocks_evaluated,
        cells_evaluated,
    };
    if args.json {
        output::print_json(&figures)?;
        return Ok(Outcome::Done);
    }
    let counts = built.counts();
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let count = |n: u64| output::count_text(n);
    let mut text = format!(
        "{} over {}, blocks of {block}, one thread, median of {} builds\n",
        bound.rule().name,
        scope.bucket,
        times.len()
    );
    text.push_str(&output::table(&[
        row("build", format!("{:.3} ms", figures.median_ms)),
        row(
            "prove the rule (once)",
            format!("{:.3} ms", prepare_secs * 1e3),
        ),
        row("compile (once)", format!("{:.3} ms", compile_secs * 1e3)),
        row(
            "held while building",
            output::bytes_text(figures.peak_bytes),
        ),
        row("mask", output::bytes_text(figures.mask_bytes)),
        row("runs", count(figures.runs)),
        row("blocks full", output::count_text(counts.full)),
        row("blocks partial", output::count_text(counts.partial)),
        row("blocks empty", output::count_text(counts.empty)),
        row("blocks proved", count(blocks_proved)),
        row("blocks looked into", count(blocks_evaluated)),
        row("cells computed", count(cells_evaluated)),
    ]));
    output::print(&text)?;
    Ok(Outcome::Done)
}
