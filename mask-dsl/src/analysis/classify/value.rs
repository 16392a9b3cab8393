//! Abstract integers over a region: bounds that hold for every cell, values that every block surely attains, and
//! bits that are known.

use crate::ir::Ty;

use super::tri::Tri;

/// What an integer does over a region.
///
/// `lo..=hi` bounds it at every cell. If `step` is not 0, each mask block of the region attains `at_lo`,
/// `at_lo + step`, … up to `at_hi`. `ones` and `zeros` are bits known to be 1 and 0 at every cell (of values that
/// are not negative; both 0 when nothing is known).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) lo: i64,
    pub(crate) hi: i64,
    pub(crate) at_lo: i64,
    pub(crate) at_hi: i64,
    pub(crate) step: i64,
    pub(crate) ones: u64,
    pub(crate) zeros: u64,
}

impl Value {
    pub(crate) fn constant(v: i64) -> Value {
        Value {
            lo: v,
            hi: v,
            at_lo: v,
            at_hi: v,
            step: 1,
            ones: 0,
            zeros: 0,
        }
    }

    /// Bounds alone.
    pub(crate) fn range(lo: i64, hi: i64) -> Value {
        if lo == hi {
            return Value::constant(lo);
        }
        Value {
            lo,
            hi,
            at_lo: 0,
            at_hi: 0,
            step: 0,
            ones: 0,
            zeros: 0,
        }
    }

    /// Bounds that are attained in steps of `step`; 0 for a range that only bounds.
    pub(crate) fn attained(lo: i64, hi: i64, step: i64) -> Value {
        Value {
            at_lo: lo,
            at_hi: hi,
            step,
            ..Value::range(lo, hi)
        }
    }

    pub(crate) fn of_type(ty: Ty) -> Value {
        let (lo, hi) = ty.int_range().unwrap_or((i64::MIN, i64::MAX));
        Value::range(lo, hi)
    }

    pub(crate) fn is_constant(self) -> bool {
        self.lo == self.hi
    }

    /// Adds the bits that the bounds share.
    fn with_bits_of_bounds(mut self) -> Value {
        if self.lo < 0 {
            return self;
        }
        let differing = (self.lo ^ self.hi) as u64;
        let known = match differing {
            0 => u64::MAX,
            d => !(u64::MAX >> d.leading_zeros()),
        };
        self.ones |= self.lo as u64 & known;
        self.zeros |= !(self.lo as u64) & known;
        self
    }

    /// Narrows the bounds to what the known bits allow, and the bits to what the bounds share.
    fn meet_bits(mut self, ones: u64, zeros: u64) -> Value {
        // Bit 63 is the sign; a value with known bits is not negative.
        let lo = (ones & (i64::MAX as u64)) as i64;
        let hi = (!zeros & (i64::MAX as u64)) as i64;
        self.lo = self.lo.max(lo);
        self.hi = self.hi.min(hi);
        self.ones |= ones;
        self.zeros |= zeros;
        self.with_bits_of_bounds()
    }

    /// The value through a map that is monotone and, on attained values, keeps `step` (or loses it as told).
    fn mapped(self, f: impl Fn(i64) -> i64, step: i64) -> Value {
        let (a, b) = (f(self.lo), f(self.hi));
        let mut value = Value::range(a.min(b), a.max(b));
        if self.step != 0 && value.step == 0 {
            let (a, b) = (f(self.at_lo), f(self.at_hi));
            value.at_lo = a.min(b);
            value.at_hi = a.max(b);
            value.step = step;
        }
        value
    }

    /// The step when only the two ends of the attained values are still attained.
    fn ends(lo: i64, hi: i64) -> i64 {
        hi.saturating_sub(lo).max(1)
    }

    pub(crate) fn neg(self) -> Value {
        self.mapped(i64::saturating_neg, self.step)
    }

