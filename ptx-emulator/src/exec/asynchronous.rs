//! Asynchronous copies: poison at issue, and delivery at the wait that covers them.

use super::access::check_alignment;
use super::block::State;
use super::warp::Warp;
use super::{Outcome, Stop, lanes_of};
use crate::ast::Space;
use crate::async_copy::group::CpAsync;
use crate::check::race::Range;
use crate::check::report::Fault;
use crate::program::inst::CopyAsync;

impl Warp {
    pub(super) fn copy_async(
        &mut self,
        block: &mut State,
        copy: &CopyAsync,
        pc: u32,
        active: u32,
    ) -> Outcome<()> {
        let (to, from) = (self.addresses(copy.to), self.addresses(copy.from));
        check_alignment(&to, active, copy.size, Space::Shared)?;
        let shared = block.shared_addresses(&to, active, copy.size)?;
        let ignored = copy.ignore.map_or(0, |(p, negate)| {
            self.registers.p(p) ^ if negate { u32::MAX } else { 0 }
        });
        let sizes = copy.source_size.map(|r| *self.registers.r(r));
        let mut reading = 0;
        for lane in lanes_of(active) {
            let wanted = sizes.map_or(copy.size, |sizes| sizes[lane]);
            let source_size = if ignored >> lane & 1 == 1 { 0 } else { wanted };
            if source_size > copy.size {
                let fault = Fault::BadUse {
                    instruction: "cp.async".to_owned(),
                    expected: format!("a source of at most {} bytes", copy.size),
                    found: source_size.to_string(),
                };
                return Err(Stop::lane(fault, lane as u32));
            }
            reading |= u32::from(source_size > 0) << lane;
            block.tally.global.read += u64::from(source_size);
            let copy = CpAsync {
                shared: shared[lane],
                global: from[lane],
                size: copy.size,
                source_size,
                pc,
            };
            if let Some(shadow) = &mut block.shadow {
                let range = Range {
                    start: copy.shared,
                    len: copy.size,
                };
                shadow
                    .copy_begin(self.index as usize, lane as u32, range, pc)
                    .map_err(|conflict| block.conflict(conflict, copy.size))?;
            }
            self.copies.push(lane as u32, copy);
            block.shared.store(copy.shared, copy.size, |_| u32::MAX);
        }
        check_alignment(&from, reading, copy.size, Space::Global)?;
        // What is wrong with a source is told at the instruction that names it.
        for lane in lanes_of(reading) {
            let bytes = sizes.map_or(copy.size, |sizes| sizes[lane]);
            let Some((allocation, offset)) =
                block
                    .global
                    .find(from[lane], bytes, &mut block.hints[pc as usize])
            else {
                return Err(block.out_of_bounds(Space::Global, lane, from[lane], bytes));
            };
            if block.checks.init && !allocation.is_written(offset, bytes) {
                return Err(Stop::access(
                    Fault::Uninitialised {
                        bytes: bytes.into(),
                    },
                    lane as u32,
                    from[lane],
                    Space::Global,
                ));
            }
        }
        block.count_sectors(&from, reading, copy.size);
        block.tally.shared.written += u64::from(copy.size * active.count_ones());
        Ok(())
    }

    /// Delivers what `cp.async.wait_group` or, without a number, `cp.async.wait_all` waits for.
    pub(super) fn wait_group(
        &mut self,
        block: &mut State,
        left: Option<u32>,
        active: u32,
    ) -> Outcome<()> {
        let done = match left {
            Some(left) => self.copies.wait(active, left),
            None => self.copies.wait_all(active),
        };
        for (lane, copy) in done {
            block.deliver(&copy, lane as usize)?;
            if let Some(shadow) = &mut block.shadow {
                shadow.copy_waited(
                    self.index as usize,
                    lane,
                    Range {
                        start: copy.shared,
                        len: copy.size,
                    },
                );
            }
        }
        Ok(())
    }
}

impl State<'_> {
    /// Writes what a `cp.async` copies.
    pub(super) fn deliver(&mut self, copy: &CpAsync, lane: usize) -> Outcome<()> {
        let mut words = [0u32; 4];
        if copy.source_size > 0 {
            let Some((allocation, offset)) = self.global.find(
                copy.global,
                copy.source_size,
                &mut self.hints[copy.pc as usize],
            ) else {
                return Err(self.out_of_bounds(Space::Global, lane, copy.global, copy.source_size));
            };
            if copy.source_size.is_multiple_of(4) {
                allocation.load(offset, copy.source_size, |i, word| words[i] = word);
            } else {
                for i in 0..copy.source_size as usize {
                    words[i / 4] |= u32::from(allocation.load_byte(offset + i)) << (8 * (i % 4));
                }
            }
        }
        self.shared.store(copy.shared, copy.size, |i| words[i]);
        Ok(())
    }
}
