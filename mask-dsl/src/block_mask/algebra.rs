//! Algebra on masks: and, or, not, difference, xor, and the choice of a mask per head.

use std::collections::HashMap;
use std::sync::Arc;

use super::plane::{merge_rows, segments};
use super::{
    Authority, BlockClass, BlockMask, BlockMaskError, Exactness, Geometry, Plane, PlaneBuilder,
};

impl BlockMask {
    /// Allows what both masks allow.
    ///
    /// As for all operations on two masks: lengths, block size and offsets must be equal, a batch or head axis of 1
    /// is broadcast, and the result holds for the calls that both hold for. Full and empty blocks of the result
    /// follow from those of the masks; where two partial blocks meet the result is partial and coarse.
    ///
    /// Where the lists of a mask are the law, the evaluator for the result is made of [`BlockMask::restrict`].
    ///
    /// # Errors
    /// [`BlockMaskError::Geometry`], which names both shapes.
    pub fn and(&self, other: &Self) -> Result<Self, BlockMaskError> {
        self.combine(other, Ord::min)
    }

    /// Allows what either mask allows.
    ///
    /// # Errors
    /// As [`BlockMask::and`].
    pub fn or(&self, other: &Self) -> Result<Self, BlockMaskError> {
        self.combine(other, Ord::max)
    }

    /// Allows what this mask allows and the other does not.
    ///
    /// # Errors
    /// As [`BlockMask::and`].
    pub fn difference(&self, other: &Self) -> Result<Self, BlockMaskError> {
        self.combine(other, |a, b| a.min(negated(b)))
    }

    /// Allows what exactly one of the masks allows.
    ///
    /// # Errors
    /// As [`BlockMask::and`].
    pub fn xor(&self, other: &Self) -> Result<Self, BlockMaskError> {
        self.combine(other, |a, b| match a {
            BlockClass::Empty => b,
            BlockClass::Full => negated(b),
            BlockClass::Partial => BlockClass::Partial,
        })
    }

    /// Allows what this mask does not.
    pub fn not(&self) -> Self {
        self.map_planes(self.exactness(), |plane| {
            let mut builder = PlaneBuilder::new(plane.rows(), plane.cols());
            for row in 0..plane.rows() {
                for (cols, class) in segments(plane.row(row), plane.cols()) {
                    builder.push(row, cols.start, cols.end - cols.start, negated(class));
                }
            }
            builder.finish()
        })
    }

    /// Allows what all of the masks allow: everything, where there are none.
    ///
    /// # Errors
    /// As [`BlockMask::and`].
    pub fn all_of(geometry: Geometry, masks: &[&Self]) -> Result<Self, BlockMaskError> {
        masks
            .iter()
            .try_fold(Self::uniform(geometry, BlockClass::Full), |all, mask| {
                all.and(mask)
            })
    }

    /// Allows what any of the masks allows: nothing, where there are none.
    ///
    /// # Errors
    /// As [`BlockMask::and`].
    pub fn any_of(geometry: Geometry, masks: &[&Self]) -> Result<Self, BlockMaskError> {
        masks
            .iter()
            .try_fold(Self::uniform(geometry, BlockClass::Empty), |any, mask| {
                any.or(mask)
            })
    }

    /// Takes the planes of `on_true` for the heads whose choice is true, and those of `on_false` for the others.
    ///
    /// # Errors
    /// [`BlockMaskError::HeadChoice`] if a mask has neither one head nor one per choice, else as [`BlockMask::and`].
    pub fn select_heads(
        choice: &[bool],
        on_true: &Self,
        on_false: &Self,
    ) -> Result<Self, BlockMaskError> {
        let common = on_true.common_geometry(on_false)?;
        let heads = u32::try_from(choice.len()).unwrap_or(u32::MAX);
        if heads == 0 || (common.heads() != 1 && common.heads() != heads) {
            return Err(BlockMaskError::HeadChoice {
                expected: common.heads(),
                found: choice.len(),
            });
        }
        let stored_batch = on_true.stored_batch().max(on_false.stored_batch());
        let mut planes = Vec::with_capacity(stored_batch as usize * choice.len());
        for b in 0..stored_batch {
            for (h, &take) in (0..).zip(choice) {
                let mask = if take { on_true } else { on_false };
                planes.push(Arc::clone(mask.plane(b, h)));
            }
        }
        let coarse = |taken: bool, mask: &Self| choice.contains(&taken) && !mask.is_exact();
        let exactness = if coarse(true, on_true) || coarse(false, on_false) {
            Exactness::Coarse
        } else {
            Exactness::Exact
        };
        let geometry = common.with_axes(common.batch(), heads)?;
        let selected = Self::from_shared(geometry, stored_batch, heads, planes, exactness)?;
        Ok(selected.with_authority(joined(on_true, on_false)))
    }

