//! The functions of the rule language as Rust calls them: in the author's own function each means what it means in
//! the rule.

use maskwright_dsl::math;

/// A number of the rule language.
#[diagnostic::on_unimplemented(message = "expected `i32`, `i64`, `u32` or `f32`, found `{Self}`")]
pub trait Number: Copy {
    /// The smaller one.
    fn min(self, other: Self) -> Self;

    /// The larger one.
    fn max(self, other: Self) -> Self;

    /// The value kept within `lo..=hi`.
    fn clamp(self, lo: Self, hi: Self) -> Self;
}

/// A number with a sign.
#[diagnostic::on_unimplemented(message = "expected `i32`, `i64` or `f32`, found `{Self}`")]
pub trait Signed: Copy {
    /// The value without its sign.
    fn abs(self) -> Self;

    /// -1, 0 or 1 of an integer; 1 with the sign of a float.
    fn signum(self) -> Self;
}

/// An integer of the rule language.
#[diagnostic::on_unimplemented(message = "expected `i32`, `i64` or `u32`, found `{Self}`")]
pub trait Integer: Copy {
    /// The power.
    fn pow(self, exponent: u32) -> Self;

    /// The quotient rounded down.
    fn div_floor(self, divisor: Self) -> Self;

    /// What [`div_floor`](Integer::div_floor) leaves, with the sign of the divisor.
    fn rem_floor(self, divisor: Self) -> Self;

    /// The quotient that leaves no negative remainder.
    fn div_euclid(self, divisor: Self) -> Self;

    /// The remainder that is never negative.
    fn rem_euclid(self, divisor: Self) -> Self;

    /// The sum modulo the width.
    fn wrapping_add(self, other: Self) -> Self;

    /// The difference modulo the width.
    fn wrapping_sub(self, other: Self) -> Self;

    /// The product modulo the width.
    fn wrapping_mul(self, other: Self) -> Self;

    /// The negative modulo the width.
    fn wrapping_neg(self) -> Self;
}

macro_rules! integer {
    ($($ty:ident, |$x:ident, $y:ident| $div_floor:expr, $rem_floor:expr;)*) => {$(
        impl Number for $ty {
            fn min(self, other: Self) -> Self {
                Ord::min(self, other)
            }

            fn max(self, other: Self) -> Self {
                Ord::max(self, other)
            }

            fn clamp(self, lo: Self, hi: Self) -> Self {
                Ord::clamp(self, lo, hi)
            }
        }

        impl Integer for $ty {
            fn pow(self, exponent: u32) -> Self {
                $ty::pow(self, exponent)
            }

            fn div_floor(self, divisor: Self) -> Self {
                let ($x, $y) = (self, divisor);
                $div_floor
            }

            fn rem_floor(self, divisor: Self) -> Self {
                let ($x, $y) = (self, divisor);
                $rem_floor
            }

            fn div_euclid(self, divisor: Self) -> Self {
                $ty::div_euclid(self, divisor)
            }

            fn rem_euclid(self, divisor: Self) -> Self {
                $ty::rem_euclid(self, divisor)
            }

            fn wrapping_add(self, other: Self) -> Self {
                $ty::wrapping_add(self, other)
            }

            fn wrapping_sub(self, other: Self) -> Self {
                $ty::wrapping_sub(self, other)
            }

            fn wrapping_mul(self, other: Self) -> Self {
                $ty::wrapping_mul(self, other)
            }

            fn wrapping_neg(self) -> Self {
                $ty::wrapping_neg(self)
            }
        }
    )*};
}

integer! {
    i32, |x, y| if x % y != 0 && (x < 0) != (y < 0) { x / y - 1 } else { x / y },
        if x % y != 0 && (x < 0) != (y < 0) { x % y + y } else { x % y };
    i64, |x, y| if x % y != 0 && (x < 0) != (y < 0) { x / y - 1 } else { x / y },
        if x % y != 0 && (x < 0) != (y < 0) { x % y + y } else { x % y };
    u32, |x, y| x / y, x % y;
}

macro_rules! signed {
    ($($ty:ident),*) => {$(
        impl Signed for $ty {
            fn abs(self) -> Self {
                $ty::abs(self)
            }

            fn signum(self) -> Self {
                $ty::signum(self)
            }
        }
    )*};
}

signed!(i32, i64);

impl Signed for f32 {
    fn abs(self) -> Self {
        math::abs(self)
    }

    fn signum(self) -> Self {
        math::signum(self)
    }
}

impl Number for f32 {
    fn min(self, other: Self) -> Self {
        math::min(self, other)
    }

    fn max(self, other: Self) -> Self {
        math::max(self, other)
    }

    fn clamp(self, lo: Self, hi: Self) -> Self {
        math::clamp(self, lo, hi)
    }
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident, $trait:ident, ($($arg:ident: $ty:ty),*);)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name<T: $trait>(x: T $(, $arg: $ty)*) -> T {
            $trait::$name(x $(, $arg)*)
        }
    )*};
}

functions! {
    /// The smaller of two numbers.
    min, Number, (other: T);
    /// The larger of two numbers.
    max, Number, (other: T);
    /// A number kept within `lo..=hi`.
    clamp, Number, (lo: T, hi: T);
    /// A number without its sign.
    abs, Signed, ();
    /// -1, 0 or 1 of an integer; 1 with the sign of a float.
    signum, Signed, ();
    /// The power of an integer.
    pow, Integer, (exponent: u32);
    /// The quotient rounded down.
    ///
    /// # Panics
    /// If the divisor is 0.
    div_floor, Integer, (divisor: T);
    /// What [`div_floor`] leaves, with the sign of the divisor.
    ///
    /// # Panics
    /// If the divisor is 0.
    rem_floor, Integer, (divisor: T);
    /// The quotient that leaves no negative remainder.
    div_euclid, Integer, (divisor: T);
    /// The remainder that is never negative.
    rem_euclid, Integer, (divisor: T);
    /// The sum modulo the width.
    wrapping_add, Integer, (other: T);
    /// The difference modulo the width.
    wrapping_sub, Integer, (other: T);
    /// The product modulo the width.
    wrapping_mul, Integer, (other: T);
    /// The negative modulo the width.
    wrapping_neg, Integer, ();
}
