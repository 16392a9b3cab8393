//! Operators on values of either shape: one scalar, or the lanes of a vector.
//!
//! A truth value is 0 or 1 in eight bits as a scalar, and all zeros or all ones as a lane. Arithmetic that would leave
//! its type wraps here: a valid rule never does so where the value is used.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32, F32X4, I32, I32X4, I64};
use cranelift_codegen::ir::{InstBuilder, Type, Value};
use maskwright_dsl::ir::{BinaryOp, MathFn, Ty, UnaryOp};

use super::emit::Emitter;

impl Emitter<'_, '_> {
    fn type_of(&self, v: Value) -> Type {
        self.builder.func.dfg.value_type(v)
    }

    fn is_vector(&self, v: Value) -> bool {
        self.type_of(v).is_vector()
    }

    /// Shifts left by a literal.
    pub(super) fn ishl(&mut self, v: Value, by: i64) -> Value {
        let by = self.int(I32, by);
        self.builder.ins().ishl(v, by)
    }

    /// Shifts right by a literal, filling with zeros.
    pub(super) fn ushr(&mut self, v: Value, by: i64) -> Value {
        let by = self.int(I32, by);
        self.builder.ins().ushr(v, by)
    }

    /// Shifts right by a literal, filling with the sign.
    pub(super) fn sshr(&mut self, v: Value, by: i64) -> Value {
        let by = self.int(I32, by);
        self.builder.ins().sshr(v, by)
    }

    /// The negation of a truth value.
    pub(super) fn not_bool(&mut self, v: Value) -> Value {
        if self.is_vector(v) {
            self.builder.ins().bnot(v)
        } else {
            self.builder.ins().bxor_imm_u(v, 1)
        }
    }

    /// `op v` for an operand of type `ty`; `None` where a function must be called.
    pub(super) fn unary_value(&mut self, op: UnaryOp, ty: Ty, v: Value) -> Option<Value> {
        Some(match op {
            UnaryOp::Not if ty == Ty::Bool => self.not_bool(v),
            UnaryOp::Not => self.builder.ins().bnot(v),
            UnaryOp::Neg if ty == Ty::F32 => self.builder.ins().fneg(v),
            UnaryOp::Neg | UnaryOp::WrappingNeg => self.builder.ins().ineg(v),
            UnaryOp::Abs if ty == Ty::F32 => self.builder.ins().fabs(v),
            UnaryOp::Abs => {
                let shape = self.type_of(v);
                let zero = self.int(shape, 0);
                let negative = self.icmp(IntCC::SignedLessThan, v, zero);
                let negated = self.builder.ins().ineg(v);
                self.blend(negative, negated, v)
            }
            UnaryOp::Signum if ty == Ty::F32 => {
                let signed = self.one_with_sign(v);
                let nan = self.fcmp(FloatCC::Unordered, v, v);
                self.blend(nan, v, signed)
            }
            UnaryOp::Signum => {
                let shape = self.type_of(v);
                let one = self.int(shape, 1);
                let low = self.int(shape, -1);
                let capped = self.min_int(IntCC::SignedLessThan, v, one);
                self.max_int(IntCC::SignedGreaterThan, capped, low)
            }
            UnaryOp::Math(MathFn::Sqrt) => self.builder.ins().sqrt(v),
            UnaryOp::Math(MathFn::Floor) => self.builder.ins().floor(v),
            UnaryOp::Math(MathFn::Ceil) => self.builder.ins().ceil(v),
            UnaryOp::Math(MathFn::Trunc) => self.builder.ins().trunc(v),
            UnaryOp::Math(MathFn::Round) => self.round(v),
            UnaryOp::Math(
                MathFn::Exp
                | MathFn::Exp2
                | MathFn::Ln
                | MathFn::Log2
                | MathFn::Log10
                | MathFn::Tanh
                | MathFn::Sin
                | MathFn::Cos
                | MathFn::Tan
                | MathFn::Erf,
            ) => return None,
        })
    }

