//! What a check found, where, and who did it.

use std::fmt;

use crate::ast::{Location, Space};

/// A fault of a kernel, with the place and the thread that met it.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// What is wrong.
    pub fault: Fault,
    /// Name of the kernel.
    pub kernel: String,
    /// Line of the PTX text, and of the source it was compiled from.
    pub location: Location,
    /// Name of that source; empty where no `.loc` stands before the line.
    pub file: String,
    /// The PTX line.
    pub text: String,
    /// Index of the block in the grid.
    pub block: [u32; 3],
    /// Index of the warp in the block.
    pub warp: u32,
    /// The lane, where one lane is at fault rather than the whole warp.
    pub lane: Option<u32>,
    /// The address, where memory is at fault.
    pub address: Option<u64>,
    /// The space of that address.
    pub space: Option<Space>,
    /// What else may help, a sentence each.
    pub notes: Vec<String>,
}

/// Why a kernel was stopped.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// An access outside every allocation.
    #[error("access out of bounds: {bytes} bytes {}", describe_nearest(.nearest.as_ref()))]
    OutOfBounds {
        /// Size of the access.
        bytes: u64,
        /// The allocation nearest to the address.
        nearest: Option<Nearest>,
    },
    /// An address that is not a multiple of what the instruction asks for.
    #[error("misaligned address: expected a multiple of {expected}, found remainder {found}")]
    Misaligned {
        /// The alignment asked for.
        expected: u64,
        /// Address modulo that alignment.
        found: u64,
    },
    /// A read of bytes that nothing wrote.
    #[error("read of memory that nothing wrote: {bytes} bytes")]
    Uninitialised {
        /// Size of the access.
        bytes: u64,
    },
    /// A write to memory that may only be read.
    #[error("write to read-only memory: {bytes} bytes")]
    ReadOnly {
        /// Size of the access.
        bytes: u64,
    },
    /// Two accesses of shared memory by different warps, one of them a write, with no barrier in between.
    #[error("race in shared memory: {kind}, with no barrier after {other}")]
    SharedRace {
        /// Which of the two is a write.
        kind: RaceKind,
        /// The access that came first.
        other: Box<Access>,
    },
    /// Two accesses of shared memory by different lanes of a warp, one of them a write, with no `bar.warp.sync` in between.
    #[error("race within a warp: {kind}, with no bar.warp.sync after {other}")]
    WarpRace {
        /// Which of the two is a write.
        kind: RaceKind,
        /// The access that came first.
        other: Box<Access>,
    },
    /// An access to memory that an asynchronous copy is still writing or reading.
    #[error("access to memory that an asynchronous copy is still {}: {kind}, with no wait for {other}", if *.copy_writes { "writing" } else { "reading" })]
    PendingCopy {
        /// Which of the two is a write.
        kind: RaceKind,
        /// Whether the copy writes the memory at fault (otherwise it reads it).
        copy_writes: bool,
        /// The copy.
        other: Box<Access>,
    },
    /// A write by ordinary instructions, read through the asynchronous proxy without `fence.proxy.async` in between.
    #[error(
        "asynchronous read of what ordinary instructions wrote, with no fence.proxy.async after {other}"
    )]
    MissingProxyFence {
        /// The write.
        other: Box<Access>,
    },
    /// A barrier that only some lanes of a warp reached.
    #[error("divergent barrier {barrier}: expected lanes {expected:#010x}, found {found:#010x}")]
    DivergentBarrier {
        /// Number of the barrier.
        barrier: u32,
        /// Lanes of the warp that live.
        expected: u32,
        /// Lanes that reached it.
        found: u32,
    },
    /// Threads that wait at one barrier for different numbers of threads.
    #[error("barrier {barrier} awaits {first} threads for one warp and {second} for another")]
    BarrierCount {
        /// Number of the barrier.
        barrier: u32,
        /// Count given first.
        first: u32,
        /// Count given now.
        second: u32,
    },
    /// A barrier number, a thread count or a mask that the instruction does not take.
    #[error("barrier misuse: {0}")]
    BarrierMisuse(BarrierMisuse),
    /// Every warp waits, and nothing can wake one.
    #[error("deadlock: {} waiting{}", count(.waiters.len(), "warp"), list(.waiters))]
    Deadlock {
        /// Who waits, and for what.
        waiters: Vec<Waiter>,
    },
    /// An `mbarrier` used against its rules.
    #[error("mbarrier misuse: {0}")]
    Mbarrier(#[from] crate::async_copy::mbarrier::MbarrierError),
    /// A tensor map that does not describe a tensor.
    #[error("bad tensor map: {0}")]
    TensorMap(#[from] crate::async_copy::tensor_map::TensorMapError),
    /// A bulk copy whose operands its rules forbid.
    #[error("bad bulk copy: {0}")]
    BulkCopy(#[from] crate::async_copy::tma::TmaError),
    /// `shfl.sync` or another exchange that reads a lane which does not take part.
    #[error("lane {from} is read but takes no part: the lanes that do are {active:#010x}")]
    InactiveLane {
        /// The lane that is read.
        from: u32,
        /// Lanes that execute the instruction and are in its mask.
        active: u32,
    },
    /// A member mask that does not name the executing lanes.
    #[error("member mask {mask:#010x} does not fit the executing lanes {executing:#010x}")]
    MemberMask {
        /// The mask.
        mask: u32,
        /// Lanes that execute the instruction.
        executing: u32,
    },
    /// `trap`, as reached by a failing assertion.
    #[error("trap")]
    Trap,
    /// An instruction used in a way that its rules forbid.
    #[error("bad use of {instruction}: expected {expected}, found {found}")]
    BadUse {
        /// The instruction.
        instruction: String,
        /// What its rules ask for.
        expected: String,
        /// What was found.
        found: String,
    },
    /// More warp instructions than the caller allows.
    #[error("step limit reached: {limit} warp instructions in one block")]
    StepLimit {
        /// The limit.
        limit: u64,
    },
}

/// Misuse of a numbered barrier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BarrierMisuse {
    /// A number past 15.
    #[error("expected a barrier number below 16, found {0}")]
    Number(u32),
    /// A thread count that is not a multiple of the warp size.
    #[error("expected a multiple of 32 threads, found {0}")]
    ThreadCount(u32),
    /// More arrivals than the barrier awaits.
    #[error("expected {expected} threads at barrier {barrier}, found {found}")]
    OverArrival {
        /// Number of the barrier.
        barrier: u32,
        /// Threads it awaits.
        expected: u32,
        /// Threads that arrived.
        found: u32,
    },
    /// `bar.arrive` without a thread count, or with 0.
    #[error("bar.arrive needs a count of threads")]
    ArriveWithoutCount,
}

/// The allocation nearest to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// What it is: `global allocation`, or the name of a variable.
    pub name: String,
    /// Its first address.
    pub start: u64,
    /// Its size in bytes.
    pub len: u64,
    /// The address at fault.
    pub address: u64,
}

