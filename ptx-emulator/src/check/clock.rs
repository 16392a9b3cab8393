//! Who knows of whose accesses: vector clocks of the threads of a block, kept a warp at a time.
//!
//! An actor is a thread (`32 * warp + lane`), or the asynchronous copies that end at one `mbarrier` (numbered after the
//! threads). A warp counts epochs, and every lane's accesses carry the epoch they fall in. What all live lanes of a
//! warp know is kept once; what single lanes know beyond it (because one elected lane waited, say) is kept apart until
//! the warp meets at `bar.warp.sync` or at a barrier of the block.

/// What is known: of each actor, the last epoch whose accesses are ordered before now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    /// Ordered before now.
    seen: Vec<u32>,
    /// Ordered before a `fence.proxy.async` that is itself ordered before now.
    fenced: Vec<u32>,
}

fn join(to: &mut Vec<u32>, from: &[u32]) {
    if to.len() < from.len() {
        to.resize(from.len(), 0);
    }
    for (t, f) in to.iter_mut().zip(from) {
        *t = (*t).max(*f);
    }
}

fn raise(to: &mut Vec<u32>, actor: usize, epoch: u32) {
    if to.len() <= actor {
        to.resize(actor + 1, 0);
    }
    to[actor] = to[actor].max(epoch);
}

fn get(clock: &[u32], actor: usize) -> u32 {
    clock.get(actor).copied().unwrap_or(0)
}

impl Clock {
    /// Learns what `other` knows.
    pub(crate) fn join(&mut self, other: &Self) {
        join(&mut self.seen, &other.seen);
        join(&mut self.fenced, &other.fenced);
    }

    /// Learns of the accesses of `actor` up to `epoch`.
    pub(crate) fn raise(&mut self, actor: usize, epoch: u32) {
        raise(&mut self.seen, actor, epoch);
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.seen.clear();
        self.fenced.clear();
    }
}

/// The clocks of one warp.
#[derive(Clone, Debug)]
pub(crate) struct WarpClocks {
    warp: usize,
    /// Lanes that exist and have not exited.
    live: u32,
    /// The epoch that accesses made now carry.
    epoch: u32,
    /// Of each lane, the last epoch of its own accesses that it fenced.
    fences: [u32; 32],
    /// What every live lane knows.
    common: Clock,
    /// What single lanes know beyond `common`; empty or 32 long.
    extra: Vec<Clock>,
    /// Lanes for which `extra` says something.
    extra_lanes: u32,
    /// Of each warp, the least of what `common` has seen of its lanes.
    floor: Vec<u32>,
}

impl WarpClocks {
    pub(crate) fn new(warp: usize, warps: usize, live: u32) -> Self {
        Self {
            warp,
            live,
            epoch: 1,
            fences: [0; 32],
            common: Clock {
                seen: vec![0; warps * 32],
                fenced: vec![0; warps * 32],
            },
            extra: Vec::new(),
            extra_lanes: 0,
            floor: vec![0; warps],
        }
    }

    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    pub(crate) fn live(&self) -> u32 {
        self.live
    }

    pub(crate) fn exit(&mut self, lanes: u32) {
        self.live &= !lanes;
    }

    fn thread(&self, lane: u32) -> usize {
        self.warp * 32 + lane as usize
    }

    /// Whether the accesses of `actor` up to `epoch` are ordered before what `lane` does now.
    #[inline]
    pub(crate) fn knows(&self, lane: u32, actor: usize, epoch: u32) -> bool {
        epoch <= get(&self.common.seen, actor) || self.knows_alone(lane, actor, epoch)
    }

    fn knows_alone(&self, lane: u32, actor: usize, epoch: u32) -> bool {
        if epoch == u32::MAX {
            return false;
        }
        actor == self.thread(lane)
            || (self.extra_lanes >> lane & 1 == 1
                && epoch <= get(&self.extra[lane as usize].seen, actor))
    }

    /// Whether all live lanes know of the accesses of `actor` up to `epoch`.
    pub(crate) fn all_know(&self, actor: usize, epoch: u32) -> bool {
        epoch <= get(&self.common.seen, actor)
    }

