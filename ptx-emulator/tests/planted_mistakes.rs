//! Kernels of another compiler with one line taken out: what orders memory is missed, and the checks say so.

#![expect(
    clippy::print_stdout,
    reason = "a test that fails shows what was reported"
)]

use half::bf16;
use ptx_emulator::async_copy::element::Element;
use ptx_emulator::async_copy::tensor_map::{Swizzle, TensorMap};
use ptx_emulator::{Launch, Memory, Options, Program, Report};

const LEN: usize = 192;
const HEAD_DIM: usize = 64;

/// Runs a kernel on one head, and returns its result.
fn run(text: &str, kernel: &str, shared: u32, seed: u64) -> Result<Vec<u8>, Box<Report>> {
    let program = Program::from_text(text).unwrap();
    let memory = Memory::new();
    let mut params = Vec::new();
    for tensor in 0..3 {
        let values = (0..LEN * HEAD_DIM)
            .map(|i| bf16::from_f32(((i * 37 + tensor * 11) % 64) as f32 / 32.0 - 1.0));
        let address = memory.alloc_from(&values.flat_map(bf16::to_le_bytes).collect::<Vec<u8>>());
        if kernel == "attn_tma" {
            let map = TensorMap {
                swizzle: Swizzle::B128,
                ..TensorMap::contiguous(
                    Element::Bf16,
                    address,
                    &[HEAD_DIM as u64, LEN as u64],
                    &[64, 64],
                )
            };
            params.resize(usize::next_multiple_of(params.len(), 64), 0);
            params.extend(map.to_bytes().unwrap());
            params.extend([0; 24]);
        } else {
            params.extend(address.to_le_bytes());
        }
    }
    let out = memory.alloc(2 * (LEN * HEAD_DIM) as u64).unwrap();
    params.extend(out.to_le_bytes());
    params.extend((LEN as u32).to_le_bytes());
    params.extend(0.18f32.to_le_bytes());
    params.extend([0; 16]);
    let launch = Launch {
        kernel,
        grid: [(LEN / 64) as u32, 1, 1],
        block: [128, 1, 1],
        dynamic_shared_bytes: shared,
        params: &params,
    };
    let options = Options {
        seed,
        instruction_limit: 1_000_000,
        ..Options::default()
    };
    program.launch(&memory, &launch, &options)?;
    Ok(memory.read(out, 2 * LEN * HEAD_DIM).unwrap())
}

/// Takes out, one at a time, every line that holds one of `what`. Returns the lines that nothing was said about.
fn unreported(text: &str, kernel: &str, shared: u32, what: &[&str]) -> Vec<usize> {
    let expected = run(text, kernel, shared, 0).unwrap_or_else(|report| panic!("{report}"));
    let lines: Vec<&str> = text.lines().collect();
    let mut missed = Vec::new();
    for (i, line) in lines
        .iter()
        .enumerate()
        .filter(|(_, line)| what.iter().any(|what| line.contains(what)))
    {
        let mut mutant = lines.clone();
        // A wait that answers at once, in the place of one that waits.
        mutant[i] = if line.contains("try_wait") {
            "setp.eq.u32 complete, 0, 0;"
        } else {
            ""
        };
        let mutant = mutant.join("\n");
        let reported = (0..3).find_map(|seed| run(&mutant, kernel, shared, seed).err());
        if let Some(report) = reported {
            println!(
                "{kernel}, without line {}, {}:\n{report}\n",
                i + 1,
                line.trim()
            );
            continue;
        }
        // What is not reported must at least be harmless.
        let same = run(&mutant, kernel, shared, 0).is_ok_and(|result| result == expected);
        assert!(
            same,
            "line {}, {}: other numbers, and no report",
            i + 1,
            line.trim()
        );
        missed.push(i + 1);
    }
    missed
}

const ORDERS: [&str; 6] = [
    "bar.sync",
    "cp.async.wait_group",
    "wgmma.wait_group",
    "fence.proxy.async",
    "mbarrier.try_wait",
    "mbarrier.arrive.expect_tx",
];

#[test]
fn of_a_kernel_with_cp_async_and_mma() {
    let text = include_str!("fixtures/causal_sm80.ptx");
    // The barrier at the end of the loop orders what the last one does again, and copies of the last round are empty.
    assert_eq!(unreported(text, "attn", 24_576, &ORDERS), [1084, 1085]);
}

#[test]
fn of_a_kernel_with_cp_async_and_wgmma() {
    let text = include_str!("fixtures/causal_sm90_wgmma.ptx");
    // Both products read what the fence before the first has fenced already, and a warp that waited for a product of its group
    // knows that the whole group has read its operands.
    assert_eq!(unreported(text, "attn", 40_960, &ORDERS), [690, 799]);
}

#[test]
fn of_a_kernel_with_tma() {
    let text = include_str!("fixtures/causal_sm90_tma.ptx");
    // That compiler puts a barrier before and after each use of an mbarrier by one thread: any one of these may go. The fence
    // is for the initialisation of mbarriers, which nothing here reads through the asynchronous proxy.
    let redundant = [
        74, 80, 139, 145, 146, 154, 159, 684, 775, 783, 792, 798, 851,
    ];
    assert_eq!(unreported(text, "attn_tma", 40_992, &ORDERS), redundant);
}
