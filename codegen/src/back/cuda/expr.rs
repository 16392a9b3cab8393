//! One operator of a rule as CUDA text, from the texts of its operands.
//!
//! A text that is evaluated only where the rule evaluates it ([`Mode::Exact`]) may rely on what validation proved: no
//! overflow, no divisor of 0. One that is computed ahead of its guard ([`Mode::Guarded`]) may meet any value, so it uses
//! forms that are defined for all of them.

use std::collections::BTreeSet;

use maskwright_dsl::ir::{BinaryOp, Const, MathFn, Ty, UnaryOp};

use super::literal::literal;
use super::math::Exact;
use super::precedence::{Precedence, Printed};
use super::support::{Support, c_type};

/// Whether a text is evaluated only where the rule evaluates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Only where the rule evaluates it.
    Exact,
    /// At other cells as well, where its value reaches no result.
    Guarded,
}

/// Whether a float function must have the bits of `maskwright_dsl::math`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accuracy {
    /// It decides something.
    Bits,
    /// It flows into the score alone.
    ///
    /// The functions of the CUDA library serve, whose errors NVIDIA states, in units in the last place: `expf` 1, `exp2f` 2,
    /// `logf` 1, `log2f` 1, `log10f` 2, `tanhf` 2, `powf` 4. Sine, cosine, tangent and `erf` keep their exact form.
    Close,
}

/// The operand of a shift, division or power where it is a literal.
type Literal = Option<Const>;

/// Writes operators and remembers the functions that they call.
#[derive(Debug, Default)]
pub(super) struct Operators {
    pub(super) support: BTreeSet<Support>,
}

impl Operators {
    pub(super) fn call(&mut self, support: Support, name: &str, operands: &[&Printed]) -> Printed {
        support.add_to(&mut self.support);
        Printed::call(name, operands)
    }

    pub(super) fn unary(
        &mut self,
        op: UnaryOp,
        ty: Ty,
        mode: Mode,
        accuracy: Accuracy,
        a: &Printed,
    ) -> Printed {
        match op {
            UnaryOp::Not if ty == Ty::Bool => Printed::prefix("!", a),
            UnaryOp::Not => Printed::prefix("~", a),
            UnaryOp::Neg if ty == Ty::F32 || mode == Mode::Exact => Printed::prefix("-", a),
            UnaryOp::WrappingNeg if ty == Ty::U32 => Printed::prefix("-", a),
            UnaryOp::Neg | UnaryOp::WrappingNeg => {
                self.call(Support::WrappingNeg(ty), "wrapping_neg", &[a])
            }
            UnaryOp::Abs if ty == Ty::F32 => Printed::call("fabsf", &[a]),
            UnaryOp::Abs if mode == Mode::Exact => Printed::call("abs", &[a]),
            UnaryOp::Abs => self.call(Support::WrappingAbs(ty), "wrapping_abs", &[a]),
            UnaryOp::Signum => self.call(Support::Signum(ty), "signum", &[a]),
            UnaryOp::Math(f) => self.math(f, accuracy, a),
        }
    }

    fn math(&mut self, f: MathFn, accuracy: Accuracy, a: &Printed) -> Printed {
        let close = match f {
            MathFn::Sqrt => return Printed::call("__fsqrt_rn", &[a]),
            MathFn::Floor => return Printed::call("floorf", &[a]),
            MathFn::Ceil => return Printed::call("ceilf", &[a]),
            MathFn::Trunc => return Printed::call("truncf", &[a]),
            MathFn::Round => return self.call(Support::RoundAway, "round_away", &[a]),
            MathFn::Exp => Some("expf"),
            MathFn::Exp2 => Some("exp2f"),
            MathFn::Ln => Some("logf"),
            MathFn::Log2 => Some("log2f"),
            MathFn::Log10 => Some("log10f"),
            MathFn::Tanh => Some("tanhf"),
            MathFn::Sin | MathFn::Cos | MathFn::Tan | MathFn::Erf => None,
        };
        match close {
            Some(name) if accuracy == Accuracy::Close => Printed::call(name, &[a]),
            Some(_) | None => {
                let exact = Exact::of(f).expect("exact instructions are printed above");
                let name = format!("exact_{}", f.name());
                self.call(Support::Exact(exact), &name, &[a])
            }
        }
    }

