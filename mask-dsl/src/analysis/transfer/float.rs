//! Operators on float intervals. Rounding to nearest is monotone, so IEEE results at the bounds bound all results;
//! functions that `math` computes itself get a margin instead.

use super::super::interval::{FloatRange, IntRange, Truth};
use crate::ir::{BinaryOp, MathFn, Ty, UnaryOp};

/// More than any function of `math` errs, relative to the result.
const MARGIN: f32 = 1e-5;

pub(super) fn unary(op: UnaryOp, a: FloatRange) -> FloatRange {
    if a.has_no_number() {
        return a;
    }
    match op {
        UnaryOp::Neg => FloatRange::new(-a.hi, -a.lo, a.nan),
        UnaryOp::Abs => {
            let near = if a.contains(0.0) {
                0.0
            } else {
                a.lo.abs().min(a.hi.abs())
            };
            FloatRange::new(near, a.lo.abs().max(a.hi.abs()), a.nan)
        }
        UnaryOp::Signum => FloatRange::new(-1.0, 1.0, a.nan),
        UnaryOp::Math(f) => math(f, a),
        UnaryOp::Not | UnaryOp::WrappingNeg => unreachable!("the arena is typed: {op:?} of f32"),
    }
}

fn math(f: MathFn, a: FloatRange) -> FloatRange {
    let infinite = a.lo == f32::NEG_INFINITY || a.hi == f32::INFINITY;
    match f {
        MathFn::Sin | MathFn::Cos => {
            FloatRange::new(-1.0 - MARGIN, 1.0 + MARGIN, a.nan || infinite)
        }
        MathFn::Tan => FloatRange::ANY,
        MathFn::Tanh | MathFn::Erf => {
            FloatRange::new(widen_down(f.apply(a.lo)), widen_up(f.apply(a.hi)), a.nan)
        }
        MathFn::Exp | MathFn::Exp2 => FloatRange::new(
            widen_down(f.apply(a.lo)).max(0.0),
            widen_up(f.apply(a.hi)),
            a.nan,
        ),
        MathFn::Ln | MathFn::Log2 | MathFn::Log10 | MathFn::Sqrt => {
            let nan = a.nan || a.lo < 0.0;
            if a.hi < 0.0 {
                return FloatRange::EMPTY.or_nan(nan);
            }
            // Zero of either sign gives -inf, or zero for the root.
            let lo = f.apply(a.lo.max(0.0));
            FloatRange::new(widen_down(lo), widen_up(f.apply(a.hi)), nan)
        }
        MathFn::Floor | MathFn::Ceil | MathFn::Round | MathFn::Trunc => {
            FloatRange::new(f.apply(a.lo), f.apply(a.hi), a.nan)
        }
    }
}

fn widen_down(v: f32) -> f32 {
    if v.is_finite() {
        v - v.abs() * MARGIN - MARGIN
    } else if v == f32::INFINITY {
        // The true value may lie just below the overflow that was computed.
        f32::MAX
    } else {
        v
    }
}

fn widen_up(v: f32) -> f32 {
    if v.is_finite() {
        v + v.abs() * MARGIN + MARGIN
    } else if v == f32::NEG_INFINITY {
        // As above; a logarithm of a subnormal may have been flushed, so nothing tighter is claimed.
        f32::MIN / 2.0
    } else {
        v
    }
}

pub(super) fn binary(op: BinaryOp, a: FloatRange, b: FloatRange) -> FloatRange {
    let nan = a.nan || b.nan;
    if matches!(op, BinaryOp::Min | BinaryOp::Max) {
        return extreme(op, a, b);
    }
    if a.has_no_number() || b.has_no_number() {
        // A power of NaN may still be a number (`x^0` and `1^y` are 1).
        return if op == BinaryOp::Powf && nan {
            FloatRange::ANY
        } else {
            FloatRange::EMPTY.or_nan(nan)
        };
    }
    match op {
        BinaryOp::Add => sum(a, b, nan),
        BinaryOp::Sub => sum(a, FloatRange::new(-b.hi, -b.lo, b.nan), nan),
        BinaryOp::Mul => {
            let undefined =
                a.contains(0.0) && is_unbounded(b) || is_unbounded(a) && b.contains(0.0);
            // 0 times an infinite bound stands for the finite members beside it, which give 0.
            corners(a, b, |a, b| zero_if_nan(a * b)).or_nan(nan || undefined)
        }
        BinaryOp::Div => {
            if b.contains(0.0) {
                return FloatRange::ANY;
            }
            let undefined = is_unbounded(a) && is_unbounded(b);
            // So does infinity over infinity.
            corners(a, b, |a, b| zero_if_nan(a / b)).or_nan(nan || undefined)
        }
        BinaryOp::Rem => {
            let far = a.lo.abs().max(a.hi.abs());
            let lo = if a.lo < 0.0 { -far } else { 0.0 };
            let hi = if 0.0 < a.hi { far } else { 0.0 };
            FloatRange::new(lo, hi, nan || b.contains(0.0) || is_unbounded(a))
        }
        BinaryOp::Powf => {
            // Not from 0: an odd negative power of -0 is -inf.
            if 0.0 < a.lo {
                FloatRange::new(0.0, f32::INFINITY, true)
            } else {
                FloatRange::ANY
            }
        }
        BinaryOp::Min
        | BinaryOp::Max
        | BinaryOp::DivFloor
        | BinaryOp::RemFloor
        | BinaryOp::DivEuclid
        | BinaryOp::RemEuclid
        | BinaryOp::Pow
        | BinaryOp::Powi
        | BinaryOp::WrappingAdd
        | BinaryOp::WrappingSub
        | BinaryOp::WrappingMul
        | BinaryOp::BitAnd
        | BinaryOp::BitOr
        | BinaryOp::BitXor
        | BinaryOp::Shl
        | BinaryOp::Shr
        | BinaryOp::And
        | BinaryOp::Or
        | BinaryOp::Eq
        | BinaryOp::Ne
        | BinaryOp::Lt
        | BinaryOp::Le
        | BinaryOp::Gt
        | BinaryOp::Ge => unreachable!("the arena is typed: {op:?} of f32 is no f32"),
    }
}

