//! Affine forms of the two positions and the two lengths, known when a plane is compiled.

/// `q * q_idx + kv * kv_idx + q_len * Q + kv_len * K + constant`, where the lengths may range over a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Affine {
    pub(crate) q: i64,
    pub(crate) kv: i64,
    pub(crate) q_len: i64,
    pub(crate) kv_len: i64,
    pub(crate) constant: i64,
}

impl Affine {
    pub(crate) fn constant(v: i64) -> Affine {
        Affine {
            q: 0,
            kv: 0,
            q_len: 0,
            kv_len: 0,
            constant: v,
        }
    }

    pub(crate) fn as_constant(self) -> Option<i64> {
        (self == Affine::constant(self.constant)).then_some(self.constant)
    }

    /// `self + other * factor`, or `None` if a coefficient overflows.
    pub(crate) fn plus(self, other: Affine, factor: i64) -> Option<Affine> {
        let join = |a: i64, b: i64| a.checked_add(b.checked_mul(factor)?);
        Some(Affine {
            q: join(self.q, other.q)?,
            kv: join(self.kv, other.kv)?,
            q_len: join(self.q_len, other.q_len)?,
            kv_len: join(self.kv_len, other.kv_len)?,
            constant: join(self.constant, other.constant)?,
        })
    }

    pub(crate) fn times(self, factor: i64) -> Option<Affine> {
        Affine::constant(0).plus(self, factor)
    }
}

/// Greatest common divisor; `gcd(0, x)` is `|x|`.
pub(crate) fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).unwrap_or(1)
}
