//! `PyTorch`'s eight index tensors, written and read.

use super::plane::{merge_rows, segments};
use super::{
    BlockClass, BlockMask, BlockMaskError, Exactness, Geometry, ListsMeaning, Plane, PlaneBuilder,
    format::reported,
};

/// A dense `i32` tensor in row-major order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TorchTensor {
    /// Extent of each axis.
    pub shape: Vec<usize>,
    /// Elements in row-major order.
    pub data: Vec<i32>,
}

/// The tensors of `torch.nn.attention.flex_attention.BlockMask`, under its names.
///
/// # Shapes
/// `kv_num_blocks` and `full_kv_num_blocks` are `[B, H, rows]`, their indices `[B, H, rows, cols]`; the transposed
/// ones are `[B, H, cols]` and `[B, H, cols, rows]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TorchBlockMask {
    /// Partial blocks per query block.
    pub kv_num_blocks: TorchTensor,
    /// Columns of the partial blocks, then the others.
    pub kv_indices: TorchTensor,
    /// Full blocks per query block.
    pub full_kv_num_blocks: Option<TorchTensor>,
    /// Columns of the full blocks, then the others.
    pub full_kv_indices: Option<TorchTensor>,
    /// Partial blocks per key block.
    pub q_num_blocks: Option<TorchTensor>,
    /// Rows of the partial blocks, then the others.
    pub q_indices: Option<TorchTensor>,
    /// Full blocks per key block.
    pub full_q_num_blocks: Option<TorchTensor>,
    /// Rows of the full blocks, then the others.
    pub full_q_indices: Option<TorchTensor>,
}

impl BlockMask {
    /// Writes all eight tensors. As in `PyTorch`, blocks that reach beyond the lengths are partial, and each row of
    /// indices has the listed blocks first and then all others, both ascending.
    ///
    /// # Errors
    /// [`BlockMaskError::TooLarge`] if a tensor does not fit in memory.
    pub fn to_torch(&self) -> Result<TorchBlockMask, BlockMaskError> {
        let (rows, cols) = (self.rows(), self.cols());
        let mut kv_partial = ListTensors::new(self, rows, cols)?;
        let mut kv_full = ListTensors::new(self, rows, cols)?;
        let mut q_partial = ListTensors::new(self, cols, rows)?;
        let mut q_full = ListTensors::new(self, cols, rows)?;
        let geometry = self.geometry();
        for (b, h) in self.logical_entries() {
            let plane = self.plane(b, h);
            for row in 0..rows {
                let class = |col| geometry.overhangs(row, col);
                write_row(plane, row, &class, &mut kv_partial, &mut kv_full);
            }
            let transposed = self.transposed_plane(b, h);
            for col in 0..cols {
                let class = |row| geometry.overhangs(row, col);
                write_row(transposed, col, &class, &mut q_partial, &mut q_full);
            }
        }
        let [
            (kv_num_blocks, kv_indices),
            (full_kv_num, full_kv),
            (q_num, q),
            (full_q_num, full_q),
        ] = [kv_partial, kv_full, q_partial, q_full]
            .map(|tensors| (tensors.counts, tensors.indices));
        Ok(TorchBlockMask {
            kv_num_blocks,
            kv_indices,
            full_kv_num_blocks: Some(full_kv_num),
            full_kv_indices: Some(full_kv),
            q_num_blocks: Some(q_num),
            q_indices: Some(q),
            full_q_num_blocks: Some(full_q_num),
            full_q_indices: Some(full_q),
        })
    }

