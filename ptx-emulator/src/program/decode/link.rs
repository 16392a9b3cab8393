//! Which functions and variables a kernel reaches, and where they lie in memory.

use std::collections::{BTreeSet, HashMap};

use super::call::{Areas, fields};
use super::operand::{Operands, Symbol};
use super::{Decoded, Decoder, Result};
use crate::ast::{Function, Instruction, Location, Module, Operand, Space, Variable};
use crate::program::inst::{Inst, TRUE};
use crate::program::{DecodeFault, Kernel, NOT_COUNTED};

/// Where addresses of functions begin, which only indirect calls read.
pub(crate) const FUNCTION_BASE: u64 = 0x0500_0000_0000;

type Located<T> = std::result::Result<T, (Location, DecodeFault)>;

pub(super) fn module(module: &Module) -> Located<Decoded> {
    let of_space = |space: Space| {
        module
            .variables
            .iter()
            .filter(move |variable| variable.space == space)
    };
    let globals: Vec<Variable> = of_space(Space::Global).cloned().collect();
    let mut constants = Vec::new();
    let mut symbols: HashMap<&str, Symbol> = HashMap::new();
    for variable in of_space(Space::Const) {
        let at = (constants.len() as u64).next_multiple_of(variable.align.max(1));
        symbols.insert(&variable.name, Symbol::At(Space::Const, at));
        constants.resize(at as usize, 0);
        constants.extend_from_slice(&variable.init);
        constants.resize((at + variable.size) as usize, 0);
    }
    for (index, variable) in globals.iter().enumerate() {
        symbols.insert(&variable.name, Symbol::Global(index));
    }
    for (index, function) in module.functions.iter().enumerate() {
        symbols.insert(&function.name, Symbol::Function(index));
    }
    let kernels = (0..module.functions.len())
        .filter(|&index| module.functions[index].is_entry)
        .map(|index| kernel(module, index, symbols.clone()))
        .collect::<Located<_>>()?;
    Ok(Decoded {
        kernels,
        globals,
        constants,
    })
}

/// What a function names.
fn names(function: &Function) -> BTreeSet<&str> {
    fn visit<'m>(operand: &'m Operand, names: &mut BTreeSet<&'m str>) {
        match operand {
            Operand::Symbol(name) | Operand::SymbolOffset(name, _) => {
                names.insert(name);
            }
            Operand::Address {
                base, coordinates, ..
            } => {
                visit(base, names);
                for operand in coordinates {
                    visit(operand, names);
                }
            }
            Operand::Vector(items) | Operand::List(items) => {
                for operand in items {
                    visit(operand, names);
                }
            }
            Operand::Pair(a, b) => {
                visit(a, names);
                visit(b, names);
            }
            Operand::Register(_)
            | Operand::Not(_)
            | Operand::Sink
            | Operand::Integer(_)
            | Operand::F32(_)
            | Operand::F64(_)
            | Operand::Special(_)
            | Operand::Label(_)
            | Operand::Labels(_)
            | Operand::Prototype(_) => {}
        }
    }
    let mut out = BTreeSet::new();
    function
        .body
        .iter()
        .flat_map(|instruction| &instruction.operands)
        .for_each(|operand| visit(operand, &mut out));
    out
}

/// The functions that a kernel reaches, itself first; recursion is a fault.
fn reachable(module: &Module, entry: usize) -> Located<Vec<usize>> {
    fn visit(
        module: &Module,
        index: usize,
        path: &mut Vec<usize>,
        done: &mut Vec<usize>,
    ) -> Located<()> {
        let function = &module.functions[index];
        if path.contains(&index) {
            return Err((
                function.location,
                DecodeFault::Recursion {
                    name: function.name.clone(),
                },
            ));
        }
        if done.contains(&index) {
            return Ok(());
        }
        path.push(index);
        done.push(index);
        let named = names(function);
        for (callee, other) in module.functions.iter().enumerate() {
            if !other.is_entry && named.contains(other.name.as_str()) {
                visit(module, callee, path, done)?;
            }
        }
        path.pop();
        Ok(())
    }
    let mut done = Vec::new();
    visit(module, entry, &mut Vec::new(), &mut done)?;
    Ok(done)
}

/// Gives the shared variables that functions name their places: static ones first, then all dynamic ones at one address.
fn place_shared<'m>(
    module: &'m Module,
    functions: &[usize],
    kernel: &mut Kernel,
    symbols: &mut HashMap<&'m str, Symbol>,
) {
    let named: BTreeSet<&str> = functions
        .iter()
        .flat_map(|&index| names(&module.functions[index]))
        .collect();
    let shared = || {
        module.variables.iter().filter(|variable| {
            variable.space == Space::Shared && named.contains(variable.name.as_str())
        })
    };
    let mut end = 0u64;
    for variable in shared().filter(|variable| variable.size > 0) {
        let at = end.next_multiple_of(variable.align.max(1));
        symbols.insert(&variable.name, Symbol::At(Space::Shared, at));
        kernel
            .shared_variables
            .push((variable.name.clone(), at as u32, variable.size as u32));
        end = at + variable.size;
    }
    let align = shared()
        .filter(|variable| variable.size == 0)
        .map(|variable| variable.align)
        .max()
        .unwrap_or(16)
        .max(16);
    end = end.next_multiple_of(align);
    for variable in shared().filter(|variable| variable.size == 0) {
        symbols.insert(&variable.name, Symbol::At(Space::Shared, end));
    }
    kernel.static_shared = end as u32;
}

