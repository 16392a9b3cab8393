//! Operations on `f64` rounded to nearest.

use super::lane_table;

lane_table! {
    /// `f64` operations on bits.
    Float64(a: u64, b: u64, c: u64) -> u64 {
        Add => bits(f(a) + f(b)),
        Sub => bits(f(a) - f(b)),
        Mul => bits(f(a) * f(b)),
        Fma => bits(f(a).mul_add(f(b), f(c))),
        Min => choose(a, b, less(a, b)),
        Max => choose(a, b, less(b, a)),
        Neg => a ^ (1 << 63),
        Abs => a & !(1 << 63),
        CopySign => (b & !(1 << 63)) | (a & (1 << 63)),
        Div => bits(f(a) / f(b)),
        Rcp => bits(1.0 / f(a)),
        Sqrt => bits(f(a).sqrt()),
        Rsqrt => bits(1.0 / f(a).sqrt()),
        // `.approx.ftz.f64` keeps the upper half of the result only.
        RcpApprox => bits(1.0 / f(a)) & 0xffff_ffff_0000_0000,
        RsqrtApprox => bits(1.0 / f(a).sqrt()) & 0xffff_ffff_0000_0000,
    }
}

#[inline]
fn f(bits: u64) -> f64 {
    f64::from_bits(bits)
}

#[inline]
fn bits(value: f64) -> u64 {
    value.to_bits()
}

fn less(a: u64, b: u64) -> bool {
    f(a) < f(b) || (f(a) == f(b) && a >> 63 > b >> 63)
}

fn choose(a: u64, b: u64, first: bool) -> u64 {
    if f(a).is_nan() {
        b
    } else if f(b).is_nan() || first {
        a
    } else {
        b
    }
}
