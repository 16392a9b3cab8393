//! `wgmma`: products of four warps, which happen as late as they may, when a warp waits for them.

use std::collections::VecDeque;
use std::ops::Range as Bytes;

use super::block::State;
use super::warp::{Flow, Wait, Warp};
use super::{Outcome, Stop};
use crate::ast::Space;
use crate::check::race::Range;
use crate::check::report::Fault;
use crate::program::inst::{Wgmma, WgmmaA};
use crate::tensor_core::Lanes;
use crate::tensor_core::descriptor::{Descriptor, Major};
use crate::tensor_core::wgmma::{Immediates, OperandA, wgmma};

/// One warp's part of a product that is under way.
#[derive(Debug)]
struct Issued {
    /// Index into the kernel's table.
    inst: u32,
    pc: u32,
    a: Option<Descriptor>,
    b: Descriptor,
    accumulate: bool,
    /// What this warp makes the tensor cores read.
    ranges: Vec<Range>,
}

/// The products of one warp that are not complete.
#[derive(Debug, Default)]
struct Queue {
    /// Those that are complete, since the block began.
    done: u64,
    pending: VecDeque<Issued>,
    /// Of each committed group, how many products it and those before it have.
    groups: VecDeque<u64>,
}

/// The products of a block that are under way, by warp.
#[derive(Debug)]
pub(super) struct WarpGroups {
    queues: Vec<Queue>,
    waiters: u32,
}

impl WarpGroups {
    pub(super) fn new(threads: u32) -> Self {
        Self {
            queues: (0..threads.div_ceil(32))
                .map(|_| Queue::default())
                .collect(),
            waiters: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.queues.fill_with(Queue::default);
        self.waiters = 0;
    }

    pub(super) fn commit(&mut self, warp: u32) {
        let queue = &mut self.queues[warp as usize];
        queue
            .groups
            .push_back(queue.done + queue.pending.len() as u64);
    }

    pub(super) fn has_waiters(&self) -> bool {
        self.waiters > 0
    }

    /// A warp and its instruction, that nothing waited for.
    pub(super) fn unfinished(&self) -> Option<(u32, u32)> {
        let mut queues = self.queues.iter().enumerate();
        queues.find_map(|(warp, queue)| Some((warp as u32, queue.pending.front()?.pc)))
    }

    /// What a warp waits for, in words.
    pub(super) fn describe(&self, warp: u32) -> String {
        let first = warp as usize / 4 * 4;
        let issued = |queue: &Queue| (queue.done + queue.pending.len() as u64).to_string();
        let each: Vec<String> = self.queues.iter().skip(first).take(4).map(issued).collect();
        format!(
            "wgmma of its warp group, of which the warps have issued {}",
            each.join(", ")
        )
    }
}

impl Warp {
    pub(super) fn wgmma(
        &mut self,
        block: &mut State,
        index: u32,
        pc: u32,
        active: u32,
    ) -> Outcome<Flow> {
        if let Err(flow) = self.whole(active) {
            return Ok(flow);
        }
        let split = block.blocks > 1 && !block.warps_per_block.is_multiple_of(4);
        if active != u32::MAX
            || split
            || (self.index / 4 * 4 + 4) as usize > block.wgmma.queues.len()
        {
            let fault = Fault::BadUse {
                instruction: "wgmma.mma_async".to_owned(),
                expected: "four whole warps".to_owned(),
                found: format!(
                    "lanes {active:#010x} of warp {} of {}",
                    self.index,
                    block.wgmma.queues.len()
                ),
            };
            return Err(Stop::new(fault));
        }
        let inst = &block.kernel.tables.wgmmas[index as usize];
        let (p, negate) = inst.accumulate;
        let holds = self.registers.p(p) ^ if negate { u32::MAX } else { 0 };
        let uniform = |values: &[u64; 32], what: &str| {
            if values.iter().all(|value| *value == values[0]) {
                return Ok(Descriptor::decode(values[0]));
            }
            let fault = Fault::BadUse {
                instruction: "wgmma.mma_async".to_owned(),
                expected: format!("one {what} for the whole warp"),
                found: "several".to_owned(),
            };
            Err(Stop::new(fault))
        };
        let a = match inst.a {
            WgmmaA::Descriptor(d) => Some(uniform(self.registers.d(d), "descriptor of A")?),
            WgmmaA::Registers(_) => None,
        };
        let b = uniform(self.registers.d(inst.b), "descriptor of B")?;
        let mut issued = Issued {
            inst: index,
            pc,
            a,
            b,
            accumulate: holds != 0,
            ranges: Vec::new(),
        };
        if block.shadow.is_some() {
            issued.ranges = footprint(inst, &issued, self.index % 4);
            let base = block.rank * block.shared_stride;
            issued
                .ranges
                .iter_mut()
                .for_each(|range| range.start += base);
            block.shadow_wgmma_begin(self.index, &issued.ranges, pc)?;
        }
        block.wgmma.queues[self.index as usize]
            .pending
            .push_back(issued);
        Ok(Flow::Next)
    }

