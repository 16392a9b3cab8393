//! Operands: registers get indices, and constants, special registers and addresses become registers of their own.

use std::collections::HashMap;

use super::modifiers::bytes;
use super::{Result, expected};
use crate::ast::{Function, Operand, RegisterId, Space, Type};
use crate::program::inst::{Address, D, FALSE, FIRST_PREDICATE, P, R, SINK, Slot, TRUE};
use crate::program::{DecodeFault, Special};

/// Where an AST register lives.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Narrow(R),
    Wide(D),
    Predicate(P),
    /// 128 bits, which nothing can use.
    Unusable,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Symbol {
    /// An offset in a space.
    At(Space, u64),
    /// Index of a global variable.
    Global(usize),
    /// Index of a function of the module.
    Function(usize),
}

/// All registers of a kernel.
#[derive(Default)]
pub(super) struct Operands<'m> {
    pub(super) n32: u32,
    pub(super) n64: u32,
    pub(super) n_predicates: u32,
    /// Registers of the function that is decoded now.
    places: Vec<Place>,
    /// Names of the function that is decoded now, and of the module.
    pub(super) local_symbols: HashMap<&'m str, Symbol>,
    pub(super) symbols: HashMap<&'m str, Symbol>,
    pub(super) constants32: Vec<(R, u32)>,
    pub(super) constants64: Vec<(D, u64)>,
    known32: HashMap<u32, R>,
    known64: HashMap<u64, D>,
    pub(super) specials32: Vec<(R, Special)>,
    pub(super) specials64: Vec<(D, Special)>,
    pub(super) global_addresses: Vec<(D, usize, i64)>,
    pub(super) function_addresses: Vec<(D, usize)>,
    sinks: Option<(R, D)>,
}

