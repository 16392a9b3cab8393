//! Tensor cores: fragments between registers, and matrices from shared memory.

use super::access::by_space;
use super::block::State;
use super::warp::{Flow, Warp};
use super::{Outcome, Stop, lanes_of};
use crate::ast::Space;
use crate::check::race::Strength;
use crate::check::report::Fault;
use crate::count::bank_conflicts;
use crate::program::inst::{Matrix, Mma, R};
use crate::tensor_core::Lanes;
use crate::tensor_core::matrix::{ldmatrix, movmatrix, stmatrix};
use crate::tensor_core::mma::mma;

impl Warp {
    /// Registers in a row, copied; fragments have at most 64.
    fn gather(&self, registers: &[R], to: &mut [Lanes]) {
        for (to, r) in to.iter_mut().zip(registers) {
            *to = *self.registers.r(*r);
        }
    }

    pub(super) fn mma(&mut self, block: &mut State, inst: &Mma, active: u32) -> Flow {
        if let Err(flow) = self.whole(active) {
            return flow;
        }
        let (mut a, mut b, mut c, mut d) = ([[0; 32]; 4], [[0; 32]; 2], [[0; 32]; 4], [[0; 32]; 4]);
        let (n_a, n_b, n_c, n_d) = (inst.a.len(), inst.b.len(), inst.c.len(), inst.d.len());
        self.gather(&inst.a, &mut a);
        self.gather(&inst.b, &mut b);
        self.gather(&inst.c, &mut c);
        mma(&inst.op, &a[..n_a], &b[..n_b], &c[..n_c], &mut d[..n_d]);
        for (r, d) in inst.d.iter().zip(&d) {
            self.registers.set_r(*r, active, d);
        }
        block.tally.tensor.mma += 1;
        block.tally.tensor.multiply_adds += inst.op.multiply_adds();
        Flow::Next
    }

    pub(super) fn matrix(
        &mut self,
        block: &mut State,
        inst: &Matrix,
        pc: u32,
        active: u32,
    ) -> Outcome<Flow> {
        if let Err(flow) = self.whole(active) {
            return Ok(flow);
        }
        let mut addresses = self.addresses(inst.address);
        let rows = inst.op.rows();
        let wanted = u32::MAX >> (32 - rows);
        if wanted & !active != 0 {
            let from = (wanted & !active).trailing_zeros();
            return Err(Stop::lane(Fault::InactiveLane { from, active }, from));
        }
        if inst.space == Space::Generic {
            let (space, lanes, offsets) =
                by_space(&addresses, wanted).next().expect("there are rows");
            if space != Space::Shared || lanes != wanted {
                let fault = Fault::BadUse {
                    instruction: if inst.store { "stmatrix" } else { "ldmatrix" }.to_owned(),
                    expected: "addresses of shared memory".to_owned(),
                    found: "others".to_owned(),
                };
                return Err(Stop::new(fault));
            }
            addresses = offsets;
        }
        super::access::check_alignment(&addresses, wanted, 16, Space::Shared)?;
        let addresses = block.shared_addresses(&addresses, wanted, 16)?;
        block.tally.bank_conflicts += u64::from(bank_conflicts(&addresses, wanted, 16));
        let count = inst.op.count;
        let mut registers = [[0; 32]; 4];
        let mut data = [[0; 16]; 32];
        if inst.store {
            block.tally.shared.written += 16 * rows as u64;
            self.gather(&inst.registers, &mut registers);
            stmatrix(&inst.op, &registers[..count], &mut data[..rows]);
            let same = |a: u32, b: u32| {
                addresses[a as usize] == addresses[b as usize]
                    && data[a as usize] == data[b as usize]
            };
            block.shadow_write(self.index, wanted, &addresses, 16, pc, Strength::Weak, same)?;
            for lane in lanes_of(wanted) {
                let word = |i: usize| {
                    u32::from_le_bytes(data[lane][4 * i..4 * i + 4].try_into().expect("four bytes"))
                };
                block.shared.store(addresses[lane], 16, word);
            }
        } else {
            block.tally.shared.read += 16 * rows as u64;
            block.shadow_read(self.index, wanted, &addresses, 16, pc, Strength::Weak)?;
            for lane in lanes_of(wanted) {
                data[lane] = block.shared.row(addresses[lane]);
            }
            ldmatrix(&inst.op, &data[..rows], &mut registers[..count]);
            for (r, out) in inst.registers.iter().zip(&registers) {
                self.registers.set_r(*r, active, out);
            }
        }
        Ok(Flow::Next)
    }

    pub(super) fn movmatrix(&mut self, to: R, a: R, active: u32) -> Flow {
        if let Err(flow) = self.whole(active) {
            return flow;
        }
        let out = movmatrix(self.registers.r(a));
        self.registers.set_r(to, active, &out);
        Flow::Next
    }
}
