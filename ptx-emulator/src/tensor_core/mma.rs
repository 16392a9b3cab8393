//! `mma.sync`: a warp's matrix product, 16 rows by 8 columns, from registers to registers.
use super::Lanes;
use super::dense::{self, Bf16, Decode, E4m3, E5m2, F16, Tf32};

/// The type of a multiplicand's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of the ISA")]
pub enum Element {
    F16,
    Bf16,
    Tf32,
    E4m3,
    E5m2,
    S8,
    U8,
}

impl Element {
    /// Parses a type's name, without the dot.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "f16" => Self::F16,
            "bf16" => Self::Bf16,
            "tf32" => Self::Tf32,
            "e4m3" => Self::E4m3,
            "e5m2" => Self::E5m2,
            "s8" => Self::S8,
            "u8" => Self::U8,
            _ => return None,
        })
    }

    /// Bytes of an element.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Tf32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::E4m3 | Self::E5m2 | Self::S8 | Self::U8 => 1,
        }
    }

    /// Whether it is one of the two 8-bit floats, which may be mixed.
    pub(super) const fn is_fp8(self) -> bool {
        matches!(self, Self::E4m3 | Self::E5m2)
    }

    /// Whether it is one of the two 8-bit integers, which may be mixed.
    pub(super) const fn is_integer(self) -> bool {
        matches!(self, Self::S8 | Self::U8)
    }
}

/// The type of the accumulators' elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of the ISA")]
pub enum Accumulator {
    F16,
    F32,
    S32,
}

impl Accumulator {
    /// Parses a type's name, without the dot.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "f16" => Self::F16,
            "f32" => Self::F32,
            "s32" => Self::S32,
            _ => return None,
        })
    }
}

/// A form of `mma.sync` of shape `m16n8k…`, with A by rows and B by columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MmaOp {
    k: u32,
    a: Element,
    b: Element,
    c: Accumulator,
    d: Accumulator,
    saturate: bool,
}

impl MmaOp {
    /// Parses what follows `mma.`: `sync`, `aligned`, the shape, `row`, `col`, and the types of D, A, B and C.
    ///
    /// `None` for a form that the ISA does not have or that is not supported here (`f64`, 4-bit and 1-bit types, `m8n8k4`, sparse).
    pub fn parse<S: AsRef<str>>(modifiers: &[S]) -> Option<Self> {
        let names: Vec<&str> = modifiers
            .iter()
            .map(AsRef::as_ref)
            .filter(|name| *name != "kind::f8f6f4")
            .collect();
        let (saturate, types) = match names.as_slice() {
            ["sync", "aligned", _, "row", "col", "satfinite", types @ ..] => (true, types),
            ["sync", "aligned", _, "row", "col", types @ ..] => (false, types),
            _ => return None,
        };
        let [d, a, b, c] = types else { return None };
        let k = match names[2] {
            "m16n8k4" => 4,
            "m16n8k8" => 8,
            "m16n8k16" => 16,
            "m16n8k32" => 32,
            _ => return None,
        };
        let (a, b) = (Element::parse(a)?, Element::parse(b)?);
        let (c, d) = (Accumulator::parse(c)?, Accumulator::parse(d)?);
        let of_floats = c != Accumulator::S32 && d != Accumulator::S32;
        let in_f32 = c == Accumulator::F32 && d == Accumulator::F32;
        let exists = match (a, b) {
            (Element::F16, Element::F16) => matches!(k, 8 | 16) && of_floats,
            (Element::Bf16, Element::Bf16) => matches!(k, 8 | 16) && in_f32,
            (Element::Tf32, Element::Tf32) => matches!(k, 4 | 8) && in_f32,
            _ if a.is_fp8() && b.is_fp8() => matches!(k, 16 | 32) && of_floats,
            _ if a.is_integer() && b.is_integer() => {
                matches!(k, 16 | 32) && c == Accumulator::S32 && d == Accumulator::S32
            }
            _ => false,
        };
        let op = Self {
            k,
            a,
            b,
            c,
            d,
            saturate,
        };
        (exists && (!saturate || a.is_integer())).then_some(op)
    }

    /// How many 32-bit registers the operands have: A, B, C and D.
    pub fn registers(&self) -> (usize, usize, usize, usize) {
        let b = (self.k * self.a.bytes() / 16) as usize;
        let of = |accumulator| {
            if accumulator == Accumulator::F16 {
                2
            } else {
                4
            }
        };
        (2 * b, b, of(self.c), of(self.d))
    }

    /// Multiplications with an addition, of the whole warp.
    pub fn multiply_adds(&self) -> u64 {
        16 * 8 * u64::from(self.k)
    }
}

