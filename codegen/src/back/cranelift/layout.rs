//! Where a lowered function finds the sizes and captured values of a call: a table of 64-bit slots.

use maskwright_dsl::capture::{Bindings, CaptureValue};
use maskwright_dsl::ir::{CaptureId, DimId, Elem, Rule, Var};

/// Slots of one capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaptureSlots {
    /// The bits of the value, in the low bytes of one slot.
    Scalar(usize),
    /// A buffer.
    Buffer(BufferSlots),
}

/// Slots of a captured buffer.
///
/// An element that has an index of 0 everywhere must be readable even where the buffer is empty: code reads it in
/// place of elements that a guard excludes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferSlots {
    /// Element type in memory.
    pub elem: Elem,
    /// Address of the first element; of the byte that `bit_offset` counts from for packed bits.
    pub address: usize,
    /// Bits from the address to the first element; packed bits only, 0 otherwise.
    pub bit_offset: usize,
    /// One entry per axis.
    pub axes: Vec<AxisSlots>,
}

/// Slots of one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisSlots {
    /// Distance of neighbours: bytes, or bits where bits are packed. 0 in an empty buffer.
    pub stride: usize,
    /// Greatest index; 0 in an empty buffer.
    pub last: usize,
}

/// The table that a lowered function takes as its first argument.
///
/// It depends on the rule and on the element types that are bound, never on lengths, shapes, strides or contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgsLayout {
    dims: usize,
    captures: Vec<CaptureSlots>,
    len: usize,
}

impl ArgsLayout {
    /// Lays out the captures of a rule.
    pub fn new(rule: &Rule, bindings: &Bindings) -> Self {
        let dims = SIZES.len();
        let mut len = dims + rule.dims.len();
        let mut take = |n: usize| {
            let at = len;
            len += n;
            at
        };
        let captures = bindings
            .values
            .iter()
            .map(|value| match value {
                CaptureValue::Scalar(_) => CaptureSlots::Scalar(take(1)),
                CaptureValue::Buffer(buffer) => CaptureSlots::Buffer(BufferSlots {
                    elem: buffer.elem(),
                    address: take(1),
                    bit_offset: take(1),
                    axes: buffer
                        .shape()
                        .iter()
                        .map(|_| AxisSlots {
                            stride: take(1),
                            last: take(1),
                        })
                        .collect(),
                }),
            })
            .collect();
        Self {
            dims,
            captures,
            len,
        }
    }

    /// Number of slots.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no slots; there always are those of the sizes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Slot of a size; `None` for an index or the score.
    pub fn size(&self, var: Var) -> Option<usize> {
        SIZES.iter().position(|size| *size == var)
    }

    /// Slot of a dimension name.
    pub fn dim(&self, dim: DimId) -> usize {
        self.dims + dim.index()
    }

    /// Slots of a capture.
    pub fn capture(&self, slot: CaptureId) -> &CaptureSlots {
        &self.captures[slot.index()]
    }

    /// Slots of a buffer.
    ///
    /// # Panics
    /// If the capture is a scalar: the arena is typed.
    pub fn buffer(&self, slot: CaptureId) -> &BufferSlots {
        match self.capture(slot) {
            CaptureSlots::Buffer(slots) => slots,
            CaptureSlots::Scalar(_) => panic!("capture {} is a scalar, not a buffer", slot.0),
        }
    }

    /// Slots of all captures.
    pub fn captures(&self) -> &[CaptureSlots] {
        &self.captures
    }
}

/// The sizes, in the order of their slots, which are the first.
const SIZES: [Var; 4] = [Var::QLen, Var::KvLen, Var::Batch, Var::NumQHeads];

/// Bytes between neighbours of a contiguous buffer; bits where bits are packed.
pub fn unit_stride(elem: Elem) -> i64 {
    match elem {
        Elem::Bool | Elem::Bits | Elem::I8 | Elem::U8 => 1,
        Elem::I16 | Elem::U16 | Elem::F16 | Elem::Bf16 => 2,
        Elem::I32 | Elem::U32 | Elem::F32 => 4,
        Elem::I64 | Elem::F64 => 8,
    }
}