    /// Applies a rule of classes block by block. `class` gives [`BlockClass::Partial`] for two partial blocks.
    fn combine(
        &self,
        other: &Self,
        class: impl Fn(BlockClass, BlockClass) -> BlockClass,
    ) -> Result<Self, BlockMaskError> {
        let geometry = self.common_geometry(other)?;
        let stored_batch = self.stored_batch().max(other.stored_batch());
        let stored_heads = self.stored_heads().max(other.stored_heads());
        let mut exactness = Exactness::Exact;
        let mut done: HashMap<(usize, usize), Arc<Plane>> = HashMap::new();
        let mut planes = Vec::with_capacity(stored_batch as usize * stored_heads as usize);
        for b in 0..stored_batch {
            for h in 0..stored_heads {
                let pair = (self.plane_index(b, h), other.plane_index(b, h));
                let plane = done.entry(pair).or_insert_with(|| {
                    let (a, b) = (self.plane(b, h), other.plane(b, h));
                    let mut builder = PlaneBuilder::new(a.rows(), a.cols());
                    for row in 0..a.rows() {
                        merge_rows(a.row(row), b.row(row), a.cols(), |cols, in_a, in_b| {
                            let result = class(in_a, in_b);
                            builder.push(row, cols.start, cols.end - cols.start, result);
                            // A mixed block stays mixed beside a full or an empty one.
                            let mixed = (in_a == BlockClass::Partial && self.is_exact())
                                != (in_b == BlockClass::Partial && other.is_exact());
                            let both = in_a == BlockClass::Partial && in_b == BlockClass::Partial;
                            if result == BlockClass::Partial && (both || !mixed) {
                                exactness = Exactness::Coarse;
                            }
                        });
                    }
                    Arc::new(builder.finish())
                });
                planes.push(Arc::clone(plane));
            }
        }
        let combined = Self::from_shared(geometry, stored_batch, stored_heads, planes, exactness)?;
        Ok(combined.with_authority(joined(self, other)))
    }

    /// The geometry of a result of two masks.
    fn common_geometry(&self, other: &Self) -> Result<Geometry, BlockMaskError> {
        let (a, b) = (self.geometry(), other.geometry());
        let mismatch = || BlockMaskError::Geometry {
            left: Box::new(a.clone()),
            right: Box::new(b.clone()),
        };
        let axis = |a: u32, b: u32| (a == b || a == 1 || b == 1).then_some(a.max(b));
        // A broadcast axis has no place of its own.
        let offset = |a: (u32, u32), b: (u32, u32)| match (a, b) {
            ((1, 0), (_, offset)) | ((_, offset), (1, 0)) => Some(offset),
            ((_, a), (_, b)) => (a == b).then_some(a),
        };
        let place = |g: &Geometry| {
            (
                g.q_len(),
                g.kv_len(),
                g.block(),
                g.q_offset(),
                g.kv_offset(),
            )
        };
        let (Some(batch), Some(heads)) = (axis(a.batch(), b.batch()), axis(a.heads(), b.heads()))
        else {
            return Err(mismatch());
        };
        let (Some(batch_offset), Some(head_offset)) = (
            offset((a.batch(), a.batch_offset()), (b.batch(), b.batch_offset())),
            offset((a.heads(), a.head_offset()), (b.heads(), b.head_offset())),
        ) else {
            return Err(mismatch());
        };
        let bucket = a.bucket().intersect(b.bucket()).ok_or_else(mismatch)?;
        let common = a
            .with_axes(batch, heads)?
            .with_axis_offsets(batch_offset, head_offset)?
            .with_bucket(bucket)?;
        if place(a) != place(b) || place(a) != place(&common) {
            return Err(mismatch());
        }
        Ok(common)
    }

    /// Makes a mask of the planes that `change` makes of this one's, each distinct plane being changed once.
    ///
    /// # Panics
    /// If `change` gives a plane of another shape.
    pub(super) fn map_planes(
        &self,
        exactness: Exactness,
        change: impl FnMut(&Plane) -> Plane,
    ) -> Self {
        let planes = self.distinct_planes().map(|plane| &**plane);
        let changed: Vec<Arc<Plane>> = planes.map(change).map(Arc::new).collect();
        let entries = self.plane_of().iter();
        Self::from_shared(
            self.geometry().clone(),
            self.stored_batch(),
            self.stored_heads(),
            entries
                .map(|&at| Arc::clone(&changed[at as usize]))
                .collect(),
            exactness,
        )
        .expect("a changed plane has the shape it had")
        .with_authority(self.authority())
    }
}

fn negated(class: BlockClass) -> BlockClass {
    match class {
        BlockClass::Empty => BlockClass::Full,
        BlockClass::Partial => BlockClass::Partial,
        BlockClass::Full => BlockClass::Empty,
    }
}

fn joined(a: &BlockMask, b: &BlockMask) -> Authority {
    match (a.authority(), b.authority()) {
        (Authority::Rule, Authority::Rule) => Authority::Rule,
        (Authority::Lists, _) | (_, Authority::Lists) => Authority::Lists,
    }
}

#[cfg(test)]
mod tests;