fn kernel<'m>(
    module: &'m Module,
    entry: usize,
    mut symbols: HashMap<&'m str, Symbol>,
) -> Located<Kernel> {
    let function = &module.functions[entry];
    let functions = reachable(module, entry)?;
    let mut kernel = Kernel {
        name: function.name.clone(),
        max_threads: function.max_threads,
        cluster: function.cluster,
        param_bytes: function
            .params
            .iter()
            .map(|param| param.offset + param.size)
            .max()
            .unwrap_or(0) as u32,
        ..Kernel::default()
    };
    place_shared(module, &functions, &mut kernel, &mut symbols);
    let areas = Areas::new(&functions.iter().map(|&index| &module.functions[index]));
    kernel.local_bytes = areas.end as u32;
    let mut operands = Operands::new();
    operands.symbols = symbols;
    let mut decoder = Decoder {
        kernel,
        operands,
        guard: (TRUE, 0),
        location: function.location,
        kind: NOT_COUNTED,
        kind_index: HashMap::new(),
        function: None,
    };
    let mut starts: HashMap<usize, u32> = HashMap::new();
    for &index in &functions {
        starts.insert(index, decoder.kernel.steps.len() as u32);
        decoder.function(&module.functions[index], &areas)?;
    }
    decoder
        .finish(&starts)
        .map_err(|fault| (function.location, fault))
}

impl<'m> Decoder<'m> {
    fn function(&mut self, function: &'m Function, areas: &Areas) -> Located<()> {
        self.operands.enter(function);
        self.place_variables(function);
        self.location = function.location;
        self.guard = (TRUE, 0);
        self.kind = NOT_COUNTED;
        self.function = Some((function, *areas));
        if function.body.is_empty() && !function.is_entry {
            return self
                .external(function, areas)
                .map_err(|fault| (function.location, fault));
        }
        if !function.is_entry {
            self.receive_params(function, areas)
                .map_err(|fault| (function.location, fault))?;
        }
        let first = self.kernel.steps.len();
        let first_table = self.kernel.tables.jumps.len();
        let mut starts = Vec::with_capacity(function.body.len() + 1);
        for instruction in &function.body {
            starts.push(self.kernel.steps.len() as u32);
            self.instruction(instruction)
                .map_err(|fault| (instruction.location, fault))?;
        }
        starts.push(self.kernel.steps.len() as u32);
        self.location = function
            .body
            .last()
            .map_or(function.location, |last: &Instruction| last.location);
        self.guard = (TRUE, 0);
        self.kind = NOT_COUNTED;
        self.emit_return().map_err(|fault| (self.location, fault))?;
        for step in &mut self.kernel.steps[first..] {
            if let Inst::Branch(label) = &mut step.inst {
                *label = starts[*label as usize];
            }
        }
        for table in &mut self.kernel.tables.jumps[first_table..] {
            for label in table {
                *label = starts[*label as usize];
            }
        }
        Ok(())
    }

    /// Places what the function declares in local memory.
    fn place_variables(&mut self, function: &'m Function) {
        self.operands.local_symbols.clear();
        if function.is_entry {
            for param in &function.params {
                self.operands
                    .local_symbols
                    .insert(&param.name, Symbol::At(Space::Param, param.offset));
            }
        }
        let mut end = u64::from(self.kernel.local_bytes);
        let formal = if function.is_entry {
            Vec::new()
        } else {
            fields(&function.params)
                .chain(fields(&function.returns))
                .collect()
        };
        let formal = formal
            .into_iter()
            .filter(|(param, _)| !param.is_register)
            .map(|(param, _)| (&param.name, param.align, param.size));
        let declared = function
            .variables
            .iter()
            .map(|variable| (&variable.name, variable.align, variable.size));
        for (name, align, size) in formal.chain(declared) {
            let at = end.next_multiple_of(align.max(1));
            self.operands
                .local_symbols
                .insert(name, Symbol::At(Space::Local, at));
            end = at + size;
        }
        self.kernel.local_bytes = end.next_multiple_of(16) as u32;
    }

    fn finish(mut self, starts: &HashMap<usize, u32>) -> Result<Kernel> {
        let start = |index: &usize| {
            starts
                .get(index)
                .copied()
                .ok_or_else(|| DecodeFault::Symbol {
                    name: "a kernel, as a function".to_owned(),
                })
        };
        for step in &mut self.kernel.steps {
            if let Inst::Call(index) = &mut step.inst {
                *index = start(&(*index as usize))?;
            }
        }
        for (register, index) in &self.operands.function_addresses {
            self.operands
                .constants64
                .push((*register, FUNCTION_BASE + u64::from(start(index)?)));
        }
        let mut kernel = self.kernel;
        kernel.n32 = self.operands.n32.max(1);
        kernel.n64 = self.operands.n64.max(1);
        kernel.n_predicates = self.operands.n_predicates;
        kernel.constants32 = self.operands.constants32;
        kernel.constants64 = self.operands.constants64;
        kernel.specials32 = self.operands.specials32;
        kernel.specials64 = self.operands.specials64;
        kernel.global_addresses = self.operands.global_addresses;
        Ok(kernel)
    }
}
