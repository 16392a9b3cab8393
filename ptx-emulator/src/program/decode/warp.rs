//! Exchanges between the lanes of a warp, and barriers of a block.

use super::integer::{count, is_wide};
use super::modifiers::Modifiers;
use super::operand::describe;
use super::{Decoder, Result, expected, unknown};
use crate::ast::{Operand, Type};
use crate::program::DecodeFault;
use crate::program::inst::{
    Barrier, BarrierOp, Inst, Match, R, Redux, SINK, Shuffle, ShuffleMode, Slot, Vote,
};

impl<'m> Decoder<'m> {
    pub(super) fn warp_exchange(
        &mut self,
        opcode: &str,
        m: &mut Modifiers<'m>,
        operands: &'m [Operand],
    ) -> Result<()> {
        if opcode == "activemask" {
            m.flag("b32");
            count(operands, 1)?;
            let to = self.operands.narrow_target(&operands[0])?;
            self.emit(Inst::ActiveMask(to));
            return Ok(());
        }
        if !m.flag("sync") {
            // Forms without a member mask left the ISA with sm_70.
            return Err(expected(".sync", m.rest().join(".")));
        }
        match opcode {
            "shfl" => self.shfl(m, operands),
            "vote" => self.vote(m, operands),
            "match" => self.match_lanes(m, operands),
            "redux" => self.redux(m, operands),
            _ => {
                count(operands, 2)?;
                let (to, elected) = match &operands[0] {
                    Operand::Pair(to, p) => (
                        self.operands.narrow_target(to)?,
                        self.operands.predicate_target(p)?,
                    ),
                    other => return Err(expected("d|p", describe(other))),
                };
                let members = self.operands.narrow(&operands[1], Type::B32)?;
                self.emit(Inst::Elect(to, elected, members));
                Ok(())
            }
        }
    }

    fn shfl(&mut self, m: &mut Modifiers<'m>, operands: &'m [Operand]) -> Result<()> {
        let mode = m.pick(|name| {
            Some(match name {
                "up" => ShuffleMode::Up,
                "down" => ShuffleMode::Down,
                "bfly" => ShuffleMode::Bfly,
                "idx" => ShuffleMode::Idx,
                _ => return None,
            })
        });
        let mode = mode.ok_or_else(unknown)?;
        if !m.flag("b32") {
            return Err(expected(".b32", m.rest().join(".")));
        }
        count(operands, 5)?;
        let (to, in_range) = match &operands[0] {
            Operand::Pair(to, p) => (
                self.operands.narrow_target(to)?,
                self.operands.predicate_target(p)?,
            ),
            to => (self.operands.narrow_target(to)?, SINK),
        };
        let mut source = |operand| self.operands.narrow(operand, Type::B32);
        let (a, b, c, members) = (
            source(&operands[1])?,
            source(&operands[2])?,
            source(&operands[3])?,
            source(&operands[4])?,
        );
        self.kernel.tables.shuffles.push(Shuffle {
            mode,
            to,
            in_range,
            a,
            b,
            c,
            members,
        });
        self.emit(Inst::Shuffle(self.kernel.tables.shuffles.len() as u32 - 1));
        Ok(())
    }

    fn vote(&mut self, m: &mut Modifiers<'m>, operands: &'m [Operand]) -> Result<()> {
        count(operands, 3)?;
        let (predicate, negate) = self.operands.predicate(&operands[1])?;
        let members = self.operands.narrow(&operands[2], Type::B32)?;
        let kind = m
            .pick(|name| {
                ["all", "any", "uni", "ballot"]
                    .into_iter()
                    .find(|kind| *kind == name)
            })
            .ok_or_else(unknown)?;
        let vote = if kind == "ballot" {
            m.flag("b32");
            Vote::Ballot(self.operands.narrow_target(&operands[0])?)
        } else {
            m.flag("pred");
            let to = self.operands.predicate_target(&operands[0])?;
            match kind {
                "all" => Vote::All(to),
                "any" => Vote::Any(to),
                _ => Vote::Uniform(to),
            }
        };
        self.emit(Inst::Vote(vote, predicate, negate, members));
        Ok(())
    }

    fn match_lanes(&mut self, m: &mut Modifiers<'m>, operands: &'m [Operand]) -> Result<()> {
        count(operands, 3)?;
        let all = m.flag("all");
        if !all && !m.flag("any") {
            return Err(unknown());
        }
        let ty = m.ty()?;
        let (to, all) = match (&operands[0], all) {
            (Operand::Pair(to, p), true) => (
                self.operands.narrow_target(to)?,
                Some(self.operands.predicate_target(p)?),
            ),
            (to, true) => (self.operands.narrow_target(to)?, Some(SINK)),
            (to, false) => (self.operands.narrow_target(to)?, None),
        };
        let value = if is_wide(ty) {
            Slot::Wide(self.operands.wide(&operands[1], ty)?)
        } else {
            Slot::Narrow(self.operands.narrow(&operands[1], ty)?)
        };
        let members = self.operands.narrow(&operands[2], Type::B32)?;
        self.kernel.tables.matches.push(Match {
            to,
            all,
            value,
            members,
        });
        self.emit(Inst::Match(self.kernel.tables.matches.len() as u32 - 1));
        Ok(())
    }

