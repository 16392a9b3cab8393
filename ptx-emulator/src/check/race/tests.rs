//! The race check on small traces.

use super::*;
use ConflictKind as K;
use RaceKind::{ReadAfterWrite, WriteAfterRead, WriteAfterWrite};

const ALL: u32 = u32::MAX;

fn shadow(threads: u32) -> Shadow {
    Shadow::new(4096, threads, ShadowChecks::ALL)
}

/// Words from `start` on, one per lane.
fn row(start: u32) -> [u32; 32] {
    std::array::from_fn(|i| start + 4 * i as u32)
}

/// The same word for every lane.
fn one(address: u32) -> [u32; 32] {
    [address; 32]
}

type Outcome = Result<(), (ConflictKind, u32)>;

/// The kind of a conflict, and the instruction it is with.
fn brief(result: Result<(), Conflict>) -> Outcome {
    result.map_err(|c| (c.kind, c.pc))
}

fn store(s: &mut Shadow, warp: usize, lanes: u32, at: [u32; 32], pc: u32) -> Outcome {
    brief(s.write(warp, lanes, &at, 4, pc, Strength::Weak, |_, _| false))
}

fn load(s: &mut Shadow, warp: usize, lanes: u32, at: [u32; 32], pc: u32) -> Outcome {
    brief(s.read(warp, lanes, &at, 4, pc, Strength::Weak))
}

fn barrier(s: &mut Shadow, warps: usize) {
    for w in 0..warps {
        s.barrier_arrive(0, w, ALL);
    }
    s.barrier_complete(0, (0..warps).map(|w| (w, ALL)));
}

#[test]
fn own_writes_are_known_and_nothing_else_is() {
    let mut s = shadow(64);
    assert_eq!(store(&mut s, 0, ALL, row(0), 1), Ok(()));
    assert_eq!(load(&mut s, 0, ALL, row(0), 2), Ok(()));
    assert_eq!(
        load(&mut s, 0, ALL, row(128), 2),
        Err((K::Uninitialised, 0))
    );
    assert_eq!(
        load(&mut s, 1, ALL, row(0), 3),
        Err((K::Race(ReadAfterWrite), 1))
    );
    assert_eq!(
        store(&mut s, 1, ALL, row(0), 3),
        Err((K::Race(WriteAfterRead), 2))
    );
    let conflict = s
        .read(1, 1 << 5, &row(0), 4, 3, Strength::Weak)
        .unwrap_err();
    assert_eq!(
        (conflict.address, conflict.lane, conflict.actor),
        (20, 5, Actor::Thread { warp: 0, lane: 5 })
    );
}

#[test]
fn a_barrier_orders_both_ways() {
    let mut s = shadow(64);
    store(&mut s, 0, ALL, row(0), 1).unwrap();
    barrier(&mut s, 2);
    load(&mut s, 1, ALL, row(0), 2).unwrap();
    assert_eq!(
        store(&mut s, 0, ALL, row(0), 3),
        Err((K::Race(WriteAfterRead), 2))
    );
    barrier(&mut s, 2);
    assert_eq!(store(&mut s, 0, ALL, row(0), 4), Ok(()));
    assert_eq!(
        load(&mut s, 1, ALL, row(0), 5),
        Err((K::Race(ReadAfterWrite), 4))
    );
}

#[test]
fn lanes_of_a_warp_need_a_warp_barrier() {
    let mut s = shadow(32);
    let shifted: [u32; 32] = std::array::from_fn(|i| 4 * ((i as u32 + 1) % 32));
    store(&mut s, 0, ALL, row(0), 1).unwrap();
    assert_eq!(
        load(&mut s, 0, ALL, shifted, 2),
        Err((K::WarpRace(ReadAfterWrite), 1))
    );
    s.warp_sync(0, ALL);
    assert_eq!(load(&mut s, 0, ALL, shifted, 2), Ok(()));
    assert_eq!(
        store(&mut s, 0, ALL, row(0), 3),
        Err((K::WarpRace(WriteAfterRead), 2))
    );
    s.warp_sync(0, ALL);
    assert_eq!(store(&mut s, 0, ALL, row(0), 3), Ok(()));
}

