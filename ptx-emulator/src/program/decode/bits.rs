//! Bits: logic, shifts, fields, permutations; and comparisons.

use super::integer::{Shape, count, is_wide, shape};
use super::modifiers::Modifiers;
use super::operand::describe;
use super::{Decoder, Result, expected, unknown};
use crate::alu::compare::{Kind, Relation};
use crate::alu::int32::Int32;
use crate::alu::int64::{Int64, Narrow, Shift64};
use crate::ast::{Operand, Type};
use crate::program::DecodeFault;
use crate::program::inst::{Combine, Compare, Inst, P, PredicateOp, SINK, TRUE};

impl<'m> Decoder<'m> {
    pub(super) fn bits(
        &mut self,
        opcode: &str,
        m: &mut Modifiers<'m>,
        operands: &'m [Operand],
    ) -> Result<()> {
        match opcode {
            "and" | "or" | "xor" | "not" if m.rest() == ["pred"] => {
                m.take_rest();
                return self.predicate_logic(opcode, operands);
            }
            "lop3" => return self.lop3(m, operands),
            "prmt" => return self.prmt(m, operands),
            "shf" => return self.shf(m, operands),
            "bfi" => return self.bfi(m, operands),
            _ => {}
        }
        let shiftamt = m.flag("shiftamt");
        let wrap = if matches!(opcode, "bmsk" | "szext") {
            m.pick(|name| {
                (name == "wrap")
                    .then_some(true)
                    .or((name == "clamp").then_some(false))
            })
            .ok_or_else(unknown)?
        } else {
            false
        };
        let found = m.rest().join(".");
        let shape = m.pick(shape).ok_or_else(|| expected("a type", found))?;
        let ty = shape.ty();
        if ty == Type::B64 {
            self.bits64(opcode, shape, shiftamt, operands)
        } else {
            self.bits32(opcode, shape, shiftamt, wrap, operands)
        }
    }

    fn bits32(
        &mut self,
        opcode: &str,
        shape: Shape,
        shiftamt: bool,
        wrap: bool,
        operands: &'m [Operand],
    ) -> Result<()> {
        let signed = matches!(shape, Shape::S32 | Shape::S16);
        let narrow = matches!(shape, Shape::U16 | Shape::S16);
        let (op, arity) = match (opcode, signed, narrow) {
            ("popc", _, false) => (Int32::Popc, 1),
            ("clz", _, false) => (Int32::Clz, 1),
            ("brev", _, false) => (Int32::Brev, 1),
            ("bfind", false, false) => (
                if shiftamt {
                    Int32::BfindShiftU
                } else {
                    Int32::BfindU
                },
                1,
            ),
            ("bfind", true, false) => (
                if shiftamt {
                    Int32::BfindShiftS
                } else {
                    Int32::BfindS
                },
                1,
            ),
            ("fns", _, false) => (Int32::Fns, 3),
            ("bfe", false, false) => (Int32::BfeU, 3),
            ("bfe", true, false) => (Int32::BfeS, 3),
            ("bmsk", _, false) => (
                if wrap {
                    Int32::BmskWrap
                } else {
                    Int32::BmskClamp
                },
                2,
            ),
            ("szext", false, false) => (
                if wrap {
                    Int32::SzextWrapU
                } else {
                    Int32::SzextClampU
                },
                2,
            ),
            ("szext", true, false) => (
                if wrap {
                    Int32::SzextWrapS
                } else {
                    Int32::SzextClampS
                },
                2,
            ),
            ("and", ..) => (Int32::And, 2),
            ("or", ..) => (Int32::Or, 2),
            ("xor", ..) => (Int32::Xor, 2),
            ("not", _, false) => (Int32::Not, 1),
            ("not", _, true) => (Int32::Not16, 1),
            ("cnot", ..) => (Int32::Cnot, 1),
            ("shl", _, false) => (Int32::Shl, 2),
            ("shl", _, true) => (Int32::Shl16, 2),
            ("shr", false, false) => (Int32::ShrU, 2),
            ("shr", true, false) => (Int32::ShrS, 2),
            ("shr", false, true) => (Int32::ShrU16, 2),
            ("shr", true, true) => (Int32::ShrS16, 2),
            _ => return Err(unknown()),
        };
        // Amounts of shifts are 32 bits wide whatever the type.
        let ty = if matches!(opcode, "shl" | "shr") {
            Type::B32
        } else {
            shape.ty()
        };
        if narrow && opcode != "shl" && opcode != "shr" {
            return self.emit_int32(op, operands, arity, Type::B16);
        }
        if narrow {
            count(operands, 3)?;
            let to = self.operands.narrow_target(&operands[0])?;
            let a = self.operands.narrow(&operands[1], Type::B16)?;
            let b = self.operands.narrow(&operands[2], Type::B32)?;
            self.emit(Inst::Int32(op, to, a, b, b));
            return Ok(());
        }
        self.emit_int32(op, operands, arity, ty)
    }

