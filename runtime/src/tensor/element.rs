//! Elements as bytes, and the order they stand in.

use std::sync::Arc;

use half::{bf16, f16};

/// Which byte of a number comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Endian {
    Little,
    Big,
}

/// A byte that is no truth value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotABool {
    pub(super) index: usize,
    pub(super) byte: u8,
}

pub(super) trait Element: Copy {
    /// The value of exactly `size_of::<Self>()` bytes, or the byte that has none.
    fn read(bytes: &[u8], endian: Endian) -> Result<Self, u8>;
    fn append(self, bytes: &mut Vec<u8>);
}

macro_rules! number_elements {
    ($($number:ty)*) => {
        $(impl Element for $number {
            fn read(bytes: &[u8], endian: Endian) -> Result<Self, u8> {
                let bytes = bytes.try_into().expect("chunks have the size of an element");
                Ok(match endian {
                    Endian::Little => Self::from_le_bytes(bytes),
                    Endian::Big => Self::from_be_bytes(bytes),
                })
            }

            fn append(self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_le_bytes());
            }
        })*
    };
}

number_elements!(i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64);

impl Element for bool {
    fn read(bytes: &[u8], _endian: Endian) -> Result<Self, u8> {
        match bytes[0] {
            0 => Ok(false),
            1 => Ok(true),
            byte => Err(byte),
        }
    }

    fn append(self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(self));
    }
}

pub(super) fn to_le_bytes<T: Element>(data: &[T]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size_of_val(data));
    for &value in data {
        value.append(&mut bytes);
    }
    bytes
}

pub(super) fn from_bytes<T: Element>(bytes: &[u8], endian: Endian) -> Result<Arc<[T]>, NotABool> {
    bytes
        .chunks_exact(size_of::<T>())
        .enumerate()
        .map(|(index, chunk)| T::read(chunk, endian).map_err(|byte| NotABool { index, byte }))
        .collect()
}

/// Row-major elements from column-major ones, where the first dimension runs fastest.
pub(super) fn from_fortran_order<T: Copy>(data: &[T], shape: &[usize]) -> Arc<[T]> {
    // The next element of the result lies at `at`; `index` counts up as an odometer, the last dimension first.
    let mut index = vec![0; shape.len()];
    let mut at = 0;
    let strides: Vec<usize> = shape
        .iter()
        .scan(1_usize, |stride, &dim| {
            let this = *stride;
            // With a dimension of 0 there are no elements, and the strides are never used.
            *stride = this.saturating_mul(dim);
            Some(this)
        })
        .collect();
    (0..data.len())
        .map(|_| {
            let value = data[at];
            for axis in (0..shape.len()).rev() {
                index[axis] += 1;
                at += strides[axis];
                if index[axis] < shape[axis] {
                    break;
                }
                at -= strides[axis] * shape[axis];
                index[axis] = 0;
            }
            value
        })
        .collect()
}
