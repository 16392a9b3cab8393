//! What a rule can capture from Rust: scalars, slices, vectors, shared slices and strided buffers.

use std::sync::Arc;

use half::{bf16, f16};
use maskwright_dsl::capture::{BufferData, BufferError, CaptureValue, CapturedBuffer};
use maskwright_dsl::ir::{Const, Elem};

/// An element type of a captured buffer, and the type that a read of it has in a rule.
pub trait Element: Copy + Send + Sync + 'static {
    /// `i32` for the small integers, `f32` for the other floats, the type itself otherwise.
    type Value: Copy;

    /// The element type in the rule language.
    const ELEM: Elem;

    /// The element as a rule sees it.
    fn load(self) -> Self::Value;

    /// Shares elements with the rule language.
    fn data(elements: Arc<[Self]>) -> BufferData;

    /// Takes elements back from the rule language.
    fn elements(data: &BufferData) -> Option<&Arc<[Self]>>;
}

macro_rules! element {
    ($($ty:ty => $value:ty, $variant:ident, |$x:ident| $load:expr;)*) => {$(
        impl Element for $ty {
            type Value = $value;
            const ELEM: Elem = Elem::$variant;

            fn load(self) -> $value {
                let $x = self;
                $load
            }

            fn data(elements: Arc<[Self]>) -> BufferData {
                BufferData::$variant(elements)
            }

            fn elements(data: &BufferData) -> Option<&Arc<[Self]>> {
                if let BufferData::$variant(elements) = data {
                    Some(elements)
                } else {
                    None
                }
            }
        }
    )*};
}

element! {
    bool => bool, Bool, |x| x;
    i8 => i32, I8, |x| i32::from(x);
    u8 => i32, U8, |x| i32::from(x);
    i16 => i32, I16, |x| i32::from(x);
    u16 => i32, U16, |x| i32::from(x);
    i32 => i32, I32, |x| x;
    i64 => i64, I64, |x| x;
    u32 => u32, U32, |x| x;
    f16 => f32, F16, |x| x.to_f32();
    bf16 => f32, Bf16, |x| x.to_f32();
    f32 => f32, F32, |x| x;
    f64 => f32, F64, |x| x as f32;
}

/// A strided buffer of `N` dimensions that rules may capture; cheap to clone.
///
/// # Example
/// ```
/// use maskwright::Buffer;
/// let table = Buffer::<f32, 2>::new(vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0], [2, 3])?;
/// assert_eq!(table.read([1, 2]), 5.0);
/// # Ok::<(), maskwright::BufferError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Buffer<T, const N: usize> {
    captured: CapturedBuffer,
    elements: Arc<[T]>,
}

impl<T: Element, const N: usize> Buffer<T, N> {
    /// A contiguous row-major buffer.
    ///
    /// # Errors
    /// [`BufferError::OutOfData`] if there are fewer elements than the shape has.
    pub fn new(elements: impl Into<Arc<[T]>>, shape: [usize; N]) -> Result<Self, BufferError> {
        let elements = elements.into();
        let captured = CapturedBuffer::new(T::data(Arc::clone(&elements)), shape.to_vec())?;
        Ok(Self { captured, elements })
    }

    /// A view with strides in elements from element `offset`.
    ///
    /// # Errors
    /// [`BufferError::OutOfData`] if the view reaches outside the elements.
    pub fn strided(
        elements: impl Into<Arc<[T]>>,
        shape: [usize; N],
        strides: [i64; N],
        offset: usize,
    ) -> Result<Self, BufferError> {
        let elements = elements.into();
        let data = T::data(Arc::clone(&elements));
        let captured = CapturedBuffer::strided(data, shape.to_vec(), strides.to_vec(), offset)?;
        Ok(Self { captured, elements })
    }

    /// A typed view of a captured buffer, if it has this element type and rank.
    pub fn from_captured(captured: &CapturedBuffer) -> Option<Self> {
        if captured.shape().len() != N {
            return None;
        }
        Some(Self {
            captured: captured.clone(),
            elements: Arc::clone(T::elements(captured.data())?),
        })
    }

    /// The buffer as rules hold it.
    pub fn captured(&self) -> &CapturedBuffer {
        &self.captured
    }

    /// Extents, outermost first.
    pub fn shape(&self) -> &[usize] {
        self.captured.shape()
    }

    /// The element at an index, as a rule sees it.
    ///
    /// # Panics
    /// If the index leaves its axis.
    #[track_caller]
    pub fn read<I: Index>(&self, index: [I; N]) -> T::Value {
        let index = index.map(Index::to_i64);
        let Some(at) = self.captured.element(&index) else {
            panic!(
                "index {index:?} leaves a buffer of shape {:?}",
                self.shape()
            );
        };
        self.elements[at].load()
    }
}

