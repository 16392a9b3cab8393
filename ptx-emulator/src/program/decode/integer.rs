//! Arithmetic on integers, and the way to that on floats.

use super::control::exactly;
use super::modifiers::{Modifiers, bytes};
use super::{Decoder, Result, expected, unknown};
use crate::alu::int32::Int32;
use crate::alu::int64::{Int64, Wide};
use crate::ast::{Operand, Type};
use crate::program::DecodeFault;
use crate::program::inst::{Carry, CarryOperands, Inst, R};

/// How an integer type is computed with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    U16,
    S16,
    U32,
    S32,
    U64,
    S64,
    U16x2,
    S16x2,
}

pub(super) fn shape(name: &str) -> Option<Shape> {
    Some(match name {
        "u16" | "b16" => Shape::U16,
        "s16" => Shape::S16,
        "u32" | "b32" => Shape::U32,
        "s32" => Shape::S32,
        "u64" | "b64" => Shape::U64,
        "s64" => Shape::S64,
        "u16x2" => Shape::U16x2,
        "s16x2" => Shape::S16x2,
        _ => return None,
    })
}

impl Shape {
    pub(super) fn ty(self) -> Type {
        match self {
            Self::U16 | Self::S16 => Type::B16,
            Self::U32 | Self::S32 | Self::U16x2 | Self::S16x2 => Type::B32,
            Self::U64 | Self::S64 => Type::B64,
        }
    }
}

impl<'m> Decoder<'m> {
    pub(super) fn arithmetic(
        &mut self,
        opcode: &str,
        m: &mut Modifiers<'m>,
        operands: &'m [Operand],
    ) -> Result<()> {
        let is_float = m.rest().iter().any(|name| {
            matches!(
                *name,
                "f16" | "f16x2" | "bf16" | "bf16x2" | "f32" | "f32x2" | "f64"
            )
        });
        if is_float {
            return self.float_arithmetic(opcode, m, operands);
        }
        match opcode {
            "dp4a" | "dp2a" => return self.dot(opcode, m, operands),
            "addc" | "subc" | "madc" => return self.carry(opcode, m, operands),
            "add" | "sub" | "mad" if m.rest().contains(&"cc") => {
                return self.carry(opcode, m, operands);
            }
            _ => {}
        }
        let found = m.rest().join(".");
        let shape = m.pick(shape).ok_or_else(|| expected("a type", found))?;
        let part = m.pick(|name| ["lo", "hi", "wide"].into_iter().find(|part| *part == name));
        let sat = m.flag("sat");
        let relu = m.flag("relu");
        let part = if matches!(opcode, "mul" | "mad" | "mul24" | "mad24") {
            part.ok_or_else(|| expected(".lo, .hi or .wide", "none"))?
        } else if part.is_some() {
            return Err(unknown());
        } else {
            ""
        };
        if part == "wide" {
            return self.wide_product(opcode, shape, operands);
        }
        if shape.ty() == Type::B64 {
            let op = int64(opcode, part, shape)
                .filter(|_| !sat && !relu)
                .ok_or_else(unknown)?;
            let (to, sources) = operands.split_first().ok_or_else(unknown)?;
            count(sources, arity(opcode))?;
            let to = self.operands.wide_target(to)?;
            let zero = to;
            let mut s = [zero; 3];
            for (slot, operand) in s.iter_mut().zip(sources) {
                *slot = self.operands.wide(operand, Type::B64)?;
            }
            self.emit(Inst::Int64(op, to, s[0], s[1], s[2]));
            return Ok(());
        }
        let op = int32(opcode, part, shape, sat, relu).ok_or_else(unknown)?;
        self.emit_int32(op, operands, arity(opcode), shape.ty())
    }

    /// Emits an operation on 32-bit registers with so many sources.
    pub(super) fn emit_int32(
        &mut self,
        op: Int32,
        operands: &'m [Operand],
        arity: usize,
        ty: Type,
    ) -> Result<()> {
        let [to, a, b, c] = self.narrow_operands(operands, arity, ty)?;
        self.emit(Inst::Int32(op, to, a, b, c));
        Ok(())
    }