impl Operands<'_> {
    pub(super) fn new() -> Self {
        Self {
            n_predicates: FIRST_PREDICATE,
            ..Self::default()
        }
    }

    /// Gives the registers of a function their places.
    pub(super) fn enter(&mut self, function: &Function) {
        self.places = function
            .registers
            .iter()
            .map(|register| match register.ty {
                Type::Pred => Place::Predicate(self.new_predicate()),
                Type::B128 => Place::Unusable,
                ty if bytes(ty) == 8 => Place::Wide(self.new_wide()),
                _ => Place::Narrow(self.new_narrow()),
            })
            .collect();
    }

    pub(super) fn new_narrow(&mut self) -> R {
        self.n32 += 1;
        R(self.n32 - 1)
    }

    pub(super) fn new_wide(&mut self) -> D {
        self.n64 += 1;
        D(self.n64 - 1)
    }

    pub(super) fn new_predicate(&mut self) -> P {
        self.n_predicates += 1;
        P(self.n_predicates - 1)
    }

    fn sinks(&mut self) -> (R, D) {
        if let Some(sinks) = self.sinks {
            return sinks;
        }
        let sinks = (self.new_narrow(), self.new_wide());
        self.sinks = Some(sinks);
        sinks
    }

    pub(super) fn constant32(&mut self, value: u32) -> R {
        if let Some(&known) = self.known32.get(&value) {
            return known;
        }
        let register = self.new_narrow();
        self.constants32.push((register, value));
        self.known32.insert(value, register);
        register
    }

    pub(super) fn constant64(&mut self, value: u64) -> D {
        if let Some(&known) = self.known64.get(&value) {
            return known;
        }
        let register = self.new_wide();
        self.constants64.push((register, value));
        self.known64.insert(value, register);
        register
    }

    pub(super) fn place(&self, register: RegisterId) -> Place {
        self.places[register.0 as usize]
    }

    pub(super) fn predicate_register(&self, register: RegisterId) -> Result<P> {
        match self.place(register) {
            Place::Predicate(p) => Ok(p),
            Place::Narrow(_) | Place::Wide(_) | Place::Unusable => {
                Err(expected("a predicate", "another register"))
            }
        }
    }

    /// A predicate as a source, and whether it is negated.
    pub(super) fn predicate(&self, operand: &Operand) -> Result<(P, bool)> {
        match operand {
            Operand::Register(register) => Ok((self.predicate_register(*register)?, false)),
            Operand::Not(register) => Ok((self.predicate_register(*register)?, true)),
            Operand::Integer(0) => Ok((FALSE, false)),
            Operand::Integer(_) => Ok((TRUE, false)),
            Operand::Special(name) if name == "%is_explicit_cluster" => Ok((FALSE, false)),
            other => Err(expected("a predicate", describe(other))),
        }
    }

    pub(super) fn predicate_target(&self, operand: &Operand) -> Result<P> {
        match operand {
            Operand::Register(register) => self.predicate_register(*register),
            Operand::Sink => Ok(SINK),
            other => Err(expected("a predicate", describe(other))),
        }
    }

    /// A destination in the 32-bit file.
    pub(super) fn narrow_target(&mut self, operand: &Operand) -> Result<R> {
        match self.slot_target(operand)? {
            Slot::Narrow(r) => Ok(r),
            Slot::Sink => Ok(self.sinks().0),
            Slot::Wide(_) => Err(expected("a register of at most 32 bits", "one of 64 bits")),
        }
    }

    /// A destination in the 64-bit file.
    pub(super) fn wide_target(&mut self, operand: &Operand) -> Result<D> {
        match self.slot_target(operand)? {
            Slot::Wide(d) => Ok(d),
            Slot::Sink => Ok(self.sinks().1),
            Slot::Narrow(_) => Err(expected("a register of 64 bits", "a narrower one")),
        }
    }

    /// A destination of either file.
    pub(super) fn slot_target(&mut self, operand: &Operand) -> Result<Slot> {
        match operand {
            Operand::Register(register) => match self.place(*register) {
                Place::Narrow(r) => Ok(Slot::Narrow(r)),
                Place::Wide(d) => Ok(Slot::Wide(d)),
                Place::Predicate(_) => Err(expected("a register", "a predicate")),
                Place::Unusable => {
                    Err(expected("a register of at most 64 bits", "one of 128 bits"))
                }
            },
            Operand::Sink => Ok(Slot::Sink),
            other => Err(expected("a register to write", describe(other))),
        }
    }

    /// A source in the 32-bit file.
    pub(super) fn narrow(&mut self, operand: &Operand, ty: Type) -> Result<R> {
        match operand {
            Operand::Register(register) => match self.place(*register) {
                Place::Narrow(r) => Ok(r),
                Place::Wide(_) => Err(expected(
                    "an operand of at most 32 bits",
                    "a register of 64 bits",
                )),
                Place::Predicate(_) => {
                    Err(expected("an operand of at most 32 bits", "a predicate"))
                }
                Place::Unusable => {
                    Err(expected("an operand of at most 32 bits", "one of 128 bits"))
                }
            },
            Operand::Special(name) => self.special32(name),
            Operand::Symbol(name) => self.symbol32(name, 0),
            Operand::SymbolOffset(name, offset) => self.symbol32(name, *offset),
            other => {
                let bits = literal(other, ty)?;
                Ok(self.constant32(bits as u32))
            }
        }
    }

    /// A source in the 64-bit file.
    pub(super) fn wide(&mut self, operand: &Operand, ty: Type) -> Result<D> {
        match operand {
            Operand::Register(register) => match self.place(*register) {
                Place::Wide(d) => Ok(d),
                Place::Narrow(_) => Err(expected("an operand of 64 bits", "a narrower register")),
                Place::Predicate(_) => Err(expected("an operand of 64 bits", "a predicate")),
                Place::Unusable => Err(expected("an operand of 64 bits", "one of 128 bits")),
            },
            Operand::Special(name) => self.special64(name),
            Operand::Symbol(name) => self.symbol64(name, 0),
            Operand::SymbolOffset(name, offset) => self.symbol64(name, *offset),
            other => {
                let bits = literal(other, ty)?;
                Ok(self.constant64(bits))
            }
        }
    }

    /// A source of either file: registers as they are, constants as `ty` says.
    pub(super) fn slot(&mut self, operand: &Operand, ty: Type) -> Result<Slot> {
        if let Operand::Register(_) | Operand::Sink = operand {
            return self.slot_target(operand);
        }
        if bytes(ty) == 8 {
            self.wide(operand, ty).map(Slot::Wide)
        } else {
            self.narrow(operand, ty).map(Slot::Narrow)
        }
    }

    pub(super) fn symbol(&self, name: &str) -> Result<Symbol> {
        let found = self
            .local_symbols
            .get(name)
            .or_else(|| self.symbols.get(name));
        found.copied().ok_or_else(|| DecodeFault::Symbol {
            name: name.to_owned(),
        })
    }

    fn symbol32(&mut self, name: &str, offset: i64) -> Result<R> {
        match self.symbol(name)? {
            Symbol::At(_, at) => Ok(self.constant32((at as i64 + offset) as u32)),
            Symbol::Global(_) | Symbol::Function(_) => Err(expected("an address of 32 bits", name)),
        }
    }

    fn symbol64(&mut self, name: &str, offset: i64) -> Result<D> {
        match self.symbol(name)? {
            Symbol::At(_, at) => Ok(self.constant64((at as i64 + offset) as u64)),
            Symbol::Global(index) => {
                if let Some((known, ..)) = self
                    .global_addresses
                    .iter()
                    .find(|known| (known.1, known.2) == (index, offset))
                {
                    return Ok(*known);
                }
                let register = self.new_wide();
                self.global_addresses.push((register, index, offset));
                Ok(register)
            }
            Symbol::Function(index) => {
                if let Some((known, _)) = self
                    .function_addresses
                    .iter()
                    .find(|known| known.1 == index)
                {
                    return Ok(*known);
                }
                let register = self.new_wide();
                self.function_addresses.push((register, index));
                Ok(register)
            }
        }
    }

    fn special32(&mut self, name: &str) -> Result<R> {
        let special = special_named(name).ok_or_else(|| DecodeFault::Special {
            name: name.to_owned(),
        })?;
        if let Some((known, _)) = self.specials32.iter().find(|known| known.1 == special) {
            return Ok(*known);
        }
        let register = self.new_narrow();
        self.specials32.push((register, special));
        Ok(register)
    }

    fn special64(&mut self, name: &str) -> Result<D> {
        let special = special_named(name).ok_or_else(|| DecodeFault::Special {
            name: name.to_owned(),
        })?;
        if let Some((known, _)) = self.specials64.iter().find(|known| known.1 == special) {
            return Ok(*known);
        }
        let register = self.new_wide();
        self.specials64.push((register, special));
        Ok(register)
    }

    /// `[base+offset]`, without coordinates.
    pub(super) fn address(&mut self, operand: &Operand) -> Result<Address> {
        let Operand::Address {
            base,
            offset,
            coordinates,
        } = operand
        else {
            return Err(expected("an address", describe(operand)));
        };
        if !coordinates.is_empty() {
            return Err(expected("a plain address", "coordinates"));
        }
        self.based(base, *offset)
    }

    /// An address from its base and offset.
    pub(super) fn based(&mut self, base: &Operand, offset: i64) -> Result<Address> {
        let base = match base {
            Operand::Register(_) => self.slot_target(base)?,
            _ => Slot::Wide(self.wide(base, Type::U64)?),
        };
        Ok(Address { base, offset })
    }
}