    /// Reads the tensors of a `PyTorch` block mask, after checking all of them.
    ///
    /// Listed blocks may stand in any order, and the last axis of indices may have any length. A full block may reach
    /// beyond the lengths. The transposed tensors, where given, must describe the same classes.
    ///
    /// # Errors
    /// The `Tensor…` variants of [`BlockMaskError`], which name the tensor and the position in it, and those of
    /// [`BlockMask::claim`] where the tensors claim a rule.
    pub fn from_torch(
        geometry: &Geometry,
        tensors: &TorchBlockMask,
        meaning: ListsMeaning<'_>,
    ) -> Result<Self, BlockMaskError> {
        let (rows, cols) = (geometry.rows(), geometry.cols());
        let lead = &tensors.kv_num_blocks.shape;
        let axis = |at: usize, logical: u32| {
            let found = lead.get(at).and_then(|&n| u32::try_from(n).ok());
            found.filter(|&n| n == 1 || n == logical)
        };
        let (Some(batch), Some(heads)) = (axis(0, geometry.batch()), axis(1, geometry.heads()))
        else {
            return Err(BlockMaskError::TensorShape {
                tensor: "kv_num_blocks",
                expected: format!(
                    "[1 or {}, 1 or {}, {rows}]",
                    geometry.batch(),
                    geometry.heads()
                ),
                found: lead.clone(),
            });
        };
        let axes = [batch as usize, heads as usize];
        let partial = Some(Lists::new(
            ["kv_num_blocks", "kv_indices"],
            &tensors.kv_num_blocks,
            &tensors.kv_indices,
            axes,
            rows,
        )?);
        let full = Lists::pair(
            ["full_kv_num_blocks", "full_kv_indices"],
            tensors.full_kv_num_blocks.as_ref(),
            tensors.full_kv_indices.as_ref(),
            axes,
            rows,
        )?;
        let q_partial = Lists::pair(
            ["q_num_blocks", "q_indices"],
            tensors.q_num_blocks.as_ref(),
            tensors.q_indices.as_ref(),
            axes,
            cols,
        )?;
        let q_full = Lists::pair(
            ["full_q_num_blocks", "full_q_indices"],
            tensors.full_q_num_blocks.as_ref(),
            tensors.full_q_indices.as_ref(),
            axes,
            cols,
        )?;
        let mut planes = Vec::new();
        for b in 0..axes[0] {
            for h in 0..axes[1] {
                let plane = read_plane([b, h], rows, cols, partial.as_ref(), full.as_ref())?;
                if q_partial.is_some() || q_full.is_some() {
                    let q_side =
                        read_plane([b, h], cols, rows, q_partial.as_ref(), q_full.as_ref())?;
                    compare_sides([b, h], &plane.transposed(), &q_side)?;
                }
                planes.push(plane);
            }
        }
        Self::from_planes(geometry.clone(), batch, heads, planes, Exactness::Coarse)?
            .meaning(meaning)
    }
}

/// A tensor of counts and one of indices that are being written.
struct ListTensors {
    counts: TorchTensor,
    indices: TorchTensor,
}

impl ListTensors {
    fn new(mask: &BlockMask, rows: u32, cols: u32) -> Result<Self, BlockMaskError> {
        let lead = [mask.batch(), mask.heads(), rows].map(|n| n as usize);
        let full = [lead[0], lead[1], lead[2], cols as usize];
        Ok(Self {
            counts: reserve("a tensor of block counts", &lead)?,
            indices: reserve("a tensor of block indices", &full)?,
        })
    }

    /// Writes one row: the listed blocks, then the others.
    fn push(&mut self, listed: &[i32], others: &[i32]) {
        self.counts.data.push(listed.len() as i32);
        self.indices.data.extend_from_slice(listed);
        self.indices.data.extend_from_slice(others);
    }
}

fn reserve(what: &'static str, shape: &[usize]) -> Result<TorchTensor, BlockMaskError> {
    let elements: u128 = shape.iter().map(|&n| n as u128).product();
    let mut data = Vec::new();
    usize::try_from(elements)
        .ok()
        .and_then(|n| data.try_reserve_exact(n).ok())
        .ok_or(BlockMaskError::TooLarge { what, elements })?;
    Ok(TorchTensor {
        shape: shape.to_vec(),
        data,
    })
}

fn write_row(
    plane: &Plane,
    row: u32,
    overhangs: &dyn Fn(u32) -> bool,
    partial: &mut ListTensors,
    full: &mut ListTensors,
) {
    let (mut is_partial, mut not_partial) = (Vec::new(), Vec::new());
    let (mut is_full, mut not_full) = (Vec::new(), Vec::new());
    for (cols, class) in segments(plane.row(row), plane.cols()) {
        for col in cols {
            let class = reported(class, overhangs(col));
            let to_partial = if class == BlockClass::Partial {
                &mut is_partial
            } else {
                &mut not_partial
            };
            to_partial.push(col as i32);
            let to_full = if class == BlockClass::Full {
                &mut is_full
            } else {
                &mut not_full
            };
            to_full.push(col as i32);
        }
    }
    partial.push(&is_partial, &not_partial);
    full.push(&is_full, &not_full);
}

/// A tensor of counts and one of indices, their shapes checked.
struct Lists<'a> {
    names: [&'static str; 2],
    counts: &'a TorchTensor,
    indices: &'a TorchTensor,
    /// Heads, rows and entries per row.
    shape: [usize; 3],
}

