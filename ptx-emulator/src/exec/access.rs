//! Loads and stores of a warp, in every state space.
//!
//! An access is moved as words of 32 bits: up to eight for each lane. Registers are cut from them and put together from them.

use super::block::State;
use super::warp::Warp;
use super::{Outcome, Stop, lanes_of, space_of, window};
use crate::alu::{Lanes32, Lanes64, each_lane};
use crate::ast::Space;
use crate::check::race::Strength;
use crate::check::report::{Fault, Nearest};
use crate::count::{bank_conflicts, sectors};
use crate::program::inst::{Access, Slot};

impl Access {
    /// Bytes that one lane moves.
    fn bytes(&self) -> u32 {
        self.size * self.registers.len() as u32
    }

    /// Words that they are moved in.
    fn words(&self) -> u32 {
        self.bytes().div_ceil(4)
    }
}

impl Warp {
    pub(super) fn load(
        &mut self,
        block: &mut State,
        access: &Access,
        pc: u32,
        active: u32,
    ) -> Outcome<()> {
        match access.words() {
            1 => self.load_words::<1>(block, access, pc, active),
            2 => self.load_words::<2>(block, access, pc, active),
            4 => self.load_words::<4>(block, access, pc, active),
            _ => self.load_words::<8>(block, access, pc, active),
        }
    }

    fn load_words<const N: usize>(
        &mut self,
        block: &mut State,
        access: &Access,
        pc: u32,
        active: u32,
    ) -> Outcome<()> {
        let addresses = self.addresses(access.address);
        let mut words = [[0; 32]; N];
        if access.space == Space::Generic {
            for (space, lanes, addresses) in by_space(&addresses, active) {
                self.read_words(block, access, space, &addresses, pc, lanes, &mut words)?;
            }
        } else {
            self.read_words(
                block,
                access,
                access.space,
                &addresses,
                pc,
                active,
                &mut words,
            )?;
        }
        self.put(access, &words, active);
        Ok(())
    }

    pub(super) fn store(
        &mut self,
        block: &mut State,
        access: &Access,
        pc: u32,
        active: u32,
    ) -> Outcome<()> {
        match access.words() {
            1 => self.store_words::<1>(block, access, pc, active),
            2 => self.store_words::<2>(block, access, pc, active),
            4 => self.store_words::<4>(block, access, pc, active),
            _ => self.store_words::<8>(block, access, pc, active),
        }
    }

    fn store_words<const N: usize>(
        &mut self,
        block: &mut State,
        access: &Access,
        pc: u32,
        active: u32,
    ) -> Outcome<()> {
        let addresses = self.addresses(access.address);
        let mut words = [[0; 32]; N];
        self.get(access, &mut words);
        if access.space == Space::Generic {
            for (space, lanes, addresses) in by_space(&addresses, active) {
                self.write_words(block, access, space, &addresses, pc, lanes, &words)?;
            }
            return Ok(());
        }
        self.write_words(block, access, access.space, &addresses, pc, active, &words)
    }

    /// Cuts registers from words.
    #[inline]
    fn put(&mut self, access: &Access, words: &[Lanes32], active: u32) {
        for (i, slot) in access.registers.iter().enumerate() {
            let at = i * access.size as usize;
            let word = &words[at / 4];
            let shift = 8 * (at % 4) as u32;
            match (*slot, access.size) {
                (Slot::Sink, _) => {}
                (Slot::Narrow(r), 4 | 8) => self.registers.set_r(r, active, word),
                (Slot::Narrow(r), size) => {
                    let out =
                        each_lane(|lane| extend(word[lane] >> shift, size, access.signed) as u32);
                    // A register of 16 bits has zeros above them; the sign of a byte stops there.
                    self.registers.set_r(r, active, &out);
                }
                (Slot::Wide(d), 8) => {
                    let high = &words[at / 4 + 1];
                    let out = each_lane(|lane| u64::from(word[lane]) | u64::from(high[lane]) << 32);
                    self.registers.set_d(d, active, &out);
                }
                (Slot::Wide(d), size) => {
                    let out = each_lane(|lane| extend(word[lane] >> shift, size, access.signed));
                    self.registers.set_d(d, active, &out);
                }
            }
        }
    }

