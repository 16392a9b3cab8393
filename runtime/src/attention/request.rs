//! What is asked of attention: views of q, k and v, options, and the checks at the boundary.

use half::{bf16, f16};
use maskwright_cpu::{CpuError, Micro, Output, TensorDataMut};
use maskwright_dsl::block_mask::{BlockMask, BlockSize, CallShape};

use super::dispatch::Backend;
use super::error::AttentionError;
#[cfg(feature = "cuda")]
use crate::cuda::KernelStore;
use crate::tensor::{Dtype, Tensor, TensorData};

/// The elements behind a view.
#[derive(Clone, Copy, Debug)]
pub enum ElementsRef<'a> {
    /// `f32` elements.
    F32(&'a [f32]),
    /// `f16` elements.
    F16(&'a [f16]),
    /// `bf16` elements.
    BF16(&'a [bf16]),
    /// `f64` elements, which only the reference takes.
    F64(&'a [f64]),
}

impl ElementsRef<'_> {
    fn len(&self) -> usize {
        match self {
            Self::F32(data) => data.len(),
            Self::F16(data) => data.len(),
            Self::BF16(data) => data.len(),
            Self::F64(data) => data.len(),
        }
    }

    fn get(&self, at: usize) -> f64 {
        match self {
            Self::F32(data) => f64::from(data[at]),
            Self::F16(data) => data[at].to_f64(),
            Self::BF16(data) => data[at].to_f64(),
            Self::F64(data) => data[at],
        }
    }
}

macro_rules! elements_from {
    ($($element:ty => $variant:ident;)*) => {$(
        impl<'a> From<&'a [$element]> for ElementsRef<'a> {
            fn from(data: &'a [$element]) -> Self {
                Self::$variant(data)
            }
        }

        impl<'a> From<&'a Vec<$element>> for ElementsRef<'a> {
            fn from(data: &'a Vec<$element>) -> Self {
                Self::$variant(data)
            }
        }
    )*};
}

elements_from! {
    f32 => F32;
    f16 => F16;
    bf16 => BF16;
    f64 => F64;
}

/// A strided, read-only view of shape `[batch, heads, length, head_dim]`.
///
/// Strides are in elements and may be anything, 0 and negative included; the constructor proves that every element of
/// the view lies in the slice.
///
/// # Example
/// ```
/// use maskwright::TensorRef;
/// let data = vec![0.0_f32; 2 * 3 * 4];
/// assert!(TensorRef::contiguous(&data, [1, 2, 3, 4]).is_ok());
/// // A layout of [length, heads, head_dim], seen as [1, heads, length, head_dim].
/// assert!(TensorRef::new(&data, [1, 2, 3, 4], [0, 4, 8, 1], 0).is_ok());
/// assert!(TensorRef::contiguous(&data, [1, 2, 3, 5]).is_err());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TensorRef<'a> {
    elements: ElementsRef<'a>,
    shape: [usize; 4],
    strides: [isize; 4],
    offset: usize,
}

impl<'a> TensorRef<'a> {
    /// Makes a view whose element `[0, 0, 0, 0]` is element `offset`.
    ///
    /// # Errors
    /// [`AttentionError::Shape`] if an element of the view lies outside the slice.
    pub fn new(
        elements: impl Into<ElementsRef<'a>>,
        shape: [usize; 4],
        strides: [isize; 4],
        offset: usize,
    ) -> Result<Self, AttentionError> {
        let elements = elements.into();
        // 128 bits hold any product of two extents; the sums saturate, and stay out of range.
        let (mut lowest, mut highest) = (offset as i128, offset as i128);
        for (&extent, &stride) in shape.iter().zip(&strides) {
            let reach = (extent as i128 - 1) * stride as i128;
            lowest = lowest.saturating_add(reach.min(0));
            highest = highest.saturating_add(reach.max(0));
        }
        let saturated = |at: i128| at.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        if !shape.contains(&0) && (lowest < 0 || elements.len() as i128 <= highest) {
            return Err(AttentionError::Shape(CpuError::ViewOutOfBounds {
                shape,
                strides,
                offset,
                lowest: saturated(lowest),
                highest: saturated(highest),
                len: elements.len(),
            }));
        }
        Ok(Self {
            elements,
            shape,
            strides,
            offset,
        })
    }

