//! The bytes of an entry: head, section table, sections, SHA-256 over all of it.
//!
//! ```text
//! magic [8]  version u32  key [32]  file bytes u64  section count u32
//! per section: name bytes u32, name, data bytes u64
//! per section: data
//! sha256 [32]
//! ```
//! Integers are little-endian. A length is believed only as far as there are bytes, and nothing is allocated by one.

use std::collections::BTreeSet;
use std::io;

use sha2::{Digest, Sha256};

use super::StoreError;
use crate::cache::Key;

/// Named byte sections, kept together under one key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// Names and contents, in the order they were given. Names are unique.
    pub sections: Vec<(String, Vec<u8>)>,
}

impl Entry {
    /// The content of a section.
    pub fn section(&self, name: &str) -> Option<&[u8]> {
        self.sections
            .iter()
            .find(|(found, _)| found == name)
            .map(|(_, data)| data.as_slice())
    }
}

/// Why a key found nothing that could be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MissReason {
    /// Nothing was stored, or it has been removed.
    #[error("no such entry")]
    Absent,
    /// The file could not be opened or read.
    #[error("the file cannot be read")]
    Unreadable(#[source] io::Error),
    /// A directory, a symbolic link or something else stands in the entry's place.
    #[error("expected a regular file, found {found}")]
    NotAFile {
        /// What stands there.
        found: &'static str,
    },
    /// The file does not begin as an entry does.
    #[error("this is not a cache entry: it does not begin with the magic bytes")]
    WrongMagic,
    /// Another version of the format wrote the file.
    #[error("expected format version {expected}, found {found}")]
    WrongVersion {
        /// The version that this build reads and writes.
        expected: u32,
        /// The version in the file.
        found: u32,
    },
    /// The file was made for another key.
    #[error("expected key {expected}, found {found}")]
    WrongKey {
        /// The key that was asked for, which is the file's name.
        expected: Key,
        /// The key inside the file.
        found: Key,
    },
    /// The file was cut short, or something was added to it.
    #[error("expected {expected} bytes, found {found}")]
    WrongLength {
        /// The length that was written into the file, or the least that an entry can have.
        expected: u64,
        /// The length that it has.
        found: u64,
    },
    /// The file is larger than any entry.
    #[error("expected at most {MAX_ENTRY_BYTES} bytes, found {found}")]
    TooLarge {
        /// The length of the file.
        found: u64,
    },
    /// Some byte is not the one that was written.
    #[error("the content does not match its checksum")]
    Altered,
    /// The checksum holds, but the section table contradicts itself.
    #[error("the section table is malformed: {fault}")]
    Malformed {
        /// What is wrong with it.
        fault: &'static str,
    },
}

/// The largest entry that is written or read, in bytes.
pub const MAX_ENTRY_BYTES: u64 = 1 << 30;

const MAGIC: [u8; 8] = *b"MWENTRY\n";
pub(super) const VERSION: u32 = 1;
pub(super) const HEAD_BYTES: usize = 8 + 4 + 32 + 8 + 4;
pub(super) const DIGEST_BYTES: usize = 32;

/// Everything that comes before the sections' data, and the digest that comes after.
pub(super) struct Frame {
    pub(super) front: Vec<u8>,
    pub(super) digest: [u8; DIGEST_BYTES],
    pub(super) total_bytes: u64,
}

