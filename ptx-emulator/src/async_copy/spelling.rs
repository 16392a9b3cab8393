//! The spellings of asynchronous copies and of `mbarrier` instructions: from modifiers to what they ask for.
//!
//! `None` says that a spelling is unknown; nothing that is not understood is passed over.

use super::element::{Element, ReduceOp};

/// An instruction of the `mbarrier` family: opcode `mbarrier`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MbarrierOp {
    /// What it does.
    pub kind: MbarrierKind,
    /// Where the address points.
    pub space: MbarrierSpace,
    /// `.relaxed`: it orders no memory.
    pub relaxed: bool,
}

/// What an `mbarrier` instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MbarrierKind {
    /// `[a], count`
    Init,
    /// `[a]`
    Inval,
    /// `state or _, [a]{, count}`, or with `expect_tx` `state or _, [a], bytes`.
    Arrive {
        /// The last operand is a count of bytes.
        expect_tx: bool,
        /// The phase must not be complete by it.
        no_complete: bool,
        /// `arrive_drop`
        drop: bool,
    },
    /// `[a], bytes`
    ExpectTx,
    /// `[a], bytes`
    CompleteTx,
    /// `p, [a], state{, hint}`, or with `parity` `p, [a], parity{, hint}`.
    Wait {
        /// `try_wait`, which may block, rather than `test_wait`.
        blocking: bool,
        /// The last operand is a parity.
        parity: bool,
    },
    /// `count, state`
    PendingCount,
}

/// Where the address of an `mbarrier` points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MbarrierSpace {
    /// A generic address.
    Generic,
    /// `.shared`, `.shared::cta`
    Cta,
    /// `.shared::cluster`
    Cluster,
}

impl MbarrierOp {
    /// Reads the modifiers of an instruction whose opcode is `mbarrier`.
    pub fn parse(modifiers: &[impl AsRef<str>]) -> Option<Self> {
        let (first, rest) = modifiers.split_first()?;
        let mut op = Self {
            kind: MbarrierKind::Init,
            space: MbarrierSpace::Generic,
            relaxed: false,
        };
        let (mut expect_tx, mut no_complete, mut parity, mut b64) = (false, false, false, false);
        for word in rest {
            match word.as_ref() {
                "shared" | "shared::cta" => op.space = MbarrierSpace::Cta,
                "shared::cluster" => op.space = MbarrierSpace::Cluster,
                "b64" => b64 = true,
                "relaxed" => op.relaxed = true,
                "release" | "acquire" | "cta" | "cluster" => {}
                "expect_tx" => expect_tx = true,
                "noComplete" => no_complete = true,
                "parity" => parity = true,
                _ => return None,
            }
        }
        op.kind = match first.as_ref() {
            "init" => MbarrierKind::Init,
            "inval" => MbarrierKind::Inval,
            "arrive" => MbarrierKind::Arrive {
                expect_tx,
                no_complete,
                drop: false,
            },
            "arrive_drop" => MbarrierKind::Arrive {
                expect_tx,
                no_complete,
                drop: true,
            },
            "expect_tx" => MbarrierKind::ExpectTx,
            "complete_tx" => MbarrierKind::CompleteTx,
            "test_wait" => MbarrierKind::Wait {
                blocking: false,
                parity,
            },
            "try_wait" => MbarrierKind::Wait {
                blocking: true,
                parity,
            },
            "pending_count" => MbarrierKind::PendingCount,
            _ => return None,
        };
        let fits = match op.kind {
            MbarrierKind::Arrive { .. } => !(parity || expect_tx && no_complete),
            MbarrierKind::Wait { .. } => !expect_tx && !no_complete,
            MbarrierKind::Init
            | MbarrierKind::Inval
            | MbarrierKind::ExpectTx
            | MbarrierKind::CompleteTx
            | MbarrierKind::PendingCount => !expect_tx && !no_complete && !parity,
        };
        (fits && b64).then_some(op)
    }
}

/// A copy of the older kind: opcode `cp`, first modifier `async`, second not `bulk`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpAsyncOp {
    /// `[shared], [global], size{, source size or ignore predicate}{, policy}`
    Copy {
        /// `.L2::cache_hint`: a policy is the last operand.
        cache_hint: bool,
        /// `.cg`, which takes 16 bytes only.
        cg: bool,
    },
    /// `cp.async.commit_group`
    CommitGroup,
    /// `cp.async.wait_group n`
    WaitGroup,
    /// `cp.async.wait_all`
    WaitAll,
    /// `cp.async.mbarrier.arrive [a]`
    MbarrierArrive {
        /// `.noinc`: the count of the phase is not raised for it.
        noinc: bool,
        /// Where the address points.
        space: MbarrierSpace,
    },
}

