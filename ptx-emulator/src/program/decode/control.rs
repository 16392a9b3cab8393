//! Branches, ends, and what only the scheduler of a device would notice.

use super::modifiers::Modifiers;
use super::operand::describe;
use super::{Decoder, Result, expected, unknown};
use crate::ast::{Operand, Type};
use crate::program::DecodeFault;
use crate::program::inst::Inst;

/// So many operands, or an error.
pub(super) fn exactly<'a, const N: usize>(
    operands: &'a [Operand],
    expected: &'static str,
) -> Result<&'a [Operand; N]> {
    operands.try_into().map_err(|_| DecodeFault::OperandCount {
        expected,
        found: operands.len(),
    })
}

impl<'m> Decoder<'m> {
    pub(super) fn control(
        &mut self,
        opcode: &str,
        m: &mut Modifiers<'m>,
        operands: &'m [Operand],
    ) -> Result<()> {
        match opcode {
            "bra" => {
                m.flag("uni");
                match operands {
                    [Operand::Label(label)] => self.emit(Inst::Branch(*label)),
                    [other] => return Err(expected("a label", describe(other))),
                    _ => {
                        return Err(DecodeFault::OperandCount {
                            expected: "1",
                            found: operands.len(),
                        });
                    }
                }
            }
            "brx" => {
                m.flag("uni");
                if !m.flag("idx") {
                    return Err(expected(".idx", m.rest().join(".")));
                }
                let [index, Operand::Labels(labels)] = operands else {
                    return Err(DecodeFault::OperandCount {
                        expected: "2",
                        found: operands.len(),
                    });
                };
                let index = self.operands.narrow(index, Type::U32)?;
                self.kernel.tables.jumps.push(labels.clone());
                self.emit(Inst::BranchIndexed(
                    self.kernel.tables.jumps.len() as u32 - 1,
                    index,
                ));
            }
            "exit" => self.emit(Inst::Exit),
            "trap" | "brkpt" => self.emit(Inst::Trap),
            "nanosleep" => {
                m.flag("u32");
                self.emit(Inst::Nop);
            }
            "pmevent" => {
                m.flag("mask");
                self.emit(Inst::Nop);
            }
            "griddepcontrol" => {
                if !m.flag("wait") && !m.flag("launch_dependents") {
                    return Err(expected(".wait or .launch_dependents", m.rest().join(".")));
                }
                self.emit(Inst::Nop);
            }
            "setmaxnreg" => {
                if !m.flag("inc") && !m.flag("dec") {
                    return Err(expected(".inc or .dec", m.rest().join(".")));
                }
                if !m.flag("sync") || !m.flag("aligned") || !m.flag("u32") {
                    return Err(expected(".sync.aligned.u32", m.rest().join(".")));
                }
                let [Operand::Integer(count)] = operands else {
                    return Err(DecodeFault::OperandCount {
                        expected: "1",
                        found: operands.len(),
                    });
                };
                if !(24..=256).contains(count) || count % 8 != 0 {
                    return Err(expected(
                        "a multiple of 8 from 24 to 256",
                        count.to_string(),
                    ));
                }
                self.emit(Inst::SetMaxRegisters);
            }
            _ => return Err(unknown()),
        }
        Ok(())
    }

    pub(super) fn fence(
        &mut self,
        opcode: &str,
        m: &mut Modifiers<'m>,
        operands: &'m [Operand],
    ) -> Result<()> {
        let names = m.take_rest();
        let known = match (opcode, names.as_slice()) {
            ("membar", ["cta" | "gl" | "sys"] | ["proxy", ..])
            | (
                "fence",
                [
                    "sc" | "acq_rel" | "acquire" | "release",
                    "cta" | "cluster" | "gpu" | "sys",
                ]
                | ["mbarrier_init", "release", "cluster"]
                | ["acquire", "sync_restrict::shared::cluster", "cluster"]
                | ["release", "sync_restrict::shared::cta", "cluster"]
                | ["proxy", "alias" | "tensormap::generic", ..],
            ) => true,
            ("fence", ["proxy", "async" | "async::generic", ..]) => {
                self.emit(Inst::FenceProxyAsync);
                return Ok(());
            }
            _ => false,
        };
        if !known {
            return Err(DecodeFault::Qualifier {
                qualifier: names.join("."),
            });
        }
        // `fence.proxy.tensormap` names the map that it is about, which nothing here needs.
        let _ = operands;
        self.emit(Inst::Nop);
        Ok(())
    }
}
