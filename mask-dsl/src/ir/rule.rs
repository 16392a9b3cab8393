//! A rule: one `mask_mod` or `score_mod` as an expression over indices, sizes and captures.

use std::sync::Arc;

use super::arena::{Arena, ExprId, Span};
use super::ty::{Elem, Ty};

/// Slot of a captured scalar or buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CaptureId(pub u32);

impl CaptureId {
    /// Position among the captures.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Slot of a dimension name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DimId(pub u32);

impl DimId {
    /// Position among the dimension names.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a rule computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleKind {
    /// Which query may see which key: `bool`.
    Mask,
    /// How a score changes: `f32`, from the score after `sm_scale`.
    Score,
}

/// The text that a rule came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// A file name, or what stands for one.
    pub name: String,
    /// The whole text; spans are bytes of it.
    pub text: String,
}

/// What is known of one axis of a captured buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Declared: at least the value of this integer expression over sizes, scalars and dimension names.
    AtLeast(ExprId),
    /// Not declared: what is bound decides.
    Unspecified,
}

/// Whether a capture is one value or a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaptureKind {
    /// One run-time value.
    Scalar(Ty),
    /// A strided buffer.
    Buffer {
        /// Element type in memory.
        elem: Elem,
        /// One entry per axis, outermost first; empty for a 0-dimensional buffer.
        extents: Vec<Extent>,
    },
}

/// A captured value: its name, shape and declared range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureDecl {
    /// The name in the rule.
    pub name: String,
    /// Scalar or buffer.
    pub kind: CaptureKind,
    /// Declared least value (of every element), an integer expression over literals, sizes and dimension names.
    pub min: Option<ExprId>,
    /// Declared greatest value, inclusive.
    pub max: Option<ExprId>,
    /// Where it was declared.
    pub span: Option<Span>,
}

impl CaptureDecl {
    /// The type that a read gives.
    pub fn value_ty(&self) -> Ty {
        match &self.kind {
            CaptureKind::Scalar(ty) => *ty,
            CaptureKind::Buffer { elem, .. } => elem.loads_as(),
        }
    }
}

/// A dimension name, such as `docs` in `start: [i32; docs]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DimDecl {
    /// The name in the rule.
    pub name: String,
    /// Where it first stands.
    pub span: Option<Span>,
}

/// One `mask_mod` or `score_mod`.
#[derive(Clone, Debug)]
pub struct Rule {
    /// How it is called in messages.
    pub name: String,
    /// The documentation comment above it.
    pub doc: String,
    /// Mask or score.
    pub kind: RuleKind,
    /// Captures by slot.
    pub captures: Vec<CaptureDecl>,
    /// Dimension names by slot.
    pub dims: Vec<DimDecl>,
    /// All nodes, also those of extents and declared ranges.
    pub arena: Arena,
    /// The result: `bool` for a mask, `f32` for a score.
    pub root: ExprId,
    /// The text it came from, for diagnostics.
    pub source: Option<Arc<Source>>,
}

impl Rule {
    /// Which nodes the result depends on (not those that only extents or ranges use), by arena position.
    pub fn live(&self) -> Vec<bool> {
        let mut live = vec![false; self.arena.len()];
        live[self.root.index()] = true;
        for id in self.arena.ids().rev() {
            if live[id.index()] {
                self.arena
                    .expr(id)
                    .for_each_operand(|operand| live[operand.index()] = true);
            }
        }
        live
    }

    /// Slot of the capture called `name`.
    pub fn capture_named(&self, name: &str) -> Option<CaptureId> {
        let at = self.captures.iter().position(|decl| decl.name == name)?;
        Some(CaptureId(at as u32))
    }
}
