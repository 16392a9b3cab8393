//! One instruction of a warp.

use super::block::{MAPPED_SHIFT, State};
use super::warp::{Flow, Warp};
use super::{Outcome, Stop, lanes_of, space_of, window};
use crate::alu::compare::{compare32, compare64};
use crate::alu::{Lanes64, each_lane, int32, int64};
use crate::ast::Space;
use crate::check::report::Fault;
use crate::program::decode::link::FUNCTION_BASE;
use crate::program::inst::{
    Carry, CarryOperands, ClockPart, Combine, Compare, Inst, P, PredicateOp, Slot,
};
use crate::tensor_core::format::{Format, Overflow, Rounding};

impl Warp {
    /// Executes an instruction for the active lanes, of which there is at least one.
    #[inline]
    pub(super) fn step(
        &mut self,
        block: &mut State,
        inst: Inst,
        pc: u32,
        active: u32,
    ) -> Outcome<Flow> {
        let r = &mut self.registers;
        match inst {
            Inst::Nop => {}
            Inst::Int32(op, to, a, b, c) => {
                let out = op.apply(r.r(a), r.r(b), r.r(c));
                r.set_r(to, active, &out);
            }
            Inst::Float32(op, to, a, b, c) => {
                let out = op.apply(r.r(a), r.r(b), r.r(c));
                r.set_r(to, active, &out);
            }
            Inst::Int64(op, to, a, b, c) => {
                let out = op.apply(r.d(a), r.d(b), r.d(c));
                r.set_d(to, active, &out);
            }
            Inst::Wide(op, to, a, b, c) => {
                let out = op.apply(r.r(a), r.r(b), r.d(c));
                r.set_d(to, active, &out);
            }
            Inst::Shift64(op, to, a, b, c) => {
                let out = op.apply(r.d(a), r.r(b), r.r(c));
                r.set_d(to, active, &out);
            }
            Inst::Narrow(op, to, a) => {
                let out = op.apply(r.d(a));
                r.set_r(to, active, &out);
            }
            Inst::Compare32(index) => {
                let compare = &block.kernel.tables.compares32[index as usize];
                let (a, b) = (r.r(compare.a), r.r(compare.b));
                let result = compare32(compare.kind, compare.relation, a, b);
                let high = compare
                    .high
                    .map(|kind| compare32(kind, compare.relation, a, b));
                self.finish_compare(compare, result, high, active);
            }
            Inst::Compare64(index) => {
                let compare = &block.kernel.tables.compares64[index as usize];
                let result = compare64(
                    compare.kind,
                    compare.relation,
                    r.d(compare.a),
                    r.d(compare.b),
                );
                self.finish_compare(compare, result, None, active);
            }
            Inst::Select32(to, a, b, p) => {
                let (x, y, mask) = (r.r(a), r.r(b), r.p(p));
                let out = each_lane(|lane| {
                    if mask >> lane & 1 == 1 {
                        x[lane]
                    } else {
                        y[lane]
                    }
                });
                r.set_r(to, active, &out);
            }
            Inst::Predicate(op, to, a, b, negate) => {
                let flip =
                    |p: P, bit: u8| r.p(p) ^ if negate >> bit & 1 == 1 { u32::MAX } else { 0 };
                let mask = combine(op, flip(a, 0), flip(b, 1));
                r.set_p(to, active, mask);
            }
            Inst::Branch(target) => return Ok(Flow::Jump(target)),
            Inst::Load(index) => self.load(
                block,
                &block.kernel.tables.accesses[index as usize],
                pc,
                active,
            )?,
            Inst::Store(index) => self.store(
                block,
                &block.kernel.tables.accesses[index as usize],
                pc,
                active,
            )?,
            Inst::Mma(index) => {
                return Ok(self.mma(block, &block.kernel.tables.mmas[index as usize], active));
            }
            Inst::Matrix(index) => {
                return self.matrix(
                    block,
                    &block.kernel.tables.matrices[index as usize],
                    pc,
                    active,
                );
            }
            Inst::Shuffle(index) => {
                return self.shuffle(&block.kernel.tables.shuffles[index as usize], active);
            }
            Inst::Barrier(index) => {
                return self.barrier(block, &block.kernel.tables.barriers[index as usize], active);
            }
            Inst::CopyAsync(index) => self.copy_async(
                block,
                &block.kernel.tables.copies[index as usize],
                pc,
                active,
            )?,
            inst => return self.rare(block, inst, pc, active),
        }
        Ok(Flow::Next)
    }

