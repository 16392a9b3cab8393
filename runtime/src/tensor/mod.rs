//! Tensors in host memory, and the files that they come from and go to.

mod element;
mod error;
mod file;
mod npy;
mod safetensors_file;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use half::{bf16, f16};

pub use error::{NpyHeaderError, TensorFileError};
pub use file::{check_destination, read_tensor, write_tensor};

/// A dense tensor in row-major order.
///
/// No dimensions make a scalar with one element; a dimension of 0 makes a tensor without any.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// The extent of each dimension, outermost first.
    pub shape: Vec<usize>,
    /// The elements; cloning shares them.
    pub data: TensorData,
}

/// Why a shape and data make no tensor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// The shape and the data disagree.
    #[error("expected {expected} elements for shape {shape:?}, found {found}")]
    Count {
        /// The shape.
        shape: Vec<usize>,
        /// The product of its dimensions.
        expected: usize,
        /// The elements there are.
        found: usize,
    },
    /// No memory holds so many elements.
    #[error("expected a shape whose elements can be counted in 64 bits, found {shape:?}")]
    TooLarge {
        /// The shape.
        shape: Vec<usize>,
    },
}

/// Writes out the element types once: the enums, their names and the conversions from Rust values.
macro_rules! element_types {
    ($($variant:ident, $element:ty, $name:literal;)*) => {
        /// The type of a tensor's elements.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Dtype {
            $(#[doc = concat!("`", $name, "`.")] $variant,)*
        }

        impl Dtype {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name in Rust, which is how it is shown.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The bytes of one element, in memory and in files.
            pub fn bytes(self) -> usize {
                match self {
                    $(Self::$variant => size_of::<$element>(),)*
                }
            }
        }

        /// The elements of a tensor.
        #[derive(Debug, Clone, PartialEq)]
        pub enum TensorData {
            $(#[doc = concat!("Elements of type `", $name, "`.")] $variant(Arc<[$element]>),)*
        }

        impl TensorData {
            /// How many elements there are.
            pub fn len(&self) -> usize {
                match self {
                    $(Self::$variant(data) => data.len(),)*
                }
            }

            /// The type of the elements.
            pub fn dtype(&self) -> Dtype {
                match self {
                    $(Self::$variant(_) => Dtype::$variant,)*
                }
            }

            /// The elements as a file stores them, little-endian.
            fn to_le_bytes(&self) -> Vec<u8> {
                match self {
                    $(Self::$variant(data) => element::to_le_bytes(data),)*
                }
            }

            /// The elements that a file stores; its length must be a multiple of the element's.
            fn from_bytes(
                dtype: Dtype,
                bytes: &[u8],
                endian: element::Endian,
            ) -> Result<Self, element::NotABool> {
                Ok(match dtype {
                    $(Dtype::$variant => Self::$variant(element::from_bytes(bytes, endian)?),)*
                })
            }

            /// Row-major elements from column-major ones.
            fn into_row_major(self, shape: &[usize]) -> Self {
                match self {
                    $(Self::$variant(data) => {
                        Self::$variant(element::from_fortran_order(&data, shape))
                    })*
                }
            }
        }

        $(
            impl From<Vec<$element>> for TensorData {
                fn from(data: Vec<$element>) -> Self {
                    Self::$variant(data.into())
                }
            }

            impl From<Arc<[$element]>> for TensorData {
                fn from(data: Arc<[$element]>) -> Self {
                    Self::$variant(data)
                }
            }
        )*
    };
}

element_types! {
    Bool, bool, "bool";
    I8, i8, "i8";
    U8, u8, "u8";
    I16, i16, "i16";
    U16, u16, "u16";
    I32, i32, "i32";
    U32, u32, "u32";
    I64, i64, "i64";
    U64, u64, "u64";
    F16, f16, "f16";
    BF16, bf16, "bf16";
    F32, f32, "f32";
    F64, f64, "f64";
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl TensorData {
    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements as `f32`, rounded to nearest where it cannot hold them; `true` is 1.
    pub fn to_f32_vec(&self) -> Vec<f32> {
        fn map<T: Copy>(data: &[T], convert: impl Fn(T) -> f32) -> Vec<f32> {
            data.iter().map(|&value| convert(value)).collect()
        }
        match self {
            Self::Bool(data) => map(data, |value| f32::from(u8::from(value))),
            Self::I8(data) => map(data, f32::from),
            Self::U8(data) => map(data, f32::from),
            Self::I16(data) => map(data, f32::from),
            Self::U16(data) => map(data, f32::from),
            Self::I32(data) => map(data, |value| value as f32),
            Self::U32(data) => map(data, |value| value as f32),
            Self::I64(data) => map(data, |value| value as f32),
            Self::U64(data) => map(data, |value| value as f32),
            Self::F16(data) => map(data, f16::to_f32),
            Self::BF16(data) => map(data, bf16::to_f32),
            Self::F32(data) => data.to_vec(),
            Self::F64(data) => map(data, |value| value as f32),
        }
    }
}

impl Tensor {
    /// Puts a shape and elements together.
    ///
    /// # Example
    /// ```
    /// use maskwright::tensor::Tensor;
    ///
    /// let table = Tensor::new([2, 3], vec![1_i32, 2, 3, 4, 5, 6])?;
    /// assert_eq!(table.to_f32_vec(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    ///
    /// let error = Tensor::new([2, 3], vec![1_i32, 2, 3]).unwrap_err();
    /// assert_eq!(error.to_string(), "expected 6 elements for shape [2, 3], found 3");
    /// # Ok::<(), maskwright::tensor::ShapeError>(())
    /// ```
    ///
    /// # Errors
    /// [`ShapeError`] if the shape's product is not the number of elements.
    pub fn new(
        shape: impl Into<Vec<usize>>,
        data: impl Into<TensorData>,
    ) -> Result<Self, ShapeError> {
        let tensor = Self {
            shape: shape.into(),
            data: data.into(),
        };
        tensor.check()?;
        Ok(tensor)
    }

    /// The type of the elements.
    pub fn dtype(&self) -> Dtype {
        self.data.dtype()
    }

    /// The elements as `f32`, rounded to nearest where it cannot hold them; `true` is 1.
    pub fn to_f32_vec(&self) -> Vec<f32> {
        self.data.to_f32_vec()
    }

    /// The fields are open, so what [`Tensor::new`] promises is checked again where it counts.
    fn check(&self) -> Result<(), ShapeError> {
        let expected = element_count(&self.shape).ok_or_else(|| ShapeError::TooLarge {
            shape: self.shape.clone(),
        })?;
        if expected != self.data.len() {
            return Err(ShapeError::Count {
                shape: self.shape.clone(),
                expected,
                found: self.data.len(),
            });
        }
        Ok(())
    }
}

/// The product of the dimensions, or `None` where it leaves `usize`; a 0 anywhere makes it 0.
fn element_count(shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape
        .iter()
        .try_fold(1_usize, |count, &dim| count.checked_mul(dim))
}
