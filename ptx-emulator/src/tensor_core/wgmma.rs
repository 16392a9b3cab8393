//! `wgmma.mma_async`: a matrix product of 64 rows by up to 256 columns, by the four warps of a warp group.
use std::ops::Range;

use super::Lanes;
use super::dense::{self, Bf16, Decode, E4m3, E5m2, F16, OctetB, RowsA, Tf32};
use super::descriptor::{Descriptor, Major};
use super::mma::{Accumulator, Element};

/// Shared memory as a tensor core reads it.
pub trait SharedBytes {
    /// The 16 bytes at an address, which is a multiple of 16 but may lie beyond the end.
    fn read16(&mut self, address: u32) -> [u8; 16];
}

impl<F: FnMut(u32) -> [u8; 16]> SharedBytes for F {
    fn read16(&mut self, address: u32) -> [u8; 16] {
        self(address)
    }
}

/// A form of `wgmma.mma_async` of shape `m64n…k…` on floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WgmmaOp {
    n: u32,
    k: u32,
    a: Element,
    b: Element,
    d: Accumulator,
}

/// What the operands after the matrices say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Immediates {
    /// Whether D is added to (`scale-d` true) or replaced.
    pub accumulate: bool,
    /// Whether `imm-scale-a` is -1.
    pub negate_a: bool,
    /// Whether `imm-scale-b` is -1.
    pub negate_b: bool,
    /// What `imm-trans-a` says, for a matrix in shared memory.
    pub a_major: Major,
    /// What `imm-trans-b` says.
    pub b_major: Major,
}

/// Where A is.
#[derive(Clone, Copy, Debug)]
pub enum OperandA<'r> {
    /// In shared memory
    Shared(Descriptor),
    /// In registers, four of each warp
    Registers(&'r [[Lanes; 4]; 4]),
}

impl WgmmaOp {
    /// Parses what follows `wgmma.`: `mma_async`, `sync`, `aligned`, the shape, and the types of D, A and B.
    ///
    /// `None` for a form that the ISA does not have or that is not supported here (integers, single bits, sparse).
    pub fn parse<S: AsRef<str>>(modifiers: &[S]) -> Option<Self> {
        let names: Vec<&str> = modifiers.iter().map(AsRef::as_ref).collect();
        let ["mma_async", "sync", "aligned", shape, d, a, b] = names.as_slice() else {
            return None;
        };
        let (n, k) = shape.strip_prefix("m64n")?.split_once('k')?;
        let (n, k): (u32, u32) = (n.parse().ok()?, k.parse().ok()?);
        let (a, b, d) = (
            Element::parse(a)?,
            Element::parse(b)?,
            Accumulator::parse(d)?,
        );
        let types_exist = match (a, b) {
            (Element::F16, Element::F16) => d != Accumulator::S32,
            (Element::Bf16, Element::Bf16) | (Element::Tf32, Element::Tf32) => {
                d == Accumulator::F32
            }
            _ => a.is_fp8() && b.is_fp8() && d != Accumulator::S32,
        };
        let shape_exists = n % 8 == 0 && (8..=256).contains(&n) && k * a.bytes() == 32;
        (types_exist && shape_exists).then_some(Self { n, k, a, b, d })
    }

    /// 32-bit registers of D in each warp.
    pub fn accumulators(&self) -> usize {
        (if self.d == Accumulator::F16 {
            self.n / 4
        } else {
            self.n / 2
        }) as usize
    }

    /// Columns of B and D.
    pub fn columns(&self) -> u32 {
        self.n
    }

    /// Whether the form takes transpose immediates, which only 16-bit types have.
    pub fn has_transpose(&self) -> bool {
        self.a.bytes() == 2
    }

    /// Multiplications with an addition, of the whole warp group.
    pub fn multiply_adds(&self) -> u64 {
        64 * u64::from(self.n) * u64::from(self.k)
    }

    /// Bytes of shared memory that A consists of, in order; empty if it is in registers.
    pub fn footprint_a(&self, immediates: Immediates, a: &OperandA) -> Vec<Range<u32>> {
        match a {
            OperandA::Shared(descriptor) => {
                descriptor.footprint(immediates.a_major, 64, self.k, self.a.bytes())
            }
            OperandA::Registers(_) => Vec::new(),
        }
    }

    /// Bytes of shared memory that B consists of, in order.
    pub fn footprint_b(&self, immediates: Immediates, b: &Descriptor) -> Vec<Range<u32>> {
        b.footprint(immediates.b_major, self.n, self.k, self.b.bytes())
    }
}