#[test]
fn part_of_a_warp_may_meet() {
    let mut s = shadow(32);
    store(&mut s, 0, ALL, row(0), 1).unwrap();
    s.warp_sync(0, 0xffff);
    assert_eq!(load(&mut s, 0, 0x00ff, one(40), 2), Ok(()));
    assert_eq!(
        load(&mut s, 0, 0x00ff, one(80), 2),
        Err((K::WarpRace(ReadAfterWrite), 1))
    );
    assert_eq!(
        load(&mut s, 0, 1 << 31, one(40), 2),
        Err((K::WarpRace(ReadAfterWrite), 1))
    );
    // What half of the warp learned reaches the rest when all meet.
    s.warp_sync(0, ALL);
    assert_eq!(load(&mut s, 0, 1 << 31, one(40), 2), Ok(()));
}

#[test]
fn equal_values_stored_by_one_instruction_do_not_race() {
    let mut s = shadow(32);
    assert_eq!(
        brief(s.write(0, ALL, &one(0), 4, 1, Strength::Weak, |_, _| true)),
        Ok(())
    );
    s.warp_sync(0, ALL);
    assert_eq!(
        brief(s.write(0, ALL, &one(0), 4, 2, Strength::Weak, |_, _| false)),
        Err((K::WarpRace(WriteAfterWrite), 2))
    );
    s.reset(32);
    assert_eq!(
        brief(s.write(0, 1, &one(0), 4, 1, Strength::Weak, |_, _| true)),
        Ok(())
    );
    assert_eq!(
        brief(s.write(0, 2, &one(0), 4, 2, Strength::Weak, |_, _| true)),
        Err((K::WarpRace(WriteAfterWrite), 1))
    );
}

#[test]
fn strong_accesses_race_with_weak_ones_only() {
    let mut s = shadow(64);
    for warp in 0..2 {
        assert_eq!(
            brief(s.write(warp, ALL, &one(0), 4, 1, Strength::Strong, |_, _| false)),
            Ok(())
        );
    }
    assert_eq!(
        brief(s.read(0, ALL, &one(0), 4, 2, Strength::Strong)),
        Ok(())
    );
    assert_eq!(
        load(&mut s, 0, ALL, one(0), 3),
        Err((K::Race(ReadAfterWrite), 1))
    );
    barrier(&mut s, 2);
    assert_eq!(load(&mut s, 0, ALL, one(0), 4), Ok(()));
}

#[test]
fn small_accesses_split_words() {
    let mut s = shadow(64);
    store(&mut s, 0, ALL, row(0), 1).unwrap();
    barrier(&mut s, 2);
    let halves = |odd: u32| std::array::from_fn(|i| 4 * i as u32 + 2 * odd);
    let bytes = |k: u32| std::array::from_fn(|i| 4 * i as u32 + k);
    assert_eq!(
        brief(s.write(0, ALL, &halves(0), 2, 2, Strength::Weak, |_, _| false)),
        Ok(())
    );
    assert_eq!(
        brief(s.write(1, ALL, &halves(1), 2, 3, Strength::Weak, |_, _| false)),
        Ok(())
    );
    assert_eq!(
        brief(s.read(0, ALL, &bytes(1), 1, 4, Strength::Weak)),
        Ok(())
    );
    assert_eq!(
        brief(s.read(0, ALL, &bytes(2), 1, 5, Strength::Weak)),
        Err((K::Race(ReadAfterWrite), 3))
    );
    assert_eq!(
        load(&mut s, 1, ALL, row(0), 6),
        Err((K::Race(ReadAfterWrite), 2))
    );
}

#[test]
fn named_barriers_order_those_that_meet() {
    let mut s = shadow(96);
    store(&mut s, 0, ALL, row(0), 1).unwrap();
    s.barrier_arrive(1, 0, ALL); // bar.arrive
    s.barrier_arrive(1, 1, ALL);
    s.barrier_complete(1, [(1, ALL)]);
    assert_eq!(load(&mut s, 1, ALL, row(0), 2), Ok(()));
    assert_eq!(
        load(&mut s, 2, ALL, row(0), 2),
        Err((K::Race(ReadAfterWrite), 1))
    );
    assert_eq!(
        store(&mut s, 0, ALL, row(0), 3),
        Err((K::Race(WriteAfterRead), 2))
    );
}

