//! Mistakes planted in the fixtures: each must be found.

use ptx_emulator::check::report::Fault;
use ptx_emulator::{Launch, Memory, Options, Program, Report};

const SM80: &str = include_str!("../fixtures/causal_sm80.ptx");
const WGMMA: &str = include_str!("../fixtures/causal_sm90_wgmma.ptx");

/// Runs a fixture that takes pointers; whether it ended, and the outputs.
fn run(text: &str, shared: u32, len: u32) -> Result<Vec<u8>, Box<Report>> {
    let program = Program::from_text(text).unwrap_or_else(|error| panic!("{error:?}"));
    let memory = Memory::new();
    let values = 64 * len as usize;
    let mut params = Vec::new();
    for seed in 0..3u32 {
        let bytes: Vec<u8> = (0..values as u32)
            .flat_map(|i| {
                (0x3f00 | ((i.wrapping_mul(0x9e37_79b9) ^ seed) >> 16 & 0x80ff) as u16)
                    .to_le_bytes()
            })
            .collect();
        params.extend(memory.alloc_from(&bytes).to_le_bytes());
    }
    let out = memory.alloc(2 * values as u64).unwrap();
    params.extend(out.to_le_bytes());
    params.extend(len.to_le_bytes());
    params.extend((std::f32::consts::LOG2_E / 8.0).to_le_bytes());
    params.extend([0; 16]);
    let launch = Launch {
        kernel: "attn",
        grid: [len.div_ceil(64), 1, 1],
        block: [128, 1, 1],
        dynamic_shared_bytes: shared,
        params: &params,
    };
    program.launch(&memory, &launch, &Options::default())?;
    Ok(memory.read(out, 2 * values).unwrap())
}

/// The text without the `n`-th line that starts with an instruction.
fn without(text: &str, instruction: &str, n: usize) -> String {
    replaced(text, instruction, n, |_| String::new())
}

fn replaced(text: &str, instruction: &str, n: usize, change: impl Fn(&str) -> String) -> String {
    let mut seen = 0;
    let lines = text.lines().map(|line| {
        if line.trim_start().starts_with(instruction) {
            seen += 1;
            if seen == n + 1 {
                return change(line);
            }
        }
        line.to_owned()
    });
    let out: Vec<String> = lines.collect();
    assert!(seen > n, "{instruction} stands {seen} times");
    out.join("\n")
}

#[test]
fn the_fixtures_are_clean() {
    run(SM80, 24_576, 200).unwrap_or_else(|report| panic!("{report}"));
    run(WGMMA, 40_960, 200).unwrap_or_else(|report| panic!("{report}"));
}

#[test]
fn barriers_are_needed() {
    // The third one of the first kernel is not: what follows it writes where only the queries were, which a barrier before it orders.
    // Nor is the second one of the other, since the four warps of a `wgmma` read as one.
    for (text, shared, barriers) in [(SM80, 24_576, &[0, 1, 3][..]), (WGMMA, 40_960, &[0, 2, 3])] {
        for &n in barriers {
            let result = run(&without(text, "bar.sync", n), shared, 256);
            let report = result
                .err()
                .unwrap_or_else(|| panic!("barrier {n} is not missed"));
            let known = matches!(
                report.fault,
                Fault::SharedRace { .. }
                    | Fault::WarpRace { .. }
                    | Fault::Uninitialised { .. }
                    | Fault::PendingCopy { .. }
                    | Fault::MissingProxyFence { .. }
            );
            assert!(known, "{report}");
        }
    }
}

#[test]
fn the_wait_for_copies_is_needed() {
    // The second one only drains copies that read nothing, into memory that is not used again.
    let lax = |_: &str| "cp.async.wait_group 7;".to_owned();
    for mutant in [
        without(SM80, "cp.async.wait_group", 0),
        replaced(SM80, "cp.async.wait_group", 0, lax),
    ] {
        let report = run(&mutant, 24_576, 256).expect_err("the wait is missed");
        assert!(
            matches!(
                report.fault,
                Fault::PendingCopy { .. } | Fault::SharedRace { .. }
            ),
            "{report}"
        );
    }
}

#[test]
fn waits_for_wgmma_are_needed() {
    let expected = run(WGMMA, 40_960, 64).unwrap();
    for n in 0..2 {
        match run(&without(WGMMA, "wgmma.wait_group", n), 40_960, 64) {
            Ok(found) => assert!(found != expected, "wait {n} is not missed"),
            Err(report) => {
                let known = matches!(
                    report.fault,
                    Fault::PendingCopy { .. } | Fault::BadUse { .. }
                );
                assert!(known, "{report}");
            }
        }
    }
}

#[test]
fn the_proxy_fence_is_needed() {
    // The second one repeats the first: nothing is written in between.
    let mutant = without(WGMMA, "fence.proxy.async", 0);
    let report = run(&mutant, 40_960, 256).expect_err("the fence is missed");
    assert!(
        matches!(report.fault, Fault::MissingProxyFence { .. }),
        "{report}"
    );
}

#[test]
fn a_store_past_the_end_is_found() {
    // The guard of the first store of the result is dropped.
    let mutant = replaced(SM80, "@%p", 0, str::to_owned);
    let store = mutant
        .lines()
        .position(|line| line.contains("st.global.v4.b32"))
        .expect("results are stored");
    let lines: Vec<String> = mutant
        .lines()
        .enumerate()
        .map(|(i, line)| {
            if i == store {
                line.trim_start()
                    .split_once(' ')
                    .map_or(line, |(_, rest)| rest)
                    .to_owned()
            } else {
                line.to_owned()
            }
        })
        .collect();
    let report = run(&lines.join("\n"), 24_576, 70).unwrap_err();
    assert!(
        matches!(report.fault, Fault::OutOfBounds { .. }),
        "{report}"
    );
}
