//! What names mean in a function body, and labels that are met before they are declared.

use std::collections::{BTreeMap, HashMap};

use super::cursor::Place;
use crate::ast::{Register, RegisterId, Type};

/// Most digits of the number of a register declared by a range.
const MAX_RANGE_DIGITS: usize = 7;

/// Registers declared together, `%r<12>`.
struct Range {
    ty: Type,
    count: u64,
    ids: HashMap<u64, RegisterId>,
}

/// What a name that is no label stands for.
enum Name {
    /// A register, and its number once it has been used.
    Register(Type, Option<RegisterId>),
    /// A variable, by its unique name.
    Variable(String),
}

/// What a name was found to be.
pub(super) enum Found {
    Register(RegisterId),
    Variable(String),
}

/// What a name before a colon stands for.
#[derive(Clone, Copy)]
pub(super) enum Target {
    /// The instruction that follows.
    Label(u32),
    /// A list of `.branchtargets`.
    List(usize),
}

/// What a label is needed for.
#[derive(Clone, Copy)]
pub(super) enum Use {
    /// An operand of an instruction.
    Operand { instruction: usize, operand: usize },
    /// A place in a list of branch targets.
    Target { list: usize, place: usize },
    /// An operand that names such a list.
    List { instruction: usize, operand: usize },
}

/// A label that was not yet declared where it stands.
pub(super) struct Pending<'t> {
    pub(super) name: &'t str,
    pub(super) place: Place,
    pub(super) needed: Use,
}

/// The names between two braces.
#[derive(Default)]
pub(super) struct Scope<'t> {
    names: HashMap<&'t str, Name>,
    ranges: HashMap<&'t str, Range>,
    pub(super) targets: BTreeMap<&'t str, Target>,
    /// Those that wait for a target, by its name.
    pub(super) pending: BTreeMap<&'t str, Vec<Pending<'t>>>,
}

impl<'t> Scope<'t> {
    /// Declares a register; false if the name is taken.
    pub(super) fn add_register(&mut self, name: &'t str, ty: Type) -> bool {
        let register = Name::Register(ty, None);
        self.names.insert(name, register).is_none()
    }

    /// Declares registers `prefix0`, `prefix1` and so on; false if the prefix is taken.
    pub(super) fn add_range(&mut self, prefix: &'t str, ty: Type, count: u64) -> bool {
        let ids = HashMap::new();
        let range = Range { ty, count, ids };
        self.ranges.insert(prefix, range).is_none()
    }

    /// Declares a variable; false if the name is taken.
    pub(super) fn add_variable(&mut self, name: &'t str, unique: String) -> bool {
        let variable = Name::Variable(unique);
        self.names.insert(name, variable).is_none()
    }

    /// Takes over those who still wait in a scope within this one. The lesser part is moved to the greater, so that
    /// nesting does not multiply the work.
    pub(super) fn inherit(&mut self, mut inner: BTreeMap<&'t str, Vec<Pending<'t>>>) {
        if self.pending.len() < inner.len() {
            std::mem::swap(&mut self.pending, &mut inner);
        }
        for (name, mut waiting) in inner {
            let all = self.pending.entry(name).or_default();
            if all.len() < waiting.len() {
                std::mem::swap(all, &mut waiting);
            }
            all.append(&mut waiting);
        }
    }

    /// Numbers a register that is declared by name.
    pub(super) fn set_register(&mut self, name: &str, number: RegisterId) {
        if let Some(Name::Register(_, id)) = self.names.get_mut(name) {
            *id = Some(number);
        }
    }

    /// Whether the name itself is declared here.
    pub(super) fn holds(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// What the name stands for in this scope. A register is numbered when it is first found, so that those that are
    /// declared and not used cost nothing.
    pub(super) fn find(&mut self, name: &'t str, registers: &mut Vec<Register>) -> Option<Found> {
        match self.names.get_mut(name) {
            Some(Name::Register(ty, id)) => {
                let id = *id.get_or_insert_with(|| new_register(registers, name, *ty));
                return Some(Found::Register(id));
            }
            Some(Name::Variable(unique)) => return Some(Found::Variable(unique.clone())),
            None => {}
        }
        if self.ranges.is_empty() {
            return None;
        }
        let bytes = name.as_bytes();
        for digits in 1..=MAX_RANGE_DIGITS.min(bytes.len()) {
            let start = bytes.len() - digits;
            if !bytes[start].is_ascii_digit() {
                break;
            }
            if bytes[start] == b'0' && digits != 1 {
                continue;
            }
            let Some(range) = self.ranges.get_mut(&name[..start]) else {
                continue;
            };
            let number: u64 = name[start..].parse().ok()?;
            if number < range.count {
                let ty = range.ty;
                let new = || new_register(registers, name, ty);
                return Some(Found::Register(
                    *range.ids.entry(number).or_insert_with(new),
                ));
            }
        }
        None
    }
}

fn new_register(registers: &mut Vec<Register>, name: &str, ty: Type) -> RegisterId {
    let id = RegisterId(registers.len() as u32);
    let name = name.to_owned();
    registers.push(Register { name, ty });
    id
}
