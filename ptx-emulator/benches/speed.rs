//! Warp instructions per second on one core: attention kernels, with and without checks.
//!
//! An argument picks the kernels that have it in their names, a second one `none` or `all` checks. Seconds are those of the processor
//! where the system tells them, so that other load counts little.
#![expect(clippy::print_stdout, reason = "figures are what it is for")]

use std::time::Instant;

use ptx_emulator::async_copy::element::Element;
use ptx_emulator::async_copy::tensor_map::{Swizzle, TensorMap};
use ptx_emulator::{Checks, Launch, Memory, Options, Program};

const LEN: u32 = 1024;
const HEADS: u32 = 2;
const HEAD_DIM: u32 = 64;
const RUNS: usize = 5;

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let wanted = |index: usize, name: &str| {
        arguments
            .get(index)
            .is_none_or(|argument| name.contains(argument.as_str()))
    };
    let kernels = [
        (
            "sm80: cp.async, mma",
            "attn",
            24_576,
            include_str!("../tests/fixtures/causal_sm80.ptx"),
        ),
        (
            "sm90: cp.async, wgmma",
            "attn",
            40_960,
            include_str!("../tests/fixtures/causal_sm90_wgmma.ptx"),
        ),
        (
            "sm90: TMA, wgmma",
            "attn_tma",
            40_992,
            include_str!("../tests/fixtures/causal_sm90_tma.ptx"),
        ),
    ];
    for (name, kernel, shared, text) in kernels.into_iter().filter(|kernel| wanted(0, kernel.0)) {
        let start = Instant::now();
        let program = Program::from_text(text).expect("fixtures are understood");
        println!(
            "{name}: decoded in {:.1} ms",
            start.elapsed().as_secs_f64() * 1e3
        );
        for (what, checks) in [("none", Checks::none()), ("all", Checks::all())] {
            if !wanted(1, what) {
                continue;
            }
            let (instructions, secs) = measure(&program, kernel, shared, checks);
            println!(
                "  checks {what:>4}: {:6.2} M warp instructions/s, {:.3} s",
                instructions as f64 / secs / 1e6,
                secs
            );
        }
    }
}

/// Instructions of a launch, and the seconds that the fastest of several took.
fn measure(program: &Program, kernel: &str, shared: u32, checks: Checks) -> (u64, f64) {
    let memory = Memory::new();
    let values = HEADS * LEN * HEAD_DIM;
    let params = params(&memory, values, kernel == "attn_tma");
    let launch = Launch {
        kernel,
        grid: [LEN / 64, HEADS, 1],
        block: [128, 1, 1],
        dynamic_shared_bytes: shared,
        params: &params,
    };
    let options = Options {
        checks,
        threads: 1,
        ..Options::default()
    };
    let mut best = f64::INFINITY;
    let mut instructions = 0;
    for _ in 0..RUNS {
        let (start, wall) = (processor_secs(), Instant::now());
        let counters = program
            .launch(&memory, &launch, &options)
            .expect("fixtures have no faults");
        let secs = start
            .zip(processor_secs())
            .map_or_else(|| wall.elapsed().as_secs_f64(), |(start, end)| end - start);
        best = best.min(secs);
        instructions = counters.instructions;
    }
    (instructions, best)
}

/// Seconds that this thread has run.
fn processor_secs() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds: u64 = text.split_whitespace().next()?.parse().ok()?;
    Some(nanoseconds as f64 * 1e-9)
}

fn params(memory: &Memory, values: u32, tensor_maps: bool) -> Vec<u8> {
    let mut params = Vec::new();
    for seed in 1..=3u32 {
        // bf16 numbers between 1/2 and 2, of both signs.
        let bytes: Vec<u8> = (0..values)
            .flat_map(|i| {
                let hash = i
                    .wrapping_mul(0x9e37_79b9)
                    .wrapping_add(seed)
                    .wrapping_mul(0x85eb_ca6b)
                    >> 16;
                (0x3f00 | (hash & 0x80ff) as u16).to_le_bytes()
            })
            .collect();
        let address = memory.alloc_from(&bytes);
        if tensor_maps {
            let sizes = [u64::from(HEAD_DIM), u64::from(HEADS * LEN)];
            let map = TensorMap {
                swizzle: Swizzle::B128,
                ..TensorMap::contiguous(Element::Bf16, address, &sizes, &[64, 64])
            };
            params.resize(params.len().next_multiple_of(64), 0);
            params.extend(map.to_bytes().expect("the map is valid"));
            params.extend([0; 24]);
        } else {
            params.extend(address.to_le_bytes());
        }
    }
    let out = memory.alloc(u64::from(values) * 2).expect("it is small");
    params.extend(out.to_le_bytes());
    params.extend(LEN.to_le_bytes());
    params.extend((std::f32::consts::LOG2_E / 8.0).to_le_bytes());
    params.extend([0; 16]);
    params
}
