//! `cvt` in full: any type to any other, with its rounding, one value at a time.

use super::float::Width;
use super::round;
use crate::tensor_core::format::{Format, Overflow, Rounding};

/// A number type as `cvt` sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    Unsigned(u32),
    Signed(u32),
    Float(Width),
    Tf32,
}

/// One conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "qualifiers that may stand together"
)]
pub(crate) struct Conversion {
    pub(crate) to: Number,
    pub(crate) from: Number,
    /// How a float result is rounded.
    pub(crate) rounding: Rounding,
    /// Whether a float is rounded to an integer, also where the result is a float.
    pub(crate) integral: bool,
    pub(crate) ftz: bool,
    pub(crate) sat: bool,
    pub(crate) satfinite: bool,
    pub(crate) relu: bool,
}

impl Conversion {
    /// Converts one encoding.
    pub(crate) fn apply(&self, bits: u64) -> u64 {
        match self.from {
            Number::Unsigned(width) => self.integer(i128::from(bits & ones(width))),
            Number::Signed(width) => {
                self.integer(i128::from(((bits << (64 - width)) as i64) >> (64 - width)))
            }
            Number::Float(width) => {
                let value = width.decode(bits);
                self.float(if self.ftz && width == Width::F32 {
                    f64::from(round::flush(value as f32))
                } else {
                    value
                })
            }
            Number::Tf32 => self.float(f64::from(f32::from_bits(bits as u32 & 0xffff_e000))),
        }
    }

    fn integer(&self, value: i128) -> u64 {
        match self.to {
            Number::Unsigned(width) if self.sat => value.clamp(0, i128::from(ones(width))) as u64,
            Number::Signed(width) if self.sat => {
                value.clamp(-(1 << (width - 1)), (1 << (width - 1)) - 1) as u64 & ones(width)
            }
            Number::Unsigned(width) | Number::Signed(width) => value as u64 & ones(width),
            Number::Float(Width::F64) => {
                let nearest = value as f64;
                round::direct_f64(nearest, (value - nearest as i128) as f64, self.rounding)
                    .to_bits()
            }
            Number::Float(width) => {
                self.finish(width, width.encode(integer_to_odd(value), self.rounding))
            }
            Number::Tf32 => u64::from(Format::Tf32.encode(
                integer_to_odd(value),
                self.rounding,
                Overflow::Infinite,
            )),
        }
    }

    fn float(&self, value: f64) -> u64 {
        let whole = if self.integral {
            round_integral(value, self.rounding)
        } else {
            value
        };
        match self.to {
            Number::Unsigned(width) => float_to_integer(whole, 0, i128::from(ones(width)), width),
            Number::Signed(width) => {
                float_to_integer(
                    whole,
                    -(1i128 << (width - 1)),
                    (1i128 << (width - 1)) - 1,
                    width,
                ) & ones(width)
            }
            Number::Float(width) if self.satfinite => {
                let format = if width == Width::F16 {
                    Format::F16
                } else {
                    Format::Bf16
                };
                self.finish(
                    width,
                    u64::from(format.encode(whole, self.rounding, Overflow::SatFinite)),
                )
            }
            Number::Float(width) => self.finish(width, width.encode(whole, self.rounding)),
            Number::Tf32 => {
                let overflow = if self.satfinite {
                    Overflow::SatFinite
                } else {
                    Overflow::Infinite
                };
                let out = Format::Tf32.encode(whole, self.rounding, overflow);
                if self.relu && whole <= 0.0 {
                    0
                } else {
                    u64::from(out)
                }
            }
        }
    }

    fn finish(&self, width: Width, bits: u64) -> u64 {
        let value = width.decode(bits);
        if self.sat {
            return if value >= 1.0 {
                width.encode(1.0, Rounding::NearestEven)
            } else if value > 0.0 {
                bits
            } else {
                0
            };
        }
        if self.relu && value <= 0.0 {
            return 0;
        }
        if self.ftz && width == Width::F32 {
            u64::from(round::flush(f32::from_bits(bits as u32)).to_bits())
        } else {
            bits
        }
    }
}

fn ones(width: u32) -> u64 {
    u64::MAX >> (64 - width)
}

/// An integer as `f64`, rounded to odd where it has more than 53 bits, so that narrower formats are rounded once.
fn integer_to_odd(value: i128) -> f64 {
    let nearest = value as f64;
    let back = nearest as i128;
    if back == value || nearest.to_bits() & 1 == 1 {
        return nearest;
    }
    let away = (value > back) == (nearest > 0.0);
    f64::from_bits(if away {
        nearest.to_bits() + 1
    } else {
        nearest.to_bits() - 1
    })
}

fn round_integral(value: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::NearestEven => value.round_ties_even(),
        Rounding::NearestAway => value.round(),
        Rounding::Zero => value.trunc(),
        Rounding::Down => value.floor(),
        Rounding::Up => value.ceil(),
    }
}

/// Integers saturate, whether or not `.sat` is given; NaN gives 0, or the top bit for 64-bit results.
fn float_to_integer(value: f64, low: i128, high: i128, width: u32) -> u64 {
    if value.is_nan() {
        return if width == 64 { 1 << 63 } else { 0 };
    }
    (value as i128).clamp(low, high) as u64
}
