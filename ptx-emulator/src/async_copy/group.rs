//! Groups of asynchronous copies, as `commit_group` makes them and `wait_group` awaits them, lane by lane.

use crate::check::clock::bits;

/// A `cp.async` under way: 4, 8 or 16 bytes from global to shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpAsync {
    /// Shared address.
    pub shared: u32,
    /// Global address.
    pub global: u64,
    /// Bytes written.
    pub size: u32,
    /// Bytes read, at most `size`; the rest are zeros. 0 reads nothing, and `global` may then be anything.
    pub source_size: u32,
    /// Index of the instruction.
    pub pc: u32,
}

/// The copies under way of one warp, each in a group of its lane.
#[derive(Clone, Debug)]
pub struct Groups<T> {
    /// Of each lane, the number of groups that it has committed.
    committed: [u32; 32],
    pending: Vec<Pending<T>>,
}

#[derive(Clone, Debug)]
struct Pending<T> {
    lane: u32,
    /// Number of the group of its lane, from 0.
    group: u32,
    copy: T,
}

impl<T> Default for Groups<T> {
    fn default() -> Self {
        Self {
            committed: [0; 32],
            pending: Vec::new(),
        }
    }
}

impl<T> Groups<T> {
    /// `lane` issues a copy, into the group that it has open.
    pub fn push(&mut self, lane: u32, copy: T) {
        self.pending.push(Pending {
            lane,
            group: self.committed[lane as usize],
            copy,
        });
    }

    /// `lanes` close the group that each has open; it may be empty.
    pub fn commit(&mut self, lanes: u32) {
        for lane in bits(lanes) {
            self.committed[lane as usize] += 1;
        }
    }

    /// `lanes` wait until at most `n` of their newest groups are under way: the copies that are then complete, in the
    /// order they were issued. Copies that no group holds yet are not waited for.
    pub fn wait(&mut self, lanes: u32, n: u32) -> Vec<(u32, T)> {
        self.wait_map(lanes, n, |lane, copy| (lane, copy))
    }

    fn wait_map<U>(&mut self, lanes: u32, n: u32, map: impl Fn(u32, T) -> U) -> Vec<U> {
        let committed = self.committed;
        let done =
            |lane: u32, group: u32| lanes >> lane & 1 == 1 && group + n < committed[lane as usize];
        self.take(done, map)
    }

    /// `lanes` wait for all their copies, committed or not.
    pub fn wait_all(&mut self, lanes: u32) -> Vec<(u32, T)> {
        self.commit(lanes);
        self.wait(lanes, 0)
    }

    /// The copies that [`Groups::wait`] would take, left in place.
    pub fn covered(&mut self, lanes: u32, n: u32) -> impl Iterator<Item = (u32, &mut T)> {
        let committed = self.committed;
        self.pending
            .iter_mut()
            .filter(move |p| lanes >> p.lane & 1 == 1 && p.group + n < committed[p.lane as usize])
            .map(|p| (p.lane, &mut p.copy))
    }

    /// All copies of `lanes` that are under way, in the order they were issued; they no longer are.
    pub fn take_issued(&mut self, lanes: u32) -> Vec<(u32, T)> {
        self.take(|lane, _| lanes >> lane & 1 == 1, |lane, copy| (lane, copy))
    }

    /// The copies under way, with their lanes.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.pending.iter().map(|p| (p.lane, &p.copy))
    }

    /// Whether no copy is under way.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    fn take<U>(&mut self, done: impl Fn(u32, u32) -> bool, map: impl Fn(u32, T) -> U) -> Vec<U> {
        // Most waits take everything.
        if self.pending.iter().all(|p| done(p.lane, p.group)) {
            return self
                .pending
                .drain(..)
                .map(|p| map(p.lane, p.copy))
                .collect();
        }
        self.pending
            .extract_if(.., |p| done(p.lane, p.group))
            .map(|p| map(p.lane, p.copy))
            .collect()
    }
}

/// A `cp.async.mbarrier.arrive` that waits for earlier copies of its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingArrival {
    /// The lane.
    pub lane: u32,
    /// Shared address of the `mbarrier`.
    pub mbarrier: u32,
}

/// The `cp.async` operations of one warp, and the arrivals that wait for them.
#[derive(Clone, Debug, Default)]
pub struct CpAsyncQueue {
    /// The copies, each with the number of arrivals that its lane had made when it was issued.
    groups: Groups<(u32, CpAsync)>,
    /// Arrivals that have not happened, oldest first, each with its number among those of its lane.
    arrivals: std::collections::VecDeque<(u32, PendingArrival)>,
    /// Of each lane, the number of arrivals made.
    arrived: [u32; 32],
}

