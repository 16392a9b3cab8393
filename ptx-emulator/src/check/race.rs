//! Races in the shared memory of one block: a shadow of who last wrote and read each word.
//!
//! An access must be ordered after every access that it conflicts with, by `bar.sync` and the other barriers, by an
//! `mbarrier`, or within a warp by `bar.warp.sync`. Instructions that merely execute in step (`shfl.sync`, `mma`,
//! `ldmatrix`) order no memory. A copy in flight owns its destination from issue until somebody waits for it.

use super::clock::{Clock, WarpClocks, bits};
use super::report::{Access, Actor, Fault, RaceKind};
use crate::ast::Location;

mod copies;

#[cfg(test)]
mod tests;

/// Barriers of a block.
pub const BARRIERS: usize = 16;

/// The most warps that a cluster may have: they and their groups of four have a bit each.
pub const MAX_WARPS: u32 = 51;

/// The epoch of an access that has not ended.
const IN_FLIGHT: u32 = u32::MAX;

/// Which checks a [`Shadow`] makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShadowChecks {
    /// Reads of what nothing wrote.
    pub uninitialised: bool,
    /// Races between warps, and within a warp.
    pub races: bool,
    /// Generic writes that the asynchronous proxy reads without a fence.
    pub proxy: bool,
}

impl ShadowChecks {
    /// Every check.
    pub const ALL: Self = Self {
        uninitialised: true,
        races: true,
        proxy: true,
    };
}

/// Whether an access may race with others of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    /// An ordinary load or store.
    Weak,
    /// An atomic, `ld.volatile`, `ld.relaxed`, `ld.acquire` and their stores.
    Strong,
}

/// Bytes of shared memory, from the first address, `len` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First address.
    pub start: u32,
    /// Number of bytes.
    pub len: u32,
}

/// What an access conflicts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// How.
    pub kind: ConflictKind,
    /// Shared address of the word.
    pub address: u32,
    /// The lane that makes the access.
    pub lane: u32,
    /// Who made the earlier access.
    pub actor: Actor,
    /// Index of the instruction that made it.
    pub pc: u32,
}

/// How two accesses conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictKind {
    /// There was no earlier write; `actor` and `pc` mean nothing.
    Uninitialised,
    /// Between warps, or with a copy.
    Race(RaceKind),
    /// Between lanes of one warp.
    WarpRace(RaceKind),
    /// With a copy that still writes.
    PendingWrite(RaceKind),
    /// With a copy that still reads.
    PendingRead,
    /// A write, ordered but not fenced, read by the asynchronous proxy.
    MissingProxyFence,
}

impl Conflict {
    /// The fault, for an access of `bytes`; `resolve` tells where an instruction stands and what it says.
    pub fn into_fault(self, bytes: u64, resolve: impl FnOnce(u32) -> (Location, String)) -> Fault {
        if self.kind == ConflictKind::Uninitialised {
            return Fault::Uninitialised { bytes };
        }
        let (location, text) = resolve(self.pc);
        let other = Box::new(Access {
            actor: self.actor,
            location,
            text,
        });
        match self.kind {
            ConflictKind::Uninitialised => Fault::Uninitialised { bytes },
            ConflictKind::Race(kind) => Fault::SharedRace { kind, other },
            ConflictKind::WarpRace(kind) => Fault::WarpRace { kind, other },
            ConflictKind::PendingWrite(kind) => Fault::PendingCopy {
                kind,
                copy_writes: true,
                other,
            },
            ConflictKind::PendingRead => Fault::PendingCopy {
                kind: RaceKind::WriteAfterRead,
                copy_writes: false,
                other,
            },
            ConflictKind::MissingProxyFence => Fault::MissingProxyFence { other },
        }
    }
}

/// The last write of a word; epoch 0 means none.
#[derive(Clone, Copy, Debug, Default)]
struct Write {
    /// The actor, with [`STRONG`] and [`COPIED`] in the high bits.
    actor: u32,
    epoch: u32,
    pc: u32,
}