    /// A destination and up to three sources; those that are missing name the destination.
    pub(super) fn narrow_operands(
        &mut self,
        operands: &'m [Operand],
        arity: usize,
        ty: Type,
    ) -> Result<[R; 4]> {
        let Some((to, sources)) = operands.split_first() else {
            return Err(DecodeFault::OperandCount {
                expected: "2 or more",
                found: 0,
            });
        };
        count(sources, arity)?;
        let mut out = [self.operands.narrow_target(to)?; 4];
        for (slot, operand) in out[1..].iter_mut().zip(sources) {
            *slot = self.operands.narrow(operand, ty)?;
        }
        Ok(out)
    }

    fn wide_product(&mut self, opcode: &str, shape: Shape, operands: &'m [Operand]) -> Result<()> {
        let mad = opcode == "mad";
        if !mad && opcode != "mul" {
            return Err(unknown());
        }
        count(operands, if mad { 4 } else { 3 })?;
        let (a, b) = (&operands[1], &operands[2]);
        match shape {
            Shape::U16 | Shape::S16 => {
                let op = match (mad, shape == Shape::S16) {
                    (false, false) => Int32::MulWideU16,
                    (false, true) => Int32::MulWideS16,
                    (true, false) => Int32::MadWideU16,
                    (true, true) => Int32::MadWideS16,
                };
                let to = self.operands.narrow_target(&operands[0])?;
                let (a, b) = (
                    self.operands.narrow(a, Type::B16)?,
                    self.operands.narrow(b, Type::B16)?,
                );
                let c = if mad {
                    self.operands.narrow(&operands[3], Type::B32)?
                } else {
                    to
                };
                self.emit(Inst::Int32(op, to, a, b, c));
            }
            Shape::U32 | Shape::S32 => {
                let op = match (mad, shape == Shape::S32) {
                    (false, false) => Wide::MulU,
                    (false, true) => Wide::MulS,
                    (true, false) => Wide::MadU,
                    (true, true) => Wide::MadS,
                };
                let to = self.operands.wide_target(&operands[0])?;
                let (a, b) = (
                    self.operands.narrow(a, Type::B32)?,
                    self.operands.narrow(b, Type::B32)?,
                );
                let c = if mad {
                    self.operands.wide(&operands[3], Type::B64)?
                } else {
                    to
                };
                self.emit(Inst::Wide(op, to, a, b, c));
            }
            Shape::U64 | Shape::S64 | Shape::U16x2 | Shape::S16x2 => return Err(unknown()),
        }
        Ok(())
    }

    /// `add.cc`, `addc`, `mad.lo.cc` and the like, of 32 or 64 bits.
    fn carry(
        &mut self,
        opcode: &str,
        m: &mut Modifiers<'m>,
        operands: &'m [Operand],
    ) -> Result<()> {
        let writes = m.flag("cc");
        let reads = matches!(opcode, "addc" | "subc" | "madc");
        let subtract = opcode.starts_with("sub");
        let part = m.pick(|name| ["lo", "hi"].into_iter().find(|part| *part == name));
        let found = m.rest().join(".");
        let shape = m.pick(shape).ok_or_else(|| expected("a type", found))?;
        let multiplies = opcode.starts_with("mad");
        count(operands, if multiplies { 4 } else { 3 })?;
        let (first, second) = if multiplies {
            (None, &operands[3])
        } else {
            (Some(&operands[1]), &operands[2])
        };
        let of_product = if multiplies {
            part.ok_or_else(unknown)?
        } else {
            ""
        };
        let operands = match shape {
            Shape::U32 | Shape::S32 => {
                let first = if let Some(operand) = first {
                    self.operands.narrow(operand, Type::B32)?
                } else {
                    let op = int32("mul", of_product, shape, false, false).ok_or_else(unknown)?;
                    let (a, b) = (
                        self.operands.narrow(&operands[1], Type::B32)?,
                        self.operands.narrow(&operands[2], Type::B32)?,
                    );
                    let product = self.operands.new_narrow();
                    self.emit(Inst::Int32(op, product, a, b, b));
                    product
                };
                CarryOperands::Narrow(
                    self.operands.narrow_target(&operands[0])?,
                    first,
                    self.operands.narrow(second, Type::B32)?,
                )
            }
            Shape::U64 | Shape::S64 => {
                let first = if let Some(operand) = first {
                    self.operands.wide(operand, Type::B64)?
                } else {
                    let op = int64("mul", of_product, shape).ok_or_else(unknown)?;
                    let (a, b) = (
                        self.operands.wide(&operands[1], Type::B64)?,
                        self.operands.wide(&operands[2], Type::B64)?,
                    );
                    let product = self.operands.new_wide();
                    self.emit(Inst::Int64(op, product, a, b, b));
                    product
                };
                CarryOperands::Wide(
                    self.operands.wide_target(&operands[0])?,
                    first,
                    self.operands.wide(second, Type::B64)?,
                )
            }
            Shape::U16 | Shape::S16 | Shape::U16x2 | Shape::S16x2 => return Err(unknown()),
        };
        self.kernel.tables.carries.push(Carry {
            subtract,
            reads,
            writes,
            operands,
        });
        self.emit(Inst::Carry(self.kernel.tables.carries.len() as u32 - 1));
        Ok(())
    }