    fn bits64(
        &mut self,
        opcode: &str,
        shape: Shape,
        shiftamt: bool,
        operands: &'m [Operand],
    ) -> Result<()> {
        let signed = shape == Shape::S64;
        let to_narrow = match (opcode, signed, shiftamt) {
            ("popc", ..) => Some(Narrow::Popc),
            ("clz", ..) => Some(Narrow::Clz),
            ("bfind", false, false) => Some(Narrow::BfindU),
            ("bfind", true, false) => Some(Narrow::BfindS),
            ("bfind", false, true) => Some(Narrow::BfindShiftU),
            ("bfind", true, true) => Some(Narrow::BfindShiftS),
            _ => None,
        };
        if let Some(op) = to_narrow {
            count(operands, 2)?;
            let (to, a) = (
                self.operands.narrow_target(&operands[0])?,
                self.operands.wide(&operands[1], Type::B64)?,
            );
            self.emit(Inst::Narrow(op, to, a));
            return Ok(());
        }
        let shift = match (opcode, signed) {
            ("shl", _) => Some((Shift64::Shl, 1)),
            ("shr", false) => Some((Shift64::ShrU, 1)),
            ("shr", true) => Some((Shift64::ShrS, 1)),
            ("bfe", false) => Some((Shift64::BfeU, 2)),
            ("bfe", true) => Some((Shift64::BfeS, 2)),
            _ => None,
        };
        if let Some((op, amounts)) = shift {
            count(operands, 2 + amounts)?;
            let (to, a) = (
                self.operands.wide_target(&operands[0])?,
                self.operands.wide(&operands[1], Type::B64)?,
            );
            let b = self.operands.narrow(&operands[2], Type::B32)?;
            let c = if amounts == 2 {
                self.operands.narrow(&operands[3], Type::B32)?
            } else {
                b
            };
            self.emit(Inst::Shift64(op, to, a, b, c));
            return Ok(());
        }
        let (op, arity) = match opcode {
            "and" => (Int64::And, 2),
            "or" => (Int64::Or, 2),
            "xor" => (Int64::Xor, 2),
            "not" => (Int64::Not, 1),
            "cnot" => (Int64::Cnot, 1),
            "brev" => (Int64::Brev, 1),
            _ => return Err(unknown()),
        };
        count(operands, 1 + arity)?;
        let to = self.operands.wide_target(&operands[0])?;
        let a = self.operands.wide(&operands[1], Type::B64)?;
        let b = if arity == 2 {
            self.operands.wide(&operands[2], Type::B64)?
        } else {
            a
        };
        self.emit(Inst::Int64(op, to, a, b, b));
        Ok(())
    }

    fn predicate_logic(&mut self, opcode: &str, operands: &'m [Operand]) -> Result<()> {
        let (op, arity) = match opcode {
            "and" => (PredicateOp::And, 2),
            "or" => (PredicateOp::Or, 2),
            "xor" => (PredicateOp::Xor, 2),
            _ => (PredicateOp::Not, 1),
        };
        count(operands, 1 + arity)?;
        let to = self.operands.predicate_target(&operands[0])?;
        let (a, negate_a) = self.operands.predicate(&operands[1])?;
        let (b, negate_b) = if arity == 2 {
            self.operands.predicate(&operands[2])?
        } else {
            (TRUE, false)
        };
        self.emit(Inst::Predicate(
            op,
            to,
            a,
            b,
            u8::from(negate_a) | u8::from(negate_b) << 1,
        ));
        Ok(())
    }

