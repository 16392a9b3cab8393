//! Arguments into the parameter space of a kernel, and into memory.

use std::fs;
use std::path::{Path, PathBuf};

use ptx_emulator::Memory;
use ptx_emulator::ast::{Function, Param, Type};

use super::error::CliError;
use super::npy::header_bytes;
use super::value::Value;

/// A kernel's parameters, and the memory that they point to.
#[derive(Debug)]
pub(crate) struct Bound {
    /// The parameter space.
    pub(crate) params: Vec<u8>,
    /// What the kernel may have written, in order of the arguments.
    pub(crate) outputs: Vec<Output>,
}

/// Memory that is of interest after the launch.
#[derive(Debug)]
pub(crate) struct Output {
    /// Position of the argument.
    pub(crate) index: usize,
    /// Name of the parameter.
    pub(crate) name: String,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    /// What stands before the elements in the file.
    pub(crate) header: Vec<u8>,
    /// The file that takes them; they are printed where there is none.
    pub(crate) to: Option<PathBuf>,
}

/// Checks arguments against the parameters of `kernel`, and puts what they point to into `memory`.
pub(crate) fn bind(
    kernel: &Function,
    values: &[Value],
    memory: &Memory,
) -> Result<Bound, CliError> {
    if kernel.params.len() != values.len() {
        return Err(CliError::ArgumentCount {
            kernel: kernel.name.clone(),
            expected: kernel.params.len(),
            found: values.len(),
        });
    }
    let size = kernel.params.last().map_or(0, |it| it.offset + it.size);
    let mut params = vec![0; size as usize];
    let mut outputs: Vec<Output> = Vec::new();
    for (index, (param, value)) in kernel.params.iter().zip(values).enumerate() {
        let pointer = |bytes: &[u8]| {
            let address = memory.alloc_from(bytes);
            (address, address.to_le_bytes().to_vec())
        };
        let output = |address, bytes, header, to| Output {
            index,
            name: param.name.clone(),
            address,
            bytes,
            header,
            to,
        };
        let bytes = match value {
            Value::Number { kind, bytes } => {
                check_type(index, param, kind)?;
                bytes.clone()
            }
            Value::Bytes(path) => read(path)?.1,
            Value::In(path) => pointer(&read(path)?.1).1,
            Value::InOut(from, to) => {
                let (header, elements) = read(from)?;
                let (address, bytes) = pointer(&elements);
                let length = elements.len() as u64;
                outputs.push(output(address, length, header, Some(to.clone())));
                bytes
            }
            Value::Out(length, to) => {
                let address = memory.alloc(*length);
                let address = address.map_err(|source| CliError::Memory { index, source })?;
                outputs.push(output(address, *length, Vec::new(), to.clone()));
                address.to_le_bytes().to_vec()
            }
        };
        if bytes.len() as u64 != param.size {
            let found = match value {
                Value::Number { kind, .. } => format!("a number of type {kind}"),
                Value::Bytes(path) => format!("{} bytes in {}", bytes.len(), path.display()),
                Value::In(_) | Value::InOut(..) | Value::Out(..) => "a pointer".to_owned(),
            };
            return Err(CliError::Argument {
                index,
                name: param.name.clone(),
                expected: format!("{} bytes", param.size),
                found,
            });
        }
        let start = param.offset as usize;
        params[start..start + bytes.len()].copy_from_slice(&bytes);
    }
    let files: Vec<_> = outputs.iter().filter_map(|it| it.to.as_ref()).collect();
    for (at, path) in files.iter().enumerate() {
        if files[..at].contains(path) {
            let path = (*path).clone();
            return Err(CliError::SameFile { path });
        }
    }
    Ok(Bound { params, outputs })
}

/// A number of the right size and the wrong kind is a slip: 1 as a float has other bits than as an integer.
fn check_type(index: usize, param: &Param, kind: &str) -> Result<(), CliError> {
    let is_float = kind.starts_with('f');
    let is_wrong = match param.ty {
        Type::F32 | Type::F64 => !is_float,
        Type::U32 | Type::S32 | Type::U64 | Type::S64 => is_float,
        _ => false,
    };
    if !is_wrong {
        return Ok(());
    }
    Err(CliError::Argument {
        index,
        name: param.name.clone(),
        expected: if is_float { "an integer" } else { "a float" }.to_owned(),
        found: format!("a number of type {kind}"),
    })
}

/// The header of a `.npy` file and its elements; of another file all is elements.
fn read(path: &Path) -> Result<(Vec<u8>, Vec<u8>), CliError> {
    let mut file = fs::read(path).map_err(|source| CliError::Read {
        path: path.to_owned(),
        source,
    })?;
    if path.extension().is_none_or(|it| it != "npy") {
        return Ok((Vec::new(), file));
    }
    let start = header_bytes(&file).map_err(|source| CliError::Npy {
        path: path.to_owned(),
        source,
    })?;
    let elements = file.split_off(start);
    Ok((file, elements))
}