impl CpAsyncQueue {
    /// `lane` issues a copy.
    pub fn push(&mut self, lane: u32, copy: CpAsync) {
        self.groups.push(lane, (self.arrived[lane as usize], copy));
    }

    /// `cp.async.commit_group` by `lanes`.
    pub fn commit(&mut self, lanes: u32) {
        self.groups.commit(lanes);
    }

    /// `cp.async.wait_group n` by `lanes`: the copies that are complete.
    pub fn wait(&mut self, lanes: u32, n: u32) -> Vec<(u32, CpAsync)> {
        self.groups
            .wait_map(lanes, n, |lane, (_, copy)| (lane, copy))
    }

    /// `cp.async.wait_all` by `lanes`: the copies that are complete.
    pub fn wait_all(&mut self, lanes: u32) -> Vec<(u32, CpAsync)> {
        self.commit(lanes);
        self.wait(lanes, 0)
    }

    /// `cp.async.mbarrier.arrive` by `lane`: it happens once the copies that the lane issued before are complete.
    pub fn arrive_later(&mut self, arrival: PendingArrival) {
        let number = &mut self.arrived[arrival.lane as usize];
        self.arrivals.push_back((*number, arrival));
        *number += 1;
    }

    /// The oldest arrival, which now happens, and the copies that are complete before it.
    pub fn next_arrival(&mut self) -> Option<(PendingArrival, Vec<CpAsync>)> {
        let (number, arrival) = self.arrivals.pop_front()?;
        let copies = self
            .groups
            .pending
            .extract_if(.., |p| p.lane == arrival.lane && p.copy.0 <= number)
            .map(|p| p.copy.1)
            .collect();
        Some((arrival, copies))
    }

    /// Whether an arrival waits.
    pub fn has_arrivals(&self) -> bool {
        !self.arrivals.is_empty()
    }

    /// Whether no copy is under way.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_group_leaves_the_newest_groups_of_each_lane() {
        let mut groups = Groups::default();
        groups.push(0, 'a');
        groups.push(1, 'b');
        groups.commit(0b11);
        groups.push(0, 'c');
        groups.commit(0b01);
        groups.push(0, 'd');
        assert_eq!(
            groups.covered(0b11, 1).map(|(_, c)| *c).collect::<String>(),
            "a"
        );
        assert_eq!(groups.wait(0b11, 1), [(0, 'a')]);
        assert_eq!(groups.wait(0b11, 0), [(1, 'b'), (0, 'c')]);
        assert!(
            groups.wait(0b11, 0).is_empty(),
            "what is not committed is not waited for"
        );
        assert_eq!(groups.wait_all(0b01), [(0, 'd')]);
        assert!(groups.is_empty());
    }

    #[test]
    fn an_empty_group_counts() {
        let mut groups = Groups::default();
        groups.push(3, 1);
        groups.commit(u32::MAX);
        groups.commit(u32::MAX);
        assert!(groups.wait(u32::MAX, 2).is_empty());
        assert_eq!(groups.wait(u32::MAX, 1), [(3, 1)]);
    }

    #[test]
    fn an_arrival_waits_for_earlier_copies_of_its_lane_only() {
        let copy = |shared| CpAsync {
            shared,
            global: 0,
            size: 16,
            source_size: 16,
            pc: 0,
        };
        let mut queue = CpAsyncQueue::default();
        queue.push(0, copy(0));
        queue.push(1, copy(16));
        queue.arrive_later(PendingArrival {
            lane: 0,
            mbarrier: 64,
        });
        queue.push(0, copy(32));
        queue.arrive_later(PendingArrival {
            lane: 0,
            mbarrier: 72,
        });
        assert!(queue.has_arrivals());
        assert_eq!(
            queue.next_arrival(),
            Some((
                PendingArrival {
                    lane: 0,
                    mbarrier: 64
                },
                vec![copy(0)]
            ))
        );
        assert_eq!(
            queue.next_arrival(),
            Some((
                PendingArrival {
                    lane: 0,
                    mbarrier: 72
                },
                vec![copy(32)]
            ))
        );
        assert_eq!(queue.next_arrival(), None);
        assert_eq!(queue.wait_all(0b10), [(1, copy(16))]);
        assert!(queue.is_empty());
    }
}
