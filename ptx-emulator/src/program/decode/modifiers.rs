//! The qualifiers of an instruction, taken one by one; one that is left over is an error.

use super::{Result, expected};
use crate::ast::Type;
use crate::program::DecodeFault;
use crate::tensor_core::format::Rounding;

/// What is left of the qualifiers.
pub(super) struct Modifiers<'a> {
    rest: Vec<&'a str>,
}

impl<'a> Modifiers<'a> {
    pub(super) fn new(names: &'a [String]) -> Self {
        Self {
            rest: names.iter().map(String::as_str).collect(),
        }
    }

    /// All that are left, in order.
    pub(super) fn rest(&self) -> &[&'a str] {
        &self.rest
    }

    /// Takes all that are left.
    pub(super) fn take_rest(&mut self) -> Vec<&'a str> {
        std::mem::take(&mut self.rest)
    }

    /// Takes one if it is there.
    pub(super) fn flag(&mut self, name: &str) -> bool {
        let position = self.rest.iter().position(|rest| *rest == name);
        if let Some(position) = position {
            self.rest.remove(position);
        }
        position.is_some()
    }

    /// Takes the first that means something to `pick`.
    pub(super) fn pick<T>(&mut self, pick: impl Fn(&str) -> Option<T>) -> Option<T> {
        let (position, value) = self
            .rest
            .iter()
            .enumerate()
            .find_map(|(i, name)| pick(name).map(|value| (i, value)))?;
        self.rest.remove(position);
        Some(value)
    }

    /// Takes the first type.
    pub(super) fn ty(&mut self) -> Result<Type> {
        let found = self.rest.join(".");
        self.pick(type_named)
            .ok_or_else(|| expected("a type", found))
    }

    /// Takes a rounding of floats.
    pub(super) fn rounding(&mut self) -> Option<Rounding> {
        self.pick(|name| {
            Some(match name {
                "rn" => Rounding::NearestEven,
                "rna" => Rounding::NearestAway,
                "rz" => Rounding::Zero,
                "rm" => Rounding::Down,
                "rp" => Rounding::Up,
                _ => return None,
            })
        })
    }

    /// What is left must be nothing.
    pub(super) fn finish(self) -> Result<()> {
        match self.rest.first() {
            Some(qualifier) => Err(DecodeFault::Qualifier {
                qualifier: (*qualifier).to_owned(),
            }),
            None => Ok(()),
        }
    }
}

/// The type of a name.
pub(super) fn type_named(name: &str) -> Option<Type> {
    Some(match name {
        "b8" => Type::B8,
        "b16" => Type::B16,
        "b32" => Type::B32,
        "b64" => Type::B64,
        "b128" => Type::B128,
        "u8" => Type::U8,
        "u16" => Type::U16,
        "u32" => Type::U32,
        "u64" => Type::U64,
        "s8" => Type::S8,
        "s16" => Type::S16,
        "s32" => Type::S32,
        "s64" => Type::S64,
        "f16" => Type::F16,
        "f16x2" => Type::F16x2,
        "bf16" => Type::Bf16,
        "bf16x2" => Type::Bf16x2,
        "tf32" => Type::Tf32,
        "f32" => Type::F32,
        "f64" => Type::F64,
        "e4m3" => Type::E4m3,
        "e5m2" => Type::E5m2,
        "e4m3x2" => Type::E4m3x2,
        "e5m2x2" => Type::E5m2x2,
        "pred" => Type::Pred,
        _ => return None,
    })
}

/// Bytes of a value.
pub(super) fn bytes(ty: Type) -> u32 {
    match ty {
        Type::B8 | Type::U8 | Type::S8 | Type::E4m3 | Type::E5m2 | Type::Pred => 1,
        Type::B16
        | Type::U16
        | Type::S16
        | Type::F16
        | Type::Bf16
        | Type::E4m3x2
        | Type::E5m2x2 => 2,
        Type::B32 | Type::U32 | Type::S32 | Type::F32 | Type::F16x2 | Type::Bf16x2 | Type::Tf32 => {
            4
        }
        Type::B64 | Type::U64 | Type::S64 | Type::F64 => 8,
        Type::B128 => 16,
    }
}
