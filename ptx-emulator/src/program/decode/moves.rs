//! `mov`: copies, packing and unpacking, and reading of clocks.

use super::integer::{count, is_wide};
use super::modifiers::{Modifiers, bytes};
use super::{Decoder, Result, expected, unknown};
use crate::alu::int32::Int32;
use crate::alu::int64::{Int64, Narrow, Wide};
use crate::ast::{Operand, Type};
use crate::program::inst::{ClockPart, Inst, PredicateOp, R, TRUE};

impl<'m> Decoder<'m> {
    pub(super) fn mov(&mut self, m: &mut Modifiers<'m>, operands: &'m [Operand]) -> Result<()> {
        let ty = m.ty()?;
        count(operands, 2)?;
        let (to, from) = (&operands[0], &operands[1]);
        if ty == Type::Pred {
            let to = self.operands.predicate_target(to)?;
            let (from, negate) = self.operands.predicate(from)?;
            self.emit(Inst::Predicate(
                PredicateOp::Mov,
                to,
                from,
                TRUE,
                u8::from(negate),
            ));
            return Ok(());
        }
        match (to, from) {
            (Operand::Vector(items), _) => self.unpack(ty, items, from),
            (_, Operand::Vector(items)) => self.pack(ty, to, items),
            (_, Operand::Special(name)) if clock(name).is_some() => self.clock(ty, to, name),
            _ if is_wide(ty) => {
                let (to, from) = (
                    self.operands.wide_target(to)?,
                    self.operands.wide(from, ty)?,
                );
                self.emit(Inst::Int64(Int64::Mov, to, from, from, from));
                Ok(())
            }
            _ if bytes(ty) <= 4 => {
                let (to, from) = (
                    self.operands.narrow_target(to)?,
                    self.operands.narrow(from, ty)?,
                );
                let op = if bytes(ty) == 2 {
                    Int32::Low16
                } else {
                    Int32::Mov
                };
                self.emit(Inst::Int32(op, to, from, from, from));
                Ok(())
            }
            _ => Err(unknown()),
        }
    }

    fn clock(&mut self, ty: Type, to: &'m Operand, name: &str) -> Result<()> {
        let part = clock(name).expect("the caller asked");
        if is_wide(ty) {
            let to = self.operands.wide_target(to)?;
            self.emit(Inst::Clock64(to));
        } else {
            let to = self.operands.narrow_target(to)?;
            self.emit(Inst::Clock32(part, to));
        }
        Ok(())
    }

    /// `mov.b64 {a, b}, c` and the like. Destinations never overlap the source, whose width differs.
    fn unpack(&mut self, ty: Type, items: &'m [Operand], from: &'m Operand) -> Result<()> {
        if is_wide(ty) {
            let from = self.operands.wide(from, ty)?;
            let parts = match items.len() {
                2 => &[Narrow::Low, Narrow::High][..],
                4 => &[Narrow::Low16, Narrow::Half1, Narrow::Half2, Narrow::Half3][..],
                _ => return Err(expected("a vector of 2 or 4", items.len().to_string())),
            };
            for (item, part) in items
                .iter()
                .zip(parts)
                .filter(|(item, _)| !matches!(item, Operand::Sink))
            {
                let to = self.operands.narrow_target(item)?;
                self.emit(Inst::Narrow(*part, to, from));
            }
            return Ok(());
        }
        let from = self.operands.narrow(from, ty)?;
        let parts = match (bytes(ty), items.len()) {
            (4, 2) => &[Int32::Low16, Int32::High16][..],
            (4, 4) => &[Int32::Low8, Int32::Byte1, Int32::Byte2, Int32::Byte3][..],
            (2, 2) => &[Int32::Low8, Int32::Byte1][..],
            _ => return Err(expected("a vector of 2 or 4", items.len().to_string())),
        };
        for (item, part) in items
            .iter()
            .zip(parts)
            .filter(|(item, _)| !matches!(item, Operand::Sink))
        {
            let to = self.operands.narrow_target(item)?;
            self.emit(Inst::Int32(*part, to, from, from, from));
        }
        Ok(())
    }

    fn pack(&mut self, ty: Type, to: &'m Operand, items: &'m [Operand]) -> Result<()> {
        let element = match (bytes(ty), items.len()) {
            (8, 2) => Type::B32,
            (8, 4) | (4, 2) => Type::B16,
            (4, 4) | (2, 2) => Type::B8,
            _ => return Err(expected("a vector of 2 or 4", items.len().to_string())),
        };
        let mut parts = Vec::with_capacity(4);
        for item in items {
            parts.push(self.operands.narrow(item, element)?);
        }
        match (bytes(ty), parts.as_slice()) {
            (8, &[a, b]) => {
                let to = self.operands.wide_target(to)?;
                self.emit(Inst::Wide(Wide::Pack, to, a, b, to));
            }
            (8, &[a, b, c, d]) => {
                let to = self.operands.wide_target(to)?;
                let (low, high) = (
                    self.pair(Int32::Pack16, a, b),
                    self.pair(Int32::Pack16, c, d),
                );
                self.emit(Inst::Wide(Wide::Pack, to, low, high, to));
            }
            (4, &[a, b]) => {
                let to = self.operands.narrow_target(to)?;
                self.emit(Inst::Int32(Int32::Pack16, to, a, b, b));
            }
            (4, &[a, b, c, d]) => {
                let to = self.operands.narrow_target(to)?;
                let (low, high) = (self.pair(Int32::Pack8, a, b), self.pair(Int32::Pack8, c, d));
                self.emit(Inst::Int32(Int32::Pack16, to, low, high, high));
            }
            (_, &[a, b]) => {
                let to = self.operands.narrow_target(to)?;
                self.emit(Inst::Int32(Int32::Pack8, to, a, b, b));
            }
            _ => return Err(unknown()),
        }
        Ok(())
    }

    /// Computes into a register of its own.
    fn pair(&mut self, op: Int32, a: R, b: R) -> R {
        let to = self.operands.new_narrow();
        self.emit(Inst::Int32(op, to, a, b, b));
        to
    }
}

fn clock(name: &str) -> Option<ClockPart> {
    Some(match name {
        "%clock_hi" | "%globaltimer_hi" => ClockPart::High,
        "%clock" | "%clock64" | "%globaltimer" | "%globaltimer_lo" => ClockPart::Low,
        _ => return None,
    })
}