/// A literal, as bits of a type.
fn literal(operand: &Operand, ty: Type) -> Result<u64> {
    let masked = |bits: u64| {
        if bytes(ty) < 8 {
            bits & (u64::MAX >> (64 - 8 * bytes(ty)))
        } else {
            bits
        }
    };
    match (operand, ty) {
        (Operand::Integer(value), _) => Ok(masked(*value as u64)),
        (Operand::F32(bits), Type::F64) => Ok(f64::from(f32::from_bits(*bits)).to_bits()),
        (Operand::F32(bits), _) if bytes(ty) >= 4 => Ok(u64::from(*bits)),
        (Operand::F64(bits), Type::F32) => Ok(u64::from((f64::from_bits(*bits) as f32).to_bits())),
        (Operand::F64(bits), _) if bytes(ty) == 8 => Ok(*bits),
        (other, _) => Err(expected("an operand of that type", describe(other))),
    }
}

/// An operand, for messages.
pub(super) fn describe(operand: &Operand) -> String {
    match operand {
        Operand::Register(_) => "a register".to_owned(),
        Operand::Not(_) => "a negated predicate".to_owned(),
        Operand::Sink => "_".to_owned(),
        Operand::Integer(value) => value.to_string(),
        Operand::F32(bits) => f32::from_bits(*bits).to_string(),
        Operand::F64(bits) => f64::from_bits(*bits).to_string(),
        Operand::Special(name)
        | Operand::Symbol(name)
        | Operand::SymbolOffset(name, _)
        | Operand::Prototype(name) => name.clone(),
        Operand::Address { .. } => "an address".to_owned(),
        Operand::Vector(items) => format!("a vector of {}", items.len()),
        Operand::List(items) => format!("a list of {}", items.len()),
        Operand::Pair(..) => "a pair".to_owned(),
        Operand::Label(_) | Operand::Labels(_) => "a label".to_owned(),
    }
}

fn special_named(name: &str) -> Option<Special> {
    let axis = |axis: &str| ["x", "y", "z"].iter().position(|name| *name == axis);
    if let Some((register, component)) = name.split_once('.') {
        let axis = axis(component)?;
        return Some(match register {
            "%tid" => Special::Tid(axis),
            "%ntid" => Special::Ntid(axis),
            "%ctaid" => Special::Ctaid(axis),
            "%nctaid" => Special::Nctaid(axis),
            "%clusterid" => Special::ClusterId(axis),
            "%nclusterid" => Special::NClusterId(axis),
            "%cluster_ctaid" => Special::ClusterCtaid(axis),
            "%cluster_nctaid" => Special::ClusterNctaid(axis),
            _ => return None,
        });
    }
    Some(match name {
        "%laneid" => Special::LaneId,
        "%warpid" => Special::WarpId,
        "%nwarpid" => Special::NWarpId,
        "%lanemask_eq" => Special::LaneMaskEq,
        "%lanemask_le" => Special::LaneMaskLe,
        "%lanemask_lt" => Special::LaneMaskLt,
        "%lanemask_ge" => Special::LaneMaskGe,
        "%lanemask_gt" => Special::LaneMaskGt,
        "%smid" => Special::SmId,
        "%nsmid" => Special::NSmId,
        "%gridid" => Special::GridId,
        "%dynamic_smem_size" => Special::DynamicSharedSize,
        "%total_smem_size" | "%aggr_smem_size" => Special::TotalSharedSize,
        "%reserved_smem_offset_begin"
        | "%reserved_smem_offset_end"
        | "%reserved_smem_offset_cap" => Special::Zero,
        "%cluster_ctarank" => Special::ClusterRank,
        "%cluster_nctarank" => Special::ClusterSize,
        _ if name.starts_with("%envreg") || name.starts_with("%reserved_smem_offset_") => {
            Special::Zero
        }
        _ => return None,
    })
}
