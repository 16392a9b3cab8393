//! The operators over 128 lanes. Integer results that do not exist are reported by lane; what stands there is unused.

use super::int::Int;
use super::lanes::{File, LANES, Lane, Lanes, Number, Reg};
use crate::eval::scalar;
use crate::ir::{BinaryOp, Const, MathFn, Ty, UnaryOp};
use crate::math;

/// `dst = op arg`; whether some lane has no result, and then which, in `fault`.
pub(super) fn unary(
    file: &mut File,
    op: UnaryOp,
    arg: Reg,
    dst: Reg,
    fault: &mut Lanes<u8>,
) -> bool {
    match arg.ty {
        Ty::Bool => {
            map::<u8>(file, arg, dst, |v| v ^ 1);
            false
        }
        Ty::I32 => int_unary::<i32>(file, op, arg, dst, fault),
        Ty::I64 => int_unary::<i64>(file, op, arg, dst, fault),
        Ty::U32 => int_unary::<u32>(file, op, arg, dst, fault),
        Ty::F32 => {
            float_unary(file, op, arg, dst);
            false
        }
    }
}

fn int_unary<T: Int>(
    file: &mut File,
    op: UnaryOp,
    arg: Reg,
    dst: Reg,
    fault: &mut Lanes<u8>,
) -> bool {
    // Of unsigned integers there is no exact negation, so `MIN` is that of a signed type here.
    let negate = |v: T| (v.wrapping_neg(), v == T::MIN);
    match op {
        UnaryOp::Not => map::<T>(file, arg, dst, T::not),
        UnaryOp::WrappingNeg => map::<T>(file, arg, dst, T::wrapping_neg),
        UnaryOp::Neg => return map_checked::<T>(file, arg, dst, fault, negate),
        UnaryOp::Abs => {
            return map_checked::<T>(file, arg, dst, fault, |v| {
                if v.is_negative() {
                    negate(v)
                } else {
                    (v, false)
                }
            });
        }
        UnaryOp::Signum => map::<T>(file, arg, dst, |v| {
            if v.is_negative() {
                T::ONE.wrapping_neg()
            } else if v == T::default() {
                v
            } else {
                T::ONE
            }
        }),
        UnaryOp::Math(_) => unreachable!("the arena is typed: {op:?} of {}", arg.ty),
    }
    false
}

fn float_unary(file: &mut File, op: UnaryOp, arg: Reg, dst: Reg) {
    match op {
        UnaryOp::Neg => map::<f32>(file, arg, dst, |v| -v),
        UnaryOp::Abs => map::<f32>(file, arg, dst, f32::abs),
        UnaryOp::Signum => map::<f32>(file, arg, dst, math::signum),
        UnaryOp::Math(f) => match f {
            MathFn::Exp => map::<f32>(file, arg, dst, math::exp),
            MathFn::Exp2 => map::<f32>(file, arg, dst, math::exp2),
            MathFn::Ln => map::<f32>(file, arg, dst, math::ln),
            MathFn::Log2 => map::<f32>(file, arg, dst, math::log2),
            MathFn::Log10 => map::<f32>(file, arg, dst, math::log10),
            MathFn::Tanh => map::<f32>(file, arg, dst, math::tanh),
            MathFn::Sqrt => map::<f32>(file, arg, dst, math::sqrt),
            MathFn::Sin => map::<f32>(file, arg, dst, math::sin),
            MathFn::Cos => map::<f32>(file, arg, dst, math::cos),
            MathFn::Tan => map::<f32>(file, arg, dst, math::tan),
            MathFn::Erf => map::<f32>(file, arg, dst, math::erf),
            MathFn::Floor => map::<f32>(file, arg, dst, math::floor),
            MathFn::Ceil => map::<f32>(file, arg, dst, math::ceil),
            MathFn::Round => map::<f32>(file, arg, dst, math::round),
            MathFn::Trunc => map::<f32>(file, arg, dst, math::trunc),
        },
        UnaryOp::Not | UnaryOp::WrappingNeg => unreachable!("the arena is typed: {op:?} of f32"),
    }
}

