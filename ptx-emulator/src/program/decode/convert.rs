//! `cvt`, and conversions of addresses.

use super::integer::{count, is_wide};
use super::modifiers::{Modifiers, bytes};
use super::operand::describe;
use super::{Decoder, Result, expected, unknown};
use crate::alu::convert::{Conversion, Number};
use crate::alu::float::Width;
use crate::alu::float32::Float32;
use crate::alu::int32::Int32;
use crate::alu::int64::{Narrow, Wide};
use crate::ast::{Operand, Space, Type};
use crate::program::inst::{Fp8Pair, Inst, Slot};
use crate::tensor_core::format::{Format, Rounding};

impl<'m> Decoder<'m> {
    pub(super) fn cvt(&mut self, m: &mut Modifiers<'m>, operands: &'m [Operand]) -> Result<()> {
        if m.flag("pack") {
            return self.cvt_pack(m, operands);
        }
        let integral = m.pick(|name| {
            Some(match name {
                "rni" => Rounding::NearestEven,
                "rzi" => Rounding::Zero,
                "rmi" => Rounding::Down,
                "rpi" => Rounding::Up,
                _ => return None,
            })
        });
        let rounding = m.rounding();
        let ftz = m.flag("ftz");
        let sat = m.flag("sat");
        let satfinite = m.flag("satfinite");
        let relu = m.flag("relu");
        let (to, from) = (m.ty()?, m.ty()?);
        if matches!(to, Type::E4m3x2 | Type::E5m2x2) || matches!(from, Type::E4m3x2 | Type::E5m2x2)
        {
            return self.cvt_fp8(to, from, relu, operands);
        }
        let packed = matches!(to, Type::F16x2 | Type::Bf16x2);
        let element = match to {
            Type::F16x2 => Type::F16,
            Type::Bf16x2 => Type::Bf16,
            ty => ty,
        };
        let (Some(to_number), Some(from_number)) = (number(element), number(from)) else {
            return Err(unknown());
        };
        let plain = integral.is_none() && !ftz && !sat && !satfinite && !relu;
        if packed {
            count(operands, 3)?;
            let to = self.operands.narrow_target(&operands[0])?;
            let (high, low) = (
                self.operands.narrow(&operands[1], from)?,
                self.operands.narrow(&operands[2], from)?,
            );
            if from != Type::F32 {
                return Err(unknown());
            }
            if plain && rounding == Some(Rounding::NearestEven) {
                let op = if element == Type::F16 {
                    Float32::PackF16x2
                } else {
                    Float32::PackBf16x2
                };
                self.emit(Inst::Float32(op, to, high, low, low));
                return Ok(());
            }
            let rounding = rounding.ok_or_else(|| expected("a rounding", "none"))?;
            let index = self.conversion(Conversion {
                to: to_number,
                from: from_number,
                rounding,
                integral: false,
                ftz,
                sat,
                satfinite,
                relu,
            });
            self.emit(Inst::ConvertPair(index, to, high, low, false));
            return Ok(());
        }
        count(operands, 2)?;
        let source = self.source(&operands[1], from)?;
        let to_slot = self.operands.slot_target(&operands[0])?;
        if let Some(inst) = fast(to_slot, source, to, from, integral, rounding, plain) {
            self.emit(inst);
            return Ok(());
        }
        let float_to_integer = matches!(to_number, Number::Unsigned(_) | Number::Signed(_))
            && matches!(from_number, Number::Float(_));
        if float_to_integer && integral.is_none() {
            return Err(expected(".rni, .rzi, .rmi or .rpi", "none"));
        }
        let rounding = integral.or(rounding).unwrap_or(Rounding::NearestEven);
        let index = self.conversion(Conversion {
            to: to_number,
            from: from_number,
            rounding,
            integral: integral.is_some(),
            ftz,
            sat,
            satfinite,
            relu,
        });
        self.emit(Inst::Convert(index, to_slot, source));
        self.widen_destination(to_slot, to);
        Ok(())
    }

