//! Reads in the author's own function: what `x[i]` on a capture becomes.

use super::{Buffer, Element, Slice};

/// An integer that may index a captured buffer.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot index a captured buffer",
    label = "expected an integer"
)]
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

index!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);

/// A captured buffer of `N` axes in the author's own function.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be read with {N} indices",
    label = "not a buffer of {N} axes"
)]
pub trait Read<const N: usize> {
    /// The element as a rule sees it.
    type Value;

    /// The element at `index`.
    ///
    /// # Panics
    /// If the index leaves the buffer: the message says which index and which length.
    #[track_caller]
    fn read_at(&self, index: [i64; N]) -> Self::Value;
}

impl<T: Element<Stored = T>> Read<1> for [T] {
    type Value = T::Value;

    #[track_caller]
    fn read_at(&self, [i]: [i64; 1]) -> T::Value {
        let len = self.len();
        match usize::try_from(i) {
            Ok(at) if at < len => T::load(self, at),
            Ok(_) | Err(_) => panic!("index {i} leaves a captured slice of length {len}"),
        }
    }
}

impl<T: Element<Stored = T>> Read<1> for Slice<T> {
    type Value = T::Value;

    #[track_caller]
    fn read_at(&self, index: [i64; 1]) -> T::Value {
        (**self).read_at(index)
    }
}

impl<T: Element, const N: usize> Read<N> for Buffer<T, N> {
    type Value = T::Value;

    #[track_caller]
    fn read_at(&self, index: [i64; N]) -> T::Value {
        self.read(index)
    }
}

/// The element of a buffer at an index.
///
/// # Panics
/// If the index leaves the buffer.
#[track_caller]
pub fn read<B: Read<N> + ?Sized, const N: usize>(buffer: &B, index: [i64; N]) -> B::Value {
    buffer.read_at(index)
}
