//! The value types of the language, the element types of captured buffers, and typed constants.

use std::fmt;

/// The type of a value in a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ty {
    /// A truth value; `true` means *attend*.
    Bool,
    /// A signed 32-bit integer, the type of every index and size.
    I32,
    /// A signed 64-bit integer, for those who need it.
    I64,
    /// An unsigned 32-bit integer, for hashes and bit tricks.
    U32,
    /// An IEEE single.
    F32,
}

impl Ty {
    /// Whether the type is one of the three integers.
    pub fn is_int(self) -> bool {
        match self {
            Ty::I32 | Ty::I64 | Ty::U32 => true,
            Ty::Bool | Ty::F32 => false,
        }
    }

    /// Bits of an integer type (1 for `bool`, 32 for `f32`).
    pub fn bits(self) -> u32 {
        match self {
            Ty::Bool => 1,
            Ty::I32 | Ty::U32 | Ty::F32 => 32,
            Ty::I64 => 64,
        }
    }

    /// The least and greatest value of an integer type or `bool`; `None` for `f32`.
    pub fn int_range(self) -> Option<(i64, i64)> {
        match self {
            Ty::Bool => Some((0, 1)),
            Ty::I32 => Some((i64::from(i32::MIN), i64::from(i32::MAX))),
            Ty::U32 => Some((0, i64::from(u32::MAX))),
            Ty::I64 => Some((i64::MIN, i64::MAX)),
            Ty::F32 => None,
        }
    }

    /// The name that the language uses.
    pub fn name(self) -> &'static str {
        match self {
            Ty::Bool => "bool",
            Ty::I32 => "i32",
            Ty::I64 => "i64",
            Ty::U32 => "u32",
            Ty::F32 => "f32",
        }
    }

    /// Finds a type by its name.
    pub fn from_name(name: &str) -> Option<Ty> {
        [Ty::Bool, Ty::I32, Ty::I64, Ty::U32, Ty::F32]
            .into_iter()
            .find(|ty| ty.name() == name)
    }
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The element type of a captured buffer, as it lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Elem {
    /// One byte, 0 or 1.
    Bool,
    /// Packed bits, element `8 * n + j` in bit `j` of byte `n`; loads as `bool`.
    Bits,
    /// Loads as `i32`.
    I8,
    /// Loads as `i32`.
    U8,
    /// Loads as `i32`.
    I16,
    /// Loads as `i32`.
    U16,
    /// Loads as itself.
    I32,
    /// Loads as itself.
    I64,
    /// Loads as itself.
    U32,
    /// IEEE half; loads as `f32`, exactly.
    F16,
    /// bfloat16; loads as `f32`, exactly.
    Bf16,
    /// Loads as itself.
    F32,
    /// Loads as `f32`, rounded to nearest even.
    F64,
}

impl Elem {
    /// Every element type.
    pub const ALL: [Elem; 13] = [
        Elem::Bool,
        Elem::Bits,
        Elem::I8,
        Elem::U8,
        Elem::I16,
        Elem::U16,
        Elem::I32,
        Elem::I64,
        Elem::U32,
        Elem::F16,
        Elem::Bf16,
        Elem::F32,
        Elem::F64,
    ];

    /// The type of the value that a read gives.
    pub fn loads_as(self) -> Ty {
        match self {
            Elem::Bool | Elem::Bits => Ty::Bool,
            Elem::I8 | Elem::U8 | Elem::I16 | Elem::U16 | Elem::I32 => Ty::I32,
            Elem::I64 => Ty::I64,
            Elem::U32 => Ty::U32,
            Elem::F16 | Elem::Bf16 | Elem::F32 | Elem::F64 => Ty::F32,
        }
    }