    fn lop3(&mut self, m: &mut Modifiers<'m>, operands: &'m [Operand]) -> Result<()> {
        if !m.flag("b32") {
            return Err(expected(".b32", m.rest().join(".")));
        }
        count(operands, 5)?;
        let Operand::Integer(table @ 0..=255) = operands[4] else {
            return Err(expected("a table from 0 to 255", describe(&operands[4])));
        };
        let [to, a, b, c] = self.narrow_operands(&operands[..4], 3, Type::B32)?;
        self.emit(Inst::Lop3(table as u8, to, a, b, c));
        Ok(())
    }

    fn prmt(&mut self, m: &mut Modifiers<'m>, operands: &'m [Operand]) -> Result<()> {
        if !m.flag("b32") {
            return Err(expected(".b32", m.rest().join(".")));
        }
        let mode = m.pick(|name| {
            Some(match name {
                "f4e" => Int32::PrmtF4e,
                "b4e" => Int32::PrmtB4e,
                "rc8" => Int32::PrmtRc8,
                "ecl" => Int32::PrmtEcl,
                "ecr" => Int32::PrmtEcr,
                "rc16" => Int32::PrmtRc16,
                _ => return None,
            })
        });
        self.emit_int32(mode.unwrap_or(Int32::Prmt), operands, 3, Type::B32)
    }

    fn shf(&mut self, m: &mut Modifiers<'m>, operands: &'m [Operand]) -> Result<()> {
        let left = m.flag("l");
        if !left && !m.flag("r") {
            return Err(unknown());
        }
        let wrap = m.flag("wrap");
        if !wrap && !m.flag("clamp") {
            return Err(unknown());
        }
        if !m.flag("b32") {
            return Err(unknown());
        }
        let op = match (left, wrap) {
            (true, false) => Int32::ShfLClamp,
            (true, true) => Int32::ShfLWrap,
            (false, false) => Int32::ShfRClamp,
            (false, true) => Int32::ShfRWrap,
        };
        self.emit_int32(op, operands, 3, Type::B32)
    }

    fn bfi(&mut self, m: &mut Modifiers<'m>, operands: &'m [Operand]) -> Result<()> {
        let ty = m.ty()?;
        count(operands, 5)?;
        let position = self.operands.narrow(&operands[3], Type::B32)?;
        let length = self.operands.narrow(&operands[4], Type::B32)?;
        match ty {
            Type::B32 => {
                let to = self.operands.narrow_target(&operands[0])?;
                let (a, b) = (
                    self.operands.narrow(&operands[1], ty)?,
                    self.operands.narrow(&operands[2], ty)?,
                );
                self.emit(Inst::Bfi32(to, a, b, position, length));
            }
            Type::B64 => {
                let to = self.operands.wide_target(&operands[0])?;
                let (a, b) = (
                    self.operands.wide(&operands[1], ty)?,
                    self.operands.wide(&operands[2], ty)?,
                );
                self.emit(Inst::Bfi64(to, a, b, position, length));
            }
            _ => return Err(unknown()),
        }
        Ok(())
    }

