//! Division of integers, which vectors have no instruction for.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F64X2, I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};
use maskwright_dsl::ir::{BinaryOp, Const, Ty};

use super::emit::{Emitter, Lanes};

/// Whether an operator divides integers.
pub(super) fn divides(op: BinaryOp, ty: Ty) -> bool {
    let divides = match op {
        BinaryOp::Div
        | BinaryOp::Rem
        | BinaryOp::DivFloor
        | BinaryOp::RemFloor
        | BinaryOp::DivEuclid
        | BinaryOp::RemEuclid => true,
        BinaryOp::Add
        | BinaryOp::Sub
        | BinaryOp::Mul
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
        | BinaryOp::Or
        | BinaryOp::Eq
        | BinaryOp::Ne
        | BinaryOp::Lt
        | BinaryOp::Le
        | BinaryOp::Gt
        | BinaryOp::Ge => false,
    };
    divides && ty.is_int()
}

fn gives_remainder(op: BinaryOp) -> bool {
    matches!(op, BinaryOp::Rem | BinaryOp::RemFloor | BinaryOp::RemEuclid)
}

impl Emitter<'_, '_> {
    /// Division of scalars. Where a guard excludes the cell the divisor may be anything, so no divisor may trap.
    pub(super) fn divide_scalar(&mut self, op: BinaryOp, ty: Ty, a: Value, b: Value) -> Value {
        let widen = |this: &mut Self, v: Value| match ty {
            Ty::I32 => this.builder.ins().sextend(I64, v),
            Ty::U32 => this.builder.ins().uextend(I64, v),
            Ty::I64 | Ty::Bool | Ty::F32 => v,
        };
        let (a, b) = (widen(self, a), widen(self, b));
        // 0 and -1 divide like 1, without a trap; for -1 the quotient then changes its sign.
        let one = self.int(I64, 1);
        let zero = self.int(I64, 0);
        let next = self.builder.ins().iadd(b, one);
        let special = self.icmp(IntCC::UnsignedLessThanOrEqual, next, one);
        let divisor = self.builder.ins().select(special, one, b);
        let quotient = self.builder.ins().sdiv(a, divisor);
        let product = self.builder.ins().imul(quotient, divisor);
        let remainder = self.builder.ins().isub(a, product);
        let negative = self.icmp(IntCC::SignedLessThan, b, zero);
        let minus = self.builder.ins().ineg(quotient);
        let minus_one = self.builder.ins().band(special, negative);
        let quotient = self.builder.ins().select(minus_one, minus, quotient);
        let result = self.correct(op, quotient, remainder, b);
        if ty == Ty::I64 {
            result
        } else {
            self.builder.ins().ireduce(I32, result)
        }
    }

    /// From a truncated quotient and its remainder to what the operator gives; either shape.
    fn correct(&mut self, op: BinaryOp, quotient: Value, remainder: Value, b: Value) -> Value {
        let shape = self.builder.func.dfg.value_type(b);
        let zero = self.int(shape, 0);
        if matches!(op, BinaryOp::DivFloor | BinaryOp::RemFloor) {
            // Signs of remainder and divisor differ, and there is a remainder.
            let signs = self.builder.ins().bxor(remainder, b);
            let differ = self.icmp(IntCC::SignedLessThan, signs, zero);
            let inexact = self.icmp(IntCC::NotEqual, remainder, zero);
            let wrong = self.builder.ins().band(differ, inexact);
            return if gives_remainder(op) {
                let moved = self.builder.ins().iadd(remainder, b);
                self.blend(wrong, moved, remainder)
            } else {
                let one = self.int(shape, 1);
                let moved = self.builder.ins().isub(quotient, one);
                self.blend(wrong, moved, quotient)
            };
        }
        if matches!(op, BinaryOp::DivEuclid | BinaryOp::RemEuclid) {
            let wrong = self.icmp(IntCC::SignedLessThan, remainder, zero);
            let negative = self.icmp(IntCC::SignedLessThan, b, zero);
            return if gives_remainder(op) {
                let minus = self.builder.ins().ineg(b);
                let size = self.blend(negative, minus, b);
                let moved = self.builder.ins().iadd(remainder, size);
                self.blend(wrong, moved, remainder)
            } else {
                let one = self.int(shape, 1);
                let down = self.builder.ins().isub(quotient, one);
                let up = self.builder.ins().iadd(quotient, one);
                let moved = self.blend(negative, up, down);
                self.blend(wrong, moved, quotient)
            };
        }
        if gives_remainder(op) {
            remainder
        } else {
            quotient
        }
    }