    /// The least and greatest value that an integer or `bool` element can hold; `None` for floats.
    pub fn int_range(self) -> Option<(i64, i64)> {
        match self {
            Elem::Bool | Elem::Bits => Some((0, 1)),
            Elem::I8 => Some((-128, 127)),
            Elem::U8 => Some((0, 255)),
            Elem::I16 => Some((-32768, 32767)),
            Elem::U16 => Some((0, 65535)),
            Elem::I32 => Ty::I32.int_range(),
            Elem::I64 => Ty::I64.int_range(),
            Elem::U32 => Ty::U32.int_range(),
            Elem::F16 | Elem::Bf16 | Elem::F32 | Elem::F64 => None,
        }
    }

    /// The name that the language uses.
    pub fn name(self) -> &'static str {
        match self {
            Elem::Bool => "bool",
            Elem::Bits => "bits",
            Elem::I8 => "i8",
            Elem::U8 => "u8",
            Elem::I16 => "i16",
            Elem::U16 => "u16",
            Elem::I32 => "i32",
            Elem::I64 => "i64",
            Elem::U32 => "u32",
            Elem::F16 => "f16",
            Elem::Bf16 => "bf16",
            Elem::F32 => "f32",
            Elem::F64 => "f64",
        }
    }

    /// Finds an element type by its name.
    pub fn from_name(name: &str) -> Option<Elem> {
        Elem::ALL.into_iter().find(|elem| elem.name() == name)
    }
}

impl fmt::Display for Elem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A value with its type. Floats compare and hash by their bits.
#[derive(Clone, Copy)]
pub enum Const {
    /// A truth value.
    Bool(bool),
    /// A 32-bit integer.
    I32(i32),
    /// A 64-bit integer.
    I64(i64),
    /// An unsigned 32-bit integer.
    U32(u32),
    /// An IEEE single.
    F32(f32),
}

impl Const {
    /// The type of the value.
    pub fn ty(self) -> Ty {
        match self {
            Const::Bool(_) => Ty::Bool,
            Const::I32(_) => Ty::I32,
            Const::I64(_) => Ty::I64,
            Const::U32(_) => Ty::U32,
            Const::F32(_) => Ty::F32,
        }
    }

    /// An integer or truth value as `i64`; `None` for a float.
    pub fn as_int(self) -> Option<i64> {
        match self {
            Const::Bool(v) => Some(i64::from(v)),
            Const::I32(v) => Some(i64::from(v)),
            Const::I64(v) => Some(v),
            Const::U32(v) => Some(i64::from(v)),
            Const::F32(_) => None,
        }
    }

    /// The constant of integer type `ty` (or `bool`) with value `v`, if it fits.
    pub fn from_int(ty: Ty, v: i64) -> Option<Const> {
        match ty {
            Ty::Bool => match v {
                0 => Some(Const::Bool(false)),
                1 => Some(Const::Bool(true)),
                _ => None,
            },
            Ty::I32 => i32::try_from(v).ok().map(Const::I32),
            Ty::I64 => Some(Const::I64(v)),
            Ty::U32 => u32::try_from(v).ok().map(Const::U32),
            Ty::F32 => None,
        }
    }

    /// Type tag and bits: what equality, order and hashing look at.
    pub fn key(self) -> (Ty, u64) {
        let bits = match self {
            Const::Bool(v) => u64::from(v),
            Const::I32(v) => v as u32 as u64,
            Const::I64(v) => v as u64,
            Const::U32(v) => u64::from(v),
            Const::F32(v) => u64::from(v.to_bits()),
        };
        (self.ty(), bits)
    }
}

impl PartialEq for Const {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Const {}

impl std::hash::Hash for Const {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl fmt::Debug for Const {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Const {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Const::Bool(v) => write!(f, "{v}"),
            Const::I32(v) => write!(f, "{v}"),
            Const::I64(v) => write!(f, "{v}i64"),
            Const::U32(v) => write!(f, "{v}u32"),
            Const::F32(v) if *v == f32::INFINITY => f.write_str("inf"),
            Const::F32(v) if *v == f32::NEG_INFINITY => f.write_str("-inf"),
            Const::F32(v) => write!(f, "{v:?}"),
        }
    }
}