    fn conversion(&mut self, conversion: Conversion) -> u32 {
        self.kernel.tables.conversions.push(conversion);
        self.kernel.tables.conversions.len() as u32 - 1
    }

    /// A source, which may be wider than its type.
    fn source(&mut self, operand: &'m Operand, ty: Type) -> Result<Slot> {
        self.operands.slot(operand, ty)
    }

    /// A register that is wider than the result gets its sign.
    fn widen_destination(&mut self, to: Slot, ty: Type) {
        match (to, ty) {
            (Slot::Narrow(r), Type::S8) => self.emit(Inst::Int32(Int32::SignExtend8, r, r, r, r)),
            (Slot::Wide(d), Type::S8 | Type::S16 | Type::S32) => {
                let part = self.operands.new_narrow();
                self.emit(Inst::Narrow(Narrow::Low, part, d));
                let op = match ty {
                    Type::S8 => Wide::SignExtend8,
                    Type::S16 => Wide::SignExtend16,
                    _ => Wide::SignExtend,
                };
                self.emit(Inst::Wide(op, d, part, part, d));
            }
            _ => {}
        }
    }

    /// `cvt.rn.satfinite.e4m3x2.f32`, `cvt.rn.f16x2.e4m3x2` and the like.
    fn cvt_fp8(&mut self, to: Type, from: Type, relu: bool, operands: &'m [Operand]) -> Result<()> {
        let format = |ty: Type| match ty {
            Type::E4m3x2 => Some(Format::E4m3),
            Type::E5m2x2 => Some(Format::E5m2),
            Type::F16x2 => Some(Format::F16),
            Type::Bf16x2 => Some(Format::Bf16),
            Type::F32 => Some(Format::Tf32),
            _ => None,
        };
        let (Some(to_format), Some(from_format)) = (format(to), format(from)) else {
            return Err(unknown());
        };
        self.kernel.tables.pairs.push(Fp8Pair {
            from: from_format,
            to: to_format,
            relu,
        });
        let index = self.kernel.tables.pairs.len() as u32 - 1;
        let register = self
            .operands
            .narrow_target(operands.first().ok_or_else(unknown)?)?;
        if from == Type::F32 {
            count(operands, 3)?;
            let (high, low) = (
                self.operands.narrow(&operands[1], from)?,
                self.operands.narrow(&operands[2], from)?,
            );
            self.emit(Inst::ConvertPair(index, register, high, low, true));
        } else {
            count(operands, 2)?;
            let a = self.operands.narrow(&operands[1], Type::B32)?;
            self.emit(Inst::ConvertFp8(index, register, a));
        }
        Ok(())
    }

    /// `cvt.pack.sat.u8.s32.b32 d, a, b, c`: two saturated values, above what `c` holds.
    fn cvt_pack(&mut self, m: &mut Modifiers<'m>, operands: &'m [Operand]) -> Result<()> {
        let sat = m.flag("sat");
        let (to, from) = (m.ty()?, m.ty()?);
        let with_c = m.flag("b32");
        if !sat || from != Type::S32 || with_c != (operands.len() == 4) {
            return Err(unknown());
        }
        let Some(number) =
            number(to).filter(|_| matches!(to, Type::U8 | Type::S8 | Type::U16 | Type::S16))
        else {
            return Err(unknown());
        };
        let index = self.conversion(Conversion {
            to: number,
            from: Number::Signed(32),
            rounding: Rounding::NearestEven,
            integral: false,
            ftz: false,
            sat: true,
            satfinite: false,
            relu: false,
        });
        let (a, b) = (
            self.operands.narrow(&operands[1], from)?,
            self.operands.narrow(&operands[2], from)?,
        );
        let (high, low) = (self.operands.new_narrow(), self.operands.new_narrow());
        self.emit(Inst::Convert(index, Slot::Narrow(high), Slot::Narrow(a)));
        self.emit(Inst::Convert(index, Slot::Narrow(low), Slot::Narrow(b)));
        let pair = self.operands.new_narrow();
        let register = self.operands.narrow_target(&operands[0])?;
        if bytes(to) == 2 {
            self.emit(Inst::Int32(Int32::Pack16, register, low, high, high));
            return Ok(());
        }
        self.emit(Inst::Int32(Int32::Pack8, pair, low, high, high));
        match operands.get(3) {
            Some(c) => {
                let c = self.operands.narrow(c, Type::B32)?;
                self.emit(Inst::Int32(Int32::Pack16, register, pair, c, c));
            }
            None => self.emit(Inst::Int32(Int32::Mov, register, pair, pair, pair)),
        }
        Ok(())
    }

