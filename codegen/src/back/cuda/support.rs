//! Functions that printed rules call: what C++ leaves undefined or does not have, as short CUDA functions.

use std::collections::BTreeSet;

use maskwright_dsl::ir::Ty;

use super::math::Exact;

/// A function that printed rules call.
///
/// Those of integers are defined for all operands, because a value that a guard keeps out may still be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Support {
    /// `wrapping_add(a, b)`
    WrappingAdd(Ty),
    /// `wrapping_sub(a, b)`
    WrappingSub(Ty),
    /// `wrapping_mul(a, b)`
    WrappingMul(Ty),
    /// `wrapping_neg(a)`
    WrappingNeg(Ty),
    /// `wrapping_abs(a)`
    WrappingAbs(Ty),
    /// `shift_left(a, n)`
    ShiftLeft(Ty),
    /// `quotient(a, b)`: truncated, and 0 for a divisor of 0.
    Quotient(Ty),
    /// `remainder_of(a, b)`: truncated, and 0 for a divisor of 0.
    Remainder(Ty),
    /// `div_floor(a, b)`
    DivFloor(Ty),
    /// `rem_floor(a, b)`
    RemFloor(Ty),
    /// `div_euclid(a, b)`
    DivEuclid(Ty),
    /// `rem_euclid(a, b)`
    RemEuclid(Ty),
    /// `int_power(a, n)`
    IntPower(Ty),
    /// `signum(a)`
    Signum(Ty),
    /// `clamp(x, low, high)` of floats.
    Clamp,
    /// `to_i32(x)` of a float, `to_i64(x)` or `to_u32(x)`.
    FromFloat(Ty),
    /// `round_away(x)`
    RoundAway,
    /// `half_to_float(bits)`
    HalfToFloat,
    /// `bfloat_to_float(bits)`
    BfloatToFloat,
    /// `bit_at(bytes, at)`
    BitAt,
    /// A float function as one sequence of IEEE operations.
    Exact(Exact),
}

impl Support {
    /// Adds the function and those that it calls.
    pub(super) fn add_to(self, set: &mut BTreeSet<Support>) {
        if !set.insert(self) {
            return;
        }
        match self {
            Support::DivFloor(ty) | Support::DivEuclid(ty) => {
                Support::Quotient(ty).add_to(set);
                Support::Remainder(ty).add_to(set);
            }
            Support::RemFloor(ty) | Support::RemEuclid(ty) => Support::Remainder(ty).add_to(set),
            Support::Exact(exact) => {
                for needed in exact.needs() {
                    Support::Exact(*needed).add_to(set);
                }
            }
            Support::WrappingAdd(_)
            | Support::WrappingSub(_)
            | Support::WrappingMul(_)
            | Support::WrappingNeg(_)
            | Support::WrappingAbs(_)
            | Support::ShiftLeft(_)
            | Support::Quotient(_)
            | Support::Remainder(_)
            | Support::IntPower(_)
            | Support::Signum(_)
            | Support::Clamp
            | Support::FromFloat(_)
            | Support::RoundAway
            | Support::HalfToFloat
            | Support::BfloatToFloat
            | Support::BitAt => {}
        }
    }

