//! Calls: parameters and results pass through two areas of local memory.

use super::modifiers::{Modifiers, bytes};
use super::operand::{Symbol, describe};
use super::{Decoder, Result, expected};
use crate::ast::{Function, Operand, Param, Register, RegisterId, Space, Type};
use crate::program::DecodeFault;
use crate::program::inst::{Access, Address, Inst, Slot};

/// Where in local memory parameters and results pass.
#[derive(Clone, Copy)]
pub(super) struct Areas {
    params: u64,
    returns: u64,
    pub(super) end: u64,
}

/// Parameters with the offsets at which they pass.
pub(super) fn fields(params: &[Param]) -> impl Iterator<Item = (&Param, u64)> {
    params.iter().scan(0u64, |end, param| {
        let at = end.next_multiple_of(param.align.max(1));
        *end = at + param.size;
        Some((param, at))
    })
}

fn size(params: &[Param]) -> u64 {
    fields(params)
        .last()
        .map_or(0, |(param, at)| at + param.size)
}

impl Areas {
    /// Areas large enough for all of these functions.
    pub(super) fn new<'m>(functions: &(impl Iterator<Item = &'m Function> + Clone)) -> Self {
        let largest = |of: fn(&Function) -> &[Param]| {
            functions
                .clone()
                .filter(|f| !f.is_entry)
                .map(|f| size(of(f)))
                .max()
                .unwrap_or(0)
        };
        let params = largest(|function| &function.params).next_multiple_of(16);
        let returns = largest(|function| &function.returns).next_multiple_of(16);
        Self {
            params: 0,
            returns: params,
            end: params + returns,
        }
    }
}

/// A value that passes: its type, and what the caller or the callee holds it in.
enum Holder {
    Local(u64),
    Register(Slot),
}

impl<'m> Decoder<'m> {
    /// A callee takes its parameters from the area.
    pub(super) fn receive_params(&mut self, function: &'m Function, areas: &Areas) -> Result<()> {
        for (param, offset) in fields(&function.params) {
            let holder = self.formal(function, param)?;
            self.pass(&holder, param, areas.params + offset, Direction::FromArea);
        }
        Ok(())
    }

    /// A function that devices bring along: a failed assertion traps, and nothing is printed.
    pub(super) fn external(&mut self, function: &'m Function, areas: &Areas) -> Result<()> {
        match function.name.as_str() {
            "__assertfail" => self.emit(Inst::Trap),
            "vprintf" => {
                for (param, offset) in fields(&function.returns) {
                    let zero = Holder::Register(Slot::Narrow(self.operands.constant32(0)));
                    self.pass(&zero, param, areas.returns + offset, Direction::ToArea);
                }
                self.emit(Inst::Return);
            }
            name => {
                return Err(DecodeFault::Symbol {
                    name: name.to_owned(),
                });
            }
        }
        Ok(())
    }

    pub(super) fn ret(&mut self, m: &mut Modifiers<'m>) -> Result<()> {
        m.flag("uni");
        self.emit_return()
    }

    /// Leaves the results in their area and returns; a kernel exits.
    pub(super) fn emit_return(&mut self) -> Result<()> {
        let Some((function, areas)) = self.function else {
            return Ok(());
        };
        if function.is_entry {
            self.emit(Inst::Exit);
            return Ok(());
        }
        for (param, offset) in fields(&function.returns) {
            let holder = self.formal(function, param)?;
            self.pass(&holder, param, areas.returns + offset, Direction::ToArea);
        }
        self.emit(Inst::Return);
        Ok(())
    }

    fn formal(&mut self, function: &'m Function, param: &'m Param) -> Result<Holder> {
        if param.is_register {
            let named = |register: &Register| register.name == param.name;
            let index =
                function
                    .registers
                    .iter()
                    .position(named)
                    .ok_or_else(|| DecodeFault::Symbol {
                        name: param.name.clone(),
                    })?;
            return self
                .operands
                .slot_target(&Operand::Register(RegisterId(index as u32)))
                .map(Holder::Register);
        }
        match self.operands.symbol(&param.name)? {
            Symbol::At(_, at) => Ok(Holder::Local(at)),
            Symbol::Global(_) | Symbol::Function(_) => {
                Err(expected("a parameter", param.name.clone()))
            }
        }
    }

