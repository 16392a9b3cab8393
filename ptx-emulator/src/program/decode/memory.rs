//! Loads, stores, atomics and hints to caches.

use super::convert::space_named;
use super::integer::count;
use super::modifiers::{Modifiers, bytes};
use super::operand::{Symbol, describe};
use super::{Decoder, Result, expected, unknown};
use crate::ast::{Operand, Space, Type};
use crate::program::DecodeFault;
use crate::program::inst::{Access, Address, Atomic, AtomicOp, AtomicType, Inst, Slot};

/// Qualifiers that say nothing about values: cache operators, eviction, prefetching.
fn is_hint(name: &str) -> bool {
    matches!(
        name,
        "ca" | "cg"
            | "cs"
            | "lu"
            | "cv"
            | "wb"
            | "wt"
            | "nc"
            | "weak"
            | "unified"
            | "L2::cache_hint"
            | "mmio"
    ) || name.starts_with("L1::evict")
        || name.starts_with("L1::no_allocate")
        || name.starts_with("L2::evict")
        || name.starts_with("L2::64B")
        || name.starts_with("L2::128B")
        || name.starts_with("L2::256B")
}

/// Takes hints, and scopes that order nothing in a sequential memory; tells whether a strong access was asked for.
fn take_semantics(m: &mut Modifiers) -> bool {
    while m
        .pick(|name| {
            (is_hint(name) || matches!(name, "cta" | "cluster" | "gpu" | "sys")).then_some(())
        })
        .is_some()
    {}
    let mut strong = false;
    while m
        .pick(|name| {
            matches!(
                name,
                "volatile" | "relaxed" | "acquire" | "release" | "acq_rel"
            )
            .then_some(())
        })
        .is_some()
    {
        strong = true;
    }
    strong
}

impl<'m> Decoder<'m> {
    pub(super) fn access(
        &mut self,
        opcode: &str,
        m: &mut Modifiers<'m>,
        operands: &'m [Operand],
    ) -> Result<()> {
        let hinted = m.rest().contains(&"L2::cache_hint");
        let strong = take_semantics(m);
        let space = m.pick(space_named).unwrap_or(Space::Generic);
        let vector = m
            .pick(|name| {
                Some(match name {
                    "v2" => 2,
                    "v4" => 4,
                    "v8" => 8,
                    _ => return None,
                })
            })
            .unwrap_or(1);
        let ty = m.ty()?;
        count(operands, if hinted { 3 } else { 2 })?;
        let store = opcode == "st";
        let (address, value) = if store {
            (&operands[0], &operands[1])
        } else {
            (&operands[1], &operands[0])
        };
        let (space, address) = self.placed(space, address)?;
        let values = match (vector, value) {
            (1, Operand::Vector(items)) if items.len() == 1 => items.as_slice(),
            (1, value) => std::slice::from_ref(value),
            (n, Operand::Vector(items)) if items.len() == n => items.as_slice(),
            (_, other) => return Err(expected("a vector of the access's length", describe(other))),
        };
        let size = bytes(ty);
        if size == 16 || vector * size as usize > 32 || ty == Type::Pred {
            return Err(unknown());
        }
        let mut registers = Vec::with_capacity(values.len());
        for value in values {
            registers.push(if store {
                self.operands.slot(value, ty)?
            } else {
                self.operands.slot_target(value)?
            });
        }
        if registers
            .iter()
            .any(|slot| size == 8 && matches!(slot, Slot::Narrow(_)))
        {
            return Err(expected("registers of 64 bits", "narrower ones"));
        }
        let signed = matches!(ty, Type::S8 | Type::S16 | Type::S32);
        self.kernel.tables.accesses.push(Access {
            space,
            size,
            signed,
            strong,
            address,
            registers,
        });
        let index = self.kernel.tables.accesses.len() as u32 - 1;
        self.emit(if store {
            Inst::Store(index)
        } else {
            Inst::Load(index)
        });
        Ok(())
    }

    /// An address, with the space where it really is: parameters of device functions and of calls are in local memory.
    pub(super) fn placed(
        &mut self,
        space: Space,
        operand: &'m Operand,
    ) -> Result<(Space, Address)> {
        let Operand::Address { base, .. } = operand else {
            return Err(expected("an address", describe(operand)));
        };
        let named = match &**base {
            Operand::Symbol(name) | Operand::SymbolOffset(name, _) => {
                match self.operands.symbol(name)? {
                    Symbol::At(at, _) => Some(at),
                    Symbol::Global(_) => Some(Space::Global),
                    Symbol::Function(_) => None,
                }
            }
            _ => None,
        };
        let is_entry = self.function.is_some_and(|(function, _)| function.is_entry);
        let address = self.operands.address(operand)?;
        let space = match (space, named) {
            (Space::Param, Some(Space::Local)) => Space::Local,
            (Space::Param, None) if !is_entry => Space::Local,
            // A name where a generic address is asked for is taken for an address of its own space.
            (Space::Generic, Some(named)) => named,
            (space, Some(named))
                if space != named && !(space == Space::SharedCluster && named == Space::Shared) =>
            {
                return Err(expected(
                    "a name in the state space of the access",
                    describe(base),
                ));
            }
            (space, _) => space,
        };
        Ok((space, address))
    }

