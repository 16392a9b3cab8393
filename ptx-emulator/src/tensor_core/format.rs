//! Number formats narrower than `f32`: f16, bf16, tf32, e4m3 and e5m2, decoded exactly and encoded with a stated rounding.

/// How a value between two neighbours of the narrower format is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// `.rn`: to nearest, ties to even
    NearestEven,
    /// `.rna`: to nearest, ties away from zero
    NearestAway,
    /// `.rz`: towards zero
    Zero,
    /// `.rm`: towards minus infinity
    Down,
    /// `.rp`: towards plus infinity
    Up,
}

/// What becomes of a value beyond the largest finite one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Overflow {
    /// Infinity, or NaN in e4m3, which has none (rounding towards zero stops at the largest finite value)
    Infinite,
    /// `.satfinite`: the largest finite value of that sign; NaN stays NaN
    SatFinite,
}

/// A narrow format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// IEEE binary16: 5 exponent bits, 10 of mantissa
    F16,
    /// The upper half of an `f32`: 8 exponent bits, 7 of mantissa
    Bf16,
    /// An `f32` of which the upper 19 bits count: 8 exponent bits, 10 of mantissa
    Tf32,
    /// 4 exponent bits, 3 of mantissa, no infinities, NaN is `S.1111.111`
    E4m3,
    /// 5 exponent bits, 2 of mantissa, with infinities and NaN as in IEEE
    E5m2,
}

impl Format {
    /// Bits of exponent and of mantissa.
    const fn widths(self) -> (u32, u32) {
        match self {
            Self::F16 => (5, 10),
            Self::Bf16 => (8, 7),
            Self::Tf32 => (8, 10),
            Self::E4m3 => (4, 3),
            Self::E5m2 => (5, 2),
        }
    }

    /// Magnitudes, as bits without sign: the largest finite value, infinity (NaN in e4m3), and the NaN that conversions yield.
    const fn specials(self) -> (u32, u32, u32) {
        match self {
            Self::F16 => (0x7bff, 0x7c00, 0x7fff),
            Self::Bf16 => (0x7f7f, 0x7f80, 0x7fff),
            // tf32 is counted in its own 19 bits here.
            Self::Tf32 => (0x3_fbff, 0x3_fc00, 0x3_ffff),
            Self::E4m3 => (0x7e, 0x7f, 0x7f),
            Self::E5m2 => (0x7b, 0x7c, 0x7f),
        }
    }

    /// The value of an encoding, exactly. Bits beyond the format's width are ignored; tf32 stands in the upper 19 of 32 bits.
    pub fn decode(self, bits: u32) -> f32 {
        match self {
            Self::F16 => f16_to_f32(bits as u16),
            Self::Bf16 => bf16_to_f32(bits as u16),
            Self::Tf32 => tf32_to_f32(bits),
            Self::E4m3 => e4m3_to_f32(bits as u8),
            Self::E5m2 => e5m2_to_f32(bits as u8),
        }
    }

    /// Rounds a value to the format once. NaN becomes the format's canonical NaN, without sign.
    ///
    /// tf32 comes back as the 32 bits of a register, the lower 13 of them zero.
    pub fn encode(self, value: f64, rounding: Rounding, overflow: Overflow) -> u32 {
        let (exponent_bits, mantissa_bits) = self.widths();
        let (largest, infinity, nan) = self.specials();
        let place = |bits: u32| {
            if matches!(self, Self::Tf32) {
                bits << 13
            } else {
                bits
            }
        };
        if value.is_nan() {
            return place(nan);
        }
        let sign = u32::from(value.is_sign_negative()) << (exponent_bits + mantissa_bits);
        let too_large = match overflow {
            Overflow::SatFinite => largest,
            Overflow::Infinite => infinity,
        };
        if value.is_infinite() {
            return place(sign | too_large);
        }
        let magnitude = magnitude_bits(
            value.abs(),
            exponent_bits,
            mantissa_bits,
            rounding,
            value < 0.0,
        );
        if magnitude <= largest {
            return place(sign | magnitude);
        }
        let towards_zero = match rounding {
            Rounding::NearestEven | Rounding::NearestAway => false,
            Rounding::Zero => true,
            Rounding::Down => value > 0.0,
            Rounding::Up => value < 0.0,
        };
        place(sign | if towards_zero { largest } else { too_large })
    }
}

/// Rounds a finite magnitude as if the exponent had no upper end; what passes the largest finite value is for the caller to cut.
fn magnitude_bits(
    magnitude: f64,
    exponent_bits: u32,
    mantissa_bits: u32,
    rounding: Rounding,
    negative: bool,
) -> u32 {
    if magnitude == 0.0 {
        return 0;
    }
    let bias = (1i32 << (exponent_bits - 1)) - 1;
    let bits = magnitude.to_bits();
    let exponent = if bits >> 52 == 0 {
        -1074
    } else {
        ((bits >> 52) as i32) - 1023
    };
    if exponent > bias + 1 {
        return u32::MAX >> 1;
    }
    // An f64 subnormal lies far below every format here, so its leading bit may be treated as part of the remainder.
    let significand = (bits & ((1 << 52) - 1)) | (1 << 52);
    let stored = exponent.max(1 - bias);
    let dropped = (52 - mantissa_bits as i32) + (stored - exponent);
    let (kept, rest, half) = if dropped > 62 {
        (0, 1, 2)
    } else {
        (
            significand >> dropped,
            significand & ((1 << dropped) - 1),
            1u64 << (dropped - 1),
        )
    };
    let up = match rounding {
        Rounding::NearestEven => rest > half || (rest == half && kept & 1 == 1),
        Rounding::NearestAway => rest >= half,
        Rounding::Zero => false,
        Rounding::Down => negative && rest > 0,
        Rounding::Up => !negative && rest > 0,
    };
    // The hidden bit adds one to the exponent field, and a carry out of the mantissa does the same.
    (((stored + bias - 1) as u32) << mantissa_bits) + (kept + u64::from(up)) as u32
}