impl<'a> Lists<'a> {
    fn pair(
        names: [&'static str; 2],
        counts: Option<&'a TorchTensor>,
        indices: Option<&'a TorchTensor>,
        axes: [usize; 2],
        rows: u32,
    ) -> Result<Option<Self>, BlockMaskError> {
        match (counts, indices) {
            (Some(counts), Some(indices)) => {
                Self::new(names, counts, indices, axes, rows).map(Some)
            }
            (None, None) => Ok(None),
            (Some(_), None) => Err(BlockMaskError::TensorMissing {
                present: names[0],
                missing: names[1],
            }),
            (None, Some(_)) => Err(BlockMaskError::TensorMissing {
                present: names[1],
                missing: names[0],
            }),
        }
    }

    fn new(
        names: [&'static str; 2],
        counts: &'a TorchTensor,
        indices: &'a TorchTensor,
        [batch, heads]: [usize; 2],
        rows: u32,
    ) -> Result<Self, BlockMaskError> {
        let lead = [batch, heads, rows as usize];
        if counts.shape != lead {
            return Err(BlockMaskError::TensorShape {
                tensor: names[0],
                expected: format!("{lead:?}"),
                found: counts.shape.clone(),
            });
        }
        let &[.., size] = indices.shape.as_slice() else {
            return Err(wrong_indices(names[1], lead, indices));
        };
        if indices.shape.len() != 4 || indices.shape[..3] != lead {
            return Err(wrong_indices(names[1], lead, indices));
        }
        for (tensor, of) in names.into_iter().zip([counts, indices]) {
            let elements: u128 = of.shape.iter().map(|&n| n as u128).product();
            if elements != of.data.len() as u128 {
                return Err(BlockMaskError::TensorData {
                    tensor,
                    shape: of.shape.clone(),
                    len: of.data.len(),
                });
            }
        }
        Ok(Self {
            names,
            counts,
            indices,
            shape: [heads, rows as usize, size],
        })
    }

    /// Adds the listed blocks of one row, each with its place in the list.
    fn read(
        &self,
        position: [usize; 3],
        blocks: u32,
        class: BlockClass,
        out: &mut Vec<(u32, BlockClass, usize)>,
    ) -> Result<(), BlockMaskError> {
        let [heads, rows, size] = self.shape;
        let row = (position[0] * heads + position[1]) * rows + position[2];
        let count = self.counts.data[row];
        let listed = usize::try_from(count).ok().filter(|&n| n <= size);
        let Some(listed) = listed else {
            return Err(BlockMaskError::TensorCount {
                tensor: self.names[0],
                position,
                count,
                size,
            });
        };
        for (at, &index) in self.indices.data[row * size..][..listed].iter().enumerate() {
            let Some(block) = u32::try_from(index).ok().filter(|&block| block < blocks) else {
                return Err(BlockMaskError::TensorIndex {
                    tensor: self.names[1],
                    position: [position[0], position[1], position[2], at],
                    index,
                    blocks,
                });
            };
            out.push((block, class, at));
        }
        Ok(())
    }
}

fn wrong_indices(tensor: &'static str, lead: [usize; 3], found: &TorchTensor) -> BlockMaskError {
    BlockMaskError::TensorShape {
        tensor,
        expected: format!("[{}, {}, {}, any]", lead[0], lead[1], lead[2]),
        found: found.shape.clone(),
    }
}

fn read_plane(
    [b, h]: [usize; 2],
    rows: u32,
    cols: u32,
    partial: Option<&Lists<'_>>,
    full: Option<&Lists<'_>>,
) -> Result<Plane, BlockMaskError> {
    let mut builder = PlaneBuilder::new(rows, cols);
    let mut blocks = Vec::new();
    for row in 0..rows {
        let position = [b, h, row as usize];
        blocks.clear();
        for (lists, class) in [(partial, BlockClass::Partial), (full, BlockClass::Full)] {
            if let Some(lists) = lists {
                lists.read(position, cols, class, &mut blocks)?;
            }
        }
        blocks.sort_unstable();
        for pair in blocks.windows(2) {
            let ((first, class, _), (second, other, at)) = (pair[0], pair[1]);
            if first != second {
                continue;
            }
            let name = |lists: Option<&Lists<'_>>| lists.map_or("", |lists| lists.names[1]);
            let index = second as i32;
            return Err(if class == other {
                let lists = if class == BlockClass::Full {
                    full
                } else {
                    partial
                };
                BlockMaskError::TensorDuplicate {
                    tensor: name(lists),
                    position: [b, h, row as usize, at],
                    index,
                }
            } else {
                BlockMaskError::TensorBoth {
                    full: name(full),
                    partial: name(partial),
                    position,
                    index,
                }
            });
        }
        for &(block, class, _) in &blocks {
            builder.push(row, block, 1, class);
        }
    }
    Ok(builder.finish())
}

fn compare_sides(
    [b, h]: [usize; 2],
    kv_side: &Plane,
    q_side: &Plane,
) -> Result<(), BlockMaskError> {
    for col in 0..kv_side.rows() {
        let mut differ = None;
        merge_rows(
            kv_side.row(col),
            q_side.row(col),
            kv_side.cols(),
            |rows, by_kv, by_q| {
                if by_kv != by_q && differ.is_none() {
                    differ = Some((rows.start, by_kv, by_q));
                }
            },
        );
        if let Some((row, by_kv, by_q)) = differ {
            let either_full = by_kv == BlockClass::Full || by_q == BlockClass::Full;
            return Err(BlockMaskError::TensorSides {
                tensor: if either_full {
                    "full_q_indices"
                } else {
                    "q_indices"
                },
                b: b as u32,
                h: h as u32,
                row,
                col,
                q_side: by_q.name(),
                kv_side: by_kv.name(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