fn describe_nearest(nearest: Option<&Nearest>) -> String {
    let Some(Nearest {
        name,
        start,
        len,
        address,
    }) = nearest
    else {
        return "where nothing was allocated".to_owned();
    };
    let end = start + len;
    if address < start {
        format!(
            "{} before {name} of {len} bytes at {start:#x}",
            start - address
        )
    } else if *address >= end {
        format!(
            "{} past the end of {name} of {len} bytes at {start:#x}",
            address - end
        )
    } else {
        format!(
            "that run past the end of {name} of {len} bytes at {start:#x}, from {} before it",
            end - address
        )
    }
}

/// Which of two accesses is a write; the earlier one is named second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaceKind {
    /// A read of what was written before.
    ReadAfterWrite,
    /// A write over what was read before.
    WriteAfterRead,
    /// A write over what was written before.
    WriteAfterWrite,
}

impl fmt::Display for RaceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadAfterWrite => "read after write",
            Self::WriteAfterRead => "write after read",
            Self::WriteAfterWrite => "write after write",
        })
    }
}

/// An earlier access, as part of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Who did it.
    pub actor: Actor,
    /// Where it stands.
    pub location: Location,
    /// The PTX line.
    pub text: String,
}

/// Who accessed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// A thread.
    Thread {
        /// Index of the warp in the block.
        warp: u32,
        /// The lane.
        lane: u32,
    },
    /// The tensor cores, for a warp group.
    WarpGroup(u32),
    /// An asynchronous copy that ended at an `mbarrier`.
    Copy {
        /// Shared address of the `mbarrier`.
        mbarrier: u32,
    },
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Thread { warp, lane } => write!(f, "warp {warp} lane {lane}"),
            Self::WarpGroup(group) => write!(f, "warp group {group}"),
            Self::Copy { mbarrier } => {
                write!(f, "the copy that ends at the mbarrier at {mbarrier:#x}")
            }
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "that of {} at PTX line {}",
            self.actor, self.location.line
        )?;
        if self.location.source_line != 0 {
            write!(f, " (source line {})", self.location.source_line)?;
        }
        if !self.text.is_empty() {
            write!(f, ", `{}`", self.text.trim())?;
        }
        Ok(())
    }
}

