//! What is reported, and where.

use ptx_emulator::check::report::Fault;
use ptx_emulator::{Error, Launch, Memory, Options, Program};

use crate::harness::fault;

#[track_caller]
fn decode_error(body: &str) -> String {
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.entry test()\n{{\n.reg .pred %p<4>;\n.reg .b32 %r<4>;\n.reg .b64 %rd<4>;\n{body}\nret;\n}}\n"
    );
    match Program::from_text(&text) {
        Err(Error::Decode(error)) => error.to_string(),
        other => panic!("{body}: {other:?}"),
    }
}

#[test]
fn unknown_spellings_are_errors_with_their_line() {
    assert_eq!(
        decode_error("frobnicate.u32 %r0, %r1;"),
        "line 9: unknown instruction frobnicate.u32: `frobnicate.u32 %r0, %r1;`"
    );
    assert_eq!(
        decode_error("add.wide.u32 %r0, %r1, %r2;"),
        "line 9: unknown instruction add.wide.u32: `add.wide.u32 %r0, %r1, %r2;`"
    );
    assert_eq!(
        decode_error("add.u32.blue %r0, %r1, %r2;"),
        "line 9: unexpected qualifier .blue: `add.u32.blue %r0, %r1, %r2;`"
    );
    assert_eq!(
        decode_error("add.u32 %r0, %r1;"),
        "line 9: expected 2 operands, found 1: `add.u32 %r0, %r1;`"
    );
    assert_eq!(
        decode_error("add.u32 %r0, %rd1, %r2;"),
        "line 9: expected an operand of at most 32 bits, found a register of 64 bits: `add.u32 %r0, %rd1, %r2;`"
    );
    assert_eq!(
        decode_error("mov.u32 %r0, %pm0;"),
        "line 9: unknown special register %pm0: `mov.u32 %r0, %pm0;`"
    );
    assert_eq!(
        decode_error("shfl.bfly.b32 %r0, %r1, 1, 31;"),
        "line 9: expected .sync, found bfly.b32: `shfl.bfly.b32 %r0, %r1, 1, 31;`"
    );
    assert_eq!(
        decode_error("setmaxnreg.inc.sync.aligned.u32 100;"),
        "line 9: expected a multiple of 8 from 24 to 256, found 100: `setmaxnreg.inc.sync.aligned.u32 100;`"
    );
}

#[test]
fn recursion_is_refused() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.func f() { call f; ret; }\n.entry test() { call f; ret; }\n";
    let error = Program::from_text(text).unwrap_err();
    let Error::Decode(error) = error else {
        panic!("{error:?}")
    };
    assert_eq!(
        error.to_string(),
        "line 4: recursive function f is not supported: `.func f() { call f; ret; }`"
    );
}

#[test]
fn bounds_and_alignment() {
    let report = fault(
        "",
        "st.global.u32 [%out], 1;\nsetp.eq.u32 %p1, %r1, 5;\n@%p1 ld.global.u32 %r2, [%out+1000];",
        32,
    );
    assert!(
        matches!(report.fault, Fault::OutOfBounds { bytes: 4, .. }),
        "{report}"
    );
    assert_eq!(
        (report.lane, report.text.as_str()),
        (Some(5), "@%p1 ld.global.u32 %r2, [%out+1000];")
    );
    let report = fault("", "ld.global.v2.u32 {%r2, %r3}, [%out+4];", 32);
    assert!(
        matches!(
            report.fault,
            Fault::Misaligned {
                expected: 8,
                found: 4
            }
        ),
        "{report}"
    );
    let report = fault(
        ".shared .align 4 .b8 buffer[64];",
        "st.shared.u32 [buffer+2000], 1;",
        1,
    );
    assert!(
        matches!(report.fault, Fault::OutOfBounds { .. }),
        "{report}"
    );
    let report = fault(".const .u32 c;", "ld.const.u32 %r2, [c+4];", 1);
    assert!(
        matches!(report.fault, Fault::OutOfBounds { .. }),
        "{report}"
    );
    let report = fault(
        "",
        ".local .align 4 .b8 mine[4];\nst.local.u32 [mine+16], 1;",
        1,
    );
    assert!(
        matches!(report.fault, Fault::OutOfBounds { .. }),
        "{report}"
    );
}

#[test]
fn reads_of_what_nothing_wrote() {
    let report = fault(
        "",
        ".shared .align 4 .b8 buffer[64];\nld.shared.u32 %r2, [buffer];\nst.global.u32 [%out], %r2;",
        1,
    );
    assert!(
        matches!(report.fault, Fault::Uninitialised { .. }),
        "{report}"
    );
    let report = fault(
        "",
        ".local .align 4 .b8 mine[8];\nst.local.u32 [mine], 1;\nld.local.u64 %rd2, [mine];",
        1,
    );
    assert!(
        matches!(report.fault, Fault::Uninitialised { .. }),
        "{report}"
    );
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.entry test(.param .u64 p) { .reg .b64 %rd<4>; .reg .b32 %r<4>;\nld.param.u64 %rd1, [p];\nld.global.u32 %r1, [%rd1];\nst.global.u32 [%rd1], %r1;\nret; }";
    let program = Program::from_text(text).unwrap();
    let memory = Memory::new();
    let address = memory.alloc(4).unwrap();
    let launch = Launch {
        kernel: "test",
        params: &address.to_le_bytes(),
        ..Launch::default()
    };
    let report = program
        .launch(&memory, &launch, &Options::default())
        .unwrap_err();
    assert!(
        matches!(report.fault, Fault::Uninitialised { bytes: 4 }),
        "{report}"
    );
    memory.write(address, &[1, 2, 3, 4]).unwrap();
    program
        .launch(&memory, &launch, &Options::default())
        .unwrap();
    memory.forget(address + 3, 1).unwrap();
    assert!(
        program
            .launch(&memory, &launch, &Options::default())
            .is_err()
    );
}

