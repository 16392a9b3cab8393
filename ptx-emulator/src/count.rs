//! What a launch did, in numbers.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use crate::ast::Space;

/// Bytes that instructions moved, of all lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.read += other.read;
        self.written += other.written;
    }
}

/// Work of the tensor cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TensorWork {
    /// `mma.sync`, counted by warp.
    pub mma: u64,
    /// `wgmma.mma_async`, counted by warp group.
    pub wgmma: u64,
    /// Multiplications with an addition of both.
    pub multiply_adds: u64,
}

/// What a launch did, summed over its blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Blocks executed.
    pub blocks: u64,
    /// Warp instructions executed; those of which the guard excludes every lane count too.
    pub instructions: u64,
    /// Warp instructions by name, with all qualifiers.
    pub by_kind: BTreeMap<String, u64>,
    /// Tensor cores.
    pub tensor: TensorWork,
    /// Global memory, by ordinary accesses and by asynchronous copies.
    pub global: Traffic,
    /// Shared memory.
    pub shared: Traffic,
    /// Local memory.
    pub local: Traffic,
    /// Constants and parameters.
    pub constant: Traffic,
    /// Sectors of 32 bytes that accesses to global memory touched, by warp instruction.
    pub global_sectors: u64,
    /// Of these, the least that would hold as many bytes.
    pub ideal_global_sectors: u64,
    /// Passes over shared memory beyond the first that conflicts of banks cost.
    pub bank_conflicts: u64,
    /// Times that a warp waited at a barrier of the block.
    pub barrier_waits: u64,
    /// Executions by line of the PTX text, if asked for.
    pub by_line: BTreeMap<u32, u64>,
    /// Executions by source file (as `.file` names it) and line, if asked for and where `.loc` tells.
    pub by_source_line: BTreeMap<(String, u32), u64>,
}

/// The counters that instructions add to while they run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) tensor: TensorWork,
    pub(crate) global: Traffic,
    pub(crate) shared: Traffic,
    pub(crate) local: Traffic,
    pub(crate) constant: Traffic,
    pub(crate) global_sectors: u64,
    pub(crate) ideal_global_sectors: u64,
    pub(crate) bank_conflicts: u64,
    pub(crate) barrier_waits: u64,
}

impl Tally {
    pub(crate) fn traffic(&mut self, space: Space) -> &mut Traffic {
        match space {
            Space::Generic | Space::Global => &mut self.global,
            Space::Shared | Space::SharedCluster => &mut self.shared,
            Space::Local => &mut self.local,
            Space::Const | Space::Param => &mut self.constant,
        }
    }
}

impl Counters {
    pub(crate) fn add(&mut self, tally: &Tally) {
        self.tensor.mma += tally.tensor.mma;
        self.tensor.wgmma += tally.tensor.wgmma;
        self.tensor.multiply_adds += tally.tensor.multiply_adds;
        self.global += tally.global;
        self.shared += tally.shared;
        self.local += tally.local;
        self.constant += tally.constant;
        self.global_sectors += tally.global_sectors;
        self.ideal_global_sectors += tally.ideal_global_sectors;
        self.bank_conflicts += tally.bank_conflicts;
        self.barrier_waits += tally.barrier_waits;
    }
}

/// No lane.
const NONE: usize = 32;

/// Passes beyond the first that an access of `bytes` per lane needs: lanes that want different words of one bank take turns. Wide accesses
/// go by halves and quarters of a warp.
pub(crate) fn bank_conflicts(addresses: &[u32; 32], lanes: u32, bytes: u32) -> u32 {
    let group = match bytes {
        0..=4 => 32,
        8 => 16,
        _ => 8,
    };
    // Consecutive lanes at consecutive addresses, the common case, have none.
    let first = addresses[0];
    if (0..32).all(|lane| addresses[lane] == first.wrapping_add(lane as u32 * bytes)) {
        return 0;
    }
    // What one lane asks for: a bank, or two or four neighbours at once.
    let unit = bytes.clamp(4, 16);
    let (shift, last_slot) = (unit.trailing_zeros(), 128 / unit - 1);
    let mut extra = 0;
    for start in (0..32).step_by(group) {
        let wanted = || (start..start + group).filter(|lane| lanes >> lane & 1 == 1);
        let touched = wanted().fold(0u32, |slots_seen, lane| {
            slots_seen | 1 << (addresses[lane] >> shift & last_slot)
        });
        if touched.count_ones() as usize == wanted().count() {
            continue;
        }
        // Of each slot, the lanes that ask for different units, as a list.
        let mut newest = [NONE; 32];
        let mut older = [NONE; 32];
        let mut passes = [0u32; 32];
        let mut most = 1;
        for lane in wanted() {
            let wanted = addresses[lane] >> shift;
            let slot = (wanted & last_slot) as usize;
            let mut other = newest[slot];
            while other != NONE && addresses[other] >> shift != wanted {
                other = older[other];
            }
            if other == NONE {
                older[lane] = newest[slot];
                newest[slot] = lane;
                passes[slot] += 1;
                most = most.max(passes[slot]);
            }
        }
        extra += most - 1;
    }
    extra
}

/// Sectors of 32 bytes that an access touches.
pub(crate) fn sectors(addresses: &[u64; 32], lanes: u32, bytes: u32) -> u32 {
    let first = addresses[0];
    if lanes == u32::MAX
        && (0..32).all(|lane| addresses[lane] == first.wrapping_add(lane as u64 * u64::from(bytes)))
    {
        let last = first.wrapping_add(32 * u64::from(bytes) - 1);
        return (last / 32).wrapping_sub(first / 32) as u32 + 1;
    }
    let mut touched = [0u64; 32];
    let mut n = 0;
    for lane in (0..32).filter(|lane| lanes >> lane & 1 == 1) {
        touched[n] = addresses[lane] / 32;
        n += 1;
    }
    let touched = &mut touched[..n];
    touched.sort_unstable();
    let changes = touched.windows(2).filter(|pair| pair[0] != pair[1]).count() as u32;
    if n == 0 { 0 } else { changes + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banks_conflict_where_words_differ() {
        let all = u32::MAX;
        let at = |f: fn(u32) -> u32| std::array::from_fn(|lane| f(lane as u32));
        assert_eq!(bank_conflicts(&at(|lane| 4 * lane), all, 4), 0);
        assert_eq!(bank_conflicts(&at(|_| 64), all, 4), 0, "a broadcast");
        assert_eq!(bank_conflicts(&at(|lane| 8 * lane), all, 4), 1);
        assert_eq!(bank_conflicts(&at(|lane| 128 * lane), all, 4), 31);
        assert_eq!(bank_conflicts(&at(|lane| 128 * lane), 0xff, 4), 7);
        assert_eq!(bank_conflicts(&at(|lane| 16 * lane), all, 16), 0);
        assert_eq!(
            bank_conflicts(&at(|lane| 128 * lane), all, 16),
            28,
            "seven for each quarter"
        );
    }

    #[test]
    fn sectors_are_counted_once() {
        let at = |f: fn(u64) -> u64| std::array::from_fn(|lane| f(lane as u64));
        assert_eq!(sectors(&at(|lane| 4 * lane), u32::MAX, 4), 4);
        assert_eq!(sectors(&at(|lane| 32 * lane), u32::MAX, 4), 32);
        assert_eq!(sectors(&at(|lane| 64 - lane), 0b111, 1), 2);
        assert_eq!(sectors(&at(|lane| lane), 0, 1), 0);
    }
}