    /// Makes a view of elements in row-major order.
    ///
    /// # Errors
    /// [`AttentionError::Shape`] if there are fewer elements than the shape asks for.
    pub fn contiguous(
        elements: impl Into<ElementsRef<'a>>,
        shape: [usize; 4],
    ) -> Result<Self, AttentionError> {
        let row = shape[3];
        let head = row.saturating_mul(shape[2]);
        let batch = head.saturating_mul(shape[1]);
        // A stride that overflows belongs to a view larger than any slice; saturated, it is refused.
        let stride = |extent: usize| isize::try_from(extent).unwrap_or(isize::MAX);
        let strides = [stride(batch), stride(head), stride(row), 1];
        Self::new(elements, shape, strides, 0)
    }

    /// The extents `[batch, heads, length, head_dim]`.
    pub fn shape(&self) -> [usize; 4] {
        self.shape
    }

    /// The strides, in elements.
    pub fn strides(&self) -> [isize; 4] {
        self.strides
    }

    /// The element type.
    pub fn dtype(&self) -> Dtype {
        match self.elements {
            ElementsRef::F32(_) => Dtype::F32,
            ElementsRef::F16(_) => Dtype::F16,
            ElementsRef::BF16(_) => Dtype::BF16,
            ElementsRef::F64(_) => Dtype::F64,
        }
    }

    /// Reads row `(b, h, l)` into `out`, which holds `head_dim` elements.
    pub(crate) fn read_row(&self, b: usize, h: usize, l: usize, out: &mut [f64]) {
        debug_assert_eq!(out.len(), self.shape[3]);
        // In range by the constructor's proof, so no sum leaves isize.
        let start = self.offset as isize
            + b as isize * self.strides[0]
            + h as isize * self.strides[1]
            + l as isize * self.strides[2];
        for (d, x) in out.iter_mut().enumerate() {
            *x = self
                .elements
                .get((start + d as isize * self.strides[3]) as usize);
        }
    }

    /// The bytes of all elements in row-major order, the lowest byte of each first.
    #[cfg(feature = "cuda")]
    pub(crate) fn row_major_bytes(&self) -> Vec<u8> {
        let element_bytes = match self.elements {
            ElementsRef::F32(_) => 4,
            ElementsRef::F16(_) | ElementsRef::BF16(_) => 2,
            ElementsRef::F64(_) => 8,
        };
        let [batch, heads, len, width] = self.shape;
        let mut bytes = Vec::with_capacity(batch * heads * len * width * element_bytes);
        // In range by the constructor's proof, so no sum leaves isize.
        let at = |index: usize, axis: usize| index as isize * self.strides[axis];
        for b in 0..batch {
            for h in 0..heads {
                for l in 0..len {
                    let row = self.offset as isize + at(b, 0) + at(h, 1) + at(l, 2);
                    for d in 0..width {
                        let at = (row + at(d, 3)) as usize;
                        match self.elements {
                            ElementsRef::F32(x) => bytes.extend(x[at].to_le_bytes()),
                            ElementsRef::F16(x) => bytes.extend(x[at].to_le_bytes()),
                            ElementsRef::BF16(x) => bytes.extend(x[at].to_le_bytes()),
                            ElementsRef::F64(x) => bytes.extend(x[at].to_le_bytes()),
                        }
                    }
                }
            }
        }
        bytes
    }

    /// The view as the CPU engine takes it; `None` for `f64`.
    pub(super) fn on_cpu(&self) -> Result<Option<maskwright_cpu::TensorRef<'a>>, CpuError> {
        let data = match self.elements {
            ElementsRef::F32(data) => maskwright_cpu::TensorData::F32(data),
            ElementsRef::F16(data) => maskwright_cpu::TensorData::F16(data),
            ElementsRef::BF16(data) => maskwright_cpu::TensorData::BF16(data),
            ElementsRef::F64(_) => return Ok(None),
        };
        maskwright_cpu::TensorRef::new(data, self.shape, self.strides, self.offset).map(Some)
    }
}

impl<'a> TryFrom<&'a Tensor> for TensorRef<'a> {
    type Error = AttentionError;

    fn try_from(tensor: &'a Tensor) -> Result<Self, AttentionError> {
        let shape =
            <[usize; 4]>::try_from(tensor.shape.as_slice()).map_err(|_| AttentionError::Rank {
                found: tensor.shape.clone(),
            })?;
        let elements = match &tensor.data {
            TensorData::F32(data) => ElementsRef::F32(data),
            TensorData::F16(data) => ElementsRef::F16(data),
            TensorData::BF16(data) => ElementsRef::BF16(data),
            TensorData::F64(data) => ElementsRef::F64(data),
            TensorData::Bool(_)
            | TensorData::I8(_)
            | TensorData::U8(_)
            | TensorData::I16(_)
            | TensorData::U16(_)
            | TensorData::I32(_)
            | TensorData::U32(_)
            | TensorData::I64(_)
            | TensorData::U64(_) => {
                return Err(AttentionError::Dtype {
                    found: tensor.dtype(),
                });
            }
        };
        Self::contiguous(elements, shape)
    }
}