/// `dst = lhs op rhs` of an operator that is not lazy; whether some lane has no result, and then which, in `fault`.
pub(super) fn binary(
    file: &mut File,
    op: BinaryOp,
    lhs: Reg,
    rhs: Reg,
    dst: Reg,
    fault: &mut Lanes<u8>,
) -> bool {
    match lhs.ty {
        Ty::Bool => {
            bool_binary(file, op, lhs, rhs, dst);
            false
        }
        Ty::I32 => int_binary::<i32>(file, op, lhs, rhs, dst, fault),
        Ty::I64 => int_binary::<i64>(file, op, lhs, rhs, dst, fault),
        Ty::U32 => int_binary::<u32>(file, op, lhs, rhs, dst, fault),
        Ty::F32 => {
            float_binary(file, op, lhs, rhs, dst);
            false
        }
    }
}

/// `dst = lhs op rhs` of truth values.
pub(super) fn bool_binary(file: &mut File, op: BinaryOp, lhs: Reg, rhs: Reg, dst: Reg) {
    match op {
        BinaryOp::BitAnd | BinaryOp::And => zip::<u8>(file, lhs, rhs, dst, |a, b| a & b),
        BinaryOp::BitOr | BinaryOp::Or => zip::<u8>(file, lhs, rhs, dst, |a, b| a | b),
        BinaryOp::BitXor | BinaryOp::Ne => zip::<u8>(file, lhs, rhs, dst, |a, b| a ^ b),
        BinaryOp::Eq => zip::<u8>(file, lhs, rhs, dst, |a, b| a ^ b ^ 1),
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
        | BinaryOp::Shl
        | BinaryOp::Shr
        | BinaryOp::Min
        | BinaryOp::Max
        | BinaryOp::Lt
        | BinaryOp::Le
        | BinaryOp::Gt
        | BinaryOp::Ge => unreachable!("the arena is typed: {op:?} of bool"),
    }
}

fn int_binary<T: Int>(
    file: &mut File,
    op: BinaryOp,
    lhs: Reg,
    rhs: Reg,
    dst: Reg,
    fault: &mut Lanes<u8>,
) -> bool {
    if rhs.uniform && divide_by_power_of_two::<T>(file, op, lhs, rhs, dst) {
        return false;
    }
    match op {
        BinaryOp::Add => return zip_checked::<T>(file, lhs, rhs, dst, fault, T::add),
        BinaryOp::Sub => return zip_checked::<T>(file, lhs, rhs, dst, fault, T::sub),
        BinaryOp::Mul => return zip_checked::<T>(file, lhs, rhs, dst, fault, T::mul),
        BinaryOp::Div => {
            return zip_checked::<T>(file, lhs, rhs, dst, fault, |a, b| {
                let (quotient, _, bad, _) = a.div_rem(b);
                (quotient, bad)
            });
        }
        BinaryOp::Rem => {
            return zip_checked::<T>(file, lhs, rhs, dst, fault, |a, b| {
                let (_, remainder, _, bad) = a.div_rem(b);
                (remainder, bad)
            });
        }
        BinaryOp::DivFloor => {
            return zip_checked::<T>(file, lhs, rhs, dst, fault, |a, b| {
                let (quotient, remainder, bad, _) = a.div_rem(b);
                let below = remainder != T::default() && a.is_negative() != b.is_negative();
                let floor = quotient.wrapping_sub(T::ONE);
                (if below { floor } else { quotient }, bad)
            });
        }
        BinaryOp::RemFloor => {
            return zip_checked::<T>(file, lhs, rhs, dst, fault, |a, b| {
                let (_, remainder, _, bad) = a.div_rem(b);
                let below = remainder != T::default() && a.is_negative() != b.is_negative();
                let floor = remainder.wrapping_add(b);
                (if below { floor } else { remainder }, bad)
            });
        }
        BinaryOp::DivEuclid => {
            return zip_checked::<T>(file, lhs, rhs, dst, fault, |a, b| {
                let (quotient, remainder, bad, _) = a.div_rem(b);
                let step = if b.is_negative() {
                    T::ONE
                } else {
                    T::ONE.wrapping_neg()
                };
                let euclid = quotient.wrapping_add(step);
                let negative = remainder.is_negative();
                (if negative { euclid } else { quotient }, bad)
            });
        }
        BinaryOp::RemEuclid => {
            return zip_checked::<T>(file, lhs, rhs, dst, fault, |a, b| {
                let (_, remainder, _, bad) = a.div_rem(b);
                let euclid = if b.is_negative() {
                    remainder.wrapping_sub(b)
                } else {
                    remainder.wrapping_add(b)
                };
                let negative = remainder.is_negative();
                (if negative { euclid } else { remainder }, bad)
            });
        }
        BinaryOp::Pow => return pow::<T>(file, lhs, rhs, dst, fault),
        BinaryOp::WrappingAdd => zip::<T>(file, lhs, rhs, dst, T::wrapping_add),
        BinaryOp::WrappingSub => zip::<T>(file, lhs, rhs, dst, T::wrapping_sub),
        BinaryOp::WrappingMul => zip::<T>(file, lhs, rhs, dst, T::wrapping_mul),
        BinaryOp::BitAnd => zip::<T>(file, lhs, rhs, dst, T::bit_and),
        BinaryOp::BitOr => zip::<T>(file, lhs, rhs, dst, T::bit_or),
        BinaryOp::BitXor => zip::<T>(file, lhs, rhs, dst, T::bit_xor),
        BinaryOp::Shl => return shift::<T>(file, lhs, rhs, dst, fault, T::shl),
        BinaryOp::Shr => return shift::<T>(file, lhs, rhs, dst, fault, T::shr),
        BinaryOp::Min => zip::<T>(file, lhs, rhs, dst, |a, b| if b < a { b } else { a }),
        BinaryOp::Max => zip::<T>(file, lhs, rhs, dst, |a, b| if a < b { b } else { a }),
        BinaryOp::Eq => compare::<T>(file, lhs, rhs, dst, |a, b| a == b),
        BinaryOp::Ne => compare::<T>(file, lhs, rhs, dst, |a, b| a != b),
        BinaryOp::Lt => compare::<T>(file, lhs, rhs, dst, |a, b| a < b),
        BinaryOp::Le => compare::<T>(file, lhs, rhs, dst, |a, b| a <= b),
        BinaryOp::Gt => compare::<T>(file, lhs, rhs, dst, |a, b| a > b),
        BinaryOp::Ge => compare::<T>(file, lhs, rhs, dst, |a, b| a >= b),
        BinaryOp::Powi | BinaryOp::Powf | BinaryOp::And | BinaryOp::Or => {
            unreachable!("the arena is typed: {op:?} of {}", lhs.ty)
        }
    }
    false
}

