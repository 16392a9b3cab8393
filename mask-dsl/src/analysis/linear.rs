//! Linear forms: an integer expression as a constant plus a sum of coefficients times atoms.

use crate::ir::{CaptureId, DimId, ExprId, Var};

/// What a linear form does not look into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Atom {
    /// An index or a size.
    Var(Var),
    /// Absolute position of the first query row of the call.
    QOffset,
    /// A run-time scalar.
    Scalar(CaptureId),
    /// A dimension name.
    Dim(DimId),
    /// An expression that is not linear: a read, a product, a remainder.
    Expr(ExprId),
}

impl Atom {
    /// A set of one: sizes and indices have bits of their own, everything else shares the other 48.
    pub(crate) fn bit(self) -> u64 {
        let at = match self {
            Atom::Var(var) => match var {
                Var::B => 0,
                Var::H => 1,
                Var::QIdx => 2,
                Var::KvIdx => 3,
                Var::Score => 4,
                Var::QLen => 5,
                Var::KvLen => 6,
                Var::Batch => 7,
                Var::NumQHeads => 8,
            },
            Atom::QOffset => 9,
            Atom::Scalar(slot) => 16 + slot.index() * 5 % 48,
            Atom::Dim(dim) => 16 + (dim.index() * 5 + 23) % 48,
            Atom::Expr(id) => return node_bit(id),
        };
        1 << at
    }
}

/// The bit of a node in sets of nodes that may collide.
pub(crate) fn node_bit(id: ExprId) -> u64 {
    1 << (16 + id.index() % 48)
}

/// Longer sums become atoms, so that the forms of a rule take linear space.
const MAX_TERMS: usize = 12;
/// Products of coefficients and 64-bit values, `MAX_TERMS` of them, stay far inside `i128`.
const MAX_COEFFICIENT: i128 = 1 << 50;
/// The same for the constant.
const MAX_CONSTANT: i128 = 1 << 100;

/// `constant + Σ coefficient · atom`, atoms ascending, no coefficient 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Linear {
    pub(crate) terms: Vec<(Atom, i128)>,
    pub(crate) constant: i128,
}

impl Linear {
    /// A form without atoms.
    pub(crate) fn constant(constant: i128) -> Self {
        Self {
            terms: Vec::new(),
            constant,
        }
    }

    /// One atom, once.
    pub(crate) fn atom(atom: Atom) -> Self {
        Self {
            terms: vec![(atom, 1)],
            constant: 0,
        }
    }

    /// The value, if there are no atoms.
    pub(crate) fn as_constant(&self) -> Option<i128> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// The expression that this form is an atom for.
    pub(crate) fn as_atom(&self) -> Option<Atom> {
        match self.terms[..] {
            [(atom, 1)] if self.constant == 0 => Some(atom),
            _ => None,
        }
    }

    /// The factor of an atom, 0 if it does not occur.
    pub(crate) fn coefficient(&self, atom: Atom) -> i128 {
        match self.terms.binary_search_by_key(&atom, |term| term.0) {
            Ok(at) => self.terms[at].1,
            Err(_) => 0,
        }
    }

    /// The set of its atoms.
    pub(crate) fn mask(&self) -> u64 {
        self.terms.iter().fold(0, |mask, term| mask | term.0.bit())
    }

    /// `self * scale + other * times`; `None` if it grows beyond what sums may hold.
    pub(crate) fn combine(&self, scale: i128, other: &Linear, times: i128) -> Option<Linear> {
        let mut terms = Vec::with_capacity(self.terms.len() + other.terms.len());
        let constant = self.for_each_combined(scale, other, times, |atom, factor| {
            terms.push((atom, factor));
        })?;
        (terms.len() <= MAX_TERMS && constant.abs() <= MAX_CONSTANT)
            .then_some(Linear { terms, constant })
    }

    /// The terms and the constant of [`Linear::combine`], without a place to keep them.
    pub(crate) fn for_each_combined(
        &self,
        scale: i128,
        other: &Linear,
        times: i128,
        mut f: impl FnMut(Atom, i128),
    ) -> Option<i128> {
        let product = |a: i128, b: i128| match (a, b) {
            (a, 1) => Some(a),
            (a, -1) => Some(-a),
            (a, b) => a.checked_mul(b),
        };
        let mut add = |atom: Atom, factor: i128| -> Option<()> {
            if MAX_COEFFICIENT < factor.abs() {
                return None;
            }
            if factor != 0 {
                f(atom, factor);
            }
            Some(())
        };
        let (mut i, mut j) = (0, 0);
        while i < self.terms.len() || j < other.terms.len() {
            let left = self.terms.get(i);
            let right = other.terms.get(j);
            match (left, right) {
                (Some(&(a, x)), Some(&(b, y))) if a == b => {
                    add(a, product(x, scale)?.checked_add(product(y, times)?)?)?;
                    i += 1;
                    j += 1;
                }
                (Some(&(a, x)), other) if other.is_none_or(|&(b, _)| a < b) => {
                    add(a, product(x, scale)?)?;
                    i += 1;
                }
                (_, Some(&(b, y))) => {
                    add(b, product(y, times)?)?;
                    j += 1;
                }
                (_, None) => unreachable!("one of the two has terms left"),
            }
        }
        product(self.constant, scale)?.checked_add(product(other.constant, times)?)
    }

    /// `self - other`.
    pub(crate) fn minus(&self, other: &Linear) -> Option<Linear> {
        self.combine(1, other, -1)
    }

    /// `-self`.
    pub(crate) fn negated(&self) -> Linear {
        Linear {
            terms: self.terms.iter().map(|&(atom, c)| (atom, -c)).collect(),
            constant: -self.constant,
        }
    }

    /// The form with the expression `atom` replaced by `by`.
    pub(crate) fn substitute(&self, atom: Atom, by: &Linear) -> Option<Linear> {
        let coefficient = self.coefficient(atom);
        let rest = self.combine(1, &Linear::atom(atom), -coefficient)?;
        rest.combine(1, by, coefficient)
    }

    /// The terms with a positive first coefficient, the sign that this took, and the constant: `x` and `-x` share terms.
    pub(crate) fn split(&self) -> (Linear, i128, i128) {
        let sign = match self.terms.first() {
            Some(&(_, c)) if c < 0 => -1,
            _ => 1,
        };
        let mut terms = if sign < 0 {
            self.negated()
        } else {
            self.clone()
        };
        terms.constant = 0;
        (terms, sign, self.constant)
    }
}

/// The greatest common divisor of two positive numbers.
pub(crate) fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