    fn dot(&mut self, opcode: &str, m: &mut Modifiers<'m>, operands: &'m [Operand]) -> Result<()> {
        let part = m.pick(|name| ["lo", "hi"].into_iter().find(|part| *part == name));
        let (a, b) = (m.ty()?, m.ty()?);
        let signed = |ty: Type| match ty {
            Type::U32 => Ok(false),
            Type::S32 => Ok(true),
            _ => Err(unknown()),
        };
        let op = match (opcode, part, signed(a)?, signed(b)?) {
            ("dp4a", None, false, false) => Int32::Dp4aUU,
            ("dp4a", None, false, true) => Int32::Dp4aUS,
            ("dp4a", None, true, false) => Int32::Dp4aSU,
            ("dp4a", None, true, true) => Int32::Dp4aSS,
            ("dp2a", Some("lo"), false, false) => Int32::Dp2aLoUU,
            ("dp2a", Some("lo"), false, true) => Int32::Dp2aLoUS,
            ("dp2a", Some("lo"), true, false) => Int32::Dp2aLoSU,
            ("dp2a", Some("lo"), true, true) => Int32::Dp2aLoSS,
            ("dp2a", Some("hi"), false, false) => Int32::Dp2aHiUU,
            ("dp2a", Some("hi"), false, true) => Int32::Dp2aHiUS,
            ("dp2a", Some("hi"), true, false) => Int32::Dp2aHiSU,
            ("dp2a", Some("hi"), true, true) => Int32::Dp2aHiSS,
            _ => return Err(unknown()),
        };
        exactly::<4>(operands, "4")?;
        self.emit_int32(op, operands, 3, Type::B32)
    }
}

/// Checks a number of operands.
pub(super) fn count(operands: &[Operand], expected: usize) -> Result<()> {
    const NAMES: [&str; 7] = ["0", "1", "2", "3", "4", "5", "6"];
    if operands.len() == expected {
        Ok(())
    } else {
        Err(DecodeFault::OperandCount {
            expected: NAMES.get(expected).copied().unwrap_or("more"),
            found: operands.len(),
        })
    }
}

fn arity(opcode: &str) -> usize {
    match opcode {
        "abs" | "neg" => 1,
        "mad" | "mad24" | "sad" => 3,
        _ => 2,
    }
}

