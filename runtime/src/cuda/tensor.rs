//! Tensors in the memory of a machine, as kernels read and write them.

use maskwright_codegen::spec::Float;

use super::params::TensorAt;
use crate::device::{DeviceView, DeviceViewMut};

/// Why a tensor cannot be used where it lies.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// Kernels read rows as they lie.
    #[error("{name} must be contiguous along the head dimension, found stride {found}")]
    Contiguous {
        /// The tensor.
        name: &'static str,
        /// Stride of the last axis, in elements.
        found: usize,
    },
    /// Kernels copy 16 bytes at a time.
    #[error("{name} must begin at a multiple of {ALIGNMENT} bytes, found address {address:#x}")]
    Address {
        /// The tensor.
        name: &'static str,
        /// Its address.
        address: u64,
    },
    /// Kernels copy 16 bytes at a time.
    #[error(
        "strides of {name} must be multiples of {ALIGNMENT} bytes, found {strides:?} elements of {element_bytes} bytes"
    )]
    Stride {
        /// The tensor.
        name: &'static str,
        /// Strides of batch, head and row, in elements.
        strides: [usize; 3],
        /// Bytes of an element.
        element_bytes: u32,
    },
    /// An element lies beyond the memory.
    #[error(
        "{name} of shape {shape:?} and strides {strides:?} takes {needed} bytes, found {found}"
    )]
    TooShort {
        /// The tensor.
        name: &'static str,
        /// Its shape.
        shape: [usize; 4],
        /// Its strides, in elements.
        strides: [usize; 4],
        /// Bytes from the first element to the end of the last.
        needed: u128,
        /// Bytes of the memory.
        found: usize,
    },
    /// Two elements of an output share a place.
    #[error("elements of {name} lie on one another: shape {shape:?}, strides {strides:?}")]
    Overlap {
        /// The tensor.
        name: &'static str,
        /// Its shape.
        shape: [usize; 4],
        /// Its strides, in elements.
        strides: [usize; 4],
    },
    /// A side output is not as long as the call has rows.
    #[error("{name} must have {expected} bytes, found {found}")]
    Rows {
        /// `lse` or `row_max`.
        name: &'static str,
        /// Bytes of one `f32` per row.
        expected: u128,
        /// Bytes of the memory.
        found: usize,
    },
}

/// Bytes that kernels copy at once.
const ALIGNMENT: u64 = 16;

/// A tensor that is read, `[batch, heads, length, head_dim]`.
#[derive(Clone, Copy, Debug)]
pub struct DeviceTensor<'a> {
    /// Its memory, from element `[0, 0, 0, 0]` on.
    pub memory: DeviceView<'a>,
    /// Element type.
    pub dtype: Float,
    /// Extents.
    pub shape: [usize; 4],
    /// Strides, in elements; that of an axis may be 0, so that all of its entries are one.
    pub strides: [usize; 4],
}

/// A tensor that is written, `[batch, heads, length, head_dim]`.
#[derive(Debug)]
pub struct DeviceTensorMut<'a> {
    /// Its memory, from element `[0, 0, 0, 0]` on.
    pub memory: DeviceViewMut<'a>,
    /// Element type.
    pub dtype: Float,
    /// Extents.
    pub shape: [usize; 4],
    /// Strides, in elements.
    pub strides: [usize; 4],
}

/// Row-major strides of a shape.
pub(crate) fn row_major(shape: [usize; 4]) -> [usize; 4] {
    let row = shape[3];
    let head = row.saturating_mul(shape[2]);
    [head.saturating_mul(shape[1]), head, row, 1]
}

impl<'a> DeviceTensor<'a> {
    /// A tensor in row-major order.
    pub fn contiguous(memory: DeviceView<'a>, dtype: Float, shape: [usize; 4]) -> Self {
        Self {
            memory,
            dtype,
            shape,
            strides: row_major(shape),
        }
    }

    pub(crate) fn place(&self, name: &'static str) -> Result<TensorAt, LayoutError> {
        let layout = Layout {
            name,
            address: self.memory.address(),
            bytes: self.memory.bytes(),
            dtype: self.dtype,
            shape: self.shape,
            strides: self.strides,
        };
        layout.place()
    }
}

impl<'a> DeviceTensorMut<'a> {
    /// A tensor in row-major order.
    pub fn contiguous(memory: DeviceViewMut<'a>, dtype: Float, shape: [usize; 4]) -> Self {
        Self {
            memory,
            dtype,
            shape,
            strides: row_major(shape),
        }
    }

    pub(crate) fn place(&self, name: &'static str) -> Result<TensorAt, LayoutError> {
        let layout = Layout {
            name,
            address: self.memory.address(),
            bytes: self.memory.bytes(),
            dtype: self.dtype,
            shape: self.shape,
            strides: self.strides,
        };
        let place = layout.place()?;
        layout.check_apart()?;
        Ok(place)
    }
}

