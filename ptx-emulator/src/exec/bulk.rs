//! Copies of the TMA unit, as late as the rules allow: a load lands when no warp can run without it, a store leaves when it is waited
//! for.

use std::collections::VecDeque;

use super::block::State;
use super::warp::Warp;
use super::{Outcome, Stop, lanes_of, space_of, window};
use crate::ast::Space;
use crate::async_copy::element::{Element, ReduceOp};
use crate::async_copy::group::Groups;
use crate::async_copy::mbarrier::Mbarriers;
use crate::async_copy::spelling::Direction;
use crate::async_copy::tensor_map::{TensorMap, TensorMapError};
use crate::async_copy::tma::{Piece, box_pieces, check_linear, fill, linear_piece, shared_ranges};
use crate::check::clock::bits;
use crate::check::race::Range;
use crate::check::report::Fault;
use crate::program::inst::Bulk;

/// Tests of mbarriers in vain before something lands for those that test without blocking.
const PATIENCE: u32 = 32;

/// What is under way in one block.
#[derive(Debug, Default)]
pub(super) struct BulkState {
    pub(super) mbarriers: Mbarriers,
    /// Phases that were completed; a fragment that waits looks again when there are more.
    pub(super) completions: u64,
    loads: VecDeque<Load>,
    /// Tensor maps that were read, by address: they do not change while a kernel runs.
    maps: Vec<(Space, u64, TensorMap)>,
    /// Answers in vain since anything landed.
    pub(super) vain: u32,
}

impl BulkState {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether so many tests were in vain that something should land for them.
    pub(super) fn is_impatient(&self) -> bool {
        self.vain >= PATIENCE
    }

    /// What a fragment waits for that waits for an mbarrier.
    pub(super) fn describe(&self, address: u32) -> String {
        self.mbarriers.describe(address)
    }
}

/// A copy to shared memory.
#[derive(Debug)]
struct Load {
    pieces: Vec<Piece>,
    ranges: Vec<Range>,
    /// What stands in the place of what lies outside the tensor: of one element, repeated.
    fill: Vec<u8>,
    /// Where in shared memory the bytes come from, rather than from global memory.
    from_shared: Option<u32>,
    mbarrier: u32,
    bytes: u32,
    warp: u32,
    lane: u32,
    pc: u32,
}

/// A copy to global memory.
#[derive(Debug)]
pub(super) struct Store {
    pieces: Vec<Piece>,
    ranges: Vec<Range>,
    reduce: Option<(ReduceOp, Element)>,
    /// Of each 16 bytes, which are written.
    byte_mask: Option<u16>,
    /// The bytes, piece after piece, once they were read.
    data: Option<Vec<u8>>,
    pc: u32,
}

/// Bulk groups of one warp.
pub(super) type Stores = Groups<Store>;

impl Warp {
    pub(super) fn bulk(
        &mut self,
        block: &mut State,
        bulk: &Bulk,
        pc: u32,
        active: u32,
    ) -> Outcome<()> {
        let to = self.addresses(bulk.to.1);
        let from = self.addresses(bulk.from.1);
        let bars = bulk.mbarrier.map(|(_, address)| self.addresses(address));
        for lane in lanes_of(active) {
            let coordinates: Vec<i32> = bulk
                .coordinates
                .iter()
                .map(|&r| self.registers.r(r)[lane] as i32)
                .collect();
            let size = bulk.size.map_or(0, |r| self.registers.r(r)[lane]);
            let mask = bulk.mask.map_or(0, |r| self.registers.r(r)[lane] as u16);
            match bulk.copy.direction {
                Direction::Load | Direction::ToCluster => {
                    let shared = block.own_shared(bulk.to.0, to[lane], lane)?;
                    let (space, address) = bulk
                        .mbarrier
                        .zip(bars)
                        .map(|((space, _), bars)| (space, bars[lane]))
                        .expect("a load ends at an mbarrier");
                    let mbarrier = block.own_shared(space, address, lane)?;
                    for (shared, mbarrier) in targets(block, bulk, (shared, mbarrier), mask, lane)?
                    {
                        let load = if bulk.copy.direction == Direction::Load {
                            block.plan_load(bulk, shared, from[lane], &coordinates, size, lane)?
                        } else {
                            let source = block.own_shared(bulk.from.0, from[lane], lane)?;
                            block.plan_shared_load(shared, source, size, lane)?
                        };
                        let (warp, lane) = (self.index, lane as u32);
                        block.begin_load(Load {
                            mbarrier,
                            warp,
                            lane,
                            pc,
                            ..load
                        })?;
                    }
                }
                Direction::Store => {
                    let shared = block.own_shared(bulk.from.0, from[lane], lane)?;
                    let (pieces, element) =
                        block.plan_store(bulk, shared, to[lane], &coordinates, size, lane)?;
                    let ranges = shared_ranges(&pieces, true);
                    block.check_pieces(&pieces, lane, bulk.copy.reduce.is_some())?;
                    block.shadow_read_begin(self.index, 1 << lane, &ranges, pc)?;
                    let reduce = bulk
                        .copy
                        .reduce
                        .zip(element)
                        .map(|((op, _), element)| (op, element));
                    let byte_mask = bulk.copy.byte_mask.then_some(mask);
                    self.stores.push(
                        lane as u32,
                        Store {
                            pieces,
                            ranges,
                            reduce,
                            byte_mask,
                            data: None,
                            pc,
                        },
                    );
                }
                Direction::Prefetch => {}
            }
        }
        Ok(())
    }