fn int32(opcode: &str, part: &str, shape: Shape, sat: bool, relu: bool) -> Option<Int32> {
    use Shape::{S16, S16x2, S32, U16, U16x2, U32};
    Some(match (opcode, part, shape, sat, relu) {
        ("add", _, S32, true, false) => Int32::AddSat,
        ("sub", _, S32, true, false) => Int32::SubSat,
        ("mad", "hi", S32, true, false) => Int32::MadHiSatS,
        ("min", _, S32, false, true) => Int32::MinReluS,
        ("max", _, S32, false, true) => Int32::MaxReluS,
        ("min", _, S16x2, false, true) => Int32::MinReluS16x2,
        ("max", _, S16x2, false, true) => Int32::MaxReluS16x2,
        (_, _, _, true, _) | (_, _, _, _, true) => return None,
        ("add", _, U32 | S32, ..) => Int32::Add,
        ("add", _, U16 | S16, ..) => Int32::Add16,
        ("add", _, U16x2 | S16x2, ..) => Int32::Add16x2,
        ("sub", _, U32 | S32, ..) => Int32::Sub,
        ("sub", _, U16 | S16, ..) => Int32::Sub16,
        ("sub", _, U16x2 | S16x2, ..) => Int32::Sub16x2,
        ("mul", "lo", U32 | S32, ..) => Int32::MulLo,
        ("mul", "hi", U32, ..) => Int32::MulHiU,
        ("mul", "hi", S32, ..) => Int32::MulHiS,
        ("mul", "lo", U16 | S16, ..) => Int32::MulLo16,
        ("mul", "hi", U16, ..) => Int32::MulHiU16,
        ("mul", "hi", S16, ..) => Int32::MulHiS16,
        ("mad", "lo", U32 | S32, ..) => Int32::MadLo,
        ("mad", "hi", U32, ..) => Int32::MadHiU,
        ("mad", "hi", S32, ..) => Int32::MadHiS,
        ("mad", "lo", U16 | S16, ..) => Int32::MadLo16,
        ("mad", "hi", U16, ..) => Int32::MadHiU16,
        ("mad", "hi", S16, ..) => Int32::MadHiS16,
        ("mul24", "lo", U32, ..) => Int32::Mul24LoU,
        ("mul24", "lo", S32, ..) => Int32::Mul24LoS,
        ("mul24", "hi", U32, ..) => Int32::Mul24HiU,
        ("mul24", "hi", S32, ..) => Int32::Mul24HiS,
        ("mad24", "lo", U32, ..) => Int32::Mad24LoU,
        ("mad24", "lo", S32, ..) => Int32::Mad24LoS,
        ("mad24", "hi", U32, ..) => Int32::Mad24HiU,
        ("mad24", "hi", S32, ..) => Int32::Mad24HiS,
        ("sad", _, U32, ..) => Int32::SadU,
        ("sad", _, S32, ..) => Int32::SadS,
        ("sad", _, U16, ..) => Int32::SadU16,
        ("sad", _, S16, ..) => Int32::SadS16,
        ("div", _, U32, ..) => Int32::DivU,
        ("div", _, S32, ..) => Int32::DivS,
        ("div", _, U16, ..) => Int32::DivU16,
        ("div", _, S16, ..) => Int32::DivS16,
        ("rem", _, U32, ..) => Int32::RemU,
        ("rem", _, S32, ..) => Int32::RemS,
        ("rem", _, U16, ..) => Int32::RemU16,
        ("rem", _, S16, ..) => Int32::RemS16,
        ("abs", _, S32, ..) => Int32::Abs,
        ("abs", _, S16, ..) => Int32::Abs16,
        ("neg", _, S32, ..) => Int32::Neg,
        ("neg", _, S16, ..) => Int32::Neg16,
        ("min", _, U32, ..) => Int32::MinU,
        ("min", _, S32, ..) => Int32::MinS,
        ("min", _, U16, ..) => Int32::MinU16,
        ("min", _, S16, ..) => Int32::MinS16,
        ("min", _, U16x2, ..) => Int32::MinU16x2,
        ("min", _, S16x2, ..) => Int32::MinS16x2,
        ("max", _, U32, ..) => Int32::MaxU,
        ("max", _, S32, ..) => Int32::MaxS,
        ("max", _, U16, ..) => Int32::MaxU16,
        ("max", _, S16, ..) => Int32::MaxS16,
        ("max", _, U16x2, ..) => Int32::MaxU16x2,
        ("max", _, S16x2, ..) => Int32::MaxS16x2,
        _ => return None,
    })
}

fn int64(opcode: &str, part: &str, shape: Shape) -> Option<Int64> {
    let signed = shape == Shape::S64;
    Some(match (opcode, part, signed) {
        ("add", ..) => Int64::Add,
        ("sub", ..) => Int64::Sub,
        ("mul", "lo", _) => Int64::MulLo,
        ("mul", "hi", false) => Int64::MulHiU,
        ("mul", "hi", true) => Int64::MulHiS,
        ("mad", "lo", _) => Int64::MadLo,
        ("mad", "hi", false) => Int64::MadHiU,
        ("mad", "hi", true) => Int64::MadHiS,
        ("sad", _, false) => Int64::SadU,
        ("sad", _, true) => Int64::SadS,
        ("div", _, false) => Int64::DivU,
        ("div", _, true) => Int64::DivS,
        ("rem", _, false) => Int64::RemU,
        ("rem", _, true) => Int64::RemS,
        ("abs", _, true) => Int64::Abs,
        ("neg", _, true) => Int64::Neg,
        ("min", _, false) => Int64::MinU,
        ("min", _, true) => Int64::MinS,
        ("max", _, false) => Int64::MaxU,
        ("max", _, true) => Int64::MaxS,
        _ => return None,
    })
}

/// Whether values of a type live in the 64-bit file.
pub(super) fn is_wide(ty: Type) -> bool {
    bytes(ty) == 8
}