/// Computes `D = A B + C`.
///
/// # Panics
/// If the numbers of registers are not those of [`MmaOp::registers`].
pub fn mma(op: &MmaOp, a: &[Lanes], b: &[Lanes], c: &[Lanes], d: &mut [Lanes]) {
    let (a_count, b_count, c_count, d_count) = op.registers();
    assert!(
        (a.len(), b.len(), c.len(), d.len()) == (a_count, b_count, c_count, d_count),
        "mma: expected {:?} registers for A, B, C, D, found {:?}",
        op.registers(),
        (a.len(), b.len(), c.len(), d.len())
    );
    match (op.a, op.b, op.k) {
        (Element::F16, _, 8) => floats::<8, F16, F16>(op, a, b, c, d),
        (Element::F16, _, _) => floats::<16, F16, F16>(op, a, b, c, d),
        (Element::Bf16, _, 8) => floats::<8, Bf16, Bf16>(op, a, b, c, d),
        (Element::Bf16, _, _) => floats::<16, Bf16, Bf16>(op, a, b, c, d),
        (Element::Tf32, _, 4) => floats::<4, Tf32, Tf32>(op, a, b, c, d),
        (Element::Tf32, _, _) => floats::<8, Tf32, Tf32>(op, a, b, c, d),
        (Element::E4m3, Element::E4m3, 16) => floats::<16, E4m3, E4m3>(op, a, b, c, d),
        (Element::E4m3, Element::E4m3, _) => floats::<32, E4m3, E4m3>(op, a, b, c, d),
        (Element::E4m3, _, 16) => floats::<16, E4m3, E5m2>(op, a, b, c, d),
        (Element::E4m3, _, _) => floats::<32, E4m3, E5m2>(op, a, b, c, d),
        (Element::E5m2, Element::E4m3, 16) => floats::<16, E5m2, E4m3>(op, a, b, c, d),
        (Element::E5m2, Element::E4m3, _) => floats::<32, E5m2, E4m3>(op, a, b, c, d),
        (Element::E5m2, _, 16) => floats::<16, E5m2, E5m2>(op, a, b, c, d),
        (Element::E5m2, _, _) => floats::<32, E5m2, E5m2>(op, a, b, c, d),
        (Element::S8 | Element::U8, _, 16) => integers::<16>(op, a, b, c, d),
        (Element::S8 | Element::U8, _, _) => integers::<32>(op, a, b, c, d),
    }
}

#[inline]
fn floats<const K: usize, A: Decode, B: Decode>(
    op: &MmaOp,
    a: &[Lanes],
    b: &[Lanes],
    c: &[Lanes],
    d: &mut [Lanes],
) {
    let (a, b) = (dense::decode_a::<K, A>(a), dense::decode_b::<K, B>(b));
    let mut accumulator = match op.c {
        Accumulator::F16 => dense::load_f16(c.try_into().expect("the caller counted registers")),
        Accumulator::F32 | Accumulator::S32 => {
            dense::load_f32(c.try_into().expect("the caller counted registers"))
        }
    };
    dense::multiply_add(&a, &b, &mut accumulator);
    match op.d {
        Accumulator::F16 => dense::store_f16(
            &accumulator,
            d.try_into().expect("the caller counted registers"),
        ),
        Accumulator::F32 | Accumulator::S32 => dense::store_f32(
            &accumulator,
            d.try_into().expect("the caller counted registers"),
        ),
    }
}

fn integers<const K: usize>(op: &MmaOp, a: &[Lanes], b: &[Lanes], c: &[Lanes], d: &mut [Lanes]) {
    let value = |element: Element, word: u32, j: usize| {
        let byte = (word >> (8 * j)) as u8;
        if element == Element::S8 {
            i32::from(byte as i8)
        } else {
            i32::from(byte)
        }
    };
    for m in 0..16 {
        for n in 0..8 {
            let sum: i32 = (0..K)
                .map(|k| {
                    // Register i, lane 4 g + t, element j hold k = 16 i + 4 t + j.
                    let (i, t, j) = (k / 16, k / 4 % 4, k % 4);
                    value(op.a, a[2 * i + m / 8][4 * (m % 8) + t], j)
                        * value(op.b, b[i][4 * n + t], j)
                })
                .sum();
            let (register, lane) = (2 * (m / 8) + n % 2, 4 * (m % 8) + n / 2);
            let start = c[register][lane] as i32;
            d[register][lane] = if op.saturate {
                start.saturating_add(sum)
            } else {
                start.wrapping_add(sum)
            } as u32;
        }
    }
}

#[cfg(test)]
mod tests;