struct Layout {
    name: &'static str,
    address: u64,
    bytes: usize,
    dtype: Float,
    shape: [usize; 4],
    strides: [usize; 4],
}

impl Layout {
    fn place(&self) -> Result<TensorAt, LayoutError> {
        let Self {
            name,
            address,
            bytes,
            dtype,
            shape,
            strides,
        } = *self;
        if shape.contains(&0) {
            return Ok(TensorAt::default());
        }
        if strides[3] != 1 && shape[3] != 1 {
            return Err(LayoutError::Contiguous {
                name,
                found: strides[3],
            });
        }
        if !address.is_multiple_of(ALIGNMENT) {
            return Err(LayoutError::Address { name, address });
        }
        let [batch, head, row, _] = strides;
        let element_bytes = dtype.bytes();
        let misaligned = |axis: usize| {
            let stride_bytes = strides[axis] as u128 * u128::from(element_bytes);
            1 < shape[axis] && !stride_bytes.is_multiple_of(ALIGNMENT.into())
        };
        if (0..3).any(misaligned) {
            return Err(LayoutError::Stride {
                name,
                strides: [batch, head, row],
                element_bytes,
            });
        }
        let last = shape
            .iter()
            .zip(&strides)
            .fold(0u128, |last, (&n, &stride)| {
                last.saturating_add((n as u128 - 1).saturating_mul(stride as u128))
            });
        let needed = last.saturating_add(1).saturating_mul(element_bytes.into());
        if (bytes as u128) < needed {
            return Err(LayoutError::TooShort {
                name,
                shape,
                strides,
                needed,
                found: bytes,
            });
        }
        // In range: the last element lies in memory. An axis of one entry has no step.
        let step = |axis: usize| {
            if shape[axis] == 1 {
                0
            } else {
                strides[axis] as i64
            }
        };
        Ok(TensorAt {
            address,
            strides: [step(0), step(1), step(2)],
        })
    }

    /// Two elements could share a place unless each axis, from the smallest stride on, steps over those before it.
    fn check_apart(&self) -> Result<(), LayoutError> {
        if self.shape.contains(&0) {
            return Ok(());
        }
        let mut axes: Vec<(usize, usize)> = self
            .strides
            .into_iter()
            .zip(self.shape)
            .filter(|(_, extent)| 1 < *extent)
            .collect();
        axes.sort_unstable();
        let mut reach = 1u128;
        for (stride, extent) in axes {
            if (stride as u128) < reach {
                return Err(LayoutError::Overlap {
                    name: self.name,
                    shape: self.shape,
                    strides: self.strides,
                });
            }
            reach = (stride as u128).saturating_mul(extent as u128);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(address: u64, shape: [usize; 4], strides: [usize; 4], bytes: usize) -> Option<String> {
        // SAFETY is not at stake: nothing reads the memory.
        let layout = Layout {
            name: "k",
            address,
            bytes,
            dtype: Float::F16,
            shape,
            strides,
        };
        layout.place().err().map(|error| error.to_string())
    }

    #[test]
    fn a_refusal_names_the_numbers() {
        let shape = [2, 3, 5, 16];
        let row_major = row_major(shape);
        let bytes = 2 * 3 * 5 * 16 * 2;
        assert_eq!(check(256, shape, row_major, bytes), None);
        assert_eq!(
            check(256, shape, row_major, bytes - 1).as_deref(),
            Some(
                "k of shape [2, 3, 5, 16] and strides [240, 80, 16, 1] takes 960 bytes, found 959"
            )
        );
        assert_eq!(
            check(264, shape, row_major, bytes).as_deref(),
            Some("k must begin at a multiple of 16 bytes, found address 0x108")
        );
        assert_eq!(
            check(256, shape, [240, 80, 1, 5], bytes).as_deref(),
            Some("k must be contiguous along the head dimension, found stride 5")
        );
        assert_eq!(
            check(256, shape, [300, 100, 20, 1], 2000).as_deref(),
            Some(
                "strides of k must be multiples of 16 bytes, found [300, 100, 20] elements of 2 bytes"
            )
        );
        // Heads between rows, one key head for all, and an empty tensor.
        assert_eq!(check(256, shape, [240, 16, 48, 1], bytes), None);
        assert_eq!(check(256, shape, [80, 0, 16, 1], bytes), None);
        assert_eq!(check(0, [2, 3, 0, 16], [0; 4], 0), None);
    }

    #[test]
    fn an_output_may_not_lie_on_itself() {
        let layout = |strides| Layout {
            name: "out",
            address: 0,
            bytes: 1 << 20,
            dtype: Float::F16,
            shape: [2, 3, 5, 16],
            strides,
        };
        assert_eq!(layout([240, 16, 48, 1]).check_apart(), Ok(()));
        assert!(layout([240, 0, 16, 1]).check_apart().is_err());
        assert!(layout([240, 64, 16, 1]).check_apart().is_err());
    }
}
