//! Strided views of `[B, H, L, D]` tensors, and the contiguous outputs.

use std::fmt;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use crate::error::CpuError;

/// An element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DType {
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// The upper half of binary32.
    BF16,
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
        })
    }
}

/// The elements behind a view.
#[derive(Debug, Clone, Copy)]
pub enum TensorData<'a> {
    /// f32 elements.
    F32(&'a [f32]),
    /// f16 elements.
    F16(&'a [f16]),
    /// bf16 elements.
    BF16(&'a [bf16]),
}

impl TensorData<'_> {
    /// The element type.
    pub fn dtype(&self) -> DType {
        match self {
            Self::F32(_) => DType::F32,
            Self::F16(_) => DType::F16,
            Self::BF16(_) => DType::BF16,
        }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(data) => data.len(),
            Self::F16(data) => data.len(),
            Self::BF16(data) => data.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A strided, read-only view of shape `[batch, heads, length, head_dim]`.
///
/// Strides are in elements and may be anything, 0 and negative included; the constructor proves
/// that every element of the view lies in the slice.
#[derive(Debug, Clone, Copy)]
pub struct TensorRef<'a> {
    data: TensorData<'a>,
    shape: [usize; 4],
    strides: [isize; 4],
    offset: usize,
}

impl<'a> TensorRef<'a> {
    /// Makes a view whose element `[0, 0, 0, 0]` is `data[offset]`.
    ///
    /// # Errors
    /// [`CpuError::ViewOutOfBounds`] if an element of the view lies outside of `data`.
    pub fn new(
        data: TensorData<'a>,
        shape: [usize; 4],
        strides: [isize; 4],
        offset: usize,
    ) -> Result<Self, CpuError> {
        // 128 bits hold any product of two extents; the sum saturates, and stays out of range.
        let mut lowest = offset as i128;
        let mut highest = offset as i128;
        for (&extent, &stride) in shape.iter().zip(&strides) {
            let reach = (extent as i128 - 1) * stride as i128;
            lowest = lowest.saturating_add(reach.min(0));
            highest = highest.saturating_add(reach.max(0));
        }
        let saturate = |index: i128| index.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        let empty = shape.contains(&0);
        if !empty && (lowest < 0 || data.len() as i128 <= highest) {
            return Err(CpuError::ViewOutOfBounds {
                shape,
                strides,
                offset,
                lowest: saturate(lowest),
                highest: saturate(highest),
                len: data.len(),
            });
        }
        Ok(Self {
            data,
            shape,
            strides,
            offset,
        })
    }

    /// Makes a view of `data` in row-major order.
    ///
    /// # Errors
    /// [`CpuError::ViewOutOfBounds`] if `data` is shorter than the shape asks for.
    pub fn contiguous(data: TensorData<'a>, shape: [usize; 4]) -> Result<Self, CpuError> {
        // A stride that overflows belongs to a view larger than any slice; saturated, it is refused.
        let row = shape[3];
        let head = row.saturating_mul(shape[2]);
        let batch = head.saturating_mul(shape[1]);
        let stride = |extent: usize| isize::try_from(extent).unwrap_or(isize::MAX);
        Self::new(
            data,
            shape,
            [stride(batch), stride(head), stride(row), 1],
            0,
        )
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
    pub fn dtype(&self) -> DType {
        self.data.dtype()
    }

    /// Reads row `(b, h, l)` as f32 into `out`, which holds `head_dim` elements.
    pub(crate) fn read_row(&self, b: usize, h: usize, l: usize, out: &mut [f32]) {
        debug_assert_eq!(out.len(), self.shape[3]);
        // In range by the constructor's proof, so the sum cannot leave isize.
        let start = self.offset as isize
            + b as isize * self.strides[0]
            + h as isize * self.strides[1]
            + l as isize * self.strides[2];
        let start = start as usize;
        if self.strides[3] == 1 {
            let end = start + out.len();
            match self.data {
                TensorData::F32(data) => out.copy_from_slice(&data[start..end]),
                TensorData::F16(data) => data[start..end].convert_to_f32_slice(out),
                TensorData::BF16(data) => {
                    for (x, y) in out.iter_mut().zip(&data[start..end]) {
                        *x = y.to_f32();
                    }
                }
            }
            return;
        }
        let at = |d: usize| (start as isize + d as isize * self.strides[3]) as usize;
        for (d, x) in out.iter_mut().enumerate() {
            *x = match self.data {
                TensorData::F32(data) => data[at(d)],
                TensorData::F16(data) => data[at(d)].to_f32(),
                TensorData::BF16(data) => data[at(d)].to_f32(),
            };
        }
    }
}

/// A contiguous output.
#[derive(Debug)]
pub enum TensorDataMut<'a> {
    /// f32 elements.
    F32(&'a mut [f32]),
    /// f16 elements, rounded to nearest even.
    F16(&'a mut [f16]),
    /// bf16 elements, rounded to nearest even.
    BF16(&'a mut [bf16]),
}

impl TensorDataMut<'_> {
    /// The element type.
    pub fn dtype(&self) -> DType {
        match self {
            Self::F32(_) => DType::F32,
            Self::F16(_) => DType::F16,
            Self::BF16(_) => DType::BF16,
        }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(data) => data.len(),
            Self::F16(data) => data.len(),
            Self::BF16(data) => data.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the first `len` elements off.
    pub(crate) fn split_off_front(&mut self, len: usize) -> Self {
        let why = "the length of the output was checked";
        match self {
            Self::F32(data) => Self::F32(data.split_off_mut(..len).expect(why)),
            Self::F16(data) => Self::F16(data.split_off_mut(..len).expect(why)),
            Self::BF16(data) => Self::BF16(data.split_off_mut(..len).expect(why)),
        }
    }

    /// Rounds `row` into the elements from `start` on.
    pub(crate) fn write(&mut self, start: usize, row: &[f32]) {
        let end = start + row.len();
        match self {
            Self::F32(data) => data[start..end].copy_from_slice(row),
            Self::F16(data) => data[start..end].convert_from_f32_slice(row),
            Self::BF16(data) => {
                for (x, y) in data[start..end].iter_mut().zip(row) {
                    *x = bf16::from_f32(*y);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_past_the_end_is_refused_with_its_numbers() {
        let data = [0.0; 24];
        let error = TensorRef::contiguous(TensorData::F32(&data), [1, 2, 3, 5]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "view of shape [1, 2, 3, 5] with strides [30, 15, 5, 1] at offset 0 reaches elements \
             0..=29, but the data holds 24"
        );
    }

    #[test]
    fn a_view_before_the_start_is_refused() {
        let data = [0.0; 24];
        let view =
            |offset| TensorRef::new(TensorData::F32(&data), [1, 1, 3, 4], [0, 0, -4, 1], offset);
        assert!(matches!(
            view(7),
            Err(CpuError::ViewOutOfBounds { lowest: -1, .. })
        ));
        assert!(view(8).is_ok());
    }

    #[test]
    fn huge_extents_do_not_wrap() {
        let data = [0.0; 4];
        let huge = [usize::MAX, usize::MAX, 3, 2];
        assert!(TensorRef::contiguous(TensorData::F32(&data), huge).is_err());
        // Stride 0 reaches one element, however large the extents are.
        assert!(TensorRef::new(TensorData::F32(&data), huge, [0; 4], 3).is_ok());
        assert!(TensorRef::new(TensorData::F32(&data), huge, [0; 4], 4).is_err());
        // An empty view reaches nothing.
        assert!(TensorRef::new(TensorData::F32(&data), [0, 9, 9, 9], [1; 4], 999).is_ok());
    }

    #[test]
    fn rows_are_read_through_any_strides() {
        let data: Vec<f32> = (0..24_u8).map(f32::from).collect();
        let halves: Vec<f16> = data.iter().map(|x| f16::from_f32(*x)).collect();
        let brains: Vec<bf16> = data.iter().map(|x| bf16::from_f32(*x)).collect();
        for data in [
            TensorData::F32(&data),
            TensorData::F16(&halves),
            TensorData::BF16(&brains),
        ] {
            let mut row = [0.0; 3];
            let view = TensorRef::new(data, [1, 2, 4, 3], [0, 12, 3, 1], 0).unwrap();
            view.read_row(0, 1, 2, &mut row);
            assert_eq!(row, [18.0, 19.0, 20.0]);
            let view = TensorRef::new(data, [1, 2, 4, 3], [0, -12, 1, 4], 12).unwrap();
            view.read_row(0, 1, 2, &mut row);
            assert_eq!(row, [2.0, 6.0, 10.0]);
        }
    }
}
