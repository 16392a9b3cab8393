//! The barriers of a block: 16 numbered ones, and that of its cluster.

use super::block::State;
use super::registers::Registers;
use super::warp::{Flow, Wait, Warp};
use super::{Outcome, Stop, lanes_of};
use crate::check::race::BARRIERS;
use crate::check::report::{BarrierMisuse, Fault};
use crate::program::inst::{Barrier, BarrierOp, P, R};

/// A place at a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) barrier: u32,
    generation: u64,
    to: Option<ReductionTo>,
}

/// Where the result of `bar.red` goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReductionTo {
    Popc(R),
    And(P),
    Or(P),
}

impl ReductionTo {
    pub(super) fn write(self, registers: &mut Registers, lanes: u32, reduction: Reduction) {
        let all = |condition: bool| if condition { u32::MAX } else { 0 };
        match self {
            Self::Popc(to) => registers.set_r(to, lanes, &[reduction.count; 32]),
            Self::And(to) => registers.set_p(to, lanes, all(reduction.count == reduction.threads)),
            Self::Or(to) => registers.set_p(to, lanes, all(reduction.count > 0)),
        }
    }
}

/// What the threads at a barrier said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reduction {
    threads: u32,
    /// Threads whose predicate holds.
    count: u32,
}

#[derive(Debug, Default)]
struct One {
    generation: u64,
    arrived: u32,
    /// Threads that it awaits, where the instructions say so.
    count: Option<u32>,
    reduction: Reduction,
    last: Reduction,
    waiters: Vec<(u32, u32)>,
}

/// All barriers: 16 of each block of the cluster, and that of the cluster itself.
#[derive(Debug)]
pub(super) struct Barriers {
    all: Vec<One>,
}

impl Barriers {
    pub(super) fn new(blocks: u32) -> Self {
        let n = BARRIERS * blocks as usize + 1;
        Self {
            all: (0..n).map(|_| One::default()).collect(),
        }
    }

    /// The barrier of the cluster.
    fn of_cluster(&self) -> u32 {
        self.all.len() as u32 - 1
    }

    pub(super) fn is_over(&self, ticket: &Ticket) -> bool {
        self.all[ticket.barrier as usize].generation != ticket.generation
    }

    /// What a reduction gives, and where.
    pub(super) fn result(&self, ticket: &Ticket) -> Option<(ReductionTo, Reduction)> {
        ticket
            .to
            .map(|to| (to, self.all[ticket.barrier as usize].last))
    }

    /// What a warp waits for, in words.
    pub(super) fn describe(&self, ticket: &Ticket, live: &[u32]) -> String {
        let one = &self.all[ticket.barrier as usize];
        let expected = one.count.unwrap_or_else(|| awaited(ticket.barrier, live));
        if ticket.barrier == self.of_cluster() {
            format!(
                "the barrier of the cluster, {} of {expected} threads arrived",
                one.arrived
            )
        } else {
            format!(
                "barrier {}, {} of {expected} threads arrived",
                ticket.barrier % BARRIERS as u32,
                one.arrived
            )
        }
    }
}

/// Threads that a barrier without a count awaits, of those that live in each block.
fn awaited(barrier: u32, live: &[u32]) -> u32 {
    match live.get(barrier as usize / BARRIERS) {
        Some(&live) => live,
        None => live.iter().sum(),
    }
}

impl Warp {
    pub(super) fn barrier(
        &mut self,
        block: &mut State,
        barrier: &Barrier,
        active: u32,
    ) -> Outcome<Flow> {
        if barrier.aligned
            && let Err(flow) = self.whole(active)
        {
            return Ok(flow);
        }
        let first = active.trailing_zeros() as usize;
        let id = self.registers.r(barrier.id)[first];
        let misuse = |fault| Stop::new(Fault::BarrierMisuse(fault));
        if id >= 16 {
            return Err(misuse(BarrierMisuse::Number(id)));
        }
        let same = lanes_of(active)
            .filter(|&lane| self.registers.r(barrier.id)[lane] == id)
            .fold(0, |mask, lane| mask | 1 << lane);
        if same != active {
            return Ok(Flow::Split(same));
        }
        let count = barrier.count.map(|count| self.registers.r(count)[first]);
        if let Some(count) = count {
            if count % 32 != 0 {
                return Err(misuse(BarrierMisuse::ThreadCount(count)));
            }
            if count == 0 {
                return Err(misuse(BarrierMisuse::ArriveWithoutCount));
            }
        }
        block.tally.barrier_waits += 1;
        let (said, to) = match barrier.op {
            BarrierOp::Sync | BarrierOp::Arrive => (None, None),
            BarrierOp::Popc(to, p, negate) => (Some((p, negate)), Some(ReductionTo::Popc(to))),
            BarrierOp::And(to, p, negate) => (Some((p, negate)), Some(ReductionTo::And(to))),
            BarrierOp::Or(to, p, negate) => (Some((p, negate)), Some(ReductionTo::Or(to))),
        };
        let said = said.map_or(0, |(p, negate)| {
            (self.registers.p(p) ^ if negate { u32::MAX } else { 0 }) & active
        });
        // A warp counts as a whole where a count is given, exited lanes included.
        let threads = if barrier.aligned && count.is_some() {
            32
        } else {
            active.count_ones()
        };
        let waits = !matches!(barrier.op, BarrierOp::Arrive);
        let own = block.rank * BARRIERS as u32 + id;
        let ticket = block.arrive(own, count, self.index, active, threads, said, to, waits)?;
        if !waits {
            return Ok(Flow::Next);
        }
        if block.barriers.is_over(&ticket) {
            if let Some((to, value)) = block.barriers.result(&ticket) {
                to.write(&mut self.registers, active, value);
            }
            return Ok(Flow::Next);
        }
        Ok(Flow::NextAfter(Wait::Barrier(ticket)))
    }

