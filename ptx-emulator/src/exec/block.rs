//! A block: what its warps share, and the order in which they run.

use super::barrier::Barriers;
use super::bulk::BulkState;
use super::shared::Shared;
use super::warp::{Pause, Wait, Warp};
use super::wgmma::WarpGroups;
use super::{Outcome, Stop};
use crate::alu::Lanes32;
use crate::ast::{Location, Space};
use crate::check::race::{Conflict, Shadow, ShadowChecks, Strength};
use crate::check::report::{Fault, Nearest, Report, Waiter};
use crate::count::Tally;
use crate::launch::{Checks, Launch, Options};
use crate::memory::{Global, Memory};
use crate::program::{Kernel, Program, Special};

/// Addresses of shared memory that `mapa` makes have the block's rank and one from this bit up.
pub(super) const MAPPED_SHIFT: u32 = 24;

/// Instructions that a warp runs before the next one's turn, without a seed.
const BURST: u32 = 512;

/// What the warps of a block share, and what its launch fixes.
pub(crate) struct State<'a> {
    pub(super) program: &'a Program,
    pub(super) kernel: &'a Kernel,
    pub(super) memory: &'a Memory,
    pub(super) global: &'a Global,
    pub(super) params: &'a [u8],
    pub(super) checks: Checks,
    pub(super) shared: Shared,
    pub(super) shadow: Option<Box<Shadow>>,
    pub(super) barriers: Barriers,
    pub(super) bulk: BulkState,
    pub(super) wgmma: WarpGroups,
    /// Blocks of a cluster, which run together and see each other's shared memory.
    pub(super) blocks: u32,
    pub(super) warps_per_block: u32,
    /// The block whose warp runs.
    pub(super) rank: u32,
    /// Bytes of shared memory of one block, and from one block's to the next.
    pub(super) shared_bytes: u32,
    pub(super) shared_stride: u32,
    /// Of each block, the threads that have not exited.
    pub(super) live_threads: Vec<u32>,
    /// Executions of each step.
    pub(crate) executed: Vec<u64>,
    pub(crate) tally: Tally,
    /// Of each step, the allocation that it accessed last.
    pub(super) hints: Vec<u32>,
    clock: u64,
}

/// A cluster of blocks with their warps, used for one cluster of the grid after the other. Most clusters are of one block.
pub(crate) struct Block<'a> {
    pub(crate) state: State<'a>,
    launch: &'a Launch<'a>,
    globals: &'a [u64],
    warps: Vec<Warp>,
    threads: u32,
    seed: u64,
    limit: u64,
    /// Blocks of a cluster along each axis, and where the first block of this one is.
    cluster: [u32; 3],
    origin: [u32; 3],
}

impl<'a> Block<'a> {
    pub(crate) fn new(
        program: &'a Program,
        kernel: &'a Kernel,
        memory: &'a Memory,
        global: &'a Global,
        globals: &'a [u64],
        launch: &'a Launch<'a>,
        options: &Options,
    ) -> Self {
        let threads = launch.block.iter().product::<u32>();
        let shared_bytes = kernel.static_shared + launch.dynamic_shared_bytes;
        let checks = options.checks;
        let shadow_checks = ShadowChecks {
            uninitialised: checks.init,
            races: checks.races,
            proxy: checks.proxy,
        };
        let needs_shadow = (checks.init || checks.races || checks.proxy) && shared_bytes > 0;
        let cluster = kernel.cluster_shape();
        let blocks = cluster.iter().product::<u32>();
        let warps_per_block = threads.div_ceil(32);
        // Swizzles go by bits of addresses, which must not change from block to block.
        let shared_stride = if blocks == 1 {
            shared_bytes
        } else {
            shared_bytes.next_multiple_of(1024)
        };
        let all_shared = blocks * shared_stride;
        let state = State {
            program,
            kernel,
            memory,
            global,
            params: launch.params,
            checks,
            blocks,
            warps_per_block,
            rank: 0,
            shared_bytes,
            shared_stride,
            shared: Shared::new(all_shared),
            shadow: needs_shadow.then(|| {
                Box::new(Shadow::of_cluster(
                    all_shared,
                    threads,
                    blocks,
                    shadow_checks,
                ))
            }),
            barriers: Barriers::new(blocks),
            bulk: BulkState::default(),
            wgmma: WarpGroups::new(32 * blocks * warps_per_block),
            live_threads: vec![threads; blocks as usize],
            executed: vec![0; kernel.steps.len()],
            tally: Tally::default(),
            hints: vec![0; kernel.steps.len()],
            clock: 0,
        };
        let warps = (0..blocks * warps_per_block)
            .map(|index| Warp::new(index, kernel, checks.init))
            .collect();
        Self {
            state,
            launch,
            globals,
            warps,
            threads,
            seed: options.seed,
            limit: options.instruction_limit,
            cluster,
            origin: [0; 3],
        }
    }

