//! Float arithmetic with every qualifier: formats, rounding modes, `.ftz`, `.sat`, `.relu`, `.NaN`, one value at a time.
//!
//! The common `f32` forms have loops of their own in `float32`; what is rare is done here, where being right is what counts.

use super::round;
use crate::tensor_core::format::{Format, Overflow, Rounding};

/// An operation on up to three floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatOp {
    Add,
    Sub,
    Mul,
    Fma,
    Div,
    Rcp,
    Sqrt,
    Min,
    Max,
    Min3,
    Max3,
    Neg,
    Abs,
    Ex2,
    Tanh,
}

/// A format that registers hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    F16,
    Bf16,
    F32,
    F64,
}

/// The qualifiers of a float instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "qualifiers that may stand together"
)]
pub(crate) struct Mode {
    pub(crate) rounding: Rounding,
    pub(crate) ftz: bool,
    pub(crate) sat: bool,
    pub(crate) relu: bool,
    /// `.NaN`: a NaN operand of `min` and `max` wins.
    pub(crate) nan: bool,
    /// `.xorsign.abs`
    pub(crate) xorsign: bool,
}

impl Mode {
    pub(crate) const NEAREST: Self = Self {
        rounding: Rounding::NearestEven,
        ftz: false,
        sat: false,
        relu: false,
        nan: false,
        xorsign: false,
    };
}

impl Width {
    /// The value of an encoding; exact in `f64`.
    pub(crate) fn decode(self, bits: u64) -> f64 {
        match self {
            Self::F16 => f64::from(Format::F16.decode(bits as u32)),
            Self::Bf16 => f64::from(Format::Bf16.decode(bits as u32)),
            Self::F32 => f64::from(f32::from_bits(bits as u32)),
            Self::F64 => f64::from_bits(bits),
        }
    }

    /// Rounds once; NaN becomes the canonical one of the format.
    pub(crate) fn encode(self, value: f64, rounding: Rounding) -> u64 {
        match self {
            Self::F16 => u64::from(Format::F16.encode(value, rounding, Overflow::Infinite)),
            Self::Bf16 => u64::from(Format::Bf16.encode(value, rounding, Overflow::Infinite)),
            Self::F32 => u64::from(round::to_f32(value, rounding).to_bits()),
            Self::F64 if value.is_nan() => 0x7fff_ffff_ffff_ffff,
            Self::F64 => value.to_bits(),
        }
    }

    fn sign(self) -> u64 {
        match self {
            Self::F16 | Self::Bf16 => 0x8000,
            Self::F32 => 0x8000_0000,
            Self::F64 => 1 << 63,
        }
    }

    fn flush(self, bits: u64) -> u64 {
        let exponent = match self {
            Self::F16 => 0x7c00,
            Self::Bf16 => 0x7f80,
            Self::F32 => 0x7f80_0000,
            Self::F64 => return bits,
        };
        if bits & exponent == 0 {
            bits & self.sign()
        } else {
            bits
        }
    }
}

/// Computes one operation on encodings.
pub(crate) fn compute(op: FloatOp, width: Width, mode: Mode, operands: [u64; 3]) -> u64 {
    let [a, b, c] = operands.map(|bits| if mode.ftz { width.flush(bits) } else { bits });
    let out = match op {
        FloatOp::Neg => a ^ width.sign(),
        FloatOp::Abs => a & !width.sign(),
        FloatOp::Min | FloatOp::Max => extremum(op == FloatOp::Max, width, mode, a, b),
        FloatOp::Min3 | FloatOp::Max3 => {
            let largest = op == FloatOp::Max3;
            extremum(
                largest,
                width,
                mode,
                extremum(largest, width, mode, a, b),
                c,
            )
        }
        FloatOp::Add
        | FloatOp::Sub
        | FloatOp::Mul
        | FloatOp::Fma
        | FloatOp::Div
        | FloatOp::Rcp
        | FloatOp::Sqrt => {
            let [a, b, c] = [a, b, c].map(|bits| width.decode(bits));
            if width == Width::F64 {
                double(op, mode.rounding, a, b, c)
            } else {
                width.encode(single(op, mode.rounding, a, b, c), mode.rounding)
            }
        }
        FloatOp::Ex2 => width.encode(width.decode(a).exp2(), Rounding::NearestEven),
        FloatOp::Tanh => width.encode(width.decode(a).tanh(), Rounding::NearestEven),
    };
    finish(width, mode, out)
}

/// Applies what happens to a result after rounding.
fn finish(width: Width, mode: Mode, out: u64) -> u64 {
    let out = if mode.ftz { width.flush(out) } else { out };
    let value = width.decode(out);
    if mode.sat {
        // NaN saturates to +0.
        return if value >= 1.0 {
            width.encode(1.0, Rounding::NearestEven)
        } else if value > 0.0 {
            out
        } else {
            0
        };
    }
    if mode.relu && (value <= 0.0) {
        return 0;
    }
    out
}

