//! `mbarrier` instructions.

use super::block::State;
use super::warp::{Flow, Wait, Warp};
use super::{Outcome, Stop, lanes_of};
use crate::alu::Lanes32;
use crate::ast::Space;
use crate::async_copy::group::PendingArrival;
use crate::async_copy::mbarrier::{Arrival, MbarrierError, State as Phase};
use crate::async_copy::spelling::MbarrierKind;
use crate::check::race::Strength;
use crate::program::inst::{CopyArrive, Mbarrier};

/// How the memory of an mbarrier is written.
const WEAK: Strength = Strength::Weak;

#[expect(
    clippy::unnecessary_box_returns,
    reason = "errors are boxed throughout"
)]
fn fault(error: MbarrierError, lane: usize, address: u32) -> Box<Stop> {
    Stop::access(error.into(), lane as u32, address.into(), Space::Shared)
}

/// Groups lanes by address.
fn by_address(addresses: &Lanes32, lanes: u32) -> impl Iterator<Item = (u32, u32)> {
    let mut rest = lanes;
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let address = addresses[rest.trailing_zeros() as usize];
        let group = lanes_of(rest)
            .filter(|&lane| addresses[lane] == address)
            .fold(0, |mask, lane| mask | 1 << lane);
        rest &= !group;
        Some((address, group))
    })
}

impl Warp {
    pub(super) fn mbarrier(
        &mut self,
        block: &mut State,
        inst: &Mbarrier,
        pc: u32,
        active: u32,
    ) -> Outcome<Flow> {
        let value = inst.value.map_or([0; 32], |slot| self.registers.slot(slot));
        let Some(address) = inst.address else {
            // `pending_count`
            let counts = value.map(|state| u64::from(Phase(state).pending_count()));
            self.registers.set_slot(inst.to, active, &counts);
            return Ok(Flow::Next);
        };
        let addresses = self.mbarrier_addresses(block, inst.space, address, active)?;
        if inst.kind == MbarrierKind::Init {
            for lane in lanes_of(active) {
                let address = addresses[lane];
                block
                    .bulk
                    .mbarriers
                    .init(address, value[lane] as u32)
                    .map_err(|e| fault(e, lane, address))?;
                block.shadow_write(self.index, 1 << lane, &addresses, 8, pc, WEAK, |_, _| false)?;
                block.shared.store(address, 8, |_| 0);
            }
            return Ok(Flow::Next);
        }
        for (address, lanes) in by_address(&addresses, active) {
            block.use_mbarrier(self.index, lanes, address, pc)?;
        }
        match inst.kind {
            MbarrierKind::Init | MbarrierKind::PendingCount => {}
            MbarrierKind::Inval => {
                for lane in lanes_of(active) {
                    block
                        .bulk
                        .mbarriers
                        .invalidate(addresses[lane])
                        .map_err(|e| fault(e, lane, addresses[lane]))?;
                    // Whoever still uses it must know that it is given up.
                    block.shadow_write(
                        self.index,
                        1 << lane,
                        &addresses,
                        8,
                        pc,
                        WEAK,
                        |_, _| false,
                    )?;
                }
            }
            MbarrierKind::ExpectTx => {
                for lane in lanes_of(active) {
                    block
                        .bulk
                        .mbarriers
                        .expect_bytes(addresses[lane], value[lane] as u32)
                        .map_err(|e| fault(e, lane, addresses[lane]))?;
                }
            }
            MbarrierKind::CompleteTx => {
                for lane in lanes_of(active) {
                    let complete = block
                        .bulk
                        .mbarriers
                        .complete_bytes(addresses[lane], value[lane] as u32);
                    if complete.map_err(|e| fault(e, lane, addresses[lane]))? {
                        block.phase_complete(addresses[lane]);
                    }
                }
            }
            MbarrierKind::Arrive {
                expect_tx,
                no_complete,
                drop,
            } => {
                let how = |lane: usize| Arrival {
                    count: if expect_tx || inst.value.is_none() {
                        1
                    } else {
                        value[lane] as u32
                    },
                    expect_bytes: if expect_tx { value[lane] as u32 } else { 0 },
                    no_complete,
                    drop,
                };
                self.arrive(block, inst, &addresses, how, active)?;
            }
            MbarrierKind::Wait { blocking, parity } => {
                return self.wait(block, inst, &addresses, &value, blocking, parity, active);
            }
        }
        Ok(Flow::Next)
    }

