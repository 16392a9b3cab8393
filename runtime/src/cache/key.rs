//! The names of cache entries: SHA-256 over labelled fields.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

/// The content address of a cache entry, shown and parsed as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key([u8; 32]);

/// Hashes labelled fields into a [`Key`].
///
/// Labels and values are prefixed with their lengths, so that no two lists of fields feed the hash the same bytes.
/// Order counts.
///
/// # Example
/// ```
/// use maskwright::cache::KeyBuilder;
///
/// let key = KeyBuilder::new().field("rule", b"kv <= q").field("target", b"sm_90a").finish();
/// let other = KeyBuilder::new().field("rule", b"kv < q").field("target", b"sm_90a").finish();
/// assert_ne!(key, other);
/// ```
#[derive(Debug, Clone)]
pub struct KeyBuilder(Sha256);

/// Why a text is not the name of a cache entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a key of 64 lower-case hexadecimal digits, found `{found}`")]
pub struct KeyParseError {
    /// The text as it was given.
    pub found: String,
}

impl Key {
    /// Takes 32 bytes that are a key already, as read from an entry.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes of the hash.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl KeyBuilder {
    /// Starts a key without fields.
    pub fn new() -> Self {
        // The prefix keeps these hashes apart from any other SHA-256 of the same bytes.
        Self(Sha256::new_with_prefix(b"maskwright cache key 1\n"))
    }

    /// Adds one field.
    #[must_use]
    pub fn field(mut self, label: &str, value: impl AsRef<[u8]>) -> Self {
        for part in [label.as_bytes(), value.as_ref()] {
            self.0.update((part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
        self
    }

    /// The key of the fields given so far.
    pub fn finish(self) -> Key {
        Key(self.0.finalize().into())
    }
}

impl Default for KeyBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

impl FromStr for Key {
    type Err = KeyParseError;

    fn from_str(text: &str) -> Result<Self, KeyParseError> {
        parse_hex(text.as_bytes())
            .map(Self)
            .ok_or_else(|| KeyParseError {
                found: text.to_owned(),
            })
    }
}

fn parse_hex(text: &[u8]) -> Option<[u8; 32]> {
    if text.len() != 64 {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, digits) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(digits[0])? << 4 | digit(digits[1])?;
    }
    Some(bytes)
}

/// Only lower case is a digit, so that an entry has exactly one file name.
fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_sha256_of_length_prefixed_fields() {
        let mut bytes = b"maskwright cache key 1\n".to_vec();
        bytes.extend([
            1, 0, 0, 0, 0, 0, 0, 0, b'a', 2, 0, 0, 0, 0, 0, 0, 0, b'x', b'y',
        ]);
        let expected: [u8; 32] = Sha256::digest(&bytes).into();
        assert_eq!(
            KeyBuilder::new().field("a", b"xy").finish().as_bytes(),
            &expected
        );
    }

    #[test]
    fn fields_do_not_run_into_one_another() {
        let key = |fields: &[(&str, &str)]| {
            fields
                .iter()
                .fold(KeyBuilder::new(), |builder, (label, value)| {
                    builder.field(label, value)
                })
                .finish()
        };
        let keys = [
            key(&[]),
            key(&[("", "")]),
            key(&[("ab", "c")]),
            key(&[("a", "bc")]),
            key(&[("a", "b"), ("", "c")]),
            key(&[("a", "b"), ("c", "")]),
            key(&[("c", ""), ("a", "b")]),
        ];
        for (i, left) in keys.iter().enumerate() {
            assert!(keys[i + 1..].iter().all(|right| left != right), "{i}");
        }
    }

    #[test]
    fn text_round_trips_and_has_one_spelling() {
        let key = KeyBuilder::new().finish();
        let text = key.to_string();
        assert_eq!(text.parse(), Ok(key));
        for bad in [
            &text[1..],
            &text.to_uppercase(),
            &format!("{text}0"),
            &"é".repeat(32),
            "",
        ] {
            assert_eq!(
                bad.parse::<Key>(),
                Err(KeyParseError {
                    found: bad.to_owned()
                })
            );
        }
    }
}
