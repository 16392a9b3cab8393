//! Loads, stores, atomics, and state spaces.

use crate::harness::{check_lanes, check32, check64, program, threads, threads_with};
use ptx_emulator::{Checks, Launch, Memory, Options, Program};

const SHARED: &str = ".shared .align 16 .b8 buffer[1024];";

#[test]
fn widths_and_vectors_of_shared_memory() {
    check_lanes(
        ".shared .align 16 .b8 own[512];\nmov.u64 %rd1, own;\nmad.wide.u32 %rd1, %r1, 16, %rd1;\n\
         st.shared.v4.u32 [%rd1], {%r1, 2, 3, 4};\nld.shared.v2.u64 {%rd2, %rd3}, [%rd1];\n\
         cvt.u32.u64 %r2, %rd2;\nshr.u64 %rd3, %rd3, 32;\ncvt.u32.u64 %r3, %rd3;\nadd.u32 %r2, %r2, %r3;\nst.global.u32 [%out], %r2;",
        |lane| lane + 4,
    );
    check_lanes(
        ".shared .align 4 .b8 own[128];\nmov.u32 %r2, own;\nmad.lo.u32 %r2, %r1, 4, %r2;\n\
         st.shared.u8 [%r2], 0x81;\nst.shared.u8 [%r2+1], %r1;\nst.shared.u16 [%r2+2], 0xfffe;\n\
         ld.shared.s8 %r3, [%r2];\nld.shared.u8 %r4, [%r2+1];\nld.shared.s16 %r5, [%r2+2];\n\
         add.s32 %r3, %r3, %r4;\nadd.s32 %r3, %r3, %r5;\nst.global.u32 [%out], %r3;",
        |lane| (lane as i32 - 127 - 2) as u32,
    );
    check_lanes(
        ".shared .align 4 .b8 own[128];\nmov.u32 %r2, own;\nmad.lo.u32 %r2, %r1, 4, %r2;\nmov.u16 %h1, 7;\nmov.u16 %h2, 9;\n\
         st.shared.v2.b16 [%r2], {%h1, %h2};\nld.shared.u32 %r3, [%r2];\nst.global.u32 [%out], %r3;",
        |_| 0x0009_0007,
    );
    check_lanes(
        ".shared .align 4 .b8 own[128];\nmov.u32 %r2, own;\nmad.lo.u32 %r2, %r1, 4, %r2;\n\
         st.shared.u32 [%r2], 0x04030201;\nld.shared.v4.u8 {%h1, %h2, %h3, %h4}, [%r2];\n\
         cvt.u32.u16 %r3, %h1;\ncvt.u32.u16 %r4, %h4;\nmad.lo.u32 %r3, %r3, 10, %r4;\nst.global.u32 [%out], %r3;",
        |_| 14,
    );
}

#[test]
fn generic_addresses_reach_every_space() {
    check_lanes(
        ".shared .align 4 .b8 own[128];\n.local .align 4 .b8 mine[4];\nmov.u64 %rd1, own;\ncvta.shared.u64 %rd1, %rd1;\nmad.wide.u32 %rd1, %r1, 4, %rd1;\n\
         mov.u64 %rd2, mine;\ncvta.local.u64 %rd2, %rd2;\nst.u32 [%rd1], 5;\nst.u32 [%rd2], %r1;\n\
         and.b32 %r2, %r1, 1;\nsetp.eq.u32 %p1, %r2, 0;\nselp.b64 %rd3, %rd1, %rd2, %p1;\nld.u32 %r3, [%rd3];\nst.u32 [%out], %r3;",
        |lane| if lane % 2 == 0 { 5 } else { lane },
    );
    check_lanes(
        ".shared .align 4 .b8 own[4];\nmov.u64 %rd1, own;\ncvta.shared.u64 %rd1, %rd1;\nisspacep.shared %p1, %rd1;\nisspacep.global %p2, %rd1;\nisspacep.global %p3, %out;\n\
         cvta.to.shared.u64 %rd2, %rd1;\nselp.u32 %r2, 1, 0, %p1;\nselp.u32 %r3, 10, 0, %p2;\nselp.u32 %r4, 100, 0, %p3;\nadd.u32 %r2, %r2, %r3;\nadd.u32 %r2, %r2, %r4;\n\
         cvt.u32.u64 %r5, %rd2;\nadd.u32 %r2, %r2, %r5;\nst.global.u32 [%out], %r2;",
        |_| 101,
    );
}

#[test]
fn local_memory_is_each_lanes_own() {
    check_lanes(
        ".local .align 8 .b8 mine[64];\nmov.u64 %rd1, mine;\nand.b32 %r2, %r1, 7;\nmad.wide.u32 %rd1, %r2, 8, %rd1;\ncvt.u64.u32 %rd2, %r1;\n\
         st.local.u64 [%rd1], %rd2;\nld.local.u64 %rd3, [%rd1];\ncvt.u32.u64 %r3, %rd3;\nst.global.u32 [%out], %r3;",
        |lane| lane,
    );
}