    pub(crate) fn abs(self) -> Value {
        if 0 <= self.lo {
            return self;
        }
        if self.hi <= 0 {
            return self.neg();
        }
        let mut value = Value::range(0, self.hi.max(self.lo.saturating_neg()));
        if self.step == 1 && self.at_lo <= 0 && 0 <= self.at_hi {
            value.at_lo = 0;
            value.at_hi = self.at_hi.max(-self.at_lo);
            value.step = 1;
        } else if self.step != 0 {
            let (a, b) = (self.at_lo.saturating_abs(), self.at_hi.saturating_abs());
            value.at_lo = a.min(b);
            value.at_hi = a.max(b);
            value.step = Self::ends(value.at_lo, value.at_hi);
        }
        value
    }

    pub(crate) fn signum(self) -> Value {
        let ends = Self::ends(self.at_lo.signum(), self.at_hi.signum());
        self.mapped(i64::signum, ends)
    }

    /// `self + other`. `apart` says that the two depend on different axes, so that attained values combine freely.
    pub(crate) fn add(self, other: Value, apart: bool) -> Value {
        let mut value = Value::range(
            self.lo.saturating_add(other.lo),
            self.hi.saturating_add(other.hi),
        );
        let free = apart || self.is_constant() || other.is_constant();
        if value.step == 0 && free && self.step != 0 && other.step != 0 {
            value.at_lo = self.at_lo.saturating_add(other.at_lo);
            value.at_hi = self.at_hi.saturating_add(other.at_hi);
            value.step = if self.is_constant() || self.at_lo == self.at_hi {
                other.step
            } else if other.is_constant() || other.at_lo == other.at_hi {
                self.step
            } else if self.step == 1 && other.step == 1 {
                1
            } else {
                Self::ends(value.at_lo, value.at_hi)
            };
        }
        value
    }

    pub(crate) fn sub(self, other: Value, apart: bool) -> Value {
        self.add(other.neg(), apart)
    }

    pub(crate) fn mul(self, other: Value) -> Value {
        if other.is_constant() {
            let c = other.lo;
            return self.mapped(
                |v| v.saturating_mul(c),
                self.step.saturating_mul(c.saturating_abs()).max(1),
            );
        }
        if self.is_constant() {
            return other.mul(self);
        }
        let products = [
            self.lo.saturating_mul(other.lo),
            self.lo.saturating_mul(other.hi),
            self.hi.saturating_mul(other.lo),
            self.hi.saturating_mul(other.hi),
        ];
        Value::range(min4(products), max4(products))
    }

    /// Division by a divisor that is surely positive at the cells that matter; `quotient` rounds in some monotone way.
    pub(crate) fn div(self, divisor: Value, quotient: fn(i64, i64) -> i64) -> Value {
        if divisor.hi <= 0 || divisor.lo < 0 {
            // Negative divisors are rare: bound by the dividend.
            let reach = self.lo.saturating_abs().max(self.hi.saturating_abs());
            return Value::range(reach.saturating_neg(), reach);
        }
        let (least, greatest) = (divisor.lo.max(1), divisor.hi);
        if least == greatest {
            // A quotient moves by at most one when the dividend moves by one, so dense stays dense.
            let step = if self.step == 1 {
                1
            } else {
                Self::ends(quotient(self.at_lo, least), quotient(self.at_hi, least))
            };
            return self.mapped(|v| quotient(v, least), step);
        }
        let corners = [
            quotient(self.lo, least),
            quotient(self.lo, greatest),
            quotient(self.hi, least),
            quotient(self.hi, greatest),
        ];
        Value::range(min4(corners), max4(corners))
    }

