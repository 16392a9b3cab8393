//! The registers of a warp.

use crate::alu::{Lanes32, Lanes64, each_lane};
use crate::program::inst::{CARRY, D, P, R, Slot, TRUE};

/// A bit per lane.
const BITS: [u32; 32] = {
    let mut bits = [0; 32];
    let mut lane = 0;
    while lane < 32 {
        bits[lane] = 1 << lane;
        lane += 1;
    }
    bits
};

/// Registers of one warp: two files, and predicates as masks.
#[derive(Debug, Default)]
pub(crate) struct Registers {
    narrow: Vec<Lanes32>,
    wide: Vec<Lanes64>,
    predicates: Vec<u32>,
}

impl Registers {
    pub(super) fn new(narrow: u32, wide: u32, predicates: u32) -> Self {
        let mut registers = Self {
            narrow: vec![[0; 32]; narrow as usize],
            wide: vec![[0; 32]; wide as usize],
            predicates: vec![0; predicates as usize],
        };
        registers.predicates[TRUE.0 as usize] = u32::MAX;
        registers
    }

    /// Everything is 0 again but the first predicate.
    pub(super) fn clear(&mut self) {
        self.narrow.fill([0; 32]);
        self.wide.fill([0; 32]);
        self.predicates.fill(0);
        self.predicates[TRUE.0 as usize] = u32::MAX;
    }

    #[inline]
    pub(super) fn r(&self, r: R) -> &Lanes32 {
        &self.narrow[r.0 as usize]
    }

    #[inline]
    pub(super) fn d(&self, d: D) -> &Lanes64 {
        &self.wide[d.0 as usize]
    }

    #[inline]
    pub(super) fn p(&self, p: P) -> u32 {
        self.predicates[p.0 as usize]
    }

    pub(super) fn carry(&self) -> u32 {
        self.p(CARRY)
    }

    /// A register of either file, widened.
    pub(super) fn slot(&self, slot: Slot) -> Lanes64 {
        match slot {
            Slot::Narrow(r) => self.r(r).map(u64::from),
            Slot::Wide(d) => *self.d(d),
            Slot::Sink => [0; 32],
        }
    }

    #[inline]
    pub(super) fn set_r(&mut self, r: R, lanes: u32, out: &Lanes32) {
        let to = &mut self.narrow[r.0 as usize];
        if lanes == u32::MAX {
            *to = *out;
        } else {
            for lane in 0..32 {
                to[lane] = if lanes & BITS[lane] != 0 {
                    out[lane]
                } else {
                    to[lane]
                };
            }
        }
    }

    #[inline]
    pub(super) fn set_d(&mut self, d: D, lanes: u32, out: &Lanes64) {
        let to = &mut self.wide[d.0 as usize];
        if lanes == u32::MAX {
            *to = *out;
        } else {
            for lane in 0..32 {
                to[lane] = if lanes & BITS[lane] != 0 {
                    out[lane]
                } else {
                    to[lane]
                };
            }
        }
    }

    #[inline]
    pub(super) fn set_p(&mut self, p: P, lanes: u32, mask: u32) {
        let to = &mut self.predicates[p.0 as usize];
        *to = (*to & !lanes) | (mask & lanes);
    }

    pub(super) fn set_slot(&mut self, slot: Slot, lanes: u32, out: &Lanes64) {
        match slot {
            Slot::Narrow(r) => self.set_r(r, lanes, &each_lane(|lane| out[lane] as u32)),
            Slot::Wide(d) => self.set_d(d, lanes, out),
            Slot::Sink => {}
        }
    }

    /// The registers themselves, for what writes all lanes of several at once.
    pub(super) fn r_mut(&mut self, r: R) -> &mut Lanes32 {
        &mut self.narrow[r.0 as usize]
    }
}