#[test]
fn constants_and_globals_have_initial_values() {
    let declarations =
        ".const .align 4 .u32 table[4] = {10, 20, 30, 40};\n.global .align 4 .u32 counter = 100;";
    let body = "and.b32 %r2, %r1, 3;\nmov.u64 %rd1, table;\nmad.wide.u32 %rd1, %r2, 4, %rd1;\nld.const.u32 %r3, [%rd1];\nld.global.u32 %r4, [counter];\n\
                add.u32 %r3, %r3, %r4;\nst.global.u32 [%out], %r3;";
    let found = threads(declarations, body, 8);
    assert_eq!(found, [110, 120, 130, 140, 110, 120, 130, 140]);
}

#[test]
fn globals_keep_their_values_between_launches() {
    let program = program(
        ".global .align 4 .u32 counter;",
        "atom.global.add.u32 %r2, [counter], 1;\nst.global.u32 [%out], %r2;",
    );
    let memory = Memory::new();
    let out = memory.alloc(4).unwrap();
    for round in 0..3u32 {
        let launch = Launch {
            kernel: "test",
            params: &out.to_le_bytes(),
            ..Launch::default()
        };
        program
            .launch(&memory, &launch, &Options::default())
            .unwrap();
        assert_eq!(memory.read(out, 4).unwrap(), round.to_le_bytes());
    }
    let counter = program.global(&memory, "counter").unwrap();
    assert_eq!(memory.read(counter, 4).unwrap(), 3u32.to_le_bytes());
    assert_eq!(program.global(&memory, "other"), None);
    assert_eq!(
        threads_with(&program, 1, &Options::default()).unwrap(),
        [0],
        "another memory has its own"
    );
}

#[test]
fn atomics_return_what_was_there() {
    let one = |instruction: &str, start: u32, operand: u32, old: u32, new: u32| {
        for (declare, space) in [
            (
                ".shared .align 8 .b8 cell[8];\nmov.u64 %rd1, cell;",
                "shared",
            ),
            ("mov.u64 %rd1, %out;", "global"),
        ] {
            let text = instruction.replace("SPACE", space);
            let body = format!(
                "{declare}\nst.{space}.u32 [%rd1], %r1;\n{text}\nld.{space}.u32 %r6, [%rd1];\nmov.b64 %rd0, {{%r6, %r5}};"
            );
            check64(
                &body,
                &[start.into(), operand.into()],
                u64::from(old) << 32 | u64::from(new),
            );
        }
    };
    one("atom.SPACE.add.u32 %r5, [%rd1], %r2;", 5, 7, 5, 12);
    one(
        "atom.SPACE.min.s32 %r5, [%rd1], %r2;",
        5,
        u32::MAX,
        5,
        u32::MAX,
    );
    one("atom.SPACE.min.u32 %r5, [%rd1], %r2;", 5, u32::MAX, 5, 5);
    one("atom.SPACE.max.s32 %r5, [%rd1], %r2;", 5, u32::MAX, 5, 5);
    one(
        "atom.SPACE.and.b32 %r5, [%rd1], %r2;",
        0b1100,
        0b1010,
        0b1100,
        0b1000,
    );
    one(
        "atom.SPACE.or.b32 %r5, [%rd1], %r2;",
        0b1100,
        0b1010,
        0b1100,
        0b1110,
    );
    one(
        "atom.SPACE.xor.b32 %r5, [%rd1], %r2;",
        0b1100,
        0b1010,
        0b1100,
        0b0110,
    );
    one("atom.SPACE.exch.b32 %r5, [%rd1], %r2;", 1, 2, 1, 2);
    one("atom.SPACE.cas.b32 %r5, [%rd1], 1, %r2;", 1, 9, 1, 9);
    one("atom.SPACE.cas.b32 %r5, [%rd1], 2, %r2;", 1, 9, 1, 1);
    one("atom.SPACE.inc.u32 %r5, [%rd1], %r2;", 3, 3, 3, 0);
    one("atom.SPACE.inc.u32 %r5, [%rd1], %r2;", 2, 3, 2, 3);
    one("atom.SPACE.dec.u32 %r5, [%rd1], %r2;", 0, 3, 0, 3);
    one(
        "atom.relaxed.gpu.SPACE.add.f32 %r5, [%rd1], %r2;",
        1f32.to_bits(),
        2f32.to_bits(),
        1f32.to_bits(),
        3f32.to_bits(),
    );
    one(
        "atom.SPACE.add.noftz.f16x2 %r5, [%rd1], %r2;",
        0x3c00_4000,
        0x3c00_3c00,
        0x3c00_4000,
        0x4000_4200,
    );
    one(
        "atom.SPACE.add.noftz.bf16x2 %r5, [%rd1], %r2;",
        0x3f80_4000,
        0x3f80_3f80,
        0x3f80_4000,
        0x4000_4040,
    );
}

#[test]
fn reductions_by_all_lanes_add_up() {
    check_lanes(
        ".shared .align 8 .b8 cell[8];\nsetp.eq.u32 %p1, %r1, 0;\nmov.u64 %rd1, 0;\n@%p1 st.shared.u64 [cell], %rd1;\nbar.sync 0;\n\
         cvt.u64.u32 %rd2, %r1;\nred.shared.add.u64 [cell], %rd2;\nbar.sync 0;\nld.shared.u64 %rd3, [cell];\ncvt.u32.u64 %r2, %rd3;\nst.global.u32 [%out], %r2;",
        |_| 31 * 16,
    );
}

