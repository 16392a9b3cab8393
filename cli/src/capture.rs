//! `--set` and `--capture`: texts and files become captured values.

use std::sync::Arc;

use maskwright::CapturedBuffer;
use maskwright::tensor::{Tensor, TensorData, read_tensor};
use maskwright_dsl::capture::{BufferData, CaptureValue};
use maskwright_dsl::ir::{Const, Elem, Ty};

use crate::error::CliError;

/// One `--set`.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// One `--capture`, read.
#[derive(Clone, Debug)]
pub(crate) struct FileCapture {
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) buffer: CapturedBuffer,
}

/// Everything that the flags give a value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    pub(crate) settings: Vec<Setting>,
    pub(crate) files: Vec<FileCapture>,
}

impl Given {
    /// Splits the flags and reads the files.
    pub(crate) fn read(set: &[String], capture: &[String]) -> Result<Self, CliError> {
        let mut given = Self::default();
        let mut names: Vec<String> = Vec::new();
        let mut fresh = |name: &str| {
            if names.iter().any(|known| known == name) {
                return Err(CliError::Twice {
                    name: name.to_owned(),
                });
            }
            names.push(name.to_owned());
            Ok(())
        };
        for text in set {
            let (name, value) = split("--set", "VALUE", text)?;
            fresh(name)?;
            given.settings.push(Setting {
                name: name.to_owned(),
                text: value.to_owned(),
            });
        }
        for text in capture {
            let (name, file) = split("--capture", "FILE", text)?;
            fresh(name)?;
            let tensor = read_tensor(file).map_err(|source| CliError::Tensor {
                what: format!("capture {name} cannot be read"),
                source: Box::new(source),
            })?;
            given.files.push(FileCapture {
                name: name.to_owned(),
                file: file.to_owned(),
                buffer: buffer_of(name, tensor)?,
            });
        }
        Ok(given)
    }

    pub(crate) fn setting(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.name == name)
    }

    pub(crate) fn file(&self, name: &str) -> Option<&FileCapture> {
        self.files.iter().find(|file| file.name == name)
    }

    /// Every name that was given a value.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let settings = self.settings.iter().map(|setting| setting.name.as_str());
        settings.chain(self.files.iter().map(|file| file.name.as_str()))
    }
}

fn split<'a>(
    flag: &'static str,
    value: &'static str,
    text: &'a str,
) -> Result<(&'a str, &'a str), CliError> {
    text.split_once('=')
        .map(|(name, value)| (name.trim(), value.trim()))
        .filter(|(name, value)| crate::bucket::is_name(name) && !value.is_empty())
        .ok_or_else(|| CliError::NotAPair {
            flag,
            value,
            found: text.to_owned(),
        })
}

impl Setting {
    /// The value, as a scalar of a declared type.
    pub(crate) fn value(&self, ty: Ty) -> Result<Const, CliError> {
        scalar(&self.text, ty).ok_or_else(|| CliError::Value {
            name: self.name.clone(),
            expected: format!("a value of type {ty}"),
            found: self.text.clone(),
        })
    }

    /// The type that the text has as a literal.
    pub(crate) fn literal_ty(&self) -> Result<Ty, CliError> {
        let text = &self.text;
        let ty = if text == "true" || text == "false" {
            Ty::Bool
        } else if let Some(ty) = suffix(text) {
            ty
        } else if is_whole(text) {
            Ty::I32
        } else {
            Ty::F32
        };
        match scalar(text, ty) {
            Some(_) => Ok(ty),
            None => Err(CliError::Value {
                name: self.name.clone(),
                expected: match ty {
                    Ty::I32 => "an i32 (write 7i64 or 7u32 for other types)".to_owned(),
                    Ty::F32 => "a number, true, false or inf".to_owned(),
                    Ty::I64 | Ty::U32 | Ty::Bool => format!("a value of type {ty}"),
                },
                found: text.clone(),
            }),
        }
    }
}

/// Whether a text is written as an integer, however large.
fn is_whole(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let decimal = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.chars().all(|c| c.is_ascii_digit() || c == '_');
    decimal || integer(text).is_some()
}

/// The type that ends a number.
fn suffix(text: &str) -> Option<Ty> {
    let hexadecimal = text.trim_start_matches('-').starts_with("0x");
    [Ty::I32, Ty::I64, Ty::U32, Ty::F32]
        .into_iter()
        .filter(|ty| !(hexadecimal && *ty == Ty::F32))
        .find(|ty| {
            let number = text.strip_suffix(ty.name());
            number.is_some_and(|number| {
                number.ends_with(|c: char| c.is_ascii_hexdigit() || c == '_' || c == '.')
            })
        })
}

/// An integer as the language writes it, without a suffix.
pub(crate) fn integer(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let digits = digits.replace('_', "");
    let value = if let Some(hex) = digits.strip_prefix("0x") {
        i128::from_str_radix(hex, 16)
    } else if let Some(bits) = digits.strip_prefix("0b") {
        i128::from_str_radix(bits, 2)
    } else {
        digits.parse::<i128>()
    };
    i64::try_from(sign * value.ok()?).ok()
}

