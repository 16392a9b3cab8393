//! `atom` and `red`: one lane after the other, in global and in shared memory.

use std::sync::atomic::Ordering::Relaxed;

use super::access::{by_space, check_alignment};
use super::block::State;
use super::warp::Warp;
use super::{Outcome, Stop, lanes_of};
use crate::alu::Lanes64;
use crate::alu::float::{FloatOp, Mode, Width, compute};
use crate::ast::Space;
use crate::check::race::Strength;
use crate::check::report::Fault;
use crate::program::inst::{Atomic, AtomicOp, AtomicType, Slot};

impl Warp {
    pub(super) fn atomic(
        &mut self,
        block: &mut State,
        atomic: &Atomic,
        pc: u32,
        active: u32,
    ) -> Outcome<()> {
        let addresses = self.addresses(atomic.address);
        let mut out = vec![[0u64; 32]; atomic.to.len()];
        if atomic.space == Space::Generic {
            for (space, lanes, addresses) in by_space(&addresses, active) {
                self.atomic_in(block, atomic, space, &addresses, pc, lanes, &mut out)?;
            }
        } else {
            self.atomic_in(
                block,
                atomic,
                atomic.space,
                &addresses,
                pc,
                active,
                &mut out,
            )?;
        }
        for (slot, out) in atomic.to.iter().zip(&out) {
            self.registers.set_slot(*slot, active, out);
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "they are what an access is")]
    fn atomic_in(
        &mut self,
        block: &mut State,
        atomic: &Atomic,
        space: Space,
        addresses: &Lanes64,
        pc: u32,
        active: u32,
        out: &mut [Lanes64],
    ) -> Outcome<()> {
        let bytes = atomic.size * atomic.to.len() as u32;
        check_alignment(addresses, active, bytes, space)?;
        let traffic = block.tally.traffic(space);
        traffic.read += u64::from(bytes * active.count_ones());
        traffic.written += u64::from(bytes * active.count_ones());
        let operands: Vec<Lanes64> = atomic
            .operand
            .iter()
            .map(|slot| self.registers.slot(*slot))
            .collect();
        let swap = if atomic.swap == Slot::Sink {
            [0; 32]
        } else {
            self.registers.slot(atomic.swap)
        };
        match space {
            Space::Global | Space::Generic => {
                block.count_sectors(addresses, active, bytes);
                for lane in lanes_of(active) {
                    let address = addresses[lane];
                    let Some((allocation, offset)) =
                        block
                            .global
                            .find(address, bytes, &mut block.hints[pc as usize])
                    else {
                        return Err(block.out_of_bounds(Space::Global, lane, address, bytes));
                    };
                    if block.checks.init
                        && !allocation.is_written(offset, bytes)
                        && atomic.op != AtomicOp::Exch
                    {
                        return Err(Stop::access(
                            Fault::Uninitialised {
                                bytes: bytes.into(),
                            },
                            lane as u32,
                            address,
                            Space::Global,
                        ));
                    }
                    for (i, operand) in operands.iter().enumerate() {
                        let at = offset + i * atomic.size as usize;
                        let (operand, swap) = (operand[lane], swap[lane]);
                        out[i][lane] = if atomic.size == 8 {
                            let _held = block.memory.wide_lock();
                            let (low, high) = (allocation.word(at), allocation.word(at + 4));
                            let old =
                                u64::from(low.load(Relaxed)) | u64::from(high.load(Relaxed)) << 32;
                            let new = update(atomic, old, operand, swap);
                            low.store(new as u32, Relaxed);
                            high.store((new >> 32) as u32, Relaxed);
                            old
                        } else {
                            let shift = 8 * (at % 4);
                            let mask = if atomic.size == 4 { u32::MAX } else { 0xffff };
                            let new = |word: u32| {
                                let new =
                                    update(atomic, u64::from(word >> shift & mask), operand, swap)
                                        as u32;
                                Some((word & !(mask << shift)) | (new & mask) << shift)
                            };
                            let old = allocation
                                .word(at)
                                .fetch_update(Relaxed, Relaxed, new)
                                .expect("the update never gives up");
                            u64::from(old >> shift & mask)
                        };
                    }
                    allocation.mark(offset, bytes);
                }
            }
            _ => {
                let addresses = block.shared_addresses(addresses, active, bytes)?;
                if atomic.op != AtomicOp::Exch {
                    block.shadow_read(
                        self.index,
                        active,
                        &addresses,
                        bytes,
                        pc,
                        Strength::Strong,
                    )?;
                }
                block.shadow_write(
                    self.index,
                    active,
                    &addresses,
                    bytes,
                    pc,
                    Strength::Strong,
                    |_, _| false,
                )?;
                for lane in lanes_of(active) {
                    for (i, operand) in operands.iter().enumerate() {
                        let at = addresses[lane] + i as u32 * atomic.size;
                        let mut words = [0u32; 2];
                        block
                            .shared
                            .load(at, atomic.size, |i, word| words[i] = word);
                        let mask = if atomic.size == 2 { 0xffff } else { u64::MAX };
                        let old = (u64::from(words[0]) | u64::from(words[1]) << 32) & mask;
                        let new = update(atomic, old, operand[lane], swap[lane]);
                        block
                            .shared
                            .store(at, atomic.size, |i| (new >> (32 * i)) as u32);
                        out[i][lane] = old;
                    }
                }
            }
        }
        Ok(())
    }
}