    /// To nearest, halves away from zero: the fraction that truncation drops is exact, so it decides.
    fn round(&mut self, v: Value) -> Value {
        let shape = self.type_of(v);
        let whole = self.builder.ins().trunc(v);
        let fraction = self.builder.ins().fsub(v, whole);
        let fraction = self.builder.ins().fabs(fraction);
        let half = self.float(shape, 0.5);
        let away = self.fcmp(FloatCC::GreaterThanOrEqual, fraction, half);
        let step = self.one_with_sign(v);
        let up = self.builder.ins().fadd(whole, step);
        self.blend(away, up, whole)
    }

    /// 1 with the sign of `v`.
    fn one_with_sign(&mut self, v: Value) -> Value {
        let floats = self.type_of(v);
        let ints = if floats.is_vector() { I32X4 } else { I32 };
        let bits = self.cast_bits(ints, v);
        let sign = self.int(ints, i64::from(i32::MIN));
        let sign = self.builder.ins().band(bits, sign);
        let one = self.int(ints, i64::from(1f32.to_bits()));
        let signed = self.builder.ins().bor(sign, one);
        self.cast_bits(floats, signed)
    }

    /// `a op b` for operands of type `ty`, where one or a few instructions compute it.
    ///
    /// `None` for what is lowered elsewhere: division of integers, shifts, and what functions compute.
    pub(super) fn binary_value(
        &mut self,
        op: BinaryOp,
        ty: Ty,
        a: Value,
        b: Value,
    ) -> Option<Value> {
        match ty {
            Ty::Bool => self.binary_bool(op, a, b),
            Ty::I32 | Ty::U32 | Ty::I64 => self.binary_int(op, ty, a, b),
            Ty::F32 => self.binary_float(op, a, b),
        }
    }

    fn binary_bool(&mut self, op: BinaryOp, a: Value, b: Value) -> Option<Value> {
        match op {
            BinaryOp::And | BinaryOp::BitAnd => Some(self.builder.ins().band(a, b)),
            BinaryOp::Or | BinaryOp::BitOr => Some(self.builder.ins().bor(a, b)),
            BinaryOp::BitXor | BinaryOp::Ne => Some(self.builder.ins().bxor(a, b)),
            BinaryOp::Eq => {
                let differ = self.builder.ins().bxor(a, b);
                Some(self.not_bool(differ))
            }
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
            | BinaryOp::Ge => None,
        }
    }

    fn binary_int(&mut self, op: BinaryOp, ty: Ty, a: Value, b: Value) -> Option<Value> {
        let (less, greater) = orders(ty);
        Some(match op {
            BinaryOp::Add | BinaryOp::WrappingAdd => self.builder.ins().iadd(a, b),
            BinaryOp::Sub | BinaryOp::WrappingSub => self.builder.ins().isub(a, b),
            BinaryOp::Mul | BinaryOp::WrappingMul => self.builder.ins().imul(a, b),
            BinaryOp::BitAnd => self.builder.ins().band(a, b),
            BinaryOp::BitOr => self.builder.ins().bor(a, b),
            BinaryOp::BitXor => self.builder.ins().bxor(a, b),
            BinaryOp::Min => self.min_int(less, a, b),
            BinaryOp::Max => self.max_int(greater, a, b),
            BinaryOp::Eq => self.icmp(IntCC::Equal, a, b),
            BinaryOp::Ne => self.icmp(IntCC::NotEqual, a, b),
            BinaryOp::Lt => self.icmp(less, a, b),
            BinaryOp::Gt => self.icmp(less, b, a),
            BinaryOp::Le if ty == Ty::U32 => self.icmp(IntCC::UnsignedLessThanOrEqual, a, b),
            BinaryOp::Le => self.icmp(IntCC::SignedLessThanOrEqual, a, b),
            BinaryOp::Ge if ty == Ty::U32 => self.icmp(IntCC::UnsignedGreaterThanOrEqual, a, b),
            BinaryOp::Ge => self.icmp(IntCC::SignedGreaterThanOrEqual, a, b),
            BinaryOp::Div
            | BinaryOp::Rem
            | BinaryOp::DivFloor
            | BinaryOp::RemFloor
            | BinaryOp::DivEuclid
            | BinaryOp::RemEuclid
            | BinaryOp::Pow
            | BinaryOp::Powi
            | BinaryOp::Powf
            | BinaryOp::Shl
            | BinaryOp::Shr
            | BinaryOp::And
            | BinaryOp::Or => return None,
        })
    }