    /// Remainder of floor division by a positive constant. `sweeps` says that every block runs through all residues
    /// `residue + j * stride` (of values that are all congruent to `residue` modulo `stride`).
    pub(crate) fn rem_floor(self, m: i64, stride: i64, residue: i64, sweeps: bool) -> Value {
        if self.lo.div_euclid(m) == self.hi.div_euclid(m) {
            let base = self.lo.div_euclid(m) * m;
            return self.mapped(|v| v - base, self.step);
        }
        let lo = residue.rem_euclid(stride);
        let hi = m - stride + lo;
        if sweeps {
            return Value::attained(lo, hi, stride);
        }
        let mut value = Value::range(lo, hi);
        // A dense run across a multiple of m attains both ends of the circle.
        if self.step == 1
            && self.at_lo < self.at_hi
            && self.at_lo.div_euclid(m) != self.at_hi.div_euclid(m)
        {
            let full = m - 1 <= self.at_hi.saturating_sub(self.at_lo);
            value.at_lo = 0;
            value.at_hi = m - 1;
            value.step = if full { 1 } else { Self::ends(0, m - 1) };
        }
        value
    }

    pub(crate) fn min(self, other: Value, apart: bool) -> Value {
        self.neg().max(other.neg(), apart).neg()
    }

    pub(crate) fn max(self, other: Value, apart: bool) -> Value {
        let mut value = Value::range(self.lo.max(other.lo), self.hi.max(other.hi));
        let free = apart || self.is_constant() || other.is_constant();
        if value.step == 0 && free && self.step != 0 && other.step != 0 {
            value.at_lo = self.at_lo.max(other.at_lo);
            value.at_hi = self.at_hi.max(other.at_hi);
            value.step = if self.step == 1 && other.step == 1 {
                1
            } else {
                Self::ends(value.at_lo, value.at_hi)
            };
        }
        value
    }

    /// Joins the values of two branches.
    pub(crate) fn join(self, other: Value) -> Value {
        Value {
            ones: self.ones & other.ones,
            zeros: self.zeros & other.zeros,
            ..Value::range(self.lo.min(other.lo), self.hi.max(other.hi))
        }
    }

    /// The value if it surely fits the type, else anything of the type (a wrap may have happened).
    pub(crate) fn wrapped(self, ty: Ty) -> Value {
        let whole = Value::of_type(ty);
        if whole.lo <= self.lo && self.hi <= whole.hi {
            self
        } else {
            whole
        }
    }

    pub(crate) fn bit_and(self, other: Value) -> Value {
        let (a, b) = (self.with_bits_of_bounds(), other.with_bits_of_bounds());
        if a.lo < 0 && b.lo < 0 {
            return Value::range(i64::MIN, a.hi.max(b.hi).max(0));
        }
        let hi = match (a.lo < 0, b.lo < 0) {
            (true, _) => b.hi,
            (_, true) => a.hi,
            (false, false) => a.hi.min(b.hi),
        };
        Value::range(0, hi).meet_bits(a.ones & b.ones, a.zeros | b.zeros)
    }

    pub(crate) fn bit_or(self, other: Value) -> Value {
        let (a, b) = (self.with_bits_of_bounds(), other.with_bits_of_bounds());
        if a.lo < 0 || b.lo < 0 {
            return Value::range(a.lo.min(b.lo).min(0), all_ones(a.hi.max(b.hi)));
        }
        Value::range(a.lo.max(b.lo), all_ones(a.hi | b.hi))
            .meet_bits(a.ones | b.ones, a.zeros & b.zeros)
    }

    pub(crate) fn bit_xor(self, other: Value) -> Value {
        let (a, b) = (self.with_bits_of_bounds(), other.with_bits_of_bounds());
        if a.lo < 0 || b.lo < 0 {
            return Value::range(i64::MIN, i64::MAX);
        }
        Value::range(0, all_ones(a.hi | b.hi)).meet_bits(
            a.ones & b.zeros | a.zeros & b.ones,
            a.ones & b.ones | a.zeros & b.zeros,
        )
    }