    pub(super) fn atomic(
        &mut self,
        opcode: &str,
        m: &mut Modifiers<'m>,
        operands: &'m [Operand],
    ) -> Result<()> {
        if m.flag("async") {
            return Err(unknown());
        }
        let returns = opcode == "atom";
        let hinted = m.rest().contains(&"L2::cache_hint");
        take_semantics(m);
        m.flag("noftz");
        let space = m.pick(space_named).unwrap_or(Space::Generic);
        let vector = m
            .pick(|name| {
                if name == "v2" {
                    Some(2)
                } else if name == "v4" {
                    Some(4)
                } else {
                    None
                }
            })
            .unwrap_or(1);
        let name = m.pick(|name| {
            [
                "and", "or", "xor", "exch", "cas", "add", "inc", "dec", "min", "max",
            ]
            .into_iter()
            .find(|known| *known == name)
        });
        let name = name.ok_or_else(unknown)?;
        let ty = m.ty()?;
        let (op, kind) = atomic_op(name, ty).ok_or_else(unknown)?;
        if vector > 1 && !matches!(op, AtomicOp::FAdd | AtomicOp::FMin | AtomicOp::FMax) {
            return Err(unknown());
        }
        let operands = if hinted {
            operands.split_last().map_or(operands, |(_, rest)| rest)
        } else {
            operands
        };
        count(
            operands,
            2 + usize::from(returns) + usize::from(op == AtomicOp::Cas),
        )?;
        let (to, rest) = if returns {
            (Some(&operands[0]), &operands[1..])
        } else {
            (None, operands)
        };
        let (space, address) = self.placed(space, &rest[0])?;
        if !matches!(
            space,
            Space::Generic | Space::Global | Space::Shared | Space::SharedCluster
        ) {
            return Err(expected("global or shared memory", "another state space"));
        }
        let items = |operand: &'m Operand| match operand {
            Operand::Vector(items) => items.as_slice(),
            operand => std::slice::from_ref(operand),
        };
        let mut registers = Vec::new();
        for operand in items(&rest[1]) {
            registers.push(self.operands.slot(operand, ty)?);
        }
        let mut destinations = Vec::new();
        for operand in to.map_or(&[][..], items) {
            destinations.push(self.operands.slot_target(operand)?);
        }
        if registers.len() != vector || (returns && destinations.len() != vector) {
            return Err(expected(
                "a vector of the access's length",
                describe(&rest[1]),
            ));
        }
        destinations.resize(vector, Slot::Sink);
        let swap = if op == AtomicOp::Cas {
            self.operands.slot(&rest[2], ty)?
        } else {
            Slot::Sink
        };
        let size = bytes(ty);
        self.kernel.tables.atomics.push(Atomic {
            op,
            ty: kind,
            space,
            size,
            address,
            to: destinations,
            operand: registers,
            swap,
        });
        self.emit(Inst::Atomic(self.kernel.tables.atomics.len() as u32 - 1));
        Ok(())
    }

    /// Hints, which change nothing here.
    pub(super) fn cache_hint(
        &mut self,
        opcode: &str,
        m: &mut Modifiers<'m>,
        operands: &'m [Operand],
    ) -> Result<()> {
        let names = m.take_rest();
        if opcode == "createpolicy" {
            let to = operands.first().ok_or(DecodeFault::OperandCount {
                expected: "1 or more",
                found: 0,
            })?;
            let to = self.operands.wide_target(to)?;
            let zero = self.operands.constant64(0);
            self.emit(Inst::Int64(
                crate::alu::int64::Int64::Mov,
                to,
                zero,
                zero,
                zero,
            ));
            return Ok(());
        }
        let known = |name: &&str| {
            matches!(
                *name,
                "global"
                    | "local"
                    | "const"
                    | "param"
                    | "L1"
                    | "L2"
                    | "tensormap"
                    | "uniform"
                    | "async"
            ) || is_hint(name)
        };
        if let Some(qualifier) = names.iter().find(|name| !known(name)) {
            return Err(DecodeFault::Qualifier {
                qualifier: (*qualifier).to_owned(),
            });
        }
        self.emit(Inst::Nop);
        Ok(())
    }
}

fn atomic_op(name: &str, ty: Type) -> Option<(AtomicOp, AtomicType)> {
    let float = match ty {
        Type::F16 => Some(AtomicType::F16),
        Type::F16x2 => Some(AtomicType::F16x2),
        Type::Bf16 => Some(AtomicType::Bf16),
        Type::Bf16x2 => Some(AtomicType::Bf16x2),
        Type::F32 => Some(AtomicType::F32),
        Type::F64 => Some(AtomicType::F64),
        _ => None,
    };
    if let Some(float) = float {
        let op = match name {
            "add" => AtomicOp::FAdd,
            "min" => AtomicOp::FMin,
            "max" => AtomicOp::FMax,
            _ => return None,
        };
        return Some((op, float));
    }
    let signed = matches!(ty, Type::S32 | Type::S64);
    let op = match (name, ty) {
        ("and", Type::B32 | Type::B64) => AtomicOp::And,
        ("or", Type::B32 | Type::B64) => AtomicOp::Or,
        ("xor", Type::B32 | Type::B64) => AtomicOp::Xor,
        ("exch", Type::B32 | Type::B64) => AtomicOp::Exch,
        ("cas", Type::B16 | Type::B32 | Type::B64) => AtomicOp::Cas,
        ("add", Type::U32 | Type::S32 | Type::U64 | Type::S64) => AtomicOp::Add,
        ("inc", Type::U32) => AtomicOp::Inc,
        ("dec", Type::U32) => AtomicOp::Dec,
        ("min", Type::U32 | Type::S32 | Type::U64 | Type::S64) => {
            if signed {
                AtomicOp::MinS
            } else {
                AtomicOp::MinU
            }
        }
        ("max", Type::U32 | Type::S32 | Type::U64 | Type::S64) => {
            if signed {
                AtomicOp::MaxS
            } else {
                AtomicOp::MaxU
            }
        }
        _ => return None,
    };
    Some((op, AtomicType::Bits))
}