    fn text(self) -> String {
        match self {
            Support::WrappingAdd(ty) => integers(ty, WRAPPING_ADD),
            Support::WrappingSub(ty) => integers(ty, WRAPPING_SUB),
            Support::WrappingMul(ty) => integers(ty, WRAPPING_MUL),
            Support::WrappingNeg(ty) => integers(ty, WRAPPING_NEG),
            Support::WrappingAbs(ty) => integers(ty, WRAPPING_ABS),
            Support::ShiftLeft(ty) => integers(ty, SHIFT_LEFT),
            Support::Quotient(Ty::U32) => integers(Ty::U32, UNSIGNED_QUOTIENT),
            Support::Quotient(ty) => integers(ty, QUOTIENT),
            Support::Remainder(Ty::U32) => integers(Ty::U32, UNSIGNED_REMAINDER),
            Support::Remainder(ty) => integers(ty, REMAINDER),
            Support::DivFloor(ty) => integers(ty, DIV_FLOOR),
            Support::RemFloor(ty) => integers(ty, REM_FLOOR),
            Support::DivEuclid(ty) => integers(ty, DIV_EUCLID),
            Support::RemEuclid(ty) => integers(ty, REM_EUCLID),
            Support::IntPower(ty) => integers(ty, INT_POWER),
            Support::Signum(Ty::F32) => FLOAT_SIGNUM.to_owned(),
            Support::Signum(ty) => integers(ty, SIGNUM),
            Support::Clamp => CLAMP.to_owned(),
            Support::FromFloat(Ty::I64) => TO_I64.to_owned(),
            Support::FromFloat(Ty::U32) => TO_U32.to_owned(),
            Support::FromFloat(_) => TO_I32.to_owned(),
            Support::RoundAway => ROUND_AWAY.to_owned(),
            Support::HalfToFloat => HALF_TO_FLOAT.to_owned(),
            Support::BfloatToFloat => BFLOAT_TO_FLOAT.to_owned(),
            Support::BitAt => BIT_AT.to_owned(),
            Support::Exact(exact) => exact.text(),
        }
    }
}

/// Definitions of these functions, callees first; what several rules need stands there once.
pub fn support_text(set: &BTreeSet<Support>) -> String {
    let texts: Vec<String> = set.iter().map(|support| support.text()).collect();
    texts.join("\n")
}

/// The C++ name of a type.
pub(super) fn c_type(ty: Ty) -> &'static str {
    match ty {
        Ty::Bool => "bool",
        Ty::I32 => "int",
        Ty::I64 => "long long",
        Ty::U32 => "unsigned",
        Ty::F32 => "float",
    }
}

/// `INT` stands for the type, `UINT` for the one without a sign, `MASK` for the greatest amount of a shift.
fn integers(ty: Ty, text: &str) -> String {
    let (unsigned, mask) = if ty == Ty::I64 {
        ("unsigned long long", "63")
    } else {
        ("unsigned", "31")
    };
    text.replace("UINT", unsigned)
        .replace("INT", c_type(ty))
        .replace("MASK", mask)
}

const WRAPPING_ADD: &str = "\
__device__ __forceinline__ INT wrapping_add(INT a, INT b) {
  return (INT)((UINT)a + (UINT)b);
}
";

const WRAPPING_SUB: &str = "\
__device__ __forceinline__ INT wrapping_sub(INT a, INT b) {
  return (INT)((UINT)a - (UINT)b);
}
";

const WRAPPING_MUL: &str = "\
__device__ __forceinline__ INT wrapping_mul(INT a, INT b) {
  return (INT)((UINT)a * (UINT)b);
}
";

const WRAPPING_NEG: &str = "\
__device__ __forceinline__ INT wrapping_neg(INT a) {
  return (INT)(0 - (UINT)a);
}
";

const WRAPPING_ABS: &str = "\
__device__ __forceinline__ INT wrapping_abs(INT a) {
  return a < 0 ? (INT)(0 - (UINT)a) : a;
}
";

const SHIFT_LEFT: &str = "\
__device__ __forceinline__ INT shift_left(INT a, unsigned n) {
  return (INT)((UINT)a << (n & MASK));
}
";

const QUOTIENT: &str = "\
// a / b where a guard may exclude this cell, so that b may be anything: 0 for b = 0, and -1 wraps.
__device__ __forceinline__ INT quotient(INT a, INT b) {
  if (b == 0) return 0;
  return b == -1 ? (INT)(0 - (UINT)a) : a / b;
}
";

const UNSIGNED_QUOTIENT: &str = "\
// a / b where a guard may exclude this cell, so that b may be 0.
__device__ __forceinline__ INT quotient(INT a, INT b) {
  return b == 0 ? 0 : a / b;
}
";

