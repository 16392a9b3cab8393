//! `mbarrier` instructions, and the copies of the TMA unit.

use super::integer::count;
use super::modifiers::Modifiers;
use super::operand::describe;
use super::{Decoder, Result, expected, unknown};
use crate::ast::{Operand, Space, Type};
use crate::async_copy::spelling::{
    CpAsyncOp, Direction, MbarrierKind, MbarrierOp, MbarrierSpace, TmaCopy, TmaOp,
};
use crate::program::DecodeFault;
use crate::program::inst::{Address, Bulk, CopyArrive, Inst, Mbarrier, SINK, Slot};

fn space_of(space: MbarrierSpace) -> Space {
    match space {
        MbarrierSpace::Generic => Space::Generic,
        MbarrierSpace::Cta => Space::Shared,
        MbarrierSpace::Cluster => Space::SharedCluster,
    }
}

impl<'m> Decoder<'m> {
    pub(super) fn mbarrier(
        &mut self,
        m: &mut Modifiers<'m>,
        operands: &'m [Operand],
    ) -> Result<()> {
        let op = MbarrierOp::parse(&m.take_rest()).ok_or_else(unknown)?;
        let mut inst = Mbarrier {
            kind: op.kind,
            relaxed: op.relaxed,
            space: space_of(op.space),
            address: None,
            to: Slot::Sink,
            done: SINK,
            value: None,
        };
        let (address, value) = match op.kind {
            MbarrierKind::Inval => {
                count(operands, 1)?;
                (Some(&operands[0]), None)
            }
            MbarrierKind::Init | MbarrierKind::ExpectTx | MbarrierKind::CompleteTx => {
                count(operands, 2)?;
                (Some(&operands[0]), Some((&operands[1], Type::U32)))
            }
            MbarrierKind::PendingCount => {
                count(operands, 2)?;
                inst.to = Slot::Narrow(self.operands.narrow_target(&operands[0])?);
                (None, Some((&operands[1], Type::B64)))
            }
            MbarrierKind::Wait { parity, .. } => {
                // A time to wait for may follow; waits here end when their phase does.
                let operands = if operands.len() == 4 {
                    &operands[..3]
                } else {
                    operands
                };
                count(operands, 3)?;
                inst.done = self.operands.predicate_target(&operands[0])?;
                (
                    Some(&operands[1]),
                    Some((&operands[2], if parity { Type::U32 } else { Type::B64 })),
                )
            }
            MbarrierKind::Arrive {
                expect_tx,
                no_complete,
                ..
            } => {
                let needs_value = expect_tx || no_complete;
                let [to, address, rest @ ..] = operands else {
                    return Err(DecodeFault::OperandCount {
                        expected: "2 or 3",
                        found: operands.len(),
                    });
                };
                inst.to = self.operands.slot_target(to)?;
                if let Slot::Narrow(_) = inst.to {
                    return Err(expected("a register of 64 bits", "a narrower one"));
                }
                match rest {
                    [] if !needs_value => (Some(address), None),
                    [value] => (Some(address), Some((value, Type::U32))),
                    _ => {
                        return Err(DecodeFault::OperandCount {
                            expected: "2 or 3",
                            found: operands.len(),
                        });
                    }
                }
            }
        };
        if let Some(address) = address {
            let (space, address) = self.placed(inst.space, address)?;
            (inst.space, inst.address) = (space, Some(address));
        }
        if let Some((value, ty)) = value {
            inst.value = Some(match ty {
                Type::B64 => Slot::Wide(self.operands.wide(value, ty)?),
                ty => Slot::Narrow(self.operands.narrow(value, ty)?),
            });
        }
        self.kernel.tables.mbarriers.push(inst);
        self.emit(Inst::Mbarrier(
            self.kernel.tables.mbarriers.len() as u32 - 1,
        ));
        Ok(())
    }

    /// `cp.async.mbarrier.arrive`.
    pub(super) fn copy_arrive(
        &mut self,
        m: &mut Modifiers<'m>,
        operands: &'m [Operand],
    ) -> Result<()> {
        let Some(CpAsyncOp::MbarrierArrive { noinc, space }) = CpAsyncOp::parse(&m.take_rest())
        else {
            return Err(unknown());
        };
        count(operands, 1)?;
        let (space, address) = self.placed(space_of(space), &operands[0])?;
        self.kernel.tables.copy_arrivals.push(CopyArrive {
            noinc,
            space,
            address,
        });
        self.emit(Inst::CopyArrive(
            self.kernel.tables.copy_arrivals.len() as u32 - 1,
        ));
        Ok(())
    }

