//! What arithmetic instructions compute, as pure functions over registers of 32 lanes.
//!
//! A register is an array, an operation a loop over its lanes: the compiler turns most of them into vector code. 16-bit values live
//! in 32-bit registers with the upper half zero, 8-bit values likewise.

pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod float;
pub(crate) mod float32;
pub(crate) mod float64;
pub(crate) mod half;
pub(crate) mod int32;
pub(crate) mod int64;
pub(crate) mod round;

/// A 32-bit register of a whole warp.
pub(crate) type Lanes32 = [u32; 32];
/// A 64-bit register of a whole warp.
pub(crate) type Lanes64 = [u64; 32];

/// A register, computed lane by lane. Unlike `array::map` and `from_fn`, a plain loop is turned into vector code.
#[inline]
pub(crate) fn each_lane<T: Copy + Default>(value: impl Fn(usize) -> T) -> [T; 32] {
    let mut out = [T::default(); 32];
    for (lane, out) in out.iter_mut().enumerate() {
        *out = value(lane);
    }
    out
}

/// Declares operations that differ only in what they compute per lane: an enum, and `apply` over whole registers.
macro_rules! lane_table {
    ($(#[$meta:meta])* $name:ident $args:tt -> $out:ty { $($op:ident => $value:expr,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name {
            $($op,)*
        }

        lane_table!(@impl $name $args $args $out { $($op => $value,)* });
    };
    (@impl $name:ident ($($arg:ident: $ty:ty),*) $args:tt $out:ty { $($op:ident => $value:expr,)* }) => {
        impl $name {
            /// Computes the result of every lane.
            pub(crate) fn apply(self, $($arg: &[$ty; 32]),*) -> [$out; 32] {
                let mut out = [<$out>::default(); 32];
                match self {
                    $(Self::$op => for lane in 0..32 {
                        out[lane] = lane_table!(@lane lane $args $value);
                    })*
                }
                out
            }
        }
    };
    (@lane $lane:ident ($($arg:ident: $ty:ty),*) $value:expr) => {{
        $(let $arg = $arg[$lane]; let _ = $arg;)*
        $value
    }};
}
pub(crate) use lane_table;
