//! Strided buffers that rules capture, and what becomes one.

use std::sync::Arc;

use maskwright_dsl::capture::{BufferError, CapturedBuffer};

use super::{Bits, Element, Index};

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
pub struct Buffer<T: Element, const N: usize> {
    captured: CapturedBuffer,
    elements: Arc<[T::Stored]>,
}

impl<T: Element<Stored = T>, const N: usize> Buffer<T, N> {
    /// A contiguous row-major buffer.
    ///
    /// # Errors
    /// [`BufferError::OutOfData`] if there are fewer elements than the shape has.
    pub fn new(elements: impl Into<Arc<[T]>>, shape: [usize; N]) -> Result<Self, BufferError> {
        Self::contiguous(elements.into(), shape)
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
}

impl<const N: usize> Buffer<Bits, N> {
    /// A contiguous row-major buffer of packed booleans, eight in a byte, the lowest bit first.
    ///
    /// # Errors
    /// [`BufferError::OutOfData`] if there are fewer bits than the shape has.
    pub fn from_bits(bytes: impl Into<Arc<[u8]>>, shape: [usize; N]) -> Result<Self, BufferError> {
        Self::contiguous(bytes.into(), shape)
    }
}

impl<T: Element, const N: usize> Buffer<T, N> {
    fn contiguous(elements: Arc<[T::Stored]>, shape: [usize; N]) -> Result<Self, BufferError> {
        let captured = CapturedBuffer::new(T::data(Arc::clone(&elements)), shape.to_vec())?;
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
        T::load(&self.elements, at)
    }
}

impl<T: Element<Stored = T>> Buffer<T, 1> {
    /// The elements, if they lie side by side.
    pub(super) fn as_slice(&self) -> Option<&[T]> {
        let (len, start) = (self.captured.len(), self.captured.offset());
        (len <= 1 || self.captured.strides() == [1])
            .then(|| self.elements.get(start..start + len))?
    }

    /// The elements in order.
    pub(super) fn to_shared(&self) -> Arc<[T]> {
        let mut elements = Vec::with_capacity(self.captured.len());
        self.captured
            .for_each_element(|at| elements.push(self.elements[at]));
        elements.into()
    }
}

/// A value that `bind` of an annotated function takes for a buffer of `N` dimensions: a [`Buffer`], or for one
/// dimension a slice, a `Vec`, an array or an `Arc` of a slice. What is shared already is not copied.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no buffer of `{T}` with {N} axes",
    note = "one axis takes `&[T]`, `Vec<T>`, `[T; K]` or `Arc<[T]>`; any number of axes takes `Buffer<T, N>`"
)]
pub trait IntoBuffer<T: Element, const N: usize> {
    /// The buffer.
    fn into_buffer(self) -> Buffer<T, N>;
}

impl<T: Element, const N: usize> IntoBuffer<T, N> for Buffer<T, N> {
    fn into_buffer(self) -> Buffer<T, N> {
        self
    }
}

impl<T: Element, const N: usize> IntoBuffer<T, N> for &Buffer<T, N> {
    fn into_buffer(self) -> Buffer<T, N> {
        self.clone()
    }
}

macro_rules! into_buffer {
    ($([$($generics:tt)*] $ty:ty, |$x:ident| $shared:expr;)*) => {$(
        impl<T: Element<Stored = T>, $($generics)*> IntoBuffer<T, 1> for $ty {
            fn into_buffer(self) -> Buffer<T, 1> {
                let $x = self;
                shared($shared)
            }
        }
    )*};
}

into_buffer! {
    [] &[T], |x| Arc::from(x);
    [] Vec<T>, |x| Arc::from(x);
    [] &Vec<T>, |x| Arc::from(x.as_slice());
    [] Box<[T]>, |x| Arc::from(x);
    [] Arc<[T]>, |x| x;
    [] &Arc<[T]>, |x| Arc::clone(x);
    [const K: usize] [T; K], |x| Arc::new(x);
    [const K: usize] &[T; K], |x| Arc::from(x.as_slice());
}

/// A buffer of all elements of a shared slice.
pub(super) fn shared<T: Element<Stored = T>>(elements: Arc<[T]>) -> Buffer<T, 1> {
    let len = elements.len();
    Buffer::new(elements, [len]).expect("a slice has as many elements as its length says")
}