/// Lays an entry out; its data is not copied.
pub(super) fn encode(key: &Key, entry: &Entry) -> Result<Frame, StoreError> {
    let mut names = BTreeSet::new();
    let mut table = Vec::new();
    let mut data_bytes = 0_u64;
    for (name, data) in &entry.sections {
        if !names.insert(name) {
            return Err(StoreError::DuplicateSection { name: name.clone() });
        }
        table.extend((name.len() as u32).to_le_bytes());
        table.extend(name.as_bytes());
        table.extend((data.len() as u64).to_le_bytes());
        data_bytes += data.len() as u64;
    }
    let total_bytes = (HEAD_BYTES + table.len() + DIGEST_BYTES) as u64 + data_bytes;
    // This bounds the name lengths and the count as well, so that the casts to u32 lose nothing.
    if MAX_ENTRY_BYTES < total_bytes {
        return Err(StoreError::TooLarge { bytes: total_bytes });
    }
    let mut front = Vec::with_capacity(HEAD_BYTES + table.len());
    front.extend(MAGIC);
    front.extend(VERSION.to_le_bytes());
    front.extend(key.as_bytes());
    front.extend(total_bytes.to_le_bytes());
    front.extend((entry.sections.len() as u32).to_le_bytes());
    front.extend(table);

    let mut hash = Sha256::new_with_prefix(&front);
    for (_, data) in &entry.sections {
        hash.update(data);
    }
    Ok(Frame {
        front,
        digest: hash.finalize().into(),
        total_bytes,
    })
}

/// Checks the head of a file of `file_bytes` against the key it should have.
///
/// The length in the head equals the file's own when this holds, so that reading on is bounded by what is there.
pub(super) fn check_head(key: &Key, head: &[u8], file_bytes: u64) -> Result<(), MissReason> {
    let mut cursor = Cursor(head);
    let least = (HEAD_BYTES + DIGEST_BYTES) as u64;
    let short = || MissReason::WrongLength {
        expected: least,
        found: file_bytes,
    };
    if cursor.array().ok_or_else(short)? != MAGIC {
        return Err(MissReason::WrongMagic);
    }
    let version = cursor.u32().ok_or_else(short)?;
    if version != VERSION {
        return Err(MissReason::WrongVersion {
            expected: VERSION,
            found: version,
        });
    }
    let found = Key::from_bytes(cursor.array().ok_or_else(short)?);
    if found != *key {
        return Err(MissReason::WrongKey {
            expected: *key,
            found,
        });
    }
    let expected = cursor.u64().ok_or_else(short)?;
    if expected != file_bytes || file_bytes < least {
        return Err(MissReason::WrongLength {
            expected: expected.max(least),
            found: file_bytes,
        });
    }
    Ok(())
}

/// Reads an entry back from the whole of its file.
pub(super) fn decode(key: &Key, bytes: &[u8]) -> Result<Entry, MissReason> {
    check_head(key, bytes, bytes.len() as u64)?;
    let malformed = |fault| MissReason::Malformed { fault };
    let (body, digest) = bytes
        .split_last_chunk::<DIGEST_BYTES>()
        .expect("the head was checked to leave room for a digest");
    if Sha256::digest(body)[..] != digest[..] {
        return Err(MissReason::Altered);
    }

    let mut cursor = Cursor(&body[HEAD_BYTES - 4..]);
    let count = cursor.u32().expect("the head holds the section count");
    let mut names = BTreeSet::new();
    let mut table = Vec::new();
    for _ in 0..count {
        let name = cursor
            .u32()
            .and_then(|len| cursor.take(len.into()))
            .ok_or_else(|| malformed("it ends within a section's name"))?;
        let name = str::from_utf8(name).map_err(|_| malformed("a name is not UTF-8"))?;
        if !names.insert(name) {
            return Err(malformed("two sections have one name"));
        }
        let len = cursor
            .u64()
            .ok_or_else(|| malformed("it ends within a section's length"))?;
        table.push((name, len));
    }
    let mut sections = Vec::with_capacity(table.len());
    for (name, len) in table {
        let data = cursor
            .take(len)
            .ok_or_else(|| malformed("a section is longer than the file"))?;
        sections.push((name.to_owned(), data.to_vec()));
    }
    if !cursor.0.is_empty() {
        return Err(malformed("bytes are left after the last section"));
    }
    Ok(Entry { sections })
}

/// The bytes not read yet; asking for more than there are gives `None`.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, len: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(len).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}