    pub(super) fn cluster_arrive(&mut self, block: &mut State, active: u32) -> Outcome<Flow> {
        let barrier = block.barriers.of_cluster();
        self.cluster_ticket = Some(block.arrive(
            barrier,
            None,
            self.index,
            active,
            active.count_ones(),
            0,
            None,
            true,
        )?);
        Ok(Flow::Next)
    }

    pub(super) fn cluster_wait(&mut self, block: &mut State, _active: u32) -> Outcome<Flow> {
        let Some(ticket) = self.cluster_ticket else {
            let fault = Fault::BadUse {
                instruction: "barrier.cluster.wait".to_owned(),
                expected: "barrier.cluster.arrive before".to_owned(),
                found: "none".to_owned(),
            };
            return Err(Stop::new(fault));
        };
        Ok(if block.barriers.is_over(&ticket) {
            Flow::Next
        } else {
            Flow::NextAfter(Wait::Barrier(ticket))
        })
    }
}

impl State<'_> {
    #[expect(clippy::too_many_arguments, reason = "they are what an arrival is")]
    fn arrive(
        &mut self,
        id: u32,
        count: Option<u32>,
        warp: u32,
        lanes: u32,
        threads: u32,
        said: u32,
        to: Option<ReductionTo>,
        waits: bool,
    ) -> Outcome<Ticket> {
        let live = awaited(id, &self.live_threads);
        let one = &mut self.barriers.all[id as usize];
        let number = id % BARRIERS as u32;
        if one.arrived > 0 && one.count != count {
            let (first, second) = (one.count.unwrap_or(live), count.unwrap_or(live));
            return Err(Stop::new(Fault::BarrierCount {
                barrier: number,
                first,
                second,
            }));
        }
        one.count = count;
        one.arrived += threads;
        one.reduction.threads += lanes.count_ones();
        one.reduction.count += said.count_ones();
        if waits {
            one.waiters.push((warp, lanes));
        }
        let expected = count.unwrap_or(live);
        if one.arrived > expected {
            let fault = BarrierMisuse::OverArrival {
                barrier: number,
                expected,
                found: one.arrived,
            };
            return Err(Stop::new(Fault::BarrierMisuse(fault)));
        }
        let ticket = Ticket {
            barrier: id,
            generation: one.generation,
            to,
        };
        if let Some(shadow) = &mut self.shadow {
            shadow.barrier_arrive(id as usize, warp as usize, lanes);
        }
        self.complete_if_full(id as usize);
        Ok(ticket)
    }

    fn complete_if_full(&mut self, id: usize) {
        let live = awaited(id as u32, &self.live_threads);
        let one = &mut self.barriers.all[id];
        if one.arrived == 0 || one.arrived < one.count.unwrap_or(live) {
            return;
        }
        one.generation += 1;
        one.arrived = 0;
        one.last = std::mem::take(&mut one.reduction);
        if let Some(shadow) = &mut self.shadow {
            shadow.barrier_complete(
                id,
                one.waiters
                    .iter()
                    .map(|&(warp, lanes)| (warp as usize, lanes)),
            );
        }
        one.waiters.clear();
    }

    /// Barriers of the whole block no longer await lanes that have exited.
    pub(super) fn lanes_exited(&mut self, warp: u32, lanes: u32) {
        let rank = self.rank_of(warp) as usize;
        self.live_threads[rank] -= lanes.count_ones();
        if let Some(shadow) = &mut self.shadow {
            shadow.exit(warp as usize, lanes);
        }
        let own = BARRIERS * rank..BARRIERS * (rank + 1);
        for id in own.chain([self.barriers.of_cluster() as usize]) {
            if self.barriers.all[id].count.is_none() {
                self.complete_if_full(id);
            }
        }
    }
}