    fn redux(&mut self, m: &mut Modifiers<'m>, operands: &'m [Operand]) -> Result<()> {
        count(operands, 3)?;
        let name = m
            .pick(|name| {
                ["add", "min", "max", "and", "or", "xor"]
                    .into_iter()
                    .find(|known| *known == name)
            })
            .ok_or_else(unknown)?;
        let (abs, nan) = (m.flag("abs"), m.flag("NaN"));
        let ty = m.ty()?;
        let op = match (name, ty) {
            ("min", Type::F32) => Redux::FMin { abs, nan },
            ("max", Type::F32) => Redux::FMax { abs, nan },
            _ if abs || nan => return Err(unknown()),
            ("add", Type::U32 | Type::S32) => Redux::Add,
            ("min", Type::U32) => Redux::MinU,
            ("max", Type::U32) => Redux::MaxU,
            ("min", Type::S32) => Redux::MinS,
            ("max", Type::S32) => Redux::MaxS,
            ("and", Type::B32) => Redux::And,
            ("or", Type::B32) => Redux::Or,
            ("xor", Type::B32) => Redux::Xor,
            _ => return Err(unknown()),
        };
        let to = self.operands.narrow_target(&operands[0])?;
        let (a, members) = (
            self.operands.narrow(&operands[1], ty)?,
            self.operands.narrow(&operands[2], Type::B32)?,
        );
        self.emit(Inst::Redux(op, to, a, members));
        Ok(())
    }

    pub(super) fn barrier(
        &mut self,
        opcode: &str,
        m: &mut Modifiers<'m>,
        operands: &'m [Operand],
    ) -> Result<()> {
        if m.flag("warp") {
            if opcode != "bar" || !m.flag("sync") {
                return Err(unknown());
            }
            count(operands, 1)?;
            let members = self.operands.narrow(&operands[0], Type::B32)?;
            self.emit(Inst::WarpSync(members));
            return Ok(());
        }
        if m.flag("cluster") {
            return self.cluster_barrier(m);
        }
        m.flag("cta");
        // `bar` implies that whole warps arrive; `barrier` only where it says so.
        let aligned = m.flag("aligned") || opcode == "bar";
        let kind = m
            .pick(|name| {
                ["sync", "arrive", "red"]
                    .into_iter()
                    .find(|kind| *kind == name)
            })
            .ok_or_else(unknown)?;
        let mut id_and_count =
            |id: &'m Operand, count: Option<&'m Operand>| -> Result<(R, Option<R>)> {
                let id = self.operands.narrow(id, Type::U32)?;
                let count = count
                    .map(|count| self.operands.narrow(count, Type::U32))
                    .transpose()?;
                Ok((id, count))
            };
        let wrong = || DecodeFault::OperandCount {
            expected: "as many as the barrier takes",
            found: operands.len(),
        };
        let (op, (id, count)) = match (kind, operands) {
            ("sync", [id]) => (BarrierOp::Sync, id_and_count(id, None)?),
            ("sync", [id, count]) => (BarrierOp::Sync, id_and_count(id, Some(count))?),
            ("arrive", [id, count]) => (BarrierOp::Arrive, id_and_count(id, Some(count))?),
            ("red", [to, id, rest @ .., predicate]) if rest.len() <= 1 => {
                let places = id_and_count(id, rest.first())?;
                let (p, negate) = self.operands.predicate(predicate)?;
                let name = m
                    .pick(|name| ["popc", "and", "or"].into_iter().find(|op| *op == name))
                    .ok_or_else(unknown)?;
                m.ty()?;
                let op = match name {
                    "popc" => BarrierOp::Popc(self.operands.narrow_target(to)?, p, negate),
                    "and" => BarrierOp::And(self.operands.predicate_target(to)?, p, negate),
                    _ => BarrierOp::Or(self.operands.predicate_target(to)?, p, negate),
                };
                (op, places)
            }
            _ => return Err(wrong()),
        };
        self.kernel.tables.barriers.push(Barrier {
            op,
            id,
            count,
            aligned,
        });
        self.emit(Inst::Barrier(self.kernel.tables.barriers.len() as u32 - 1));
        Ok(())
    }

    /// With clusters of one block, the cluster's barrier is one more barrier of the block, in two halves.
    fn cluster_barrier(&mut self, m: &mut Modifiers<'m>) -> Result<()> {
        m.flag("acquire");
        m.flag("release");
        m.flag("relaxed");
        m.flag("aligned");
        if m.flag("arrive") {
            self.emit(Inst::ClusterArrive);
        } else if m.flag("wait") {
            self.emit(Inst::ClusterWait);
        } else {
            return Err(unknown());
        }
        Ok(())
    }
}