/// An integer that may index a captured buffer.
pub trait Index: Copy {
    /// The index in 64 bits.
    fn to_i64(self) -> i64;
}

macro_rules! index {
    ($($ty:ty),*) => {$(
        impl Index for $ty {
            fn to_i64(self) -> i64 {
                self as i64
            }
        }
    )*};
}

index!(i32, i64, u32, usize);

/// A value that `mask!` and `score!` can capture: it is held by value or shared.
pub trait Capture {
    /// What the rule keeps: a scalar, or a shared buffer.
    type Held: Send + Sync + 'static;

    /// Takes hold of the value.
    fn hold(&self) -> Self::Held;

    /// The value as the rule language sees it.
    fn value(held: &Self::Held) -> CaptureValue;
}

macro_rules! scalar_capture {
    ($($ty:ty => $variant:ident),*) => {$(
        impl Capture for $ty {
            type Held = $ty;

            fn hold(&self) -> $ty {
                *self
            }

            fn value(held: &$ty) -> CaptureValue {
                CaptureValue::Scalar(Const::$variant(*held))
            }
        }
    )*};
}

scalar_capture!(i32 => I32, i64 => I64, u32 => U32, f32 => F32, bool => Bool);

impl<T: Element> Capture for [T] {
    type Held = Buffer<T, 1>;

    fn hold(&self) -> Buffer<T, 1> {
        shared(Arc::from(self))
    }

    fn value(held: &Buffer<T, 1>) -> CaptureValue {
        CaptureValue::Buffer(held.captured.clone())
    }
}

impl<T: Element> Capture for Vec<T> {
    type Held = Buffer<T, 1>;

    fn hold(&self) -> Buffer<T, 1> {
        self.as_slice().hold()
    }

    fn value(held: &Buffer<T, 1>) -> CaptureValue {
        <[T]>::value(held)
    }
}

impl<T: Element, const K: usize> Capture for [T; K] {
    type Held = Buffer<T, 1>;

    fn hold(&self) -> Buffer<T, 1> {
        self.as_slice().hold()
    }

    fn value(held: &Buffer<T, 1>) -> CaptureValue {
        <[T]>::value(held)
    }
}

impl<T: Element> Capture for Arc<[T]> {
    type Held = Buffer<T, 1>;

    fn hold(&self) -> Buffer<T, 1> {
        shared(Arc::clone(self))
    }

    fn value(held: &Buffer<T, 1>) -> CaptureValue {
        <[T]>::value(held)
    }
}

impl<T: Element, const N: usize> Capture for Buffer<T, N> {
    type Held = Buffer<T, N>;

    fn hold(&self) -> Buffer<T, N> {
        self.clone()
    }

    fn value(held: &Buffer<T, N>) -> CaptureValue {
        CaptureValue::Buffer(held.captured.clone())
    }
}

impl<C: Capture + ?Sized> Capture for &C {
    type Held = C::Held;

    fn hold(&self) -> C::Held {
        (**self).hold()
    }

    fn value(held: &C::Held) -> CaptureValue {
        C::value(held)
    }
}

fn shared<T: Element>(elements: Arc<[T]>) -> Buffer<T, 1> {
    let len = elements.len();
    Buffer::new(elements, [len]).expect("a slice has as many elements as its length says")
}

/// A read in the author's own function: what `x[i]` on a capture becomes.
pub trait Read<I> {
    /// The element as a rule sees it.
    type Value;

    /// The element at `index`.
    ///
    /// # Panics
    /// If the index leaves the buffer: the message says which index and which length.
    #[track_caller]
    fn read_at(&self, index: I) -> Self::Value;
}

impl<T: Element, I: Index> Read<I> for [T] {
    type Value = T::Value;

    #[track_caller]
    fn read_at(&self, index: I) -> T::Value {
        let i = index.to_i64();
        let Some(element) = usize::try_from(i).ok().and_then(|i| self.get(i)) else {
            panic!("index {i} leaves a captured slice of length {}", self.len());
        };
        element.load()
    }
}

impl<T: Element, I: Index, const N: usize> Read<[I; N]> for Buffer<T, N> {
    type Value = T::Value;

    #[track_caller]
    fn read_at(&self, index: [I; N]) -> T::Value {
        self.read(index)
    }
}

impl<T: Element, I: Index> Read<I> for Buffer<T, 1> {
    type Value = T::Value;

    #[track_caller]
    fn read_at(&self, index: I) -> T::Value {
        self.read([index])
    }
}

impl<I, R: Read<I> + ?Sized> Read<I> for &R {
    type Value = R::Value;

    #[track_caller]
    fn read_at(&self, index: I) -> R::Value {
        (**self).read_at(index)
    }
}