    pub(super) fn comparison(
        &mut self,
        opcode: &str,
        m: &mut Modifiers<'m>,
        operands: &'m [Operand],
    ) -> Result<()> {
        match opcode {
            "selp" => self.selp(m, operands),
            "slct" => self.slct(m, operands),
            "setp" => {
                let (to, to_other) = match operands.first() {
                    Some(Operand::Pair(p, q)) => (
                        self.operands.predicate_target(p)?,
                        self.operands.predicate_target(q)?,
                    ),
                    Some(p) => (self.operands.predicate_target(p)?, SINK),
                    None => {
                        return Err(DecodeFault::OperandCount {
                            expected: "3 or 4",
                            found: 0,
                        });
                    }
                };
                self.compare(m, &operands[1..], to, to_other)
            }
            _ => {
                let result = m.ty()?;
                let Some((to, rest)) = operands.split_first() else {
                    return Err(DecodeFault::OperandCount {
                        expected: "3 or 4",
                        found: 0,
                    });
                };
                let to = self.operands.narrow_target(to)?;
                let value = match result {
                    Type::U32 | Type::S32 => u32::MAX,
                    Type::F32 => 1f32.to_bits(),
                    Type::F16 => 0x3c00,
                    Type::Bf16 => 0x3f80,
                    Type::F16x2 | Type::Bf16x2 | Type::U16 | Type::S16 => {
                        return self.set_packed(result, m, rest, to);
                    }
                    _ => return Err(unknown()),
                };
                let holds = self.operands.new_predicate();
                self.compare(m, rest, holds, SINK)?;
                self.emit(Inst::FromPredicate(value, to, holds));
                Ok(())
            }
        }
    }

    /// `set` with a pair of results, or with 16-bit integers.
    fn set_packed(
        &mut self,
        result: Type,
        m: &mut Modifiers<'m>,
        operands: &'m [Operand],
        to: crate::program::inst::R,
    ) -> Result<()> {
        let (low, high) = (self.operands.new_predicate(), self.operands.new_predicate());
        self.compare(m, operands, low, high)?;
        let one = match result {
            Type::F16x2 => 0x3c00,
            Type::Bf16x2 => 0x3f80,
            _ => 0xffff,
        };
        if matches!(result, Type::U16 | Type::S16) {
            self.emit(Inst::FromPredicate(one, to, low));
            return Ok(());
        }
        let upper = self.operands.new_narrow();
        self.emit(Inst::FromPredicate(one, to, low));
        self.emit(Inst::FromPredicate(one << 16, upper, high));
        self.emit(Inst::Int32(Int32::Or, to, to, upper, upper));
        Ok(())
    }

    fn compare(
        &mut self,
        m: &mut Modifiers<'m>,
        operands: &'m [Operand],
        to: P,
        to_other: P,
    ) -> Result<()> {
        let ftz = m.flag("ftz");
        let logic = m.pick(|name| {
            Some(match name {
                "and" => PredicateOp::And,
                "or" => PredicateOp::Or,
                "xor" => PredicateOp::Xor,
                _ => return None,
            })
        });
        let found = m.rest().join(".");
        let named = m.pick(|name| {
            relation(name).map(|relation| (relation, matches!(name, "lo" | "ls" | "hi" | "hs")))
        });
        let (relation, unsigned) = named.ok_or_else(|| expected("a comparison", found))?;
        let ty = m.ty()?;
        let (kind, high) = match ty {
            Type::B16 | Type::U16 => (Kind::U16, None),
            Type::S16 => (Kind::S16, None),
            Type::B32 | Type::U32 => (Kind::U32, None),
            Type::S32 => (Kind::S32, None),
            Type::B64 | Type::U64 => (Kind::U64, None),
            Type::S64 => (Kind::S64, None),
            Type::F32 if ftz => (Kind::F32Ftz, None),
            Type::F32 => (Kind::F32, None),
            Type::F64 => (Kind::F64, None),
            Type::F16 => (Kind::F16, None),
            Type::Bf16 => (Kind::Bf16, None),
            Type::F16x2 => (Kind::F16, Some(Kind::F16High)),
            Type::Bf16x2 => (Kind::Bf16, Some(Kind::Bf16High)),
            _ => {
                return Err(expected(
                    "a type that can be compared",
                    format!("{ty:?}").to_lowercase(),
                ));
            }
        };
        let is_float = matches!(
            kind,
            Kind::F32 | Kind::F32Ftz | Kind::F64 | Kind::F16 | Kind::Bf16
        );
        if is_float && unsigned {
            return Err(unknown());
        }
        count(operands, if logic.is_some() { 3 } else { 2 })?;
        let combine = match logic {
            Some(op) => {
                let (with, negate) = self.operands.predicate(&operands[2])?;
                Combine { op, with, negate }
            }
            None => Combine {
                op: PredicateOp::Mov,
                with: TRUE,
                negate: false,
            },
        };
        if is_wide(ty) {
            let (a, b) = (
                self.operands.wide(&operands[0], ty)?,
                self.operands.wide(&operands[1], ty)?,
            );
            self.kernel.tables.compares64.push(Compare {
                kind,
                relation,
                to,
                to_other,
                high,
                a,
                b,
                combine,
            });
            self.emit(Inst::Compare64(
                self.kernel.tables.compares64.len() as u32 - 1,
            ));
        } else {
            let (a, b) = (
                self.operands.narrow(&operands[0], ty)?,
                self.operands.narrow(&operands[1], ty)?,
            );
            self.kernel.tables.compares32.push(Compare {
                kind,
                relation,
                to,
                to_other,
                high,
                a,
                b,
                combine,
            });
            self.emit(Inst::Compare32(
                self.kernel.tables.compares32.len() as u32 - 1,
            ));
        }
        Ok(())
    }

