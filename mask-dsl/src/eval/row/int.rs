//! The integer types as the row interpreter computes with them: exact operations say where they have no result.

use super::lanes::Number;
use crate::ir::Const;

/// The exact operations of an integer type: each gives a value, and whether it is none.
pub(super) trait Int: Number + Ord {
    fn add(self, rhs: Self) -> (Self, bool);
    fn sub(self, rhs: Self) -> (Self, bool);
    fn mul(self, rhs: Self) -> (Self, bool);
    /// Truncating quotient and remainder, and whether each is none.
    fn div_rem(self, rhs: Self) -> (Self, Self, bool, bool);
    fn is_negative(self) -> bool;
    fn wrapping_add(self, rhs: Self) -> Self;
    fn wrapping_sub(self, rhs: Self) -> Self;
    fn wrapping_mul(self, rhs: Self) -> Self;
    fn wrapping_neg(self) -> Self;
    fn not(self) -> Self;
    fn bit_and(self, rhs: Self) -> Self;
    fn bit_or(self, rhs: Self) -> Self;
    fn bit_xor(self, rhs: Self) -> Self;
    /// For amounts less than the width.
    fn shl(self, amount: u32) -> Self;
    /// For amounts less than the width.
    fn shr(self, amount: u32) -> Self;
    fn trailing_zeros(self) -> u32;
    fn constant(self) -> Const;
    fn from_constant(value: Const) -> Option<Self>;
    const ONE: Self;
    const MIN: Self;
    const BITS: u32;
}

macro_rules! int {
    ($ty:ident, $variant:ident, $negative:expr, $add:expr, $sub:expr, $mul:expr, $div_rem:expr) => {
        impl Int for $ty {
            #[inline]
            fn add(self, rhs: Self) -> (Self, bool) {
                $add(self, rhs)
            }
            #[inline]
            fn sub(self, rhs: Self) -> (Self, bool) {
                $sub(self, rhs)
            }
            #[inline]
            fn mul(self, rhs: Self) -> (Self, bool) {
                $mul(self, rhs)
            }
            #[inline]
            fn div_rem(self, rhs: Self) -> (Self, Self, bool, bool) {
                $div_rem(self, rhs)
            }
            #[inline]
            fn is_negative(self) -> bool {
                $negative(self)
            }
            #[inline]
            fn wrapping_add(self, rhs: Self) -> Self {
                self.wrapping_add(rhs)
            }
            #[inline]
            fn wrapping_sub(self, rhs: Self) -> Self {
                self.wrapping_sub(rhs)
            }
            #[inline]
            fn wrapping_mul(self, rhs: Self) -> Self {
                self.wrapping_mul(rhs)
            }
            #[inline]
            fn wrapping_neg(self) -> Self {
                self.wrapping_neg()
            }
            #[inline]
            fn not(self) -> Self {
                !self
            }
            #[inline]
            fn bit_and(self, rhs: Self) -> Self {
                self & rhs
            }
            #[inline]
            fn bit_or(self, rhs: Self) -> Self {
                self | rhs
            }
            #[inline]
            fn bit_xor(self, rhs: Self) -> Self {
                self ^ rhs
            }
            #[inline]
            fn shl(self, amount: u32) -> Self {
                self.wrapping_shl(amount)
            }
            #[inline]
            fn shr(self, amount: u32) -> Self {
                self.wrapping_shr(amount)
            }
            fn trailing_zeros(self) -> u32 {
                self.trailing_zeros()
            }
            fn constant(self) -> Const {
                Const::$variant(self)
            }
            fn from_constant(value: Const) -> Option<Self> {
                if let Const::$variant(v) = value {
                    Some(v)
                } else {
                    None
                }
            }
            const ONE: Self = 1;
            const MIN: Self = $ty::MIN;
            const BITS: u32 = $ty::BITS;
        }
    };
}

// Overflow is spelled out: `overflowing_add` and its like are not vectorised.
int!(
    i32,
    I32,
    |a: i32| a < 0,
    |a: i32, b: i32| {
        let sum = a.wrapping_add(b);
        (sum, ((a ^ sum) & (b ^ sum)) < 0)
    },
    |a: i32, b: i32| {
        let difference = a.wrapping_sub(b);
        (difference, ((a ^ b) & (a ^ difference)) < 0)
    },
    |a: i32, b: i32| {
        let product = i64::from(a) * i64::from(b);
        (product as i32, i64::from(product as i32) != product)
    },
    |a: i32, b: i32| {
        // The quotient in f64 is exact after truncation: a quotient that is no integer is at least 2^-31 of itself
        // away from one. A divisor of 0 does not trap.
        let bad = b == 0 || (a == i32::MIN && b == -1);
        let quotient = (f64::from(a) / f64::from(b)) as i32;
        let remainder = a.wrapping_sub(quotient.wrapping_mul(b));
        // Only i32::MIN / -1 saturates, and its remainder is 0.
        let remainder = if b == -1 { 0 } else { remainder };
        (quotient, remainder, bad, b == 0)
    }
);
int!(
    u32,
    U32,
    |_: u32| false,
    |a: u32, b: u32| {
        let sum = a.wrapping_add(b);
        (sum, sum < a)
    },
    |a: u32, b: u32| (a.wrapping_sub(b), a < b),
    |a: u32, b: u32| {
        let product = u64::from(a) * u64::from(b);
        (product as u32, product >> 32 != 0)
    },
    |a: u32, b: u32| {
        // As for i32.
        let quotient = (f64::from(a) / f64::from(b)) as u32;
        let remainder = a.wrapping_sub(quotient.wrapping_mul(b));
        (quotient, remainder, b == 0, b == 0)
    }
);
int!(
    i64,
    I64,
    |a: i64| a < 0,
    |a: i64, b: i64| {
        let sum = a.wrapping_add(b);
        (sum, ((a ^ sum) & (b ^ sum)) < 0)
    },
    |a: i64, b: i64| {
        let difference = a.wrapping_sub(b);
        (difference, ((a ^ b) & (a ^ difference)) < 0)
    },
    i64::overflowing_mul,
    |a: i64, b: i64| {
        // The remainder of i64::MIN and -1 is none either: the law computes in 64 bits.
        let bad = b == 0 || (a == i64::MIN && b == -1);
        let b = if bad { 1 } else { b };
        (a / b, a % b, bad, bad)
    }
);