/// Divides by one power of two for all lanes, as bit operations; whether the operator and the divisor are such.
fn divide_by_power_of_two<T: Int>(
    file: &mut File,
    op: BinaryOp,
    lhs: Reg,
    rhs: Reg,
    dst: Reg,
) -> bool {
    let floors = matches!(op, BinaryOp::DivFloor | BinaryOp::DivEuclid);
    let wraps = matches!(op, BinaryOp::RemFloor | BinaryOp::RemEuclid);
    if !(floors || wraps || op == BinaryOp::Rem) {
        return false;
    }
    let divisor = T::pool(file)[rhs.slot][0];
    let mask = divisor.wrapping_sub(T::ONE);
    if divisor <= T::default() || divisor.bit_and(mask) != T::default() {
        return false;
    }
    if floors {
        let amount = divisor.trailing_zeros();
        map::<T>(file, lhs, dst, |v| v.shr(amount));
    } else if wraps {
        map::<T>(file, lhs, dst, |v| v.bit_and(mask));
    } else {
        map::<T>(file, lhs, dst, |v| {
            // What is added to a negative dividend rounds it towards zero.
            let bias = if v.is_negative() { mask } else { T::default() };
            v.wrapping_sub(v.wrapping_add(bias).bit_and(mask.not()))
        });
    }
    true
}

