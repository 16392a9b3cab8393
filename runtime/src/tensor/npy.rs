//! `NumPy`'s `.npy` files.
//!
//! The header is parsed here: the crates for it take memory by lengths in the file before they look at its size, and
//! multiply shapes without checks. It is a Python dictionary of three known keys, so a parser without recursion does.

use std::path::Path;

use super::element::Endian;
use super::file::{data_bytes, decode, open, read_exactly};
use super::{Dtype, NpyHeaderError, Tensor, TensorFileError};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// `NumPy` itself reads no more than 10 000 bytes unless it is told to.
const MAX_HEADER_BYTES: u64 = 1 << 20;
/// The data begins at a multiple of this, so that it can be mapped.
const ALIGNMENT: usize = 64;

pub(super) fn read(path: &Path) -> Result<Tensor, TensorFileError> {
    let header_error = |source| TensorFileError::NpyHeader {
        path: path.to_owned(),
        source,
    };
    let (mut file, file_bytes) = open(path)?;
    if file_bytes < 10 {
        return Err(header_error(NpyHeaderError::Magic));
    }
    let start = read_exactly(&mut file, path, 8)?;
    if !start.starts_with(MAGIC) {
        return Err(header_error(NpyHeaderError::Magic));
    }
    let len_bytes = match (start[6], start[7]) {
        (1, 0) => 2,
        (2 | 3, 0) => 4,
        (major, minor) => return Err(header_error(NpyHeaderError::Version { major, minor })),
    };
    let before_text = 8 + len_bytes;
    let limit = file_bytes.saturating_sub(before_text).min(MAX_HEADER_BYTES);
    if file_bytes < before_text {
        return Err(header_error(NpyHeaderError::Length {
            limit,
            found: file_bytes,
        }));
    }
    let found = read_exactly(&mut file, path, len_bytes as usize)?
        .iter()
        .rev()
        .fold(0, |len, &byte| len << 8 | u64::from(byte));
    if limit < found {
        return Err(header_error(NpyHeaderError::Length { limit, found }));
    }
    let text = read_exactly(&mut file, path, found as usize)?;
    let Header {
        descr,
        fortran_order,
        shape,
    } = parse(&text).map_err(header_error)?;

    let (dtype, endian) = dtype_of(&descr).ok_or_else(|| TensorFileError::UnsupportedDtype {
        path: path.to_owned(),
        found: descr,
    })?;
    let expected = data_bytes(path, dtype, &shape)?;
    let found = file_bytes - before_text - found;
    if expected as u64 != found {
        return Err(TensorFileError::DataLength {
            path: path.to_owned(),
            what: format!("{dtype} of shape {shape:?}"),
            expected: expected as u64,
            found,
        });
    }
    let bytes = read_exactly(&mut file, path, expected)?;
    let data = decode(path, dtype, &bytes, endian)?;
    let data = if fortran_order && 1 < shape.len() {
        data.into_row_major(&shape)
    } else {
        data
    };
    Ok(Tensor { shape, data })
}

/// All that comes before the data.
pub(super) fn header(path: &Path, tensor: &Tensor) -> Result<Vec<u8>, TensorFileError> {
    let descr = match tensor.dtype() {
        Dtype::Bool => "|b1",
        Dtype::I8 => "|i1",
        Dtype::U8 => "|u1",
        Dtype::I16 => "<i2",
        Dtype::U16 => "<u2",
        Dtype::I32 => "<i4",
        Dtype::U32 => "<u4",
        Dtype::I64 => "<i8",
        Dtype::U64 => "<u8",
        Dtype::F16 => "<f2",
        Dtype::F32 => "<f4",
        Dtype::F64 => "<f8",
        dtype @ Dtype::BF16 => {
            return Err(TensorFileError::NoNpyDtype {
                path: path.to_owned(),
                dtype,
            });
        }
    };
    let dims: Vec<_> = tensor.shape.iter().map(usize::to_string).collect();
    // Python writes `(3,)` for one dimension and `(2, 3)` for two.
    let dims = match dims.as_slice() {
        [only] => format!("{only},"),
        dims => dims.join(", "),
    };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({dims}), }}");
    // Version 1 gives the length of the text two bytes.
    let fits = |text: &str| text.len() + ALIGNMENT < usize::from(u16::MAX);
    let (version, before_text) = if fits(&text) { (1, 10) } else { (2, 12) };
    let unpadded = before_text + text.len() + 1;
    text.extend(std::iter::repeat_n(
        ' ',
        unpadded.next_multiple_of(ALIGNMENT) - unpadded,
    ));
    text.push('\n');

    let mut bytes = MAGIC.to_vec();
    bytes.extend([version, 0]);
    bytes.extend(&(text.len() as u32).to_le_bytes()[..before_text - 8]);
    bytes.extend(text.as_bytes());
    Ok(bytes)
}

