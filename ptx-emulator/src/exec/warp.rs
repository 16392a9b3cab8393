//! A warp: its fragments, each at one instruction, and which of them runs next.
//!
//! Lanes that branch apart become fragments. The one at the lowest instruction runs first, and fragments that meet at one instruction
//! become one again, so that short branches rejoin soon. Instructions that need several lanes wait until these are at the same place.

use super::barrier::Ticket;
use super::block::State;
use super::bulk::Stores;
use super::local::Local;
use super::registers::Registers;
use super::{Outcome, Stop, lanes_of};
use crate::async_copy::group::CpAsyncQueue;
use crate::check::report::Fault;
use crate::program::Kernel;

/// Bursts that one fragment may run through while others are ready, before another one's turn comes: a lane may spin on what another
/// lane of its warp is to do.
const PATIENCE: u32 = 64;

/// Lanes that execute together.
#[derive(Clone, Debug)]
pub(super) struct Fragment {
    pub(super) pc: u32,
    pub(super) lanes: u32,
    /// Where calls return to, the innermost last.
    pub(super) stack: Vec<u32>,
    pub(super) wait: Wait,
}

/// What a fragment waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Nothing,
    /// Until these lanes are at the same instruction.
    Converge(u32),
    /// The same, at any `bar.warp.sync` with the same mask.
    WarpSync(u32),
    Barrier(Ticket),
    /// Until so many `wgmma`s of the warp group are complete.
    Wgmma(u64),
    /// Until more phases of mbarriers are complete than these; then the instruction looks again.
    Mbarrier {
        address: u32,
        completions: u64,
    },
}

/// What an instruction asks of the warp that executes it.
#[derive(Debug)]
pub(super) enum Flow {
    Next,
    Jump(u32),
    /// Each lane goes to its own place.
    Scatter(Box<[u32; 32]>),
    Call(u32),
    /// Each lane calls its own function.
    ScatterCall(Box<[u32; 32]>),
    Return,
    Exit,
    /// Execute these lanes now, and the others at the same place later.
    Split(u32),
    /// Not yet executed; again once the wait is over.
    Wait(Wait),
    /// Executed, and past it once the wait is over.
    NextAfter(Wait),
}

/// Why a warp stopped running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    Budget,
    Blocked,
}

/// A warp of a block.
#[derive(Debug)]
pub(super) struct Warp {
    pub(super) index: u32,
    /// Lanes that have not exited.
    pub(super) live: u32,
    pub(super) fragments: Vec<Fragment>,
    current: usize,
    impatience: u32,
    pub(super) registers: Registers,
    pub(super) local: Local,
    pub(super) copies: CpAsyncQueue,
    /// Bulk copies to global memory.
    pub(super) stores: Stores,
    /// The place at the barrier of the cluster, since its first half.
    pub(super) cluster_ticket: Option<Ticket>,
}

impl Warp {
    pub(super) fn new(index: u32, kernel: &Kernel, check_local: bool) -> Self {
        Self {
            index,
            live: 0,
            fragments: Vec::new(),
            current: 0,
            impatience: 0,
            registers: Registers::new(kernel.n32, kernel.n64, kernel.n_predicates),
            local: Local::new(kernel.local_bytes, check_local),
            copies: CpAsyncQueue::default(),
            stores: Stores::default(),
            cluster_ticket: None,
        }
    }

    /// Starts anew with these lanes.
    pub(super) fn reset(&mut self, lanes: u32) {
        self.live = lanes;
        self.fragments.clear();
        if lanes != 0 {
            self.fragments.push(Fragment {
                pc: 0,
                lanes,
                stack: Vec::new(),
                wait: Wait::Nothing,
            });
        }
        self.current = 0;
        self.impatience = 0;
        self.registers.clear();
        self.local.clear();
        self.copies = CpAsyncQueue::default();
        self.stores = Stores::default();
        self.cluster_ticket = None;
    }

    pub(super) fn is_done(&self) -> bool {
        self.fragments.is_empty()
    }

    /// Ends waits that are over; whether a fragment can run.
    pub(super) fn can_run(&mut self, block: &State) -> bool {
        let mut any = false;
        for fragment in &mut self.fragments {
            if let Wait::Barrier(ticket) = fragment.wait
                && block.barriers.is_over(&ticket)
            {
                if let Some((to, value)) = block.barriers.result(&ticket) {
                    to.write(&mut self.registers, fragment.lanes, value);
                }
                fragment.wait = Wait::Nothing;
                fragment.pc += 1;
            }
            if let Wait::Mbarrier { completions, .. } = fragment.wait
                && completions != block.bulk.completions
            {
                fragment.wait = Wait::Nothing;
            }
            any |= fragment.wait == Wait::Nothing;
        }
        any
    }

