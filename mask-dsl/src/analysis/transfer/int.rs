//! Operators on integer intervals.

use super::super::interval::{FAR, IntRange, Truth};
use crate::ir::{BinaryOp, Ty, UnaryOp};

pub(super) fn unary(op: UnaryOp, ty: Ty, a: IntRange) -> IntRange {
    if a.is_empty() {
        return IntRange::EMPTY;
    }
    match op {
        UnaryOp::Neg => IntRange::new(-a.hi, -a.lo),
        UnaryOp::WrappingNeg => wrap(ty, IntRange::new(-a.hi, -a.lo)),
        UnaryOp::Not => {
            // `!x` is `-1 - x` of a signed type and `MAX - x` of an unsigned one.
            let top = if ty == Ty::U32 {
                i128::from(u32::MAX)
            } else {
                -1
            };
            IntRange::new(top - a.hi, top - a.lo)
        }
        UnaryOp::Abs => abs(a),
        UnaryOp::Signum => IntRange::new(a.lo.signum(), a.hi.signum()),
        UnaryOp::Math(_) => unreachable!("the arena is typed: {op:?} of an integer"),
    }
}

fn abs(a: IntRange) -> IntRange {
    let far = a.lo.abs().max(a.hi.abs());
    let near = if a.contains(0) {
        0
    } else {
        a.lo.abs().min(a.hi.abs())
    };
    IntRange::new(near, far)
}

pub(super) fn binary(op: BinaryOp, ty: Ty, a: IntRange, b: IntRange) -> IntRange {
    if a.is_empty() || b.is_empty() {
        return IntRange::EMPTY;
    }
    let sum = IntRange::new(a.lo + b.lo, a.hi + b.hi);
    let difference = IntRange::new(a.lo - b.hi, a.hi - b.lo);
    match op {
        BinaryOp::Add => sum,
        BinaryOp::Sub => difference,
        BinaryOp::Mul => product(a, b),
        BinaryOp::WrappingAdd => wrap(ty, sum),
        BinaryOp::WrappingSub => wrap(ty, difference),
        BinaryOp::WrappingMul => wrap(ty, product(a, b)),
        BinaryOp::Div => quotient(a, b, |a, b| a / b),
        BinaryOp::DivFloor => quotient(a, b, |a, b| {
            a.div_euclid(b) - i128::from(b < 0 && a.rem_euclid(b) != 0)
        }),
        BinaryOp::DivEuclid => quotient(a, b, i128::div_euclid),
        BinaryOp::Rem => rem(a, b),
        BinaryOp::RemFloor => rem_floor(a, b),
        BinaryOp::RemEuclid => rem_euclid(a, b),
        BinaryOp::Pow => pow(a, b),
        BinaryOp::BitAnd => bit_and(a, b),
        BinaryOp::BitOr => {
            if 0 <= a.lo && 0 <= b.lo {
                IntRange::new(a.lo.max(b.lo), ones_above(a.hi.max(b.hi)))
            } else {
                twos_complement(a.join(b))
            }
        }
        BinaryOp::BitXor => {
            if 0 <= a.lo && 0 <= b.lo {
                IntRange::new(0, ones_above(a.hi.max(b.hi)))
            } else {
                twos_complement(a.join(b))
            }
        }
        BinaryOp::Shl => {
            let by = b.meet(IntRange::new(0, i128::from(ty.bits()) - 1));
            wrap(ty, corners(a, by, |a, by| a << by))
        }
        BinaryOp::Shr => {
            let by = b.meet(IntRange::new(0, i128::from(ty.bits()) - 1));
            corners(a, by, |a, by| a >> by)
        }
        BinaryOp::Min => IntRange::new(a.lo.min(b.lo), a.hi.min(b.hi)),
        BinaryOp::Max => IntRange::new(a.lo.max(b.lo), a.hi.max(b.hi)),
        BinaryOp::Powi
        | BinaryOp::Powf
        | BinaryOp::And
        | BinaryOp::Or
        | BinaryOp::Eq
        | BinaryOp::Ne
        | BinaryOp::Lt
        | BinaryOp::Le
        | BinaryOp::Gt
        | BinaryOp::Ge => unreachable!("the arena is typed: {op:?} of integers is no integer"),
    }
}