fn dtype_of(descr: &str) -> Option<(Dtype, Endian)> {
    let dtype = match descr.get(1..)? {
        "b1" => Dtype::Bool,
        "i1" => Dtype::I8,
        "u1" => Dtype::U8,
        "i2" => Dtype::I16,
        "u2" => Dtype::U16,
        "i4" => Dtype::I32,
        "u4" => Dtype::U32,
        "i8" => Dtype::I64,
        "u8" => Dtype::U64,
        "f2" => Dtype::F16,
        "f4" => Dtype::F32,
        "f8" => Dtype::F64,
        _ => return None,
    };
    match (descr.as_bytes()[0], dtype.bytes()) {
        (b'<', _) | (b'|', 1) => Some((dtype, Endian::Little)),
        (b'>', _) => Some((dtype, Endian::Big)),
        _ => None,
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Header {
    /// The dtype in `NumPy`'s words; where it is no string, the Python text of it.
    descr: String,
    fortran_order: bool,
    shape: Vec<usize>,
}

fn parse(text: &[u8]) -> Result<Header, NpyHeaderError> {
    let mut parser = Parser { text, at: 0 };
    let (mut descr, mut fortran_order, mut shape) = (None, None, None);
    parser.expect(b'{', "`{`")?;
    while !parser.skip(b'}') {
        let key = parser.string()?;
        parser.expect(b':', "`:`")?;
        match key {
            "descr" if descr.is_none() => descr = Some(parser.descr()?),
            "fortran_order" if fortran_order.is_none() => fortran_order = Some(parser.bool()?),
            "shape" if shape.is_none() => shape = Some(parser.shape()?),
            key => {
                return Err(NpyHeaderError::ExtraKey {
                    key: key.chars().take(40).collect(),
                });
            }
        }
        if !parser.skip(b',') {
            parser.expect(b'}', "`,` or `}`")?;
            break;
        }
    }
    parser.end()?;
    let missing = |key| NpyHeaderError::MissingKey { key };
    Ok(Header {
        descr: descr.ok_or_else(|| missing("descr"))?,
        fortran_order: fortran_order.ok_or_else(|| missing("fortran_order"))?,
        shape: shape.ok_or_else(|| missing("shape"))?,
    })
}

/// Reads the few Python literals that stand in a header.
struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Parser<'a> {
    /// The next byte that is no space.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text[self.at..];
        self.at += rest
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace())
            .count();
        self.text.get(self.at).copied()
    }

    fn skip(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), NpyHeaderError> {
        if self.skip(byte) {
            Ok(())
        } else {
            Err(self.error(expected))
        }
    }

    fn end(&mut self) -> Result<(), NpyHeaderError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.error("the end")),
        }
    }

    /// A string without escapes.
    fn string(&mut self) -> Result<&'a str, NpyHeaderError> {
        let Some(quote @ (b'\'' | b'"')) = self.peek() else {
            return Err(self.error("a string"));
        };
        let rest = &self.text[self.at + 1..];
        let content = rest
            .iter()
            .position(|&byte| byte == quote || byte == b'\\')
            .filter(|&len| rest[len] == quote)
            .and_then(|len| str::from_utf8(&rest[..len]).ok());
        let Some(content) = content else {
            return Err(self.error("a string without escapes"));
        };
        self.at += content.len() + 2;
        Ok(content)
    }

    fn descr(&mut self) -> Result<String, NpyHeaderError> {
        match self.peek() {
            // A list of fields, of whatever length and depth: no dtype of ours, told by its text.
            Some(b'[') => {
                let rest = &self.text[self.at..];
                let end = rest.iter().rposition(|&byte| byte == b']');
                let fields = &rest[..end.map_or(rest.len(), |end| end + 1)];
                self.at += fields.len();
                Ok(shortened(&String::from_utf8_lossy(fields)))
            }
            _ => self.string().map(str::to_owned),
        }
    }

    fn bool(&mut self) -> Result<bool, NpyHeaderError> {
        self.peek();
        let rest = &self.text[self.at..];
        for (word, value) in [("True", true), ("False", false)] {
            if rest.starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.error("`True` or `False`"))
    }

    fn shape(&mut self) -> Result<Vec<usize>, NpyHeaderError> {
        let mut shape = Vec::new();
        self.expect(b'(', "`(`")?;
        while !self.skip(b')') {
            shape.push(self.dim()?);
            if !self.skip(b',') {
                self.expect(b')', "`,` or `)`")?;
                break;
            }
        }
        Ok(shape)
    }

    fn dim(&mut self) -> Result<usize, NpyHeaderError> {
        self.peek();
        let rest = &self.text[self.at..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let dim = str::from_utf8(&rest[..digits])
            .ok()
            .and_then(|digits| digits.parse().ok());
        let Some(dim) = dim else {
            return Err(self.error("a dimension of at most 64 bits"));
        };
        self.at += digits;
        // Python 2 wrote long integers so.
        self.skip(b'L');
        Ok(dim)
    }

    fn error(&self, expected: &'static str) -> NpyHeaderError {
        NpyHeaderError::Syntax {
            expected,
            at: self.at,
            text: shortened(&String::from_utf8_lossy(self.text)),
        }
    }
}

/// At most so much of a text as fits into a message.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 120;
    let text = text.trim_end();
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