/// The write was strong.
const STRONG: u32 = 1 << 31;
/// The write was made by a copy in the asynchronous proxy.
const COPIED: u32 = 1 << 30;

impl Write {
    fn actor(self) -> usize {
        (self.actor & !(STRONG | COPIED)) as usize
    }
}

/// The last reads of a word by one warp.
#[derive(Clone, Copy, Debug, Default)]
struct Read {
    lanes: u32,
    epoch: u32,
    pc: u32,
}

/// What an `mbarrier` orders.
#[derive(Clone, Debug)]
struct MbarrierClocks {
    address: u32,
    /// What arrivals of this phase and those before it know.
    arrived: Clock,
    /// What a thread learns that waited for the last complete phase.
    complete: Clock,
    /// Number of copies that ended here.
    copies: u32,
}

/// A shadow of the shared memory of one block.
#[derive(Clone, Debug)]
pub struct Shadow {
    checks: ShadowChecks,
    bytes: u32,
    /// Blocks of the cluster that shares the memory.
    blocks: u32,
    /// log2 of the bytes of a word: 4, as most kernels move 16 bytes at a time, or less once smaller accesses were seen.
    shift: u32,
    warps: Vec<WarpClocks>,
    writes: Vec<Write>,
    /// Of each word, the warps and then the warp groups (by `wgmma`) that read it since it was written.
    read_by: Vec<u64>,
    /// Reads of warp `w`, or of warp group `w - warps`, of word `i`, at `w * words + i`; they hold where `read_by` says so.
    reads: Vec<Read>,
    barriers: Vec<Clock>,
    mbarriers: Vec<MbarrierClocks>,
    /// Of each warp group, the products whose reads have ended.
    groups: Vec<u32>,
}

impl Shadow {
    /// A shadow of `bytes` of memory, for a block of `threads`.
    pub fn new(bytes: u32, threads: u32, checks: ShadowChecks) -> Self {
        Self::of_cluster(bytes, threads, 1, checks)
    }

    /// A shadow of the memories of a cluster, `bytes` in all, for `blocks` of `threads` each, whose warps are counted through.
    /// There may be [`MAX_WARPS`] of them.
    pub fn of_cluster(bytes: u32, threads: u32, blocks: u32, checks: ShadowChecks) -> Self {
        let mut shadow = Self {
            checks,
            bytes,
            blocks,
            shift: 4,
            warps: Vec::new(),
            writes: Vec::new(),
            read_by: Vec::new(),
            reads: Vec::new(),
            barriers: Vec::new(),
            mbarriers: Vec::new(),
            groups: Vec::new(),
        };
        shadow.reset(threads);
        shadow
    }

    /// Forgets everything, for the next block.
    pub fn reset(&mut self, threads: u32) {
        let per_block = threads.div_ceil(32).max(1) as usize;
        let n = per_block * self.blocks as usize;
        let live = |w: usize| {
            let rest = threads - 32 * (w % per_block) as u32;
            if rest >= 32 {
                u32::MAX
            } else {
                (1 << rest) - 1
            }
        };
        self.warps = (0..n).map(|w| WarpClocks::new(w, n, live(w))).collect();
        let words = self.words();
        self.writes.clear();
        self.writes.resize(words, Write::default());
        self.read_by.clear();
        self.read_by.resize(words, 0);
        // Stale reads are harmless, since `read_by` is what says that they hold.
        self.groups.clear();
        self.groups.resize(n.div_ceil(4), 0);
        self.reads.resize(words * self.readers(), Read::default());
        self.barriers.clear();
        self.barriers
            .resize(BARRIERS * self.blocks as usize + 1, Clock::default());
        self.mbarriers.clear();
    }

    /// Warps, and warp groups.
    fn readers(&self) -> usize {
        self.warps.len() + self.groups.len()
    }

    /// The first actor that is no thread: the warp groups, then the copies by their mbarriers.
    fn first_group(&self) -> usize {
        self.warps.len() * 32
    }

    fn first_copy(&self) -> usize {
        self.first_group() + self.groups.len()
    }

