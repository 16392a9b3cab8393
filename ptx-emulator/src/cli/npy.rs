//! The header of a `NumPy` file, as far as it matters to a kernel: where the elements begin.

/// Why a file is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NpyError {
    /// The file does not begin as it should.
    #[error("expected a NumPy file, found other bytes")]
    Magic,
    /// The file ends in its header.
    #[error("expected {expected} bytes of header, found {found}")]
    Short {
        /// What the header should take.
        expected: usize,
        /// What there is.
        found: usize,
    },
    /// Elements are stored in an order that a kernel would not expect.
    #[error("expected the last axis to be contiguous, found fortran_order")]
    Order,
    /// Elements are stored with the high byte first.
    #[error("expected little-endian elements, found big-endian ones")]
    Endian,
}

/// Bytes that the header takes.
pub(crate) fn header_bytes(file: &[u8]) -> Result<usize, NpyError> {
    let (start, length) = match file {
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _, low, high, ..] => {
            (10, usize::from(u16::from_le_bytes([*low, *high])))
        }
        [0x93, b'N', b'U', b'M', b'P', b'Y', 2 | 3, _, a, b, c, d, ..] => {
            (12, u32::from_le_bytes([*a, *b, *c, *d]) as usize)
        }
        _ => return Err(NpyError::Magic),
    };
    let expected = start + length;
    let Some(header) = file.get(start..expected) else {
        let found = file.len();
        return Err(NpyError::Short { expected, found });
    };
    let header = String::from_utf8_lossy(header).replace(' ', "");
    if header.contains("'fortran_order':True") {
        return Err(NpyError::Order);
    }
    if header.contains("'descr':'>") {
        return Err(NpyError::Endian);
    }
    Ok(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str) -> Vec<u8> {
        let mut file = b"\x93NUMPY\x01\x00".to_vec();
        file.extend((header.len() as u16).to_le_bytes());
        file.extend(header.as_bytes());
        file.extend([1, 2, 3, 4]);
        file
    }

    #[test]
    fn headers_are_measured() {
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n";
        assert_eq!(header_bytes(&file(header)), Ok(10 + header.len()));
    }

    #[test]
    fn other_files_are_refused() {
        assert_eq!(header_bytes(b"PK"), Err(NpyError::Magic));
        let header = "{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }\n";
        assert_eq!(header_bytes(&file(header)), Err(NpyError::Order));
        let header = "{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }\n";
        assert_eq!(header_bytes(&file(header)), Err(NpyError::Endian));
        let short = &file(header)[..20];
        let (expected, found) = (10 + header.len(), 20);
        assert_eq!(
            header_bytes(short),
            Err(NpyError::Short { expected, found })
        );
    }
}