    pub(super) fn address_conversion(
        &mut self,
        opcode: &str,
        m: &mut Modifiers<'m>,
        operands: &'m [Operand],
    ) -> Result<()> {
        match opcode {
            "cvta" => {
                let to = m.flag("to");
                let space = m
                    .pick(space_named)
                    .ok_or_else(|| expected("a state space", m.rest().join(".")))?;
                let ty = m.ty()?;
                count(operands, 2)?;
                if is_wide(ty) {
                    let (d, a) = (
                        self.operands.wide_target(&operands[0])?,
                        self.operands.wide(&operands[1], ty)?,
                    );
                    self.emit(if to {
                        Inst::ToSpace(space, d, a)
                    } else {
                        Inst::ToGeneric(space, d, a)
                    });
                    return Ok(());
                }
                Err(unknown())
            }
            "isspacep" => {
                let space = m
                    .pick(space_named)
                    .ok_or_else(|| expected("a state space", m.rest().join(".")))?;
                count(operands, 2)?;
                let (to, a) = (
                    self.operands.predicate_target(&operands[0])?,
                    self.operands.wide(&operands[1], Type::U64)?,
                );
                self.emit(Inst::IsSpace(space, to, a));
                Ok(())
            }
            "mapa" => {
                m.flag("shared::cluster");
                let ty = m.ty()?;
                count(operands, 3)?;
                let rank = self.operands.narrow(&operands[2], Type::U32)?;
                let inst = if is_wide(ty) {
                    let to = self.operands.wide_target(&operands[0])?;
                    Inst::Mapa64(to, self.operands.wide(&operands[1], ty)?, rank)
                } else {
                    let to = self.operands.narrow_target(&operands[0])?;
                    Inst::Mapa32(to, self.operands.narrow(&operands[1], ty)?, rank)
                };
                self.emit(inst);
                Ok(())
            }
            "getctarank" => {
                m.flag("shared::cluster");
                let ty = m.ty()?;
                count(operands, 2)?;
                let to = self.operands.narrow_target(&operands[0])?;
                let address = self.operands.slot(&operands[1], ty)?;
                self.emit(Inst::BlockRank(to, address));
                Ok(())
            }
            _ => Err(expected("a conversion", describe(&operands[0]))),
        }
    }
}

pub(super) fn space_named(name: &str) -> Option<Space> {
    Some(match name {
        "global" => Space::Global,
        "shared" | "shared::cta" => Space::Shared,
        "shared::cluster" => Space::SharedCluster,
        "local" => Space::Local,
        "const" => Space::Const,
        "param" | "param::entry" | "param::func" => Space::Param,
        _ => return None,
    })
}

fn number(ty: Type) -> Option<Number> {
    Some(match ty {
        Type::U8 | Type::B8 => Number::Unsigned(8),
        Type::U16 | Type::B16 => Number::Unsigned(16),
        Type::U32 | Type::B32 => Number::Unsigned(32),
        Type::U64 | Type::B64 => Number::Unsigned(64),
        Type::S8 => Number::Signed(8),
        Type::S16 => Number::Signed(16),
        Type::S32 => Number::Signed(32),
        Type::S64 => Number::Signed(64),
        Type::F16 => Number::Float(Width::F16),
        Type::Bf16 => Number::Float(Width::Bf16),
        Type::F32 => Number::Float(Width::F32),
        Type::F64 => Number::Float(Width::F64),
        Type::Tf32 => Number::Tf32,
        Type::B128
        | Type::F16x2
        | Type::Bf16x2
        | Type::E4m3
        | Type::E5m2
        | Type::E4m3x2
        | Type::E5m2x2
        | Type::Pred => return None,
    })
}