    /// Puts words together from registers.
    #[inline]
    fn get(&self, access: &Access, words: &mut [Lanes32]) {
        for (i, slot) in access.registers.iter().enumerate() {
            let at = i * access.size as usize;
            let shift = 8 * (at % 4) as u32;
            let mask = if access.size >= 4 {
                u32::MAX
            } else {
                (1 << (8 * access.size)) - 1
            };
            match *slot {
                Slot::Sink => {}
                Slot::Narrow(r) if access.size == 4 => words[at / 4] = *self.registers.r(r),
                Slot::Narrow(r) => {
                    let from = self.registers.r(r);
                    let word = &mut words[at / 4];
                    for lane in 0..32 {
                        word[lane] |= (from[lane] & mask) << shift;
                    }
                }
                Slot::Wide(d) => {
                    let from = self.registers.d(d);
                    for lane in 0..32 {
                        words[at / 4][lane] |= (from[lane] as u32 & mask) << shift;
                        if access.size == 8 {
                            words[at / 4 + 1][lane] = (from[lane] >> 32) as u32;
                        }
                    }
                }
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "they are what an access is")]
    #[inline]
    fn read_words(
        &mut self,
        block: &mut State,
        access: &Access,
        space: Space,
        addresses: &Lanes64,
        pc: u32,
        active: u32,
        words: &mut [Lanes32],
    ) -> Outcome<()> {
        let bytes = access.bytes();
        check_alignment(addresses, active, bytes, space)?;
        block.tally.traffic(space).read += u64::from(bytes * active.count_ones());
        match space {
            Space::Global | Space::Generic => {
                block.count_sectors(addresses, active, bytes);
                let check = block.checks.init;
                for lane in lanes_of(active) {
                    let address = addresses[lane];
                    let Some((allocation, offset)) =
                        block
                            .global
                            .find(address, bytes, &mut block.hints[pc as usize])
                    else {
                        return Err(block.out_of_bounds(Space::Global, lane, address, bytes));
                    };
                    if check && !allocation.is_written(offset, bytes) {
                        return Err(Stop::access(
                            Fault::Uninitialised {
                                bytes: bytes.into(),
                            },
                            lane as u32,
                            address,
                            Space::Global,
                        ));
                    }
                    allocation.load(offset, bytes, |i, word| words[i][lane] = word);
                }
            }
            Space::Shared | Space::SharedCluster => {
                let addresses = block.shared_addresses(addresses, active, bytes)?;
                block.tally.bank_conflicts += u64::from(bank_conflicts(&addresses, active, bytes));
                block.shadow_read(self.index, active, &addresses, bytes, pc, strength(access))?;
                for lane in lanes_of(active) {
                    block
                        .shared
                        .load(addresses[lane], bytes, |i, word| words[i][lane] = word);
                }
            }
            Space::Local => {
                for lane in lanes_of(active) {
                    let address = self.local_address(addresses[lane], lane, bytes)?;
                    if !self.local.is_written(lane, address, bytes) {
                        return Err(Stop::access(
                            Fault::Uninitialised {
                                bytes: bytes.into(),
                            },
                            lane as u32,
                            address.into(),
                            Space::Local,
                        ));
                    }
                    self.local
                        .load(lane, address, bytes, |i, word| words[i][lane] = word);
                }
            }
            Space::Const | Space::Param => {
                let from = if space == Space::Const {
                    &block.program.constants
                } else {
                    block.params
                };
                for lane in lanes_of(active) {
                    let address = addresses[lane];
                    let Some(from) = address
                        .checked_add(bytes.into())
                        .and_then(|end| from.get(address as usize..end as usize))
                    else {
                        return Err(block.out_of_bounds(space, lane, address, bytes));
                    };
                    for (i, chunk) in from.chunks(4).enumerate() {
                        let mut word = [0; 4];
                        word[..chunk.len()].copy_from_slice(chunk);
                        words[i][lane] = u32::from_le_bytes(word);
                    }
                }
            }
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "they are what an access is")]
    fn write_words(
        &mut self,
        block: &mut State,
        access: &Access,
        space: Space,
        addresses: &Lanes64,
        pc: u32,
        active: u32,
        words: &[Lanes32],
    ) -> Outcome<()> {
        let bytes = access.bytes();
        check_alignment(addresses, active, bytes, space)?;
        block.tally.traffic(space).written += u64::from(bytes * active.count_ones());
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
                    allocation.store(offset, bytes, |i| words[i][lane]);
                }
            }
            Space::Shared | Space::SharedCluster => {
                let addresses = block.shared_addresses(addresses, active, bytes)?;
                block.tally.bank_conflicts += u64::from(bank_conflicts(&addresses, active, bytes));
                let same = |a: u32, b: u32| {
                    addresses[a as usize] == addresses[b as usize]
                        && words
                            .iter()
                            .take(bytes.div_ceil(4) as usize)
                            .all(|word| word[a as usize] == word[b as usize])
                };
                block.shadow_write(
                    self.index,
                    active,
                    &addresses,
                    bytes,
                    pc,
                    strength(access),
                    same,
                )?;
                for lane in lanes_of(active) {
                    block
                        .shared
                        .store(addresses[lane], bytes, |i| words[i][lane]);
                }
            }
            Space::Local => {
                for lane in lanes_of(active) {
                    let address = self.local_address(addresses[lane], lane, bytes)?;
                    self.local.store(lane, address, bytes, |i| words[i][lane]);
                }
            }
            Space::Const | Space::Param => {
                let lane = active.trailing_zeros();
                return Err(Stop::access(
                    Fault::ReadOnly {
                        bytes: bytes.into(),
                    },
                    lane,
                    addresses[lane as usize],
                    space,
                ));
            }
        }
        Ok(())
    }

    fn local_address(&self, address: u64, lane: usize, bytes: u32) -> Outcome<u32> {
        if self.local.holds(address, bytes) {
            return Ok(address as u32);
        }
        let nearest = Nearest {
            name: "local memory".to_owned(),
            start: 0,
            len: self.local.len().into(),
            address,
        };
        let fault = Fault::OutOfBounds {
            bytes: bytes.into(),
            nearest: Some(nearest),
        };
        Err(Stop::access(fault, lane as u32, address, Space::Local))
    }
}

