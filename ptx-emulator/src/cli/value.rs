//! Arguments of a kernel, as text gives them.

use std::path::PathBuf;
use std::str::FromStr;

/// An argument of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// A number, in the bytes that it takes as a parameter, low byte first.
    Number {
        /// `i32`, say.
        kind: &'static str,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// The bytes of a file, passed by value.
    Bytes(PathBuf),
    /// A pointer to the contents of a file.
    In(PathBuf),
    /// The same, and what the kernel makes of it is written to the second file.
    InOut(PathBuf, PathBuf),
    /// A pointer to so many bytes that nothing has written, and the file that takes them.
    Out(u64, Option<PathBuf>),
}

impl FromStr for Value {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const KINDS: &str = "i32, u32, i64, u64, f32, f64, bytes, in, inout or out";
        let Some((kind, value)) = text.split_once(':') else {
            return Err(format!("expected KIND:VALUE, with {KINDS} as the kind"));
        };
        match kind {
            "i32" => number("i32", value, i32::to_le_bytes),
            "u32" => number("u32", value, u32::to_le_bytes),
            "i64" => number("i64", value, i64::to_le_bytes),
            "u64" => number("u64", value, u64::to_le_bytes),
            "f32" => number("f32", value, f32::to_le_bytes),
            "f64" => number("f64", value, f64::to_le_bytes),
            "bytes" => Ok(Self::Bytes(file(value)?)),
            "in" => Ok(Self::In(file(value)?)),
            "inout" => match value.split_once('=') {
                Some((from, to)) => Ok(Self::InOut(file(from)?, file(to)?)),
                None => Ok(Self::InOut(file(value)?, file(value)?)),
            },
            "out" => {
                let (bytes, to) = match value.split_once('=') {
                    Some((bytes, to)) => (bytes, Some(file(to)?)),
                    None => (value, None),
                };
                let bytes = bytes.parse();
                let bytes = bytes.map_err(|_| format!("expected out:BYTES, found `{value}`"))?;
                Ok(Self::Out(bytes, to))
            }
            _ => Err(format!("expected {KINDS}, found `{kind}`")),
        }
    }
}

fn number<T: FromStr, const BYTES: usize>(
    kind: &'static str,
    text: &str,
    to_bytes: impl Fn(T) -> [u8; BYTES],
) -> Result<Value, String> {
    match text.parse() {
        Ok(number) => Ok(Value::Number {
            kind,
            bytes: to_bytes(number).to_vec(),
        }),
        Err(_) => Err(format!("expected a number of type {kind}, found `{text}`")),
    }
}

fn file(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() {
        return Err("expected the name of a file".to_owned());
    }
    Ok(PathBuf::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<Value, &str>) {
        assert_eq!(text.parse(), expected.map_err(str::to_owned));
    }

    #[test]
    fn arguments_have_many_forms() {
        let number = |kind, bytes: &[u8]| {
            Ok(Value::Number {
                kind,
                bytes: bytes.to_vec(),
            })
        };
        check("i32:-2", number("i32", &[254, 255, 255, 255]));
        check("u64:3", number("u64", &[3, 0, 0, 0, 0, 0, 0, 0]));
        check("f32:1", number("f32", &[0, 0, 128, 63]));
        check("in:a.npy", Ok(Value::In("a.npy".into())));
        check("inout:a", Ok(Value::InOut("a".into(), "a".into())));
        check("inout:a=b", Ok(Value::InOut("a".into(), "b".into())));
        check("out:16", Ok(Value::Out(16, None)));
        check("out:16=b", Ok(Value::Out(16, Some("b".into()))));
    }

    #[test]
    fn faults_say_what_was_expected() {
        check("u32:-1", Err("expected a number of type u32, found `-1`"));
        check("out:x", Err("expected out:BYTES, found `x`"));
        check("in:", Err("expected the name of a file"));
        let kinds = "i32, u32, i64, u64, f32, f64, bytes, in, inout or out";
        check("int:1", Err(&format!("expected {kinds}, found `int`")));
    }
}