/// A text as a scalar of a type.
pub(crate) fn scalar(text: &str, ty: Ty) -> Option<Const> {
    let text = match suffix(text) {
        Some(found) if found == ty => &text[..text.len() - ty.name().len()],
        Some(_) => return None,
        None => text,
    };
    match ty {
        Ty::Bool => text.parse().ok().map(Const::Bool),
        Ty::I32 | Ty::I64 | Ty::U32 => Const::from_int(ty, integer(text)?),
        Ty::F32 => {
            let text = text.replace('_', "");
            let value: f32 = text.parse().ok()?;
            // Digits that no f32 holds would silently mean infinity.
            let finite = text.contains(|c: char| c.is_ascii_digit());
            (value.is_finite() || !finite).then_some(Const::F32(value))
        }
    }
}

impl FileCapture {
    /// The file as a buffer of a declared element type.
    pub(crate) fn as_buffer(&self, elem: Elem) -> Result<CaptureValue, CliError> {
        Ok(CaptureValue::Buffer(self.convert(elem)?))
    }

    /// The file as one scalar.
    pub(crate) fn as_scalar(&self, ty: Ty) -> Result<CaptureValue, CliError> {
        let elem = match ty {
            Ty::Bool => Elem::Bool,
            Ty::I32 => Elem::I32,
            Ty::I64 => Elem::I64,
            Ty::U32 => Elem::U32,
            Ty::F32 => Elem::F32,
        };
        if !self.buffer.shape().is_empty() {
            return Err(CliError::NotAScalar {
                name: self.name.clone(),
                shape: self.buffer.shape().to_vec(),
            });
        }
        let value = self.convert(elem)?.load(&[]);
        Ok(CaptureValue::Scalar(
            value.expect("a buffer without axes has one element"),
        ))
    }

    fn convert(&self, elem: Elem) -> Result<CapturedBuffer, CliError> {
        self.buffer
            .convert(elem)
            .map_err(|source| CliError::Convert {
                name: self.name.clone(),
                file: self.file.clone(),
                source: Box::new(source),
            })
    }

    /// The element type that a bare expression sees: integers are `i32` where they fit, as those of the language are.
    pub(crate) fn free_elem(&self) -> Elem {
        let wide = matches!(self.buffer.elem(), Elem::I64 | Elem::U32);
        let within = |(lo, hi): (i64, i64)| i64::from(i32::MIN) <= lo && hi <= i64::from(i32::MAX);
        if wide && self.buffer.int_range().is_none_or(within) {
            Elem::I32
        } else {
            self.buffer.elem()
        }
    }
}

/// The elements of a file, shared with the rule language.
fn buffer_of(name: &str, tensor: Tensor) -> Result<CapturedBuffer, CliError> {
    let data = match tensor.data {
        TensorData::Bool(v) => BufferData::Bool(v),
        TensorData::I8(v) => BufferData::I8(v),
        TensorData::U8(v) => BufferData::U8(v),
        TensorData::I16(v) => BufferData::I16(v),
        TensorData::U16(v) => BufferData::U16(v),
        TensorData::I32(v) => BufferData::I32(v),
        TensorData::U32(v) => BufferData::U32(v),
        TensorData::I64(v) => BufferData::I64(v),
        TensorData::U64(v) => BufferData::I64(signed(name, &v)?),
        TensorData::F16(v) => BufferData::F16(v),
        TensorData::BF16(v) => BufferData::Bf16(v),
        TensorData::F32(v) => BufferData::F32(v),
        TensorData::F64(v) => BufferData::F64(v),
    };
    CapturedBuffer::new(data, tensor.shape).map_err(|source| CliError::Convert {
        name: name.to_owned(),
        file: "its file".to_owned(),
        source: Box::new(source),
    })
}

fn signed(name: &str, values: &[u64]) -> Result<Arc<[i64]>, CliError> {
    let each = values.iter().enumerate().map(|(at, &value)| {
        i64::try_from(value).map_err(|_| CliError::Element {
            name: name.to_owned(),
            dtype: maskwright::tensor::Dtype::U64,
            value,
            at,
        })
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &str) -> Option<Const> {
        let setting = Setting {
            name: "x".to_owned(),
            text: text.to_owned(),
        };
        setting.value(setting.literal_ty().ok()?).ok()
    }

    #[test]
    fn literals_have_the_types_of_the_language() {
        assert_eq!(literal("4"), Some(Const::I32(4)));
        assert_eq!(literal("-1_000"), Some(Const::I32(-1000)));
        assert_eq!(literal("0x1f32"), Some(Const::I32(0x1f32)));
        assert_eq!(literal("7i64"), Some(Const::I64(7)));
        assert_eq!(literal("7u32"), Some(Const::U32(7)));
        assert_eq!(literal("0.5"), Some(Const::F32(0.5)));
        assert_eq!(literal("1e-3"), Some(Const::F32(1e-3)));
        assert_eq!(literal("2f32"), Some(Const::F32(2.0)));
        assert_eq!(literal("-inf"), Some(Const::F32(f32::NEG_INFINITY)));
        assert_eq!(literal("true"), Some(Const::Bool(true)));
        for bad in [
            "",
            "four",
            "3000000000",
            "-1u32",
            "1e99",
            "99999999999999999999",
        ] {
            assert_eq!(literal(bad), None, "{bad}");
        }
    }

    #[test]
    fn declared_types_decide() {
        assert_eq!(scalar("4", Ty::F32), Some(Const::F32(4.0)));
        assert_eq!(
            scalar("3000000000", Ty::I64),
            Some(Const::I64(3_000_000_000))
        );
        assert_eq!(scalar("0.5", Ty::I32), None);
        assert_eq!(scalar("4i64", Ty::I32), None);
        assert_eq!(scalar("1", Ty::Bool), None);
    }
}
