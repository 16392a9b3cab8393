//! Kernels with one planted fault each, and what the emulator says of them.
//!
//! The sources stand beside the PTX; a fault is a template argument, so that only the named line differs from the correct kernel.
//! Inputs are small integers, whose sums are exact in any order: a correct kernel matches to the bit.

use std::sync::LazyLock;

use half::bf16;
use ptx_emulator::check::report::{Fault, RaceKind, Report};
use ptx_emulator::{Launch, Memory, Options, Program};

/// A product of integers, laid out as the kernels take it.
struct Product {
    m: usize,
    n: usize,
    k: usize,
}

/// What came of a run.
#[derive(Debug)]
enum Outcome {
    Right,
    /// The kernel ran to its end, and elements differ.
    Wrong,
    Reported(Box<Report>),
}

fn value(row: usize, column: usize) -> f32 {
    ((row * 13 + column * 7 + row * column % 11) % 9) as f32 - 4.0
}

impl Product {
    fn a(&self) -> Vec<u8> {
        (0..self.m * self.k)
            .flat_map(|i| bf16::from_f32(value(i / self.k, i % self.k)).to_le_bytes())
            .collect()
    }

    fn b(&self) -> Vec<u8> {
        (0..self.k * self.n)
            .flat_map(|i| bf16::from_f32(value(i / self.n + 100, i % self.n)).to_le_bytes())
            .collect()
    }

    fn expected(&self) -> Vec<f32> {
        (0..self.m * self.n)
            .map(|i| {
                (0..self.k)
                    .map(|k| value(i / self.n, k) * value(k + 100, i % self.n))
                    .sum()
            })
            .collect()
    }

    fn run(&self, program: &Program, kernel: &str, seed: u64) -> Outcome {
        let memory = Memory::new();
        let (a, b) = (memory.alloc_from(&self.a()), memory.alloc_from(&self.b()));
        let c = memory.alloc(4 * (self.m * self.n) as u64).unwrap();
        let mut params: Vec<u8> = [a, b, c].into_iter().flat_map(u64::to_le_bytes).collect();
        let on_wgmma = std::ptr::eq(program, &raw const *WGMMA);
        let sizes = if on_wgmma {
            vec![self.n, self.k]
        } else {
            vec![self.m, self.n, self.k]
        };
        params.extend(
            sizes
                .into_iter()
                .flat_map(|size| (size as u32).to_le_bytes()),
        );
        let (rows, columns, threads) = if on_wgmma {
            (64, 64, 128)
        } else {
            (32, 16, 64)
        };
        let launch = Launch {
            kernel,
            grid: [(self.n / columns) as u32, self.m.div_ceil(rows) as u32, 1],
            block: [threads, 1, 1],
            dynamic_shared_bytes: 0,
            params: &params,
        };
        let expected: Vec<u32> = self.expected().into_iter().map(f32::to_bits).collect();
        outcome(program, &launch, &memory, seed, c, &expected)
    }
}

/// Runs a kernel and compares what it left at an address.
fn outcome(
    program: &Program,
    launch: &Launch,
    memory: &Memory,
    seed: u64,
    at: u64,
    expected: &[u32],
) -> Outcome {
    if let Err(report) = program.launch(
        memory,
        launch,
        &Options {
            seed,
            ..Options::default()
        },
    ) {
        return Outcome::Reported(report);
    }
    let found = memory.read(at, 4 * expected.len()).unwrap();
    let right = found
        .chunks_exact(4)
        .zip(expected)
        .all(|(found, expected)| *found == expected.to_le_bytes());
    if right {
        Outcome::Right
    } else {
        Outcome::Wrong
    }
}

/// What is expected of a kernel with a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    OutOfBounds,
    Misaligned,
    Uninitialised,
    WarpRace(RaceKind),
    SharedRace(RaceKind),
    PendingCopy,
    MissingProxyFence,
    Deadlock,
    InactiveLane,
    BadUse,
    /// No check can know: the kernel does what it says, which is not what was meant.
    WrongNumbers,
}

/// What a report is, and the instruction that it names.
fn kind(report: &Report) -> Option<Expected> {
    Some(match &report.fault {
        Fault::OutOfBounds { .. } => Expected::OutOfBounds,
        Fault::Misaligned { .. } => Expected::Misaligned,
        Fault::Uninitialised { .. } => Expected::Uninitialised,
        Fault::WarpRace { kind, .. } => Expected::WarpRace(*kind),
        Fault::SharedRace { kind, .. } => Expected::SharedRace(*kind),
        Fault::PendingCopy { .. } => Expected::PendingCopy,
        Fault::MissingProxyFence { .. } => Expected::MissingProxyFence,
        Fault::Deadlock { .. } => Expected::Deadlock,
        Fault::InactiveLane { .. } => Expected::InactiveLane,
        Fault::BadUse { .. } => Expected::BadUse,
        _ => return None,
    })
}