fn float_binary(file: &mut File, op: BinaryOp, lhs: Reg, rhs: Reg, dst: Reg) {
    match op {
        BinaryOp::Add => zip::<f32>(file, lhs, rhs, dst, |a, b| a + b),
        BinaryOp::Sub => zip::<f32>(file, lhs, rhs, dst, |a, b| a - b),
        BinaryOp::Mul => zip::<f32>(file, lhs, rhs, dst, |a, b| a * b),
        BinaryOp::Div => zip::<f32>(file, lhs, rhs, dst, |a, b| a / b),
        BinaryOp::Rem => zip::<f32>(file, lhs, rhs, dst, |a, b| a % b),
        BinaryOp::Powf => zip::<f32>(file, lhs, rhs, dst, math::powf),
        BinaryOp::Powi => {
            let exponents = file.i32s[rhs.slot];
            let (bases, out) = operands::<f32>(file, dst);
            for i in 0..LANES {
                out[i] = math::powi(bases[lhs.slot][i], exponents[i]);
            }
        }
        BinaryOp::Min => zip::<f32>(file, lhs, rhs, dst, math::min),
        BinaryOp::Max => zip::<f32>(file, lhs, rhs, dst, math::max),
        BinaryOp::Eq => compare::<f32>(file, lhs, rhs, dst, |a, b| a == b),
        BinaryOp::Ne => compare::<f32>(file, lhs, rhs, dst, |a, b| a != b),
        BinaryOp::Lt => compare::<f32>(file, lhs, rhs, dst, |a, b| a < b),
        BinaryOp::Le => compare::<f32>(file, lhs, rhs, dst, |a, b| a <= b),
        BinaryOp::Gt => compare::<f32>(file, lhs, rhs, dst, |a, b| a > b),
        BinaryOp::Ge => compare::<f32>(file, lhs, rhs, dst, |a, b| a >= b),
        BinaryOp::DivFloor
        | BinaryOp::RemFloor
        | BinaryOp::DivEuclid
        | BinaryOp::RemEuclid
        | BinaryOp::Pow
        | BinaryOp::WrappingAdd
        | BinaryOp::WrappingSub
        | BinaryOp::WrappingMul
        | BinaryOp::BitAnd
        | BinaryOp::BitOr
        | BinaryOp::BitXor
        | BinaryOp::Shl
        | BinaryOp::Shr
        | BinaryOp::And
        | BinaryOp::Or => unreachable!("the arena is typed: {op:?} of f32"),
    }
}

/// An integer power is too rare to be spelled again: each lane goes through the law.
fn pow<T: Int>(file: &mut File, lhs: Reg, rhs: Reg, dst: Reg, fault: &mut Lanes<u8>) -> bool {
    let exponents = match rhs.ty {
        Ty::I32 => file.i32s[rhs.slot].map(Const::I32),
        Ty::U32 => file.u32s[rhs.slot].map(Const::U32),
        Ty::Bool | Ty::I64 | Ty::F32 => {
            unreachable!("the arena is typed: an exponent is i32 or u32")
        }
    };
    let (bases, out) = operands::<T>(file, dst);
    let mut any = false;
    for i in 0..LANES {
        let power = scalar::binary(BinaryOp::Pow, bases[lhs.slot][i].constant(), exponents[i]);
        let power = power.ok().and_then(T::from_constant);
        out[i] = power.unwrap_or_default();
        fault[i] = u8::from(power.is_none());
        any |= power.is_none();
    }
    any
}

fn shift<T: Int>(
    file: &mut File,
    lhs: Reg,
    rhs: Reg,
    dst: Reg,
    fault: &mut Lanes<u8>,
    f: impl Fn(T, u32) -> T,
) -> bool {
    // What is out of range is no amount of any type.
    let amounts = match rhs.ty {
        Ty::I32 => file.i32s[rhs.slot].map(|v| v as u32),
        Ty::U32 => file.u32s[rhs.slot],
        Ty::I64 => file.i64s[rhs.slot].map(|v| u32::try_from(v).unwrap_or(u32::MAX)),
        Ty::Bool | Ty::F32 => unreachable!("the arena is typed: an amount is an integer"),
    };
    let (shifted, out) = operands::<T>(file, dst);
    let shifted = &shifted[lhs.slot];
    if rhs.uniform {
        // With one amount for all lanes the loop is vectorised on every machine.
        let amount = amounts[0];
        for i in 0..LANES {
            out[i] = f(shifted[i], amount);
        }
        let bad = T::BITS <= amount;
        fault.fill(u8::from(bad));
        return bad;
    }
    let mut any = false;
    for i in 0..LANES {
        out[i] = f(shifted[i], amounts[i]);
        any |= T::BITS <= amounts[i];
    }
    if any {
        *fault = amounts.map(|amount| u8::from(T::BITS <= amount));
    }
    any
}