fn is_unbounded(a: FloatRange) -> bool {
    a.lo == f32::NEG_INFINITY || a.hi == f32::INFINITY
}

fn sum(a: FloatRange, b: FloatRange, nan: bool) -> FloatRange {
    let undefined = a.lo == f32::NEG_INFINITY && b.hi == f32::INFINITY
        || a.hi == f32::INFINITY && b.lo == f32::NEG_INFINITY;
    FloatRange::new(a.lo + b.lo, a.hi + b.hi, nan || undefined)
}

fn zero_if_nan(v: f32) -> f32 {
    if v.is_nan() { 0.0 } else { v }
}

fn corners(a: FloatRange, b: FloatRange, f: impl Fn(f32, f32) -> f32) -> FloatRange {
    let at = [f(a.lo, b.lo), f(a.lo, b.hi), f(a.hi, b.lo), f(a.hi, b.hi)];
    FloatRange::new(
        at.iter().copied().fold(f32::INFINITY, f32::min),
        at.iter().copied().fold(f32::NEG_INFINITY, f32::max),
        false,
    )
}

/// The smaller or greater; of a number and a NaN the number.
fn extreme(op: BinaryOp, a: FloatRange, b: FloatRange) -> FloatRange {
    let mut result = FloatRange::EMPTY.or_nan(a.nan && b.nan);
    if !a.has_no_number() && !b.has_no_number() {
        let both = if op == BinaryOp::Min {
            FloatRange::new(a.lo.min(b.lo), a.hi.min(b.hi), false)
        } else {
            FloatRange::new(a.lo.max(b.lo), a.hi.max(b.hi), false)
        };
        result = result.join(both);
    }
    if a.nan {
        result = result.join(FloatRange { nan: false, ..b });
    }
    if b.nan {
        result = result.join(FloatRange { nan: false, ..a });
    }
    result
}

pub(super) fn powi(a: FloatRange, exponent: IntRange) -> FloatRange {
    if exponent.is_empty() || a.has_no_number() && !a.nan {
        return FloatRange::EMPTY;
    }
    if 0.0 < a.lo && !a.has_no_number() && !a.nan {
        return FloatRange::new(0.0, f32::INFINITY, true);
    }
    FloatRange::ANY
}

pub(super) fn clamp(arg: FloatRange, lo: FloatRange, hi: FloatRange) -> FloatRange {
    if arg.has_no_number() || lo.has_no_number() || hi.has_no_number() {
        return FloatRange::EMPTY.or_nan(arg.nan);
    }
    FloatRange::new(
        arg.lo.max(lo.lo).min(hi.lo),
        arg.hi.max(lo.hi).min(hi.hi),
        arg.nan,
    )
}

pub(super) fn compare(op: BinaryOp, a: FloatRange, b: FloatRange) -> Truth {
    let nan = a.nan || b.nan;
    if a.has_no_number() || b.has_no_number() {
        // A NaN is unequal to everything, and neither smaller nor greater.
        return if nan {
            Truth::known(op == BinaryOp::Ne)
        } else {
            Truth::NEITHER
        };
    }
    let less = Truth::new(a.lo < b.hi, b.lo <= a.hi || nan);
    let less_or_equal = Truth::new(a.lo <= b.hi, b.lo < a.hi || nan);
    let greater = Truth::new(b.lo < a.hi, a.lo <= b.hi || nan);
    let greater_or_equal = Truth::new(b.lo <= a.hi, a.lo < b.hi || nan);
    let overlap = a.lo <= b.hi && b.lo <= a.hi;
    let one_point = a.lo == a.hi && b.lo == b.hi && a.lo == b.lo;
    match op {
        BinaryOp::Eq => Truth::new(overlap, !one_point || nan),
        BinaryOp::Ne => Truth::new(!one_point || nan, overlap),
        BinaryOp::Lt => less,
        BinaryOp::Le => less_or_equal,
        BinaryOp::Gt => greater,
        BinaryOp::Ge => greater_or_equal,
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

/// Casts saturate and NaN gives 0.
pub(super) fn to_int(to: Ty, a: FloatRange) -> IntRange {
    let cast = |v: f32| match to {
        Ty::I32 => i128::from(v as i32),
        Ty::U32 => i128::from(v as u32),
        Ty::I64 => i128::from(v as i64),
        Ty::Bool | Ty::F32 => unreachable!("{to} is no integer"),
    };
    let numbers = if a.has_no_number() {
        IntRange::EMPTY
    } else {
        IntRange::new(cast(a.lo), cast(a.hi))
    };
    if a.nan {
        numbers.join(IntRange::point(0))
    } else {
        numbers
    }
}