/// Warps in turn give exactly the expected report, at an instruction that begins so; another order may meet the fault in another
/// way, but never misses it.
#[track_caller]
fn check(run: impl Fn(u64) -> Outcome, kernel: &str, expected: Expected, at: &str) {
    match run(0) {
        Outcome::Reported(report) => {
            assert_eq!(kind(&report), Some(expected), "{kernel}: {report}");
            assert!(
                report.text.trim().starts_with(at),
                "{kernel}: expected it at `{at}`, found {report}"
            );
            assert_eq!(report.kernel, kernel);
        }
        Outcome::Wrong if expected == Expected::WrongNumbers => {}
        other => panic!("{kernel}: expected {expected:?}, found {other:?}"),
    }
    for seed in 1..4 {
        assert!(
            !matches!(run(seed), Outcome::Right),
            "{kernel}: missed with seed {seed}"
        );
    }
}

/// Decoded once: the texts are long, since every fault has a kernel of its own.
static GEMM: LazyLock<Program> = LazyLock::new(|| parse(include_str!("kernels/gemm_sm80.ptx")));
static EXCHANGE: LazyLock<Program> =
    LazyLock::new(|| parse(include_str!("kernels/exchange_sm80.ptx")));
static WGMMA: LazyLock<Program> = LazyLock::new(|| parse(include_str!("kernels/wgmma_sm90.ptx")));

fn parse(text: &str) -> Program {
    Program::from_text(text).unwrap_or_else(|error| panic!("{error:?}"))
}

#[test]
fn correct_kernels_pass_under_any_schedule() {
    for seed in 0..8 {
        for (m, n, k) in [(83, 48, 104), (32, 16, 32), (1, 16, 8), (64, 32, 200)] {
            let outcome = Product { m, n, k }.run(&GEMM, "correct", seed);
            assert!(
                matches!(outcome, Outcome::Right),
                "{m} x {n} x {k}, seed {seed}: {outcome:?}"
            );
        }
        for (m, n, k) in [(64, 64, 64), (128, 128, 192)] {
            let outcome = Product { m, n, k }.run(&WGMMA, "correct", seed);
            assert!(
                matches!(outcome, Outcome::Right),
                "{m} x {n} x {k}, seed {seed}: {outcome:?}"
            );
        }
        let outcome = exchange("correct", seed);
        assert!(
            matches!(outcome, Outcome::Right),
            "seed {seed}: {outcome:?}"
        );
    }
}

#[test]
fn faults_in_a_product_on_mma_are_reported() {
    // 83 rows are two tiles and 19 rows of a third; 104 along k three tiles and a quarter.
    let product = Product {
        m: 83,
        n: 48,
        k: 104,
    };
    for (kernel, expected, at) in [
        (
            "no_barrier_after_wait",
            Expected::WarpRace(RaceKind::ReadAfterWrite),
            "ldmatrix",
        ),
        (
            "warp_barrier_before_reuse",
            Expected::PendingCopy,
            "ldmatrix",
        ),
        ("wait_too_lax", Expected::PendingCopy, "ldmatrix"),
        ("no_commit", Expected::PendingCopy, "ldmatrix"),
        ("wrong_swizzle", Expected::WrongNumbers, ""),
        ("misaligned_rows", Expected::Misaligned, "ldmatrix"),
        ("wide_rows", Expected::PendingCopy, "ldmatrix"),
        ("load_bound", Expected::OutOfBounds, "cp.async"),
        ("store_bound", Expected::OutOfBounds, "st.global"),
        ("divergent_barrier", Expected::Deadlock, "bar.sync"),
        (
            "one_warp_barrier",
            Expected::SharedRace(RaceKind::ReadAfterWrite),
            "ldmatrix",
        ),
        ("barrier_count", Expected::Deadlock, "bar.sync 1, 96"),
        ("no_zero_fill", Expected::Uninitialised, "ldmatrix"),
        ("three_stages", Expected::OutOfBounds, "cp.async"),
        ("divergent_mma", Expected::Deadlock, "ldmatrix"),
        ("no_trans", Expected::WrongNumbers, ""),
        ("last_tile", Expected::WrongNumbers, ""),
    ] {
        check(
            |seed| product.run(&GEMM, kernel, seed),
            kernel,
            expected,
            at,
        );
    }
}

