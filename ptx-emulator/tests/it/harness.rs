//! Kernels around a few instructions.

use std::fmt::Write;

use ptx_emulator::{Checks, Launch, Memory, Options, Program, Report};

/// A kernel that loads up to four numbers, runs `body`, and stores `%r0`, `%h0`, `%rd0` and `%p0`.
///
/// Inputs stand in `%rd1` to `%rd4`, their lower 32 bits in `%r1` to `%r4`, their lower 16 in `%h1` to `%h4`; `%p1` to `%p4` hold where
/// they are not 0.
fn kernel(body: &str) -> String {
    let mut text = String::from(
        ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry test(.param .u64 in, .param .u64 out)\n{\n\
         .reg .pred %p<16>;\n.reg .b16 %h<32>;\n.reg .b32 %r<32>;\n.reg .b64 %rd<32>;\n.reg .b64 %in, %out;\n\
         ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\n",
    );
    for i in 1..=4 {
        let offset = 8 * (i - 1);
        write!(
            text,
            "ld.global.u64 %rd{i}, [%in+{offset}];\ncvt.u32.u64 %r{i}, %rd{i};\ncvt.u16.u64 %h{i}, %rd{i};\nsetp.ne.u64 %p{i}, %rd{i}, 0;\n"
        )
        .expect("strings take everything");
    }
    text += "mov.u32 %r0, 0xabababab;\nmov.u64 %rd0, 0xabababababababab;\nmov.u16 %h0, 0xabab;\nmov.pred %p0, 0;\n";
    text += body;
    text += "\nselp.u32 %r31, 1, 0, %p0;\nst.global.u64 [%out], %rd0;\nst.global.u32 [%out+8], %r0;\nst.global.u16 [%out+12], %h0;\n\
             st.global.u8 [%out+14], %r31;\nret;\n}\n";
    text
}

/// What a body leaves in `%rd0`, `%r0`, `%h0` and `%p0`.
struct Results {
    wide: u64,
    narrow: u32,
    half: u16,
    predicate: bool,
}

#[track_caller]
fn run(body: &str, inputs: &[u64]) -> Results {
    let text = kernel(body);
    let program = Program::from_text(&text).unwrap_or_else(|error| panic!("{body}: {error:?}"));
    let memory = Memory::new();
    let mut padded = inputs.to_vec();
    padded.resize(4, 0);
    let input = memory.alloc_from(
        &padded
            .iter()
            .flat_map(|x| x.to_le_bytes())
            .collect::<Vec<_>>(),
    );
    let output = memory.alloc(16).unwrap();
    let params: Vec<u8> = [input, output]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let launch = Launch {
        kernel: "test",
        params: &params,
        ..Launch::default()
    };
    program
        .launch(&memory, &launch, &Options::default())
        .unwrap_or_else(|report| panic!("{body}: {report}"));
    let bytes = memory.read(output, 15).unwrap();
    Results {
        wide: u64::from_le_bytes(bytes[..8].try_into().unwrap()),
        narrow: u32::from_le_bytes(bytes[8..12].try_into().unwrap()),
        half: u16::from_le_bytes(bytes[12..14].try_into().unwrap()),
        predicate: bytes[14] == 1,
    }
}

/// Inputs of 32 bits, a result in `%r0`.
#[track_caller]
pub(crate) fn check32(body: &str, inputs: &[u32], expected: u32) {
    let inputs: Vec<u64> = inputs.iter().map(|x| u64::from(*x)).collect();
    let found = run(body, &inputs).narrow;
    assert!(
        found == expected,
        "{body} of {inputs:x?}: expected {expected:#x}, found {found:#x}"
    );
}

/// Inputs of 64 bits, a result in `%rd0`.
#[track_caller]
pub(crate) fn check64(body: &str, inputs: &[u64], expected: u64) {
    let found = run(body, inputs).wide;
    assert!(
        found == expected,
        "{body} of {inputs:x?}: expected {expected:#x}, found {found:#x}"
    );
}

/// Inputs of 16 bits, a result in `%h0`.
#[track_caller]
pub(crate) fn check16(body: &str, inputs: &[u16], expected: u16) {
    let inputs: Vec<u64> = inputs.iter().map(|x| u64::from(*x)).collect();
    let found = run(body, &inputs).half;
    assert!(
        found == expected,
        "{body} of {inputs:x?}: expected {expected:#x}, found {found:#x}"
    );
}

/// A result in `%p0`.
#[track_caller]
pub(crate) fn check_predicate(body: &str, inputs: &[u64], expected: bool) {
    let found = run(body, inputs).predicate;
    assert!(
        found == expected,
        "{body} of {inputs:x?}: expected {expected}, found {found}"
    );
}

/// `f32` in and out; NaN must be the canonical one.
#[track_caller]
pub(crate) fn check_f32(body: &str, inputs: &[f32], expected: f32) {
    let bits: Vec<u32> = inputs.iter().map(|x| x.to_bits()).collect();
    let expected = if expected.is_nan() {
        0x7fff_ffff
    } else {
        expected.to_bits()
    };
    check32(body, &bits, expected);
}

/// `f64` in and out.
#[track_caller]
pub(crate) fn check_f64(body: &str, inputs: &[f64], expected: f64) {
    let bits: Vec<u64> = inputs.iter().map(|x| x.to_bits()).collect();
    check64(body, &bits, expected.to_bits());
}

/// A whole program of one kernel, `test(.param .u64 out)`, given its body and what stands before it.
pub(crate) fn program(declarations: &str, body: &str) -> Program {
    let text = format!(
        ".version 8.7\n.target sm_90a\n.address_size 64\n{declarations}\n.visible .entry test(.param .u64 out)\n{{\n\
         .reg .pred %p<16>;\n.reg .b16 %h<32>;\n.reg .b32 %r<64>;\n.reg .b64 %rd<32>;\n.reg .b64 %out;\n\
         ld.param.u64 %out, [out];\nmov.u32 %r1, %tid.x;\nmad.wide.u32 %out, %r1, 4, %out;\n{body}\nret;\n}}\n"
    );
    Program::from_text(&text).unwrap_or_else(|error| panic!("{error:?}\n{text}"))
}

/// Runs `program` on one block of so many threads; the word that each stored at `[%out]`.
pub(crate) fn threads_with(
    program: &Program,
    threads: u32,
    options: &Options,
) -> Result<Vec<u32>, Box<Report>> {
    let memory = Memory::new();
    let out = memory.alloc_from(&vec![0; 4 * threads as usize]);
    let launch = Launch {
        kernel: "test",
        block: [threads, 1, 1],
        params: &out.to_le_bytes(),
        dynamic_shared_bytes: 1024,
        ..Launch::default()
    };
    program.launch(&memory, &launch, options)?;
    let bytes = memory.read(out, 4 * threads as usize).unwrap();
    Ok(bytes
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect())
}

/// The word that each of so many threads stored at `[%out]`, the same for several schedules.
#[track_caller]
pub(crate) fn threads(declarations: &str, body: &str, threads: u32) -> Vec<u32> {
    let program = program(declarations, body);
    let run = |seed| {
        let options = Options {
            seed,
            ..Options::default()
        };
        threads_with(&program, threads, &options)
            .unwrap_or_else(|report| panic!("seed {seed}: {report}"))
    };
    let first = run(0);
    for seed in 1..4 {
        assert_eq!(run(seed), first, "seed {seed}");
    }
    first
}

/// What the lanes of one warp store, as a function of the lane.
#[track_caller]
pub(crate) fn check_lanes(body: &str, expected: impl Fn(u32) -> u32) {
    let found = threads("", body, 32);
    let expected: Vec<u32> = (0..32).map(expected).collect();
    assert!(
        found == expected,
        "{body}\nexpected {expected:x?}\nfound    {found:x?}"
    );
}

/// The report of a kernel that has a fault, on so many threads.
#[track_caller]
pub(crate) fn fault(declarations: &str, body: &str, threads: u32) -> Box<Report> {
    let program = program(declarations, body);
    let options = Options {
        checks: Checks::all(),
        instruction_limit: 100_000,
        ..Options::default()
    };
    match threads_with(&program, threads, &options) {
        Ok(_) => panic!("no fault was found in\n{body}"),
        Err(report) => report,
    }
}