#[test]
fn missing_barriers_are_races() {
    let body = "shl.b32 %r2, %r1, 2;\nst.shared.u32 [%r2], %r1;\nxor.b32 %r3, %r2, 128;\nld.shared.u32 %r4, [%r3];\nst.global.u32 [%out], %r4;";
    let report = fault(
        ".shared .align 4 .b8 buffer[256];",
        &format!("mov.u32 %r5, buffer;\n{body}"),
        64,
    );
    assert!(
        matches!(
            report.fault,
            Fault::SharedRace { .. } | Fault::Uninitialised { .. }
        ),
        "{report}"
    );
    let within = body.replace("128", "4");
    let report = fault(
        ".shared .align 4 .b8 buffer[256];",
        &format!("mov.u32 %r5, buffer;\n{within}"),
        32,
    );
    assert!(matches!(report.fault, Fault::WarpRace { .. }), "{report}");
}

#[test]
fn deadlocks_name_who_waits() {
    let report = fault(
        "",
        "setp.lt.u32 %p1, %r1, 32;\n@%p1 bar.sync 1, 96;\n@!%p1 bar.sync 2, 64;",
        64,
    );
    let Fault::Deadlock { waiters } = &report.fault else {
        panic!("{report}")
    };
    assert_eq!(waiters.len(), 2);
    assert_eq!(waiters[0].what, "barrier 1, 32 of 96 threads arrived");
    let report = fault(
        "",
        "setp.lt.u32 %p1, %r1, 16;\n@%p1 bra a;\nbar.sync 0;\nbra.uni end;\na:\nbar.sync 0;\nend:",
        32,
    );
    let Fault::Deadlock { waiters } = &report.fault else {
        panic!("{report}")
    };
    assert_eq!(waiters.len(), 2, "{report}");
}

#[test]
fn barrier_misuse() {
    assert!(
        fault("", "bar.sync 16;", 32)
            .to_string()
            .contains("barrier number below 16")
    );
    assert!(
        fault("", "bar.sync 0, 33;", 64)
            .to_string()
            .contains("multiple of 32")
    );
    let report = fault(
        "",
        "setp.lt.u32 %p1, %r1, 32;\n@%p1 bar.sync 1, 64;\n@!%p1 bar.sync 1, 96;",
        64,
    );
    assert!(
        matches!(report.fault, Fault::BarrierCount { .. }),
        "{report}"
    );
}

#[test]
fn exchanges_with_lanes_that_take_no_part() {
    let report = fault(
        "",
        "setp.lt.u32 %p1, %r1, 16;\n@%p1 shfl.sync.idx.b32 %r2, %r1, 20, 31, 0xffff;",
        32,
    );
    assert!(
        matches!(report.fault, Fault::InactiveLane { from: 20, .. }),
        "{report}"
    );
    let report = fault("", "vote.sync.ballot.b32 %r2, 1, 0xff;", 32);
    assert!(matches!(report.fault, Fault::MemberMask { .. }), "{report}");
}

#[test]
fn traps_and_endless_loops_end() {
    assert!(matches!(
        fault("", "setp.eq.u32 %p1, %r1, 3;\n@%p1 trap;", 32).fault,
        Fault::Trap
    ));
    assert!(matches!(
        fault("", "again:\nbra again;", 32).fault,
        Fault::StepLimit { .. }
    ));
}

#[test]
fn the_first_block_at_fault_is_reported() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.entry test() { .reg .b32 %r<4>; .reg .pred %p<4>;\nmov.u32 %r1, %ctaid.x;\nsetp.ge.u32 %p1, %r1, 7;\n@%p1 trap;\nret; }";
    let program = Program::from_text(text).unwrap();
    for threads in [1, 2, 4] {
        let launch = Launch {
            kernel: "test",
            grid: [64, 1, 1],
            ..Launch::default()
        };
        let report = program
            .launch(
                &Memory::new(),
                &launch,
                &Options {
                    threads,
                    ..Options::default()
                },
            )
            .unwrap_err();
        assert_eq!(report.block, [7, 0, 0]);
    }
}

#[test]
fn launches_are_checked() {
    let program = Program::from_text(
        ".version 8.0\n.target sm_80\n.address_size 64\n.entry test() .maxntid 64, 1, 1 { ret; }",
    )
    .unwrap();
    let refused = |launch: Launch| {
        program
            .launch(&Memory::new(), &launch, &Options::default())
            .unwrap_err()
            .to_string()
    };
    assert!(
        refused(Launch {
            kernel: "other",
            ..Launch::default()
        })
        .contains("expected one of the kernels test, found other")
    );
    assert!(
        refused(Launch {
            kernel: "test",
            block: [65, 1, 1],
            ..Launch::default()
        })
        .contains("at most 64 threads")
    );
    assert!(
        refused(Launch {
            kernel: "test",
            grid: [1, 0, 1],
            ..Launch::default()
        })
        .contains("a grid without zeros")
    );
}