    /// `cp.async.bulk.wait_group`, with or without `.read`.
    pub(super) fn bulk_wait(
        &mut self,
        block: &mut State,
        left: u32,
        read: bool,
        active: u32,
    ) -> Outcome<()> {
        for (lane, store) in self.stores.covered(active, left) {
            if store.data.is_none() {
                store.data = Some(block.gather(store));
                block.shadow_read_end(self.index, 1 << lane, &store.ranges, store.pc)?;
            }
        }
        if !read {
            for (_, store) in self.stores.wait(active, left) {
                block.scatter_store(&store);
            }
        }
        Ok(())
    }

    /// Ends what the warp has under way when its block ends: stores whose bytes were read still arrive.
    pub(super) fn bulk_end(&mut self, block: &mut State) -> Result<(), (u32, Box<Stop>)> {
        for (lane, store) in self.stores.take_issued(u32::MAX) {
            if store.data.is_none() {
                let expected =
                    "cp.async.bulk.wait_group after it, since shared memory ends with its block";
                return Err((
                    store.pc,
                    bad_use("a bulk copy", expected, "none".to_owned(), lane as usize),
                ));
            }
            block.scatter_store(&store);
        }
        Ok(())
    }

    /// Lets one `cp.async.mbarrier.arrive` happen; whether there was one.
    pub(super) fn land_arrival(&mut self, block: &mut State) -> Result<bool, (u32, Box<Stop>)> {
        let Some((arrival, copies)) = self.copies.next_arrival() else {
            return Ok(false);
        };
        let lane = arrival.lane;
        for copy in &copies {
            block
                .deliver(copy, lane as usize)
                .map_err(|stop| (copy.pc, stop))?;
        }
        let ranges: Vec<Range> = copies
            .iter()
            .map(|copy| Range {
                start: copy.shared,
                len: copy.size,
            })
            .collect();
        block.shadow_copies_arrived(&ranges, arrival.mbarrier, self.index, lane);
        let complete = block
            .bulk
            .mbarriers
            .end_arrival(arrival.mbarrier)
            .map_err(|error| {
                let pc = copies.first().map_or(0, |copy| copy.pc);
                (
                    pc,
                    Stop::access(error.into(), lane, arrival.mbarrier.into(), Space::Shared),
                )
            })?;
        if complete {
            block.phase_complete(arrival.mbarrier);
        }
        Ok(true)
    }
}

/// Where a load goes: destination and mbarrier, in each block that a multicast names.
fn targets(
    block: &State,
    bulk: &Bulk,
    (shared, mbarrier): (u32, u32),
    mask: u16,
    lane: usize,
) -> Outcome<Vec<(u32, u32)>> {
    if !bulk.copy.multicast {
        return Ok(vec![(shared, mbarrier)]);
    }
    if mask == 0 || u32::from(mask) >> block.blocks != 0 {
        let expected = format!(
            "a mask of some of the {} blocks of the cluster",
            block.blocks
        );
        return Err(bad_use(
            "a multicast copy",
            &expected,
            format!("{mask:#06x}"),
            lane,
        ));
    }
    let stride = block.shared_stride;
    let in_block = |rank: u32| {
        (
            rank * stride + shared % stride,
            rank * stride + mbarrier % stride,
        )
    };
    Ok(bits(mask.into()).map(in_block).collect())
}

