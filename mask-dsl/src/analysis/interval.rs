//! The abstract values of range analysis: integer intervals, truth values that may be both, float intervals.

use std::fmt;

use crate::ir::Ty;

/// Beyond every value of the language and every product of two, with room to add: results are cut here.
pub(crate) const FAR: i128 = 1 << 126;

/// The integers from `lo` to `hi`; none if they cross.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IntRange {
    pub(crate) lo: i128,
    pub(crate) hi: i128,
}

impl IntRange {
    /// No integer: the expression is never evaluated.
    pub(crate) const EMPTY: IntRange = IntRange { lo: 1, hi: 0 };

    /// The integers from `lo` to `hi`.
    pub(crate) fn new(lo: i128, hi: i128) -> Self {
        if hi < lo {
            return Self::EMPTY;
        }
        Self {
            lo: lo.clamp(-FAR, FAR),
            hi: hi.clamp(-FAR, FAR),
        }
    }

    /// One integer.
    pub(crate) fn point(v: i128) -> Self {
        Self::new(v, v)
    }

    /// Every value of an integer type.
    pub(crate) fn of_ty(ty: Ty) -> Self {
        let (lo, hi) = ty.int_range().expect("only integers have an integer range");
        Self::new(i128::from(lo), i128::from(hi))
    }

    pub(crate) fn is_empty(self) -> bool {
        self.hi < self.lo
    }

    pub(crate) fn contains(self, v: i128) -> bool {
        self.lo <= v && v <= self.hi
    }

    /// Whether every member is a member of `other`.
    pub(crate) fn is_within(self, other: IntRange) -> bool {
        self.is_empty() || other.lo <= self.lo && self.hi <= other.hi
    }

    pub(crate) fn meet(self, other: IntRange) -> Self {
        Self::new(self.lo.max(other.lo), self.hi.min(other.hi))
    }

    pub(crate) fn join(self, other: IntRange) -> Self {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        Self::new(self.lo.min(other.lo), self.hi.max(other.hi))
    }
}

impl fmt::Display for IntRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lo == self.hi {
            write!(f, "{}", self.lo)
        } else {
            write!(f, "{}..={}", self.lo, self.hi)
        }
    }
}

/// Which truth values an expression may take; neither if it is never evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Truth {
    pub(crate) may_be_true: bool,
    pub(crate) may_be_false: bool,
}

impl Truth {
    pub(crate) const NEITHER: Truth = Truth::new(false, false);
    pub(crate) const BOTH: Truth = Truth::new(true, true);

    pub(crate) const fn new(may_be_true: bool, may_be_false: bool) -> Self {
        Self {
            may_be_true,
            may_be_false,
        }
    }

    pub(crate) fn known(v: bool) -> Self {
        Self::new(v, !v)
    }

    /// The value, if there is only one.
    pub(crate) fn decided(self) -> Option<bool> {
        (self.may_be_true != self.may_be_false).then_some(self.may_be_true)
    }

    pub(crate) fn join(self, other: Truth) -> Self {
        Self::new(
            self.may_be_true || other.may_be_true,
            self.may_be_false || other.may_be_false,
        )
    }
}

/// The floats from `lo` to `hi`, infinities included, and NaN if `nan`; no number if they cross.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FloatRange {
    pub(crate) lo: f32,
    pub(crate) hi: f32,
    pub(crate) nan: bool,
}

impl FloatRange {
    pub(crate) const EMPTY: FloatRange = FloatRange {
        lo: f32::INFINITY,
        hi: f32::NEG_INFINITY,
        nan: false,
    };
    pub(crate) const ANY: FloatRange = FloatRange {
        lo: f32::NEG_INFINITY,
        hi: f32::INFINITY,
        nan: true,
    };

    /// The numbers from `lo` to `hi`; a bound that is NaN means that nothing is known of it.
    pub(crate) fn new(lo: f32, hi: f32, nan: bool) -> Self {
        Self {
            lo: if lo.is_nan() { f32::NEG_INFINITY } else { lo },
            hi: if hi.is_nan() { f32::INFINITY } else { hi },
            nan,
        }
    }

    pub(crate) fn point(v: f32) -> Self {
        if v.is_nan() {
            return Self {
                nan: true,
                ..Self::EMPTY
            };
        }
        Self::new(v, v, false)
    }

    /// Whether there is no number; NaN may still be.
    pub(crate) fn has_no_number(self) -> bool {
        self.hi < self.lo
    }

    pub(crate) fn contains(self, v: f32) -> bool {
        if v.is_nan() {
            self.nan
        } else {
            self.lo <= v && v <= self.hi
        }
    }

    pub(crate) fn join(self, other: FloatRange) -> Self {
        Self {
            lo: self.lo.min(other.lo),
            hi: self.hi.max(other.hi),
            nan: self.nan || other.nan,
        }
    }

    pub(crate) fn or_nan(self, nan: bool) -> Self {
        Self {
            nan: self.nan || nan,
            ..self
        }
    }
}

/// What an expression may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Int(IntRange),
    Bool(Truth),
    Float(FloatRange),
}

impl Value {
    /// The value of an expression that is never evaluated.
    pub(crate) fn nothing(ty: Ty) -> Self {
        match ty {
            Ty::Bool => Value::Bool(Truth::NEITHER),
            Ty::I32 | Ty::I64 | Ty::U32 => Value::Int(IntRange::EMPTY),
            Ty::F32 => Value::Float(FloatRange::EMPTY),
        }
    }

    pub(crate) fn int(self) -> IntRange {
        match self {
            Value::Int(range) => range,
            Value::Bool(_) | Value::Float(_) => unreachable!("the arena is typed: an integer"),
        }
    }

    pub(crate) fn truth(self) -> Truth {
        match self {
            Value::Bool(truth) => truth,
            Value::Int(_) | Value::Float(_) => unreachable!("the arena is typed: a bool"),
        }
    }

    pub(crate) fn float(self) -> FloatRange {
        match self {
            Value::Float(range) => range,
            Value::Int(_) | Value::Bool(_) => unreachable!("the arena is typed: a float"),
        }
    }

    pub(crate) fn join(self, other: Value) -> Value {
        match (self, other) {
            (Value::Int(a), Value::Int(b)) => Value::Int(a.join(b)),
            (Value::Bool(a), Value::Bool(b)) => Value::Bool(a.join(b)),
            (Value::Float(a), Value::Float(b)) => Value::Float(a.join(b)),
            (Value::Int(_) | Value::Bool(_) | Value::Float(_), _) => {
                unreachable!("the arena is typed: branches agree")
            }
        }
    }
}
