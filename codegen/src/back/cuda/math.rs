//! The float functions of the language as CUDA text: the operations of `maskwright_dsl::math` in their order, so that the
//! bits are the same on every engine.

use std::fmt::Write as _;

use maskwright_dsl::ir::MathFn;
use maskwright_dsl::math::coefficients as c;

/// A float function, or a part that several share; what it calls stands before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exact {
    Limit,
    PowerOfTwo,
    ExpReduce,
    Exp2Fraction,
    LogSplit,
    LogMantissa,
    LogEnds,
    QuarterTurns,
    SinPolynomial,
    CosPolynomial,
    Quadrant,
    Exp,
    Exp2,
    Ln,
    Log2,
    Log10,
    Tanh,
    Sin,
    Cos,
    Tan,
    Erf,
    Powi,
    Powf,
}

impl Exact {
    /// The sequence that computes `f`, unless the device has it as an exact instruction.
    pub(super) fn of(f: MathFn) -> Option<Exact> {
        match f {
            MathFn::Exp => Some(Exact::Exp),
            MathFn::Exp2 => Some(Exact::Exp2),
            MathFn::Ln => Some(Exact::Ln),
            MathFn::Log2 => Some(Exact::Log2),
            MathFn::Log10 => Some(Exact::Log10),
            MathFn::Tanh => Some(Exact::Tanh),
            MathFn::Sin => Some(Exact::Sin),
            MathFn::Cos => Some(Exact::Cos),
            MathFn::Tan => Some(Exact::Tan),
            MathFn::Erf => Some(Exact::Erf),
            MathFn::Sqrt | MathFn::Floor | MathFn::Ceil | MathFn::Trunc | MathFn::Round => None,
        }
    }

