//! How tightly C++ operators bind, so that text has the parentheses it needs and no others.

/// How tightly the outermost operator of a text binds, loosest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Precedence {
    Ternary,
    Or,
    And,
    BitOr,
    BitXor,
    BitAnd,
    Equality,
    Relation,
    Shift,
    Sum,
    Product,
    /// Signs and casts.
    Prefix,
    /// Names, calls, reads, literals.
    Atom,
}

impl Precedence {
    /// What the right side of a left-associative operator must have.
    pub(super) fn above(self) -> Precedence {
        match self {
            Precedence::Ternary => Precedence::Or,
            Precedence::Or => Precedence::And,
            Precedence::And => Precedence::BitOr,
            Precedence::BitOr => Precedence::BitXor,
            Precedence::BitXor => Precedence::BitAnd,
            Precedence::BitAnd => Precedence::Equality,
            Precedence::Equality => Precedence::Relation,
            Precedence::Relation => Precedence::Shift,
            Precedence::Shift => Precedence::Sum,
            Precedence::Sum => Precedence::Product,
            Precedence::Product => Precedence::Prefix,
            Precedence::Prefix | Precedence::Atom => Precedence::Atom,
        }
    }
}

/// A text and how it binds.
#[derive(Clone, Debug)]
pub(super) struct Printed {
    pub(super) text: String,
    pub(super) precedence: Precedence,
}

impl Printed {
    pub(super) fn atom(text: impl Into<String>) -> Printed {
        Printed {
            text: text.into(),
            precedence: Precedence::Atom,
        }
    }

    /// The text as an operand that must bind at least as tightly as `precedence`.
    pub(super) fn at(&self, precedence: Precedence) -> String {
        if precedence <= self.precedence {
            self.text.clone()
        } else {
            format!("({})", self.text)
        }
    }

    /// `sign operand`, or a cast of it.
    pub(super) fn prefix(sign: &str, operand: &Printed) -> Printed {
        let inner = operand.at(Precedence::Prefix);
        // Two minus signs in a row would be a decrement.
        let text = if sign == "-" && inner.starts_with('-') {
            format!("-({inner})")
        } else {
            format!("{sign}{inner}")
        };
        Printed {
            text,
            precedence: Precedence::Prefix,
        }
    }

    /// `lhs sign rhs`, left-associative.
    pub(super) fn infix(
        sign: &str,
        precedence: Precedence,
        lhs: &Printed,
        rhs: &Printed,
    ) -> Printed {
        let left = match precedence {
            // Comparisons that chain, and `&&` within `||`, are legal but read wrongly.
            Precedence::Equality | Precedence::Relation => precedence.above(),
            Precedence::Or if lhs.precedence == Precedence::And => Precedence::BitOr,
            Precedence::Ternary
            | Precedence::Or
            | Precedence::And
            | Precedence::BitOr
            | Precedence::BitXor
            | Precedence::BitAnd
            | Precedence::Shift
            | Precedence::Sum
            | Precedence::Product
            | Precedence::Prefix
            | Precedence::Atom => precedence,
        };
        let right = match precedence {
            Precedence::Or => Precedence::BitOr,
            // A mixture of shifts and sums, or of bits and comparisons, is read wrongly too.
            Precedence::Shift | Precedence::BitAnd | Precedence::BitXor | Precedence::BitOr => {
                precedence.above()
            }
            Precedence::Ternary
            | Precedence::And
            | Precedence::Equality
            | Precedence::Relation
            | Precedence::Sum
            | Precedence::Product
            | Precedence::Prefix
            | Precedence::Atom => precedence.above(),
        };
        Printed {
            text: format!("{} {sign} {}", lhs.at(left), rhs.at(right)),
            precedence,
        }
    }

    /// `cond ? then : otherwise`
    pub(super) fn ternary(cond: &Printed, then: &Printed, otherwise: &Printed) -> Printed {
        Printed {
            text: format!(
                "{} ? {} : {}",
                cond.at(Precedence::Or),
                then.at(Precedence::Or),
                otherwise.at(Precedence::Ternary),
            ),
            precedence: Precedence::Ternary,
        }
    }

    /// `name(arguments)`
    pub(super) fn call(name: &str, arguments: &[&Printed]) -> Printed {
        let texts: Vec<&str> = arguments.iter().map(|a| a.text.as_str()).collect();
        Printed::atom(format!("{name}({})", texts.join(", ")))
    }
}