    fn pass(&mut self, holder: &Holder, param: &Param, area: u64, direction: Direction) {
        let inst = match (holder, direction) {
            (Holder::Local(at), Direction::FromArea) => {
                Inst::CopyLocal(*at as u32, area as u32, param.size as u32)
            }
            (Holder::Local(at), Direction::ToArea) => {
                Inst::CopyLocal(area as u32, *at as u32, param.size as u32)
            }
            (Holder::Register(slot), direction) => {
                let register = *slot;
                let base = Slot::Wide(self.operands.constant64(area));
                self.kernel.tables.accesses.push(Access {
                    space: Space::Local,
                    size: bytes(param.ty),
                    signed: matches!(param.ty, Type::S8 | Type::S16 | Type::S32),
                    strong: false,
                    address: Address { base, offset: 0 },
                    registers: vec![register],
                });
                let index = self.kernel.tables.accesses.len() as u32 - 1;
                match direction {
                    Direction::FromArea => Inst::Load(index),
                    Direction::ToArea => Inst::Store(index),
                }
            }
        };
        self.emit(inst);
    }

    /// `call (results), function, (arguments), prototype;`, where all but the function may be missing.
    pub(super) fn call(&mut self, m: &mut Modifiers<'m>, operands: &'m [Operand]) -> Result<()> {
        m.flag("uni");
        let (results, rest) = match operands {
            [Operand::List(results), rest @ ..] => (results.as_slice(), rest),
            rest => (&[][..], rest),
        };
        let [target, rest @ ..] = rest else {
            return Err(DecodeFault::OperandCount {
                expected: "1 or more",
                found: operands.len(),
            });
        };
        let (arguments, rest) = match rest {
            [Operand::List(arguments), rest @ ..] => (arguments.as_slice(), rest),
            rest => (&[][..], rest),
        };
        if let Some(other) = rest.iter().find(|operand| {
            !matches!(
                operand,
                Operand::Prototype(_) | Operand::Labels(_) | Operand::Symbol(_)
            )
        }) {
            return Err(expected("a prototype", describe(other)));
        }
        let areas = self
            .function
            .map(|(_, areas)| areas)
            .expect("calls stand in functions");
        self.pass_list(arguments, areas.params, Direction::ToArea)?;
        match target {
            // Reported where it is called, which says more than where it is declared.
            Operand::Symbol(name) if name == "__assertfail" => self.emit(Inst::Trap),
            Operand::Symbol(name) => match self.operands.symbol(name)? {
                Symbol::Function(index) => self.emit(Inst::Call(index as u32)),
                Symbol::At(..) | Symbol::Global(_) => {
                    return Err(expected("a function", name.clone()));
                }
            },
            Operand::Register(_) => {
                let register = self.operands.wide(target, Type::U64)?;
                self.emit(Inst::CallIndirect(register));
            }
            other => return Err(expected("a function", describe(other))),
        }
        self.pass_list(results, areas.returns, Direction::FromArea)
    }

    fn pass_list(&mut self, list: &'m [Operand], area: u64, direction: Direction) -> Result<()> {
        let (function, _) = self.function.expect("calls stand in functions");
        let mut end = 0u64;
        for operand in list {
            let (holder, align, size, ty) = match operand {
                Operand::Symbol(name) => {
                    let Symbol::At(Space::Local, at) = self.operands.symbol(name)? else {
                        return Err(expected("a parameter of a call", name.clone()));
                    };
                    let declared = function
                        .variables
                        .iter()
                        .find(|variable| variable.name == *name);
                    let formal = function
                        .params
                        .iter()
                        .chain(&function.returns)
                        .find(|param| param.name == *name);
                    let (align, size) = declared
                        .map(|variable| (variable.align, variable.size))
                        .or_else(|| formal.map(|param| (param.align, param.size)))
                        .ok_or_else(|| DecodeFault::Symbol { name: name.clone() })?;
                    (Holder::Local(at), align, size, Type::B8)
                }
                Operand::Register(id) => {
                    let ty = function.registers[id.0 as usize].ty;
                    (
                        Holder::Register(self.operands.slot_target(operand)?),
                        bytes(ty).into(),
                        bytes(ty).into(),
                        ty,
                    )
                }
                Operand::Sink => {
                    return Err(expected("a parameter of a call", "_"));
                }
                other => {
                    let constant = self.operands.slot(other, Type::B32)?;
                    (Holder::Register(constant), 4, 4, Type::B32)
                }
            };
            let at = end.next_multiple_of(align.max(1));
            end = at + size;
            let param = Param {
                name: String::new(),
                ty,
                align,
                size,
                offset: 0,
                is_register: false,
            };
            self.pass(&holder, &param, area + at, direction);
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Direction {
    ToArea,
    FromArea,
}