    /// Instructions that are not in the inner loops of kernels.
    fn rare(&mut self, block: &mut State, inst: Inst, pc: u32, active: u32) -> Outcome<Flow> {
        let tables = &block.kernel.tables;
        let r = &mut self.registers;
        match inst {
            Inst::Float64(op, to, a, b, c) => {
                let out = op.apply(r.d(a), r.d(b), r.d(c));
                r.set_d(to, active, &out);
            }
            Inst::FloatFull(index, to, a, b, c) => {
                let out = tables.floats[index as usize].apply(active, r.r(a), r.r(b), r.r(c));
                r.set_r(to, active, &out);
            }
            Inst::FloatFull64(index, to, a, b, c) => {
                let out = tables.floats[index as usize].apply64(active, r.d(a), r.d(b), r.d(c));
                r.set_d(to, active, &out);
            }
            Inst::Convert(index, to, from) => {
                let conversion = &tables.conversions[index as usize];
                let from = r.slot(from);
                r.set_slot(to, active, &each_lane(|lane| conversion.apply(from[lane])));
            }
            Inst::ConvertPair(index, to, high, low, fp8) => {
                let (high, low) = (r.r(high), r.r(low));
                let out = if fp8 {
                    let pair = &tables.pairs[index as usize];
                    let encode = |bits: u32| {
                        let value = f32::from_bits(bits);
                        let value = if pair.relu { value.max(0.0) } else { value };
                        pair.to
                            .encode(f64::from(value), Rounding::NearestEven, Overflow::SatFinite)
                    };
                    each_lane(|lane| encode(high[lane]) << 8 | encode(low[lane]))
                } else {
                    let conversion = &tables.conversions[index as usize];
                    each_lane(|lane| {
                        (conversion.apply(high[lane].into()) as u32) << 16
                            | conversion.apply(low[lane].into()) as u32
                    })
                };
                r.set_r(to, active, &out);
            }
            Inst::ConvertFp8(index, to, a) => {
                let pair = tables.pairs[index as usize];
                let a = r.r(a);
                let narrow = |format: Format| {
                    if matches!(format, Format::E4m3 | Format::E5m2) {
                        8
                    } else {
                        16
                    }
                };
                let (from, to_bits) = (narrow(pair.from), narrow(pair.to));
                let convert = |bits: u32| {
                    let value = pair.from.decode(bits & ((1 << from) - 1));
                    let value = if pair.relu && value <= 0.0 {
                        0.0
                    } else {
                        value
                    };
                    let overflow = if to_bits == 8 {
                        Overflow::SatFinite
                    } else {
                        Overflow::Infinite
                    };
                    pair.to
                        .encode(f64::from(value), Rounding::NearestEven, overflow)
                };
                let out = each_lane(|lane| convert(a[lane] >> from) << to_bits | convert(a[lane]));
                r.set_r(to, active, &out);
            }
            Inst::Lop3(table, to, a, b, c) => {
                let (a, b, c) = (r.r(a), r.r(b), r.r(c));
                let out = each_lane(|lane| int32::lop3(table, a[lane], b[lane], c[lane]));
                r.set_r(to, active, &out);
            }
            Inst::Bfi32(to, a, b, position, length) => {
                let (a, b, position, length) = (r.r(a), r.r(b), r.r(position), r.r(length));
                let out =
                    each_lane(|lane| int32::insert(a[lane], b[lane], position[lane], length[lane]));
                r.set_r(to, active, &out);
            }
            Inst::Bfi64(to, a, b, position, length) => {
                let (a, b, position, length) = (r.d(a), r.d(b), r.r(position), r.r(length));
                let out =
                    each_lane(|lane| int64::insert(a[lane], b[lane], position[lane], length[lane]));
                r.set_d(to, active, &out);
            }
            Inst::Slct64(to, a, b, c) => {
                let (a, b, c) = (r.d(a), r.d(b), r.r(c));
                let out = each_lane(|lane| {
                    if (c[lane] as i32) >= 0 {
                        a[lane]
                    } else {
                        b[lane]
                    }
                });
                r.set_d(to, active, &out);
            }
            Inst::Select64(to, a, b, p) => {
                let (a, b, mask) = (r.d(a), r.d(b), r.p(p));
                let out = each_lane(|lane| {
                    if mask >> lane & 1 == 1 {
                        a[lane]
                    } else {
                        b[lane]
                    }
                });
                r.set_d(to, active, &out);
            }
            Inst::Carry(index) => self.carry(&tables.carries[index as usize], active),
            Inst::Test32(property, to, a) => {
                let mask = property.test32(r.r(a));
                r.set_p(to, active, mask);
            }
            Inst::Test64(property, to, a) => {
                let mask = property.test64(r.d(a));
                r.set_p(to, active, mask);
            }
            Inst::FromPredicate(value, to, p) => {
                let mask = r.p(p);
                r.set_r(
                    to,
                    active,
                    &each_lane(|lane| if mask >> lane & 1 == 1 { value } else { 0 }),
                );
            }
            Inst::Clock32(part, to) => {
                let value = block.clock();
                r.set_r(
                    to,
                    active,
                    &[if part == ClockPart::High {
                        (value >> 32) as u32
                    } else {
                        value as u32
                    }; 32],
                );
            }
            Inst::Clock64(to) => r.set_d(to, active, &[block.clock(); 32]),
            Inst::Atomic(index) => {
                self.atomic(block, &tables.atomics[index as usize], pc, active)?;
            }
            Inst::CopyLocal(to, from, len) => self.local.copy(active, to, from, len),
            Inst::ToSpace(space, to, a) => {
                let window = window(space);
                let a = r.d(a);
                let out = each_lane(|lane| a[lane].wrapping_sub(window));
                r.set_d(to, active, &out);
            }
            Inst::ToGeneric(space, to, a) => {
                let window = window(space);
                let a = r.d(a);
                let out = each_lane(|lane| a[lane].wrapping_add(window));
                r.set_d(to, active, &out);
            }
            Inst::IsSpace(space, to, a) => {
                let wanted = if space == Space::SharedCluster {
                    Space::Shared
                } else {
                    space
                };
                let mask = lanes_of(u32::MAX)
                    .filter(|&lane| space_of(r.d(a)[lane]) == wanted)
                    .fold(0, |mask, lane| mask | 1 << lane);
                r.set_p(to, active, mask);
            }
            Inst::BranchIndexed(index, by) => {
                let table = &tables.jumps[index as usize];
                let by = r.r(by);
                if let Some(lane) = lanes_of(active).find(|&lane| by[lane] as usize >= table.len())
                {
                    let fault = Fault::BadUse {
                        instruction: "brx.idx".to_owned(),
                        expected: format!("an index below {}", table.len()),
                        found: by[lane].to_string(),
                    };
                    return Err(Stop::lane(fault, lane as u32));
                }
                return Ok(Flow::Scatter(Box::new(each_lane(|lane| {
                    table.get(by[lane] as usize).copied().unwrap_or(0)
                }))));
            }
            Inst::Call(target) => return Ok(Flow::Call(target)),
            Inst::CallIndirect(by) => {
                let by = r.d(by);
                let target = |lane: usize| by[lane].wrapping_sub(FUNCTION_BASE);
                if let Some(lane) =
                    lanes_of(active).find(|&lane| target(lane) >= block.kernel.steps.len() as u64)
                {
                    let fault = Fault::BadUse {
                        instruction: "call".to_owned(),
                        expected: "the address of a function".to_owned(),
                        found: format!("{:#x}", by[lane]),
                    };
                    return Err(Stop::lane(fault, lane as u32));
                }
                return Ok(Flow::ScatterCall(Box::new(each_lane(|lane| {
                    target(lane) as u32
                }))));
            }
            Inst::Return => return Ok(Flow::Return),
            Inst::Exit => return Ok(Flow::Exit),
            Inst::Trap => return Err(Stop::lane(Fault::Trap, active.trailing_zeros())),
            Inst::ActiveMask(to) => r.set_r(to, active, &[active; 32]),
            Inst::Vote(vote, predicate, negate, members) => {
                return self.vote(vote, predicate, negate, members, active);
            }
            Inst::Match(index) => return self.match_lanes(&tables.matches[index as usize], active),
            Inst::Redux(op, to, a, members) => return self.redux(op, to, a, members, active),
            Inst::Elect(to, elected, members) => return self.elect(to, elected, members, active),
            Inst::WarpSync(members) => return self.warp_sync(block, members, active),
            Inst::MovMatrix(to, a) => return Ok(self.movmatrix(to, a, active)),
            Inst::Wgmma(index) => return self.wgmma(block, index, pc, active),
            Inst::WgmmaFence | Inst::SetMaxRegisters => {
                if let Err(flow) = self.whole(active) {
                    return Ok(flow);
                }
            }
            Inst::WgmmaCommit => {
                if let Err(flow) = self.whole(active) {
                    return Ok(flow);
                }
                block.wgmma.commit(self.index);
            }
            Inst::WgmmaWait(left) => return Ok(self.wgmma_wait(block, left, active)),
            Inst::CommitGroup => self.copies.commit(active),
            Inst::WaitGroup(left) => self.wait_group(block, Some(left), active)?,
            Inst::WaitAll => self.wait_group(block, None, active)?,
            Inst::Mapa32(to, a, rank) => {
                let (a, rank) = (r.r(a), r.r(rank));
                let out = each_lane(|lane| mapped(a[lane].into(), rank[lane]) as u32);
                r.set_r(to, active, &out);
            }
            Inst::Mapa64(to, a, rank) => {
                let (a, rank) = (r.d(a), r.r(rank));
                let out = each_lane(|lane| mapped(a[lane], rank[lane]));
                r.set_d(to, active, &out);
            }
            Inst::BlockRank(to, a) => {
                let (a, own) = (r.slot(a), block.rank);
                let rank = |address: u64| (address as u32 >> MAPPED_SHIFT).checked_sub(1);
                let out = each_lane(|lane| rank(a[lane]).unwrap_or(own));
                r.set_r(to, active, &out);
            }
            Inst::CopyArrive(index) => {
                self.copy_arrive(block, &tables.copy_arrivals[index as usize], pc, active)?;
            }
            Inst::Mbarrier(index) => {
                return self.mbarrier(block, &tables.mbarriers[index as usize], pc, active);
            }
            Inst::Bulk(index) => self.bulk(block, &tables.bulks[index as usize], pc, active)?,
            Inst::BulkCommit => self.stores.commit(active),
            Inst::BulkWait(left, read) => self.bulk_wait(block, left, read, active)?,
            Inst::FenceProxyAsync => block.fence_proxy_async(self.index, active),
            Inst::ClusterArrive => return self.cluster_arrive(block, active),
            Inst::ClusterWait => return self.cluster_wait(block, active),
            Inst::Nop
            | Inst::Int32(..)
            | Inst::Float32(..)
            | Inst::Int64(..)
            | Inst::Wide(..)
            | Inst::Shift64(..)
            | Inst::Narrow(..)
            | Inst::Compare32(_)
            | Inst::Compare64(_)
            | Inst::Select32(..)
            | Inst::Predicate(..)
            | Inst::Branch(_)
            | Inst::Load(_)
            | Inst::Store(_)
            | Inst::Mma(_)
            | Inst::Matrix(_)
            | Inst::Shuffle(_)
            | Inst::Barrier(_)
            | Inst::CopyAsync(_) => unreachable!("executed by the caller"),
        }
        Ok(Flow::Next)
    }