    /// Merges fragments that are at one place, and picks the one that runs: `None` if all wait.
    fn select(&mut self) -> Option<usize> {
        if let [only] = self.fragments.as_slice() {
            return (only.wait == Wait::Nothing).then_some(0);
        }
        let mergeable = |f: &Fragment| matches!(f.wait, Wait::Nothing | Wait::Converge(_));
        let mut i = 0;
        while i < self.fragments.len() {
            let mut j = i + 1;
            while j < self.fragments.len() {
                let (a, b) = (&self.fragments[i], &self.fragments[j]);
                if a.pc == b.pc && mergeable(a) && mergeable(b) && a.stack == b.stack {
                    let lanes = self.fragments.swap_remove(j).lanes;
                    self.fragments[i].lanes |= lanes;
                    self.fragments[i].wait = Wait::Nothing;
                } else {
                    j += 1;
                }
            }
            i += 1;
        }
        let ready = || {
            self.fragments
                .iter()
                .enumerate()
                .filter(|(_, f)| f.wait == Wait::Nothing)
        };
        if self.impatience >= PATIENCE {
            self.impatience = 0;
            return ready().max_by_key(|(_, f)| f.pc).map(|(i, _)| i);
        }
        ready().min_by_key(|(_, f)| f.pc).map(|(i, _)| i)
    }

    /// Runs until so many instructions are done or nothing can run; the budget is counted down.
    pub(super) fn run(
        &mut self,
        block: &mut State,
        budget: &mut u32,
    ) -> Result<Pause, (u32, Box<Stop>)> {
        let kernel = block.kernel;
        loop {
            let Some(current) = self.select() else {
                return Ok(Pause::Blocked);
            };
            self.current = current;
            let mut pc = self.fragments[current].pc;
            let lanes = self.fragments[current].lanes;
            let alone = self.fragments.len() == 1;
            loop {
                if *budget == 0 {
                    self.fragments[self.current].pc = pc;
                    self.impatience = if self.fragments.len() > 1 {
                        self.impatience + 1
                    } else {
                        0
                    };
                    return Ok(Pause::Budget);
                }
                *budget -= 1;
                let step = &kernel.steps[pc as usize];
                block.executed[pc as usize] += 1;
                let active = lanes & (self.registers.p(step.guard) ^ step.negate);
                if active == 0 {
                    pc += 1;
                } else {
                    match self.step(block, step.inst, pc, active) {
                        Ok(Flow::Next) => pc += 1,
                        Ok(Flow::Jump(target)) if active == lanes => pc = target,
                        Err(stop) => return Err((pc, stop)),
                        Ok(Flow::Split(group)) => {
                            block.executed[pc as usize] -= 1;
                            self.split_off(pc, lanes & !group);
                            self.fragments[self.current].lanes = group;
                            self.fragments[self.current].pc = pc;
                            self.run_split(block, pc, group)
                                .map_err(|stop| (pc, stop))?;
                            break;
                        }
                        Ok(flow) => {
                            if active != lanes {
                                self.split_off(pc + 1, lanes & !active);
                                self.fragments[self.current].lanes = active;
                            }
                            self.fragments[self.current].pc = pc;
                            self.divert(block, flow, pc, active);
                            break;
                        }
                    }
                }
                if !alone
                    && self.fragments.iter().enumerate().any(|(i, f)| {
                        i != self.current && (f.pc == pc || (f.pc < pc && f.wait == Wait::Nothing))
                    })
                {
                    self.fragments[self.current].pc = pc;
                    break;
                }
            }
        }
    }

    /// Executes an instruction for lanes that were split off for it, before they could merge again.
    fn run_split(&mut self, block: &mut State, pc: u32, lanes: u32) -> Outcome<()> {
        block.executed[pc as usize] += 1;
        match self.step(block, block.kernel.steps[pc as usize].inst, pc, lanes)? {
            Flow::Next => self.fragments[self.current].pc = pc + 1,
            flow => self.divert(block, flow, pc, lanes),
        }
        Ok(())
    }

    /// Makes a fragment of lanes that do not follow the current one.
    fn split_off(&mut self, pc: u32, lanes: u32) {
        let stack = self.fragments[self.current].stack.clone();
        self.fragments.push(Fragment {
            pc,
            lanes,
            stack,
            wait: Wait::Nothing,
        });
    }

