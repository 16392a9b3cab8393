//! Comparisons: a mask of the lanes where they hold.

use super::{Lanes32, Lanes64};
use crate::tensor_core::format::{bf16_to_f32, f16_to_f32};

/// How two values compare. The `u` forms also hold where one is NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    /// Both are numbers.
    Num,
    /// One is NaN.
    Nan,
}

/// What the bits of the operands mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    U32,
    S32,
    U16,
    S16,
    U64,
    S64,
    F32,
    F32Ftz,
    F64,
    F16,
    Bf16,
    /// The upper half of a pair.
    F16High,
    Bf16High,
}

fn collect<T: Copy>(a: &[T; 32], b: &[T; 32], holds: impl Fn(T, T) -> bool) -> u32 {
    let mut bytes = [0u8; 32];
    for lane in 0..32 {
        bytes[lane] = u8::from(holds(a[lane], b[lane]));
    }
    let mut mask = 0;
    for (group, bytes) in bytes.chunks_exact(8).enumerate() {
        let word = u64::from_le_bytes(bytes.try_into().expect("a chunk of eight"));
        // Gathers the low bits of eight bytes into the top byte.
        mask |= ((word.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32) << (8 * group);
    }
    mask
}

fn integers<T: Copy, U: Ord>(
    relation: Relation,
    a: &[T; 32],
    b: &[T; 32],
    read: impl Fn(T) -> U,
) -> u32 {
    match relation {
        Relation::Eq | Relation::Equ => collect(a, b, |x, y| read(x) == read(y)),
        Relation::Ne | Relation::Neu => collect(a, b, |x, y| read(x) != read(y)),
        Relation::Lt | Relation::Ltu => collect(a, b, |x, y| read(x) < read(y)),
        Relation::Le | Relation::Leu => collect(a, b, |x, y| read(x) <= read(y)),
        Relation::Gt | Relation::Gtu => collect(a, b, |x, y| read(x) > read(y)),
        Relation::Ge | Relation::Geu => collect(a, b, |x, y| read(x) >= read(y)),
        Relation::Num => u32::MAX,
        Relation::Nan => 0,
    }
}

fn floats<T: Copy, U: PartialOrd>(
    relation: Relation,
    a: &[T; 32],
    b: &[T; 32],
    read: impl Fn(T) -> U,
) -> u32 {
    let unordered = |x: &U, y: &U| x.partial_cmp(y).is_none();
    match relation {
        Relation::Eq => collect(a, b, |x, y| read(x) == read(y)),
        Relation::Ne => collect(a, b, |x, y| read(x) < read(y) || read(x) > read(y)),
        Relation::Lt => collect(a, b, |x, y| read(x) < read(y)),
        Relation::Le => collect(a, b, |x, y| read(x) <= read(y)),
        Relation::Gt => collect(a, b, |x, y| read(x) > read(y)),
        Relation::Ge => collect(a, b, |x, y| read(x) >= read(y)),
        Relation::Equ => !floats(Relation::Ne, a, b, read),
        Relation::Neu => !floats(Relation::Eq, a, b, read),
        Relation::Ltu => !floats(Relation::Ge, a, b, read),
        Relation::Leu => !floats(Relation::Gt, a, b, read),
        Relation::Gtu => !floats(Relation::Le, a, b, read),
        Relation::Geu => !floats(Relation::Lt, a, b, read),
        Relation::Num => collect(a, b, |x, y| !unordered(&read(x), &read(y))),
        Relation::Nan => collect(a, b, |x, y| unordered(&read(x), &read(y))),
    }
}

/// Compares 32-bit registers.
pub(crate) fn compare32(kind: Kind, relation: Relation, a: &Lanes32, b: &Lanes32) -> u32 {
    match kind {
        Kind::U32 | Kind::U64 | Kind::S64 | Kind::F64 => integers(relation, a, b, |x| x),
        Kind::S32 => integers(relation, a, b, |x| x as i32),
        Kind::U16 => integers(relation, a, b, |x| x as u16),
        Kind::S16 => integers(relation, a, b, |x| x as i16),
        Kind::F32 => floats(relation, a, b, f32::from_bits),
        Kind::F32Ftz => floats(relation, a, b, |x| super::round::flush(f32::from_bits(x))),
        Kind::F16 => floats(relation, a, b, |x| f16_to_f32(x as u16)),
        Kind::Bf16 => floats(relation, a, b, |x| bf16_to_f32(x as u16)),
        Kind::F16High => floats(relation, a, b, |x| f16_to_f32((x >> 16) as u16)),
        Kind::Bf16High => floats(relation, a, b, |x| bf16_to_f32((x >> 16) as u16)),
    }
}

/// Compares 64-bit registers.
pub(crate) fn compare64(kind: Kind, relation: Relation, a: &Lanes64, b: &Lanes64) -> u32 {
    match kind {
        Kind::S64 => integers(relation, a, b, |x| x as i64),
        Kind::F64 => floats(relation, a, b, f64::from_bits),
        Kind::U64
        | Kind::U32
        | Kind::S32
        | Kind::U16
        | Kind::S16
        | Kind::F32
        | Kind::F32Ftz
        | Kind::F16
        | Kind::Bf16
        | Kind::F16High
        | Kind::Bf16High => integers(relation, a, b, |x| x),
    }
}

/// What `testp` asks of a float.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Property {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

impl Property {
    fn holds(self, value: f64, subnormal: bool) -> bool {
        match self {
            Self::Finite => value.is_finite(),
            Self::Infinite => value.is_infinite(),
            Self::Number => !value.is_nan(),
            Self::NotANumber => value.is_nan(),
            Self::Normal => value.is_finite() && value != 0.0 && !subnormal,
            Self::Subnormal => subnormal,
        }
    }

    /// Lanes of an `f32` register where it holds.
    pub(crate) fn test32(self, a: &Lanes32) -> u32 {
        collect(a, a, |x, _| {
            self.holds(
                f64::from(f32::from_bits(x)),
                f32::from_bits(x).is_subnormal(),
            )
        })
    }

    /// Lanes of an `f64` register where it holds.
    pub(crate) fn test64(self, a: &Lanes64) -> u32 {
        collect(a, a, |x, _| {
            self.holds(f64::from_bits(x), f64::from_bits(x).is_subnormal())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_land_on_their_bits() {
        let a: Lanes32 = std::array::from_fn(|lane| u32::from(lane % 3 == 0));
        let expected = (0..32)
            .filter(|lane| lane % 3 == 0)
            .map(|lane| 1u32 << lane)
            .sum();
        assert_eq!(compare32(Kind::U32, Relation::Eq, &a, &[1; 32]), expected);
    }

    #[test]
    fn unordered_relations_hold_for_nan() {
        let nan = [f32::NAN.to_bits(); 32];
        let one = [1f32.to_bits(); 32];
        for (relation, holds) in [
            (Relation::Ne, 0),
            (Relation::Neu, u32::MAX),
            (Relation::Ltu, u32::MAX),
            (Relation::Ge, 0),
        ] {
            assert_eq!(
                compare32(Kind::F32, relation, &nan, &one),
                holds,
                "{relation:?}"
            );
        }
    }
}