    /// `a op b` for operands of type `ty`; `divisor` is `b` where it is a literal.
    pub(super) fn binary(
        &mut self,
        op: BinaryOp,
        ty: Ty,
        mode: Mode,
        accuracy: Accuracy,
        [a, b]: [&Printed; 2],
        right: Literal,
    ) -> Printed {
        let infix = |sign, precedence| Printed::infix(sign, precedence, a, b);
        match op {
            BinaryOp::Add => self.sum(Support::WrappingAdd(ty), "+", ty, mode, a, b),
            BinaryOp::Sub => self.sum(Support::WrappingSub(ty), "-", ty, mode, a, b),
            BinaryOp::Mul => self.sum(Support::WrappingMul(ty), "*", ty, mode, a, b),
            BinaryOp::WrappingAdd => {
                self.sum(Support::WrappingAdd(ty), "+", ty, Mode::Guarded, a, b)
            }
            BinaryOp::WrappingSub => {
                self.sum(Support::WrappingSub(ty), "-", ty, Mode::Guarded, a, b)
            }
            BinaryOp::WrappingMul => {
                self.sum(Support::WrappingMul(ty), "*", ty, Mode::Guarded, a, b)
            }
            BinaryOp::Div if ty == Ty::F32 => infix("/", Precedence::Product),
            BinaryOp::Rem if ty == Ty::F32 => Printed::call("fmodf", &[a, b]),
            BinaryOp::Div
            | BinaryOp::Rem
            | BinaryOp::DivFloor
            | BinaryOp::RemFloor
            | BinaryOp::DivEuclid
            | BinaryOp::RemEuclid => self.divide(op, ty, mode, a, b, right),
            BinaryOp::Pow => self.call(Support::IntPower(ty), "int_power", &[a, b]),
            BinaryOp::Powi => self.call(Support::Exact(Exact::Powi), "exact_powi", &[a, b]),
            BinaryOp::Powf if accuracy == Accuracy::Close => Printed::call("powf", &[a, b]),
            BinaryOp::Powf => self.call(Support::Exact(Exact::Powf), "exact_powf", &[a, b]),
            BinaryOp::BitAnd => infix("&", Precedence::BitAnd),
            BinaryOp::BitOr => infix("|", Precedence::BitOr),
            BinaryOp::BitXor => infix("^", Precedence::BitXor),
            BinaryOp::Shl | BinaryOp::Shr => self.shift(op, ty, mode, a, b, right),
            BinaryOp::Min if ty == Ty::F32 => Printed::call("fminf", &[a, b]),
            BinaryOp::Max if ty == Ty::F32 => Printed::call("fmaxf", &[a, b]),
            BinaryOp::Min => Printed::call("min", &[a, b]),
            BinaryOp::Max => Printed::call("max", &[a, b]),
            BinaryOp::And => infix("&&", Precedence::And),
            BinaryOp::Or => infix("||", Precedence::Or),
            BinaryOp::Eq => infix("==", Precedence::Equality),
            BinaryOp::Ne => infix("!=", Precedence::Equality),
            BinaryOp::Lt => infix("<", Precedence::Relation),
            BinaryOp::Le => infix("<=", Precedence::Relation),
            BinaryOp::Gt => infix(">", Precedence::Relation),
            BinaryOp::Ge => infix(">=", Precedence::Relation),
        }
    }

    fn sum(
        &mut self,
        wrapping: Support,
        sign: &str,
        ty: Ty,
        mode: Mode,
        a: &Printed,
        b: &Printed,
    ) -> Printed {
        if mode == Mode::Exact || matches!(ty, Ty::U32 | Ty::F32) {
            let precedence = if sign == "*" {
                Precedence::Product
            } else {
                Precedence::Sum
            };
            return Printed::infix(sign, precedence, a, b);
        }
        let name = match sign {
            "+" => "wrapping_add",
            "-" => "wrapping_sub",
            _ => "wrapping_mul",
        };
        self.call(wrapping, name, &[a, b])
    }