    /// What is not simply the next instruction; the current fragment is of exactly the active lanes.
    fn divert(&mut self, block: &mut State, flow: Flow, pc: u32, active: u32) {
        let current = self.current;
        match flow {
            Flow::Next | Flow::Split(_) => self.fragments[current].pc = pc + 1,
            Flow::Jump(target) => self.fragments[current].pc = target,
            Flow::Scatter(targets) => self.scatter(&targets, active, None),
            Flow::ScatterCall(targets) => self.scatter(&targets, active, Some(pc + 1)),
            Flow::Call(target) => {
                self.fragments[current].stack.push(pc + 1);
                self.fragments[current].pc = target;
            }
            Flow::Return => match self.fragments[current].stack.pop() {
                Some(to) => self.fragments[current].pc = to,
                None => self.exit(block, active),
            },
            Flow::Exit => self.exit(block, active),
            Flow::Wait(wait) => {
                block.executed[pc as usize] -= 1;
                self.fragments[current].wait = wait;
                self.release_warp_sync(block, wait);
            }
            Flow::NextAfter(wait) => self.fragments[current].wait = wait,
        }
    }

    fn scatter(&mut self, targets: &[u32; 32], active: u32, return_to: Option<u32>) {
        let base = self.fragments.swap_remove(self.current);
        let mut rest = active;
        while rest != 0 {
            let target = targets[rest.trailing_zeros() as usize];
            let lanes = lanes_of(rest)
                .filter(|&lane| targets[lane] == target)
                .fold(0, |mask, lane| mask | 1 << lane);
            let mut stack = base.stack.clone();
            stack.extend(return_to);
            self.fragments.push(Fragment {
                pc: target,
                lanes,
                stack,
                wait: Wait::Nothing,
            });
            rest &= !lanes;
        }
    }

    fn exit(&mut self, block: &mut State, lanes: u32) {
        self.fragments.swap_remove(self.current);
        self.live &= !lanes;
        block.lanes_exited(self.index, lanes);
        // Who waited for these lanes need not any longer.
        for fragment in &mut self.fragments {
            if matches!(fragment.wait, Wait::Converge(_)) {
                fragment.wait = Wait::Nothing;
            }
        }
        let waits: Vec<Wait> = self
            .fragments
            .iter()
            .map(|fragment| fragment.wait)
            .collect();
        for wait in waits {
            self.release_warp_sync(block, wait);
        }
    }

    /// Lets all that wait at `bar.warp.sync` go on once every live lane of their mask does.
    fn release_warp_sync(&mut self, block: &mut State, wait: Wait) {
        let Wait::WarpSync(members) = wait else {
            return;
        };
        let here = |f: &&Fragment| f.wait == wait;
        let arrived = self
            .fragments
            .iter()
            .filter(here)
            .fold(0, |mask, f| mask | f.lanes);
        if members & self.live & !arrived != 0 {
            return;
        }
        for fragment in self.fragments.iter_mut().filter(|f| f.wait == wait) {
            block.executed[fragment.pc as usize] += 1;
            fragment.wait = Wait::Nothing;
            fragment.pc += 1;
        }
        block.warp_met(self.index, members & arrived);
    }

    /// The lanes that execute a `.sync` instruction together, given the mask that each names; or what has to happen first.
    pub(super) fn members(&self, masks: &[u32; 32], active: u32) -> Outcome<Result<u32, Flow>> {
        let first = active.trailing_zeros();
        let members = masks[first as usize];
        if members >> first & 1 == 0 {
            return Err(Stop::lane(
                Fault::MemberMask {
                    mask: members,
                    executing: active,
                },
                first,
            ));
        }
        let expected = members & self.live;
        let same = if expected == active {
            // The usual case, where it is enough that all agree.
            active
        } else {
            active & expected
        };
        let agree = lanes_of(same).all(|lane| masks[lane] == members);
        if !agree {
            let lane = lanes_of(same)
                .find(|&lane| masks[lane] != members)
                .expect("one does not agree") as u32;
            return Err(Stop::lane(
                Fault::MemberMask {
                    mask: masks[lane as usize],
                    executing: active,
                },
                lane,
            ));
        }
        if expected & !active != 0 {
            return Ok(Err(Flow::Wait(Wait::Converge(expected))));
        }
        if same != active {
            return Ok(Err(Flow::Split(same)));
        }
        Ok(Ok(same))
    }

    /// All live lanes must execute together.
    pub(super) fn whole(&self, active: u32) -> Result<(), Flow> {
        if active == self.live {
            Ok(())
        } else {
            Err(Flow::Wait(Wait::Converge(self.live)))
        }
    }
}
