//! The block mask itself: planes, which of them each batch entry and head uses, and the checks of a call.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::plane::class_in;
use super::{BlockClass, BlockMaskError, BlockSize, CallShape, Geometry, Plane, Run};
use crate::bucket::Bucket;
use crate::fingerprint::Fingerprint;

/// What is known of the partial blocks of a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exactness {
    /// Each has both an allowed and a masked cell, at the longest lengths and the smallest query offset.
    Exact,
    /// Some were not looked into; they may be full or empty.
    Coarse,
}

/// Where the classes of a mask come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Authority {
    /// They say what the rule does: a kernel that ignored them and asked the rule everywhere would agree.
    Rule,
    /// They are the law: the rule acts within partial blocks only.
    Lists,
}

/// Classes of all blocks of the score matrix, for every batch entry and head.
///
/// The class is the rule's over the cells that lie within the lengths; that a block reaches beyond them is no part
/// of it, since kernels cut the runs at the real lengths. [`BlockMask::class`] gives it. Reports and exports follow
/// `PyTorch`, where an overhanging block is never full: [`BlockMask::reported_class`].
///
/// Equal planes are stored once. Two masks are equal if they have the same geometry, classes, exactness and
/// authority, whatever they were built from.
#[derive(Clone, Debug)]
pub struct BlockMask {
    geometry: Geometry,
    stored_batch: u32,
    stored_heads: u32,
    plane_of: Vec<u32>,
    planes: Vec<StoredPlane>,
    exactness: Exactness,
    authority: Authority,
    source: Option<Fingerprint>,
}

#[derive(Clone, Debug)]
struct StoredPlane {
    plane: Arc<Plane>,
    transposed: OnceLock<Arc<Plane>>,
}

impl PartialEq for StoredPlane {
    fn eq(&self, other: &Self) -> bool {
        self.plane == other.plane
    }
}

impl PartialEq for BlockMask {
    fn eq(&self, other: &Self) -> bool {
        self.geometry == other.geometry
            && (self.stored_batch, self.stored_heads) == (other.stored_batch, other.stored_heads)
            && self.exactness == other.exactness
            && self.authority == other.authority
            && self.plane_of == other.plane_of
            && self.planes == other.planes
    }
}

impl Eq for BlockMask {}

impl BlockMask {
    /// Puts a mask together from the planes of its stored axes, `[stored_batch, stored_heads]` in row-major order.
    ///
    /// A stored axis is 1 where the mask is the same along it, and as long as the logical axis otherwise. Equal
    /// planes are kept once.
    ///
    /// # Errors
    /// [`BlockMaskError::StoredAxis`], [`BlockMaskError::PlaneCount`] or [`BlockMaskError::PlaneShape`].
    pub fn from_planes(
        geometry: Geometry,
        stored_batch: u32,
        stored_heads: u32,
        planes: Vec<Plane>,
        exactness: Exactness,
    ) -> Result<Self, BlockMaskError> {
        let planes = planes.into_iter().map(Arc::new).collect();
        Self::from_shared(geometry, stored_batch, stored_heads, planes, exactness)
    }

    pub(super) fn from_shared(
        geometry: Geometry,
        stored_batch: u32,
        stored_heads: u32,
        planes: Vec<Arc<Plane>>,
        exactness: Exactness,
    ) -> Result<Self, BlockMaskError> {
        for (axis, stored, logical) in [
            ("batch", stored_batch, geometry.batch()),
            ("heads", stored_heads, geometry.heads()),
        ] {
            if stored != 1 && stored != logical {
                return Err(BlockMaskError::StoredAxis {
                    axis,
                    stored,
                    logical,
                });
            }
        }
        let expected = u64::from(stored_batch) * u64::from(stored_heads);
        if planes.len() as u64 != expected {
            return Err(BlockMaskError::PlaneCount {
                expected,
                found: planes.len() as u64,
            });
        }
        let mut distinct: Vec<StoredPlane> = Vec::new();
        let mut seen: HashMap<Arc<Plane>, u32> = HashMap::new();
        let mut plane_of = Vec::with_capacity(planes.len());
        for (index, plane) in planes.into_iter().enumerate() {
            let found = (plane.rows(), plane.cols());
            if found != (geometry.rows(), geometry.cols()) {
                return Err(BlockMaskError::PlaneShape {
                    index,
                    expected: (geometry.rows(), geometry.cols()),
                    found,
                });
            }
            let at = *seen.entry(plane).or_insert_with_key(|plane| {
                distinct.push(StoredPlane {
                    plane: Arc::clone(plane),
                    transposed: OnceLock::new(),
                });
                (distinct.len() - 1) as u32
            });
            plane_of.push(at);
        }
        let has_partial = distinct.iter().any(|stored| stored.plane.has_partial());
        Ok(Self {
            geometry,
            stored_batch,
            stored_heads,
            plane_of,
            planes: distinct,
            exactness: if has_partial {
                exactness
            } else {
                Exactness::Exact
            },
            authority: Authority::Rule,
            source: None,
        })
    }

