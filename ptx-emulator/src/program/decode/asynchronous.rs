//! Asynchronous copies.

use super::modifiers::Modifiers;
use super::operand::describe;
use super::{Decoder, Result, expected, unknown};
use crate::ast::{Instruction, Operand, Space, Type};
use crate::program::DecodeFault;
use crate::program::inst::{CopyAsync, Inst};

impl<'m> Decoder<'m> {
    pub(super) fn asynchronous(
        &mut self,
        opcode: &str,
        m: &mut Modifiers<'m>,
        operands: &'m [Operand],
        _: &'m Instruction,
    ) -> Result<()> {
        if opcode == "mbarrier" {
            return self.mbarrier(m, operands);
        }
        if m.rest().starts_with(&["async", "mbarrier"]) {
            return self.copy_arrive(m, operands);
        }
        if m.rest().contains(&"bulk") {
            return self.bulk(m, operands);
        }
        if opcode != "cp" || !m.flag("async") {
            return Err(unknown());
        }
        if m.flag("commit_group") {
            self.emit(Inst::CommitGroup);
        } else if m.flag("wait_all") {
            self.emit(Inst::WaitAll);
        } else if m.flag("wait_group") {
            let [Operand::Integer(left @ 0..=0xffff)] = operands else {
                return Err(expected(
                    "a number of groups",
                    operands.first().map_or("nothing".to_owned(), describe),
                ));
            };
            self.emit(Inst::WaitGroup(*left as u32));
        } else {
            return self.copy_async(m, operands);
        }
        Ok(())
    }

    /// `cp.async.ca.shared.global [to], [from], size, source size or predicate, policy`.
    fn copy_async(&mut self, m: &mut Modifiers<'m>, operands: &'m [Operand]) -> Result<()> {
        let cg = m.flag("cg");
        if !cg && !m.flag("ca") {
            return Err(unknown());
        }
        let hinted = m.flag("L2::cache_hint");
        while m
            .pick(|name| (name.starts_with("L2::") && name.ends_with('B')).then_some(()))
            .is_some()
        {}
        if !(m.flag("shared") || m.flag("shared::cta")) || !m.flag("global") {
            return Err(expected(".shared.global", m.rest().join(".")));
        }
        let operands = if hinted {
            operands.split_last().map_or(operands, |(_, rest)| rest)
        } else {
            operands
        };
        let [to, from, Operand::Integer(size @ (4 | 8 | 16)), rest @ ..] = operands else {
            return Err(expected(
                "two addresses and a size of 4, 8 or 16",
                format!("{} operands", operands.len()),
            ));
        };
        if cg && *size != 16 {
            return Err(expected("16 bytes with .cg", size.to_string()));
        }
        let (_, to) = self.placed(Space::Shared, to)?;
        let (_, from) = self.placed(Space::Global, from)?;
        let is_predicate = |operand: &Operand| match operand {
            Operand::Register(_) | Operand::Not(_) => self.operands.predicate(operand).is_ok(),
            _ => false,
        };
        let (source_size, ignore) = match rest {
            [] => (None, None),
            [operand] if is_predicate(operand) => (None, Some(self.operands.predicate(operand)?)),
            [operand] => (Some(self.operands.narrow(operand, Type::U32)?), None),
            _ => {
                return Err(DecodeFault::OperandCount {
                    expected: "3 or 4",
                    found: operands.len(),
                });
            }
        };
        self.kernel.tables.copies.push(CopyAsync {
            size: *size as u32,
            to,
            from,
            source_size,
            ignore,
        });
        self.emit(Inst::CopyAsync(self.kernel.tables.copies.len() as u32 - 1));
        Ok(())
    }
}
