//! `.safetensors` files, of which one tensor is read without the others.

use std::io::{Seek, SeekFrom};
use std::path::Path;

use safetensors::tensor::{Dtype as FileDtype, Metadata, TensorInfo};

use super::element::Endian;
use super::file::{data_bytes, decode, open, read_exactly, unreadable};
use super::{Dtype, Tensor, TensorFileError};

/// The bytes of the number that gives the length of the header.
const LEN_BYTES: u64 = 8;
/// The limit that the format sets.
const MAX_HEADER_BYTES: u64 = 100_000_000;

pub(super) fn read(path: &Path, name: Option<&str>) -> Result<Tensor, TensorFileError> {
    let (mut file, file_bytes) = open(path)?;
    let limit = file_bytes.saturating_sub(LEN_BYTES).min(MAX_HEADER_BYTES);
    let len_error = |found| TensorFileError::SafetensorsHeaderLength {
        path: path.to_owned(),
        limit,
        found,
    };
    if file_bytes < LEN_BYTES {
        return Err(len_error(file_bytes));
    }
    let len = read_exactly(&mut file, path, LEN_BYTES as usize)?;
    let len = u64::from_le_bytes(len.try_into().expect("eight bytes were read"));
    if limit < len {
        return Err(len_error(len));
    }
    let text = read_exactly(&mut file, path, len as usize)?;
    // The crate checks here that offsets, shapes and dtypes agree and that the tensors lie end to end.
    let metadata: Metadata =
        serde_json::from_slice(&text).map_err(|source| TensorFileError::SafetensorsHeader {
            path: path.to_owned(),
            source,
        })?;
    let start = LEN_BYTES + len;
    if metadata.data_len() as u64 != file_bytes - start {
        return Err(TensorFileError::DataLength {
            path: path.to_owned(),
            what: "all tensors".to_owned(),
            expected: metadata.data_len() as u64,
            found: file_bytes - start,
        });
    }

    let info = find(path, &metadata, name)?;
    let dtype = dtype_of(info.dtype).ok_or_else(|| TensorFileError::UnsupportedDtype {
        path: path.to_owned(),
        found: info.dtype.to_string(),
    })?;
    let bytes = data_bytes(path, dtype, &info.shape)?;
    let (from, _) = info.data_offsets;
    file.seek(SeekFrom::Start(start + from as u64))
        .map_err(|source| unreadable(path, source))?;
    let bytes = read_exactly(&mut file, path, bytes)?;
    Ok(Tensor {
        shape: info.shape.clone(),
        data: decode(path, dtype, &bytes, Endian::Little)?,
    })
}

/// The tensors of a file besides `name`, if it is such a file: writing it anew would lose them.
pub(super) fn others(path: &Path, name: &str) -> Vec<String> {
    let names = || -> Option<Vec<String>> {
        let (mut file, file_bytes) = open(path).ok()?;
        let limit = file_bytes.checked_sub(LEN_BYTES)?.min(MAX_HEADER_BYTES);
        let len = read_exactly(&mut file, path, LEN_BYTES as usize).ok()?;
        let len = u64::from_le_bytes(len.try_into().ok()?);
        let text = (len <= limit)
            .then(|| read_exactly(&mut file, path, len as usize))?
            .ok()?;
        let metadata: Metadata = serde_json::from_slice(&text).ok()?;
        Some(metadata.offset_keys())
    };
    let mut names = names().unwrap_or_default();
    names.retain(|other| other != name);
    names.sort();
    names
}

fn find<'a>(
    path: &Path,
    metadata: &'a Metadata,
    name: Option<&str>,
) -> Result<&'a TensorInfo, TensorFileError> {
    let mut names = metadata.offset_keys();
    names.sort();
    let path = path.to_owned();
    match (name, names.as_slice()) {
        (Some(name), _) => metadata
            .info(name)
            .ok_or_else(|| TensorFileError::NoSuchTensor {
                path,
                name: name.to_owned(),
                names,
            }),
        (None, [only]) => Ok(metadata.info(only).expect("the file lists this name")),
        (None, _) => Err(TensorFileError::NameNeeded { path, names }),
    }
}

/// All that comes before the data in a file of one tensor.
pub(super) fn header(path: &Path, name: &str, tensor: &Tensor) -> Result<Vec<u8>, TensorFileError> {
    let info = TensorInfo {
        dtype: file_dtype(tensor.dtype()),
        shape: tensor.shape.clone(),
        data_offsets: (0, tensor.data.len() * tensor.dtype().bytes()),
    };
    // Not by `TensorView`, which multiplies the shape without a check.
    let mut text = Metadata::new(None, vec![(name.to_owned(), info)])
        .and_then(|metadata| Ok(serde_json::to_vec(&metadata)?))
        .map_err(|source| TensorFileError::SafetensorsEncoding {
            path: path.to_owned(),
            source,
        })?;
    // The format wants the data aligned.
    text.resize(text.len().next_multiple_of(LEN_BYTES as usize), b' ');
    Ok([&(text.len() as u64).to_le_bytes()[..], &text].concat())
}

fn dtype_of(dtype: FileDtype) -> Option<Dtype> {
    Dtype::ALL
        .iter()
        .copied()
        .find(|&ours| file_dtype(ours) == dtype)
}

fn file_dtype(dtype: Dtype) -> FileDtype {
    match dtype {
        Dtype::Bool => FileDtype::BOOL,
        Dtype::I8 => FileDtype::I8,
        Dtype::U8 => FileDtype::U8,
        Dtype::I16 => FileDtype::I16,
        Dtype::U16 => FileDtype::U16,
        Dtype::I32 => FileDtype::I32,
        Dtype::U32 => FileDtype::U32,
        Dtype::I64 => FileDtype::I64,
        Dtype::U64 => FileDtype::U64,
        Dtype::F16 => FileDtype::F16,
        Dtype::BF16 => FileDtype::BF16,
        Dtype::F32 => FileDtype::F32,
        Dtype::F64 => FileDtype::F64,
    }
}
