//! A rectangle of cells of one plane.

/// Cells `q.0..=q.1` × `kv.0..=kv.1` in absolute positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// First and last query position.
    pub(crate) q: (i64, i64),
    /// First and last key position.
    pub(crate) kv: (i64, i64),
    /// Least number of query positions of any mask block that "surely" speaks of; all of them for a single block.
    pub(crate) block_q: i64,
    /// Least number of keys of any such block.
    pub(crate) block_kv: i64,
    /// Whether the region is one block, so that what its cells attain is attained by each of its blocks. False also
    /// where cells of the region may not exist in every member of a bucket.
    pub(crate) single: bool,
}