    /// What the text calls.
    pub(super) fn needs(self) -> &'static [Exact] {
        match self {
            Exact::Limit
            | Exact::PowerOfTwo
            | Exact::LogSplit
            | Exact::LogMantissa
            | Exact::LogEnds
            | Exact::QuarterTurns
            | Exact::SinPolynomial
            | Exact::CosPolynomial
            | Exact::Exp2Fraction
            | Exact::Powi => &[],
            Exact::ExpReduce => &[Exact::PowerOfTwo],
            Exact::Quadrant | Exact::Tan => &[
                Exact::QuarterTurns,
                Exact::SinPolynomial,
                Exact::CosPolynomial,
            ],
            Exact::Exp | Exact::Tanh => &[Exact::Limit, Exact::ExpReduce],
            Exact::Exp2 => &[Exact::Limit, Exact::PowerOfTwo, Exact::Exp2Fraction],
            Exact::Ln | Exact::Log2 | Exact::Log10 => {
                &[Exact::LogSplit, Exact::LogMantissa, Exact::LogEnds]
            }
            Exact::Sin | Exact::Cos => &[Exact::Quadrant],
            Exact::Erf => &[Exact::Limit],
            Exact::Powf => &[
                Exact::Limit,
                Exact::PowerOfTwo,
                Exact::Exp2Fraction,
                Exact::LogSplit,
            ],
        }
    }

    pub(super) fn text(self) -> String {
        match self {
            Exact::Limit => LIMIT.to_owned(),
            Exact::PowerOfTwo => POWER_OF_TWO.to_owned(),
            Exact::ExpReduce => fill(
                EXP_REDUCE,
                &[
                    ("LOG2_E", c::LOG2_E),
                    ("LN2_HI", c::LN2_HI),
                    ("LN2_LO", c::LN2_LO),
                ],
                &[("POLYNOMIAL", "r", &c::EXP)],
            ),
            Exact::Exp2Fraction => fill(EXP2_FRACTION, &[], &[("POLYNOMIAL", "r", &c::EXP2)]),
            Exact::LogSplit => LOG_SPLIT.to_owned(),
            Exact::LogMantissa => fill(LOG_MANTISSA, &[], &[("POLYNOMIAL", "z", &c::ATANH)]),
            Exact::LogEnds => LOG_ENDS.to_owned(),
            Exact::QuarterTurns => {
                let words = c::TWO_OVER_PI_BITS.map(|word| format!("0x{word:08x}"));
                fill(
                    QUARTER_TURNS,
                    &[
                        ("TWO_OVER_PI", c::TWO_OVER_PI),
                        ("HALF_PI_1", c::HALF_PI_1),
                        ("HALF_PI_2", c::HALF_PI_2),
                        ("HALF_PI_3", c::HALF_PI_3),
                        ("HALF_PI", c::HALF_PI),
                    ],
                    &[],
                )
                .replace("WORDS", &words.join(", "))
            }
            Exact::SinPolynomial => fill(SIN_POLYNOMIAL, &[], &[("POLYNOMIAL", "z", &c::SIN)]),
            Exact::CosPolynomial => fill(COS_POLYNOMIAL, &[], &[("POLYNOMIAL", "z", &c::COS)]),
            Exact::Quadrant => QUADRANT.to_owned(),
            Exact::Exp => EXP.to_owned(),
            Exact::Exp2 => EXP2.to_owned(),
            Exact::Ln => fill(LN, &[("LN2_HI", c::LN2_HI), ("LN2_LO", c::LN2_LO)], &[]),
            Exact::Log2 => fill(LOG2, &[("LOG2_E", c::LOG2_E)], &[]),
            Exact::Log10 => fill(
                LOG10,
                &[
                    ("LOG10_2_HI", c::LOG10_2_HI),
                    ("LOG10_2_LO", c::LOG10_2_LO),
                    ("LOG10_E", c::LOG10_E),
                ],
                &[],
            ),
            Exact::Tanh => TANH.to_owned(),
            Exact::Sin => SIN.to_owned(),
            Exact::Cos => COS.to_owned(),
            Exact::Tan => TAN.to_owned(),
            Exact::Erf => fill(
                ERF,
                &[],
                &[
                    ("POLYNOMIAL_NEAR", "z", &c::ERF_NEAR),
                    ("POLYNOMIAL_FAR", "u", &c::ERF_FAR),
                ],
            ),
            Exact::Powi => POWI.to_owned(),
            Exact::Powf => fill(
                POWF,
                &[
                    ("TWO_LOG2_E_HI", c::TWO_LOG2_E_HI),
                    ("TWO_LOG2_E_LO", c::TWO_LOG2_E_LO),
                    ("TWO_LOG2_E", c::TWO_LOG2_E),
                ],
                &[("POLYNOMIAL", "z", &c::ATANH)],
            ),
        }
    }
}

/// Puts constants and polynomials in the place of their names.
fn fill(text: &str, constants: &[(&str, f64)], polynomials: &[(&str, &str, &[f64])]) -> String {
    let mut text = text.to_owned();
    for (name, x, coefficients) in polynomials {
        text = text.replace(&format!("  {name};\n"), &horner(x, coefficients));
    }
    for (name, value) in constants {
        text = text.replace(name, &hex(*value));
    }
    text
}

/// Statements that leave the polynomial in `sum`, by Horner's rule: multiply, then add.
fn horner(x: &str, coefficients: &[f64]) -> String {
    let mut highest_first = coefficients.iter().rev();
    let first = highest_first.next().expect("a polynomial has coefficients");
    let mut text = format!("  double sum = {};\n", hex(*first));
    for coefficient in highest_first {
        let (sign, size) = if coefficient.is_sign_negative() {
            ("-", -coefficient)
        } else {
            ("+", *coefficient)
        };
        let _ = writeln!(text, "  sum = sum * {x} {sign} {};", hex(size));
    }
    text
}