    /// Runs the cluster of this index, counted along x first.
    pub(crate) fn run(&mut self, linear: u64) -> Result<(), Box<Report>> {
        let [x, y] = [0, 1].map(|axis| u64::from(self.launch.grid[axis] / self.cluster[axis]));
        self.origin = [
            (linear % x) as u32 * self.cluster[0],
            (linear / x % y) as u32 * self.cluster[1],
            (linear / x / y) as u32 * self.cluster[2],
        ];
        self.reset();
        let mut random = (self.seed != 0).then(|| Random::new(self.seed, linear));
        let mut left = self.limit;
        loop {
            let mut ran = false;
            let n = self.warps.len();
            let start = random
                .as_mut()
                .map_or(0, |random| random.below(n as u32) as usize);
            for offset in 0..n {
                let index = (start + offset) % n;
                let warp = &mut self.warps[index];
                if warp.is_done() || !warp.can_run(&self.state) {
                    continue;
                }
                ran = true;
                self.state.rank = index as u32 / self.state.warps_per_block;
                let burst = random
                    .as_mut()
                    .map_or(BURST, |random| 1 + random.below(BURST));
                let mut budget = u64::from(burst).min(left) as u32;
                let given = budget;
                let pause = warp
                    .run(&mut self.state, &mut budget)
                    .map_err(|(pc, stop)| self.report(index as u32, pc, *stop))?;
                left -= u64::from(given - budget);
                self.state.clock += u64::from(given - budget);
                if left == 0 && pause == Pause::Budget {
                    let pc = self.warps[index]
                        .fragments
                        .iter()
                        .map(|fragment| fragment.pc)
                        .min()
                        .unwrap_or(0);
                    return Err(self.report(
                        index as u32,
                        pc,
                        *Stop::new(Fault::StepLimit { limit: self.limit }),
                    ));
                }
                if random.is_some() {
                    // With a seed, every burst picks its warp anew.
                    break;
                }
            }
            if self.warps.iter().all(Warp::is_done) {
                return self.end();
            }
            if self.state.wgmma.has_waiters() {
                ran |= super::wgmma::settle(&mut self.state, &mut self.warps)
                    .map_err(|(warp, pc, stop)| self.report(warp, pc, *stop))?;
            }
            // Copies land as late as they can; with a seed, some land earlier.
            let early = random.as_mut().is_some_and(|random| random.below(8) == 0);
            let lands = !ran || early || self.state.bulk.is_impatient();
            let landed = lands && self.land(random.as_mut())?;
            if !ran && !landed {
                return Err(self.deadlock());
            }
        }
    }