    /// Whether `lane` knows of the accesses of `lanes` of `warp` up to `epoch`; if not, one that it does not know.
    #[inline]
    pub(crate) fn stranger(&self, lane: u32, warp: usize, lanes: u32, epoch: u32) -> Option<u32> {
        if epoch <= self.floor[warp] {
            return None;
        }
        bits(lanes).find(|&l| !self.knows(lane, warp * 32 + l as usize, epoch))
    }

    /// Whether accesses of `actor` up to `epoch` are fenced for the asynchronous proxy, as far as `lane` knows.
    pub(crate) fn fenced(&self, lane: u32, actor: usize, epoch: u32) -> bool {
        epoch <= get(&self.common.fenced, actor)
            || (actor == self.thread(lane) && epoch <= self.fences[lane as usize])
            || (self.extra_lanes >> lane & 1 == 1
                && epoch <= get(&self.extra[lane as usize].fenced, actor))
    }

    /// Adds to `to` what `lanes` know and did, and begins an epoch.
    pub(crate) fn release(&mut self, lanes: u32, to: &mut Clock) {
        to.join(&self.common);
        for lane in bits(lanes) {
            if self.extra_lanes >> lane & 1 == 1 {
                to.join(&self.extra[lane as usize]);
            }
        }
        for lane in bits(lanes) {
            let thread = self.thread(lane);
            raise(&mut to.seen, thread, self.epoch);
            raise(&mut to.fenced, thread, self.fences[lane as usize]);
        }
        self.epoch += 1;
    }

    /// Lets `lanes` learn what `from` knows.
    pub(crate) fn acquire(&mut self, lanes: u32, from: &Clock) {
        if self.live & !lanes == 0 {
            self.common.join(from);
            self.refresh_floor();
        } else {
            for lane in bits(lanes) {
                self.extra_of(lane).join(from);
            }
        }
    }

    /// Lets all lanes learn of what an actor that is no thread did.
    pub(crate) fn learn(&mut self, actor: usize, epoch: u32) {
        self.common.raise(actor, epoch);
    }

    /// Lets `lanes` learn all that any of them knows, as `bar.warp.sync` does.
    pub(crate) fn warp_sync(&mut self, lanes: u32) {
        let lanes = lanes & self.live;
        let mut met = Clock::default();
        self.release(lanes, &mut met);
        self.acquire(lanes, &met);
        if lanes == self.live {
            self.extra_lanes = 0;
            self.extra.iter_mut().for_each(Clock::clear);
        }
    }

    /// `fence.proxy.async` by `lanes`: what they did and know of is fenced.
    pub(crate) fn fence_async(&mut self, lanes: u32) {
        let all = self.live & !lanes == 0;
        if all {
            let Clock { seen, fenced } = &mut self.common;
            join(fenced, seen);
        }
        for lane in bits(lanes) {
            self.fences[lane as usize] = self.epoch;
            if !all {
                let seen = self.common.seen.clone();
                join(&mut self.extra_of(lane).fenced, &seen);
            }
            if self.extra_lanes >> lane & 1 == 1 {
                let Clock { seen, fenced } = &mut self.extra[lane as usize];
                join(fenced, seen);
            }
        }
        self.epoch += 1;
    }

    fn extra_of(&mut self, lane: u32) -> &mut Clock {
        if self.extra.is_empty() {
            self.extra = vec![Clock::default(); 32];
        }
        self.extra_lanes |= 1 << lane;
        &mut self.extra[lane as usize]
    }

    fn refresh_floor(&mut self) {
        for (floor, lanes) in self.floor.iter_mut().zip(self.common.seen.chunks_exact(32)) {
            *floor = lanes.iter().copied().min().unwrap_or(0);
        }
    }
}

/// The positions of the set bits, from the lowest.
pub(crate) fn bits(mask: u32) -> impl Iterator<Item = u32> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let bit = rest.trailing_zeros();
        rest &= rest - 1;
        Some(bit)
    })
}