/// Computes `D = A B + D` or `D = A B`: `d` holds [`WgmmaOp::accumulators`] registers of each of the four warps, warp 0 first.
///
/// Warp `w` has rows `16 w` to `16 w + 15`, in fragments like those of `mma`: register `4 i + 2 h + p`, lane `4 g + t` holds row
/// `g + 8 h` and column `8 i + 2 t + p`.
///
/// # Panics
/// If a warp's number of registers is not [`WgmmaOp::accumulators`].
pub fn wgmma(
    op: &WgmmaOp,
    immediates: Immediates,
    a: &OperandA,
    b: &Descriptor,
    memory: &mut impl SharedBytes,
    d: [&mut [Lanes]; 4],
) {
    match (op.a, op.b) {
        (Element::F16, _) => product::<16, F16, F16>(op, immediates, a, b, memory, d),
        (Element::Bf16, _) => product::<16, Bf16, Bf16>(op, immediates, a, b, memory, d),
        (Element::Tf32, _) => product::<8, Tf32, Tf32>(op, immediates, a, b, memory, d),
        (Element::E4m3, Element::E4m3) => {
            product::<32, E4m3, E4m3>(op, immediates, a, b, memory, d);
        }
        (Element::E4m3, _) => product::<32, E4m3, E5m2>(op, immediates, a, b, memory, d),
        (Element::E5m2, Element::E4m3) => {
            product::<32, E5m2, E4m3>(op, immediates, a, b, memory, d);
        }
        (Element::E5m2, _) => product::<32, E5m2, E5m2>(op, immediates, a, b, memory, d),
        (Element::S8 | Element::U8, _) => unreachable!("`parse` admits floats only"),
    }
}

#[inline]
fn product<const K: usize, A: Decode, B: Decode>(
    op: &WgmmaOp,
    immediates: Immediates,
    a: &OperandA,
    b: &Descriptor,
    memory: &mut impl SharedBytes,
    d: [&mut [Lanes]; 4],
) {
    let mut operand_b: Vec<OctetB<K>> = vec![[[[0.0; 4]; 2]; K]; op.n as usize / 8];
    from_shared::<K, B>(
        b,
        immediates.b_major,
        op.n as usize,
        memory,
        |n, k, value| {
            operand_b[n / 8][k][n % 2][n % 8 / 2] = value;
        },
    );
    let mut operand_a: [RowsA<K>; 4] = match a {
        OperandA::Shared(descriptor) => {
            let mut rows = [[[0.0; K]; 16]; 4];
            from_shared::<K, A>(descriptor, immediates.a_major, 64, memory, |m, k, value| {
                rows[m / 16][m % 16][k] = value;
            });
            rows
        }
        OperandA::Registers(registers) => registers
            .each_ref()
            .map(|registers| dense::decode_a::<K, A>(registers)),
    };
    // The sign of a product does not depend on which factor carries it.
    if immediates.negate_a != immediates.negate_b {
        operand_a
            .as_flattened_mut()
            .as_flattened_mut()
            .iter_mut()
            .for_each(|value| *value = -*value);
    }
    for (rows, registers) in operand_a.iter().zip(d) {
        assert!(
            registers.len() == op.accumulators(),
            "wgmma: expected {} registers of D, found {}",
            op.accumulators(),
            registers.len()
        );
        match op.d {
            Accumulator::F16 => {
                for (registers, octet) in
                    registers.as_chunks_mut::<2>().0.iter_mut().zip(&operand_b)
                {
                    let mut sums = if immediates.accumulate {
                        dense::load_f16(registers)
                    } else {
                        [[[0.0; 4]; 8]; 4]
                    };
                    dense::multiply_add(rows, octet, &mut sums);
                    dense::store_f16(&sums, registers);
                }
            }
            Accumulator::F32 | Accumulator::S32 => {
                for (registers, octet) in
                    registers.as_chunks_mut::<4>().0.iter_mut().zip(&operand_b)
                {
                    let mut sums = if immediates.accumulate {
                        dense::load_f32(registers)
                    } else {
                        [[[0.0; 4]; 8]; 4]
                    };
                    dense::multiply_add(rows, octet, &mut sums);
                    dense::store_f32(&sums, registers);
                }
            }
        }
    }
}

/// Reads an operand of `mn` rows (of A) or columns (of B), and gives each element to `put` with `k` in the order of the products.
#[inline]
fn from_shared<const K: usize, T: Decode>(
    descriptor: &Descriptor,
    major: Major,
    mn: usize,
    memory: &mut impl SharedBytes,
    mut put: impl FnMut(usize, usize, f32),
) {
    let per_register = T::PER_REGISTER;
    let per_chunk = 4 * per_register;
    let mut words_at = |address: u32| -> [u32; 4] {
        let bytes = memory.read16(address);
        std::array::from_fn(|word| {
            u32::from_le_bytes(std::array::from_fn(|byte| bytes[4 * word + byte]))
        })
    };
    match major {
        Major::K => {
            for mn in 0..mn {
                for chunk in 0..K / per_chunk {
                    // Word t of the chunk is what lane t would hold in its register.
                    for (t, word) in words_at(descriptor.k_major(mn as u32, chunk as u32))
                        .into_iter()
                        .enumerate()
                    {
                        for j in 0..per_register {
                            put(mn, 4 * (per_register * chunk + j) + t, T::element(word, j));
                        }
                    }
                }
            }
        }
        Major::Mn => {
            for k in 0..K {
                let place = dense::place(k, per_register);
                for chunk in 0..mn / per_chunk {
                    for (i, word) in words_at(descriptor.mn_major(k as u32, chunk as u32))
                        .into_iter()
                        .enumerate()
                    {
                        for j in 0..per_register {
                            put(
                                per_chunk * chunk + per_register * i + j,
                                place,
                                T::element(word, j),
                            );
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