    fn words(&self) -> usize {
        (self.bytes as usize).div_ceil(1 << self.shift)
    }

    /// Keeps smaller words from now on, where an access of `bytes` needs them.
    #[inline]
    fn refine(&mut self, bytes: u32) {
        // An access of no bytes, which a copy may be, touches no word.
        if (1..1 << self.shift).contains(&bytes) {
            self.refine_to(bytes.trailing_zeros());
        }
    }

    #[cold]
    fn refine_to(&mut self, shift: u32) {
        let factor = 1 << (self.shift - shift);
        let (old, n) = (self.words(), self.readers());
        self.shift = shift;
        let new = self.words();
        let repeat = |i: usize| (i / factor).min(old - 1);
        self.writes = (0..new).map(|i| self.writes[repeat(i)]).collect();
        self.read_by = (0..new).map(|i| self.read_by[repeat(i)]).collect();
        self.reads = (0..n)
            .flat_map(|w| (0..new).map(move |i| w * old + repeat(i)))
            .map(|i| self.reads[i])
            .collect();
    }

    /// The words of an access; none past the end of the memory, whose bounds others check.
    #[inline]
    fn span(&self, start: u32, len: u32) -> std::ops::Range<usize> {
        let end = (u64::from(start) + u64::from(len)).min(u64::from(self.bytes)) as usize;
        let first = start as usize >> self.shift;
        first..end.div_ceil(1 << self.shift).max(first)
    }

    /// A load of `bytes` at `addresses` by `lanes` of a warp.
    ///
    /// # Errors
    /// The first conflict, if there is one.
    pub fn read(
        &mut self,
        warp: usize,
        lanes: u32,
        addresses: &[u32; 32],
        bytes: u32,
        pc: u32,
        strength: Strength,
    ) -> Result<(), Conflict> {
        self.refine(bytes);
        for lane in bits(lanes) {
            for word in self.span(addresses[lane as usize], bytes) {
                self.check_read(warp, lane, word, strength)?;
                if strength == Strength::Weak {
                    self.note_read(warp, 1 << lane, word, pc);
                }
            }
        }
        Ok(())
    }

    /// A store of `bytes` at `addresses` by `lanes` of a warp. Two lanes that store the same value in the same place
    /// with one instruction do not race; `same` says of two lanes whether they do.
    ///
    /// # Errors
    /// The first conflict, if there is one.
    #[expect(clippy::too_many_arguments, reason = "they are what an access is")]
    pub fn write(
        &mut self,
        warp: usize,
        lanes: u32,
        addresses: &[u32; 32],
        bytes: u32,
        pc: u32,
        strength: Strength,
        same: impl Fn(u32, u32) -> bool,
    ) -> Result<(), Conflict> {
        self.refine(bytes);
        let flag = if strength == Strength::Strong {
            STRONG
        } else {
            0
        };
        for lane in bits(lanes) {
            let thread = (warp * 32) as u32 + lane;
            for word in self.span(addresses[lane as usize], bytes) {
                if let Err(conflict) = self.check_write(warp, lane, word, strength) {
                    let with = match (conflict.kind, conflict.actor) {
                        (
                            ConflictKind::WarpRace(RaceKind::WriteAfterWrite),
                            Actor::Thread { lane, .. },
                        ) if conflict.pc == pc => Some(lane),
                        _ => None,
                    };
                    let benign = with.is_some_and(|other| {
                        lanes >> other & 1 == 1
                            && self.span(addresses[other as usize], bytes).contains(&word)
                            && same(lane, other)
                    });
                    if !benign {
                        return Err(conflict);
                    }
                }
                self.writes[word] = Write {
                    actor: thread | flag,
                    epoch: self.warps[warp].epoch(),
                    pc,
                };
                self.read_by[word] = 0;
            }
        }
        Ok(())
    }

