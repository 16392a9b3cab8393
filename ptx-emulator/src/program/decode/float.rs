//! Arithmetic on floats.

use super::integer::count;
use super::modifiers::Modifiers;
use super::{Decoder, Result, unknown};
use crate::alu::compare::Property;
use crate::alu::float::{FloatOp, Mode, Width};
use crate::alu::float32::Float32;
use crate::alu::float64::Float64;
use crate::alu::half::FloatInst;
use crate::ast::{Operand, Type};
use crate::program::inst::Inst;
use crate::tensor_core::format::Rounding;

impl<'m> Decoder<'m> {
    pub(super) fn float_arithmetic(
        &mut self,
        opcode: &str,
        m: &mut Modifiers<'m>,
        operands: &'m [Operand],
    ) -> Result<()> {
        let three = matches!(opcode, "min" | "max") && operands.len() == 4;
        let (op, arity) = match opcode {
            "add" => (FloatOp::Add, 2),
            "sub" => (FloatOp::Sub, 2),
            "mul" => (FloatOp::Mul, 2),
            "fma" | "mad" => (FloatOp::Fma, 3),
            "div" => (FloatOp::Div, 2),
            "min" if three => (FloatOp::Min3, 3),
            "max" if three => (FloatOp::Max3, 3),
            "min" => (FloatOp::Min, 2),
            "max" => (FloatOp::Max, 2),
            "neg" => (FloatOp::Neg, 1),
            "abs" => (FloatOp::Abs, 1),
            _ => return Err(unknown()),
        };
        let approximate = op == FloatOp::Div && m.flag("approx");
        if op == FloatOp::Div {
            m.flag("full");
        }
        self.float_operation(op, arity, approximate, m, operands)
    }

    /// `rcp`, `sqrt` and the functions that are only approximated.
    pub(super) fn float_function(
        &mut self,
        opcode: &str,
        m: &mut Modifiers<'m>,
        operands: &'m [Operand],
    ) -> Result<()> {
        if opcode == "testp" {
            return self.testp(m, operands);
        }
        let approximate = m.flag("approx");
        let op = match opcode {
            "rcp" => Some(FloatOp::Rcp),
            "sqrt" => Some(FloatOp::Sqrt),
            _ => None,
        };
        if let Some(op) = op.filter(|_| !(approximate && m.rest().contains(&"f64"))) {
            return self.float_operation(op, 1, false, m, operands);
        }
        let ftz = m.flag("ftz");
        let ty = m.ty()?;
        if matches!(ty, Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2) {
            let op = match opcode {
                "ex2" => FloatOp::Ex2,
                "tanh" => FloatOp::Tanh,
                _ => return Err(unknown()),
            };
            return self.full(
                op,
                1,
                ty,
                Mode {
                    ftz,
                    ..Mode::NEAREST
                },
                operands,
            );
        }
        if ty == Type::F64 {
            let op = match opcode {
                "rcp" => Float64::RcpApprox,
                "rsqrt" if ftz => Float64::RsqrtApprox,
                "rsqrt" => Float64::Rsqrt,
                "copysign" => Float64::CopySign,
                _ => return Err(unknown()),
            };
            return self.emit_float64(op, if opcode == "copysign" { 2 } else { 1 }, operands);
        }
        if ty != Type::F32 {
            return Err(unknown());
        }
        let op = match (opcode, ftz) {
            ("rsqrt", false) => Float32::Rsqrt,
            ("rsqrt", true) => Float32::RsqrtFtz,
            ("sin", false) => Float32::Sin,
            ("sin", true) => Float32::SinFtz,
            ("cos", false) => Float32::Cos,
            ("cos", true) => Float32::CosFtz,
            ("ex2", false) => Float32::Ex2,
            ("ex2", true) => Float32::Ex2Ftz,
            ("lg2", false) => Float32::Lg2,
            ("lg2", true) => Float32::Lg2Ftz,
            ("tanh", false) => Float32::Tanh,
            ("copysign", false) => Float32::CopySign,
            _ => return Err(unknown()),
        };
        self.emit_float32(op, if opcode == "copysign" { 2 } else { 1 }, operands)
    }

    fn float_operation(
        &mut self,
        op: FloatOp,
        arity: usize,
        approximate: bool,
        m: &mut Modifiers<'m>,
        operands: &'m [Operand],
    ) -> Result<()> {
        let rounding = m.rounding().unwrap_or(Rounding::NearestEven);
        let ftz = m.flag("ftz");
        let sat = m.flag("sat");
        let relu = m.flag("relu");
        let nan = m.flag("NaN");
        let xorsign = m.flag("xorsign") && m.flag("abs");
        let ty = m.ty()?;
        let mode = Mode {
            rounding,
            ftz,
            sat,
            relu,
            nan,
            xorsign,
        };
        let plain = rounding == Rounding::NearestEven && !sat && !relu && !xorsign;
        if ty == Type::F32
            && plain
            && let Some(fast) = fast32(op, ftz, nan, approximate)
        {
            return self.emit_float32(fast, arity, operands);
        }
        if ty == Type::F64
            && plain
            && !nan
            && !ftz
            && let Some(fast) = fast64(op)
        {
            return self.emit_float64(fast, arity, operands);
        }
        self.full(op, arity, ty, mode, operands)
    }