    /// `self << amount`, before wrapping.
    pub(crate) fn shl(self, amount: Value) -> Value {
        if !amount.is_constant() || !(0..=62).contains(&amount.lo) {
            return Value::range(i64::MIN, i64::MAX);
        }
        let n = amount.lo as u32;
        let shift =
            |v: i64| (i128::from(v) << n).clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
        let value = self.mapped(shift, (self.step << n.min(40)).max(1));
        let bits = self.with_bits_of_bounds();
        if bits.lo < 0 || value.hi == i64::MAX {
            return value;
        }
        value.meet_bits(bits.ones << n, bits.zeros << n | ((1u64 << n) - 1))
    }

    /// `self >> amount`, arithmetic.
    pub(crate) fn shr(self, amount: Value) -> Value {
        if !amount.is_constant() || !(0..=63).contains(&amount.lo) {
            return Value::range(self.lo.min(0), self.hi.max(0));
        }
        let n = amount.lo as u32;
        let step = if self.step == 1 {
            1
        } else {
            Self::ends(self.at_lo >> n, self.at_hi >> n)
        };
        let value = self.mapped(|v| v >> n, step);
        let bits = self.with_bits_of_bounds();
        if bits.lo < 0 {
            return value;
        }
        let high = if n == 0 { 0 } else { !(u64::MAX >> n) };
        value.meet_bits(bits.ones >> n, bits.zeros >> n | high)
    }

    /// `self == other`. `stride` and `residue` say that `self - other` is always congruent to `residue` modulo `stride`.
    pub(crate) fn equals(self, other: Value, apart: bool, congruent: (i64, i64)) -> Tri {
        if self.is_constant() && other.is_constant() {
            return Tri::constant(self.lo == other.lo);
        }
        let disjoint = self.hi < other.lo || other.hi < self.lo;
        let clash =
            (self.ones | self.zeros | other.ones | other.zeros) != 0 && self.bits_clash(other);
        let (stride, residue) = congruent;
        if disjoint || clash || 1 < stride && residue.rem_euclid(stride) != 0 {
            return Tri::FALSE;
        }
        let free = apart || self.is_constant() || other.is_constant();
        let mut tri = Tri::UNKNOWN;
        if free && self.step != 0 && other.step != 0 {
            tri.sure_true = self.shares_attained(other);
            tri.sure_false =
                self.at_lo != self.at_hi || other.at_lo != other.at_hi || self.at_lo != other.at_lo;
        }
        tri
    }

    fn bits_clash(self, other: Value) -> bool {
        let (a, b) = (self.with_bits_of_bounds(), other.with_bits_of_bounds());
        a.ones & b.zeros != 0 || a.zeros & b.ones != 0
    }

    fn attains(self, v: i64) -> bool {
        self.step != 0
            && self.at_lo <= v
            && v <= self.at_hi
            && (v.wrapping_sub(self.at_lo)) % self.step == 0
    }

    fn shares_attained(self, other: Value) -> bool {
        self.attains(other.at_lo)
            || self.attains(other.at_hi)
            || other.attains(self.at_lo)
            || other.attains(self.at_hi)
    }

    /// `self < 0` of a difference.
    pub(crate) fn is_negative(self) -> Tri {
        if self.hi < 0 {
            return Tri::TRUE;
        }
        if 0 <= self.lo {
            return Tri::FALSE;
        }
        Tri {
            sure_true: self.step != 0 && self.at_lo < 0,
            sure_false: self.step != 0 && 0 <= self.at_hi,
            ..Tri::UNKNOWN
        }
    }
}

/// The least `2^n - 1` that is not below `v`.
fn all_ones(v: i64) -> i64 {
    if v <= 0 {
        return v.max(0);
    }
    i64::MAX >> (v.leading_zeros() - 1)
}

fn min4(v: [i64; 4]) -> i64 {
    v[0].min(v[1]).min(v[2]).min(v[3])
}

fn max4(v: [i64; 4]) -> i64 {
    v[0].max(v[1]).max(v[2]).max(v[3])
}
