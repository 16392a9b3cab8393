//! Reads and writes tensors by the name of their file.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::element::{Endian, NotABool};
use super::{Dtype, Tensor, TensorData, TensorFileError, element_count, npy, safetensors_file};
use crate::cache::DiskIo;
use crate::cache::replace::{directory_of, replace};

/// Reads a tensor from `<file>.npy` or `<file>.safetensors:<name>`.
///
/// The name may be left out where the file has one tensor. `.npy` files in Fortran order or of the other byte order
/// are brought into ours. No more memory is taken than the file has bytes for.
///
/// # Errors
/// [`TensorFileError`] with the path, what was expected and what was found.
pub fn read_tensor(spec: &str) -> Result<Tensor, TensorFileError> {
    match Format::of(spec)? {
        Format::Npy(path) => npy::read(&path),
        Format::Safetensors(path, name) => safetensors_file::read(&path, name),
    }
}

/// Writes a tensor to `<file>.npy`, or to a new `<file>.safetensors:<name>` with this one tensor.
///
/// The file is written aside and renamed, so that a failure leaves what was there.
///
/// # Example
/// ```
/// use maskwright::tensor::{Tensor, read_tensor, write_tensor};
/// # let dir = tempfile::tempdir()?;
/// # let spec = dir.path().join("docs.npy");
/// # let spec = spec.to_str().ok_or("not UTF-8")?;
///
/// let docs = Tensor::new([4], vec![0_i32, 0, 1, 1])?;
/// write_tensor(spec, &docs)?;
/// assert_eq!(read_tensor(spec)?, docs);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`TensorFileError::NoNpyDtype`] for bf16 in `.npy`; [`TensorFileError::NameNeeded`] for `.safetensors` without a
/// name; [`TensorFileError::WouldLose`] for one that holds other tensors; [`TensorFileError::Write`] with the bytes needed and the cause.
pub fn write_tensor(spec: &str, tensor: &Tensor) -> Result<(), TensorFileError> {
    let format = Format::of(spec)?;
    tensor.check()?;
    match format {
        Format::Npy(path) => {
            let header = npy::header(&path, tensor)?;
            place(path, &[&header, &tensor.data.to_le_bytes()])
        }
        Format::Safetensors(path, Some(name)) => {
            check_kept(&path, name)?;
            let header = safetensors_file::header(&path, name, tensor)?;
            place(path, &[&header, &tensor.data.to_le_bytes()])
        }
        Format::Safetensors(path, None) => Err(TensorFileError::NameNeeded {
            path,
            names: Vec::new(),
        }),
    }
}

/// Says whether [`write_tensor`] can take a file name for tensors of a type, before there is a tensor to write: its
/// extension, its name, and that its folder exists.
///
/// # Errors
/// As [`write_tensor`].
pub fn check_destination(spec: &str, dtype: Dtype) -> Result<(), TensorFileError> {
    let path = match Format::of(spec)? {
        Format::Npy(path) if dtype == Dtype::BF16 => {
            return Err(TensorFileError::NoNpyDtype { path, dtype });
        }
        Format::Npy(path) => path,
        Format::Safetensors(path, Some(name)) => {
            check_kept(&path, name)?;
            path
        }
        Format::Safetensors(path, None) => {
            return Err(TensorFileError::NameNeeded {
                path,
                names: Vec::new(),
            });
        }
    };
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| Path::new("."));
    let cause = match fs::metadata(folder) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => io::Error::new(io::ErrorKind::NotADirectory, "its folder is a file"),
        Err(cause) => cause,
    };
    Err(TensorFileError::Write {
        path,
        bytes: 0,
        source: cause,
    })
}

/// A file of several tensors is never replaced by one of them.
fn check_kept(path: &Path, name: &str) -> Result<(), TensorFileError> {
    let others = safetensors_file::others(path, name);
    if others.is_empty() {
        return Ok(());
    }
    Err(TensorFileError::WouldLose {
        path: path.to_owned(),
        name: name.to_owned(),
        others,
    })
}