/// What may be chosen about a call.
#[derive(Clone, Copy, Debug, Default)]
pub struct ForwardOptions<'a> {
    /// Factor of the dot products; `1 / sqrt(d_qk)` unless given.
    pub sm_scale: Option<f32>,
    /// Position of the first query row.
    pub q_offset: i64,
    /// The block mask. Without one, an exact one is built if there is a mask rule.
    pub block_mask: Option<&'a BlockMask>,
    /// Block size of the mask that is built.
    pub block: BlockSize,
    /// Who computes.
    pub backend: Backend,
    /// The micro-kernel of the CPU engine; without one, `MASKWRIGHT_MICRO` or the processor decides.
    pub micro: Option<Micro>,
    /// Where compiled GPU kernels are kept; the cache that the environment names unless given.
    #[cfg(feature = "cuda")]
    pub kernels: Option<&'a KernelStore>,
}

/// Where the coordinates of the rule begin, as a sliced block mask says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) b: u32,
    pub(crate) h: u32,
    pub(crate) kv: i64,
}

impl Origin {
    pub(crate) fn of(mask: Option<&BlockMask>) -> Self {
        mask.map_or_else(Self::default, |mask| {
            let geometry = mask.geometry();
            Self {
                b: geometry.batch_offset(),
                h: geometry.head_offset(),
                kv: geometry.kv_offset(),
            }
        })
    }
}

/// The shape of a call whose tensors fit one another, and whose positions are `i32`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) shape: CallShape,
    pub(crate) num_kv_heads: usize,
    pub(crate) d_qk: usize,
    pub(crate) d_v: usize,
    pub(crate) origin: Origin,
}

impl Frame {
    /// Checks shapes, lengths, positions, and that the block mask holds for them.
    pub(crate) fn new(
        [q, k, v]: [[usize; 4]; 3],
        q_offset: i64,
        block_mask: Option<&BlockMask>,
    ) -> Result<Self, AttentionError> {
        let [batch, num_q_heads, q_len, d_qk] = q;
        let [k_batch, num_kv_heads, kv_len, k_dim] = k;
        let [v_batch, v_heads, v_len, d_v] = v;
        let fault = if batch != k_batch || batch != v_batch {
            Some(CpuError::BatchMismatch {
                q: batch,
                k: k_batch,
                v: v_batch,
            })
        } else if num_kv_heads != v_heads {
            Some(CpuError::KvHeadMismatch {
                k: num_kv_heads,
                v: v_heads,
            })
        } else if num_q_heads != 0 && (num_kv_heads == 0 || num_q_heads % num_kv_heads != 0) {
            Some(CpuError::HeadRatio {
                num_q_heads,
                num_kv_heads,
            })
        } else if kv_len != v_len {
            Some(CpuError::KvLenMismatch {
                k: kv_len,
                v: v_len,
            })
        } else if d_qk != k_dim {
            Some(CpuError::HeadDimMismatch { q: d_qk, k: k_dim })
        } else if d_qk == 0 || d_v == 0 {
            Some(CpuError::ZeroHeadDim { qk: d_qk, v: d_v })
        } else {
            None
        };
        if let Some(fault) = fault {
            return Err(fault.into());
        }
        for (axis, found) in [
            ("batch", batch),
            ("num_q_heads", num_q_heads),
            ("q_len", q_len),
            ("kv_len", kv_len),
        ] {
            if i32::try_from(found).is_err() {
                return Err(AttentionError::TooLong { axis, found });
            }
        }
        let last = i128::from(q_offset) + (q_len as i128 - 1).max(0);
        if i32::try_from(q_offset).is_err() || i32::try_from(last).is_err() {
            return Err(AttentionError::Positions { q_offset, q_len });
        }
        let shape = CallShape {
            batch: batch as u32,
            heads: num_q_heads as u32,
            q_len: q_len as u64,
            kv_len: kv_len as u64,
            q_offset,
        };
        if let Some(mask) = block_mask {
            mask.check_call(
                shape.batch,
                shape.heads,
                shape.q_len,
                shape.kv_len,
                q_offset,
            )?;
        }
        Ok(Self {
            shape,
            num_kv_heads,
            d_qk,
            d_v,
            origin: Origin::of(block_mask),
        })
    }