    fn binary_float(&mut self, op: BinaryOp, a: Value, b: Value) -> Option<Value> {
        Some(match op {
            BinaryOp::Add => self.builder.ins().fadd(a, b),
            BinaryOp::Sub => self.builder.ins().fsub(a, b),
            BinaryOp::Mul => self.builder.ins().fmul(a, b),
            BinaryOp::Div => self.builder.ins().fdiv(a, b),
            BinaryOp::Min | BinaryOp::Max => self.min_max_float(op, a, b),
            BinaryOp::Eq => self.fcmp(FloatCC::Equal, a, b),
            BinaryOp::Ne => self.fcmp(FloatCC::NotEqual, a, b),
            BinaryOp::Lt => self.fcmp(FloatCC::LessThan, a, b),
            BinaryOp::Le => self.fcmp(FloatCC::LessThanOrEqual, a, b),
            BinaryOp::Gt => self.fcmp(FloatCC::GreaterThan, a, b),
            BinaryOp::Ge => self.fcmp(FloatCC::GreaterThanOrEqual, a, b),
            BinaryOp::Rem
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
            | BinaryOp::And
            | BinaryOp::Or => return None,
        })
    }

    fn min_int(&mut self, less: IntCC, a: Value, b: Value) -> Value {
        if self.type_of(a) == I32X4 {
            return if less == IntCC::UnsignedLessThan {
                self.builder.ins().umin(a, b)
            } else {
                self.builder.ins().smin(a, b)
            };
        }
        // There is no instruction for 64-bit lanes.
        let first = self.icmp(less, a, b);
        self.blend(first, a, b)
    }

    fn max_int(&mut self, greater: IntCC, a: Value, b: Value) -> Value {
        if self.type_of(a) == I32X4 {
            return if greater == IntCC::UnsignedGreaterThan {
                self.builder.ins().umax(a, b)
            } else {
                self.builder.ins().smax(a, b)
            };
        }
        let first = self.icmp(greater, a, b);
        self.blend(first, a, b)
    }

    /// A NaN loses to a number, and -0 is below +0: the rule of `math::min` and `math::max`, which no instruction has.
    fn min_max_float(&mut self, op: BinaryOp, a: Value, b: Value) -> Value {
        let shape = self.type_of(a);
        let ints = if shape.is_vector() { I32X4 } else { I32 };
        let (a_bits, b_bits) = (self.cast_bits(ints, a), self.cast_bits(ints, b));
        // Equal numbers differ in the sign of a zero at most, so their bits can be joined.
        let (wins, joined) = if op == BinaryOp::Min {
            let wins = self.fcmp(FloatCC::LessThan, b, a);
            (wins, self.builder.ins().bor(a_bits, b_bits))
        } else {
            let wins = self.fcmp(FloatCC::GreaterThan, b, a);
            (wins, self.builder.ins().band(a_bits, b_bits))
        };
        let nan = self.fcmp(FloatCC::Unordered, a, a);
        let take_b = self.builder.ins().bor(wins, nan);
        let picked = self.blend(take_b, b, a);
        let equal = self.fcmp(FloatCC::Equal, a, b);
        let joined = self.cast_bits(shape, joined);
        self.blend(equal, joined, picked)
    }

    /// `v.clamp(lo, hi)`; a NaN stays.
    pub(super) fn clamp_value(&mut self, ty: Ty, v: Value, lo: Value, hi: Value) -> Value {
        match ty {
            Ty::F32 => {
                let low = self.fcmp(FloatCC::LessThan, v, lo);
                let high = self.fcmp(FloatCC::LessThan, hi, v);
                let capped = self.blend(high, hi, v);
                self.blend(low, lo, capped)
            }
            Ty::Bool | Ty::I32 | Ty::U32 | Ty::I64 => {
                let (less, greater) = orders(ty);
                let raised = self.max_int(greater, v, lo);
                self.min_int(less, raised, hi)
            }
        }
    }

