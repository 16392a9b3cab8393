//! Branches, divergence, calls and barriers.

use ptx_emulator::check::report::Fault;

use crate::harness::{check_lanes, check32, fault, threads};

#[test]
fn divergent_loops_rejoin() {
    // Each lane counts to its own number.
    check_lanes(
        "mov.u32 %r2, 0;\nloop:\nsetp.ge.u32 %p1, %r2, %r1;\n@%p1 bra done;\nadd.u32 %r2, %r2, 1;\nbra.uni loop;\ndone:\n\
         vote.sync.ballot.b32 %r3, 1, 0xffffffff;\npopc.b32 %r3, %r3;\nadd.u32 %r2, %r2, %r3;\nst.global.u32 [%out], %r2;",
        |lane| lane + 32,
    );
}

#[test]
fn both_sides_of_a_branch_run() {
    check_lanes(
        "and.b32 %r2, %r1, 1;\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra even;\nmov.u32 %r3, 100;\nbra join;\neven:\nmov.u32 %r3, 200;\njoin:\nst.global.u32 [%out], %r3;",
        |lane| if lane % 2 == 0 { 200 } else { 100 },
    );
}

#[test]
fn a_jump_table_sends_lanes_apart() {
    check_lanes(
        "and.b32 %r2, %r1, 3;\nts: .branchtargets a, b, a, c;\nbrx.idx %r2, ts;\na:\nmov.u32 %r3, 1;\nbra.uni end;\nb:\nmov.u32 %r3, 2;\nbra.uni end;\nc:\nmov.u32 %r3, 3;\nend:\nst.global.u32 [%out], %r3;",
        |lane| [1, 2, 1, 3][lane as usize % 4],
    );
}

#[test]
fn lanes_exit_early_and_others_go_on() {
    check_lanes(
        "st.global.u32 [%out], 1;\nsetp.ge.u32 %p1, %r1, 20;\n@%p1 exit;\nbar.warp.sync 0xffffffff;\nvote.sync.ballot.b32 %r2, 1, 0xffffffff;\nst.global.u32 [%out], %r2;",
        |lane| if lane < 20 { 0xf_ffff } else { 1 },
    );
}

const SQUARE: &str = ".func (.param .b32 result) square(.param .b32 x)\n{\n.reg .b32 %q<4>;\nld.param.b32 %q1, [x];\nmul.lo.u32 %q2, %q1, %q1;\nst.param.b32 [result], %q2;\nret;\n}\n";

fn call(function: &str, argument: &str, to: &str) -> String {
    format!(
        "{{\n.param .b32 p0;\n.param .b32 q0;\nst.param.b32 [p0], {argument};\ncall.uni (q0), {function}, (p0);\nld.param.b32 {to}, [q0];\n}}\n"
    )
}

#[test]
fn functions_take_and_return_parameters() {
    let body = format!(
        "{}{}st.global.u32 [%out], %r3;",
        call("square", "%r1", "%r2"),
        call("square", "%r2", "%r3")
    );
    assert_eq!(
        threads(SQUARE, &body, 8),
        (0..8).map(|x: u32| x.pow(4)).collect::<Vec<_>>()
    );
}

#[test]
fn functions_call_functions_and_branch() {
    let twice = ".func (.reg .b32 %result) outer(.reg .b32 %x)\n{\n.reg .pred %q;\n.reg .b32 %t;\n\
                 setp.lt.u32 %q, %x, 4;\n@%q bra small;\ncall (%t), inner, (%x);\nadd.u32 %result, %t, 1000;\nret;\nsmall:\nmov.u32 %result, 7;\nret;\n}\n";
    let inner =
        ".func (.reg .b32 %result) inner(.reg .b32 %x)\n{\nadd.u32 %result, %x, %x;\nret;\n}\n";
    let body = "call (%r2), outer, (%r1);\nst.global.u32 [%out], %r2;";
    let found = threads(&format!("{inner}{twice}"), body, 32);
    assert_eq!(
        found,
        (0..32)
            .map(|x| if x < 4 { 7 } else { 2 * x + 1000 })
            .collect::<Vec<u32>>()
    );
}

#[test]
fn calls_go_through_registers() {
    let functions = ".func (.reg .b32 %result) first(.reg .b32 %x)\n{\nadd.u32 %result, %x, 1;\nret;\n}\n\
                     .func (.reg .b32 %result) second(.reg .b32 %x)\n{\nadd.u32 %result, %x, 100;\nret;\n}\n";
    let body = "mov.u64 %rd1, first;\nmov.u64 %rd2, second;\nand.b32 %r2, %r1, 1;\nsetp.eq.u32 %p1, %r2, 0;\nselp.b64 %rd3, %rd1, %rd2, %p1;\n\
                proto: .callprototype (.reg .b32 _) _ (.reg .b32 _);\ncall (%r3), %rd3, (%r1), proto;\nst.global.u32 [%out], %r3;";
    let found = threads(functions, body, 8);
    assert_eq!(found, [1, 101, 3, 103, 5, 105, 7, 107]);
}

#[test]
fn barriers_order_shared_memory() {
    // A reversal within the block, across four warps.
    let body = ".shared .align 4 .b8 buffer[512];\nshl.b32 %r2, %r1, 2;\nst.shared.u32 [%r2], %r1;\nbar.sync 0;\nmov.u32 %r3, 508;\nsub.u32 %r3, %r3, %r2;\nld.shared.u32 %r4, [%r3];\nst.global.u32 [%out], %r4;";
    assert_eq!(threads("", body, 128), (0..128).rev().collect::<Vec<u32>>());
}