/// The value of an IEEE binary16 number.
#[inline]
pub fn f16_to_f32(bits: u16) -> f32 {
    widen(
        u32::from(bits & 0x7fff),
        10,
        15,
        0x7c00,
        u32::from(bits & 0x8000) << 16,
    )
}

/// Widens a magnitude without branches, so that loops over lanes become vector code: every case is computed and one selected.
///
/// Numbers from `special` on are infinities and NaN. Subnormal numbers go through an integer conversion: arithmetic on `f32`
/// subnormals would cost a hundred cycles each.
#[inline]
fn widen(magnitude: u32, mantissa_bits: u32, bias: u32, special: u32, sign: u32) -> f32 {
    let shift = 23 - mantissa_bits;
    let normal = (magnitude << shift) + ((127 - bias) << 23);
    let unit = f32::from_bits((127 + 1 - bias - mantissa_bits) << 23);
    let subnormal = (magnitude as i32 as f32 * unit).to_bits();
    let finite = if magnitude >> mantissa_bits == 0 {
        subnormal
    } else {
        normal
    };
    let result = if magnitude >= special {
        (magnitude << shift) | 0x7f80_0000
    } else {
        finite
    };
    f32::from_bits(result | sign)
}

/// The value of a bf16 number.
#[inline]
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The value of a tf32 number in a register: the lower 13 bits do not count.
#[inline]
pub fn tf32_to_f32(bits: u32) -> f32 {
    f32::from_bits(bits & 0xffff_e000)
}

/// The value of an e4m3 number.
#[inline]
pub fn e4m3_to_f32(bits: u8) -> f32 {
    // Only the largest magnitude is special, and its mantissa of ones makes it NaN.
    widen(
        u32::from(bits & 0x7f),
        3,
        7,
        0x7f,
        u32::from(bits & 0x80) << 24,
    )
}

/// The value of an e5m2 number.
#[inline]
pub fn e5m2_to_f32(bits: u8) -> f32 {
    widen(
        u32::from(bits & 0x7f),
        2,
        15,
        0x7c,
        u32::from(bits & 0x80) << 24,
    )
}

/// Rounds to binary16, to nearest even.
#[inline]
pub fn f32_to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    // Below 2^-14 the addition of 0.5 leaves the subnormal mantissa in the low bits, rounded by the adder itself.
    let subnormal = (f32::from_bits(magnitude) + 0.5)
        .to_bits()
        .wrapping_sub(0x3f00_0000);
    let odd = (magnitude >> 13) & 1;
    let normal = magnitude.wrapping_add(0xc800_0fff).wrapping_add(odd) >> 13;
    let finite = if magnitude < 0x3880_0000 {
        subnormal
    } else {
        normal
    };
    let result = if magnitude >= 0x4780_0000 {
        0x7c00
    } else {
        finite
    };
    if magnitude > 0x7f80_0000 {
        0x7fff
    } else {
        (result | sign) as u16
    }
}

/// Rounds to bf16, to nearest even.
#[inline]
pub fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    if bits & 0x7fff_ffff > 0x7f80_0000 {
        0x7fff
    } else {
        rounded as u16
    }
}

/// Rounds two values to f16 and packs them, as `cvt.rn.f16x2.f32 d, high, low` does.
#[inline]
pub fn pack_f16x2(high: f32, low: f32) -> u32 {
    u32::from(f32_to_f16(high)) << 16 | u32::from(f32_to_f16(low))
}

/// Rounds two values to bf16 and packs them, as `cvt.rn.bf16x2.f32 d, high, low` does.
#[inline]
pub fn pack_bf16x2(high: f32, low: f32) -> u32 {
    u32::from(f32_to_bf16(high)) << 16 | u32::from(f32_to_bf16(low))
}

/// Rounds two values to an 8-bit format with saturation and packs them, as `cvt.rn.satfinite.e4m3x2.f32 d, high, low` does.
pub fn pack_fp8x2(format: Format, high: f32, low: f32) -> u16 {
    let byte = |value: f32| {
        format.encode(f64::from(value), Rounding::NearestEven, Overflow::SatFinite) as u16 & 0xff
    };
    byte(high) << 8 | byte(low)
}

/// Widens two packed 8-bit floats to a packed f16 pair, as `cvt.rn.f16x2.e4m3x2` does; exact, and NaN becomes `0x7fff`.
pub fn fp8x2_to_f16x2(format: Format, pair: u16) -> u32 {
    pack_f16x2(
        format.decode(u32::from(pair >> 8)),
        format.decode(u32::from(pair & 0xff)),
    )
}

#[cfg(test)]
mod tests;