    /// Division lane by lane; `divisor` is the value of `b` where it is a literal.
    pub(super) fn divide_lanes(
        &mut self,
        op: BinaryOp,
        ty: Ty,
        a: Lanes,
        b: Lanes,
        divisor: Option<Const>,
    ) -> Lanes {
        if let Some(shift) = divisor.and_then(Const::as_int).and_then(power_of_two) {
            return self.divide_by_power(op, ty, a, shift);
        }
        match ty {
            Ty::I32 | Ty::U32 => Lanes::Four(self.divide_by_floats(op, ty, a.four(), b.four())),
            Ty::I64 | Ty::Bool | Ty::F32 => {
                self.per_lane(ty, [(ty, a), (ty, b)], |this, [a, b]| {
                    this.divide_scalar(op, ty, a, b)
                })
            }
        }
    }

    fn divide_by_power(&mut self, op: BinaryOp, ty: Ty, a: Lanes, shift: u32) -> Lanes {
        let mut halve = |v: Value| {
            let shape = self.builder.func.dfg.value_type(v);
            let shift = i64::from(shift);
            let low = self.int(shape, (1 << shift) - 1);
            let truncates = matches!(op, BinaryOp::Div | BinaryOp::Rem) && ty != Ty::U32;
            // Truncation of a negative number: first move it up by the divisor less one.
            let v_up = if truncates {
                let sign = self.sshr(v, i64::from(ty.bits()) - 1);
                let bias = self.builder.ins().band(sign, low);
                self.builder.ins().iadd(v, bias)
            } else {
                v
            };
            if !gives_remainder(op) {
                return if ty == Ty::U32 {
                    self.ushr(v_up, shift)
                } else {
                    self.sshr(v_up, shift)
                };
            }
            if truncates {
                let high = self.builder.ins().band_not(v_up, low);
                self.builder.ins().isub(v, high)
            } else {
                self.builder.ins().band(v, low)
            }
        };
        match a {
            Lanes::Four(v) => Lanes::Four(halve(v)),
            Lanes::Pair(v) => Lanes::Pair(v.map(halve)),
        }
    }

    /// Division of 32-bit lanes as floats of 64 bits, which is exact: a quotient that is no integer lies at least
    /// `1 / |b|` from the next one, and rounding moves it by at most `|a / b| / 2^53 < 1 / |b|`.
    fn divide_by_floats(&mut self, op: BinaryOp, ty: Ty, a: Value, b: Value) -> Value {
        let (x, y) = (self.doubles(ty, a), self.doubles(ty, b));
        let floors = matches!(op, BinaryOp::DivFloor | BinaryOp::RemFloor);
        let halves = [0, 1].map(|half| {
            let quotient = self.builder.ins().fdiv(x[half], y[half]);
            let whole = if floors {
                self.builder.ins().floor(quotient)
            } else {
                self.builder.ins().trunc(quotient)
            };
            // Adding 3 * 2^51 leaves the integer, modulo 2^32, in the low half of the bits.
            let magic = self.builder.ins().f64const(6_755_399_441_055_744.0);
            let magic = self.builder.ins().splat(F64X2, magic);
            self.builder.ins().fadd(whole, magic)
        });
        let quotient = self.shuffle(halves[0], halves[1], [0, 2, 4, 6]);
        if op == BinaryOp::Div || op == BinaryOp::DivFloor {
            return quotient;
        }
        let product = self.builder.ins().imul(quotient, b);
        let remainder = self.builder.ins().isub(a, product);
        if floors || ty == Ty::U32 {
            return if gives_remainder(op) {
                remainder
            } else {
                quotient
            };
        }
        self.correct(op, quotient, remainder, b)
    }

    fn doubles(&mut self, ty: Ty, v: Value) -> [Value; 2] {
        let high = self.shuffle(v, v, [2, 3, 2, 3]);
        [v, high].map(|v| {
            if ty == Ty::U32 {
                let wide = self.builder.ins().uwiden_low(v);
                self.builder.ins().fcvt_from_uint(F64X2, wide)
            } else {
                let wide = self.builder.ins().swiden_low(v);
                self.builder.ins().fcvt_from_sint(F64X2, wide)
            }
        })
    }
}

/// `k` where `v` is 2 to the `k`, for divisors that every integer type holds.
fn power_of_two(v: i64) -> Option<u32> {
    (0 < v && v <= 1 << 30 && v & (v - 1) == 0).then(|| v.trailing_zeros())
}
