//! The product that `mma` and `wgmma` share: 16 rows by 8 columns, on operands already decoded, onto registers of a warp.
//!
//! `k` runs in an order of its own, the same in A and B: element `j` of the register of lane `t` comes from `k = 4 E i + E t + j` and
//! stands at `4 (E i + j) + t`, where `E` elements share a register. Then the four lanes that share a row are neighbours here as they
//! are in the register, and decoding moves no single elements.
use super::Lanes;
use super::format::{bf16_to_f32, e4m3_to_f32, e5m2_to_f32, f16_to_f32, pack_f16x2, tf32_to_f32};

/// A register of a warp with its elements decoded, `[g][t]` for lane `4 g + t`.
pub(super) type Groups = [[f32; 4]; 8];

/// Rows of A, `[m][k]`.
pub(super) type RowsA<const K: usize> = [[f32; K]; 16];

/// B as `[k][p][t]` for column `2 t + p`: four lanes of an accumulator register are neighbours.
pub(super) type OctetB<const K: usize> = [[[f32; 4]; 2]; K];

/// Where `k` stands in the order of the products, if `per_register` elements share a register.
pub(super) const fn place(k: usize, per_register: usize) -> usize {
    let (i, rest) = (k / (4 * per_register), k % (4 * per_register));
    4 * (per_register * i + rest % per_register) + rest / per_register
}

/// A type of elements, as a type of Rust, so that loops over lanes are compiled for each.
pub(super) trait Decode {
    /// Elements in a 32-bit register, `E`.
    const PER_REGISTER: usize;

    /// The value of the element in the low bits of a word, whatever the bits above are.
    fn decode(word: u32) -> f32;

    /// The value of element `j` of a register.
    #[inline]
    fn element(register: u32, j: usize) -> f32 {
        Self::decode(register >> (32 / Self::PER_REGISTER * j))
    }
}

macro_rules! decode {
    ($name:ident, $per_register:literal, $decode:path, $bits:ty) => {
        pub(super) struct $name;
        impl Decode for $name {
            const PER_REGISTER: usize = $per_register;
            #[inline]
            fn decode(word: u32) -> f32 {
                $decode(word as $bits)
            }
        }
    };
}

decode!(F16, 2, f16_to_f32, u16);
decode!(Bf16, 2, bf16_to_f32, u16);
decode!(Tf32, 1, tf32_to_f32, u32);
decode!(E4m3, 4, e4m3_to_f32, u8);
decode!(E5m2, 4, e5m2_to_f32, u8);

/// Decodes the registers of A, of which the even ones hold rows 0 to 7.
#[inline]
pub(super) fn decode_a<const K: usize, A: Decode>(registers: &[Lanes]) -> RowsA<K> {
    let mut rows = [[0.0; K]; 16];
    for (index, register) in registers.iter().enumerate() {
        let (i, h) = (index / 2, index % 2);
        for j in 0..A::PER_REGISTER {
            for (g, lanes) in groups(register, |word| A::element(word, j))
                .into_iter()
                .enumerate()
            {
                rows[g + 8 * h].as_chunks_mut::<4>().0[A::PER_REGISTER * i + j] = lanes;
            }
        }
    }
    rows
}

/// Decodes the registers of B, of which group `g` holds column `g`.
#[inline]
pub(super) fn decode_b<const K: usize, B: Decode>(registers: &[Lanes]) -> OctetB<K> {
    let mut octet = [[[0.0; 4]; 2]; K];
    for (i, register) in registers.iter().enumerate() {
        for j in 0..B::PER_REGISTER {
            let columns = groups(register, |word| B::element(word, j));
            let at: &mut [_; 4] = &mut octet.as_chunks_mut::<4>().0[B::PER_REGISTER * i + j];
            for t in 0..4 {
                at[t] = std::array::from_fn(|p| std::array::from_fn(|n| columns[2 * n + p][t]));
            }
        }
    }
    octet
}

/// Adds `A B` to an accumulator of four registers: register `2 h + p`, group `g`, lane `t` of it holds row `g + 8 h`, column `2 t + p`.
#[inline]
pub(super) fn multiply_add<const K: usize>(
    a: &RowsA<K>,
    b: &OctetB<K>,
    accumulator: &mut [Groups; 4],
) {
    // Four rows at a time: eight independent sums of four lanes each hide the latency of the additions.
    for block in 0..4 {
        let (h, first) = (block / 2, 4 * (block % 2));
        let rows: [&[f32; K]; 4] = std::array::from_fn(|row| &a[8 * h + first + row]);
        let mut sums: [[[f32; 4]; 2]; 4] =
            std::array::from_fn(|row| std::array::from_fn(|p| accumulator[2 * h + p][first + row]));
        for k in 0..K {
            for row in 0..4 {
                let factor = rows[row][k];
                for p in 0..2 {
                    for t in 0..4 {
                        sums[row][p][t] += factor * b[k][p][t];
                    }
                }
            }
        }
        for row in 0..4 {
            for p in 0..2 {
                accumulator[2 * h + p][first + row] = sums[row][p];
            }
        }
    }
}

/// Applies a function to every lane.
#[inline]
pub(super) fn groups(register: &Lanes, decode: impl Fn(u32) -> f32) -> Groups {
    std::array::from_fn(|g| std::array::from_fn(|t| decode(register[4 * g + t])))
}

/// The bits of a result: every NaN is the canonical one that tensor cores yield.
#[inline]
fn result_bits(value: f32) -> u32 {
    if value.is_nan() {
        0x7fff_ffff
    } else {
        value.to_bits()
    }
}

/// Reads an f32 accumulator of four registers.
#[inline]
pub(super) fn load_f32(registers: &[Lanes; 4]) -> [Groups; 4] {
    std::array::from_fn(|register| groups(&registers[register], f32::from_bits))
}

/// Reads an f16 accumulator of two registers, each with columns `2 t` and `2 t + 1`.
#[inline]
pub(super) fn load_f16(registers: &[Lanes; 2]) -> [Groups; 4] {
    std::array::from_fn(|register| {
        groups(&registers[register / 2], |pair| {
            f16_to_f32((pair >> (16 * (register % 2))) as u16)
        })
    })
}

/// Writes an f32 accumulator.
#[inline]
pub(super) fn store_f32(accumulator: &[Groups; 4], registers: &mut [Lanes; 4]) {
    for (register, values) in registers.iter_mut().zip(accumulator) {
        for (bits, value) in register.iter_mut().zip(values.as_flattened()) {
            *bits = result_bits(*value);
        }
    }
}

/// Writes an f16 accumulator, rounding once.
#[inline]
pub(super) fn store_f16(accumulator: &[Groups; 4], registers: &mut [Lanes; 2]) {
    for (half, register) in registers.iter_mut().enumerate() {
        let (low, high) = (
            accumulator[2 * half].as_flattened(),
            accumulator[2 * half + 1].as_flattened(),
        );
        for ((pair, low), high) in register.iter_mut().zip(low).zip(high) {
            *pair = pack_f16x2(*high, *low);
        }
    }
}