    /// Lets one asynchronous copy to shared memory land; whether there was one.
    fn land(&mut self, random: Option<&mut Random>) -> Result<bool, Box<Report>> {
        let pick = |n: usize| random.map_or(0, |random| random.below(n as u32) as usize);
        if self
            .state
            .land(pick)
            .map_err(|(warp, pc, stop)| self.report(warp, pc, *stop))?
        {
            return Ok(true);
        }
        for index in 0..self.warps.len() {
            let landed = self.warps[index].land_arrival(&mut self.state);
            if landed.map_err(|(pc, stop)| self.report(index as u32, pc, *stop))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// All warps are done: what is under way must not be.
    fn end(&mut self) -> Result<(), Box<Report>> {
        for index in 0..self.warps.len() {
            let ended = self.warps[index].bulk_end(&mut self.state);
            ended.map_err(|(pc, stop)| self.report(index as u32, pc, *stop))?;
        }
        if let Some((warp, pc)) = self.state.wgmma.unfinished() {
            let fault = Fault::BadUse {
                instruction: "wgmma.mma_async".to_owned(),
                expected: "wgmma.wait_group before the block ends".to_owned(),
                found: "none, so that its result may not have been there when it was used"
                    .to_owned(),
            };
            return Err(self.report(warp, pc, *Stop::new(fault)));
        }
        self.state
            .bulk_end()
            .map_err(|(warp, pc, stop)| self.report(warp, pc, *stop))
    }

    fn reset(&mut self) {
        let state = &mut self.state;
        state.shared.clear();
        if let Some(shadow) = &mut state.shadow {
            shadow.reset(self.threads);
        }
        state.barriers = Barriers::new(state.blocks);
        state.bulk.clear();
        state.wgmma.clear();
        state.live_threads.fill(self.threads);
        for index in 0..self.warps.len() {
            let threads = self.threads - 32 * (index as u32 % self.state.warps_per_block);
            self.warps[index].reset(if threads >= 32 {
                u32::MAX
            } else {
                (1 << threads) - 1
            });
            self.fill(index);
        }
    }

    /// Writes constants, special registers and addresses into the registers that stand for them.
    fn fill(&mut self, index: usize) {
        let kernel = self.state.kernel;
        let special = |special: Special, lane: u32| self.special(special, index as u32, lane);
        let specials32: Vec<Lanes32> = kernel
            .specials32
            .iter()
            .map(|(_, s)| std::array::from_fn(|lane| special(*s, lane as u32)))
            .collect();
        let specials64: Vec<Lanes32> = kernel
            .specials64
            .iter()
            .map(|(_, s)| std::array::from_fn(|lane| special(*s, lane as u32)))
            .collect();
        let registers = &mut self.warps[index].registers;
        for (register, value) in &kernel.constants32 {
            registers.set_r(*register, u32::MAX, &[*value; 32]);
        }
        for (register, value) in &kernel.constants64 {
            registers.set_d(*register, u32::MAX, &[*value; 32]);
        }
        for ((register, _), values) in kernel.specials32.iter().zip(&specials32) {
            registers.set_r(*register, u32::MAX, values);
        }
        for ((register, _), values) in kernel.specials64.iter().zip(&specials64) {
            registers.set_d(*register, u32::MAX, &values.map(u64::from));
        }
        for (register, global, offset) in &kernel.global_addresses {
            registers.set_d(
                *register,
                u32::MAX,
                &[self.globals[*global].wrapping_add(*offset as u64); 32],
            );
        }
    }

    fn special(&self, special: Special, warp: u32, lane: u32) -> u32 {
        let [x, y, _] = self.launch.block;
        let rank = self.state.rank_of(warp);
        let warp = warp % self.state.warps_per_block;
        let thread = 32 * warp + lane;
        let tid = [thread % x, thread / x % y, thread / x / y];
        match special {
            Special::Tid(axis) => tid[axis],
            Special::Ntid(axis) => self.launch.block[axis],
            Special::Ctaid(axis) => self.block_index(rank)[axis],
            Special::Nctaid(axis) => self.launch.grid[axis],
            Special::ClusterId(axis) => self.origin[axis] / self.cluster[axis],
            Special::NClusterId(axis) => self.launch.grid[axis] / self.cluster[axis],
            Special::ClusterCtaid(axis) => self.block_index(rank)[axis] - self.origin[axis],
            Special::ClusterNctaid(axis) => self.cluster[axis],
            Special::ClusterRank => rank,
            Special::ClusterSize => self.state.blocks,
            Special::LaneId => lane,
            Special::WarpId => warp,
            Special::NWarpId => self.state.warps_per_block,
            Special::LaneMaskEq => 1 << lane,
            Special::LaneMaskLe => u32::MAX >> (31 - lane),
            Special::LaneMaskLt => (1 << lane) - 1,
            Special::LaneMaskGe => u32::MAX << lane,
            Special::LaneMaskGt => (u32::MAX << lane) << 1,
            Special::SmId | Special::GridId | Special::Zero => 0,
            Special::NSmId => 1,
            Special::DynamicSharedSize => self.launch.dynamic_shared_bytes,
            Special::TotalSharedSize => self.state.shared_bytes,
        }
    }

    /// Where a block of the cluster is in the grid.
    fn block_index(&self, rank: u32) -> [u32; 3] {
        let [x, y, _] = self.cluster;
        let [ox, oy, oz] = self.origin;
        [ox + rank % x, oy + rank / x % y, oz + rank / x / y]
    }

    fn place(&self, pc: u32) -> (Location, String) {
        self.state.place(pc)
    }

    fn report(&self, warp: u32, pc: u32, stop: Stop) -> Box<Report> {
        let (location, text) = self.place(pc);
        let file = (location.file as usize)
            .checked_sub(1)
            .and_then(|file| self.state.program.files.get(file));
        Box::new(Report {
            fault: stop.fault,
            kernel: self.state.kernel.name.clone(),
            location,
            file: file.cloned().unwrap_or_default(),
            text,
            block: self.block_index(self.state.rank_of(warp)),
            warp: warp % self.state.warps_per_block,
            lane: stop.lane,
            address: stop.address,
            space: stop.space,
            notes: if self.state.blocks > 1 {
                let each = self.state.warps_per_block;
                vec![format!(
                    "the warps of other accesses are counted through the cluster, {each} for each block"
                )]
            } else {
                Vec::new()
            },
        })
    }

    /// Nothing can run any more: names every fragment that waits.
    fn deadlock(&self) -> Box<Report> {
        let mut waiters = Vec::new();
        let mut first = None;
        for warp in &self.warps {
            for fragment in &warp.fragments {
                let (location, text) = self.place(fragment.pc);
                let what = match fragment.wait {
                    Wait::Nothing => "nothing".to_owned(),
                    Wait::Converge(lanes) => format!(
                        "lanes {:#010x} to come to the same instruction",
                        lanes & warp.live & !fragment.lanes
                    ),
                    Wait::WarpSync(lanes) => format!(
                        "lanes {:#010x} to come to bar.warp.sync",
                        lanes & warp.live & !fragment.lanes
                    ),
                    Wait::Wgmma(_) => self.state.wgmma.describe(warp.index),
                    Wait::Mbarrier { address, .. } => self.state.bulk.describe(address),
                    Wait::Barrier(ticket) => self
                        .state
                        .barriers
                        .describe(&ticket, &self.state.live_threads),
                };
                first.get_or_insert((warp.index, fragment.pc));
                waiters.push(Waiter {
                    warp: warp.index,
                    lanes: fragment.lanes,
                    location,
                    text,
                    what,
                });
            }
        }
        let (warp, pc) = first.unwrap_or_default();
        self.report(warp, pc, *Stop::new(Fault::Deadlock { waiters }))
    }
}

impl State<'_> {
    /// The block of the cluster that a warp belongs to.
    pub(super) fn rank_of(&self, warp: u32) -> u32 {
        warp / self.warps_per_block
    }

    /// Where in the memory of the cluster an access lies: an address of the running block's own shared memory, or one that
    /// `mapa` made. None if it is outside.
    pub(super) fn locate_shared(&self, address: u64, bytes: u32) -> Option<u32> {
        let (rank, offset) = match address >> MAPPED_SHIFT {
            0 => (self.rank, address),
            mapped => (
                u32::try_from(mapped - 1).ok()?,
                address & ((1 << MAPPED_SHIFT) - 1),
            ),
        };
        let inside =
            rank < self.blocks && offset + u64::from(bytes) <= u64::from(self.shared_bytes);
        inside.then(|| rank * self.shared_stride + offset as u32)
    }

    /// Whether bytes of the memory of the cluster lie in one block's.
    pub(super) fn is_shared(&self, at: u32, bytes: u32) -> bool {
        let offset = if self.blocks == 1 {
            at
        } else {
            at % self.shared_stride
        };
        u64::from(offset) + u64::from(bytes) <= u64::from(self.shared_bytes)
            && self.shared.holds(at.into(), bytes)
    }

    /// Where a step stands, and what the line says.
    fn place(&self, pc: u32) -> (Location, String) {
        let location = self
            .kernel
            .origins
            .get(pc as usize)
            .map(|origin| origin.location)
            .unwrap_or_default();
        (location, self.program.line(location.line).to_owned())
    }

    /// A clock that only ever goes on.
    pub(super) fn clock(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    pub(super) fn nearest_shared(&self, address: u64) -> Option<Nearest> {
        let mut known: Vec<(&str, u64, u64)> = self
            .kernel
            .shared_variables
            .iter()
            .map(|(name, start, len)| (name.as_str(), u64::from(*start), u64::from(*len)))
            .collect();
        let start = u64::from(self.kernel.static_shared);
        let dynamic = u64::from(self.shared_bytes) - start;
        if dynamic > 0 || known.is_empty() {
            known.push(("dynamic shared memory", start, dynamic));
        }
        let distance = |(_, start, len): &(&str, u64, u64)| {
            start
                .saturating_sub(address)
                .max(address.saturating_sub(start + len))
        };
        known
            .into_iter()
            .min_by_key(distance)
            .map(|(name, start, len)| Nearest {
                name: name.to_owned(),
                start,
                len,
                address,
            })
    }

    /// The stop for a conflict in shared memory.
    pub(super) fn conflict(&self, conflict: Conflict, bytes: u32) -> Box<Stop> {
        let fault = conflict.into_fault(u64::from(bytes), |pc| self.place(pc));
        Stop::access(
            fault,
            conflict.lane,
            u64::from(conflict.address % self.shared_stride.max(1)),
            Space::Shared,
        )
    }

    #[inline]
    pub(super) fn shadow_read(
        &mut self,
        warp: u32,
        lanes: u32,
        addresses: &Lanes32,
        bytes: u32,
        pc: u32,
        strength: Strength,
    ) -> Outcome<()> {
        let Some(shadow) = &mut self.shadow else {
            return Ok(());
        };
        shadow
            .read(warp as usize, lanes, addresses, bytes, pc, strength)
            .map_err(|conflict| self.conflict(conflict, bytes))
    }

    #[expect(clippy::too_many_arguments, reason = "they are what an access is")]
    #[inline]
    pub(super) fn shadow_write(
        &mut self,
        warp: u32,
        lanes: u32,
        addresses: &Lanes32,
        bytes: u32,
        pc: u32,
        strength: Strength,
        same: impl Fn(u32, u32) -> bool,
    ) -> Outcome<()> {
        let Some(shadow) = &mut self.shadow else {
            return Ok(());
        };
        shadow
            .write(warp as usize, lanes, addresses, bytes, pc, strength, same)
            .map_err(|conflict| self.conflict(conflict, bytes))
    }

    /// Lanes met at `bar.warp.sync`.
    pub(super) fn warp_met(&mut self, warp: u32, lanes: u32) {
        if let Some(shadow) = &mut self.shadow {
            shadow.warp_sync(warp as usize, lanes);
        }
    }

    pub(super) fn fence_proxy_async(&mut self, warp: u32, lanes: u32) {
        if let Some(shadow) = &mut self.shadow {
            shadow.fence_proxy_async(warp as usize, lanes);
        }
    }
}

/// A small generator of random numbers; schedules must only be the same for the same seed.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64, block: u64) -> Self {
        Self(
            seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ block.wrapping_mul(0xd1b5_4a32_d192_ed03)
                | 1,
        )
    }

    /// A number below `n`.
    pub(super) fn below(&mut self, n: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * u64::from(n)) >> 32) as u32
    }
}