pub(super) fn compare(op: BinaryOp, a: IntRange, b: IntRange) -> Truth {
    if a.is_empty() || b.is_empty() {
        return Truth::NEITHER;
    }
    let less = Truth::new(a.lo < b.hi, b.lo <= a.hi);
    let greater = Truth::new(b.lo < a.hi, a.lo <= b.hi);
    let equal = Truth::new(
        !a.meet(b).is_empty(),
        !(a.lo == a.hi && b.lo == b.hi && a.lo == b.lo),
    );
    let not = |t: Truth| Truth::new(t.may_be_false, t.may_be_true);
    match op {
        BinaryOp::Eq => equal,
        BinaryOp::Ne => not(equal),
        BinaryOp::Lt => less,
        BinaryOp::Ge => not(less),
        BinaryOp::Gt => greater,
        BinaryOp::Le => not(greater),
        BinaryOp::Add
        | BinaryOp::Sub
        | BinaryOp::Mul
        | BinaryOp::Div
        | BinaryOp::Rem
        | BinaryOp::DivFloor
        | BinaryOp::RemFloor
        | BinaryOp::DivEuclid
        | BinaryOp::RemEuclid
        | BinaryOp::Pow
        | BinaryOp::Powi
        | BinaryOp::Powf
        | BinaryOp::WrappingAdd
        | BinaryOp::WrappingSub
        | BinaryOp::WrappingMul
        | BinaryOp::BitAnd
        | BinaryOp::BitOr
        | BinaryOp::BitXor
        | BinaryOp::Shl
        | BinaryOp::Shr
        | BinaryOp::Min
        | BinaryOp::Max
        | BinaryOp::And
        | BinaryOp::Or => unreachable!("{op:?} does not compare"),
    }
}

pub(super) fn clamp(arg: IntRange, lo: IntRange, hi: IntRange) -> IntRange {
    if arg.is_empty() || lo.is_empty() || hi.is_empty() {
        return IntRange::EMPTY;
    }
    IntRange::new(arg.lo.max(lo.lo).min(hi.lo), arg.hi.max(lo.hi).min(hi.hi))
}

/// The range itself if the type holds it, every value of the type otherwise.
pub(super) fn wrap(ty: Ty, a: IntRange) -> IntRange {
    let all = IntRange::of_ty(ty);
    if a.is_within(all) { a } else { all }
}

/// Least and greatest of `f` at the corners, for an `f` that is monotone along each side of the box.
fn corners(a: IntRange, b: IntRange, f: impl Fn(i128, i128) -> i128) -> IntRange {
    if a.is_empty() || b.is_empty() {
        return IntRange::EMPTY;
    }
    let at = [f(a.lo, b.lo), f(a.lo, b.hi), f(a.hi, b.lo), f(a.hi, b.hi)];
    let lo = at.iter().copied().fold(i128::MAX, i128::min);
    let hi = at.iter().copied().fold(i128::MIN, i128::max);
    IntRange::new(lo, hi)
}

fn product(a: IntRange, b: IntRange) -> IntRange {
    corners(a, b, |a, b| {
        a.checked_mul(b)
            .unwrap_or(if (a < 0) == (b < 0) { FAR } else { -FAR })
    })
}

/// Negative and positive divisors apart: each flavour of division is monotone along the sides of either box.
fn quotient(a: IntRange, b: IntRange, f: impl Fn(i128, i128) -> i128) -> IntRange {
    let (negative, positive) = without_zero(b);
    corners(a, negative, &f).join(corners(a, positive, &f))
}

fn without_zero(b: IntRange) -> (IntRange, IntRange) {
    (
        b.meet(IntRange::new(-FAR, -1)),
        b.meet(IntRange::new(1, FAR)),
    )
}