    /// A use of the `mbarrier` at `address` by instruction `pc`, which must know of its initialisation, and must be known to
    /// whoever makes something else of its memory.
    ///
    /// # Errors
    /// The conflict, if its initialisation is not ordered before.
    pub fn use_mbarrier(
        &mut self,
        warp: usize,
        lanes: u32,
        address: u32,
        pc: u32,
    ) -> Result<(), Conflict> {
        for lane in bits(lanes) {
            for word in self.span(address, 8) {
                self.check_read(warp, lane, word, Strength::Strong)?;
                self.note_read(warp, 1 << lane, word, pc);
            }
        }
        Ok(())
    }

    #[inline]
    fn check_read(
        &self,
        warp: usize,
        lane: u32,
        word: usize,
        strength: Strength,
    ) -> Result<(), Conflict> {
        let write = self.writes[word];
        if write.epoch != 0 && self.warps[warp].knows(lane, write.actor(), write.epoch) {
            return Ok(());
        }
        self.explain_read(warp, lane, word, strength)
    }

    #[cold]
    fn explain_read(
        &self,
        warp: usize,
        lane: u32,
        word: usize,
        strength: Strength,
    ) -> Result<(), Conflict> {
        let write = self.writes[word];
        if write.epoch == 0 {
            return if self.checks.uninitialised {
                Err(self.conflict(ConflictKind::Uninitialised, word, lane, write.actor(), 0))
            } else {
                Ok(())
            };
        }
        if !self.checks.races || (strength == Strength::Strong && write.actor & STRONG != 0) {
            return Ok(());
        }
        Err(self.conflict_with_write(RaceKind::ReadAfterWrite, warp, lane, word))
    }

    fn check_write(
        &self,
        warp: usize,
        lane: u32,
        word: usize,
        strength: Strength,
    ) -> Result<(), Conflict> {
        if !self.checks.races {
            return Ok(());
        }
        let write = self.writes[word];
        let clocks = &self.warps[warp];
        let unordered = write.epoch != 0
            && !clocks.knows(lane, write.actor(), write.epoch)
            && !(strength == Strength::Strong && write.actor & STRONG != 0);
        // Where both the write and later reads are unordered, the reads say more: a buffer was given up too early.
        if unordered && write.epoch == IN_FLIGHT {
            return Err(self.conflict_with_write(RaceKind::WriteAfterWrite, warp, lane, word));
        }
        let mut readers = self.read_by[word];
        while readers != 0 {
            let reader = readers.trailing_zeros() as usize;
            readers &= readers - 1;
            let read = self.reads[reader * self.writes.len() + word];
            let actor = match reader.checked_sub(self.warps.len()) {
                Some(group) => {
                    let actor = self.first_group() + group;
                    (!clocks.knows(lane, actor, read.epoch)).then_some(actor)
                }
                None => clocks
                    .stranger(lane, reader, read.lanes, read.epoch)
                    .map(|other| reader * 32 + other as usize),
            };
            if let Some(actor) = actor {
                let kind = if read.epoch == IN_FLIGHT {
                    ConflictKind::PendingRead
                } else if reader == warp {
                    ConflictKind::WarpRace(RaceKind::WriteAfterRead)
                } else {
                    ConflictKind::Race(RaceKind::WriteAfterRead)
                };
                return Err(self.conflict(kind, word, lane, actor, read.pc));
            }
        }
        if unordered {
            return Err(self.conflict_with_write(RaceKind::WriteAfterWrite, warp, lane, word));
        }
        Ok(())
    }

    fn conflict_with_write(&self, race: RaceKind, warp: usize, lane: u32, word: usize) -> Conflict {
        let write = self.writes[word];
        let kind = if write.epoch == IN_FLIGHT {
            ConflictKind::PendingWrite(race)
        } else if write.actor() / 32 == warp {
            ConflictKind::WarpRace(race)
        } else {
            ConflictKind::Race(race)
        };
        self.conflict(kind, word, lane, write.actor(), write.pc)
    }

