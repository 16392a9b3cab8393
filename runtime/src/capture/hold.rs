//! What `mask!` and `score!` can capture, and how a rule holds it.

use std::ops::Deref;
use std::sync::Arc;

use maskwright_dsl::capture::CaptureValue;
use maskwright_dsl::ir::Const;

use super::buffer::shared;
use super::{Buffer, Element, IntoBuffer};

/// A value that `mask!` and `score!` can capture. The rule holds scalars by value and buffers shared: slices, arrays
/// and `Vec`s are copied once each time that the macro runs, an `Arc<[T]>` or a [`Buffer`] is not copied.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be captured by a rule",
    label = "neither a scalar nor a buffer of a rule",
    note = "scalars are `i32`, `i64`, `u32`, `f32` and `bool`; buffers are slices, arrays, `Vec`s and `Arc`s of elements, and `Buffer<T, N>`"
)]
pub trait Capture {
    /// What the rule keeps.
    type Held: Held;

    /// Takes hold of the value.
    fn hold(&self) -> Self::Held;
}

/// A captured value as a rule keeps it.
pub trait Held: Send + Sync + 'static {
    /// What the author's expression sees: the scalar, or a reference to the buffer.
    type Seen<'a>;

    /// The value for the author's expression.
    fn see(&self) -> Self::Seen<'_>;

    /// The value for the rule language.
    fn value(&self) -> CaptureValue;

    /// Its type in the rule language.
    fn declared() -> String;
}

/// The elements of a captured slice, array or vector, side by side; derefs to `[T]`, so that `&x` is what a function
/// with a parameter `x: &[T]` takes.
#[derive(Clone, Debug)]
pub struct Slice<T: Element> {
    buffer: Buffer<T, 1>,
    /// The same elements, where those of the buffer do not lie side by side.
    moved: Option<Arc<[T]>>,
}

impl<T: Element<Stored = T>> Slice<T> {
    /// The elements of a buffer, copied only if there are gaps between them.
    pub fn new(buffer: &Buffer<T, 1>) -> Self {
        Self {
            moved: buffer
                .as_slice()
                .is_none()
                .then(|| Buffer::to_shared(buffer)),
            buffer: buffer.clone(),
        }
    }
}

impl<T: Element<Stored = T>> Deref for Slice<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.moved {
            Some(moved) => moved,
            None => self
                .buffer
                .as_slice()
                .expect("elements with gaps were moved"),
        }
    }
}

macro_rules! scalar {
    ($($ty:ty => $variant:ident),*) => {$(
        impl Capture for $ty {
            type Held = $ty;

            fn hold(&self) -> $ty {
                *self
            }
        }

        impl Held for $ty {
            type Seen<'a> = $ty;

            fn see(&self) -> $ty {
                *self
            }

            fn value(&self) -> CaptureValue {
                CaptureValue::Scalar(Const::$variant(*self))
            }

            fn declared() -> String {
                stringify!($ty).to_owned()
            }
        }
    )*};
}

scalar!(i32 => I32, i64 => I64, u32 => U32, f32 => F32, bool => Bool);

impl<T: Element, const N: usize> Held for Buffer<T, N> {
    type Seen<'a> = &'a Self;

    fn see(&self) -> &Self {
        self
    }

    fn value(&self) -> CaptureValue {
        CaptureValue::Buffer(self.captured().clone())
    }

    fn declared() -> String {
        format!("Buffer<{}, {N}>", T::ELEM)
    }
}

impl<T: Element> Held for Slice<T> {
    type Seen<'a> = &'a Self;

    fn see(&self) -> &Self {
        self
    }

    fn value(&self) -> CaptureValue {
        self.buffer.value()
    }

    fn declared() -> String {
        Buffer::<T, 1>::declared()
    }
}

impl<T: Element, const N: usize> Capture for Buffer<T, N> {
    type Held = Buffer<T, N>;

    fn hold(&self) -> Buffer<T, N> {
        self.clone()
    }
}

impl<T: Element<Stored = T>> Capture for [T] {
    type Held = Slice<T>;

    fn hold(&self) -> Slice<T> {
        Slice::new(&self.into_buffer())
    }
}

impl<T: Element<Stored = T>> Capture for Vec<T> {
    type Held = Slice<T>;

    fn hold(&self) -> Slice<T> {
        self.as_slice().hold()
    }
}

impl<T: Element<Stored = T>, const K: usize> Capture for [T; K] {
    type Held = Slice<T>;

    fn hold(&self) -> Slice<T> {
        self.as_slice().hold()
    }
}

impl<T: Element<Stored = T>> Capture for Box<[T]> {
    type Held = Slice<T>;

    fn hold(&self) -> Slice<T> {
        (**self).hold()
    }
}

impl<T: Element<Stored = T>> Capture for Arc<[T]> {
    type Held = Slice<T>;

    fn hold(&self) -> Slice<T> {
        Slice::new(&shared(Arc::clone(self)))
    }
}

impl<C: Capture + ?Sized> Capture for &C {
    type Held = C::Held;

    fn hold(&self) -> C::Held {
        (**self).hold()
    }
}