enum Format<'a> {
    Npy(PathBuf),
    Safetensors(PathBuf, Option<&'a str>),
}

impl<'a> Format<'a> {
    fn of(spec: &'a str) -> Result<Self, TensorFileError> {
        const SAFETENSORS: &str = ".safetensors";
        const NPY: &str = ".npy";
        // The first colon that follows the extension: names of tensors may hold colons, or end in `.npy`.
        if let Some(at) = spec.find(".safetensors:") {
            let (path, name) = spec.split_at(at + SAFETENSORS.len());
            return match &name[1..] {
                "" | "__metadata__" => Err(TensorFileError::BadName {
                    name: name[1..].to_owned(),
                }),
                name => Ok(Self::Safetensors(path.into(), Some(name))),
            };
        }
        if spec.ends_with(SAFETENSORS) {
            return Ok(Self::Safetensors(spec.into(), None));
        }
        if spec.ends_with(NPY) {
            return Ok(Self::Npy(spec.into()));
        }
        Err(TensorFileError::UnknownFormat {
            spec: spec.to_owned(),
        })
    }
}

/// Opens a regular file and tells its length.
pub(super) fn open(path: &Path) -> Result<(File, u64), TensorFileError> {
    // Looked at before it is opened: opening a pipe would wait for its other end.
    let metadata = fs::metadata(path).map_err(|source| unreadable(path, source))?;
    if !metadata.is_file() {
        return Err(TensorFileError::NotAFile {
            path: path.to_owned(),
        });
    }
    let file = File::open(path).map_err(|source| unreadable(path, source))?;
    let metadata = file.metadata();
    let bytes = metadata.map_err(|source| unreadable(path, source))?.len();
    Ok((file, bytes))
}

pub(super) fn unreadable(path: &Path, source: io::Error) -> TensorFileError {
    TensorFileError::Read {
        path: path.to_owned(),
        source,
    }
}

/// Reads exactly `len` bytes, which the caller has compared with the file's length.
pub(super) fn read_exactly(
    file: &mut File,
    path: &Path,
    len: usize,
) -> Result<Vec<u8>, TensorFileError> {
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(len)
        .map_err(|_| unreadable(path, io::ErrorKind::OutOfMemory.into()))?;
    let read = file.take(len as u64).read_to_end(&mut bytes);
    match read {
        Ok(read) if read == len => Ok(bytes),
        // Cut while it was read.
        Ok(_) => Err(unreadable(path, io::ErrorKind::UnexpectedEof.into())),
        Err(source) => Err(unreadable(path, source)),
    }
}

/// The bytes that a tensor of this shape takes in a file.
pub(super) fn data_bytes(
    path: &Path,
    dtype: Dtype,
    shape: &[usize],
) -> Result<usize, TensorFileError> {
    element_count(shape)
        .and_then(|count| count.checked_mul(dtype.bytes()))
        .ok_or_else(|| TensorFileError::ShapeTooLarge {
            path: path.to_owned(),
            shape: shape.to_vec(),
        })
}

pub(super) fn decode(
    path: &Path,
    dtype: Dtype,
    bytes: &[u8],
    endian: Endian,
) -> Result<TensorData, TensorFileError> {
    TensorData::from_bytes(dtype, bytes, endian).map_err(|NotABool { index, byte }| {
        TensorFileError::NotABool {
            path: path.to_owned(),
            index,
            byte,
        }
    })
}

fn place(path: PathBuf, parts: &[&[u8]]) -> Result<(), TensorFileError> {
    static WRITES: AtomicU64 = AtomicU64::new(0);
    // A link keeps pointing where it points: the file behind it is replaced.
    let target = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
    let name = format!(
        ".maskwright-{}-{}.tmp",
        std::process::id(),
        WRITES.fetch_add(1, Ordering::Relaxed)
    );
    let temporary = directory_of(&target).join(name);
    replace(&DiskIo, &temporary, &target, parts).map_err(|source| TensorFileError::Write {
        path,
        bytes: parts.iter().map(|part| part.len()).sum(),
        source,
    })
}
