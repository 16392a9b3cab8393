//! Decoded instructions: dense, with every operand an index.

use crate::alu::compare::{Kind, Property, Relation};
use crate::alu::convert::Conversion;
use crate::alu::float32::Float32;
use crate::alu::float64::Float64;
use crate::alu::half::FloatInst;
use crate::alu::int32::Int32;
use crate::alu::int64::{Int64, Narrow, Shift64, Wide};
use crate::ast::Space;
use crate::async_copy::spelling::{MbarrierKind, TmaCopy};
use crate::tensor_core::descriptor::Major;
use crate::tensor_core::matrix::MatrixOp;
use crate::tensor_core::mma::MmaOp;
use crate::tensor_core::wgmma::WgmmaOp;

/// A register of the 32-bit file, which also holds 8-bit and 16-bit values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct R(pub(crate) u32);

/// A register of the 64-bit file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct D(pub(crate) u32);

/// A predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct P(pub(crate) u32);

/// The predicate that always holds.
pub(crate) const TRUE: P = P(0);
/// The predicate that never holds.
pub(crate) const FALSE: P = P(1);
/// Where results go that nobody wants.
pub(crate) const SINK: P = P(2);
/// The carry flag of `add.cc` and the like.
pub(crate) const CARRY: P = P(3);
/// The first predicate that a program may use.
pub(crate) const FIRST_PREDICATE: u32 = 4;

/// A register of either file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    Narrow(R),
    Wide(D),
    /// A destination that is not wanted.
    Sink,
}

/// An instruction with its guard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) inst: Inst,
    pub(crate) guard: P,
    /// All ones where the guard is negated.
    pub(crate) negate: u32,
}

/// How two predicates combine, or what one becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PredicateOp {
    Mov,
    And,
    Or,
    Xor,
    Not,
}

/// What a comparison's result is combined with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Combine {
    pub(crate) op: PredicateOp,
    pub(crate) with: P,
    pub(crate) negate: bool,
}

/// A comparison, and where its result and its negation go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compare<T> {
    pub(crate) kind: Kind,
    pub(crate) relation: Relation,
    pub(crate) to: P,
    /// The negated result; for packed halves the result of the upper ones, compared as `high` says.
    pub(crate) to_other: P,
    pub(crate) high: Option<Kind>,
    pub(crate) a: T,
    pub(crate) b: T,
    pub(crate) combine: Combine,
}

/// Which registers `add.cc` and the like work on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CarryOperands {
    Narrow(R, R, R),
    Wide(D, D, D),
}

/// What an add or a subtraction with carry does with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carry {
    pub(crate) subtract: bool,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    pub(crate) operands: CarryOperands,
}

/// An address: a register, or none for a constant, and an offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub(crate) base: Slot,
    pub(crate) offset: i64,
}

/// A load or a store.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) space: Space,
    /// Bytes of an element.
    pub(crate) size: u32,
    /// Whether loads extend by the sign.
    pub(crate) signed: bool,
    /// `.volatile`, `.relaxed`, `.acquire`, `.release`: may meet others without a race.
    pub(crate) strong: bool,
    pub(crate) address: Address,
    pub(crate) registers: Vec<Slot>,
}

/// What an atomic does with what it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomicOp {
    And,
    Or,
    Xor,
    Exch,
    Cas,
    Add,
    Inc,
    Dec,
    MinU,
    MaxU,
    MinS,
    MaxS,
    FAdd,
    FMin,
    FMax,
}

/// How an atomic's bits are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomicType {
    Bits,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    F32,
    F64,
}

/// `atom`, `red`.
#[derive(Clone, Debug)]
pub(crate) struct Atomic {
    pub(crate) op: AtomicOp,
    pub(crate) ty: AtomicType,
    pub(crate) space: Space,
    pub(crate) size: u32,
    pub(crate) address: Address,
    pub(crate) to: Vec<Slot>,
    pub(crate) operand: Vec<Slot>,
    /// The new value of `cas`.
    pub(crate) swap: Slot,
}

/// How `shfl` picks its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShuffleMode {
    Up,
    Down,
    Bfly,
    Idx,
}

/// `shfl.sync`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shuffle {
    pub(crate) mode: ShuffleMode,
    pub(crate) to: R,
    pub(crate) in_range: P,
    pub(crate) a: R,
    pub(crate) b: R,
    pub(crate) c: R,
    pub(crate) members: R,
}

/// What `vote.sync` computes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Vote {
    All(P),
    Any(P),
    Uniform(P),
    Ballot(R),
}