#[test]
fn named_barriers_count_threads() {
    // Warp 0 produces, warp 1 consumes; warps 2 and 3 take no part.
    let body = ".shared .align 4 .b8 buffer[128];\nand.b32 %r2, %r1, 31;\nshl.b32 %r2, %r2, 2;\nst.global.u32 [%out], 0;\n\
                setp.ge.u32 %p1, %r1, 64;\n@%p1 bra end;\nsetp.ge.u32 %p2, %r1, 32;\n@%p2 bra consumer;\n\
                st.shared.u32 [%r2], %r1;\nbar.arrive 3, 64;\nbra.uni end;\nconsumer:\nbar.sync 3, 64;\nld.shared.u32 %r3, [%r2];\nadd.u32 %r3, %r3, 1;\nst.global.u32 [%out], %r3;\nend:";
    let found = threads("", body, 128);
    assert_eq!(found[32..64], (1..=32).collect::<Vec<u32>>());
}

#[test]
fn barriers_reduce() {
    let body = "setp.lt.u32 %p1, %r1, 40;\nbar.red.popc.u32 %r2, 0, %p1;\nbar.red.and.pred %p2, 0, %p1;\nbar.red.or.pred %p3, 0, %p1;\n\
                selp.u32 %r3, 1000, 0, %p2;\nselp.u32 %r4, 2000, 0, %p3;\nadd.u32 %r2, %r2, %r3;\nadd.u32 %r2, %r2, %r4;\nst.global.u32 [%out], %r2;";
    assert_eq!(threads("", body, 64), vec![2040; 64]);
}

#[test]
fn barriers_do_not_await_warps_that_are_gone() {
    let body = "setp.ge.u32 %p1, %r1, 32;\nst.global.u32 [%out], 9;\n@%p1 exit;\nbar.sync 0;\nst.global.u32 [%out], 8;";
    let found = threads("", body, 96);
    assert!(found[..32].iter().all(|x| *x == 8) && found[32..].iter().all(|x| *x == 9));
}

#[test]
fn lanes_meet_at_different_warp_barriers() {
    check_lanes(
        "setp.lt.u32 %p1, %r1, 16;\n@%p1 bra low;\nbar.warp.sync 0xffffffff;\nmov.u32 %r2, 1;\nbra.uni end;\nlow:\nbar.warp.sync 0xffffffff;\nmov.u32 %r2, 2;\nend:\nst.global.u32 [%out], %r2;",
        |lane| if lane < 16 { 2 } else { 1 },
    );
}

#[test]
fn a_lane_may_wait_for_another_of_its_warp() {
    // Lane 0 spins on what lane 1 writes after the branch.
    check_lanes(
        ".shared .align 4 .b8 flag[4];\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 st.volatile.shared.u32 [flag], 0;\nbar.warp.sync 0xffffffff;\nsetp.ne.u32 %p2, %r1, 0;\n@%p2 bra set;\n\
         spin:\nld.volatile.shared.u32 %r2, [flag];\nsetp.eq.u32 %p3, %r2, 0;\n@%p3 bra spin;\nbra.uni end;\n\
         set:\nsetp.eq.u32 %p4, %r1, 1;\n@%p4 st.volatile.shared.u32 [flag], 1;\nend:\nst.global.u32 [%out], 1;",
        |_| 1,
    );
}

#[test]
fn guards_of_warp_instructions_exclude_lanes() {
    check_lanes(
        "setp.lt.u32 %p1, %r1, 8;\nmov.u32 %r2, 0;\n@%p1 vote.sync.ballot.b32 %r2, 1, 0xff;\nst.global.u32 [%out], %r2;",
        |lane| if lane < 8 { 0xff } else { 0 },
    );
}

#[test]
fn nested_scopes_have_registers_of_their_own() {
    check32(
        "{\n.reg .b32 %r5;\nmov.u32 %r5, 7;\nadd.u32 %r0, %r5, %r1;\n}",
        &[3],
        10,
    );
}

#[test]
fn cluster_barriers_of_one_block() {
    let body = ".shared .align 4 .b8 buffer[256];\nshl.b32 %r2, %r1, 2;\nst.shared.u32 [%r2], %r1;\nbarrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\nxor.b32 %r3, %r2, 128;\nld.shared.u32 %r4, [%r3];\nst.global.u32 [%out], %r4;";
    assert_eq!(
        threads("", body, 64),
        (0..64).map(|t| t ^ 32).collect::<Vec<u32>>()
    );
}

#[test]
fn printing_does_nothing_and_failed_assertions_trap() {
    let declarations = ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n.extern .func __assertfail(.param .b64 a);";
    let body = "{\n.param .b64 p0;\n.param .b64 p1;\n.param .b32 q0;\nst.param.b64 [p0], 0;\nst.param.b64 [p1], 0;\ncall (q0), vprintf, (p0, p1);\nld.param.b32 %r2, [q0];\n}\n\
                add.u32 %r2, %r2, %r1;\nst.global.u32 [%out], %r2;\nsetp.lt.u32 %p1, %r1, LIMIT;\n@%p1 bra fine;\n{\n.param .b64 p2;\nst.param.b64 [p2], 0;\ncall __assertfail, (p2);\n}\nfine:";
    let found = threads(declarations, &body.replace("LIMIT", "8"), 8);
    assert_eq!(found, (0..8).collect::<Vec<u32>>());
    let report = fault(declarations, &body.replace("LIMIT", "5"), 8);
    assert_eq!(report.fault, Fault::Trap);
    assert_eq!(
        (report.lane, report.text.as_str()),
        (Some(5), "call __assertfail, (p2);")
    );
}