    fn selp(&mut self, m: &mut Modifiers<'m>, operands: &'m [Operand]) -> Result<()> {
        let ty = m.ty()?;
        count(operands, 4)?;
        let (mut a, mut b) = (&operands[1], &operands[2]);
        let (p, negate) = self.operands.predicate(&operands[3])?;
        if negate {
            std::mem::swap(&mut a, &mut b);
        }
        if is_wide(ty) {
            let (to, a, b) = (
                self.operands.wide_target(&operands[0])?,
                self.operands.wide(a, ty)?,
                self.operands.wide(b, ty)?,
            );
            self.emit(Inst::Select64(to, a, b, p));
        } else {
            let (to, a, b) = (
                self.operands.narrow_target(&operands[0])?,
                self.operands.narrow(a, ty)?,
                self.operands.narrow(b, ty)?,
            );
            self.emit(Inst::Select32(to, a, b, p));
        }
        Ok(())
    }

    fn slct(&mut self, m: &mut Modifiers<'m>, operands: &'m [Operand]) -> Result<()> {
        let ftz = m.flag("ftz");
        let (ty, by) = (m.ty()?, m.ty()?);
        count(operands, 4)?;
        let c = self.operands.narrow(&operands[3], by)?;
        if is_wide(ty) {
            if by != Type::S32 {
                return Err(unknown());
            }
            let to = self.operands.wide_target(&operands[0])?;
            let (a, b) = (
                self.operands.wide(&operands[1], ty)?,
                self.operands.wide(&operands[2], ty)?,
            );
            self.emit(Inst::Slct64(to, a, b, c));
            return Ok(());
        }
        let op = match (by, ftz) {
            (Type::S32, false) => Int32::Slct,
            (Type::F32, false) => Int32::SlctF32,
            (Type::F32, true) => Int32::SlctF32Ftz,
            _ => return Err(unknown()),
        };
        let to = self.operands.narrow_target(&operands[0])?;
        let (a, b) = (
            self.operands.narrow(&operands[1], ty)?,
            self.operands.narrow(&operands[2], ty)?,
        );
        self.emit(Inst::Int32(op, to, a, b, c));
        Ok(())
    }
}

fn relation(name: &str) -> Option<Relation> {
    Some(match name {
        "eq" => Relation::Eq,
        "ne" => Relation::Ne,
        "lt" | "lo" => Relation::Lt,
        "le" | "ls" => Relation::Le,
        "gt" | "hi" => Relation::Gt,
        "ge" | "hs" => Relation::Ge,
        "equ" => Relation::Equ,
        "neu" => Relation::Neu,
        "ltu" => Relation::Ltu,
        "leu" => Relation::Leu,
        "gtu" => Relation::Gtu,
        "geu" => Relation::Geu,
        "num" => Relation::Num,
        "nan" => Relation::Nan,
        _ => return None,
    })
}
