//! What the shadow of shared memory is told of asynchronous copies and of `mbarrier`s.

use super::block::State;
use super::{Outcome, Stop};
use crate::check::race::{Conflict, Range, Shadow};

impl State<'_> {
    fn shadowed(
        &mut self,
        bytes: u32,
        tell: impl FnOnce(&mut Shadow) -> Result<(), Conflict>,
    ) -> Outcome<()> {
        let Some(shadow) = &mut self.shadow else {
            return Ok(());
        };
        tell(shadow).map_err(|conflict| -> Box<Stop> { self.conflict(conflict, bytes) })
    }

    /// Lanes use an mbarrier, whose initialisation they must know of.
    pub(super) fn use_mbarrier(
        &mut self,
        warp: u32,
        lanes: u32,
        mbarrier: u32,
        pc: u32,
    ) -> Outcome<()> {
        self.shadowed(8, |shadow| {
            shadow.use_mbarrier(warp as usize, lanes, mbarrier, pc)
        })
    }

    pub(super) fn shadow_bulk_begin(
        &mut self,
        warp: u32,
        lane: u32,
        ranges: &[Range],
        mbarrier: u32,
        pc: u32,
    ) -> Outcome<()> {
        self.shadowed(total(ranges), |shadow| {
            shadow.bulk_begin(warp as usize, lane, ranges, mbarrier, pc)
        })
    }

    pub(super) fn shadow_read_begin(
        &mut self,
        warp: u32,
        lanes: u32,
        ranges: &[Range],
        pc: u32,
    ) -> Outcome<()> {
        self.shadowed(total(ranges), |shadow| {
            shadow.async_read_begin(warp as usize, lanes, ranges, pc)
        })
    }

    pub(super) fn shadow_read_end(
        &mut self,
        warp: u32,
        lanes: u32,
        ranges: &[Range],
        pc: u32,
    ) -> Outcome<()> {
        self.shadowed(total(ranges), |shadow| {
            shadow.async_read_end(warp as usize, lanes, ranges, pc)
        })
    }

    pub(super) fn shadow_wgmma_begin(
        &mut self,
        warp: u32,
        ranges: &[Range],
        pc: u32,
    ) -> Outcome<()> {
        self.shadowed(total(ranges), |shadow| {
            shadow.wgmma_begin(warp as usize, ranges, pc)
        })
    }

    pub(super) fn shadow_wgmma_end(&mut self, warp: u32, ranges: &[Range], pc: u32) {
        if let Some(shadow) = &mut self.shadow {
            shadow.wgmma_end(warp as usize, ranges, pc);
        }
    }

    pub(super) fn shadow_bulk_end(&mut self, ranges: &[Range], mbarrier: u32) {
        if let Some(shadow) = &mut self.shadow {
            shadow.bulk_end(ranges, mbarrier);
        }
    }

    pub(super) fn shadow_copies_arrived(
        &mut self,
        ranges: &[Range],
        mbarrier: u32,
        warp: u32,
        lane: u32,
    ) {
        let Some(shadow) = &mut self.shadow else {
            return;
        };
        if ranges.is_empty() {
            // The copies were waited for before, so they belong to what the lane itself did.
            shadow.mbarrier_arrive(mbarrier, warp as usize, 1 << lane);
        } else {
            shadow.copy_arrived(ranges, mbarrier);
        }
    }

    pub(super) fn shadow_mbarrier_arrive(&mut self, mbarrier: u32, warp: u32, lanes: u32) {
        if let Some(shadow) = &mut self.shadow {
            shadow.mbarrier_arrive(mbarrier, warp as usize, lanes);
        }
    }

    pub(super) fn shadow_mbarrier_waited(&mut self, mbarrier: u32, warp: u32, lanes: u32) {
        if let Some(shadow) = &mut self.shadow {
            shadow.mbarrier_waited(mbarrier, warp as usize, lanes);
        }
    }

    /// A phase of an mbarrier is complete: who waits for it may look.
    pub(super) fn phase_complete(&mut self, mbarrier: u32) {
        self.bulk.completions += 1;
        if let Some(shadow) = &mut self.shadow {
            shadow.mbarrier_complete(mbarrier);
        }
    }
}

fn total(ranges: &[Range]) -> u32 {
    ranges.iter().map(|range| range.len).sum()
}