#[expect(
    clippy::unnecessary_box_returns,
    reason = "errors are boxed throughout"
)]
fn bad_use(instruction: &str, expected: &str, found: String, lane: usize) -> Box<Stop> {
    let fault = Fault::BadUse {
        instruction: instruction.to_owned(),
        expected: expected.to_owned(),
        found,
    };
    Stop::lane(fault, lane as u32)
}

impl State<'_> {
    /// An address of the block's own shared memory, from one in a space.
    pub(super) fn own_shared(&self, space: Space, address: u64, lane: usize) -> Outcome<u32> {
        let address = match space {
            Space::Generic if space_of(address) == Space::Shared => address - window(Space::Shared),
            Space::Generic => return Err(self.out_of_bounds(Space::Shared, lane, address, 1)),
            _ => address,
        };
        self.locate_shared(address, 1)
            .ok_or_else(|| self.out_of_bounds(Space::Shared, lane, address, 1))
    }

    fn plan_load(
        &mut self,
        bulk: &Bulk,
        shared: u32,
        from: u64,
        coordinates: &[i32],
        size: u32,
        lane: usize,
    ) -> Outcome<Load> {
        let (pieces, bytes, fill) = if bulk.copy.rank.is_some() {
            let map = self.tensor_map(from, lane)?;
            let pieces = box_pieces(map, coordinates, shared)
                .map_err(|e| Stop::lane(e.into(), lane as u32))?;
            (pieces, map.box_bytes(), fill(map, map.element.bytes()))
        } else {
            let piece = linear_piece(shared, global_address(bulk.from.0, from), size)
                .map_err(|e| Stop::lane(e.into(), lane as u32))?;
            (vec![piece], size, Vec::new())
        };
        self.check_pieces(&pieces, lane, true)?;
        let ranges = shared_ranges(&pieces, false);
        Ok(Load {
            pieces,
            ranges,
            fill,
            from_shared: None,
            mbarrier: 0,
            bytes,
            warp: 0,
            lane: 0,
            pc: 0,
        })
    }

    fn plan_shared_load(
        &mut self,
        shared: u32,
        from: u32,
        size: u32,
        lane: usize,
    ) -> Outcome<Load> {
        check_linear(shared, size)
            .and_then(|()| check_linear(from, size))
            .map_err(|e| Stop::lane(e.into(), lane as u32))?;
        if !self.is_shared(from, size) {
            return Err(self.out_of_bounds(Space::Shared, lane, from.into(), size));
        }
        let pieces = vec![Piece {
            shared,
            global: None,
            len: size,
        }];
        self.check_pieces(&pieces, lane, false)?;
        let ranges = vec![Range {
            start: shared,
            len: size,
        }];
        Ok(Load {
            pieces,
            ranges,
            fill: Vec::new(),
            from_shared: Some(from),
            mbarrier: 0,
            bytes: size,
            warp: 0,
            lane: 0,
            pc: 0,
        })
    }

    fn plan_store(
        &mut self,
        bulk: &Bulk,
        shared: u32,
        to: u64,
        coordinates: &[i32],
        size: u32,
        lane: usize,
    ) -> Outcome<(Vec<Piece>, Option<Element>)> {
        if bulk.copy.rank.is_none() {
            let piece = linear_piece(shared, global_address(bulk.to.0, to), size)
                .map_err(|e| Stop::lane(e.into(), lane as u32))?;
            return Ok((
                vec![piece],
                bulk.copy.reduce.and_then(|(_, element)| element),
            ));
        }
        let map = self.tensor_map(to, lane)?;
        let element = map.element;
        let pieces =
            box_pieces(map, coordinates, shared).map_err(|e| Stop::lane(e.into(), lane as u32))?;
        if let Some((op, _)) = bulk.copy.reduce
            && !op.takes(element)
        {
            return Err(Stop::lane(
                crate::async_copy::tma::TmaError::Reduction { op, element }.into(),
                lane as u32,
            ));
        }
        Ok((pieces, Some(element)))
    }

    /// The map at a generic address: in the kernel's parameters, in constant or in global memory.
    fn tensor_map(&mut self, address: u64, lane: usize) -> Outcome<&TensorMap> {
        let space = space_of(address);
        let offset = address - window(space);
        if let Some(known) = self
            .bulk
            .maps
            .iter()
            .position(|(s, a, _)| (*s, *a) == (space, offset))
        {
            return Ok(&self.bulk.maps[known].2);
        }
        let fault = |error: TensorMapError| Stop::access(error.into(), lane as u32, offset, space);
        if !offset.is_multiple_of(64) {
            return Err(fault(TensorMapError::MapAlignment { found: offset }));
        }
        let mut bytes = [0; 128];
        match space {
            Space::Param | Space::Const => {
                let from: &[u8] = if space == Space::Param {
                    self.params
                } else {
                    &self.program.constants
                };
                let Some(found) = from.get(offset as usize..).and_then(|from| from.get(..128))
                else {
                    return Err(self.out_of_bounds(space, lane, offset, 128));
                };
                bytes.copy_from_slice(found);
            }
            _ => {
                let mut hint = 0;
                let Some((allocation, at)) = self.global.find(offset, 128, &mut hint) else {
                    return Err(self.out_of_bounds(Space::Global, lane, offset, 128));
                };
                for (i, byte) in bytes.iter_mut().enumerate() {
                    *byte = allocation.load_byte(at + i);
                }
            }
        }
        let map = TensorMap::from_bytes(&bytes).map_err(fault)?;
        self.bulk.maps.push((space, offset, map));
        Ok(&self.bulk.maps.last().expect("one was pushed").2)
    }

    /// Whether all that a copy touches is there, and was written if it reads global memory.
    fn check_pieces(&mut self, pieces: &[Piece], lane: usize, reads_global: bool) -> Outcome<()> {
        let mut hint = 0;
        for piece in pieces.iter().filter(|piece| piece.len != 0) {
            if !self.is_shared(piece.shared, piece.len) {
                return Err(self.out_of_bounds(
                    Space::Shared,
                    lane,
                    piece.shared.into(),
                    piece.len,
                ));
            }
            let Some(address) = piece.global else {
                continue;
            };
            let Some((allocation, offset)) = self.global.find(address, piece.len, &mut hint) else {
                return Err(self.out_of_bounds(Space::Global, lane, address, piece.len));
            };
            if reads_global && self.checks.init {
                let missing =
                    runs(offset, piece.len as usize).find(|&(at, n)| !allocation.is_written(at, n));
                if let Some((at, n)) = missing {
                    let address = address + (at - offset) as u64;
                    return Err(Stop::access(
                        Fault::Uninitialised { bytes: n.into() },
                        lane as u32,
                        address,
                        Space::Global,
                    ));
                }
            }
        }
        Ok(())
    }

    fn begin_load(&mut self, load: Load) -> Outcome<()> {
        let lane = load.lane;
        self.use_mbarrier(load.warp, 1 << lane, load.mbarrier, load.pc)?;
        if let Some(from) = load.from_shared {
            let source = [Range {
                start: from,
                len: load.bytes,
            }];
            self.shadow_read_begin(load.warp, 1 << lane, &source, load.pc)?;
        }
        self.shadow_bulk_begin(load.warp, lane, &load.ranges, load.mbarrier, load.pc)?;
        let begun = self.bulk.mbarriers.begin(load.mbarrier);
        begun.map_err(|error| {
            Stop::access(error.into(), lane, load.mbarrier.into(), Space::Shared)
        })?;
        if load.from_shared.is_none() {
            self.tally.traffic(Space::Global).read += load
                .pieces
                .iter()
                .filter(|p| p.global.is_some())
                .map(|p| u64::from(p.len))
                .sum::<u64>();
        }
        for range in &load.ranges {
            for at in (range.start..range.start + range.len).step_by(4) {
                self.shared.store(at, 4, |_| u32::MAX);
            }
        }
        self.bulk.loads.push_back(load);
        Ok(())
    }

    /// Lets one load land; whether there was one. `pick` chooses among those under way.
    pub(super) fn land(
        &mut self,
        pick: impl FnOnce(usize) -> usize,
    ) -> Result<bool, (u32, u32, Box<Stop>)> {
        self.bulk.vain = 0;
        let count = self.bulk.loads.len();
        if count == 0 {
            return Ok(false);
        }
        let load = self
            .bulk
            .loads
            .remove(pick(count) % count)
            .expect("the index is below their number");
        self.finish_load(&load)
            .map_err(|stop| (load.warp, load.pc, stop))?;
        Ok(true)
    }

    fn finish_load(&mut self, load: &Load) -> Outcome<()> {
        if let Some(from) = load.from_shared {
            let bytes: Vec<u8> = (from..from + load.bytes)
                .map(|at| self.shared.byte(at))
                .collect();
            let source = [Range {
                start: from,
                len: load.bytes,
            }];
            self.shadow_read_end(load.warp, 1 << load.lane, &source, load.pc)?;
            self.put_shared(load.pieces[0].shared, &bytes);
        } else {
            let mut hint = 0;
            for piece in &load.pieces {
                let bytes = match piece.global {
                    Some(address) => match self.global.find(address, piece.len, &mut hint) {
                        Some((allocation, offset)) => (offset..offset + piece.len as usize)
                            .map(|i| allocation.load_byte(i))
                            .collect(),
                        None => continue,
                    },
                    None => load
                        .fill
                        .iter()
                        .copied()
                        .cycle()
                        .take(piece.len as usize)
                        .collect::<Vec<u8>>(),
                };
                self.put_shared(piece.shared, &bytes);
            }
        }
        self.shadow_bulk_end(&load.ranges, load.mbarrier);
        let ended = self.bulk.mbarriers.end(load.mbarrier, load.bytes);
        let complete = ended.map_err(|error| {
            Stop::access(error.into(), load.lane, load.mbarrier.into(), Space::Shared)
        })?;
        if complete {
            self.phase_complete(load.mbarrier);
        }
        Ok(())
    }

    fn put_shared(&mut self, address: u32, bytes: &[u8]) {
        if address.is_multiple_of(4) && bytes.len().is_multiple_of(4) {
            for (i, word) in bytes.chunks_exact(4).enumerate() {
                let word = u32::from_le_bytes(word.try_into().expect("chunks are of four bytes"));
                self.shared.store(address + 4 * i as u32, 4, |_| word);
            }
        } else {
            for (i, &byte) in bytes.iter().enumerate() {
                self.shared.set_byte(address + i as u32, byte);
            }
        }
    }

    fn gather(&self, store: &Store) -> Vec<u8> {
        let inside = store.pieces.iter().filter(|piece| piece.global.is_some());
        inside
            .flat_map(|piece| {
                (piece.shared..piece.shared + piece.len).map(|at| self.shared.byte(at))
            })
            .collect()
    }

    /// Writes what a store has read.
    fn scatter_store(&mut self, store: &Store) {
        let mut rest = store.data.as_deref().unwrap_or_default();
        let mut hint = 0;
        for piece in &store.pieces {
            let Some(address) = piece.global else {
                continue;
            };
            let (bytes, tail) = rest.split_at(piece.len as usize);
            rest = tail;
            self.tally.traffic(Space::Global).written += u64::from(piece.len);
            let Some((allocation, offset)) = self.global.find(address, piece.len, &mut hint) else {
                continue;
            };
            match (store.reduce, store.byte_mask) {
                (Some((op, element)), _) => {
                    // Other blocks may reduce at the same time.
                    let _lock = self.memory.wide_lock();
                    let mut old: Vec<u8> = (offset..offset + bytes.len())
                        .map(|i| allocation.load_byte(i))
                        .collect();
                    op.apply(element, &mut old, bytes);
                    allocation.write_bytes(offset, &old);
                }
                (None, Some(mask)) => {
                    for (i, byte) in bytes
                        .iter()
                        .enumerate()
                        .filter(|(i, _)| mask >> (i % 16) & 1 == 1)
                    {
                        allocation.write_bytes(offset + i, std::slice::from_ref(byte));
                    }
                }
                (None, None) => allocation.write_bytes(offset, bytes),
            }
        }
    }

    /// Reports copies that are under way when the block ends.
    pub(super) fn bulk_end(&self) -> Result<(), (u32, u32, Box<Stop>)> {
        let Some(load) = self.bulk.loads.front() else {
            return Ok(());
        };
        let fault = Fault::BadUse {
            instruction: "a bulk copy".to_owned(),
            expected: "a wait for it before the block ends".to_owned(),
            found: "none".to_owned(),
        };
        Err((
            load.warp,
            load.pc,
            Stop::access(fault, load.lane, load.mbarrier.into(), Space::Shared),
        ))
    }
}

/// A global address from a generic one, which it is.
fn global_address(_: Space, address: u64) -> u64 {
    address
}

/// Cuts a run of bytes where `Allocation::is_written` needs it: at multiples of 32.
fn runs(start: usize, len: usize) -> impl Iterator<Item = (usize, u32)> {
    let mut at = start;
    std::iter::from_fn(move || {
        let n = (32 - at % 32).min(start + len - at);
        let run = (at, n as u32);
        at += n;
        (n != 0).then_some(run)
    })
}
