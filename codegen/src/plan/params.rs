//! The parameters of a kernel: one struct, whose fields say what the host writes into them.

/// A tensor of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tensor {
    /// Queries.
    Q,
    /// Keys.
    K,
    /// Values.
    V,
    /// The output.
    Out,
}

/// Which rule of the pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuleRole {
    /// The `mask_mod`.
    Mask,
    /// The `score_mod`.
    Score,
}

/// A part of a captured value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CapturePart {
    /// The value of a scalar.
    Value,
    /// The address of a buffer's element `[0, 0, …]`; of packed bits the address of their bytes.
    Address,
    /// Elements from one index to the next along an axis; bits, where bits are packed.
    Stride(usize),
    /// Elements along an axis.
    Extent(usize),
    /// Of packed bits, the bits from the address to the element `[0, 0, …]`.
    BitOffset,
}

/// What the host writes into a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParamValue {
    /// The address of a tensor's element `[0, 0, 0, 0]`.
    Address(Tensor),
    /// Elements from one index to the next along axis 0, 1 or 2 of a tensor (batch, head, length); the last is contiguous.
    Stride(Tensor, usize),
    /// The address of `f32 [batch, num_q_heads, q_len]`, or 0 where it is not wanted: the log-sum-exp.
    Lse,
    /// As [`ParamValue::Lse`]: the row maxima.
    RowMax,
    /// Query rows of the call.
    QLen,
    /// Keys of the call.
    KvLen,
    /// Batch entries of the call.
    Batch,
    /// Query heads of the call.
    NumQHeads,
    /// Query heads that share one key head.
    Group,
    /// The factor of the dot products.
    SmScale,
    /// Position of the first query row.
    QOffset,
    /// Position of the first key, as the rule sees it.
    KvOffset,
    /// What the rule sees as `b` of batch entry 0.
    BOffset,
    /// What the rule sees as `h` of head 0.
    HOffset,
    /// The key length that the rule reads (`kv_len` of the language), which is [`ParamValue::KvLen`] plus the offset.
    RuleKvLen,
    /// Address of the table `u32 [batch or 1, heads or 1]`: which plane of the block mask a head uses.
    PlaneOf,
    /// Elements of the table of planes from one batch entry to the next (0 where all use one).
    PlaneBatchStride,
    /// Elements of the table of planes from one head to the next (0 where all use one).
    PlaneHeadStride,
    /// Address of `u32 [planes, rows + 1]`: where the runs of a row of tiles begin.
    RowStart,
    /// Rows of a plane.
    MaskRows,
    /// Tiles of queries that share one row of the mask: the row of tile `i` is `i / this`.
    TilesPerRow,
    /// Address of the runs, `u32` pairs: the first tile of keys; and twice the number of tiles, plus 1 if all of them
    /// are full.
    Runs,
    /// A captured value.
    Capture(RuleRole, usize, CapturePart),
    /// A dimension name of a rule, by index.
    Dim(RuleRole, usize),
    /// Of an evaluator: the `b` of all its cells.
    EvalB,
    /// Of an evaluator: the `h` of all its cells.
    EvalH,
    /// Of an evaluator: the position of its first query.
    EvalQ,
    /// Of an evaluator: the position of its first key.
    EvalKv,
    /// Of an evaluator: how many queries it visits.
    EvalRows,
    /// Of an evaluator: how many keys it visits.
    EvalCols,
    /// Address of the result of an evaluator of masks, `u32 [rows, ceil(cols / 32)]`: key `32 * w + j` is bit `j` of word
    /// `w`, and what follows the last key is 0.
    EvalBits,
    /// Address of `f32 [rows, cols]`: the scores that an evaluator of a `score_mod` reads, and then overwrites.
    EvalScores,
}

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParamType {
    /// A 64-bit address, declared as a pointer to this C type.
    Pointer(&'static str),
    /// `long long`
    I64,
    /// `int`
    I32,
    /// `unsigned`
    U32,
    /// `float`
    F32,
    /// `int` that is 0 or 1
    Bool,
}

impl ParamType {
    /// Bytes, which is the alignment too.
    pub fn bytes(self) -> u32 {
        match self {
            ParamType::Pointer(_) | ParamType::I64 => 8,
            ParamType::I32 | ParamType::U32 | ParamType::F32 | ParamType::Bool => 4,
        }
    }
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name in the kernel.
    pub name: String,
    /// Its type.
    pub ty: ParamType,
    /// What the host writes.
    pub value: ParamValue,
    /// Bytes from the start of the struct.
    pub offset: u32,
}

/// The struct of all parameters, laid out as C does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParamLayout {
    params: Vec<Param>,
    end: u32,
}

impl ParamLayout {
    /// Adds a parameter behind the others, at its own alignment.
    pub fn push(&mut self, name: impl Into<String>, ty: ParamType, value: ParamValue) {
        let offset = self.end.next_multiple_of(ty.bytes());
        self.end = offset + ty.bytes();
        self.params.push(Param {
            name: name.into(),
            ty,
            value,
            offset,
        });
    }

    /// The parameters, in the order of their offsets.
    pub fn params(&self) -> &[Param] {
        &self.params
    }

    /// Bytes of the struct.
    pub fn size(&self) -> u32 {
        self.end.next_multiple_of(8)
    }
}
