//! The figures of a verified mask, for those who compare them with other programs.

use maskwright_dsl::block_mask::BlockMask;
use serde::{Deserialize, Serialize};

/// What a verification found out about a mask along the way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VerifyReport {
    /// Cells of the largest call that attend, over all batch entries and heads; `None` if it was only sampled.
    pub allowed: Option<u64>,
    /// Rows of the largest call that see no key; `None` if it was only sampled.
    pub rows_without_any_key: Option<u64>,
    /// SHA-256 of the cells as `numpy.packbits` packs `[batch, heads, q_len, kv_len]`, in hexadecimal digits, if it was
    /// asked for.
    pub packbits_sha256: Option<String>,
    /// Classes, per block size.
    pub blocks: Vec<BlockReport>,
    /// Cells that were compared, over all calls.
    pub cells_checked: u64,
    /// Whether every cell of the largest call was compared.
    pub exhaustive: bool,
    /// How long the verification took.
    pub seconds: f64,
}

/// The classes of one block size, as `PyTorch` reports them: a block that reaches beyond the lengths is never full.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockReport {
    /// Rows of a block.
    pub q_block: u32,
    /// Keys of a block.
    pub kv_block: u32,
    /// Full blocks of all batch entries and heads.
    pub full: u64,
    /// Partial ones.
    pub partial: u64,
    /// Empty ones.
    pub empty: u64,
    /// SHA-256 of the classes, one byte each (0 empty, 1 partial, 2 full), as `[batch, heads, rows, cols]`.
    pub class_sha256: String,
}

impl BlockReport {
    /// Counts the classes of a mask.
    pub fn of(mask: &BlockMask) -> Self {
        let counts = mask.counts();
        let count = |n: u128| u64::try_from(n).unwrap_or(u64::MAX);
        Self {
            q_block: mask.block().q,
            kv_block: mask.block().kv,
            full: count(counts.full),
            partial: count(counts.partial),
            empty: count(counts.empty),
            class_sha256: hex(&mask.class_sha256()),
        }
    }
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).expect("a digit is below 16");
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(digit).collect()
}
