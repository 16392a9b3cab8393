//! Execution: warps of 32 lanes, the block that they share, and the threads of this machine that run blocks.
#![expect(
    clippy::unnecessary_box_returns,
    reason = "a stop is large and rare, and travels in results"
)]

mod access;
mod async_checks;
mod asynchronous;
mod atomic;
mod barrier;
pub(crate) mod block;
mod bulk;
mod exchange;
mod local;
mod mbarrier;
mod registers;
mod shared;
mod step;
mod tensor;
mod warp;
mod wgmma;

use crate::ast::Space;
use crate::check::report::Fault;

/// Where shared memory appears among generic addresses.
const SHARED_WINDOW: u64 = 0x0100_0000_0000;
/// Where local memory appears.
const LOCAL_WINDOW: u64 = 0x0200_0000_0000;
/// Where constants appear.
const CONST_WINDOW: u64 = 0x0300_0000_0000;
/// Where parameters appear.
const PARAM_WINDOW: u64 = 0x0400_0000_0000;
/// Each window is so large.
const WINDOW: u64 = 1 << 40;

/// The window of a space, 0 for global memory.
fn window(space: Space) -> u64 {
    match space {
        Space::Shared | Space::SharedCluster => SHARED_WINDOW,
        Space::Local => LOCAL_WINDOW,
        Space::Const => CONST_WINDOW,
        Space::Param => PARAM_WINDOW,
        Space::Global | Space::Generic => 0,
    }
}

/// The space that a generic address lies in.
fn space_of(address: u64) -> Space {
    match address / WINDOW {
        1 => Space::Shared,
        2 => Space::Local,
        3 => Space::Const,
        4 => Space::Param,
        _ => Space::Global,
    }
}

/// A fault, before it is known where.
#[derive(Debug)]
pub(crate) struct Stop {
    pub(crate) fault: Fault,
    pub(crate) lane: Option<u32>,
    pub(crate) address: Option<u64>,
    pub(crate) space: Option<Space>,
}

impl Stop {
    /// A fault of a whole warp.
    pub(crate) fn new(fault: Fault) -> Box<Self> {
        Box::new(Self {
            fault,
            lane: None,
            address: None,
            space: None,
        })
    }

    /// A fault of one lane.
    pub(crate) fn lane(fault: Fault, lane: u32) -> Box<Self> {
        Box::new(Self {
            fault,
            lane: Some(lane),
            address: None,
            space: None,
        })
    }

    /// A fault of an access.
    pub(crate) fn access(fault: Fault, lane: u32, address: u64, space: Space) -> Box<Self> {
        Box::new(Self {
            fault,
            lane: Some(lane),
            address: Some(address),
            space: Some(space),
        })
    }
}

type Outcome<T> = Result<T, Box<Stop>>;

/// The lanes of a mask, from the lowest.
fn lanes_of(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        let lane = rest.trailing_zeros();
        rest &= rest.wrapping_sub(1);
        (lane < 32).then_some(lane as usize)
    })
}