#[test]
fn faults_in_a_product_on_wgmma_are_reported() {
    let product = Product {
        m: 128,
        n: 128,
        k: 192,
    };
    for (kernel, expected, at) in [
        (
            "no_proxy_fence",
            Expected::MissingProxyFence,
            "wgmma.mma_async",
        ),
        (
            "no_barrier_after_store",
            Expected::WarpRace(RaceKind::ReadAfterWrite),
            "wgmma.mma_async",
        ),
        ("no_wait", Expected::PendingCopy, "st.shared"),
        ("wait_too_lax", Expected::PendingCopy, "st.shared"),
        ("no_commit", Expected::PendingCopy, "st.shared"),
        ("wrong_swizzle", Expected::WrongNumbers, ""),
        ("wrong_stride", Expected::WrongNumbers, ""),
        ("wrong_major", Expected::OutOfBounds, "wgmma.mma_async"),
        ("step_too_far", Expected::WrongNumbers, ""),
        ("one_warp_missing", Expected::Deadlock, "wgmma.wait_group"),
        (
            "tile_beyond_shared",
            Expected::OutOfBounds,
            "wgmma.mma_async",
        ),
    ] {
        check(
            |seed| product.run(&WGMMA, kernel, seed),
            kernel,
            expected,
            at,
        );
    }
}

#[test]
fn a_product_that_nobody_waits_for_is_reported() {
    // One tile, so that nothing is overwritten.
    let product = Product {
        m: 64,
        n: 64,
        k: 64,
    };
    for kernel in ["no_wait", "no_commit"] {
        check(
            |seed| product.run(&WGMMA, kernel, seed),
            kernel,
            Expected::BadUse,
            "wgmma.mma_async",
        );
    }
}

/// The four warps of a group read as one, so any of them that waited may let others write: pipelines rely on it, in which one thread
/// of a group gives a stage back.
#[test]
fn one_warp_may_write_what_its_group_has_read() {
    let product = Product {
        m: 128,
        n: 128,
        k: 192,
    };
    for seed in 0..4 {
        let outcome = product.run(&WGMMA, "warp_barrier_before_store", seed);
        assert!(matches!(outcome, Outcome::Right), "{outcome:?}");
    }
}

#[test]
fn faults_in_exchanges_between_lanes_are_reported() {
    for (kernel, expected, at) in [
        (
            "no_syncwarp_after_write",
            Expected::WarpRace(RaceKind::ReadAfterWrite),
            "ld.shared",
        ),
        (
            "no_syncwarp_before_write",
            Expected::WarpRace(RaceKind::WriteAfterRead),
            "st.shared",
        ),
        (
            "half_syncwarp",
            Expected::WarpRace(RaceKind::ReadAfterWrite),
            "ld.shared",
        ),
        (
            "syncwarp_for_syncthreads",
            Expected::Uninitialised,
            "ld.shared",
        ),
        (
            "shuffle_from_idle_lane",
            Expected::InactiveLane,
            "shfl.sync",
        ),
        ("read_beyond_shared", Expected::OutOfBounds, "ld.shared"),
        ("skipped_write", Expected::Uninitialised, "ld.shared"),
        (
            "double_write",
            Expected::WarpRace(RaceKind::WriteAfterWrite),
            "st.shared",
        ),
        (
            "atomic_and_plain",
            Expected::WarpRace(RaceKind::ReadAfterWrite),
            "ld.shared",
        ),
    ] {
        check(|seed| exchange(kernel, seed), kernel, expected, at);
    }
}

/// Runs a kernel of `exchange_sm80.cu` on two blocks.
fn exchange(kernel: &str, seed: u64) -> Outcome {
    let x: Vec<i32> = (0..256).map(|i| (i * 37 + 11) % 101).collect();
    let expected: Vec<u32> = (0..256)
        .map(|i| {
            let (block, thread) = (i / 128 * 128, i % 128);
            let (warp, lane) = (thread / 32, thread % 32);
            let reversed = x[block + 32 * warp + 31 - lane];
            let neighbour = x[block + 32 * ((warp + 1) % 4) + lane];
            let total: i32 = x[block..block + 128].iter().sum();
            ((x[i] + reversed + neighbour + total) as f32).to_bits()
        })
        .collect();
    let memory = Memory::new();
    let input = memory.alloc_from(
        &x.iter()
            .flat_map(|&x| (x as f32).to_le_bytes())
            .collect::<Vec<_>>(),
    );
    let out = memory.alloc(4 * 256).unwrap();
    let params: Vec<u8> = [input, out]
        .into_iter()
        .flat_map(u64::to_le_bytes)
        .collect();
    let launch = Launch {
        kernel,
        grid: [2, 1, 1],
        block: [128, 1, 1],
        dynamic_shared_bytes: 0,
        params: &params,
    };
    outcome(&EXCHANGE, &launch, &memory, seed, out, &expected)
}