    fn finish_compare<T>(
        &mut self,
        compare: &Compare<T>,
        result: u32,
        high: Option<u32>,
        active: u32,
    ) {
        let Combine { op, with, negate } = compare.combine;
        let with = self.registers.p(with) ^ if negate { u32::MAX } else { 0 };
        // `p` gets the comparison combined, `q` its negation combined.
        self.registers
            .set_p(compare.to, active, combine(op, result, with));
        self.registers.set_p(
            compare.to_other,
            active,
            combine(op, high.unwrap_or(!result), with),
        );
    }

    fn carry(&mut self, carry: &Carry, active: u32) {
        let r = &mut self.registers;
        let flag = if carry.reads { r.carry() } else { 0 };
        // A subtraction adds the complement, and its flag is a borrow.
        let mut out_flag = 0u32;
        match carry.operands {
            CarryOperands::Narrow(to, a, b) => {
                let (a, b) = (r.r(a), r.r(b));
                let out = each_lane(|lane| {
                    let flag = flag >> lane & 1;
                    if carry.subtract {
                        a[lane].wrapping_sub(b[lane]).wrapping_sub(flag)
                    } else {
                        a[lane].wrapping_add(b[lane]).wrapping_add(flag)
                    }
                });
                for lane in 0..32 {
                    let flag = u64::from(flag >> lane & 1);
                    let (a, b) = (u64::from(a[lane]), u64::from(b[lane]));
                    let overflows = if carry.subtract {
                        a < b + flag
                    } else {
                        a + b + flag > u64::from(u32::MAX)
                    };
                    out_flag |= u32::from(overflows) << lane;
                }
                r.set_r(to, active, &out);
            }
            CarryOperands::Wide(to, a, b) => {
                let (a, b) = (r.d(a), r.d(b));
                let out = each_lane(|lane| {
                    let flag = u64::from(flag >> lane & 1);
                    if carry.subtract {
                        a[lane].wrapping_sub(b[lane]).wrapping_sub(flag)
                    } else {
                        a[lane].wrapping_add(b[lane]).wrapping_add(flag)
                    }
                });
                for lane in 0..32 {
                    let flag = u128::from(flag >> lane & 1);
                    let (a, b) = (u128::from(a[lane]), u128::from(b[lane]));
                    let overflows = if carry.subtract {
                        a < b + flag
                    } else {
                        a + b + flag > u128::from(u64::MAX)
                    };
                    out_flag |= u32::from(overflows) << lane;
                }
                r.set_d(to, active, &out);
            }
        }
        if carry.writes {
            r.set_p(crate::program::inst::CARRY, active, out_flag);
        }
    }

    /// The addresses of an access.
    #[inline]
    pub(super) fn addresses(&self, address: crate::program::inst::Address) -> Lanes64 {
        let offset = address.offset as u64;
        match address.base {
            Slot::Wide(d) => {
                let base = self.registers.d(d);
                each_lane(|lane| base[lane].wrapping_add(offset))
            }
            Slot::Narrow(r) => {
                let base = self.registers.r(r);
                each_lane(|lane| u64::from(base[lane].wrapping_add(offset as u32)))
            }
            Slot::Sink => [offset; 32],
        }
    }
}

/// An address of shared memory, in the block of a rank.
fn mapped(address: u64, rank: u32) -> u64 {
    let field = 0xff << MAPPED_SHIFT;
    // A rank that no cluster has stays one that is found out where the address is used.
    address & !field | u64::from(rank.min(0xfe) + 1) << MAPPED_SHIFT
}

fn combine(op: PredicateOp, a: u32, b: u32) -> u32 {
    match op {
        PredicateOp::Mov => a,
        PredicateOp::And => a & b,
        PredicateOp::Or => a | b,
        PredicateOp::Xor => a ^ b,
        PredicateOp::Not => !a,
    }
}
