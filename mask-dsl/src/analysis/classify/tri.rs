//! Three-valued truth over a region, with what is *surely* there kept apart from what may be.

/// What a boolean does over a region. "Surely" speaks of every mask block of the region: each holds such a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent facts; as bit sets their algebra would not read"
)]
pub(crate) struct Tri {
    /// Some cell may be true.
    pub(crate) may_true: bool,
    /// Some cell may be false.
    pub(crate) may_false: bool,
    /// Each block has a true cell.
    pub(crate) sure_true: bool,
    /// Each block has a false cell.
    pub(crate) sure_false: bool,
}

impl Tri {
    /// True at every cell.
    pub(crate) const TRUE: Tri = Tri {
        may_true: true,
        may_false: false,
        sure_true: true,
        sure_false: false,
    };
    /// False at every cell.
    pub(crate) const FALSE: Tri = Tri {
        may_true: false,
        may_false: true,
        sure_true: false,
        sure_false: true,
    };
    /// Nothing is known.
    pub(crate) const UNKNOWN: Tri = Tri {
        may_true: true,
        may_false: true,
        sure_true: false,
        sure_false: false,
    };

    pub(crate) fn constant(value: bool) -> Tri {
        if value { Tri::TRUE } else { Tri::FALSE }
    }

    pub(crate) fn is_true(self) -> bool {
        !self.may_false
    }

    pub(crate) fn is_false(self) -> bool {
        !self.may_true
    }

    /// Each block holds both answers: a proof of *partial*.
    pub(crate) fn is_mixed(self) -> bool {
        self.sure_true && self.sure_false
    }

    pub(crate) fn not(self) -> Tri {
        Tri {
            may_true: self.may_false,
            may_false: self.may_true,
            sure_true: self.sure_false,
            sure_false: self.sure_true,
        }
    }

    pub(crate) fn and(self, other: Tri) -> Tri {
        Tri {
            may_true: self.may_true && other.may_true,
            may_false: self.may_false || other.may_false,
            // A true cell of one side survives where the other side is true everywhere.
            sure_true: self.sure_true && other.is_true() || other.sure_true && self.is_true(),
            sure_false: self.sure_false || other.sure_false,
        }
    }

    pub(crate) fn or(self, other: Tri) -> Tri {
        self.not().and(other.not()).not()
    }

    pub(crate) fn xor(self, other: Tri) -> Tri {
        if other.is_false() {
            self
        } else if other.is_true() {
            self.not()
        } else if self.is_false() {
            other
        } else if self.is_true() {
            other.not()
        } else {
            Tri::UNKNOWN
        }
    }

    /// `if self { then } else { otherwise }`.
    pub(crate) fn select(self, then: Tri, otherwise: Tri) -> Tri {
        if self.is_true() {
            then
        } else if self.is_false() {
            otherwise
        } else {
            Tri {
                may_true: then.may_true || otherwise.may_true,
                may_false: then.may_false || otherwise.may_false,
                sure_true: then.is_true() && (self.sure_true || otherwise.is_true())
                    || otherwise.is_true() && self.sure_false,
                sure_false: then.is_false() && (self.sure_true || otherwise.is_false())
                    || otherwise.is_false() && self.sure_false,
            }
        }
    }
}