    /// A shift; the amount is one scalar for all lanes, in range where the result is used.
    pub(super) fn shift_value(&mut self, op: BinaryOp, ty: Ty, v: Value, amount: Value) -> Value {
        if op == BinaryOp::Shl {
            self.builder.ins().ishl(v, amount)
        } else if ty == Ty::U32 {
            self.builder.ins().ushr(v, amount)
        } else {
            self.builder.ins().sshr(v, amount)
        }
    }

    /// `v as to` for scalars.
    pub(super) fn cast_scalar(&mut self, from: Ty, to: Ty, v: Value) -> Value {
        let bits = |ty| if ty == Ty::I64 { I64 } else { I32 };
        match (from, to) {
            (_, Ty::Bool)
            | (Ty::F32, Ty::F32)
            | (Ty::I64, Ty::I64)
            | (Ty::I32 | Ty::U32, Ty::I32 | Ty::U32) => v,
            (Ty::Bool, Ty::I32 | Ty::U32 | Ty::I64) => self.builder.ins().uextend(bits(to), v),
            (Ty::Bool, Ty::F32) => {
                let int = self.builder.ins().uextend(I32, v);
                self.builder.ins().fcvt_from_sint(F32, int)
            }
            (Ty::I32, Ty::I64) => self.builder.ins().sextend(I64, v),
            (Ty::U32, Ty::I64) => self.builder.ins().uextend(I64, v),
            (Ty::I64, Ty::I32 | Ty::U32) => self.builder.ins().ireduce(I32, v),
            (Ty::I32 | Ty::I64, Ty::F32) => self.builder.ins().fcvt_from_sint(F32, v),
            (Ty::U32, Ty::F32) => {
                let wide = self.builder.ins().uextend(I64, v);
                self.builder.ins().fcvt_from_sint(F32, wide)
            }
            (Ty::F32, Ty::I32 | Ty::I64) => self.builder.ins().fcvt_to_sint_sat(bits(to), v),
            (Ty::F32, Ty::U32) => self.builder.ins().fcvt_to_uint_sat(I32, v),
        }
    }

    /// The bits of a half-precision number (in the low half of 32) as a single, exactly.
    pub(super) fn half_to_single(&mut self, bits: Value) -> Value {
        let ints = self.type_of(bits);
        let floats = if ints.is_vector() { F32X4 } else { F32 };
        let magnitude = self.int(ints, 0x7fff);
        let magnitude = self.builder.ins().band(bits, magnitude);
        let sign = self.builder.ins().bxor(bits, magnitude);
        let sign = self.ishl(sign, 16);
        let shifted = self.ishl(magnitude, 13);
        // Moves the exponent's bias from 15 to 127; a product, so that subnormal halves become normal.
        let scale = self.float(floats, f32::from_bits(0x7780_0000));
        let number = self.cast_bits(floats, shifted);
        let number = self.builder.ins().fmul(number, scale);
        let number = self.cast_bits(ints, number);
        // Infinities and NaNs keep their fraction below an exponent of all ones.
        let largest = self.int(ints, 0x7bff);
        let special = self.icmp(IntCC::SignedGreaterThan, magnitude, largest);
        let ones = self.int(ints, 0x7f80_0000);
        let extreme = self.builder.ins().bor(shifted, ones);
        let number = self.blend(special, extreme, number);
        let number = self.builder.ins().bor(number, sign);
        self.cast_bits(floats, number)
    }

    /// The bits of a bfloat16 (in the low half of 32) as a single.
    pub(super) fn bfloat_to_single(&mut self, bits: Value) -> Value {
        let floats = if self.is_vector(bits) { F32X4 } else { F32 };
        let shifted = self.ishl(bits, 16);
        self.cast_bits(floats, shifted)
    }
}

/// How an integer type orders its values: less and greater.
fn orders(ty: Ty) -> (IntCC, IntCC) {
    if ty == Ty::U32 {
        (IntCC::UnsignedLessThan, IntCC::UnsignedGreaterThan)
    } else {
        (IntCC::SignedLessThan, IntCC::SignedGreaterThan)
    }
}
