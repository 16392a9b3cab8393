//! A bucket: the lengths, offsets and scalars for which one compiled rule and one mask must hold.

use std::ops::RangeInclusive;

/// How `q_len` and `kv_len` relate in every member of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `q_len == kv_len`.
    Equal,
    /// `q_len <= kv_len`.
    AtMost,
    /// Any two lengths of the ranges.
    Free,
}

/// The lengths and query offsets for which something holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Query rows of a call.
    pub q_len: RangeInclusive<u64>,
    /// Keys of a call.
    pub kv_len: RangeInclusive<u64>,
    /// How the two relate.
    pub relation: Relation,
    /// Absolute position of the first query row.
    pub q_offset: RangeInclusive<i64>,
}
