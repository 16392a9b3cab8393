//! Any text is a module whose indices are in range, or an error that points into the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptx_emulator::ast::{Function, Module, Operand, Space};
use ptx_emulator::parse::parse;

fn check_operand(function: &Function, operand: &Operand) {
    let all = |operands: &[Operand]| operands.iter().for_each(|it| check_operand(function, it));
    let label = |index: u32| assert!(index as usize <= function.body.len());
    match operand {
        Operand::Register(id) | Operand::Not(id) => {
            assert!((id.0 as usize) < function.registers.len());
        }
        Operand::Address {
            base, coordinates, ..
        } => {
            check_operand(function, base);
            all(coordinates);
        }
        Operand::Vector(operands) | Operand::List(operands) => all(operands),
        Operand::Pair(first, second) => {
            check_operand(function, first);
            check_operand(function, second);
        }
        Operand::Label(index) => label(*index),
        Operand::Labels(indices) => indices.iter().copied().for_each(label),
        Operand::Sink
        | Operand::Integer(_)
        | Operand::F32(_)
        | Operand::F64(_)
        | Operand::Special(_)
        | Operand::Symbol(_)
        | Operand::SymbolOffset(..)
        | Operand::Prototype(_) => {}
    }
}

fn check_module(module: &Module, n_lines: usize) {
    let mut names = std::collections::HashSet::new();
    let variables = module.functions.iter().flat_map(|it| &it.variables);
    for variable in module.variables.iter().chain(variables) {
        assert!(
            names.insert(&variable.name),
            "{} is there twice",
            variable.name
        );
        assert!(variable.init.len() as u64 <= variable.size);
        assert!(variable.align.is_power_of_two());
        assert_ne!(variable.space, Space::Generic);
    }
    for function in &module.functions {
        for instruction in &function.body {
            assert!((1..=n_lines).contains(&(instruction.location.line as usize)));
            assert!(instruction.location.file as usize <= module.files.len());
            let operands = instruction.operands.iter();
            operands.for_each(|it| check_operand(function, it));
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let n_lines = text.bytes().filter(|&byte| byte == b'\n').count() + 1;
    match parse(text) {
        Ok(module) => check_module(&module, n_lines),
        Err(error) => {
            assert!((1..=n_lines).contains(&(error.line as usize)));
            let line = text.split('\n').nth(error.line as usize - 1);
            assert!((error.column as usize) <= line.unwrap_or_default().chars().count() + 1);
            assert!(!error.to_string().is_empty());
        }
    }
});