#[test]
fn an_mbarrier_orders_arrivals_before_waits() {
    let mut s = shadow(64);
    store(&mut s, 0, ALL, row(0), 1).unwrap();
    s.mbarrier_arrive(1024, 0, 1);
    s.mbarrier_complete(1024);
    s.mbarrier_waited(1024, 1, ALL);
    assert_eq!(load(&mut s, 1, 1, one(0), 2), Ok(()), "lane 0 arrived");
    assert_eq!(
        load(&mut s, 1, 1, one(4), 2),
        Err((K::Race(ReadAfterWrite), 1)),
        "lane 1 did not"
    );
    s.warp_sync(0, ALL);
    s.mbarrier_arrive(1024, 0, 1);
    assert_eq!(
        load(&mut s, 1, 1, one(4), 2),
        Err((K::Race(ReadAfterWrite), 1)),
        "the phase is not complete"
    );
    s.mbarrier_complete(1024);
    s.mbarrier_waited(1024, 1, 1);
    assert_eq!(load(&mut s, 1, 1, one(4), 2), Ok(()));
    assert_eq!(
        load(&mut s, 1, 2, one(8), 2),
        Err((K::Race(ReadAfterWrite), 1)),
        "only lane 0 waited"
    );
    s.warp_sync(1, ALL);
    assert_eq!(load(&mut s, 1, 2, one(8), 2), Ok(()));
}

#[test]
fn an_mbarrier_must_be_seen_initialised() {
    let mut s = shadow(64);
    assert_eq!(
        brief(s.use_mbarrier(0, 1, 0, 5)),
        Err((K::Uninitialised, 0))
    );
    brief(s.write(0, 1, &one(0), 8, 1, Strength::Weak, |_, _| false)).unwrap();
    assert_eq!(brief(s.use_mbarrier(0, 1, 0, 5)), Ok(()));
    assert_eq!(
        brief(s.use_mbarrier(1, ALL, 0, 5)),
        Err((K::Race(ReadAfterWrite), 1))
    );
    barrier(&mut s, 2);
    assert_eq!(brief(s.use_mbarrier(1, ALL, 0, 5)), Ok(()));
}

#[test]
fn an_mbarrier_must_not_be_given_up_while_others_use_it() {
    let mut s = shadow(64);
    brief(s.write(0, 1, &one(0), 8, 1, Strength::Weak, |_, _| false)).unwrap();
    barrier(&mut s, 2);
    brief(s.use_mbarrier(1, ALL, 0, 2)).unwrap();
    let inval = |s: &mut Shadow| brief(s.write(0, 1, &one(0), 8, 3, Strength::Weak, |_, _| false));
    assert_eq!(inval(&mut s), Err((K::Race(WriteAfterRead), 2)));
    barrier(&mut s, 2);
    assert_eq!(inval(&mut s), Ok(()));
}

#[test]
fn a_copy_owns_its_destination_until_it_is_waited_for() {
    let mut s = shadow(64);
    let range = Range { start: 16, len: 16 };
    s.copy_begin(0, 3, range, 1).unwrap();
    assert_eq!(
        load(&mut s, 0, 1 << 3, one(16), 2),
        Err((K::PendingWrite(ReadAfterWrite), 1))
    );
    assert_eq!(
        store(&mut s, 0, 1 << 3, one(28), 2),
        Err((K::PendingWrite(WriteAfterWrite), 1))
    );
    assert_eq!(
        brief(s.copy_begin(0, 3, range, 2)),
        Err((K::PendingWrite(WriteAfterWrite), 1))
    );
    s.copy_waited(0, 3, range);
    assert_eq!(load(&mut s, 0, 1 << 3, one(16), 2), Ok(()));
    assert_eq!(
        load(&mut s, 0, 1 << 4, one(16), 2),
        Err((K::WarpRace(ReadAfterWrite), 1)),
        "each lane waits for its own"
    );
    barrier(&mut s, 2);
    assert_eq!(load(&mut s, 1, ALL, one(16), 2), Ok(()));
    assert_eq!(
        brief(s.copy_begin(0, 3, range, 3)),
        Err((K::Race(WriteAfterRead), 2))
    );
}

