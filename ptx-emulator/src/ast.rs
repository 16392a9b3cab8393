//! What a PTX file says: declarations and instructions, with names resolved and scopes flattened.

/// A place in the PTX text, and in the source that it was compiled from where `.loc` says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Location {
    /// Line of the PTX text, from 1.
    pub line: u32,
    /// Index into [`Module::files`] plus 1, or 0 where no `.loc` stands before the line or no `.file` has its number.
    pub file: u32,
    /// Line of that source, from 1.
    pub source_line: u32,
}

/// A whole PTX file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Module {
    /// `.version`, as major and minor.
    pub version: (u32, u32),
    /// `.target`, its first name: `sm_80`, `sm_90a`.
    pub target: String,
    /// Names given by `.file`, in order.
    pub files: Vec<String>,
    /// Variables of module scope, and those of functions that live in shared, global or constant memory.
    pub variables: Vec<Variable>,
    /// Kernels and device functions, in order. Prototypes without a body are left out when a body follows.
    pub functions: Vec<Function>,
}

/// A state space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Generic addresses: a window of each other space.
    Generic,
    /// `.global`
    Global,
    /// `.shared`, also `.shared::cta`
    Shared,
    /// `.shared::cluster`
    SharedCluster,
    /// `.local`
    Local,
    /// `.const`
    Const,
    /// `.param`, of a kernel or of a call
    Param,
}

/// A fundamental type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of the ISA")]
pub enum Type {
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    Tf32,
    F32,
    F64,
    E4m3,
    E5m2,
    E4m3x2,
    E5m2x2,
    Pred,
}

impl Type {
    /// Bytes that a value takes in memory; a predicate counts as 1, though it cannot be stored.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::B8 | Self::U8 | Self::S8 | Self::E4m3 | Self::E5m2 | Self::Pred => 1,
            Self::B16
            | Self::U16
            | Self::S16
            | Self::F16
            | Self::Bf16
            | Self::E4m3x2
            | Self::E5m2x2 => 2,
            Self::B32
            | Self::U32
            | Self::S32
            | Self::F32
            | Self::Tf32
            | Self::F16x2
            | Self::Bf16x2 => 4,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 => 8,
            Self::B128 => 16,
        }
    }
}

/// A variable in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// Name, unique in the module (a nested scope's name has a suffix `@` and a number).
    pub name: String,
    /// Where it lives: `Global`, `Shared`, `Local`, `Const` or `Param`.
    pub space: Space,
    /// Alignment in bytes.
    pub align: u64,
    /// Size in bytes; 0 for `extern .shared name[]`, which is the dynamic shared memory.
    pub size: u64,
    /// Initial bytes, where given (shorter than `size` means zeros after).
    pub init: Vec<u8>,
    /// Where it stands.
    pub location: Location,
}

/// A kernel (`.entry`) or a device function (`.func`).
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Name.
    pub name: String,
    /// Whether it is a kernel.
    pub is_entry: bool,
    /// Return values of a device function: `.param` or `.reg`.
    pub returns: Vec<Param>,
    /// Parameters, in order.
    pub params: Vec<Param>,
    /// `.maxntid`, `.reqntid`: threads per block along x, y and z, where given.
    pub max_threads: Option<[u32; 3]>,
    /// `.reqnctapercluster` or `.explicitcluster`, where given.
    pub cluster: Option<[u32; 3]>,
    /// The registers that are used, of all scopes, in order of appearance. The first are those of [`Function::returns`] and
    /// [`Function::params`] that are registers, in that order.
    pub registers: Vec<Register>,
    /// Variables of `.local` and `.param` space that the body declares.
    pub variables: Vec<Variable>,
    /// Instructions, in order; empty only where the function is declared and never defined.
    pub body: Vec<Instruction>,
    /// Where the head stands.
    pub location: Location,
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Name.
    pub name: String,
    /// Type of an element.
    pub ty: Type,
    /// Alignment in bytes.
    pub align: u64,
    /// Size in bytes.
    pub size: u64,
    /// Offset in the parameter space of the function, each parameter at its own alignment.
    pub offset: u64,
    /// Whether it was declared `.reg` (device functions only).
    pub is_register: bool,
}

/// A register: an index into [`Function::registers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegisterId(pub u32);

/// A declared register.
#[derive(Clone, Debug, PartialEq)]
pub struct Register {
    /// Its name, `%r12`; registers of nested scopes may share one.
    pub name: String,
    /// Its type.
    pub ty: Type,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// The guard `@p` or `@!p`: register, and whether it is negated.
    pub guard: Option<(RegisterId, bool)>,
    /// The first part of its name: `mma`, `cp`, `ld`.
    pub opcode: String,
    /// The rest, without dots, in order: `["async", "cg", "shared", "global", "L2::128B"]`.
    pub modifiers: Vec<String>,
    /// Operands, the destination first. A `call` has always the list of returns, the callee, the list of arguments, and
    /// then a prototype where the text names one.
    pub operands: Vec<Operand>,
    /// Where it stands.
    pub location: Location,
}

/// An operand.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A register.
    Register(RegisterId),
    /// A negated predicate, `!%p`.
    Not(RegisterId),
    /// `_`
    Sink,
    /// An integer literal, in two's complement.
    Integer(i128),
    /// `0f3F800000`, as bits.
    F32(u32),
    /// `0d3FF0000000000000` or a decimal literal, as bits.
    F64(u64),
    /// A special register, `%tid.x`, `%laneid`, `%globaltimer`, with its whole name.
    Special(String),
    /// The address of a variable or a parameter, or the name of a function.
    Symbol(String),
    /// `symbol+8`, where an instruction other than a memory access names it.
    SymbolOffset(String, i64),
    /// `[base+offset]`; for `cp.async.bulk.tensor` also `[base, {c0, c1}]`.
    Address {
        /// What it starts from.
        base: Box<Operand>,
        /// Bytes added.
        offset: i64,
        /// Coordinates of a tensor access; empty otherwise.
        coordinates: Vec<Operand>,
    },
    /// `{a, b, …}`
    Vector(Vec<Operand>),
    /// `(a, b, …)` of a `call`.
    List(Vec<Operand>),
    /// `a|b`: the two destinations of `setp`, `shfl` or `elect`.
    Pair(Box<Operand>, Box<Operand>),
    /// A label, as the index of the instruction that it stands before (it may be one past the last).
    Label(u32),
    /// The labels of `.branchtargets`, as named by `brx.idx`.
    Labels(Vec<u32>),
    /// A prototype named by an indirect call; nothing that it says matters to execution.
    Prototype(String),
}