impl CpAsyncOp {
    /// Reads the modifiers of an instruction whose opcode is `cp`.
    pub fn parse(modifiers: &[impl AsRef<str>]) -> Option<Self> {
        let words: Vec<&str> = modifiers.iter().map(AsRef::as_ref).collect();
        match words.as_slice() {
            ["async", "commit_group"] => Some(Self::CommitGroup),
            ["async", "wait_group"] => Some(Self::WaitGroup),
            ["async", "wait_all"] => Some(Self::WaitAll),
            ["async", "mbarrier", "arrive", rest @ .., "b64"] => {
                let (noinc, rest) = match rest {
                    ["noinc", rest @ ..] => (true, rest),
                    _ => (false, rest),
                };
                let space = match rest {
                    [] => MbarrierSpace::Generic,
                    ["shared" | "shared::cta"] => MbarrierSpace::Cta,
                    _ => return None,
                };
                Some(Self::MbarrierArrive { noinc, space })
            }
            [
                "async",
                level @ ("ca" | "cg"),
                "shared" | "shared::cta",
                "global",
                hints @ ..,
            ] => {
                let mut cache_hint = false;
                for hint in hints {
                    match *hint {
                        "L2::cache_hint" => cache_hint = true,
                        "L2::64B" | "L2::128B" | "L2::256B" => {}
                        _ => return None,
                    }
                }
                Some(Self::Copy {
                    cache_hint,
                    cg: *level == "cg",
                })
            }
            _ => None,
        }
    }
}

/// An instruction for the TMA unit: opcode `cp`, first modifiers `async.bulk` or `reduce.async.bulk`; or opcode
/// `prefetch` with `tensormap`, which does nothing and is left to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TmaOp {
    /// `cp.async.bulk.commit_group`
    CommitGroup,
    /// `cp.async.bulk.wait_group n`
    WaitGroup {
        /// `.read`: the sources may be written again, though the destinations may not be.
        read: bool,
    },
    /// A copy.
    Copy(TmaCopy),
}

/// A copy of the TMA unit. Operands, in order: destination, source, size (linear copies only), `mbarrier` (if it ends at
/// one), mask of blocks (if multicast) or of bytes, policy (if `cache_hint`). A tensor operand is `[map, {c0, …}]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TmaCopy {
    /// Rank of the tensor; none for a run of bytes.
    pub rank: Option<usize>,
    /// From where to where.
    pub direction: Direction,
    /// The copy combines rather than overwrites. The element type is that of the map for tensors.
    pub reduce: Option<(ReduceOp, Option<Element>)>,
    /// How the copy ends.
    pub completion: Completion,
    /// `.multicast::cluster`: a mask of blocks is an operand.
    pub multicast: bool,
    /// `.cp_mask`: a mask of bytes of each 16 is an operand.
    pub byte_mask: bool,
    /// `.L2::cache_hint`: a policy is the last operand.
    pub cache_hint: bool,
}

/// From where to where a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Global memory to the shared memory of this block (or of another, by a `.shared::cluster` address).
    Load,
    /// Shared memory of this block to global memory.
    Store,
    /// Shared memory of this block to that of another in the cluster.
    ToCluster,
    /// Global memory to the cache: nothing happens.
    Prefetch,
}

/// How a copy ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// It reports its bytes to an `mbarrier`.
    Mbarrier,
    /// It belongs to a bulk group of its thread.
    BulkGroup,
    /// Nobody is told.
    None,
}