/// What `redux.sync` computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Redux {
    Add,
    MinU,
    MaxU,
    MinS,
    MaxS,
    And,
    Or,
    Xor,
    /// `f32`, with `.abs` and `.NaN`
    FMin {
        abs: bool,
        nan: bool,
    },
    FMax {
        abs: bool,
        nan: bool,
    },
}

/// What a `bar` or `barrier.cta` does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BarrierOp {
    Sync,
    Arrive,
    Popc(R, P, bool),
    And(P, P, bool),
    Or(P, P, bool),
}

/// `bar`, `barrier.cta`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Barrier {
    pub(crate) op: BarrierOp,
    pub(crate) id: R,
    pub(crate) count: Option<R>,
    /// All live lanes of a warp must arrive together.
    pub(crate) aligned: bool,
}

/// `match.sync`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Match {
    pub(crate) to: R,
    /// Set for `.all`: whether all are equal.
    pub(crate) all: Option<P>,
    pub(crate) value: Slot,
    pub(crate) members: R,
}

/// `mma.sync`.
#[derive(Clone, Debug)]
pub(crate) struct Mma {
    pub(crate) op: MmaOp,
    pub(crate) a: Vec<R>,
    pub(crate) b: Vec<R>,
    pub(crate) c: Vec<R>,
    pub(crate) d: Vec<R>,
}

/// `ldmatrix`, `stmatrix`.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    pub(crate) op: MatrixOp,
    pub(crate) store: bool,
    pub(crate) space: Space,
    pub(crate) address: Address,
    pub(crate) registers: Vec<R>,
}

/// Where the multiplicand A of `wgmma` is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WgmmaA {
    Descriptor(D),
    Registers([R; 4]),
}

/// `wgmma.mma_async`.
#[derive(Clone, Debug)]
pub(crate) struct Wgmma {
    pub(crate) op: WgmmaOp,
    pub(crate) d: Vec<R>,
    pub(crate) a: WgmmaA,
    pub(crate) b: D,
    /// Where it holds, or does not if negated, D is added to.
    pub(crate) accumulate: (P, bool),
    pub(crate) negate_a: bool,
    pub(crate) negate_b: bool,
    pub(crate) a_major: Major,
    pub(crate) b_major: Major,
}

/// `cp.async.ca`, `cp.async.cg`.
#[derive(Clone, Debug)]
pub(crate) struct CopyAsync {
    pub(crate) size: u32,
    pub(crate) to: Address,
    pub(crate) from: Address,
    /// How many bytes are read; the rest are zeros.
    pub(crate) source_size: Option<R>,
    /// Where it holds, nothing is read.
    pub(crate) ignore: Option<(P, bool)>,
}

/// An instruction of the `mbarrier` family.
#[derive(Clone, Debug)]
pub(crate) struct Mbarrier {
    pub(crate) kind: MbarrierKind,
    /// It orders no memory.
    pub(crate) relaxed: bool,
    pub(crate) space: Space,
    /// Where the `mbarrier` is; `pending_count` has none.
    pub(crate) address: Option<Address>,
    /// Where the state goes, or the count of `pending_count`.
    pub(crate) to: Slot,
    /// Where the answer of a wait goes.
    pub(crate) done: P,
    /// A count of arrivals or bytes, a state or a parity.
    pub(crate) value: Option<Slot>,
}

/// `cp.async.mbarrier.arrive`.
#[derive(Clone, Debug)]
pub(crate) struct CopyArrive {
    pub(crate) noinc: bool,
    pub(crate) space: Space,
    pub(crate) address: Address,
}

/// A copy of the TMA unit.
#[derive(Clone, Debug)]
pub(crate) struct Bulk {
    pub(crate) copy: TmaCopy,
    /// Destination; the tensor map where that is a tensor.
    pub(crate) to: (Space, Address),
    /// Source; the tensor map where that is a tensor.
    pub(crate) from: (Space, Address),
    /// Coordinates in the tensor; none for plain bytes.
    pub(crate) coordinates: Vec<R>,
    /// Number of plain bytes.
    pub(crate) size: Option<R>,
    pub(crate) mbarrier: Option<(Space, Address)>,
    /// Blocks of the cluster that a multicast goes to, or bytes of each 16 that are written.
    pub(crate) mask: Option<R>,
}

/// A clock that a `mov` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockPart {
    Low,
    High,
}