/// A finite, normal `f64` as a hexadecimal literal, which is exact.
pub(super) fn hex(x: f64) -> String {
    let bits = x.to_bits();
    let sign = if x.is_sign_negative() { "-" } else { "" };
    let exponent = (bits >> 52 & 0x7ff) as i64 - 1023;
    let digits = format!("{:013x}", bits & ((1 << 52) - 1));
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    format!("{sign}0x1{point}{digits}p{exponent}")
}

const LIMIT: &str = "\
__device__ __forceinline__ double limit(double x, double low, double high) {
  x = x < low ? low : x;
  return high < x ? high : x;
}
";

const POWER_OF_TWO: &str = "\
// 2^n from the low bits of a word that holds n.
__device__ __forceinline__ double power_of_two(long long n) {
  return __longlong_as_double((long long)(((unsigned long long)n << 52) + 0x3ff0000000000000ull));
}
";

const EXP_REDUCE: &str = "\
// x = n ln 2 + r with |r| <= ln 2 / 2: 2^n, and e^r - 1 as `rest`.
__device__ __forceinline__ double exp_reduce(double x, double& rest) {
  const double shifted = x * LOG2_E + 0x1.8p52;
  const double n = shifted - 0x1.8p52;
  const double r = (x - n * LN2_HI) - n * LN2_LO;
  POLYNOMIAL;
  rest = r * sum;
  return power_of_two(__double_as_longlong(shifted));
}
";

const EXP2_FRACTION: &str = "\
// 2^r for |r| <= 1/2.
__device__ __forceinline__ double exp2_fraction(double r) {
  POLYNOMIAL;
  return 1.0 + r * sum;
}
";

const LOG_SPLIT: &str = "\
// x = 2^k m with sqrt(1/2) <= m < sqrt(2), for a positive finite x.
__device__ __forceinline__ double log_split(double x, double& m) {
  const unsigned long long bits = (unsigned long long)__double_as_longlong(x);
  const unsigned long long biased = (bits - 0x3fe6a09e667f3bcdull + (1024ull << 52)) >> 52;
  m = __longlong_as_double((long long)(bits - ((biased - 1024) << 52)));
  // The bits of 2^52 with an integer in the mantissa are 2^52 plus this integer.
  return __longlong_as_double((long long)(0x4330000000000000ull | biased)) - (0x1p52 + 1024.0);
}
";

const LOG_MANTISSA: &str = "\
// ln m = 2 atanh s with s = (m - 1) / (m + 1).
__device__ __forceinline__ double log_mantissa(double m) {
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  POLYNOMIAL;
  return 2.0 * (s + s * (z * sum));
}
";

const LOG_ENDS: &str = "\
// The logarithm, unless x is 0, negative, infinite or NaN.
__device__ __forceinline__ float log_ends(float x, double log) {
  if (x == 0.0f) return -__int_as_float(0x7f800000);
  if (!(0.0f < x)) return __int_as_float(0x7fc00000);
  return x == __int_as_float(0x7f800000) ? x : (float)log;
}
";

const QUARTER_TURNS: &str = "\
__device__ const unsigned two_over_pi_bits[9] = {WORDS};