/// `dst = arg.clamp(lo, hi)`; whether bounds are crossed somewhere, and then where, in `fault`.
pub(super) fn clamp(
    file: &mut File,
    arg: Reg,
    lo: Reg,
    hi: Reg,
    dst: Reg,
    fault: &mut Lanes<u8>,
) -> bool {
    match arg.ty {
        Ty::I32 => clamp_lanes::<i32>(file, arg, lo, hi, dst, fault),
        Ty::I64 => clamp_lanes::<i64>(file, arg, lo, hi, dst, fault),
        Ty::U32 => clamp_lanes::<u32>(file, arg, lo, hi, dst, fault),
        Ty::F32 => clamp_lanes::<f32>(file, arg, lo, hi, dst, fault),
        Ty::Bool => unreachable!("the arena is typed: clamp of bool"),
    }
}

fn clamp_lanes<T: Number>(
    file: &mut File,
    arg: Reg,
    lo: Reg,
    hi: Reg,
    dst: Reg,
    fault: &mut Lanes<u8>,
) -> bool {
    let (pool, out) = operands::<T>(file, dst);
    let (arg, lo, hi) = (&pool[arg.slot], &pool[lo.slot], &pool[hi.slot]);
    // A NaN bound is in no order, and a NaN argument stays.
    let mut any = false;
    for i in 0..LANES {
        let low = if arg[i] < lo[i] { lo[i] } else { arg[i] };
        out[i] = if hi[i] < arg[i] { hi[i] } else { low };
        let ordered = lo[i] <= hi[i];
        any |= !ordered;
    }
    if any {
        for i in 0..LANES {
            let ordered = lo[i] <= hi[i];
            fault[i] = u8::from(!ordered);
        }
    }
    any
}

/// `dst = arg as dst.ty`.
pub(super) fn cast(file: &mut File, arg: Reg, dst: Reg) {
    if arg.ty == dst.ty {
        return copy(file, arg, dst);
    }
    let (from, to) = (arg.slot, dst.slot);
    match (arg.ty, dst.ty) {
        (Ty::Bool, Ty::I32) => convert(&file.bools[from], &mut file.i32s[to], i32::from),
        (Ty::Bool, Ty::I64) => convert(&file.bools[from], &mut file.i64s[to], i64::from),
        (Ty::Bool, Ty::U32) => convert(&file.bools[from], &mut file.u32s[to], u32::from),
        (Ty::Bool, Ty::F32) => convert(&file.bools[from], &mut file.f32s[to], f32::from),
        (Ty::I32, Ty::I64) => convert(&file.i32s[from], &mut file.i64s[to], i64::from),
        (Ty::I32, Ty::U32) => convert(&file.i32s[from], &mut file.u32s[to], |v| v as u32),
        (Ty::I32, Ty::F32) => convert(&file.i32s[from], &mut file.f32s[to], |v| v as f32),
        (Ty::I64, Ty::I32) => convert(&file.i64s[from], &mut file.i32s[to], |v| v as i32),
        (Ty::I64, Ty::U32) => convert(&file.i64s[from], &mut file.u32s[to], |v| v as u32),
        (Ty::I64, Ty::F32) => convert(&file.i64s[from], &mut file.f32s[to], |v| v as f32),
        (Ty::U32, Ty::I32) => convert(&file.u32s[from], &mut file.i32s[to], |v| v as i32),
        (Ty::U32, Ty::I64) => convert(&file.u32s[from], &mut file.i64s[to], i64::from),
        (Ty::U32, Ty::F32) => convert(&file.u32s[from], &mut file.f32s[to], |v| v as f32),
        (Ty::F32, Ty::I32) => convert(&file.f32s[from], &mut file.i32s[to], |v| v as i32),
        (Ty::F32, Ty::I64) => convert(&file.f32s[from], &mut file.i64s[to], |v| v as i64),
        (Ty::F32, Ty::U32) => convert(&file.f32s[from], &mut file.u32s[to], |v| v as u32),
        (_, Ty::Bool)
        | (Ty::I32, Ty::I32)
        | (Ty::I64, Ty::I64)
        | (Ty::U32, Ty::U32)
        | (Ty::F32, Ty::F32) => unreachable!("the arena is typed: no cast of {} to bool", arg.ty),
    }
}

#[inline]
fn convert<S: Copy, T>(from: &Lanes<S>, to: &mut Lanes<T>, f: impl Fn(S) -> T) {
    for i in 0..LANES {
        to[i] = f(from[i]);
    }
}

