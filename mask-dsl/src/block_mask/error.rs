//! Why a block mask could not be made, combined, read, or used for a call.

use std::fmt;

use super::flashmask::FlashMaskKind;
use super::{BlockClass, Geometry};
use crate::bucket::{Bucket, BucketError};

/// The shape of a call that a mask was to be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallShape {
    /// Batch entries.
    pub batch: u32,
    /// Query heads.
    pub heads: u32,
    /// Query rows.
    pub q_len: u64,
    /// Keys.
    pub kv_len: u64,
    /// Absolute position of the first query row.
    pub q_offset: i64,
}

impl fmt::Display for CallShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "[B={}, H={}, q={}, kv={}",
            self.batch, self.heads, self.q_len, self.kv_len
        )?;
        if self.q_offset != 0 {
            write!(f, ", offset={}", self.q_offset)?;
        }
        f.write_str("]")
    }
}

/// A block whose claimed class the cells do not bear out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongBlock {
    /// Batch entry.
    pub b: u32,
    /// Head.
    pub h: u32,
    /// Block row.
    pub row: u32,
    /// Block column.
    pub col: u32,
    /// What the lists say.
    pub claimed: BlockClass,
    /// What the cells say.
    pub actual: BlockClass,
    /// Query and key, in absolute positions, of a cell that contradicts the claim.
    pub witness: (i64, i64),
}

impl fmt::Display for WrongBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { b, h, row, col, .. } = self;
        write!(
            f,
            "block ({row}, {col}) of batch {b}, head {h} is claimed {} but is {}, see cell ({}, {})",
            self.claimed.name(),
            self.actual.name(),
            self.witness.0,
            self.witness.1
        )
    }
}