    pub(super) fn wgmma_wait(&mut self, block: &mut State, left: u32, active: u32) -> Flow {
        if let Err(flow) = self.whole(active) {
            return flow;
        }
        let queue = &block.wgmma.queues[self.index as usize];
        let Some(&target) = queue
            .groups
            .len()
            .checked_sub(left as usize + 1)
            .and_then(|group| queue.groups.get(group))
        else {
            return Flow::Next;
        };
        if target <= queue.done {
            return Flow::Next;
        }
        block.wgmma.waiters += 1;
        Flow::NextAfter(Wait::Wgmma(target))
    }
}

/// The shared memory that one warp's part reads: its own 16 rows of A, and all of B.
fn footprint(inst: &Wgmma, issued: &Issued, warp: u32) -> Vec<Range> {
    let immediates = immediates(inst, issued);
    let rows: Vec<Bytes<u32>> = match (issued.a, inst.a_major) {
        // A row has 32 bytes along `k`, whatever the type.
        (Some(a), Major::K) => (16 * warp..16 * warp + 16)
            .flat_map(|row| [a.k_major(row, 0), a.k_major(row, 1)])
            .map(|start| start..start + 16)
            .collect(),
        (Some(a), Major::Mn) => inst.op.footprint_a(immediates, &OperandA::Shared(a)),
        (None, _) => Vec::new(),
    };
    let range = |bytes: Bytes<u32>| Range {
        start: bytes.start,
        len: bytes.end - bytes.start,
    };
    rows.into_iter()
        .chain(inst.op.footprint_b(immediates, &issued.b))
        .map(range)
        .collect()
}

fn immediates(inst: &Wgmma, issued: &Issued) -> Immediates {
    Immediates {
        accumulate: issued.accumulate,
        negate_a: inst.negate_a,
        negate_b: inst.negate_b,
        a_major: inst.a_major,
        b_major: inst.b_major,
    }
}

/// Computes the products that warps wait for and that all four warps have issued; whether a warp can go on.
pub(super) fn settle(block: &mut State, warps: &mut [Warp]) -> Result<bool, (u32, u32, Box<Stop>)> {
    let mut moved = false;
    for group in 0..warps.len() / 4 {
        let members = &mut warps[4 * group..4 * group + 4];
        for which in 0..4 {
            let waiting = members[which]
                .fragments
                .iter()
                .position(|fragment| matches!(fragment.wait, Wait::Wgmma(_)));
            let Some(fragment) = waiting else { continue };
            let Wait::Wgmma(target) = members[which].fragments[fragment].wait else {
                continue;
            };
            while block.wgmma.queues[4 * group + which].done < target {
                if !complete_one(block, members, group)? {
                    break;
                }
            }
            let queue = &mut block.wgmma.queues[4 * group + which];
            if queue.done >= target {
                while queue.groups.front().is_some_and(|end| *end <= target) {
                    queue.groups.pop_front();
                }
                members[which].fragments[fragment].wait = Wait::Nothing;
                members[which].fragments[fragment].pc += 1;
                block.wgmma.waiters -= 1;
                moved = true;
            }
        }
    }
    Ok(moved)
}

/// Computes the oldest product of a warp group, if all its warps have issued it.
fn complete_one(
    block: &mut State,
    warps: &mut [Warp],
    group: usize,
) -> Result<bool, (u32, u32, Box<Stop>)> {
    let queues = &mut block.wgmma.queues[4 * group..4 * group + 4];
    if queues.iter().any(|queue| queue.pending.is_empty()) {
        return Ok(false);
    }
    let issued: Vec<Issued> = queues
        .iter_mut()
        .filter_map(|queue| {
            queue.done += 1;
            queue.pending.pop_front()
        })
        .collect();
    let first = &issued[0];
    let differs = |other: &&Issued| {
        (other.inst, other.a, other.b, other.accumulate)
            != (first.inst, first.a, first.b, first.accumulate)
    };
    if let Some(other) = issued.iter().find(differs) {
        let fault = Fault::BadUse {
            instruction: "wgmma.mma_async".to_owned(),
            expected: "the same product from the four warps of a group".to_owned(),
            found: "different ones".to_owned(),
        };
        return Err((4 * group as u32, other.pc, Stop::new(fault)));
    }
    for (warp, issued) in warps.iter().zip(&issued) {
        block.shadow_wgmma_end(warp.index, &issued.ranges, issued.pc);
    }
    compute(block, warps, first).map_err(|stop| (4 * group as u32, first.pc, stop))?;
    Ok(true)
}

fn compute(block: &mut State, warps: &mut [Warp], issued: &Issued) -> Outcome<()> {
    let inst = &block.kernel.tables.wgmmas[issued.inst as usize];
    let read = |warp: &Warp, r| *warp.registers.r(r);
    let mut a_registers = [[[0; 32]; 4]; 4];
    let a = match (inst.a, issued.a) {
        (WgmmaA::Registers(registers), _) => {
            for (to, warp) in a_registers.iter_mut().zip(&*warps) {
                *to = registers.map(|r| read(warp, r));
            }
            OperandA::Registers(&a_registers)
        }
        (WgmmaA::Descriptor(_), Some(descriptor)) => OperandA::Shared(descriptor),
        (WgmmaA::Descriptor(_), None) => unreachable!("issued with its descriptor"),
    };
    let mut accumulators: Vec<Vec<Lanes>> = warps
        .iter()
        .map(|warp| inst.d.iter().map(|r| read(warp, *r)).collect())
        .collect();
    let mut outside = None;
    {
        let shared = &block.shared;
        let base = block.rank_of(warps[0].index) * block.shared_stride;
        let mut read16 = |address: u32| {
            if address + 16 <= block.shared_bytes {
                shared.row(base + address)
            } else {
                outside.get_or_insert(address);
                [0; 16]
            }
        };
        let [d0, d1, d2, d3] = accumulators.as_mut_slice() else {
            unreachable!("a group has four warps")
        };
        wgmma(
            &inst.op,
            immediates(inst, issued),
            &a,
            &issued.b,
            &mut read16,
            [d0, d1, d2, d3],
        );
    }
    if let Some(address) = outside {
        let mut stop = block.out_of_bounds(Space::Shared, 0, address.into(), 16);
        stop.lane = None;
        return Err(stop);
    }
    for (warp, accumulators) in warps.iter_mut().zip(&accumulators) {
        for (r, d) in inst.d.iter().zip(accumulators) {
            *warp.registers.r_mut(*r) = *d;
        }
    }
    block.tally.tensor.wgmma += 1;
    block.tally.tensor.multiply_adds += inst.op.multiply_adds();
    // A row of A or column of B has 32 bytes along `k`.
    let rows = if issued.a.is_some() { 64 } else { 0 };
    block.tally.shared.read += 32 * u64::from(rows + inst.op.columns());
    Ok(())
}
