//! Masks made by hand from lists of blocks: the lists are the law, or they claim a rule and are checked.

use super::evaluator::CellScan;
use super::plane::segments;
use super::{
    Authority, BlockClass, BlockMask, BlockMaskError, Exactness, Geometry, MaskEvaluator, Plane,
    PlaneBuilder, WrongBlock,
};

/// The blocks of one block row; those in neither list are empty. Order does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListRow {
    /// Blocks where the rule decides.
    pub partial: Vec<u32>,
    /// Blocks whose cells are all allowed.
    pub full: Vec<u32>,
}

/// Lists of blocks, `[batch, heads, block rows]` in row-major order. Each of the first two is 1 or that of the mask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockLists {
    /// Batch entries that have lists of their own.
    pub batch: u32,
    /// Heads that have lists of their own.
    pub heads: u32,
    /// One entry per block row.
    pub rows: Vec<ListRow>,
}

/// What lists of blocks stand for.
#[derive(Clone, Copy)]
pub enum ListsMeaning<'a> {
    /// They are the law: the rule acts within partial blocks only.
    Law,
    /// They say what this rule does, and are checked against its cells.
    Claim(&'a dyn MaskEvaluator),
}

/// How many wrong blocks an error names.
const NAMED_WRONG_BLOCKS: usize = 8;

impl BlockMask {
    /// Makes a mask of lists of full and partial blocks.
    ///
    /// # Errors
    /// [`BlockMaskError::StoredAxis`], [`BlockMaskError::ListRows`], [`BlockMaskError::ListIndex`] or
    /// [`BlockMaskError::ListTwice`] for malformed lists, and the errors of [`BlockMask::claim`] where they are a claim.
    pub fn from_lists(
        geometry: &Geometry,
        lists: &BlockLists,
        meaning: ListsMeaning<'_>,
    ) -> Result<Self, BlockMaskError> {
        let rows = geometry.rows();
        let expected = u128::from(lists.batch) * u128::from(lists.heads) * u128::from(rows);
        if lists.rows.len() as u128 != expected {
            return Err(BlockMaskError::ListRows {
                expected,
                batch: lists.batch,
                heads: lists.heads,
                rows,
                found: lists.rows.len(),
            });
        }
        let mut planes = Vec::new();
        let mut remaining = lists.rows.as_slice();
        for b in 0..lists.batch {
            for h in 0..lists.heads {
                let (of_plane, rest) = remaining.split_at(rows as usize);
                planes.push(plane_of_lists(geometry, (b, h), of_plane)?);
                remaining = rest;
            }
        }
        Self::from_planes(
            geometry.clone(),
            lists.batch,
            lists.heads,
            planes,
            Exactness::Coarse,
        )?
        .meaning(meaning)
    }

    /// Makes a mask of lists that claim to say what a rule does, after checking every block against the cells.
    ///
    /// A full block needs all its cells within the lengths, an empty one none. A partial block is never wrong, since
    /// the rule decides there.
    ///
    /// # Errors
    /// Those of [`BlockMask::from_lists`], [`BlockMaskError::SeveralCalls`] if the bucket has more than one member,
    /// and [`BlockMaskError::Claim`] with the first wrong blocks.
    pub fn claim(
        geometry: &Geometry,
        lists: &BlockLists,
        evaluator: &dyn MaskEvaluator,
    ) -> Result<Self, BlockMaskError> {
        Self::from_lists(geometry, lists, ListsMeaning::Claim(evaluator))
    }

    /// Gives classes that came from outside their meaning.
    pub(super) fn meaning(self, meaning: ListsMeaning<'_>) -> Result<Self, BlockMaskError> {
        match meaning {
            ListsMeaning::Law => Ok(self.with_authority(Authority::Lists)),
            ListsMeaning::Claim(evaluator) => self.checked_against(evaluator),
        }
    }

    fn checked_against(self, evaluator: &dyn MaskEvaluator) -> Result<Self, BlockMaskError> {
        self.require_single("checking lists against a rule")?;
        let geometry = self.geometry();
        let mut scan = CellScan::new(geometry, evaluator);
        let (mut wrong, mut total, mut all_mixed) = (Vec::new(), 0, true);
        // An axis that is stored once must hold for each of its entries, so all of them are looked at.
        for (b, h) in self.logical_entries() {
            for row in 0..self.rows() {
                for (cols, claimed) in segments(self.row(b, h, row), self.cols()) {
                    for col in cols {
                        let seen = scan.block((b, h), row, col);
                        let against = match claimed {
                            BlockClass::Full => seen.masked,
                            BlockClass::Empty => seen.allowed,
                            BlockClass::Partial => {
                                all_mixed &= seen.class() == BlockClass::Partial;
                                None
                            }
                        };
                        let Some((q, kv)) = against else { continue };
                        total += 1;
                        if wrong.len() < NAMED_WRONG_BLOCKS {
                            wrong.push(WrongBlock {
                                b,
                                h,
                                row,
                                col,
                                claimed,
                                actual: seen.class(),
                                witness: (geometry.q_idx(q), geometry.kv_idx(kv)),
                            });
                        }
                    }
                }
            }
        }
        if 0 < total {
            return Err(BlockMaskError::Claim { wrong, total });
        }
        let exactness = if all_mixed {
            Exactness::Exact
        } else {
            Exactness::Coarse
        };
        Ok(self.map_planes(exactness, Plane::clone))
    }
}

fn plane_of_lists(
    geometry: &Geometry,
    (b, h): (u32, u32),
    rows: &[ListRow],
) -> Result<Plane, BlockMaskError> {
    let cols = geometry.cols();
    let mut builder = PlaneBuilder::new(geometry.rows(), cols);
    let mut blocks = Vec::new();
    for (row, lists) in (0..).zip(rows) {
        blocks.clear();
        blocks.extend(
            lists
                .partial
                .iter()
                .map(|&index| (index, BlockClass::Partial)),
        );
        blocks.extend(lists.full.iter().map(|&index| (index, BlockClass::Full)));
        blocks.sort_unstable();
        if let Some(&(index, _)) = blocks.last()
            && cols <= index
        {
            return Err(BlockMaskError::ListIndex {
                b,
                h,
                row,
                index,
                cols,
            });
        }
        if let Some(pair) = blocks.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(BlockMaskError::ListTwice {
                b,
                h,
                row,
                index: pair[0].0,
                first: pair[0].1.name(),
                second: pair[1].1.name(),
            });
        }
        for &(index, class) in &blocks {
            builder.push(row, index, 1, class);
        }
    }
    Ok(builder.finish())
}

#[cfg(test)]
mod tests;
