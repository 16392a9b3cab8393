//! What can be wrong with a tensor file.

use std::io;
use std::path::PathBuf;

use super::{Dtype, ShapeError};

/// Why a tensor could not be read from a file, or written to one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TensorFileError {
    /// The name does not say which format it is.
    #[error("expected `<file>.npy` or `<file>.safetensors:<name>`, found `{spec}`")]
    UnknownFormat {
        /// The name as it was given.
        spec: String,
    },
    /// The file could not be opened or read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A directory, a pipe or something else without a length.
    #[error("expected a regular file at {}", path.display())]
    NotAFile {
        /// What is none.
        path: PathBuf,
    },
    /// The file could not be written; what was there before is untouched.
    #[error("cannot write {} of {bytes} bytes", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The bytes that it needs.
        bytes: usize,
        /// The cause.
        source: io::Error,
    },
    /// The `.npy` header is none that this can read.
    #[error("cannot read the header of {}", path.display())]
    NpyHeader {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: NpyHeaderError,
    },
    /// The `.safetensors` header is longer than the file or than any header.
    #[error(
        "expected a header of at most {limit} bytes in {}, found a length of {found}",
        path.display()
    )]
    SafetensorsHeaderLength {
        /// The file.
        path: PathBuf,
        /// The most that it could be.
        limit: u64,
        /// The length that the file gives.
        found: u64,
    },
    /// The `.safetensors` header contradicts itself or is not JSON.
    #[error("cannot read the header of {}", path.display())]
    SafetensorsHeader {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The tensor cannot be described in a `.safetensors` header.
    #[error("cannot lay out {} as safetensors", path.display())]
    SafetensorsEncoding {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: safetensors::SafeTensorError,
    },
    /// A dtype that no rule can read.
    #[error(
        "expected {} in {}, found dtype {found}{}",
        supported(),
        path.display(),
        hint(found)
    )]
    UnsupportedDtype {
        /// The file.
        path: PathBuf,
        /// The dtype in the file's own words.
        found: String,
    },
    /// The shape has more elements than can be counted.
    #[error("expected a shape that fits into memory in {}, found {shape:?}", path.display())]
    ShapeTooLarge {
        /// The file.
        path: PathBuf,
        /// The shape.
        shape: Vec<usize>,
    },
    /// The file is shorter or longer than its header says.
    #[error(
        "expected {expected} bytes of data in {} for {what}, found {found}",
        path.display()
    )]
    DataLength {
        /// The file.
        path: PathBuf,
        /// The tensor, or all tensors of the file.
        what: String,
        /// The bytes that the header asks for.
        expected: u64,
        /// The bytes after the header.
        found: u64,
    },
    /// A boolean that is neither 0 nor 1.
    #[error("expected 0 or 1 for the bool at index {index} in {}, found {byte}", path.display())]
    NotABool {
        /// The file.
        path: PathBuf,
        /// Which element, in the file's order.
        index: usize,
        /// What it is.
        byte: u8,
    },
    /// The file has not exactly one tensor, so it must be named.
    #[error(
        "expected one tensor or a name, as in `{0}:<name>`, found {1}",
        path.display(),
        listed(names)
    )]
    NameNeeded {
        /// The file.
        path: PathBuf,
        /// The tensors in it, ordered.
        names: Vec<String>,
    },
    /// The file holds other tensors, which writing it anew would lose.
    #[error("{} holds {}, which would be lost: expected a new file, or one with `{name}` alone", path.display(), listed(others))]
    WouldLose {
        /// The file.
        path: PathBuf,
        /// The tensor to write.
        name: String,
        /// The tensors in it, ordered.
        others: Vec<String>,
    },
    /// The file has no tensor of this name.
    #[error("expected a tensor `{name}` in {}, found {}", path.display(), listed(names))]
    NoSuchTensor {
        /// The file.
        path: PathBuf,
        /// The name asked for.
        name: String,
        /// The tensors in it, ordered.
        names: Vec<String>,
    },
    /// A name that a `.safetensors` file cannot hold.
    #[error("expected a tensor name that is not empty and not `__metadata__`, found `{name}`")]
    BadName {
        /// The name.
        name: String,
    },
    /// `NumPy` has no such dtype.
    #[error(
        "expected a dtype that NumPy has for {}, found {dtype}; write `<file>.safetensors:<name>` instead",
        path.display()
    )]
    NoNpyDtype {
        /// The file.
        path: PathBuf,
        /// The tensor's dtype.
        dtype: Dtype,
    },
    /// The tensor to write is none.
    #[error("cannot write a tensor whose shape and data disagree")]
    Shape(#[from] ShapeError),
}

/// Why the header of a `.npy` file could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NpyHeaderError {
    /// The file does not begin as every `.npy` file does.
    #[error("the file does not begin with the magic bytes `\\x93NUMPY`")]
    Magic,
    /// A version that does not exist.
    #[error("expected version 1.0, 2.0 or 3.0, found {major}.{minor}")]
    Version {
        /// Before the point.
        major: u8,
        /// After it.
        minor: u8,
    },
    /// The header is cut short, or longer than any that describes a plain array.
    #[error("expected a header of at most {limit} bytes, found a length of {found}")]
    Length {
        /// The most that it could be.
        limit: u64,
        /// The length that the file gives.
        found: u64,
    },
    /// The text is not the dictionary that `NumPy` writes.
    #[error("expected {expected} at byte {at} of `{text}`")]
    Syntax {
        /// What should stand there.
        expected: &'static str,
        /// The place in the header's text.
        at: usize,
        /// The header's text, shortened.
        text: String,
    },
    /// A key is missing.
    #[error("expected the key `{key}`, found none")]
    MissingKey {
        /// The key.
        key: &'static str,
    },
    /// A key that means nothing, or one that stands twice.
    #[error("expected `descr`, `fortran_order` and `shape` once each, found a further `{key}`")]
    ExtraKey {
        /// The key.
        key: String,
    },
}

fn supported() -> String {
    let names: Vec<_> = Dtype::ALL.iter().map(|dtype| dtype.name()).collect();
    format!("one of {}", names.join(", "))
}

/// `NumPy` stores the bfloat16 of its extensions as two bytes without meaning.
fn hint(found: &str) -> &'static str {
    match found.trim_matches('\'') {
        "|V2" | "<V2" | "V2" => {
            "; bfloat16 loses its type in .npy, store it as `<file>.safetensors:<name>` instead"
        }
        _ => "",
    }
}

/// Names for a message, the first of them where there are many.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 20;
    match names.len() {
        0 => "none".to_owned(),
        len if SHOWN < len => {
            format!("{} and {} more", names[..SHOWN].join(", "), len - SHOWN)
        }
        _ => names.join(", "),
    }
}