    /// The factor of the dot products.
    #[cfg(feature = "cuda")]
    pub(crate) fn scale(&self, asked: Option<f32>) -> Result<f32, AttentionError> {
        scale(asked, self.d_qk)
    }
}

fn scale(asked: Option<f32>, d_qk: usize) -> Result<f32, AttentionError> {
    match asked {
        Some(found) if !found.is_finite() => Err(AttentionError::Scale { found }),
        Some(scale) => Ok(scale),
        None => Ok((1.0 / (d_qk as f64).sqrt()) as f32),
    }
}

/// A call whose shapes fit one another, and whose positions are `i32`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) q: TensorRef<'a>,
    pub(crate) k: TensorRef<'a>,
    pub(crate) v: TensorRef<'a>,
    pub(crate) shape: CallShape,
    pub(crate) num_kv_heads: usize,
    pub(crate) d_qk: usize,
    pub(crate) d_v: usize,
    pub(crate) origin: Origin,
}

impl<'a> Call<'a> {
    /// Checks shapes, lengths, positions, and that the block mask holds for them.
    pub(crate) fn new(
        q: TensorRef<'a>,
        k: TensorRef<'a>,
        v: TensorRef<'a>,
        q_offset: i64,
        block_mask: Option<&BlockMask>,
    ) -> Result<Self, AttentionError> {
        let shapes = [q.shape(), k.shape(), v.shape()];
        let Frame {
            shape,
            num_kv_heads,
            d_qk,
            d_v,
            origin,
        } = Frame::new(shapes, q_offset, block_mask)?;
        Ok(Self {
            q,
            k,
            v,
            shape,
            num_kv_heads,
            d_qk,
            d_v,
            origin,
        })
    }

    /// The factor of the dot products.
    pub(super) fn scale(&self, options: &ForwardOptions<'_>) -> Result<f32, AttentionError> {
        scale(options.sm_scale, self.d_qk)
    }

    /// Query rows over all batch entries and heads; `None` if no memory holds as many.
    pub(crate) fn n_rows(&self) -> Option<usize> {
        let [batch, heads, q_len, _] = self.q.shape();
        if batch == 0 || heads == 0 || q_len == 0 {
            return Some(0);
        }
        batch.checked_mul(heads)?.checked_mul(q_len)
    }

    /// Whether there is any cell to compute.
    pub(super) fn has_cells(&self) -> bool {
        0 < self.shape.batch
            && 0 < self.shape.heads
            && 0 < self.shape.q_len
            && 0 < self.shape.kv_len
    }

    /// The key head that a query head reads.
    pub(crate) fn kv_head(&self, h: usize) -> usize {
        // With no key head there is no query head either, and nobody asks.
        h / (self.shape.heads as usize / self.num_kv_heads.max(1)).max(1)
    }

    /// Checks the types and lengths of the outputs.
    pub(super) fn check_output(&self, output: &Output<'_>) -> Result<(), AttentionError> {
        let (q, out) = (self.q.dtype(), out_dtype(&output.out));
        if out != q && out != Dtype::F32 {
            return Err(AttentionError::OutputDtype { q, out });
        }
        let [batch, heads, q_len, _] = self.q.shape();
        let product = |factors: &[usize]| {
            if factors.contains(&0) {
                return 0;
            }
            let wide = factors.iter().map(|&n| n as u128);
            wide.fold(1, u128::saturating_mul)
        };
        let n_rows = product(&[batch, heads, q_len]);
        let side = |slice: &Option<&mut [f32]>| slice.as_ref().map(|s| s.len());
        for (name, expected, found) in [
            (
                "out",
                product(&[batch, heads, q_len, self.d_v]),
                Some(output.out.len()),
            ),
            ("lse", n_rows, side(&output.lse)),
            ("row_max", n_rows, side(&output.row_max)),
        ] {
            if let Some(found) = found
                && found as u128 != expected
            {
                return Err(AttentionError::Shape(CpuError::OutputLen {
                    name,
                    expected,
                    found,
                }));
            }
        }
        Ok(())
    }
}

fn out_dtype(out: &TensorDataMut<'_>) -> Dtype {
    match out {
        TensorDataMut::F32(_) => Dtype::F32,
        TensorDataMut::F16(_) => Dtype::F16,
        TensorDataMut::BF16(_) => Dtype::BF16,
    }
}