/// What is written, given what was found.
fn update(atomic: &Atomic, old: u64, operand: u64, swap: u64) -> u64 {
    let wide = atomic.size == 8;
    let signed = |x: u64| {
        if wide {
            x as i64
        } else {
            i64::from(x as u32 as i32)
        }
    };
    match atomic.op {
        AtomicOp::And => old & operand,
        AtomicOp::Or => old | operand,
        AtomicOp::Xor => old ^ operand,
        AtomicOp::Exch => operand,
        AtomicOp::Cas => {
            let mask = u64::MAX >> (64 - 8 * atomic.size);
            if old == operand & mask { swap } else { old }
        }
        AtomicOp::Add if wide => old.wrapping_add(operand),
        AtomicOp::Add => u64::from((old as u32).wrapping_add(operand as u32)),
        AtomicOp::Inc => {
            if old >= operand {
                0
            } else {
                old + 1
            }
        }
        AtomicOp::Dec => {
            if old == 0 || old > operand {
                operand
            } else {
                old - 1
            }
        }
        AtomicOp::MinU => old.min(operand),
        AtomicOp::MaxU => old.max(operand),
        AtomicOp::MinS => {
            if signed(operand) < signed(old) {
                operand
            } else {
                old
            }
        }
        AtomicOp::MaxS => {
            if signed(operand) > signed(old) {
                operand
            } else {
                old
            }
        }
        AtomicOp::FAdd => float(FloatOp::Add, atomic.ty, old, operand),
        AtomicOp::FMin => float(FloatOp::Min, atomic.ty, old, operand),
        AtomicOp::FMax => float(FloatOp::Max, atomic.ty, old, operand),
    }
}

fn float(op: FloatOp, ty: AtomicType, a: u64, b: u64) -> u64 {
    let one = |width: Width, a: u64, b: u64| compute(op, width, Mode::NEAREST, [a, b, 0]);
    let pair = |width: Width| {
        one(width, a & 0xffff, b & 0xffff) | one(width, a >> 16 & 0xffff, b >> 16 & 0xffff) << 16
    };
    match ty {
        AtomicType::F16 => one(Width::F16, a, b & 0xffff),
        AtomicType::Bf16 => one(Width::Bf16, a, b & 0xffff),
        AtomicType::F16x2 => pair(Width::F16),
        AtomicType::Bf16x2 => pair(Width::Bf16),
        AtomicType::F32 => one(Width::F32, a, b),
        AtomicType::F64 | AtomicType::Bits => one(Width::F64, a, b),
    }
}