impl TmaOp {
    /// Reads the modifiers of an instruction whose opcode is `cp`.
    pub fn parse(modifiers: &[impl AsRef<str>]) -> Option<Self> {
        let words: Vec<&str> = modifiers.iter().map(AsRef::as_ref).collect();
        let (reducing, mut words) = match words.as_slice() {
            ["async", "bulk", "commit_group"] => return Some(Self::CommitGroup),
            ["async", "bulk", "wait_group"] => return Some(Self::WaitGroup { read: false }),
            ["async", "bulk", "wait_group", "read"] => return Some(Self::WaitGroup { read: true }),
            ["async", "bulk", rest @ ..] => (false, rest),
            ["reduce", "async", "bulk", rest @ ..] => (true, rest),
            _ => return None,
        };
        let prefetch = take(&mut words, "prefetch");
        let mut rank = None;
        if take(&mut words, "tensor") {
            let (first, rest) = words.split_first()?;
            rank = Some(
                ["1d", "2d", "3d", "4d", "5d"]
                    .iter()
                    .position(|d| d == first)?
                    + 1,
            );
            words = rest;
        }
        let direction = match words {
            ["L2", "global", ..] if prefetch && !reducing => Direction::Prefetch,
            ["shared::cluster" | "shared::cta", "global", ..] if !prefetch && !reducing => {
                Direction::Load
            }
            ["global", "shared::cta", ..] if !prefetch => Direction::Store,
            ["shared::cluster", "shared::cta", ..] if !prefetch && rank.is_none() => {
                Direction::ToCluster
            }
            _ => return None,
        };
        let mut copy = TmaCopy {
            rank,
            direction,
            reduce: None,
            completion: Completion::None,
            multicast: false,
            byte_mask: false,
            cache_hint: false,
        };
        let (mut op, mut element) = (None, None);
        for &word in &words[2..] {
            match word {
                "mbarrier::complete_tx::bytes" => copy.completion = Completion::Mbarrier,
                "bulk_group" => copy.completion = Completion::BulkGroup,
                "tile" if rank.is_some() => {}
                "multicast::cluster" if direction == Direction::Load => copy.multicast = true,
                "cp_mask" if direction == Direction::Store && rank.is_none() => {
                    copy.byte_mask = true;
                }
                "L2::cache_hint" => copy.cache_hint = true,
                "noftz" if reducing => {}
                _ if reducing && op.is_none() => op = Some(ReduceOp::parse(word)?),
                _ if reducing && rank.is_none() && element.is_none() => {
                    element = Some(Element::from_type(word)?);
                }
                _ => return None,
            }
        }
        let expected = match direction {
            Direction::Load | Direction::ToCluster => Completion::Mbarrier,
            Direction::Store => Completion::BulkGroup,
            Direction::Prefetch => Completion::None,
        };
        if reducing {
            let op = op?;
            match (rank, element) {
                (None, Some(element)) if op.takes(element) => {}
                (Some(_), None) => {}
                _ => return None,
            }
            copy.reduce = Some((op, element));
        }
        (copy.completion == expected).then_some(Self::Copy(copy))
    }
}