#[test]
fn a_bulk_copy_ends_at_its_mbarrier() {
    let mut s = shadow(64);
    let (a, b) = (
        [Range { start: 0, len: 64 }],
        [Range { start: 64, len: 64 }],
    );
    s.bulk_begin(0, 0, &a, 1024, 1).unwrap();
    s.bulk_begin(0, 0, &b, 1032, 2).unwrap();
    assert_eq!(
        load(&mut s, 0, 1, one(0), 3),
        Err((K::PendingWrite(ReadAfterWrite), 1))
    );
    s.bulk_end(&a, 1024);
    s.bulk_end(&b, 1032);
    s.mbarrier_complete(1032);
    s.mbarrier_waited(1032, 1, ALL);
    assert_eq!(load(&mut s, 1, ALL, one(64), 4), Ok(()));
    assert_eq!(
        load(&mut s, 1, ALL, one(0), 5),
        Err((K::Race(ReadAfterWrite), 1)),
        "the other mbarrier was not waited for"
    );
    s.mbarrier_complete(1024);
    s.mbarrier_waited(1024, 1, ALL);
    assert_eq!(load(&mut s, 1, ALL, one(0), 6), Ok(()));
    assert_eq!(
        brief(s.bulk_begin(0, 0, &a, 1024, 7)),
        Err((K::Race(WriteAfterRead), 6)),
        "released too early"
    );
    s.mbarrier_arrive(1040, 1, ALL);
    s.mbarrier_complete(1040);
    s.mbarrier_waited(1040, 0, 1);
    assert_eq!(brief(s.bulk_begin(0, 0, &a, 1024, 8)), Ok(()));
    assert_eq!(
        brief(s.bulk_begin(0, 1, &b, 1024, 8)),
        Err((K::Race(WriteAfterRead), 4)),
        "lane 1 did not wait"
    );
}

#[test]
fn a_cp_async_may_end_at_an_mbarrier() {
    let mut s = shadow(64);
    let range = Range { start: 0, len: 16 };
    s.copy_begin(0, 0, range, 1).unwrap();
    s.copy_arrived(&[range], 1024);
    s.mbarrier_complete(1024);
    assert_eq!(
        load(&mut s, 1, 1, one(0), 2),
        Err((K::Race(ReadAfterWrite), 1))
    );
    s.mbarrier_waited(1024, 1, ALL);
    assert_eq!(load(&mut s, 1, 1, one(0), 2), Ok(()));
}

#[test]
fn what_is_read_asynchronously_may_not_be_written() {
    let mut s = shadow(64);
    store(&mut s, 0, ALL, row(0), 1).unwrap();
    s.fence_proxy_async(0, ALL);
    s.warp_sync(0, ALL);
    let ranges = [Range { start: 0, len: 128 }];
    s.async_read_begin(0, 1, &ranges, 2).unwrap();
    assert_eq!(store(&mut s, 0, 1, one(0), 3), Err((K::PendingRead, 2)));
    assert_eq!(load(&mut s, 0, 1, one(0), 3), Ok(()), "a read is harmless");
    assert_eq!(store(&mut s, 0, 1, one(0), 3), Err((K::PendingRead, 2)));
    s.async_read_end(0, 1, &ranges, 2).unwrap();
    assert_eq!(store(&mut s, 0, 1, one(0), 4), Ok(()));
    assert_eq!(
        store(&mut s, 0, 2, one(4), 4),
        Err((K::WarpRace(WriteAfterRead), 2)),
        "lane 0 alone waited"
    );
}

#[test]
fn one_lane_may_release_what_a_warp_group_read() {
    let mut s = shadow(160);
    let ranges = [Range { start: 0, len: 128 }];
    s.bulk_begin(4, 0, &ranges, 1024, 1).unwrap();
    s.bulk_end(&ranges, 1024);
    s.mbarrier_complete(1024);
    for warp in 0..4 {
        s.mbarrier_waited(1024, warp, ALL);
        s.wgmma_begin(warp, &ranges, 2).unwrap();
    }
    let again = |s: &mut Shadow| brief(s.bulk_begin(4, 0, &ranges, 1024, 3));
    assert_eq!(again(&mut s), Err((K::PendingRead, 2)));
    for warp in 0..4 {
        s.wgmma_end(warp, &ranges, 2);
    }
    let conflict = s.bulk_begin(4, 0, &ranges, 1024, 3).unwrap_err();
    assert_eq!(
        (conflict.kind, conflict.actor),
        (K::Race(WriteAfterRead), Actor::WarpGroup(0))
    );
    s.mbarrier_arrive(1032, 1, 1 << 7);
    s.mbarrier_complete(1032);
    s.mbarrier_waited(1032, 4, 1);
    assert_eq!(again(&mut s), Ok(()));
}