/// What an instruction does. Larger operands stand in tables of the kernel, by index.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Inst {
    Nop,
    Int32(Int32, R, R, R, R),
    Int64(Int64, D, D, D, D),
    Wide(Wide, D, R, R, D),
    Shift64(Shift64, D, D, R, R),
    Narrow(Narrow, R, D),
    Float32(Float32, R, R, R, R),
    Float64(Float64, D, D, D, D),
    /// Index into `floats`.
    FloatFull(u32, R, R, R, R),
    FloatFull64(u32, D, D, D, D),
    /// Index into `conversions`.
    Convert(u32, Slot, Slot),
    /// Two floats to a pair of narrower ones: an index into `conversions` for each half, which is 8 bits wide if the flag is set.
    ConvertPair(u32, R, R, R, bool),
    /// A pair of 8-bit floats to a pair of 16-bit ones, or back; index into `pairs`.
    ConvertFp8(u32, R, R),
    Lop3(u8, R, R, R, R),
    Bfi32(R, R, R, R, R),
    Bfi64(D, D, D, R, R),
    Slct64(D, D, D, R),
    Carry(u32),
    Select32(R, R, R, P),
    Select64(D, D, D, P),
    /// Index into `compares32`.
    Compare32(u32),
    Compare64(u32),
    Test32(Property, P, R),
    Test64(Property, P, D),
    /// Destination, operands and whether they are negated, as bits.
    Predicate(PredicateOp, P, P, P, u8),
    /// A register from a predicate: the value where it holds, 0 elsewhere.
    FromPredicate(u32, R, P),
    Clock32(ClockPart, R),
    Clock64(D),
    /// Index into `accesses`.
    Load(u32),
    Store(u32),
    Atomic(u32),
    /// Copies bytes of local memory: to, from, length. Parameters and results of calls.
    CopyLocal(u32, u32, u32),
    /// Generic address to a space, and back.
    ToSpace(Space, D, D),
    ToGeneric(Space, D, D),
    IsSpace(Space, P, D),
    /// The same place in the shared memory of the block of a rank: `mapa`.
    Mapa32(R, R, R),
    Mapa64(D, D, R),
    /// The rank of the block that a shared address belongs to: `getctarank`.
    BlockRank(R, Slot),
    Branch(u32),
    /// Index into `jumps`, and the register that picks.
    BranchIndexed(u32, R),
    Call(u32),
    CallIndirect(D),
    Return,
    Exit,
    Trap,
    ActiveMask(R),
    /// Index into `shuffles`.
    Shuffle(u32),
    Vote(Vote, P, bool, R),
    Match(u32),
    Redux(Redux, R, R, R),
    Elect(R, P, R),
    WarpSync(R),
    Barrier(u32),
    Mma(u32),
    Matrix(u32),
    MovMatrix(R, R),
    CopyAsync(u32),
    /// Index into `wgmmas`.
    Wgmma(u32),
    WgmmaFence,
    WgmmaCommit,
    WgmmaWait(u32),
    CommitGroup,
    /// All but so many of the newest groups; `u32::MAX` in `wait_all` waits for those not committed too.
    WaitGroup(u32),
    WaitAll,
    /// Index into `copy_arrivals`.
    CopyArrive(u32),
    /// Index into `mbarriers`.
    Mbarrier(u32),
    /// Index into `bulks`.
    Bulk(u32),
    BulkCommit,
    /// All but so many of the newest groups have ended, or have at least been read.
    BulkWait(u32, bool),
    /// `setmaxnreg`, whose number was checked when it was decoded.
    SetMaxRegisters,
    FenceProxyAsync,
    ClusterArrive,
    ClusterWait,
}

/// The narrow floats of `cvt` with packed operands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fp8Pair {
    pub(crate) from: crate::tensor_core::format::Format,
    pub(crate) to: crate::tensor_core::format::Format,
    pub(crate) relu: bool,
}

/// Operands that are too large for [`Inst`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    pub(crate) floats: Vec<FloatInst>,
    pub(crate) conversions: Vec<Conversion>,
    pub(crate) pairs: Vec<Fp8Pair>,
    pub(crate) carries: Vec<Carry>,
    pub(crate) compares32: Vec<Compare<R>>,
    pub(crate) compares64: Vec<Compare<D>>,
    pub(crate) accesses: Vec<Access>,
    pub(crate) atomics: Vec<Atomic>,
    pub(crate) jumps: Vec<Vec<u32>>,
    pub(crate) shuffles: Vec<Shuffle>,
    pub(crate) matches: Vec<Match>,
    pub(crate) barriers: Vec<Barrier>,
    pub(crate) mmas: Vec<Mma>,
    pub(crate) matrices: Vec<Matrix>,
    pub(crate) wgmmas: Vec<Wgmma>,
    pub(crate) copies: Vec<CopyAsync>,
    pub(crate) copy_arrivals: Vec<CopyArrive>,
    pub(crate) mbarriers: Vec<Mbarrier>,
    pub(crate) bulks: Vec<Bulk>,
}