    pub(super) fn bulk(&mut self, m: &mut Modifiers<'m>, operands: &'m [Operand]) -> Result<()> {
        match TmaOp::parse(&m.take_rest()).ok_or_else(unknown)? {
            TmaOp::CommitGroup => {
                count(operands, 0)?;
                self.emit(Inst::BulkCommit);
                Ok(())
            }
            TmaOp::WaitGroup { read } => {
                let [Operand::Integer(left @ 0..=0xffff)] = operands else {
                    return Err(expected(
                        "a number of groups",
                        operands.first().map_or("nothing".to_owned(), describe),
                    ));
                };
                self.emit(Inst::BulkWait(*left as u32, read));
                Ok(())
            }
            TmaOp::Copy(copy) => self.bulk_copy(copy, operands),
        }
    }

    fn bulk_copy(&mut self, copy: TmaCopy, operands: &'m [Operand]) -> Result<()> {
        let operands = match operands.split_last() {
            Some((_, rest)) if copy.cache_hint => rest,
            _ => operands,
        };
        let prefetch = copy.direction == Direction::Prefetch;
        let mut rest = operands.iter();
        let missing = || DecodeFault::OperandCount {
            expected: "as many as the copy needs",
            found: operands.len(),
        };
        let mut next = || rest.next().ok_or_else(missing);
        let to = if prefetch { None } else { Some(next()?) };
        let from = next()?;
        let size = if copy.rank.is_none() {
            Some(next()?)
        } else {
            None
        };
        let loads = matches!(copy.direction, Direction::Load | Direction::ToCluster);
        let mbarrier = if loads { Some(next()?) } else { None };
        let mask = if copy.multicast || copy.byte_mask {
            Some(next()?)
        } else {
            None
        };
        if rest.next().is_some() {
            return Err(missing());
        }
        if prefetch {
            self.emit(Inst::Nop);
            return Ok(());
        }
        let (to_space, from_space) = match copy.direction {
            Direction::Load => (Space::SharedCluster, Space::Global),
            Direction::ToCluster => (Space::SharedCluster, Space::Shared),
            Direction::Store | Direction::Prefetch => (Space::Global, Space::Shared),
        };
        let mut coordinates = Vec::new();
        let to = to.ok_or_else(missing)?;
        let (to, from) = match (copy.rank, copy.direction) {
            (Some(_), Direction::Load) => (
                self.placed(to_space, to)?,
                self.tensor_operand(copy, from, &mut coordinates)?,
            ),
            (Some(_), _) => (
                self.tensor_operand(copy, to, &mut coordinates)?,
                self.placed(from_space, from)?,
            ),
            (None, _) => (self.placed(to_space, to)?, self.placed(from_space, from)?),
        };
        let bulk = Bulk {
            copy,
            to,
            from,
            coordinates,
            size: size
                .map(|size| self.operands.narrow(size, Type::U32))
                .transpose()?,
            mbarrier: mbarrier
                .map(|address| self.placed(to_space, address))
                .transpose()?,
            mask: mask
                .map(|mask| self.operands.narrow(mask, Type::U16))
                .transpose()?,
        };
        self.kernel.tables.bulks.push(bulk);
        self.emit(Inst::Bulk(self.kernel.tables.bulks.len() as u32 - 1));
        Ok(())
    }

    /// `[map, {c0, c1, …}]`
    fn tensor_operand(
        &mut self,
        copy: TmaCopy,
        operand: &'m Operand,
        to: &mut Vec<crate::program::inst::R>,
    ) -> Result<(Space, Address)> {
        let Operand::Address {
            base,
            offset,
            coordinates,
        } = operand
        else {
            return Err(expected("a tensor map and coordinates", describe(operand)));
        };
        // `[map, {a, b}]` may come as one vector of coordinates or as the coordinates themselves.
        let items = match coordinates.as_slice() {
            [Operand::Vector(items)] => items.as_slice(),
            items => items,
        };
        if Some(items.len()) != copy.rank {
            return Err(expected(
                "as many coordinates as the rank",
                items.len().to_string(),
            ));
        }
        for item in items {
            to.push(self.operands.narrow(item, Type::S32)?);
        }
        Ok((Space::Generic, self.operands.based(base, *offset)?))
    }
}
