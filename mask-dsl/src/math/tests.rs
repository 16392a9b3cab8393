//! The functions against `f64` oracles, at special values, in order, in rows, and bit for bit against what they once gave.

mod oracle;
mod special;

use std::fmt::Write as _;

use super::*;

/// The stated bound, 0.5 + 2^-24 units in the last place; the oracles are right to about 2^-27 of one.
const BOUND: f64 = 0.5 + 1.0 / (1u64 << 24) as f64;

/// The bits of x, the same for every NaN.
fn bits(x: f32) -> u32 {
    if x.is_nan() { 0x7fc0_0000 } else { x.to_bits() }
}

/// A small generator of uniform words (`SplitMix64`, Steele et al. 2014), so that every run sees the same arguments.
struct Words(u64);

impl Words {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Any bit pattern.
    fn any(&mut self) -> f32 {
        f32::from_bits(self.word() as u32)
    }

    /// Any sign and mantissa, with an exponent from `low` up to 8: where the functions do not all overflow.
    fn moderate(&mut self, low: u32) -> f32 {
        let word = self.word();
        let exponent = 127 - low + (word >> 32) as u32 % (low + 9);
        f32::from_bits(word as u32 & 0x807f_ffff | exponent << 23)
    }
}

/// Every exponent and sign with a grid of mantissas, the ends among them, then a million patterns of any and a million of moderate
/// exponent.
fn arguments() -> impl Iterator<Item = f32> {
    let grid = (0u32..512).flat_map(|top| {
        (0u32..64).map(move |i| f32::from_bits(top << 23 | (i * 0x0002_0821).min(0x007f_ffff)))
    });
    let mut words = Words(2024);
    let random = (0..2_000_000u32).map(move |i| {
        if i % 2 == 0 {
            words.any()
        } else {
            words.moderate(24)
        }
    });
    grid.chain(random)
}

