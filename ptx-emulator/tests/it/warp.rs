//! Exchanges between lanes.

use crate::harness::check_lanes;

const STORE: &str = "\nst.global.u32 [%out], %r2;";

fn check(body: &str, expected: impl Fn(u32) -> u32) {
    check_lanes(&format!("{body}{STORE}"), expected);
}

#[test]
fn shuffles_of_whole_warps() {
    check("shfl.sync.bfly.b32 %r2, %r1, 5, 31, 0xffffffff;", |lane| {
        lane ^ 5
    });
    check("shfl.sync.idx.b32 %r2, %r1, 7, 31, -1;", |_| 7);
    check("shfl.sync.up.b32 %r2, %r1, 3, 0, -1;", |lane| {
        if lane >= 3 { lane - 3 } else { lane }
    });
    check("shfl.sync.down.b32 %r2, %r1, 3, 31, -1;", |lane| {
        if lane + 3 < 32 { lane + 3 } else { lane }
    });
}

#[test]
fn shuffles_of_segments() {
    // Width 8: the clamp is 31 and the segment mask 24, both in the operand c.
    check("shfl.sync.idx.b32 %r2, %r1, 2, 0x181f, -1;", |lane| {
        lane / 8 * 8 + 2
    });
    check("shfl.sync.down.b32 %r2, %r1, 3, 0x181f, -1;", |lane| {
        if lane % 8 + 3 < 8 { lane + 3 } else { lane }
    });
    check("shfl.sync.up.b32 %r2, %r1, 3, 0x1800, -1;", |lane| {
        if lane % 8 >= 3 { lane - 3 } else { lane }
    });
    check("shfl.sync.bfly.b32 %r2, %r1, 9, 0x181f, -1;", |lane| {
        if (lane ^ 9) / 8 > lane / 8 {
            lane
        } else {
            lane ^ 9
        }
    });
    check(
        "shfl.sync.down.b32 %r2|%p1, %r1, 30, 31, -1;\nselp.u32 %r2, 1, 0, %p1;",
        |lane| u32::from(lane < 2),
    );
    check(
        "rem.u32 %r3, %r1, 5;\nshfl.sync.idx.b32 %r2, %r1, %r3, 31, -1;",
        |lane| lane % 5,
    );
}

#[test]
fn votes() {
    check(
        "setp.lt.u32 %p1, %r1, 5;\nvote.sync.ballot.b32 %r2, %p1, -1;",
        |_| 0b11111,
    );
    check(
        "setp.lt.u32 %p1, %r1, 5;\nvote.sync.ballot.b32 %r2, !%p1, -1;",
        |_| !0b11111,
    );
    check(
        "setp.lt.u32 %p1, %r1, 5;\nvote.sync.any.pred %p2, %p1, -1;\nselp.u32 %r2, 1, 0, %p2;",
        |_| 1,
    );
    check(
        "setp.lt.u32 %p1, %r1, 5;\nvote.sync.all.pred %p2, %p1, -1;\nselp.u32 %r2, 1, 0, %p2;",
        |_| 0,
    );
    check(
        "setp.lt.u32 %p1, %r1, 50;\nvote.sync.uni.pred %p2, %p1, -1;\nselp.u32 %r2, 1, 0, %p2;",
        |_| 1,
    );
}

#[test]
fn halves_of_a_warp_vote_apart() {
    check(
        "setp.lt.u32 %p1, %r1, 16;\nselp.b32 %r3, 0xffff, 0xffff0000, %p1;\nvote.sync.ballot.b32 %r2, 1, %r3;",
        |lane| if lane < 16 { 0xffff } else { 0xffff_0000 },
    );
}

#[test]
fn matches() {
    let multiples = |residue: u32| {
        (0..32)
            .filter(|lane| lane % 3 == residue)
            .map(|lane| 1u32 << lane)
            .sum::<u32>()
    };
    check(
        "rem.u32 %r3, %r1, 3;\nmatch.any.sync.b32 %r2, %r3, -1;",
        |lane| multiples(lane % 3),
    );
    check(
        "mov.u32 %r3, 7;\nmatch.all.sync.b32 %r2|%p1, %r3, -1;",
        |_| u32::MAX,
    );
    check("match.all.sync.b32 %r2|%p1, %r1, -1;", |_| 0);
    check(
        "rem.u32 %r3, %r1, 3;\ncvt.u64.u32 %rd1, %r3;\nmatch.any.sync.b64 %r2, %rd1, -1;",
        |lane| multiples(lane % 3),
    );
}

#[test]
fn reductions() {
    check("redux.sync.add.s32 %r2, %r1, -1;", |_| 496);
    check(
        "sub.s32 %r3, %r1, 10;\nredux.sync.min.s32 %r2, %r3, -1;",
        |_| (-10i32) as u32,
    );
    check(
        "sub.s32 %r3, %r1, 10;\nredux.sync.max.u32 %r2, %r3, -1;",
        |_| u32::MAX,
    );
    check("redux.sync.or.b32 %r2, %r1, -1;", |_| 31);
    check("redux.sync.xor.b32 %r2, %r1, -1;", |_| 0);
    check("redux.sync.and.b32 %r2, %r1, -1;", |_| 0);
    check(
        "cvt.rn.f32.u32 %r3, %r1;\nneg.f32 %r3, %r3;\nredux.sync.min.f32 %r2, %r3, -1;",
        |_| (-31f32).to_bits(),
    );
    check(
        "cvt.rn.f32.u32 %r3, %r1;\nneg.f32 %r3, %r3;\nredux.sync.max.abs.f32 %r2, %r3, -1;",
        |_| 31f32.to_bits(),
    );
}

#[test]
fn one_lane_is_elected() {
    check(
        "elect.sync %r3|%p1, -1;\nselp.u32 %r2, 1, 0, %p1;",
        |lane| u32::from(lane == 0),
    );
    check("activemask.b32 %r2;", |_| u32::MAX);
}

#[test]
fn matrices_move_through_shared_memory() {
    // 8 x 8 elements, each of its row and column; lane l gets row l / 4, columns 2 (l % 4) and 2 (l % 4) + 1.
    let fill = ".shared .align 16 .b8 tile[128];\nshl.b32 %r3, %r1, 2;\nshr.u32 %r4, %r1, 2;\nand.b32 %r5, %r1, 3;\nshl.b32 %r4, %r4, 8;\nshl.b32 %r5, %r5, 1;\nor.b32 %r4, %r4, %r5;\n\
                add.u32 %r5, %r4, 1;\nshl.b32 %r5, %r5, 16;\nor.b32 %r6, %r4, %r5;\nst.shared.u32 [%r3], %r6;\nbar.sync 0;\nand.b32 %r7, %r1, 7;\nshl.b32 %r7, %r7, 4;\n";
    let pair = |low: u32, high: u32| high << 16 | low;
    check(
        &format!("{fill}ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r2}}, [%r7];"),
        |lane| {
            let (row, column) = (lane / 4, 2 * (lane % 4));
            pair(row << 8 | column, row << 8 | (column + 1))
        },
    );
    let transposed = |lane: u32| {
        let (row, column) = (lane / 4, 2 * (lane % 4));
        pair(column << 8 | row, (column + 1) << 8 | row)
    };
    check(
        &format!("{fill}ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {{%r2}}, [%r7];"),
        transposed,
    );
    check(
        &format!("{fill}movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r6;"),
        transposed,
    );
    check(
        &format!(
            "{fill}stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%r7], {{%r6}};\nbar.sync 0;\nld.shared.u32 %r2, [%r3];"
        ),
        transposed,
    );
}
