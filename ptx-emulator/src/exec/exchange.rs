//! Exchanges between the lanes of a warp.

use super::block::State;
use super::warp::{Flow, Wait, Warp};
use super::{Outcome, Stop, lanes_of};
use crate::alu::float::{FloatOp, Mode, Width, compute};
use crate::check::report::Fault;
use crate::program::inst::{Match, P, R, Redux, Shuffle, ShuffleMode, Vote};

/// Goes on with the lanes that take part, or leaves with what the warp has to do first.
macro_rules! members {
    ($self:ident, $members:expr, $active:expr) => {
        match $self.members($self.registers.r($members), $active)? {
            Ok(lanes) => lanes,
            Err(flow) => return Ok(flow),
        }
    };
}

impl Warp {
    pub(super) fn shuffle(&mut self, shuffle: &Shuffle, active: u32) -> Outcome<Flow> {
        let lanes = members!(self, shuffle.members, active);
        let r = &self.registers;
        let (a, b, c) = (r.r(shuffle.a), r.r(shuffle.b), r.r(shuffle.c));
        let mut out = [0; 32];
        let mut in_range = 0;
        for lane in lanes_of(lanes) {
            let me = lane as u32;
            let (b, clamp, segment) = (b[lane] & 31, c[lane] & 31, c[lane] >> 8 & 31);
            let last = (me & segment) | (clamp & !segment);
            let first = me & segment;
            let (from, inside) = match shuffle.mode {
                // `up` compares as signed: its limit is the lowest lane.
                ShuffleMode::Up => (me.wrapping_sub(b), me as i32 - b as i32 >= last as i32),
                ShuffleMode::Down => (me + b, me + b <= last),
                ShuffleMode::Bfly => (me ^ b, me ^ b <= last),
                ShuffleMode::Idx => (first | (b & !segment), first | (b & !segment) <= last),
            };
            let from = if inside { from & 31 } else { me };
            if lanes >> from & 1 == 0 {
                return Err(Stop::lane(
                    Fault::InactiveLane {
                        from,
                        active: lanes,
                    },
                    me,
                ));
            }
            out[lane] = a[from as usize];
            in_range |= u32::from(inside) << lane;
        }
        self.registers.set_r(shuffle.to, lanes, &out);
        self.registers.set_p(shuffle.in_range, lanes, in_range);
        Ok(Flow::Next)
    }

    pub(super) fn vote(
        &mut self,
        vote: Vote,
        predicate: P,
        negate: bool,
        members: R,
        active: u32,
    ) -> Outcome<Flow> {
        let lanes = members!(self, members, active);
        let holds = (self.registers.p(predicate) ^ if negate { u32::MAX } else { 0 }) & lanes;
        let all = |condition: bool| if condition { u32::MAX } else { 0 };
        let r = &mut self.registers;
        match vote {
            Vote::All(to) => r.set_p(to, lanes, all(holds == lanes)),
            Vote::Any(to) => r.set_p(to, lanes, all(holds != 0)),
            Vote::Uniform(to) => r.set_p(to, lanes, all(holds == 0 || holds == lanes)),
            Vote::Ballot(to) => r.set_r(to, lanes, &[holds; 32]),
        }
        Ok(Flow::Next)
    }

    pub(super) fn match_lanes(&mut self, inst: &Match, active: u32) -> Outcome<Flow> {
        let lanes = members!(self, inst.members, active);
        let values = self.registers.slot(inst.value);
        let equal = |lane: usize| {
            lanes_of(lanes)
                .filter(|&other| values[other] == values[lane])
                .fold(0, |mask, other| mask | 1 << other)
        };
        let mut out = [0; 32];
        for lane in lanes_of(lanes) {
            out[lane] = equal(lane);
        }
        if let Some(all) = inst.all {
            let same = out[lanes.trailing_zeros() as usize] == lanes;
            out = [if same { lanes } else { 0 }; 32];
            self.registers
                .set_p(all, lanes, if same { u32::MAX } else { 0 });
        }
        self.registers.set_r(inst.to, lanes, &out);
        Ok(Flow::Next)
    }

    pub(super) fn redux(
        &mut self,
        op: Redux,
        to: R,
        a: R,
        members: R,
        active: u32,
    ) -> Outcome<Flow> {
        let lanes = members!(self, members, active);
        let a = self.registers.r(a);
        let float = |op: FloatOp, abs: bool, nan: bool, x: u32, y: u32| {
            let strip = |x: u32| u64::from(if abs { x & 0x7fff_ffff } else { x });
            compute(
                op,
                Width::F32,
                Mode {
                    nan,
                    ..Mode::NEAREST
                },
                [strip(x), strip(y), 0],
            ) as u32
        };
        let join = |x: u32, y: u32| match op {
            Redux::Add => x.wrapping_add(y),
            Redux::MinU => x.min(y),
            Redux::MaxU => x.max(y),
            Redux::MinS => (x as i32).min(y as i32) as u32,
            Redux::MaxS => (x as i32).max(y as i32) as u32,
            Redux::And => x & y,
            Redux::Or => x | y,
            Redux::Xor => x ^ y,
            Redux::FMin { abs, nan } => float(FloatOp::Min, abs, nan, x, y),
            Redux::FMax { abs, nan } => float(FloatOp::Max, abs, nan, x, y),
        };
        let first = match op {
            Redux::FMin { abs: true, .. } | Redux::FMax { abs: true, .. } => {
                a[lanes.trailing_zeros() as usize] & 0x7fff_ffff
            }
            _ => a[lanes.trailing_zeros() as usize],
        };
        let out = lanes_of(lanes)
            .skip(1)
            .fold(first, |x, lane| join(x, a[lane]));
        self.registers.set_r(to, lanes, &[out; 32]);
        Ok(Flow::Next)
    }

    pub(super) fn elect(&mut self, to: R, elected: P, members: R, active: u32) -> Outcome<Flow> {
        let lanes = members!(self, members, active);
        let leader = lanes.trailing_zeros();
        self.registers.set_r(to, lanes, &[leader; 32]);
        self.registers.set_p(elected, lanes, 1 << leader);
        Ok(Flow::Next)
    }

    pub(super) fn warp_sync(
        &mut self,
        block: &mut State,
        members: R,
        active: u32,
    ) -> Outcome<Flow> {
        let masks = self.registers.r(members);
        let first = active.trailing_zeros();
        let members = masks[first as usize];
        let same = lanes_of(active)
            .filter(|&lane| masks[lane] == members)
            .fold(0, |mask, lane| mask | 1 << lane);
        if same & !members != 0 {
            let lane = (same & !members).trailing_zeros();
            return Err(Stop::lane(
                Fault::MemberMask {
                    mask: members,
                    executing: active,
                },
                lane,
            ));
        }
        if same != active {
            return Ok(Flow::Split(same));
        }
        if members & self.live == active {
            block.warp_met(self.index, active);
            return Ok(Flow::Next);
        }
        Ok(Flow::Wait(Wait::WarpSync(members)))
    }
}
