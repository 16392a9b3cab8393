//! Tensor cores: `mma`, `wgmma`, `ldmatrix`, `stmatrix`, `movmatrix`.

use super::convert::space_named;
use super::integer::count;
use super::modifiers::Modifiers;
use super::operand::describe;
use super::{Decoder, Result, expected, unknown};
use crate::ast::{Instruction, Operand, Space, Type};
use crate::program::DecodeFault;
use crate::program::inst::{Inst, Matrix, Mma, R, Wgmma, WgmmaA};
use crate::tensor_core::descriptor::Major;
use crate::tensor_core::matrix::{MatrixOp, is_movmatrix};
use crate::tensor_core::mma::MmaOp;
use crate::tensor_core::wgmma::WgmmaOp;

impl<'m> Decoder<'m> {
    pub(super) fn tensor(
        &mut self,
        opcode: &str,
        m: &mut Modifiers<'m>,
        operands: &'m [Operand],
        _: &'m Instruction,
    ) -> Result<()> {
        let names = m.take_rest();
        match opcode {
            "mma" => {
                let op = MmaOp::parse(&names).ok_or_else(unknown)?;
                count(operands, 4)?;
                let (a, b, c, d) = op.registers();
                let mma = Mma {
                    op,
                    d: self.registers(&operands[0], d, true)?,
                    a: self.registers(&operands[1], a, false)?,
                    b: self.registers(&operands[2], b, false)?,
                    c: self.registers(&operands[3], c, false)?,
                };
                self.kernel.tables.mmas.push(mma);
                self.emit(Inst::Mma(self.kernel.tables.mmas.len() as u32 - 1));
            }
            "ldmatrix" | "stmatrix" => {
                let op = MatrixOp::parse(&names).ok_or_else(unknown)?;
                let space = names
                    .iter()
                    .find_map(|name| space_named(name))
                    .unwrap_or(Space::Generic);
                count(operands, 2)?;
                let store = opcode == "stmatrix";
                let (address, registers) = if store {
                    (&operands[0], &operands[1])
                } else {
                    (&operands[1], &operands[0])
                };
                let (space, address) = self.placed(space, address)?;
                let registers = self.registers(registers, op.count, !store)?;
                self.kernel.tables.matrices.push(Matrix {
                    op,
                    store,
                    space,
                    address,
                    registers,
                });
                self.emit(Inst::Matrix(self.kernel.tables.matrices.len() as u32 - 1));
            }
            "movmatrix" if is_movmatrix(&names) => {
                count(operands, 2)?;
                let (to, a) = (
                    self.operands.narrow_target(&operands[0])?,
                    self.operands.narrow(&operands[1], Type::B32)?,
                );
                self.emit(Inst::MovMatrix(to, a));
            }
            "wgmma" => return self.wgmma(&names, operands),
            _ => return Err(unknown()),
        }
        Ok(())
    }

    fn wgmma(&mut self, names: &[&str], operands: &'m [Operand]) -> Result<()> {
        match names {
            ["fence", "sync", "aligned"] => self.emit(Inst::WgmmaFence),
            ["commit_group", "sync", "aligned"] => self.emit(Inst::WgmmaCommit),
            ["wait_group", "sync", "aligned"] => {
                let [Operand::Integer(left @ 0..=7)] = operands else {
                    return Err(expected(
                        "a number of groups",
                        operands.first().map_or("nothing".to_owned(), describe),
                    ));
                };
                self.emit(Inst::WgmmaWait(*left as u32));
            }
            _ => return self.wgmma_product(names, operands),
        }
        Ok(())
    }

    /// `d, a, b, scale-d, imm-scale-a, imm-scale-b`, and for 16-bit types `imm-trans-a` if A is in shared memory, and `imm-trans-b`.
    fn wgmma_product(&mut self, names: &[&str], operands: &'m [Operand]) -> Result<()> {
        let op = WgmmaOp::parse(names).ok_or_else(unknown)?;
        let [d, a, b, accumulate, immediates @ ..] = operands else {
            return Err(DecodeFault::OperandCount {
                expected: "6 or more",
                found: operands.len(),
            });
        };
        let d = self.registers(d, op.accumulators(), true)?;
        let a = match a {
            Operand::Vector(_) => {
                let registers = self.registers(a, 4, false)?;
                WgmmaA::Registers(registers.try_into().expect("four were asked for"))
            }
            a => WgmmaA::Descriptor(self.operands.wide(a, Type::B64)?),
        };
        let b = self.operands.wide(b, Type::B64)?;
        let accumulate = self.operands.predicate(accumulate)?;
        let in_registers = matches!(a, WgmmaA::Registers(_));
        let transposes = match (op.has_transpose(), in_registers) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => 2,
        };
        count(immediates, 2 + transposes)?;
        let one_of = |operand: &Operand, no: i128, yes: i128| match operand {
            Operand::Integer(value) if *value == no => Ok(false),
            Operand::Integer(value) if *value == yes => Ok(true),
            other => Err(expected(
                "an immediate that the instruction takes",
                describe(other),
            )),
        };
        let negate = |operand| one_of(operand, 1, -1);
        let major = |operand: Option<&Operand>| {
            let transposed = operand.map_or(Ok(false), |operand| one_of(operand, 0, 1))?;
            Ok(if transposed { Major::Mn } else { Major::K })
        };
        let a_major = if transposes == 2 {
            major(immediates.get(2))?
        } else {
            Major::K
        };
        let b_major = if transposes > 0 {
            major(immediates.last())?
        } else {
            Major::K
        };
        let inst = Wgmma {
            op,
            d,
            a,
            b,
            accumulate,
            negate_a: negate(&immediates[0])?,
            negate_b: negate(&immediates[1])?,
            a_major,
            b_major,
        };
        self.kernel.tables.wgmmas.push(inst);
        self.emit(Inst::Wgmma(self.kernel.tables.wgmmas.len() as u32 - 1));
        Ok(())
    }

    /// The registers of a fragment, so many.
    pub(super) fn registers(
        &mut self,
        operand: &'m Operand,
        n: usize,
        write: bool,
    ) -> Result<Vec<R>> {
        let items = match operand {
            Operand::Vector(items) => items.as_slice(),
            operand => std::slice::from_ref(operand),
        };
        if items.len() != n {
            return Err(expected(
                "as many registers as the shape asks for",
                describe(operand),
            ));
        }
        items
            .iter()
            .map(|item| {
                if write {
                    self.operands.narrow_target(item)
                } else {
                    self.operands.narrow(item, Type::F32)
                }
            })
            .collect()
    }
}