    fn divide(
        &mut self,
        op: BinaryOp,
        ty: Ty,
        mode: Mode,
        a: &Printed,
        b: &Printed,
        divisor: Literal,
    ) -> Printed {
        let divisor = divisor.and_then(Const::as_int);
        let harmless = divisor.is_some_and(|d| d != 0 && d != -1);
        let plain = mode == Mode::Exact || harmless;
        let power = divisor.filter(|d| 0 < *d && d & (d - 1) == 0);
        let (remainder, support) = match op {
            BinaryOp::Div => (false, Support::Quotient(ty)),
            BinaryOp::Rem => (true, Support::Remainder(ty)),
            BinaryOp::DivFloor => (false, Support::DivFloor(ty)),
            BinaryOp::RemFloor => (true, Support::RemFloor(ty)),
            BinaryOp::DivEuclid => (false, Support::DivEuclid(ty)),
            BinaryOp::RemEuclid => (true, Support::RemEuclid(ty)),
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
            | BinaryOp::Ge => unreachable!("only divisions are divided"),
        };
        let truncates = ty == Ty::U32 || matches!(op, BinaryOp::Div | BinaryOp::Rem);
        if truncates {
            return match (remainder, plain) {
                (false, true) => Printed::infix("/", Precedence::Product, a, b),
                (true, true) => Printed::infix("%", Precedence::Product, a, b),
                (false, false) => self.call(Support::Quotient(ty), "quotient", &[a, b]),
                (true, false) => self.call(Support::Remainder(ty), "remainder_of", &[a, b]),
            };
        }
        // For a positive divisor both ways of rounding down agree, and for a power of two they are bit operations.
        if let Some(power) = power {
            return if remainder {
                let low = Const::from_int(ty, power - 1).expect("it is below the divisor");
                Printed::infix("&", Precedence::BitAnd, a, &literal(low))
            } else {
                let shift = literal(Const::I32(power.trailing_zeros() as i32));
                Printed::infix(">>", Precedence::Shift, a, &shift)
            };
        }
        self.call(support, op.symbol(), &[a, b])
    }

    fn shift(
        &mut self,
        op: BinaryOp,
        ty: Ty,
        mode: Mode,
        a: &Printed,
        b: &Printed,
        amount: Literal,
    ) -> Printed {
        if op == BinaryOp::Shl && ty != Ty::U32 {
            return self.call(Support::ShiftLeft(ty), "shift_left", &[a, b]);
        }
        let in_range = |n: i64| 0 <= n && n < i64::from(ty.bits());
        let harmless = amount.and_then(Const::as_int).is_some_and(in_range);
        let mask = Printed::atom((ty.bits() - 1).to_string());
        let masked = Printed::infix("&", Precedence::BitAnd, b, &mask);
        let amount = if mode == Mode::Exact || harmless {
            b
        } else {
            &masked
        };
        Printed::infix(op.symbol(), Precedence::Shift, a, amount)
    }

    /// `v.clamp(lo, hi)`
    pub(super) fn clamp(&mut self, ty: Ty, [v, lo, hi]: [&Printed; 3]) -> Printed {
        if ty == Ty::F32 {
            return self.call(Support::Clamp, "clamp", &[v, lo, hi]);
        }
        let raised = Printed::call("max", &[v, lo]);
        Printed::call("min", &[&raised, hi])
    }

    /// `a as to`
    pub(super) fn cast(&mut self, from: Ty, to: Ty, a: &Printed) -> Printed {
        match (from, to) {
            (Ty::F32, Ty::I32) => self.call(Support::FromFloat(to), "to_i32", &[a]),
            (Ty::F32, Ty::I64) => self.call(Support::FromFloat(to), "to_i64", &[a]),
            (Ty::F32, Ty::U32) => self.call(Support::FromFloat(to), "to_u32", &[a]),
            (from, to) if from == to => a.clone(),
            (Ty::Bool | Ty::I32 | Ty::I64 | Ty::U32 | Ty::F32, to) => {
                Printed::prefix(&format!("({})", c_type(to)), a)
            }
        }
    }
}