/// Conversions with a loop of their own.
fn fast(
    to: Slot,
    from: Slot,
    to_ty: Type,
    from_ty: Type,
    integral: Option<Rounding>,
    rounding: Option<Rounding>,
    plain: bool,
) -> Option<Inst> {
    let nearest = rounding == Some(Rounding::NearestEven);
    let integers = plain && rounding.is_none();
    match (to, from) {
        (Slot::Wide(d), Slot::Narrow(a)) if integers && bytes(to_ty) == 8 => {
            let op = match from_ty {
                Type::U32 => Wide::ZeroExtend,
                Type::S32 => Wide::SignExtend,
                Type::U16 => Wide::ZeroExtend16,
                Type::S16 => Wide::SignExtend16,
                Type::U8 => Wide::ZeroExtend8,
                Type::S8 => Wide::SignExtend8,
                _ => return None,
            };
            matches!(to_ty, Type::U64 | Type::S64).then_some(Inst::Wide(op, d, a, a, d))
        }
        (Slot::Narrow(r), Slot::Wide(a))
            if integers && matches!(from_ty, Type::U64 | Type::S64) =>
        {
            match to_ty {
                Type::U32 | Type::S32 => Some(Inst::Narrow(Narrow::Low, r, a)),
                Type::U16 | Type::S16 => Some(Inst::Narrow(Narrow::Low16, r, a)),
                Type::U8 => Some(Inst::Narrow(Narrow::Low8, r, a)),
                _ => None,
            }
        }
        (Slot::Narrow(r), Slot::Narrow(a)) => {
            let int = |op| Some(Inst::Int32(op, r, a, a, a));
            let float = |op| Some(Inst::Float32(op, r, a, a, a));
            match (to_ty, from_ty) {
                (Type::U32 | Type::S32, Type::U32 | Type::S32) if integers => int(Int32::Mov),
                (Type::U32 | Type::S32, Type::U16)
                | (Type::U16 | Type::S16, Type::U32 | Type::S32 | Type::U16 | Type::S16)
                    if integers =>
                {
                    int(Int32::Low16)
                }
                (Type::U32 | Type::S32, Type::S16) if integers => int(Int32::SignExtend16),
                (Type::U32 | Type::S32, Type::S8) if integers => int(Int32::SignExtend8),
                (Type::U16 | Type::S16, Type::S8) if integers => int(Int32::SignExtend8To16),
                (Type::U16 | Type::S16 | Type::U32 | Type::S32, Type::U8)
                | (Type::U8, Type::U8 | Type::U16 | Type::S16 | Type::U32 | Type::S32)
                    if integers =>
                {
                    int(Int32::Low8)
                }
                (Type::F32, Type::S32) if plain && nearest => float(Float32::FromS32),
                (Type::F32, Type::U32) if plain && nearest => float(Float32::FromU32),
                (Type::F32, Type::F16) if integers => float(Float32::FromF16),
                (Type::F32, Type::Bf16) if integers => float(Float32::FromBf16),
                (Type::F16, Type::F32) if plain && nearest => float(Float32::ToF16),
                (Type::Bf16, Type::F32) if plain && nearest => float(Float32::ToBf16),
                (Type::S32, Type::F32) if integral == Some(Rounding::Zero) => float(Float32::ToS32),
                (Type::U32, Type::F32) if integral == Some(Rounding::Zero) => float(Float32::ToU32),
                _ => None,
            }
        }
        _ => None,
    }
}