/// Why a block mask could not be made, combined, read, or used for a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlockMaskError {
    /// A block without rows or columns.
    #[error("a block has at least 1 row and 1 column, found {q}x{kv}")]
    ZeroBlock {
        /// Rows asked for.
        q: u32,
        /// Columns asked for.
        kv: u32,
    },
    /// A mask without batch entries or heads.
    #[error("a mask has at least 1 batch entry and 1 head, found batch {batch} and {heads} heads")]
    ZeroAxis {
        /// Batch entries asked for.
        batch: u32,
        /// Heads asked for.
        heads: u32,
    },
    /// The bucket has no member.
    #[error("the bucket of the mask holds no call")]
    Bucket(#[from] BucketError),
    /// An axis would have more blocks than a run can count.
    #[error("the {axis} axis of length {len} in blocks of {block} has more than 2147483647 blocks")]
    TooManyBlocks {
        /// Which axis.
        axis: &'static str,
        /// Its length.
        len: u64,
        /// Its block size.
        block: u32,
    },
    /// A position would leave its type.
    #[error("positions on the {axis} axis from {offset} over a length of {len} overflow")]
    CoordinateOverflow {
        /// Which axis.
        axis: &'static str,
        /// Where it starts.
        offset: i64,
        /// Its length.
        len: u64,
    },
    /// A stored axis is neither 1 nor the logical axis.
    #[error("the stored {axis} axis is 1 or {logical} long, found {stored}")]
    StoredAxis {
        /// Which axis.
        axis: &'static str,
        /// Entries to be stored.
        stored: u32,
        /// Entries of the mask.
        logical: u32,
    },
    /// The number of planes is not that of the stored axes.
    #[error("expected {expected} planes, found {found}")]
    PlaneCount {
        /// Product of the stored axes.
        expected: u64,
        /// Planes given.
        found: u64,
    },
    /// A plane has other rows or columns than the geometry.
    #[error("plane {index} has {found:?} block rows and columns, expected {expected:?}")]
    PlaneShape {
        /// Which plane.
        index: usize,
        /// Rows and columns of the geometry.
        expected: (u32, u32),
        /// Rows and columns of the plane.
        found: (u32, u32),
    },
    /// Two masks do not lie on one another.
    #[error("the masks do not match: {left} against {right}")]
    Geometry {
        /// Shape of the first mask.
        left: Box<Geometry>,
        /// Shape of the second mask.
        right: Box<Geometry>,
    },
    /// The choice of masks is not one per head.
    #[error("expected a choice for each of {expected} heads, found {found}")]
    HeadChoice {
        /// Heads of the masks.
        expected: u32,
        /// Choices given.
        found: usize,
    },
    /// The mask does not hold for a call.
    #[error("a mask built for {built} cannot serve a call of {call}")]
    Call {
        /// Shape of the mask.
        built: Box<Geometry>,
        /// Shape of the call.
        call: Box<CallShape>,
    },
    /// A slice reaches beyond the axis, or holds nothing where something is needed.
    #[error("the slice {start}..{end} does not lie within the {axis} axis of length {len}")]
    SliceRange {
        /// Which axis.
        axis: &'static str,
        /// First index.
        start: u64,
        /// Index after the last.
        end: u64,
        /// Length of the axis.
        len: u64,
    },
    /// Cells are asked for, but the mask is for several lengths or offsets.
    #[error("{operation} needs a mask for one call, found a bucket of several: {bucket}")]
    SeveralCalls {
        /// What was to be done.
        operation: &'static str,
        /// The bucket of the mask.
        bucket: Box<Bucket>,
    },
    /// A longer mask is not a continuation of the shorter one.
    #[error(
        "block ({row}, {col}) of batch {b}, head {h} is {short} in the mask, but its cells are {long} in the longer one"
    )]
    Continuation {
        /// Batch entry.
        b: u32,
        /// Head.
        h: u32,
        /// Block row.
        row: u32,
        /// Block column.
        col: u32,
        /// Class in the shorter mask.
        short: &'static str,
        /// Class in the longer mask.
        long: &'static str,
    },
    /// A tensor has a shape that the geometry does not allow.
    #[error("{tensor}: expected shape {expected}, found {found:?}")]
    TensorShape {
        /// Which tensor.
        tensor: &'static str,
        /// Shape that would fit.
        expected: String,
        /// Shape given.
        found: Vec<usize>,
    },
    /// A tensor holds another number of elements than its shape says.
    #[error("{tensor}: shape {shape:?} does not have {len} elements")]
    TensorData {
        /// Which tensor.
        tensor: &'static str,
        /// Shape given.
        shape: Vec<usize>,
        /// Elements given.
        len: usize,
    },
    /// One of a pair of tensors is missing.
    #[error("{present} is given without {missing}")]
    TensorMissing {
        /// The tensor that is there.
        present: &'static str,
        /// The tensor that it needs.
        missing: &'static str,
    },
    /// A count is negative or larger than the list that it counts.
    #[error("{tensor}{position:?} is {count}, expected 0..={size}")]
    TensorCount {
        /// Which tensor.
        tensor: &'static str,
        /// Where in it.
        position: [usize; 3],
        /// The count.
        count: i32,
        /// Entries of a list.
        size: usize,
    },
    /// A listed block does not exist.
    #[error("{tensor}{position:?} is {index}, expected a block below {blocks}")]
    TensorIndex {
        /// Which tensor.
        tensor: &'static str,
        /// Where in it.
        position: [usize; 4],
        /// The block listed.
        index: i32,
        /// Blocks of the axis.
        blocks: u32,
    },
    /// A block is listed twice in one list.
    #[error("{tensor}{position:?} lists block {index} a second time")]
    TensorDuplicate {
        /// Which tensor.
        tensor: &'static str,
        /// Where the second one is.
        position: [usize; 4],
        /// The block listed.
        index: i32,
    },
    /// A block is listed both as full and as partial.
    #[error("{full} and {partial} both list block {index} in row {position:?}")]
    TensorBoth {
        /// Tensor of full blocks.
        full: &'static str,
        /// Tensor of partial blocks.
        partial: &'static str,
        /// Batch entry, head and row.
        position: [usize; 3],
        /// The block listed.
        index: i32,
    },
    /// The transposed tensors describe another mask.
    #[error(
        "{tensor}[{b}, {h}, {col}] makes block ({row}, {col}) {q_side}, but the kv tensors make it {kv_side}"
    )]
    TensorSides {
        /// The transposed tensor.
        tensor: &'static str,
        /// Batch entry.
        b: u32,
        /// Head.
        h: u32,
        /// Block row.
        row: u32,
        /// Block column.
        col: u32,
        /// Class by the transposed tensors.
        q_side: &'static str,
        /// Class by the others.
        kv_side: &'static str,
    },
    /// What was asked for has more elements than can be held.
    #[error("{what} would have {elements} elements, more than fit in memory")]
    TooLarge {
        /// What was asked for.
        what: &'static str,
        /// Its elements.
        elements: u128,
    },
    /// A dense mask has another number of cells than the geometry.
    #[error(
        "a dense mask of shape [{batch}, {heads}, {q_len}, {kv_len}] does not have {found} cells"
    )]
    DenseLen {
        /// Batch entries.
        batch: u32,
        /// Heads.
        heads: u32,
        /// Query rows.
        q_len: u64,
        /// Keys.
        kv_len: u64,
        /// Cells given.
        found: usize,
    },
    /// A key column needs more masked intervals than the form can say.
    #[error(
        "key column {column} of batch {b}, head {h} does not fit the {kind} form of FlashMask: its masked rows are {found}"
    )]
    FlashMaskColumn {
        /// The form asked for.
        kind: FlashMaskKind,
        /// Batch entry.
        b: u32,
        /// Head.
        h: u32,
        /// Key column.
        column: u64,
        /// The first masked intervals of the column.
        found: String,
    },
    /// `FlashMask` columns hold another number of bounds than their shape says.
    #[error(
        "expected {expected} FlashMask bounds for shape [{batch}, {heads}, {kv_len}, {bounds}], found {found}"
    )]
    FlashMaskLen {
        /// Product of the shape.
        expected: u128,
        /// Batch entries.
        batch: u32,
        /// Heads.
        heads: u32,
        /// Keys.
        kv_len: u64,
        /// Bounds per key.
        bounds: usize,
        /// Bounds given.
        found: usize,
    },
    /// A `FlashMask` bound lies outside the rows, or an interval ends before it starts.
    #[error(
        "FlashMask bound {bound} of batch {b}, head {h}, key column {column} is {value}, expected {low}..={high}"
    )]
    FlashMaskBound {
        /// Which bound of the column: LTS, LTE, UTS or UTE.
        bound: &'static str,
        /// Batch entry.
        b: u32,
        /// Head.
        h: u32,
        /// Key column.
        column: u64,
        /// The bound.
        value: i32,
        /// Least value that fits.
        low: i64,
        /// Largest value that fits.
        high: u64,
    },
    /// The bytes do not begin as a block mask file does.
    #[error("not a block mask file: expected it to begin with MWBMASK, found {found:?}")]
    FileMagic {
        /// The first bytes.
        found: Vec<u8>,
    },
    /// The file is of a version that is not understood.
    #[error("block mask file of version {found}, expected {expected}")]
    FileVersion {
        /// Version understood.
        expected: u32,
        /// Version of the file.
        found: u32,
    },
    /// The file ends early, or has bytes after its end.
    #[error("block mask file of {found} bytes, expected {expected}")]
    FileLength {
        /// Bytes that its header promises, at least.
        expected: u64,
        /// Bytes there are.
        found: u64,
    },
    /// The bytes are not those that were written.
    #[error("the checksum of the block mask file does not match its contents")]
    FileChecksum,
    /// A field holds what no mask has.
    #[error("block mask file: {field} is {found}, expected {expected}")]
    FileField {
        /// Which field.
        field: &'static str,
        /// What it holds.
        found: u64,
        /// What it may hold.
        expected: &'static str,
    },
    /// The runs of a plane in a file are out of order, overlap or leave the columns.
    #[error("block mask file: the runs of plane {plane} are not in canonical form")]
    FilePlane {
        /// Which plane.
        plane: u32,
    },
    /// Lists for another number of rows than the geometry has.
    #[error(
        "expected {expected} rows of lists for shape [{batch}, {heads}, {rows}], found {found}"
    )]
    ListRows {
        /// Product of the shape.
        expected: u128,
        /// Batch entries of the lists.
        batch: u32,
        /// Heads of the lists.
        heads: u32,
        /// Block rows of the geometry.
        rows: u32,
        /// Rows given.
        found: usize,
    },
    /// A listed block does not exist.
    #[error("row {row} of batch {b}, head {h} lists block {index}, expected a block below {cols}")]
    ListIndex {
        /// Batch entry.
        b: u32,
        /// Head.
        h: u32,
        /// Block row.
        row: u32,
        /// The block listed.
        index: u32,
        /// Block columns.
        cols: u32,
    },
    /// A block is listed twice, as the same class or as both.
    #[error(
        "row {row} of batch {b}, head {h} lists block {index} twice, as {first} and as {second}"
    )]
    ListTwice {
        /// Batch entry.
        b: u32,
        /// Head.
        h: u32,
        /// Block row.
        row: u32,
        /// The block listed.
        index: u32,
        /// Class of one list.
        first: &'static str,
        /// Class of the other.
        second: &'static str,
    },
    /// Lists claim a rule that the cells do not follow.
    #[error(
        "{total} of the claimed blocks are wrong, the first: {}",
        claims(wrong)
    )]
    Claim {
        /// The first wrong blocks.
        wrong: Vec<WrongBlock>,
        /// How many there are.
        total: u64,
    },
}

fn claims(wrong: &[WrongBlock]) -> String {
    let lines: Vec<String> = wrong.iter().map(WrongBlock::to_string).collect();
    lines.join("; ")
}