/// `dst = if cond { then } else { otherwise }`, lane by lane.
pub(super) fn select(file: &mut File, cond: Reg, then: Reg, otherwise: Reg, dst: Reg) {
    match dst.ty {
        Ty::Bool => select_lanes::<u8>(file, cond, then, otherwise, dst),
        Ty::I32 => select_lanes::<i32>(file, cond, then, otherwise, dst),
        Ty::I64 => select_lanes::<i64>(file, cond, then, otherwise, dst),
        Ty::U32 => select_lanes::<u32>(file, cond, then, otherwise, dst),
        Ty::F32 => select_lanes::<f32>(file, cond, then, otherwise, dst),
    }
}

fn select_lanes<T: Lane>(file: &mut File, cond: Reg, then: Reg, otherwise: Reg, dst: Reg) {
    let cond = file.bools[cond.slot];
    let (pool, out) = operands::<T>(file, dst);
    let (then, otherwise) = (&pool[then.slot], &pool[otherwise.slot]);
    for i in 0..LANES {
        out[i] = if cond[i] == 0 { otherwise[i] } else { then[i] };
    }
}

/// `dst = value`.
pub(super) fn copy(file: &mut File, value: Reg, dst: Reg) {
    match dst.ty {
        Ty::Bool => map::<u8>(file, value, dst, |v| v),
        Ty::I32 => map::<i32>(file, value, dst, |v| v),
        Ty::I64 => map::<i64>(file, value, dst, |v| v),
        Ty::U32 => map::<u32>(file, value, dst, |v| v),
        Ty::F32 => map::<f32>(file, value, dst, |v| v),
    }
}

/// The registers that may be read while `dst` is written, and `dst`.
#[inline]
fn operands<T: Lane>(file: &mut File, dst: Reg) -> (&[Lanes<T>], &mut Lanes<T>) {
    let (operands, rest) = T::pool(file).split_at_mut(dst.slot);
    (operands, &mut rest[0])
}

#[inline]
fn map<T: Lane>(file: &mut File, arg: Reg, dst: Reg, f: impl Fn(T) -> T) {
    let (pool, out) = operands::<T>(file, dst);
    let arg = &pool[arg.slot];
    for i in 0..LANES {
        out[i] = f(arg[i]);
    }
}

#[inline]
fn map_checked<T: Lane>(
    file: &mut File,
    arg: Reg,
    dst: Reg,
    fault: &mut Lanes<u8>,
    f: impl Fn(T) -> (T, bool),
) -> bool {
    let (pool, out) = operands::<T>(file, dst);
    let arg = &pool[arg.slot];
    let mut any = false;
    for i in 0..LANES {
        let (value, bad) = f(arg[i]);
        out[i] = value;
        any |= bad;
    }
    if any {
        *fault = arg.map(|arg| u8::from(f(arg).1));
    }
    any
}

#[inline]
fn zip<T: Lane>(file: &mut File, lhs: Reg, rhs: Reg, dst: Reg, f: impl Fn(T, T) -> T) {
    let (pool, out) = operands::<T>(file, dst);
    let (lhs, rhs) = (&pool[lhs.slot], &pool[rhs.slot]);
    for i in 0..LANES {
        out[i] = f(lhs[i], rhs[i]);
    }
}

#[inline]
fn zip_checked<T: Lane>(
    file: &mut File,
    lhs: Reg,
    rhs: Reg,
    dst: Reg,
    fault: &mut Lanes<u8>,
    f: impl Fn(T, T) -> (T, bool),
) -> bool {
    let (pool, out) = operands::<T>(file, dst);
    let (lhs, rhs) = (&pool[lhs.slot], &pool[rhs.slot]);
    let mut any = false;
    for i in 0..LANES {
        let (value, bad) = f(lhs[i], rhs[i]);
        out[i] = value;
        any |= bad;
    }
    // Faults are rare, so the loop above does not store them.
    if any {
        for i in 0..LANES {
            fault[i] = u8::from(f(lhs[i], rhs[i]).1);
        }
    }
    any
}

#[inline]
fn compare<T: Number>(file: &mut File, lhs: Reg, rhs: Reg, dst: Reg, f: impl Fn(T, T) -> bool) {
    let (pool, bools) = T::with_bools(file);
    let (lhs, rhs, out) = (&pool[lhs.slot], &pool[rhs.slot], &mut bools[dst.slot]);
    for i in 0..LANES {
        out[i] = u8::from(f(lhs[i], rhs[i]));
    }
}