    /// The rule and the captured values that the mask was built from, or sliced from a mask of; `None` if it was put
    /// together in another way.
    pub fn source(&self) -> Option<Fingerprint> {
        self.source
    }

    pub(super) fn with_source(self, source: Option<Fingerprint>) -> Self {
        Self { source, ..self }
    }

    pub(super) fn with_authority(self, authority: Authority) -> Self {
        Self { authority, ..self }
    }

    /// Makes a mask whose blocks are all of one class.
    pub fn uniform(geometry: Geometry, class: BlockClass) -> Self {
        let plane = Plane::uniform(geometry.rows(), geometry.cols(), class);
        Self::from_planes(geometry, 1, 1, vec![plane], Exactness::Coarse)
            .expect("one plane of the geometry's shape fits it")
    }

    /// Shape and place of the mask.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Batch entries; 1 serves any number.
    pub fn batch(&self) -> u32 {
        self.geometry.batch()
    }

    /// Query heads; 1 serves any number.
    pub fn heads(&self) -> u32 {
        self.geometry.heads()
    }

    /// Query rows of the longest call the mask holds for.
    pub fn q_len(&self) -> u64 {
        self.geometry.q_len()
    }

    /// Keys of the longest call the mask holds for.
    pub fn kv_len(&self) -> u64 {
        self.geometry.kv_len()
    }

    /// Rows and columns of a block.
    pub fn block(&self) -> BlockSize {
        self.geometry.block()
    }

    /// The calls that the mask holds for.
    pub fn bucket(&self) -> &Bucket {
        self.geometry.bucket()
    }

    /// Block rows.
    pub fn rows(&self) -> u32 {
        self.geometry.rows()
    }

    /// Block columns.
    pub fn cols(&self) -> u32 {
        self.geometry.cols()
    }

    /// Batch entries that are stored: 1 where the mask is the same for all, else [`BlockMask::batch`].
    pub fn stored_batch(&self) -> u32 {
        self.stored_batch
    }

    /// Heads that are stored: 1 where the mask is the same for all, else [`BlockMask::heads`].
    pub fn stored_heads(&self) -> u32 {
        self.stored_heads
    }

    /// What is known of the partial blocks.
    pub fn exactness(&self) -> Exactness {
        self.exactness
    }

    /// Tells whether every partial block is known to be mixed.
    pub fn is_exact(&self) -> bool {
        self.exactness == Exactness::Exact
    }

    /// Where the classes come from.
    pub fn authority(&self) -> Authority {
        self.authority
    }

    /// Position of the plane of a batch entry and head among [`BlockMask::distinct_planes`].
    ///
    /// # Panics
    /// If an axis longer than 1 has no such index, as indexing a slice does.
    pub fn plane_index(&self, b: u32, h: u32) -> usize {
        let fits = |index, logical| logical == 1 || index < logical;
        assert!(
            fits(b, self.batch()) && fits(h, self.heads()),
            "batch {b} and head {h} exist in {}",
            self.geometry
        );
        let b = if self.stored_batch == 1 { 0 } else { b };
        let h = if self.stored_heads == 1 { 0 } else { h };
        self.plane_of[b as usize * self.stored_heads as usize + h as usize] as usize
    }

    /// The plane of a batch entry and head.
    ///
    /// # Panics
    /// As [`BlockMask::plane_index`].
    pub fn plane(&self, b: u32, h: u32) -> &Arc<Plane> {
        &self.planes[self.plane_index(b, h)].plane
    }

    /// The planes that are stored, each different from the others.
    pub fn distinct_planes(&self) -> impl ExactSizeIterator<Item = &Arc<Plane>> {
        self.planes.iter().map(|stored| &stored.plane)
    }

    /// Which of the distinct planes each entry of the stored axes uses, `[stored_batch, stored_heads]`.
    pub fn plane_of(&self) -> &[u32] {
        &self.plane_of
    }

    /// The transposed plane of a batch entry and head, made at the first call: per key block, runs of query blocks.
    ///
    /// # Panics
    /// As [`BlockMask::plane_index`].
    pub fn transposed_plane(&self, b: u32, h: u32) -> &Arc<Plane> {
        let stored = &self.planes[self.plane_index(b, h)];
        stored
            .transposed
            .get_or_init(|| Arc::new(stored.plane.transposed()))
    }