#[test]
fn blocks_add_to_one_word_from_many_threads() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry test(.param .u64 p) { .reg .b64 %rd<4>; .reg .b32 %r<4>;\n\
                ld.param.u64 %rd1, [p];\nred.global.add.u32 [%rd1], 1;\nmov.u64 %rd2, 1;\nred.global.add.u64 [%rd1+8], %rd2;\nret; }";
    let program = Program::from_text(text).unwrap();
    let memory = Memory::new();
    let cell = memory.alloc_from(&[0; 16]);
    let launch = Launch {
        kernel: "test",
        grid: [10, 5, 2],
        block: [64, 1, 1],
        params: &cell.to_le_bytes(),
        ..Launch::default()
    };
    let counters = program
        .launch(
            &memory,
            &launch,
            &Options {
                threads: 4,
                ..Options::default()
            },
        )
        .unwrap();
    assert_eq!(memory.read(cell, 4).unwrap(), 6400u32.to_le_bytes());
    assert_eq!(memory.read(cell + 8, 8).unwrap(), 6400u64.to_le_bytes());
    assert_eq!(counters.blocks, 100);
    assert_eq!(counters.by_kind["red.global.add.u32"], 200);
}

#[test]
fn parameters_have_offsets() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry test(.param .u32 a, .param .u64 to, .param .align 8 .b8 s[16]) {\n\
                .reg .b64 %rd<8>; .reg .b32 %r<8>; .reg .b16 %h<4>;\nld.param.u32 %r1, [a];\nld.param.u64 %rd1, [to];\nld.param.u32 %r2, [s+12];\n\
                mov.u64 %rd2, s;\nld.param.u8 %h1, [%rd2+8];\ncvt.u32.u16 %r3, %h1;\nadd.u32 %r1, %r1, %r2;\nadd.u32 %r1, %r1, %r3;\nst.global.u32 [%rd1], %r1;\nret; }";
    let program = Program::from_text(text).unwrap();
    let memory = Memory::new();
    let to = memory.alloc(4).unwrap();
    let mut params = vec![0; 32];
    params[..4].copy_from_slice(&1u32.to_le_bytes());
    params[8..16].copy_from_slice(&to.to_le_bytes());
    params[24] = 100;
    params[28..].copy_from_slice(&10u32.to_le_bytes());
    program
        .launch(
            &memory,
            &Launch {
                kernel: "test",
                params: &params,
                ..Launch::default()
            },
            &Options::default(),
        )
        .unwrap();
    assert_eq!(memory.read(to, 4).unwrap(), 111u32.to_le_bytes());
    let short = program.launch(
        &memory,
        &Launch {
            kernel: "test",
            params: &params[..31],
            ..Launch::default()
        },
        &Options::default(),
    );
    assert!(
        short
            .unwrap_err()
            .to_string()
            .contains("32 bytes of parameters")
    );
}

#[test]
fn hints_and_fences_change_nothing() {
    check32(
        "mov.u64 %rd1, %out;\nst.global.wb.u32 [%rd1], 5;\nmembar.gl;\nfence.acq_rel.gpu;\nfence.sc.sys;\nprefetch.global.L2 [%rd1];\n\
         ld.global.cg.L1::evict_last.L2::128B.u32 %r0, [%rd1];\nnanosleep.u32 10;",
        &[],
        5,
    );
    check32(
        "st.release.gpu.global.u32 [%out], 6;\nld.acquire.gpu.global.u32 %r0, [%out];",
        &[],
        6,
    );
    check32(
        "st.volatile.global.u32 [%out], 7;\nld.relaxed.sys.global.u32 %r0, [%out];",
        &[],
        7,
    );
}

#[test]
fn counters_tell_what_memory_did() {
    let program = program(
        SHARED,
        "mov.u32 %r5, buffer;\nshl.b32 %r2, %r1, 2;\nst.shared.u32 [%r2], %r1;\nbar.sync 0;\nshl.b32 %r3, %r1, 5;\nld.shared.u32 %r4, [%r2];\nst.global.u32 [%out], %r4;",
    );
    let memory = Memory::new();
    let out = memory.alloc(128).unwrap();
    let launch = Launch {
        kernel: "test",
        block: [32, 1, 1],
        params: &out.to_le_bytes(),
        ..Launch::default()
    };
    let options = Options {
        checks: Checks::none(),
        profile: true,
        ..Options::default()
    };
    let counters = program.launch(&memory, &launch, &options).unwrap();
    assert_eq!((counters.shared.read, counters.shared.written), (128, 128));
    assert_eq!((counters.global.read, counters.global.written), (0, 128));
    assert_eq!(
        (counters.global_sectors, counters.ideal_global_sectors),
        (4, 4)
    );
    assert_eq!((counters.bank_conflicts, counters.barrier_waits), (0, 1));
    assert_eq!(
        counters.by_line.values().sum::<u64>(),
        counters.instructions
    );
}