#[test]
fn generic_writes_are_fenced_before_asynchronous_reads() {
    let ranges = [Range { start: 0, len: 128 }];
    let read = |s: &mut Shadow, warp, lanes| brief(s.async_read_begin(warp, lanes, &ranges, 9));
    // The writers fence, then meet the reader.
    let mut s = shadow(64);
    store(&mut s, 0, ALL, row(0), 1).unwrap();
    s.fence_proxy_async(0, ALL);
    barrier(&mut s, 2);
    assert_eq!(read(&mut s, 1, 1), Ok(()));
    // Nobody fences.
    let mut s = shadow(64);
    store(&mut s, 0, ALL, row(0), 1).unwrap();
    barrier(&mut s, 2);
    assert_eq!(read(&mut s, 1, 1), Err((K::MissingProxyFence, 1)));
    // The reader fences after the barrier: the fence lies between, too.
    s.fence_proxy_async(1, 1);
    assert_eq!(read(&mut s, 1, 1), Ok(()));
    assert_eq!(
        read(&mut s, 1, 2),
        Err((K::MissingProxyFence, 1)),
        "lane 0 alone fenced"
    );
    s.fence_proxy_async(1, ALL);
    assert_eq!(read(&mut s, 1, ALL), Ok(()));
    // The fence comes before the write.
    let mut s = shadow(64);
    s.fence_proxy_async(0, ALL);
    store(&mut s, 0, ALL, row(0), 1).unwrap();
    barrier(&mut s, 2);
    assert_eq!(read(&mut s, 1, 1), Err((K::MissingProxyFence, 1)));
    // What a bulk copy wrote needs no fence.
    let mut s = shadow(64);
    s.bulk_begin(0, 0, &ranges, 1024, 1).unwrap();
    s.bulk_end(&ranges, 1024);
    s.mbarrier_complete(1024);
    s.mbarrier_waited(1024, 1, ALL);
    assert_eq!(read(&mut s, 1, ALL), Ok(()));
}

#[test]
fn exited_lanes_do_not_hold_up_a_warp() {
    let mut s = shadow(48);
    s.exit(0, 0xffff_fff0);
    store(&mut s, 0, 0xf, row(0), 1).unwrap();
    s.warp_sync(0, ALL);
    assert_eq!(load(&mut s, 0, 0xf, one(0), 2), Ok(()));
    s.barrier_arrive(0, 0, 0xf);
    s.barrier_arrive(0, 1, 0xffff);
    s.barrier_complete(0, [(0, 0xf), (1, 0xffff)]);
    assert_eq!(load(&mut s, 1, 0xffff, one(0), 3), Ok(()));
}

#[test]
fn checks_can_be_left_out() {
    let mut s = Shadow::new(
        256,
        64,
        ShadowChecks {
            uninitialised: false,
            races: false,
            proxy: false,
        },
    );
    assert_eq!(load(&mut s, 0, ALL, row(0), 1), Ok(()));
    assert_eq!(store(&mut s, 1, ALL, row(0), 2), Ok(()));
    assert_eq!(
        brief(s.async_read_begin(0, ALL, &[Range { start: 0, len: 128 }], 3)),
        Ok(())
    );
}

#[test]
fn nothing_outlives_a_block() {
    let mut s = shadow(64);
    store(&mut s, 0, ALL, row(0), 1).unwrap();
    load(&mut s, 0, ALL, row(0), 1).unwrap();
    s.reset(64);
    assert_eq!(load(&mut s, 1, ALL, row(0), 1), Err((K::Uninitialised, 0)));
    assert_eq!(store(&mut s, 1, ALL, row(0), 1), Ok(()));
}

#[test]
fn a_conflict_reads_well() {
    let mut s = shadow(64);
    store(&mut s, 0, ALL, row(0), 7).unwrap();
    let fault = s
        .read(1, ALL, &row(0), 4, 8, Strength::Weak)
        .unwrap_err()
        .into_fault(4, |pc| {
            (
                Location {
                    line: pc,
                    file: 0,
                    source_line: 0,
                },
                "\tst.shared.u32 [%r1], %r2;".to_owned(),
            )
        });
    assert_eq!(
        fault.to_string(),
        "race in shared memory: read after write, with no barrier after that of warp 0 lane 0 at PTX line 7, `st.shared.u32 [%r1], %r2;`"
    );
}
