//! Any text is a program or an error; a program's kernels come to their end, are stopped, or are refused.
#![no_main]

use std::time::{Duration, Instant};

use libfuzzer_sys::fuzz_target;
use ptx_emulator::{Launch, Memory, Options, Program};

/// Most instructions of a block, so that an endless loop is no find.
const INSTRUCTIONS: u64 = 2000;

/// Bytes of the memory that every parameter points to.
const BUFFER_BYTES: usize = 4096;

/// Longest launch.
const LONGEST: Duration = Duration::from_secs(5);

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let program = match Program::from_text(text) {
        Ok(program) => program,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let names: Vec<_> = program.kernels().map(str::to_owned).collect();
    for kernel in names.iter().take(4) {
        let memory = Memory::new();
        let buffer = memory.alloc_from(&[1; BUFFER_BYTES]);
        // Whatever the parameters are, their words are addresses.
        let params = buffer.to_le_bytes().repeat(64);
        let launch = Launch {
            kernel,
            grid: [2, 1, 1],
            block: [40, 1, 1],
            dynamic_shared_bytes: 4096,
            params: &params,
        };
        let options = Options {
            seed: bytes.len() as u64,
            threads: 1,
            instruction_limit: INSTRUCTIONS,
            profile: true,
            ..Options::default()
        };
        let start = Instant::now();
        match program.launch(&memory, &launch, &options) {
            Ok(counters) => assert_eq!(counters.blocks, 2),
            Err(report) => assert!(!report.to_string().is_empty()),
        }
        assert!(
            start.elapsed() < LONGEST,
            "a launch of few instructions is short"
        );
    }
});