fn strength(access: &Access) -> Strength {
    if access.strong {
        Strength::Strong
    } else {
        Strength::Weak
    }
}

fn extend(word: u32, size: u32, signed: bool) -> u64 {
    match (size, signed) {
        (1, false) => u64::from(word as u8),
        (1, true) => word as i8 as u64,
        (2, false) => u64::from(word as u16),
        (2, true) => word as i16 as u64,
        (_, false) => u64::from(word),
        (_, true) => word as i32 as u64,
    }
}

/// Every address must be a multiple of the whole access.
#[inline]
pub(super) fn check_alignment(
    addresses: &Lanes64,
    active: u32,
    bytes: u32,
    space: Space,
) -> Outcome<()> {
    let misaligned = |lane: &usize| addresses[*lane] & u64::from(bytes - 1) != 0;
    // Most accesses are aligned in all lanes, even those that take no part.
    let any = addresses.iter().fold(0, |any, address| any | address) & u64::from(bytes - 1) != 0;
    if any && let Some(lane) = lanes_of(active).find(misaligned) {
        let found = addresses[lane] & u64::from(bytes - 1);
        let fault = Fault::Misaligned {
            expected: bytes.into(),
            found,
        };
        return Err(Stop::access(fault, lane as u32, addresses[lane], space));
    }
    Ok(())
}

/// Sorts lanes by the space that their generic addresses lie in, and takes the windows away.
pub(super) fn by_space(
    addresses: &Lanes64,
    active: u32,
) -> impl Iterator<Item = (Space, u32, Lanes64)> {
    let mut rest = active;
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let space = space_of(addresses[rest.trailing_zeros() as usize]);
        let lanes = lanes_of(rest)
            .filter(|&lane| space_of(addresses[lane]) == space)
            .fold(0, |mask, lane| mask | 1 << lane);
        rest &= !lanes;
        let window = window(space);
        Some((
            space,
            lanes,
            each_lane(|lane| addresses[lane].wrapping_sub(window)),
        ))
    })
}

impl State<'_> {
    /// Addresses of shared memory, inside it.
    pub(super) fn shared_addresses(
        &self,
        addresses: &Lanes64,
        active: u32,
        bytes: u32,
    ) -> Outcome<Lanes32> {
        // Most accesses are inside in all lanes, even those that take no part.
        let beyond = u64::from(self.shared_bytes).saturating_sub(u64::from(bytes) - 1);
        let base = self.rank * self.shared_stride;
        if addresses.iter().all(|address| *address < beyond) {
            return Ok(each_lane(|lane| base + addresses[lane] as u32));
        }
        let mut out = [0; 32];
        for lane in lanes_of(active) {
            out[lane] = self
                .locate_shared(addresses[lane], bytes)
                .ok_or_else(|| self.out_of_bounds(Space::Shared, lane, addresses[lane], bytes))?;
        }
        Ok(out)
    }

    #[inline]
    pub(super) fn count_sectors(&mut self, addresses: &Lanes64, active: u32, bytes: u32) {
        self.tally.global_sectors += u64::from(sectors(addresses, active, bytes));
        self.tally.ideal_global_sectors += u64::from((active.count_ones() * bytes).div_ceil(32));
    }

    #[cold]
    pub(super) fn out_of_bounds(
        &self,
        space: Space,
        lane: usize,
        address: u64,
        bytes: u32,
    ) -> Box<Stop> {
        let nearest = match space {
            Space::Global | Space::Generic => self.global.nearest(address),
            Space::Shared | Space::SharedCluster => self.nearest_shared(address),
            Space::Const => Some(Nearest {
                name: "constant memory".to_owned(),
                start: 0,
                len: self.program.constants.len() as u64,
                address,
            }),
            Space::Param => Some(Nearest {
                name: "the parameters".to_owned(),
                start: 0,
                len: self.params.len() as u64,
                address,
            }),
            Space::Local => None,
        };
        Stop::access(
            Fault::OutOfBounds {
                bytes: bytes.into(),
                nearest,
            },
            lane as u32,
            address,
            space,
        )
    }
}
