//! Why a text is no PTX that is understood.

/// A fault of a PTX text, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {fault}: `{text}`")]
pub struct ParseError {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// The line, without the white space around it, cut where it is long.
    pub text: String,
    /// What is wrong.
    pub fault: ParseFault,
}

/// What is wrong with a PTX text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseFault {
    /// Something else had to stand here.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// What may stand here.
        expected: &'static str,
        /// What does.
        found: String,
    },
    /// A character that PTX does not have.
    #[error("expected PTX, found the character {found:?}")]
    Character {
        /// The character.
        found: char,
    },
    /// A string or a comment runs to the end of the text.
    #[error("expected the end of a {what}, found the end of the text")]
    Unterminated {
        /// A string or a comment.
        what: &'static str,
    },
    /// A name that nothing declares.
    #[error("no {what} `{name}` in scope")]
    Unknown {
        /// What it would have to be.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A name that is declared twice in one scope.
    #[error("`{name}` is declared twice")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// PTX that is well-formed, but that is not modelled.
    #[error("{what} are not supported")]
    Unsupported {
        /// What is not.
        what: &'static str,
    },
    /// A number beyond what it may be.
    #[error("{what} may be {limit} at most, found {found}")]
    TooLarge {
        /// What the number is.
        what: &'static str,
        /// The greatest that it may be.
        limit: u64,
        /// What it is.
        found: String,
    },
    /// A number that cannot be what it stands for.
    #[error("expected {expected}, found the number {found}")]
    Number {
        /// What it may be.
        expected: &'static str,
        /// The number.
        found: String,
    },
}