/// The least and greatest size of a divisor, if there is one.
fn divisor_size(b: IntRange) -> Option<(i128, i128)> {
    let (negative, positive) = without_zero(b);
    let sizes = IntRange::new(-negative.hi, -negative.lo);
    let sizes = if negative.is_empty() {
        positive
    } else {
        sizes.join(positive)
    };
    (!sizes.is_empty()).then_some((sizes.lo, sizes.hi))
}

fn rem(a: IntRange, b: IntRange) -> IntRange {
    let Some((least, greatest)) = divisor_size(b) else {
        return IntRange::EMPTY;
    };
    if -least < a.lo && a.hi < least {
        return a;
    }
    if least == greatest && a.lo / least == a.hi / least && (0 <= a.lo || a.hi <= 0) {
        return IntRange::new(a.lo % least, a.hi % least);
    }
    let lo = if 0 <= a.lo { 0 } else { a.lo.max(1 - greatest) };
    let hi = if a.hi <= 0 { 0 } else { a.hi.min(greatest - 1) };
    IntRange::new(lo, hi)
}

fn rem_floor(a: IntRange, b: IntRange) -> IntRange {
    let (negative, positive) = without_zero(b);
    let mut result = IntRange::EMPTY;
    if !positive.is_empty() {
        result = result.join(rem_euclid(a, positive));
    }
    if !negative.is_empty() {
        // The remainder of a negative divisor is that of both operands negated, negated.
        let mirrored = rem_euclid(
            IntRange::new(-a.hi, -a.lo),
            IntRange::new(-negative.hi, -negative.lo),
        );
        result = result.join(IntRange::new(-mirrored.hi, -mirrored.lo));
    }
    result
}

fn rem_euclid(a: IntRange, b: IntRange) -> IntRange {
    let Some((least, greatest)) = divisor_size(b) else {
        return IntRange::EMPTY;
    };
    if 0 <= a.lo && a.hi < least {
        return a;
    }
    if least == greatest && a.lo.div_euclid(least) == a.hi.div_euclid(least) {
        return IntRange::new(a.lo.rem_euclid(least), a.hi.rem_euclid(least));
    }
    let hi = if 0 <= a.lo {
        a.hi.min(greatest - 1)
    } else {
        greatest - 1
    };
    IntRange::new(0, hi)
}

fn pow(a: IntRange, exponent: IntRange) -> IntRange {
    let exponent = exponent.meet(IntRange::new(0, i128::from(u32::MAX)));
    if exponent.is_empty() {
        return IntRange::EMPTY;
    }
    let power = |base: i128, exponent: i128| {
        base.checked_pow(exponent as u32)
            .map_or(FAR, |v| v.min(FAR))
    };
    let (low, high) = (exponent.lo, exponent.hi);
    if 0 <= a.lo {
        // Only 0 to the 0 breaks the rise along both sides.
        let lo = if a.lo == 0 {
            i128::from(high == 0)
        } else {
            power(a.lo, low)
        };
        let hi = power(a.hi, high).max(i128::from(low == 0));
        return IntRange::new(lo, hi);
    }
    let far = power(a.lo.abs().max(a.hi.abs()), high).max(1);
    if low == high && low % 2 == 0 {
        let sizes = abs(a);
        return IntRange::new(power(sizes.lo, low), power(sizes.hi, high));
    }
    IntRange::new(-far, far)
}

fn bit_and(a: IntRange, b: IntRange) -> IntRange {
    match (0 <= a.lo, 0 <= b.lo) {
        (true, true) => IntRange::new(0, a.hi.min(b.hi)),
        (true, false) => IntRange::new(0, a.hi),
        (false, true) => IntRange::new(0, b.hi),
        (false, false) => twos_complement(a.join(b)),
    }
}

/// The least `2^n - 1` that is no smaller than `v`.
fn ones_above(v: i128) -> i128 {
    let bits = 128 - v.leading_zeros();
    (1i128 << bits.min(126)) - 1
}

/// All numbers of the narrowest two's complement width that holds the range: bit operations do not leave it.
fn twos_complement(a: IntRange) -> IntRange {
    let ones = ones_above(a.hi.max(-1 - a.lo).max(0));
    IntRange::new(-1 - ones, ones)
}