// x = n pi/2 + r with |r| <= pi/4, n in its low two bits; r is NaN where x is not finite.
__device__ __forceinline__ unsigned quarter_turns(float x, double& r) {
  if (fabsf(x) <= 4194304.0f) {
    const double shifted = (double)x * TWO_OVER_PI + 0x1.8p52;
    const double n = shifted - 0x1.8p52;
    r = (((double)x - n * HALF_PI_1) - n * HALF_PI_2) - n * HALF_PI_3;
    return (unsigned)__double_as_longlong(shifted);
  }
  if (!(fabsf(x) < __int_as_float(0x7f800000))) {
    r = __longlong_as_double(0x7ff8000000000000ll);
    return 0;
  }
  // Payne and Hanek 1983: 128 bits of 2/pi decide, from the one of weight 2 on.
  const unsigned bits = __float_as_uint(x);
  const unsigned long long mantissa = (bits & 0x007fffff) | 0x00800000;
  const unsigned start = (bits >> 23 & 0xff) - 120;
  const unsigned word = start / 32;
  const unsigned shift = start % 32;
  unsigned long long window[5];
  for (int i = 0; i < 5; ++i) window[i] = two_over_pi_bits[word + i];
  for (int i = 0; i < 4; ++i) {
    window[i] = ((window[i] << shift) | (window[i + 1] << shift >> 32)) & 0xffffffff;
  }
  const unsigned long long window_high = window[0] << 32 | window[1];
  // Quarter turns modulo 4, in units of 2^-126, as two words.
  const unsigned long long carry = mantissa * window[2] + (mantissa * window[3] >> 32);
  const unsigned long long high = mantissa * window_high + (carry >> 32);
  const unsigned long long low = mantissa * (window[2] << 32 | window[3]);
  const unsigned n = (unsigned)((high + (1ull << 61)) >> 62);
  const unsigned long long rest = high - ((unsigned long long)n << 62);
  const double turns = (double)(long long)rest * 0x1p-62 + (double)low * 0x1p-126;
  r = x < 0.0f ? -(turns * HALF_PI) : turns * HALF_PI;
  return x < 0.0f ? 0u - n : n;
}
";

const SIN_POLYNOMIAL: &str = "\
__device__ __forceinline__ double sin_polynomial(double r) {
  const double z = r * r;
  POLYNOMIAL;
  return r * sum;
}
";

const COS_POLYNOMIAL: &str = "\
__device__ __forceinline__ double cos_polynomial(double r) {
  const double z = r * r;
  POLYNOMIAL;
  return 1.0 - (0.5 * z - z * z * sum);
}
";

const QUADRANT: &str = "\
// The sine of n pi/2 + r.
__device__ __forceinline__ double quadrant(unsigned n, double r) {
  const double value = n & 1 ? cos_polynomial(r) : sin_polynomial(r);
  return n & 2 ? -value : value;
}
";

const EXP: &str = "\
__device__ __forceinline__ float exact_exp(float x) {
  double rest;
  const double scale = exp_reduce(limit((double)x, -110.0, 100.0), rest);
  return (float)(scale * (1.0 + rest));
}
";

const EXP2: &str = "\
__device__ __forceinline__ float exact_exp2(float x) {
  const double limited = limit((double)x, -160.0, 140.0);
  const double shifted = limited + 0x1.8p52;
  const double n = shifted - 0x1.8p52;
  return (float)(power_of_two(__double_as_longlong(shifted)) * exp2_fraction(limited - n));
}
";

const LN: &str = "\
__device__ __forceinline__ float exact_ln(float x) {
  double m;
  const double k = log_split((double)x, m);
  return log_ends(x, k * LN2_HI + (k * LN2_LO + log_mantissa(m)));
}
";

const LOG2: &str = "\
__device__ __forceinline__ float exact_log2(float x) {
  double m;
  const double k = log_split((double)x, m);
  return log_ends(x, k + log_mantissa(m) * LOG2_E);
}
";

const LOG10: &str = "\
__device__ __forceinline__ float exact_log10(float x) {
  double m;
  const double k = log_split((double)x, m);
  return log_ends(x, k * LOG10_2_HI + (k * LOG10_2_LO + log_mantissa(m) * LOG10_E));
}
";

const TANH: &str = "\
__device__ __forceinline__ float exact_tanh(float x) {
  double rest;
  const double scale = exp_reduce(limit(2.0 * fabs((double)x), 0.0, 40.0), rest);
  const double m = (scale - 1.0) + scale * rest;
  return (float)copysign(m / (m + 2.0), (double)x);
}
";

const SIN: &str = "\
__device__ __forceinline__ float exact_sin(float x) {
  double r;
  const unsigned n = quarter_turns(x, r);
  return (float)quadrant(n, r);
}
";

const COS: &str = "\
__device__ __forceinline__ float exact_cos(float x) {
  double r;
  const unsigned n = quarter_turns(x, r);
  return (float)quadrant(n + 1, r);
}
";