    fn mbarrier_addresses(
        &self,
        block: &State,
        space: Space,
        address: crate::program::inst::Address,
        active: u32,
    ) -> Outcome<Lanes32> {
        let addresses = self.addresses(address);
        let mut out = [0; 32];
        for lane in lanes_of(active) {
            out[lane] = block.own_shared(space, addresses[lane], lane)?;
            if !block.is_shared(out[lane], 8) {
                return Err(block.out_of_bounds(Space::Shared, lane, out[lane].into(), 8));
            }
        }
        Ok(out)
    }

    fn arrive(
        &mut self,
        block: &mut State,
        inst: &Mbarrier,
        addresses: &Lanes32,
        how: impl Fn(usize) -> Arrival,
        active: u32,
    ) -> Outcome<()> {
        let mut states = [0; 32];
        for (address, lanes) in by_address(addresses, active) {
            if !inst.relaxed {
                block.shadow_mbarrier_arrive(address, self.index, lanes);
            }
            for lane in lanes_of(lanes) {
                let (state, complete) = block
                    .bulk
                    .mbarriers
                    .arrive(address, how(lane))
                    .map_err(|e| fault(e, lane, address))?;
                states[lane] = state.0;
                if complete {
                    block.phase_complete(address);
                }
            }
        }
        self.registers.set_slot(inst.to, active, &states);
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "they are what a wait is")]
    fn wait(
        &mut self,
        block: &mut State,
        inst: &Mbarrier,
        addresses: &Lanes32,
        value: &[u64; 32],
        blocking: bool,
        parity: bool,
        active: u32,
    ) -> Outcome<Flow> {
        let mut complete = 0;
        for lane in lanes_of(active) {
            let address = addresses[lane];
            let done = if parity {
                block
                    .bulk
                    .mbarriers
                    .is_complete_parity(address, value[lane] as u32)
            } else {
                block
                    .bulk
                    .mbarriers
                    .is_complete(address, Phase(value[lane]))
            };
            complete |= u32::from(done.map_err(|e| fault(e, lane, address))?) << lane;
        }
        if complete == 0 {
            if blocking {
                // A wait that may block does so until some phase ends; then it looks again.
                let address = addresses[active.trailing_zeros() as usize];
                return Ok(Flow::Wait(Wait::Mbarrier {
                    address,
                    completions: block.bulk.completions,
                }));
            }
            block.bulk.vain += 1;
        }
        if !inst.relaxed {
            for (address, lanes) in by_address(addresses, complete) {
                block.shadow_mbarrier_waited(address, self.index, lanes);
            }
        }
        self.registers.set_p(inst.done, active, complete);
        Ok(Flow::Next)
    }

    /// `cp.async.mbarrier.arrive`: once the copies that a lane issued before are complete.
    pub(super) fn copy_arrive(
        &mut self,
        block: &mut State,
        inst: &CopyArrive,
        pc: u32,
        active: u32,
    ) -> Outcome<()> {
        let addresses = self.mbarrier_addresses(block, inst.space, inst.address, active)?;
        for (address, lanes) in by_address(&addresses, active) {
            block.use_mbarrier(self.index, lanes, address, pc)?;
        }
        for lane in lanes_of(active) {
            let mbarrier = addresses[lane];
            block
                .bulk
                .mbarriers
                .begin_arrival(mbarrier, inst.noinc)
                .map_err(|e| fault(e, lane, mbarrier))?;
            self.copies.arrive_later(PendingArrival {
                lane: lane as u32,
                mbarrier,
            });
        }
        Ok(())
    }
}