const REMAINDER: &str = "\
// a % b where a guard may exclude this cell, so that b may be anything.
__device__ __forceinline__ INT remainder_of(INT a, INT b) {
  return b == 0 || b == -1 ? 0 : a % b;
}
";

const UNSIGNED_REMAINDER: &str = "\
// a % b where a guard may exclude this cell, so that b may be 0.
__device__ __forceinline__ INT remainder_of(INT a, INT b) {
  return b == 0 ? 0 : a % b;
}
";

const DIV_FLOOR: &str = "\
__device__ __forceinline__ INT div_floor(INT a, INT b) {
  const INT rest = remainder_of(a, b);
  return quotient(a, b) - (INT)(rest != 0 && (rest < 0) != (b < 0));
}
";

const REM_FLOOR: &str = "\
__device__ __forceinline__ INT rem_floor(INT a, INT b) {
  const INT rest = remainder_of(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
";

const DIV_EUCLID: &str = "\
__device__ __forceinline__ INT div_euclid(INT a, INT b) {
  if (0 <= remainder_of(a, b)) return quotient(a, b);
  return b < 0 ? quotient(a, b) + 1 : quotient(a, b) - 1;
}
";

const REM_EUCLID: &str = "\
__device__ __forceinline__ INT rem_euclid(INT a, INT b) {
  const INT rest = remainder_of(a, b);
  if (0 <= rest) return rest;
  return b < 0 ? rest - b : rest + b;
}
";

const INT_POWER: &str = "\
__device__ __forceinline__ INT int_power(INT a, unsigned n) {
  UINT product = 1;
  for (UINT square = (UINT)a; n != 0; n >>= 1, square *= square) {
    if (n & 1) product *= square;
  }
  return (INT)product;
}
";

const SIGNUM: &str = "\
__device__ __forceinline__ INT signum(INT a) {
  return (INT)(0 < a) - (INT)(a < 0);
}
";

const FLOAT_SIGNUM: &str = "\
// 1 with the sign of x; NaN stays.
__device__ __forceinline__ float signum(float x) {
  return x == x ? copysignf(1.0f, x) : x;
}
";

const CLAMP: &str = "\
// A NaN stays, and so does the sign of a zero.
__device__ __forceinline__ float clamp(float x, float low, float high) {
  return x < low ? low : high < x ? high : x;
}
";

const TO_I32: &str = "\
// Saturates; NaN gives 0.
__device__ __forceinline__ int to_i32(float x) {
  return x == x ? __float2int_rz(x) : 0;
}
";

const TO_I64: &str = "\
// Saturates; NaN gives 0.
__device__ __forceinline__ long long to_i64(float x) {
  return x == x ? __float2ll_rz(x) : 0;
}
";

const TO_U32: &str = "\
// Saturates; NaN gives 0.
__device__ __forceinline__ unsigned to_u32(float x) {
  return x == x ? __float2uint_rz(x) : 0;
}
";

const ROUND_AWAY: &str = "\
// To the nearest integer, halves away from zero: the fraction that truncation drops is exact, so it decides.
__device__ __forceinline__ float round_away(float x) {
  const float whole = truncf(x);
  return 0.5f <= fabsf(x - whole) ? whole + copysignf(1.0f, x) : whole;
}
";

const HALF_TO_FLOAT: &str = "\
__device__ __forceinline__ float half_to_float(unsigned short bits) {
  float x;
  asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(x) : \"h\"(bits));
  return x;
}
";

const BFLOAT_TO_FLOAT: &str = "\
__device__ __forceinline__ float bfloat_to_float(unsigned short bits) {
  return __uint_as_float((unsigned)bits << 16);
}
";

const BIT_AT: &str = "\
__device__ __forceinline__ bool bit_at(const unsigned char* bytes, long long at) {
  return (bytes[at >> 3] >> (at & 7)) & 1;
}
";
