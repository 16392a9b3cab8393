//! Asynchronous copies, bulk stores and `wgmma` in the shadow of shared memory: from their begin to their end.

use super::{COPIED, Conflict, ConflictKind, IN_FLIGHT, Range, Read, Shadow, Strength, Write};

impl Shadow {
    /// A `cp.async` of `lane` begins to write `range`; until [`Shadow::copy_waited`] it belongs to the copy.
    ///
    /// # Errors
    /// The first conflict, if there is one.
    pub fn copy_begin(
        &mut self,
        warp: usize,
        lane: u32,
        range: Range,
        pc: u32,
    ) -> Result<(), Conflict> {
        self.begin_write(warp, lane, range, (warp * 32) as u32 + lane, pc)
    }

    /// The `cp.async` of `lane` that writes `range` is complete, and `lane` has waited for it.
    pub fn copy_waited(&mut self, warp: usize, lane: u32, range: Range) {
        let epoch = self.warps[warp].epoch();
        self.end_write(range, (warp * 32) as u32 + lane, epoch);
    }

    /// A bulk copy, issued by `lane`, begins to write `ranges`, and ends at the `mbarrier` at `mbarrier`.
    ///
    /// # Errors
    /// The first conflict, if there is one.
    pub fn bulk_begin(
        &mut self,
        warp: usize,
        lane: u32,
        ranges: &[Range],
        mbarrier: u32,
        pc: u32,
    ) -> Result<(), Conflict> {
        let slot = self.mbarrier(mbarrier);
        let actor = (self.first_copy() + slot) as u32 | COPIED;
        ranges
            .iter()
            .try_for_each(|&range| self.begin_write(warp, lane, range, actor, pc))
    }

    /// A bulk copy that writes `ranges` ends at the `mbarrier` at `mbarrier`: whoever waits for its phase may use them.
    pub fn bulk_end(&mut self, ranges: &[Range], mbarrier: u32) {
        self.end_at_mbarrier(ranges, mbarrier, COPIED);
    }

    /// A `cp.async` that writes `ranges` is complete, for a `cp.async.mbarrier.arrive` at `mbarrier`.
    pub fn copy_arrived(&mut self, ranges: &[Range], mbarrier: u32) {
        self.end_at_mbarrier(ranges, mbarrier, 0);
    }

    fn end_at_mbarrier(&mut self, ranges: &[Range], mbarrier: u32, flag: u32) {
        let slot = self.mbarrier(mbarrier);
        let actor = self.first_copy() + slot;
        let clocks = &mut self.mbarriers[slot];
        clocks.copies += 1;
        clocks.arrived.raise(actor, clocks.copies);
        let epoch = clocks.copies;
        for &range in ranges {
            self.end_write(range, actor as u32 | flag, epoch);
        }
    }

    fn begin_write(
        &mut self,
        warp: usize,
        lane: u32,
        range: Range,
        actor: u32,
        pc: u32,
    ) -> Result<(), Conflict> {
        self.refine(range.len & range.len.wrapping_neg());
        for word in self.span(range.start, range.len) {
            self.check_write(warp, lane, word, Strength::Weak)?;
            self.writes[word] = Write {
                actor,
                epoch: IN_FLIGHT,
                pc,
            };
            self.read_by[word] = 0;
        }
        Ok(())
    }

    fn end_write(&mut self, range: Range, actor: u32, epoch: u32) {
        for word in self.span(range.start, range.len) {
            let write = &mut self.writes[word];
            if write.epoch == IN_FLIGHT {
                *write = Write {
                    actor,
                    epoch,
                    pc: write.pc,
                };
            }
        }
    }

    /// An asynchronous read of `ranges`, by a bulk store, begins; until [`Shadow::async_read_end`] nothing may write them.
    /// `lanes` must know of the writes, all of them if they are all that live.
    ///
    /// # Errors
    /// The first conflict, if there is one.
    pub fn async_read_begin(
        &mut self,
        warp: usize,
        lanes: u32,
        ranges: &[Range],
        pc: u32,
    ) -> Result<(), Conflict> {
        self.check_async_read(warp, lanes, ranges)?;
        self.note_async_read(
            warp,
            ranges,
            Read {
                lanes,
                epoch: IN_FLIGHT,
                pc,
            },
        );
        Ok(())
    }

    /// An asynchronous read of `ranges` has ended, and `lanes` have waited for it.
    ///
    /// # Errors
    /// The first conflict with a write that came in between.
    pub fn async_read_end(
        &mut self,
        warp: usize,
        lanes: u32,
        ranges: &[Range],
        pc: u32,
    ) -> Result<(), Conflict> {
        self.check_async_read(warp, lanes, ranges)?;
        let epoch = self.warps[warp].epoch();
        self.note_async_read(warp, ranges, Read { lanes, epoch, pc });
        Ok(())
    }

    /// `wgmma` begins to read `ranges`, as issued by one warp of its group, all of whose lanes must know of the writes.
    ///
    /// # Errors
    /// The first conflict, if there is one.
    pub fn wgmma_begin(&mut self, warp: usize, ranges: &[Range], pc: u32) -> Result<(), Conflict> {
        self.check_async_read(warp, u32::MAX, ranges)?;
        self.note_async_read(
            self.warps.len() + warp / 4,
            ranges,
            Read {
                lanes: 1,
                epoch: IN_FLIGHT,
                pc,
            },
        );
        Ok(())
    }

    /// The `wgmma` that reads `ranges` is complete. Its four warps read as one: any lane that waited may say so for all.
    pub fn wgmma_end(&mut self, warp: usize, ranges: &[Range], pc: u32) {
        let group = warp / 4;
        self.groups[group] += 1;
        let epoch = self.groups[group];
        let actor = self.first_group() + group;
        for clocks in self.warps.iter_mut().skip(4 * group).take(4) {
            clocks.learn(actor, epoch);
        }
        self.note_async_read(
            self.warps.len() + group,
            ranges,
            Read {
                lanes: 1,
                epoch,
                pc,
            },
        );
    }

    fn check_async_read(&self, warp: usize, lanes: u32, ranges: &[Range]) -> Result<(), Conflict> {
        let clocks = &self.warps[warp];
        let whole = clocks.live() & !lanes == 0;
        let lane = lanes.trailing_zeros().min(31);
        for range in ranges {
            for word in self.span(range.start, range.len) {
                let write = self.writes[word];
                let known = if whole {
                    write.epoch != 0 && clocks.all_know(write.actor(), write.epoch)
                } else {
                    write.epoch != 0 && clocks.knows(lane, write.actor(), write.epoch)
                };
                if !known {
                    self.explain_read(warp, lane, word, Strength::Weak)?;
                }
                let generic = write.epoch != 0 && write.actor & COPIED == 0;
                if self.checks.proxy && generic && !clocks.fenced(lane, write.actor(), write.epoch)
                {
                    let kind = ConflictKind::MissingProxyFence;
                    return Err(self.conflict(kind, word, lane, write.actor(), write.pc));
                }
            }
        }
        Ok(())
    }

    fn note_async_read(&mut self, reader: usize, ranges: &[Range], read: Read) {
        let start = reader * self.writes.len();
        for range in ranges {
            for word in self.span(range.start, range.len) {
                self.read_by[word] |= 1 << reader;
                self.reads[start + word] = read;
            }
        }
    }
}
