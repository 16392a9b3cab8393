//! The element types of captured buffers.

use std::fmt::Debug;
use std::sync::Arc;

use half::{bf16, f16};
use maskwright_dsl::capture::BufferData;
use maskwright_dsl::ir::Elem;

/// An element type of a captured buffer, and the type that a read of it has in a rule.
pub trait Element: Copy + Debug + Send + Sync + 'static {
    /// `i32` for the small integers, `f32` for the other floats, the type itself otherwise.
    type Value: Copy;

    /// What lies in memory: the type itself, or a byte of eight packed bits.
    type Stored: Copy + Debug + Send + Sync + 'static;

    /// The element type in the rule language.
    const ELEM: Elem;

    /// An element as a rule sees it.
    ///
    /// # Panics
    /// If there is no element at `at`.
    fn load(elements: &[Self::Stored], at: usize) -> Self::Value;

    /// Shares elements with the rule language.
    fn data(elements: Arc<[Self::Stored]>) -> BufferData;

    /// Takes elements back from the rule language.
    fn elements(data: &BufferData) -> Option<&Arc<[Self::Stored]>>;
}

/// Packed booleans, the element type of a [`Buffer`](crate::Buffer) made by
/// [`from_bits`](crate::Buffer::from_bits): element `8 * n + j` is bit `j` of byte `n`.
#[derive(Clone, Copy, Debug)]
pub struct Bits;

macro_rules! element {
    ($($ty:ty => $value:ty, $stored:ty, $variant:ident, |$elements:ident, $at:ident| $load:expr;)*) => {$(
        impl Element for $ty {
            type Value = $value;
            type Stored = $stored;
            const ELEM: Elem = Elem::$variant;

            fn load($elements: &[$stored], $at: usize) -> $value {
                $load
            }

            fn data(elements: Arc<[$stored]>) -> BufferData {
                BufferData::$variant(elements)
            }

            fn elements(data: &BufferData) -> Option<&Arc<[$stored]>> {
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
    bool => bool, bool, Bool, |x, i| x[i];
    Bits => bool, u8, Bits, |x, i| x[i / 8] >> (i % 8) & 1 == 1;
    i8 => i32, i8, I8, |x, i| i32::from(x[i]);
    u8 => i32, u8, U8, |x, i| i32::from(x[i]);
    i16 => i32, i16, I16, |x, i| i32::from(x[i]);
    u16 => i32, u16, U16, |x, i| i32::from(x[i]);
    i32 => i32, i32, I32, |x, i| x[i];
    i64 => i64, i64, I64, |x, i| x[i];
    u32 => u32, u32, U32, |x, i| x[i];
    f16 => f32, f16, F16, |x, i| x[i].to_f32();
    bf16 => f32, bf16, Bf16, |x, i| x[i].to_f32();
    f32 => f32, f32, F32, |x, i| x[i];
    f64 => f32, f64, F64, |x, i| x[i] as f32;
}