/// Takes `word` from the front, if it stands there.
fn take<'a>(words: &mut &'a [&'a str], word: &str) -> bool {
    match *words {
        [first, rest @ ..] if *first == word => {
            *words = rest;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(name: &str) -> Vec<String> {
        name.split('.').skip(1).map(str::to_owned).collect()
    }

    #[test]
    fn mbarrier_instructions_are_read() {
        let check = |name, kind, space| {
            assert_eq!(
                MbarrierOp::parse(&words(name)).map(|o| (o.kind, o.space)),
                Some((kind, space)),
                "{name}"
            );
        };
        let arrive = MbarrierKind::Arrive {
            expect_tx: false,
            no_complete: false,
            drop: false,
        };
        check(
            "mbarrier.init.shared::cta.b64",
            MbarrierKind::Init,
            MbarrierSpace::Cta,
        );
        check(
            "mbarrier.inval.shared.b64",
            MbarrierKind::Inval,
            MbarrierSpace::Cta,
        );
        check("mbarrier.arrive.b64", arrive, MbarrierSpace::Generic);
        check(
            "mbarrier.arrive.release.cluster.shared::cluster.b64",
            arrive,
            MbarrierSpace::Cluster,
        );
        check(
            "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64",
            MbarrierKind::Arrive {
                expect_tx: true,
                no_complete: false,
                drop: false,
            },
            MbarrierSpace::Cta,
        );
        check(
            "mbarrier.arrive_drop.noComplete.shared.b64",
            MbarrierKind::Arrive {
                expect_tx: false,
                no_complete: true,
                drop: true,
            },
            MbarrierSpace::Cta,
        );
        check(
            "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64",
            MbarrierKind::Wait {
                blocking: true,
                parity: true,
            },
            MbarrierSpace::Cta,
        );
        check(
            "mbarrier.test_wait.shared.b64",
            MbarrierKind::Wait {
                blocking: false,
                parity: false,
            },
            MbarrierSpace::Cta,
        );
        check(
            "mbarrier.complete_tx.shared.b64",
            MbarrierKind::CompleteTx,
            MbarrierSpace::Cta,
        );
        check(
            "mbarrier.expect_tx.relaxed.cta.shared.b64",
            MbarrierKind::ExpectTx,
            MbarrierSpace::Cta,
        );
        check(
            "mbarrier.pending_count.b64",
            MbarrierKind::PendingCount,
            MbarrierSpace::Generic,
        );
        for bad in [
            "mbarrier",
            "mbarrier.arrive.shared",
            "mbarrier.init.parity.b64",
            "mbarrier.frob.b64",
            "mbarrier.arrive.global.b64",
        ] {
            assert_eq!(MbarrierOp::parse(&words(bad)), None, "{bad}");
        }
    }

    #[test]
    fn copies_of_the_older_kind_are_read() {
        let check = |name, expected| assert_eq!(CpAsyncOp::parse(&words(name)), expected, "{name}");
        check(
            "cp.async.cg.shared.global",
            Some(CpAsyncOp::Copy {
                cache_hint: false,
                cg: true,
            }),
        );
        check(
            "cp.async.cg.shared.global.L2::128B",
            Some(CpAsyncOp::Copy {
                cache_hint: false,
                cg: true,
            }),
        );
        check(
            "cp.async.ca.shared::cta.global.L2::cache_hint.L2::64B",
            Some(CpAsyncOp::Copy {
                cache_hint: true,
                cg: false,
            }),
        );
        check("cp.async.commit_group", Some(CpAsyncOp::CommitGroup));
        check("cp.async.wait_group", Some(CpAsyncOp::WaitGroup));
        check("cp.async.wait_all", Some(CpAsyncOp::WaitAll));
        check(
            "cp.async.mbarrier.arrive.noinc.shared.b64",
            Some(CpAsyncOp::MbarrierArrive {
                noinc: true,
                space: MbarrierSpace::Cta,
            }),
        );
        check(
            "cp.async.mbarrier.arrive.b64",
            Some(CpAsyncOp::MbarrierArrive {
                noinc: false,
                space: MbarrierSpace::Generic,
            }),
        );
        check("cp.async.cg.shared.global.L1::128B", None);
        check("cp.async.cg.global.shared", None);
        check("cp.async.bulk.commit_group", None);
    }

    #[test]
    fn instructions_of_the_tma_unit_are_read() {
        let read = |name: &str| match TmaOp::parse(&words(name)) {
            Some(TmaOp::Copy(copy)) => copy,
            other => panic!("{name}: {other:?}"),
        };
        let c = read(
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint",
        );
        assert_eq!(
            (c.rank, c.direction, c.completion, c.multicast, c.cache_hint),
            (Some(2), Direction::Load, Completion::Mbarrier, true, true)
        );
        let c = read("cp.async.bulk.tensor.5d.shared::cta.global.mbarrier::complete_tx::bytes");
        assert_eq!(
            (c.rank, c.direction, c.multicast),
            (Some(5), Direction::Load, false)
        );
        let c = read("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group");
        assert_eq!(
            (c.rank, c.direction, c.completion, c.reduce),
            (Some(3), Direction::Store, Completion::BulkGroup, None)
        );
        let c = read("cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group");
        assert_eq!(c.reduce, Some((ReduceOp::Add, None)));
        let c = read("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes");
        assert_eq!((c.rank, c.direction), (None, Direction::Load));
        let c = read("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes");
        assert_eq!((c.rank, c.direction), (None, Direction::ToCluster));
        let c = read("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.cp_mask");
        assert_eq!((c.byte_mask, c.cache_hint), (true, true));
        let c = read("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16");
        assert_eq!(c.reduce, Some((ReduceOp::Add, Some(Element::Bf16))));
        assert_eq!(
            read("cp.async.bulk.prefetch.tensor.2d.L2.global.tile").direction,
            Direction::Prefetch
        );
        assert_eq!(read("cp.async.bulk.prefetch.L2.global").rank, None);
        assert_eq!(
            TmaOp::parse(&words("cp.async.bulk.commit_group")),
            Some(TmaOp::CommitGroup)
        );
        assert_eq!(
            TmaOp::parse(&words("cp.async.bulk.wait_group.read")),
            Some(TmaOp::WaitGroup { read: true })
        );
        for bad in [
            "cp.async.bulk.tensor.2d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes",
            "cp.async.bulk.tensor.6d.global.shared::cta.bulk_group",
            "cp.async.bulk.tensor.2d.global.shared::cta",
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.max.f32",
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.u32",
            "cp.async.ca.shared.global",
        ] {
            assert_eq!(TmaOp::parse(&words(bad)), None, "{bad}");
        }
    }
}