const TAN: &str = "\
__device__ __forceinline__ float exact_tan(float x) {
  double r;
  const unsigned n = quarter_turns(x, r);
  const double sine = sin_polynomial(r);
  const double cosine = cos_polynomial(r);
  return (float)(n & 1 ? cosine / -sine : sine / cosine);
}
";

const ERF: &str = "\
__device__ __forceinline__ double erf_near(double z) {
  POLYNOMIAL_NEAR;
  return sum;
}

__device__ __forceinline__ double erf_far(double u) {
  POLYNOMIAL_FAR;
  return sum;
}

__device__ __forceinline__ float exact_erf(float x) {
  const double a = limit(fabs((double)x), 0.0, 4.0);
  const double value = a < 1.0 ? a * erf_near(a * a) : erf_far(a - 2.5);
  return (float)copysign(value, (double)x);
}
";

const POWI: &str = "\
__device__ __forceinline__ float exact_powi(float x, int n) {
  double power = 1.0;
  double square = (double)x;
  for (unsigned left = n < 0 ? 0u - (unsigned)n : (unsigned)n; left != 0; left >>= 1) {
    if (left & 1) power *= square;
    square *= square;
  }
  return (float)(n < 0 ? 1.0 / power : power);
}
";

const POWF: &str = "\
__device__ __forceinline__ double high_26_bits(double x) {
  return __longlong_as_double(__double_as_longlong(x) & ~0x07ffffffll);
}

// x^y for a positive finite x other than 1 and a finite y other than 0.
__device__ __forceinline__ double positive_powf(double x, double y) {
  double m;
  const double k = log_split(x, m);
  const double s = (m - 1.0) / (m + 1.0);
  const double s_hi = high_26_bits(s);
  const double s_lo = ((m - 1.0) - s_hi * (m + 1.0)) / (m + 1.0);
  const double z = s * s;
  POLYNOMIAL;
  const double f = TWO_LOG2_E_HI * s_hi;
  const double f_rest = TWO_LOG2_E_LO * s_hi + TWO_LOG2_E * (s_lo + s * (z * sum));
  const double f_hi = high_26_bits(f + f_rest);
  const double f_lo = (f - f_hi) + f_rest;
  const double whole = y * k;
  const double part = y * f_hi;
  const double shifted = limit(whole + part, -300.0, 300.0) + 0x1.8p52;
  const double n = shifted - 0x1.8p52;
  const double fraction = limit(((whole - n) + part) + y * f_lo, -1.0, 1.0);
  // Rounded to 50 bits, a power that is exact or lies midway between two floats is found as such.
  const double power = exp2_fraction(fraction);
  const double spread = power * 9.0;
  return power_of_two(__double_as_longlong(shifted)) * (spread - (spread - power));
}

__device__ __forceinline__ float exact_powf(float x, float y) {
  const float infinity = __int_as_float(0x7f800000);
  if (y == 0.0f || x == 1.0f) return 1.0f;
  if (x != x || y != y) return __int_as_float(0x7fc00000);
  const bool whole = 8388608.0f <= fabsf(y) || (float)(int)y == y;
  if (x < 0.0f && -infinity < x && !whole) return __int_as_float(0x7fc00000);
  const float a = fabsf(x);
  float magnitude = 1.0f;
  if (a == 0.0f || a == infinity || (a != 1.0f && fabsf(y) == infinity)) {
    // Only the side of 1 on which each lies matters.
    magnitude = (1.0f < a) == (0.0f < y) ? infinity : 0.0f;
  } else if (a != 1.0f) {
    magnitude = (float)positive_powf((double)a, (double)y);
  }
  const bool odd = fabsf(y) < 16777216.0f && (float)(int)y == y && ((int)y & 1);
  return odd && (__float_as_uint(x) >> 31) ? -magnitude : magnitude;
}
";
