//! Why PTX text did not become a program.

use crate::parse::ParseError;

/// A text that could not be read or decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is no PTX.
    #[error("cannot parse the PTX")]
    Parse(#[from] ParseError),
    /// It is PTX, but not of the kind that is understood here.
    #[error("cannot decode the PTX")]
    Decode(#[from] DecodeError),
}

/// An instruction or a declaration that has no meaning here, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}: `{text}`")]
pub struct DecodeError {
    /// Line of the PTX text, from 1.
    pub line: u32,
    /// That line.
    pub text: String,
    /// What is wrong with it.
    pub fault: DecodeFault,
}

/// What is wrong with an instruction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeFault {
    /// A name that is not known.
    #[error("unknown instruction {name}")]
    Instruction {
        /// The whole name.
        name: String,
    },
    /// A qualifier that does not belong there, or that is not supported.
    #[error("unexpected qualifier .{qualifier}")]
    Qualifier {
        /// Without its dot.
        qualifier: String,
    },
    /// A qualifier is missing, or its type cannot be used so.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What should stand there.
        expected: &'static str,
        /// What does.
        found: String,
    },
    /// Too few or too many operands.
    #[error("expected {expected} operands, found {found}")]
    OperandCount {
        /// How many.
        expected: &'static str,
        /// How many there are.
        found: usize,
    },
    /// A name that nothing declares.
    #[error("unknown name {name}")]
    Symbol {
        /// The name.
        name: String,
    },
    /// A special register that is not modelled.
    #[error("unknown special register {name}")]
    Special {
        /// Its name.
        name: String,
    },
    /// Functions that call themselves: each has one set of registers here.
    #[error("recursive function {name} is not supported")]
    Recursion {
        /// Its name.
        name: String,
    },
}