/// The distance of `got` from the true value in units in the last place of an `f32` of its size; infinite for a NaN too many or too few.
fn ulps(got: f32, want: f64) -> f64 {
    /// Half a unit above the largest finite value: from here on +∞ is the rounded result.
    const OVERFLOW: f64 = 340_282_356_779_733_661_637_539_395_458_142_568_448.0;
    if got.is_nan() || want.is_nan() {
        return if got.is_nan() && want.is_nan() {
            0.0
        } else {
            f64::INFINITY
        };
    }
    if got.is_infinite() {
        let right = want.abs() >= OVERFLOW && (got > 0.0) == (want > 0.0);
        return if right { 0.0 } else { f64::INFINITY };
    }
    let exponent = ((want.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(-126);
    let unit = f64::from_bits(((exponent - 23 + 1023) as u64) << 52);
    (got as f64 - want).abs() / unit
}

#[track_caller]
fn check_error(name: &str, f: impl Fn(f32) -> f32, oracle: impl Fn(f64) -> f64) {
    for x in arguments() {
        let (got, want) = (f(x), oracle(x as f64));
        let error = ulps(got, want);
        assert!(
            error <= BOUND,
            "{name}({x:e}) = {got:e}, want {want:e}: {error} ulp"
        );
    }
}

#[test]
fn exponentials_are_within_their_bound() {
    check_error("exp", exp, f64::exp);
    check_error("exp2", exp2, f64::exp2);
}

#[test]
fn logarithms_are_within_their_bound() {
    check_error("ln", ln, f64::ln);
    check_error("log2", log2, f64::log2);
    check_error("log10", log10, f64::log10);
}

#[test]
fn tanh_and_erf_are_within_their_bound() {
    check_error("tanh", tanh, f64::tanh);
    check_error("erf", erf, oracle::erf);
}

#[test]
fn trigonometric_functions_are_within_their_bound() {
    check_error("sin", sin, f64::sin);
    check_error("cos", cos, f64::cos);
    check_error("tan", tan, f64::tan);
}

#[test]
fn powf_is_within_its_bound() {
    let mut words = Words(7);
    for i in 0..3_000_000u32 {
        let x = words.moderate(9);
        let (x, y) = match i % 4 {
            0 => (words.any(), words.any()),
            1 => (x.abs(), words.moderate(20)),
            // Near 1, where large powers are finite.
            2 => (1.0 + x * 1e-6, words.moderate(2) * 1e4),
            _ => (x, (words.word() % 41) as f32 - 20.0),
        };
        let (got, want) = (powf(x, y), (x as f64).powf(y as f64));
        let error = ulps(got, want);
        assert!(
            error <= BOUND,
            "powf({x:e}, {y:e}) = {got:e}, want {want:e}: {error} ulp"
        );
    }
}

#[test]
fn powi_is_within_its_bound() {
    let mut words = Words(8);
    for i in 0..1_000_000u32 {
        let (x, n) = match i % 4 {
            0 => (words.any(), words.word() as i32),
            1 => (words.moderate(4), (words.word() % 61) as i32 - 30),
            2 => (
                1.0 + words.moderate(9) * 1e-5,
                (words.word() % 60_001) as i32 - 30_000,
            ),
            _ => (1.0 + words.moderate(9) * 1e-8, words.word() as i32 >> 6),
        };
        let (got, want) = (powi(x, n), (x as f64).powf(n as f64));
        let error = ulps(got, want);
        let bound = BOUND + n.unsigned_abs() as f64 / (1u64 << 28) as f64;
        assert!(
            error <= bound,
            "powi({x:e}, {n}) = {got:e}, want {want:e}: {error} ulp"
        );
    }
}

#[test]
fn exact_functions_equal_std() {
    let mut words = Words(9);
    for x in arguments() {
        let y = words.moderate(24);
        let cases = [
            ("sqrt", sqrt(x), x.sqrt()),
            ("floor", floor(x), x.floor()),
            ("ceil", ceil(x), x.ceil()),
            ("trunc", trunc(x), x.trunc()),
            ("round", round(x), x.round()),
            ("abs", abs(x), x.abs()),
            ("signum", signum(x), x.signum()),
            ("min", min(x, y), x.min(y)),
            ("max", max(x, y), x.max(y)),
            (
                "clamp",
                clamp(x, -y.abs(), y.abs()),
                x.clamp(-y.abs(), y.abs()),
            ),
            ("rem", rem(x, y), ((x as f64) % (y as f64)) as f32),
        ];
        for (name, got, want) in cases {
            let same = bits(got) == bits(want);
            assert!(same, "{name}({x:e}, {y:e}) = {got:e}, want {want:e}");
        }
    }
}

#[track_caller]
fn check_order(name: &str, f: impl Fn(f32) -> f32, low: f32, high: f32) {
    // Where adjacent arguments are examined, and coarse steps in between.
    let mut words = Words(10);
    let steps = 400_000;
    let (mut last_x, mut last) = (low, f(low));
    for i in 1..=steps {
        let mut x = low + (high - low) * (i as f32 / steps as f32);
        for _ in 0..4 {
            let value = f(x);
            assert!(
                x < last_x || last <= value,
                "{name}: {last_x:e} -> {last:e}, {x:e} -> {value:e}"
            );
            (last_x, last) = (x, value);
            x = x.next_up();
        }
    }
    for _ in 0..100_000 {
        let x = words.any();
        if low <= x && x < high {
            let (here, above) = (f(x), f(x.next_up()));
            assert!(
                here <= above,
                "{name}: {x:e} -> {here:e}, next -> {above:e}"
            );
        }
    }
}

#[test]
fn increasing_functions_increase() {
    check_order("exp", exp, -105.0, 90.0);
    check_order("exp2", exp2, -151.0, 129.0);
    check_order("ln", ln, 0.0, 10.0);
    check_order("log2", log2, 0.0, 1e6);
    check_order("log10", log10, 0.0, f32::MAX);
    check_order("tanh", tanh, -10.0, 10.0);
    check_order("erf", erf, -4.5, 4.5);
}

#[test]
fn rows_have_the_bits_of_scalars() {
    let xs: Vec<f32> = arguments().step_by(5).collect();
    for f in MathFn::ALL {
        // Lengths around the widths of vectors and of the chunks of the trigonometric rows, then everything.
        for len in (0..140).chain([xs.len()]) {
            let mut row = xs[xs.len() - len..].to_vec();
            apply_row(f, &mut row);
            for (&x, &got) in xs[xs.len() - len..].iter().zip(&row) {
                let want = f.apply(x);
                assert_eq!(bits(got), bits(want), "{} of {x:e}", f.name());
            }
        }
    }
}

/// Results may not change from one machine, target feature or version to another: kept rules were decided by them.
#[test]
fn bits_stay_what_they_are() {
    let xs: Vec<f32> = arguments().step_by(7).collect();
    let hash = |words: &mut dyn Iterator<Item = u32>| {
        words.fold(0xcbf2_9ce4_8422_2325u64, |hash, word| {
            (hash ^ word as u64).wrapping_mul(0x0000_0100_0000_01b3)
        })
    };
    let mut lines = String::new();
    for f in MathFn::ALL {
        let value = hash(&mut xs.iter().map(|&x| bits(f.apply(x))));
        writeln!(lines, "{} {value:016x}", f.name()).expect("a string takes all");
    }
    let pairs = || xs.iter().zip(xs.iter().rev());
    let value = hash(&mut pairs().map(|(&x, &y)| bits(powf(x.abs(), y))));
    writeln!(lines, "powf {value:016x}").expect("a string takes all");
    let value = hash(&mut pairs().map(|(&x, &y)| bits(powi(x, (y.to_bits() % 64) as i32 - 32))));
    writeln!(lines, "powi {value:016x}").expect("a string takes all");
    assert_eq!(lines, include_str!("tests/bits.txt"));
}