    /// Runs of one block row.
    ///
    /// # Panics
    /// If there is no such row, batch entry or head, as indexing a slice does.
    pub fn row(&self, b: u32, h: u32, row: u32) -> &[Run] {
        self.plane(b, h).row(row)
    }

    /// Class of a block over the cells within the lengths.
    ///
    /// # Panics
    /// As [`BlockMask::row`].
    pub fn class(&self, b: u32, h: u32, row: u32, col: u32) -> BlockClass {
        class_in(self.row(b, h, row), col)
    }

    /// Class of a block as `PyTorch` reports it: one that reaches beyond the lengths is never full.
    ///
    /// # Panics
    /// As [`BlockMask::row`].
    pub fn reported_class(&self, b: u32, h: u32, row: u32, col: u32) -> BlockClass {
        reported(
            self.class(b, h, row, col),
            self.geometry.overhangs(row, col),
        )
    }

    /// Runs of one block row for a call with fewer keys: blocks that start at or beyond `kv_len` are left out.
    ///
    /// The last block may reach beyond `kv_len` and keeps its class; a kernel masks the tail of that block.
    ///
    /// # Panics
    /// As [`BlockMask::row`].
    pub fn row_clipped(&self, b: u32, h: u32, row: u32, kv_len: u64, out: &mut Vec<Run>) {
        let cols = kv_len
            .div_ceil(u64::from(self.block().kv))
            .min(u64::from(self.cols())) as u32;
        out.clear();
        for run in self.row(b, h, row) {
            let count = run.count().min(cols.saturating_sub(run.first()));
            let Some(clipped) = Run::new(run.first(), count, run.class()) else {
                break;
            };
            out.push(clipped);
        }
    }

    /// Checks that the mask may be used for a call.
    ///
    /// Batch and head counts must be those of the mask, where the mask's count is not 1; the lengths and the offset
    /// must belong to its bucket.
    ///
    /// # Errors
    /// [`BlockMaskError::Call`], which names both shapes.
    pub fn check_call(
        &self,
        batch: u32,
        heads: u32,
        q_len: u64,
        kv_len: u64,
        q_offset: i64,
    ) -> Result<(), BlockMaskError> {
        let serves = |mask: u32, call: u32| mask == 1 || mask == call;
        if serves(self.batch(), batch)
            && serves(self.heads(), heads)
            && self.bucket().contains(q_len, kv_len, q_offset)
        {
            return Ok(());
        }
        Err(BlockMaskError::Call {
            built: Box::new(self.geometry.clone()),
            call: Box::new(CallShape {
                batch,
                heads,
                q_len,
                kv_len,
                q_offset,
            }),
        })
    }

    /// Bytes that the classes take, transposed planes included where they were made.
    pub fn size_bytes(&self) -> usize {
        let planes = self.planes.iter().map(|stored| {
            let transposed = stored
                .transposed
                .get()
                .map_or(0, |plane| plane.size_bytes());
            stored.plane.size_bytes() + transposed
        });
        planes.sum::<usize>() + size_of_val(self.plane_of.as_slice())
    }

    /// The entries of the stored axes, with the batch entry and head that stand for each.
    pub(super) fn stored_entries(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        let heads = self.stored_heads;
        (0..self.stored_batch).flat_map(move |b| (0..heads).map(move |h| (b, h)))
    }

    /// How many logical entries each stored entry stands for.
    pub(super) fn copies(&self) -> u128 {
        u128::from(self.batch() / self.stored_batch) * u128::from(self.heads() / self.stored_heads)
    }

    /// The batch entries and heads of the mask, in order.
    pub(super) fn logical_entries(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        let heads = self.heads();
        (0..self.batch()).flat_map(move |b| (0..heads).map(move |h| (b, h)))
    }

    /// Refuses a mask for several lengths or offsets where cells are to be looked at.
    pub(super) fn require_single(&self, operation: &'static str) -> Result<(), BlockMaskError> {
        if self.bucket().is_single() {
            return Ok(());
        }
        Err(BlockMaskError::SeveralCalls {
            operation,
            bucket: Box::new(self.bucket().clone()),
        })
    }
}

pub(super) fn reported(class: BlockClass, overhangs: bool) -> BlockClass {
    match class {
        BlockClass::Full if overhangs => BlockClass::Partial,
        BlockClass::Full | BlockClass::Partial | BlockClass::Empty => class,
    }
}

#[cfg(test)]
mod tests;
