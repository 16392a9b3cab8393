//! From the syntax tree to dense instructions.
//!
//! Each kernel is decoded with the functions that it reaches. Every function has registers and local memory of its own, so calls need no
//! frames, and recursion is refused. Parameters and results of calls go through two areas of local memory that all functions share.

mod asynchronous;
mod bits;
mod bulk;
mod call;
mod control;
mod convert;
mod float;
mod integer;
pub(crate) mod link;
mod memory;
mod modifiers;
mod moves;
mod operand;
mod tensor;
mod warp;

use modifiers::Modifiers;

use super::inst::{Inst, P, Step, TRUE};
use super::{DecodeFault, Kernel, NOT_COUNTED, Origin};
use crate::ast::{Function, Instruction, Location, Module, Operand, Variable};
use operand::Operands;

/// A module, decoded.
pub(super) struct Decoded {
    pub(super) kernels: Vec<Kernel>,
    pub(super) globals: Vec<Variable>,
    pub(super) constants: Vec<u8>,
}

type Result<T> = std::result::Result<T, DecodeFault>;

/// Decodes all kernels of a module.
pub(super) fn decode(module: &Module) -> std::result::Result<Decoded, (Location, DecodeFault)> {
    link::module(module)
}

/// Decodes the instructions of one function after the other into a kernel.
struct Decoder<'m> {
    kernel: Kernel,
    operands: Operands<'m>,
    /// Guard of the current instruction.
    guard: (P, u32),
    location: Location,
    /// Kind of the current instruction, until its first step is emitted.
    kind: u32,
    kind_index: std::collections::HashMap<String, u32>,
    /// The function that is decoded now.
    function: Option<(&'m Function, call::Areas)>,
}

impl<'m> Decoder<'m> {
    fn emit(&mut self, inst: Inst) {
        let kind = std::mem::replace(&mut self.kind, NOT_COUNTED);
        self.kernel.steps.push(Step {
            inst,
            guard: self.guard.0,
            negate: self.guard.1,
        });
        self.kernel.origins.push(Origin {
            location: self.location,
            kind,
        });
    }

    fn instruction(&mut self, instruction: &'m Instruction) -> Result<()> {
        self.location = instruction.location;
        self.guard = match instruction.guard {
            Some((register, negated)) => (
                self.operands.predicate_register(register)?,
                if negated { u32::MAX } else { 0 },
            ),
            None => (TRUE, 0),
        };
        let mut name = instruction.opcode.clone();
        for modifier in &instruction.modifiers {
            name.push('.');
            name.push_str(modifier);
        }
        let next = self.kernel.kinds.len() as u32;
        self.kind = *self.kind_index.entry(name.clone()).or_insert_with(|| {
            self.kernel.kinds.push(name.clone());
            next
        });
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let operands = instruction.operands.as_slice();
        self.dispatch(&instruction.opcode, &mut modifiers, operands, instruction)
            .map_err(|fault| match fault {
                // What the families below do not know at all is named in full.
                DecodeFault::Instruction { .. } => DecodeFault::Instruction { name },
                fault => fault,
            })?;
        modifiers.finish()
    }

    fn dispatch(
        &mut self,
        opcode: &str,
        m: &mut Modifiers<'m>,
        ops: &'m [Operand],
        instruction: &'m Instruction,
    ) -> Result<()> {
        match opcode {
            "add" | "sub" | "mul" | "mad" | "fma" | "div" | "rem" | "abs" | "neg" | "min"
            | "max" | "addc" | "subc" | "madc" | "mul24" | "mad24" | "sad" | "dp4a" | "dp2a" => {
                self.arithmetic(opcode, m, ops)
            }
            "rcp" | "sqrt" | "rsqrt" | "sin" | "cos" | "ex2" | "lg2" | "tanh" | "copysign"
            | "testp" => self.float_function(opcode, m, ops),
            "popc" | "clz" | "bfind" | "fns" | "brev" | "bfe" | "bfi" | "bmsk" | "szext"
            | "and" | "or" | "xor" | "not" | "cnot" | "shl" | "shr" | "shf" | "prmt" | "lop3" => {
                self.bits(opcode, m, ops)
            }
            "set" | "setp" | "selp" | "slct" => self.comparison(opcode, m, ops),
            "mov" => self.mov(m, ops),
            "cvt" => self.cvt(m, ops),
            "cvta" | "isspacep" | "mapa" | "getctarank" => self.address_conversion(opcode, m, ops),
            "ld" | "ldu" | "st" => self.access(opcode, m, ops),
            "atom" | "red" => self.atomic(opcode, m, ops),
            "prefetch" | "prefetchu" | "applypriority" | "discard" | "createpolicy" => {
                self.cache_hint(opcode, m, ops)
            }
            "membar" | "fence" => self.fence(opcode, m, ops),
            "bra" | "brx" | "exit" | "trap" | "brkpt" | "nanosleep" | "pmevent"
            | "griddepcontrol" | "setmaxnreg" => self.control(opcode, m, ops),
            "ret" => self.ret(m),
            "call" => self.call(m, ops),
            "shfl" | "vote" | "match" | "redux" | "activemask" | "elect" => {
                self.warp_exchange(opcode, m, ops)
            }
            "bar" | "barrier" => self.barrier(opcode, m, ops),
            "mma" | "ldmatrix" | "stmatrix" | "movmatrix" | "wgmma" => {
                self.tensor(opcode, m, ops, instruction)
            }
            "cp" | "mbarrier" => self.asynchronous(opcode, m, ops, instruction),
            _ => Err(unknown()),
        }
    }
}

/// An instruction that is not known; the caller puts in its name.
fn unknown() -> DecodeFault {
    DecodeFault::Instruction {
        name: String::new(),
    }
}

fn expected(expected: &'static str, found: impl Into<String>) -> DecodeFault {
    DecodeFault::Expected {
        expected,
        found: found.into(),
    }
}
