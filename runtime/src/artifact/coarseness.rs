//! How much coarser the mask of a bucket is than the exact mask of one of its calls.

use std::fmt;

use maskwright_dsl::bind::BoundRule;
use maskwright_dsl::block_mask::{BlockClass, BlockMask, BlockMaskError};
use maskwright_dsl::bucket::{Bucket, Member};
use maskwright_dsl::pipeline::{Scope, prepare};

/// Blocks that a bucket's mask calls partial, though one call empties or fills them.
///
/// A rule that reads the lengths may do so: the runtime can build the mask of the call instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coarseness {
    /// The call.
    pub member: Member,
    /// Rows and columns of a block.
    pub block: maskwright_dsl::block_mask::BlockSize,
    /// Blocks of the call, over all batch entries and heads.
    pub blocks: u64,
    /// Blocks that the bucket's mask calls partial.
    pub partial: u64,
    /// Of these, blocks that are full or empty in the call.
    pub decided: u64,
}

impl Coarseness {
    /// Blocks that are partial needlessly, in percent of all blocks of the call.
    pub fn percent(&self) -> f64 {
        if self.blocks == 0 {
            return 0.0;
        }
        100.0 * self.decided as f64 / self.blocks as f64
    }
}

impl fmt::Display for Coarseness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            member,
            block,
            blocks,
            partial,
            decided,
        } = self;
        write!(
            f,
            "at q={} kv={} offset {}, blocks of {block}: {decided} of {partial} partial blocks are full or empty in this call ({:.1} % of its {blocks} blocks)",
            member.q_len,
            member.kv_len,
            member.q_offset,
            self.percent()
        )
    }
}

/// Compares the mask of a bucket with the exact masks at the ends of the bucket; nothing if the mask is exact.
///
/// # Errors
/// [`BlockMaskError`] if a mask cannot be built.
pub(super) fn coarseness(
    bound: &BoundRule,
    scope: &Scope,
    mask: &BlockMask,
) -> Result<Vec<Coarseness>, BlockMaskError> {
    if mask.is_exact() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for member in mask.bucket().ends() {
        let single = Scope {
            bucket: Bucket::single(member.q_len, member.kv_len, member.q_offset),
            ..scope.clone()
        };
        // What is proved for the bucket is proved for each of its calls.
        let Ok(prepared) = prepare(bound, &single) else {
            continue;
        };
        let (exact, _) = BlockMask::build(&prepared, mask.block())?;
        let mut coarse = Coarseness {
            member,
            block: mask.block(),
            blocks: 0,
            partial: 0,
            decided: 0,
        };
        for b in 0..mask.batch() {
            for h in 0..mask.heads() {
                for row in 0..exact.rows() {
                    coarse.blocks += u64::from(exact.cols());
                    for run in mask.row(b, h, row).iter().filter(|run| !run.is_full()) {
                        for col in run.first()..run.end().min(exact.cols()) {
                            coarse.partial += 1;
                            coarse.decided +=
                                u64::from(exact.class(b, h, row, col) != BlockClass::Partial);
                        }
                    }
                }
            }
        }
        if 0 < coarse.decided {
            found.push(coarse);
        }
    }
    Ok(found)
}