    fn conflict(
        &self,
        kind: ConflictKind,
        word: usize,
        lane: u32,
        actor: usize,
        pc: u32,
    ) -> Conflict {
        let actor = if actor >= self.first_copy() {
            let mbarrier = self.mbarriers.get(actor - self.first_copy());
            Actor::Copy {
                mbarrier: mbarrier.map_or(0, |m| m.address),
            }
        } else if actor >= self.first_group() {
            Actor::WarpGroup((actor - self.first_group()) as u32)
        } else {
            Actor::Thread {
                warp: (actor / 32) as u32,
                lane: (actor % 32) as u32,
            }
        };
        Conflict {
            kind,
            address: (word << self.shift) as u32,
            lane,
            actor,
            pc,
        }
    }

    /// Notes that `lanes` read a word. What they already know of earlier reads need not be kept.
    #[inline]
    fn note_read(&mut self, warp: usize, lanes: u32, word: usize, pc: u32) {
        let clocks = &self.warps[warp];
        let epoch = clocks.epoch();
        let read = &mut self.reads[warp * self.writes.len() + word];
        if self.read_by[word] >> warp & 1 == 1 {
            if read.epoch == epoch {
                read.lanes |= lanes;
                return;
            }
            let first = lanes.trailing_zeros();
            if read.epoch == IN_FLIGHT {
                return;
            }
            if clocks
                .stranger(first, warp, read.lanes & !lanes, read.epoch)
                .is_some()
            {
                *read = Read {
                    lanes: read.lanes | lanes,
                    epoch,
                    pc,
                };
                return;
            }
        }
        self.read_by[word] |= 1 << warp;
        *read = Read { lanes, epoch, pc };
    }

    /// `lanes` of a warp have exited.
    pub fn exit(&mut self, warp: usize, lanes: u32) {
        self.warps[warp].exit(lanes);
    }

    /// `bar.warp.sync`, met by `lanes`.
    pub fn warp_sync(&mut self, warp: usize, lanes: u32) {
        self.warps[warp].warp_sync(lanes);
    }

    /// `fence.proxy.async` by `lanes`.
    pub fn fence_proxy_async(&mut self, warp: usize, lanes: u32) {
        self.warps[warp].fence_async(lanes);
    }

    /// `lanes` arrive at a barrier (16 of each block, in order, and that of the cluster), by `bar.sync`, `bar.red` or `bar.arrive`.
    pub fn barrier_arrive(&mut self, barrier: usize, warp: usize, lanes: u32) {
        self.warps[warp].release(lanes, &mut self.barriers[barrier]);
    }

    /// A barrier is complete, and the warps and lanes that wait at it (not those that only arrived) go on.
    pub fn barrier_complete(
        &mut self,
        barrier: usize,
        waiters: impl IntoIterator<Item = (usize, u32)>,
    ) {
        let mut clock = std::mem::take(&mut self.barriers[barrier]);
        for (warp, lanes) in waiters {
            self.warps[warp].acquire(lanes, &clock);
        }
        clock.clear();
        self.barriers[barrier] = clock;
    }

    fn mbarrier(&mut self, address: u32) -> usize {
        if let Some(slot) = self.mbarriers.iter().position(|m| m.address == address) {
            return slot;
        }
        self.mbarriers.push(MbarrierClocks {
            address,
            arrived: Clock::default(),
            complete: Clock::default(),
            copies: 0,
        });
        self.mbarriers.len() - 1
    }

    /// `lanes` arrive at the `mbarrier` at `address`.
    pub fn mbarrier_arrive(&mut self, address: u32, warp: usize, lanes: u32) {
        let slot = self.mbarrier(address);
        self.warps[warp].release(lanes, &mut self.mbarriers[slot].arrived);
    }

    /// A phase of the `mbarrier` at `address` is complete.
    pub fn mbarrier_complete(&mut self, address: u32) {
        let slot = self.mbarrier(address);
        let mbarrier = &mut self.mbarriers[slot];
        mbarrier.complete.join(&mbarrier.arrived);
    }

    /// `lanes` have seen that a phase of the `mbarrier` at `address` is complete.
    pub fn mbarrier_waited(&mut self, address: u32, warp: usize, lanes: u32) {
        let slot = self.mbarrier(address);
        self.warps[warp].acquire(lanes, &self.mbarriers[slot].complete);
    }
}