    fn full(
        &mut self,
        op: FloatOp,
        arity: usize,
        ty: Type,
        mode: Mode,
        operands: &'m [Operand],
    ) -> Result<()> {
        let (width, packed) = match ty {
            Type::F16 => (Width::F16, false),
            Type::F16x2 => (Width::F16, true),
            Type::Bf16 => (Width::Bf16, false),
            Type::Bf16x2 => (Width::Bf16, true),
            Type::F32 => (Width::F32, false),
            Type::F64 => (Width::F64, false),
            _ => return Err(unknown()),
        };
        self.kernel.tables.floats.push(FloatInst {
            op,
            width,
            packed,
            mode,
        });
        let index = self.kernel.tables.floats.len() as u32 - 1;
        if ty == Type::F64 {
            count(operands, 1 + arity)?;
            let mut out = [self.operands.wide_target(&operands[0])?; 4];
            for (slot, operand) in out[1..].iter_mut().zip(&operands[1..]) {
                *slot = self.operands.wide(operand, ty)?;
            }
            let [to, a, b, c] = out;
            self.emit(Inst::FloatFull64(index, to, a, b, c));
        } else {
            let [to, a, b, c] = self.narrow_operands(operands, arity, ty)?;
            self.emit(Inst::FloatFull(index, to, a, b, c));
        }
        Ok(())
    }

    fn emit_float32(&mut self, op: Float32, arity: usize, operands: &'m [Operand]) -> Result<()> {
        let [to, a, b, c] = self.narrow_operands(operands, arity, Type::F32)?;
        self.emit(Inst::Float32(op, to, a, b, c));
        Ok(())
    }

    fn emit_float64(&mut self, op: Float64, arity: usize, operands: &'m [Operand]) -> Result<()> {
        count(operands, 1 + arity)?;
        let mut out = [self.operands.wide_target(&operands[0])?; 4];
        for (slot, operand) in out[1..].iter_mut().zip(&operands[1..]) {
            *slot = self.operands.wide(operand, Type::F64)?;
        }
        let [to, a, b, c] = out;
        self.emit(Inst::Float64(op, to, a, b, c));
        Ok(())
    }

    fn testp(&mut self, m: &mut Modifiers<'m>, operands: &'m [Operand]) -> Result<()> {
        let property = m.pick(|name| {
            Some(match name {
                "finite" => Property::Finite,
                "infinite" => Property::Infinite,
                "number" => Property::Number,
                "notanumber" => Property::NotANumber,
                "normal" => Property::Normal,
                "subnormal" => Property::Subnormal,
                _ => return None,
            })
        });
        let property = property.ok_or_else(unknown)?;
        let ty = m.ty()?;
        count(operands, 2)?;
        let to = self.operands.predicate_target(&operands[0])?;
        match ty {
            Type::F32 => {
                let a = self.operands.narrow(&operands[1], ty)?;
                self.emit(Inst::Test32(property, to, a));
            }
            Type::F64 => {
                let a = self.operands.wide(&operands[1], ty)?;
                self.emit(Inst::Test64(property, to, a));
            }
            _ => return Err(unknown()),
        }
        Ok(())
    }
}

/// The form with a loop of its own, if there is one.
fn fast32(op: FloatOp, ftz: bool, nan: bool, approximate: bool) -> Option<Float32> {
    Some(match (op, ftz) {
        (FloatOp::Add, false) => Float32::Add,
        (FloatOp::Add, true) => Float32::AddFtz,
        (FloatOp::Sub, false) => Float32::Sub,
        (FloatOp::Sub, true) => Float32::SubFtz,
        (FloatOp::Mul, false) => Float32::Mul,
        (FloatOp::Mul, true) => Float32::MulFtz,
        (FloatOp::Fma, false) => Float32::Fma,
        (FloatOp::Fma, true) => Float32::FmaFtz,
        (FloatOp::Div, false) if approximate => Float32::DivApprox,
        (FloatOp::Div, true) if approximate => Float32::DivApproxFtz,
        (FloatOp::Div, false) => Float32::Div,
        (FloatOp::Div, true) => Float32::DivFtz,
        (FloatOp::Rcp, false) => Float32::Rcp,
        (FloatOp::Rcp, true) => Float32::RcpFtz,
        (FloatOp::Sqrt, false) => Float32::Sqrt,
        (FloatOp::Sqrt, true) => Float32::SqrtFtz,
        (FloatOp::Min, false) if nan => Float32::MinNan,
        (FloatOp::Max, false) if nan => Float32::MaxNan,
        (FloatOp::Min | FloatOp::Max, true) if nan => return None,
        (FloatOp::Min, false) => Float32::Min,
        (FloatOp::Min, true) => Float32::MinFtz,
        (FloatOp::Max, false) => Float32::Max,
        (FloatOp::Max, true) => Float32::MaxFtz,
        (FloatOp::Neg, false) => Float32::Neg,
        (FloatOp::Neg, true) => Float32::NegFtz,
        (FloatOp::Abs, false) => Float32::Abs,
        (FloatOp::Abs, true) => Float32::AbsFtz,
        (FloatOp::Min3 | FloatOp::Max3 | FloatOp::Ex2 | FloatOp::Tanh, _) => return None,
    })
}

fn fast64(op: FloatOp) -> Option<Float64> {
    Some(match op {
        FloatOp::Add => Float64::Add,
        FloatOp::Sub => Float64::Sub,
        FloatOp::Mul => Float64::Mul,
        FloatOp::Fma => Float64::Fma,
        FloatOp::Div => Float64::Div,
        FloatOp::Rcp => Float64::Rcp,
        FloatOp::Sqrt => Float64::Sqrt,
        FloatOp::Min => Float64::Min,
        FloatOp::Max => Float64::Max,
        FloatOp::Neg => Float64::Neg,
        FloatOp::Abs => Float64::Abs,
        FloatOp::Min3 | FloatOp::Max3 | FloatOp::Ex2 | FloatOp::Tanh => return None,
    })
}