/// A warp that waits when nothing can move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Index of the warp in the block.
    pub warp: u32,
    /// Lanes that wait.
    pub lanes: u32,
    /// Where they wait.
    pub location: Location,
    /// The PTX line.
    pub text: String,
    /// What they wait for: `barrier 1, 64 of 128 threads arrived`.
    pub what: String,
}

impl fmt::Display for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "warp {} lanes {:#010x} at PTX line {}",
            self.warp, self.lanes, self.location.line
        )?;
        if !self.text.is_empty() {
            write!(f, ", `{}`", self.text.trim())?;
        }
        write!(f, ": {}", self.what)
    }
}

fn count(n: usize, what: &str) -> String {
    if n == 1 {
        format!("1 {what}")
    } else {
        format!("{n} {what}s")
    }
}

fn list(waiters: &[Waiter]) -> String {
    waiters.iter().fold(String::new(), |text, waiter| {
        text + "\n    " + &waiter.to_string()
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.block;
        writeln!(f, "{}", self.fault)?;
        write!(
            f,
            "  in kernel `{}`, block ({x}, {y}, {z}), warp {}",
            self.kernel, self.warp
        )?;
        if let Some(lane) = self.lane {
            write!(f, ", lane {lane}")?;
        }
        if let Some(address) = self.address {
            write!(f, ", address {address:#x}")?;
            if let Some(space) = self.space {
                write!(f, " ({})", space_name(space))?;
            }
        }
        write!(
            f,
            "\n  at PTX line {}: {}",
            self.location.line,
            self.text.trim()
        )?;
        if self.location.source_line != 0 {
            let file = if self.file.is_empty() {
                "source"
            } else {
                &self.file
            };
            write!(f, "\n  from {file}:{}", self.location.source_line)?;
        }
        for note in &self.notes {
            write!(f, "\n  note: {note}")?;
        }
        Ok(())
    }
}

fn space_name(space: Space) -> &'static str {
    match space {
        Space::Generic => "generic",
        Space::Global => "global",
        Space::Shared => "shared",
        Space::SharedCluster => "shared of the cluster",
        Space::Local => "local",
        Space::Const => "constant",
        Space::Param => "parameter",
    }
}

impl std::error::Error for Report {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_what_where_and_who() {
        let mut report = Report {
            fault: Fault::OutOfBounds {
                bytes: 16,
                nearest: Some(Nearest {
                    name: "global allocation".to_owned(),
                    start: 0x1000,
                    len: 64,
                    address: 0x1040,
                }),
            },
            kernel: "attn".to_owned(),
            location: Location {
                line: 12,
                file: 1,
                source_line: 34,
            },
            file: "flash.cu".to_owned(),
            text: "\tld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];".to_owned(),
            block: [1, 2, 0],
            warp: 3,
            lane: Some(4),
            address: Some(0x1040),
            space: Some(Space::Global),
            notes: vec!["seed 7".to_owned()],
        };
        assert_eq!(
            report.to_string(),
            "access out of bounds: 16 bytes 0 past the end of global allocation of 64 bytes at 0x1000\n  \
             in kernel `attn`, block (1, 2, 0), warp 3, lane 4, address 0x1040 (global)\n  \
             at PTX line 12: ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];\n  \
             from flash.cu:34\n  \
             note: seed 7"
        );
        report.fault = Fault::Deadlock {
            waiters: vec![Waiter {
                warp: 0,
                lanes: u32::MAX,
                location: Location {
                    line: 9,
                    ..Location::default()
                },
                text: "bar.sync 0;".to_owned(),
                what: "barrier 0, 32 of 64 threads arrived".to_owned(),
            }],
        };
        assert!(report.to_string().starts_with(
            "deadlock: 1 warp waiting\n    warp 0 lanes 0xffffffff at PTX line 9, `bar.sync 0;`: barrier 0, 32 of 64 threads arrived\n"
        ));
    }

    #[test]
    fn the_nearest_allocation_is_described_from_either_side() {
        let near = |address| {
            describe_nearest(Some(&Nearest {
                name: "buffer".to_owned(),
                start: 32,
                len: 16,
                address,
            }))
        };
        assert_eq!(near(28), "4 before buffer of 16 bytes at 0x20");
        assert_eq!(near(50), "2 past the end of buffer of 16 bytes at 0x20");
        assert_eq!(
            near(44),
            "that run past the end of buffer of 16 bytes at 0x20, from 4 before it"
        );
        assert_eq!(describe_nearest(None), "where nothing was allocated");
    }
}