/// A result rounded to odd in `f64`, for the formats below it.
fn single(op: FloatOp, rounding: Rounding, a: f64, b: f64, c: f64) -> f64 {
    // A sum that cancels is -0 when rounding downwards.
    let signed_zero = |sum: f64, x: f64, y: f64| {
        if sum == 0.0 && rounding == Rounding::Down && x.is_sign_negative() != y.is_sign_negative()
        {
            -0.0
        } else {
            sum
        }
    };
    match op {
        FloatOp::Add => signed_zero(round::sum(a, b), a, b),
        FloatOp::Sub => signed_zero(round::sum(a, -b), a, -b),
        FloatOp::Mul => a * b,
        FloatOp::Fma => signed_zero(round::fused(a, b, c), a * b, c),
        FloatOp::Div => round::quotient(a, b),
        FloatOp::Rcp => round::quotient(1.0, a),
        FloatOp::Sqrt => round::root(a),
        FloatOp::Min
        | FloatOp::Max
        | FloatOp::Min3
        | FloatOp::Max3
        | FloatOp::Neg
        | FloatOp::Abs
        | FloatOp::Ex2
        | FloatOp::Tanh => {
            unreachable!("not an operation that rounds")
        }
    }
}

/// An `f64` operation with a direction.
fn double(op: FloatOp, rounding: Rounding, a: f64, b: f64, c: f64) -> u64 {
    let two_sum = |a: f64, b: f64| {
        let s = a + b;
        let t = s - a;
        (s, (a - (s - t)) + (b - t))
    };
    let (nearest, lost) = match op {
        FloatOp::Add => two_sum(a, b),
        FloatOp::Sub => two_sum(a, -b),
        FloatOp::Mul => (a * b, a.mul_add(b, -(a * b))),
        FloatOp::Fma => {
            let nearest = a.mul_add(b, c);
            let product = a * b;
            let (sum, rest) = two_sum(product, c);
            let (tail, tiny) = two_sum(rest, a.mul_add(b, -product));
            (nearest, ((sum - nearest) + tail) + tiny)
        }
        FloatOp::Div => (a / b, (-(a / b)).mul_add(b, a) * 1f64.copysign(b)),
        FloatOp::Rcp => (1.0 / a, (-(1.0 / a)).mul_add(a, 1.0) * 1f64.copysign(a)),
        FloatOp::Sqrt => (a.sqrt(), (-a.sqrt()).mul_add(a.sqrt(), a)),
        FloatOp::Min
        | FloatOp::Max
        | FloatOp::Min3
        | FloatOp::Max3
        | FloatOp::Neg
        | FloatOp::Abs
        | FloatOp::Ex2
        | FloatOp::Tanh => {
            unreachable!("not an operation that rounds")
        }
    };
    let out = if nearest.is_finite() {
        round::direct_f64(nearest, lost, rounding)
    } else {
        overflowed(nearest, rounding, [a, b, c])
    };
    let cancelled = out == 0.0
        && rounding == Rounding::Down
        && matches!(op, FloatOp::Add | FloatOp::Sub | FloatOp::Fma);
    let out = if cancelled && !(a == 0.0 && a.is_sign_positive()) {
        -0.0
    } else {
        out
    };
    Width::F64.encode(out, rounding)
}

/// An infinity that finite operands gave stops at the largest number where the direction says so.
fn overflowed(nearest: f64, rounding: Rounding, operands: [f64; 3]) -> f64 {
    let exact = operands.iter().any(|x| !x.is_finite() || *x == 0.0) || nearest.is_nan();
    match rounding {
        _ if exact => nearest,
        Rounding::Zero => f64::MAX.copysign(nearest),
        Rounding::Down if nearest > 0.0 => f64::MAX,
        Rounding::Up if nearest < 0.0 => f64::MIN,
        Rounding::NearestEven | Rounding::NearestAway | Rounding::Down | Rounding::Up => nearest,
    }
}

fn extremum(largest: bool, width: Width, mode: Mode, a: u64, b: u64) -> u64 {
    let sign = if mode.xorsign {
        (a ^ b) & width.sign()
    } else {
        0
    };
    let (a, b) = if mode.xorsign {
        (a & !width.sign(), b & !width.sign())
    } else {
        (a, b)
    };
    let (x, y) = (width.decode(a), width.decode(b));
    let nan = width.encode(f64::NAN, Rounding::NearestEven);
    if x.is_nan() || y.is_nan() {
        if mode.nan || (x.is_nan() && y.is_nan()) {
            return nan;
        }
        return (if x.is_nan() { b } else { a }) | sign;
    }
    let first_smaller = x < y || (x == y && x.is_sign_negative());
    (if first_smaller == largest { b } else { a }) | sign
}
