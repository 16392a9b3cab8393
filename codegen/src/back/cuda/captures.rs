//! Captured values as fields of a kernel's parameters.

use maskwright_dsl::capture::Bindings;
use maskwright_dsl::ir::{CaptureId, CaptureKind, DimId, Elem, Rule, Ty};

use crate::plan::{CapturePart, ParamType, ParamValue, RuleRole};

use super::names::{Names, plain};

/// The fields that a rule needs, collected as its text is written.
#[derive(Debug)]
pub(super) struct Captures<'a> {
    rule: &'a Rule,
    bindings: &'a Bindings,
    role: RuleRole,
    prefix: &'static str,
    names: Names,
    params: Vec<(String, ParamType, ParamValue)>,
}

impl<'a> Captures<'a> {
    pub(super) fn new(
        rule: &'a Rule,
        bindings: &'a Bindings,
        role: RuleRole,
        prefix: &'static str,
    ) -> Self {
        Self {
            rule,
            bindings,
            role,
            prefix,
            names: Names::default(),
            params: Vec::new(),
        }
    }

    /// The fields, in the order in which the text first reads them.
    pub(super) fn into_params(self) -> Vec<(String, ParamType, ParamValue)> {
        self.params
    }

    /// What a capture is called in names made from it.
    pub(super) fn stem(&self, slot: CaptureId) -> String {
        plain(&self.rule.captures[slot.index()].name)
    }

    /// The element type that is bound, which the code is made for.
    pub(super) fn elem(&self, slot: CaptureId) -> Elem {
        self.bindings.buffer(slot).elem()
    }

    pub(super) fn scalar(&mut self, slot: CaptureId) -> String {
        let ty = match &self.rule.captures[slot.index()].kind {
            CaptureKind::Scalar(ty) => scalar_type(*ty),
            CaptureKind::Buffer { .. } => {
                unreachable!("the arena is typed: only scalars are read as such")
            }
        };
        let value = ParamValue::Capture(self.role, slot.index(), CapturePart::Value);
        self.field(&self.stem(slot), ty, value)
    }

    pub(super) fn dim(&mut self, dim: DimId) -> String {
        let stem = plain(&self.rule.dims[dim.index()].name);
        let value = ParamValue::Dim(self.role, dim.index());
        self.field(&stem, ParamType::I32, value)
    }

    pub(super) fn address(&mut self, slot: CaptureId) -> String {
        let ty = match self.elem(slot) {
            Elem::Bool | Elem::Bits | Elem::U8 => "const unsigned char",
            Elem::I8 => "const signed char",
            Elem::I16 => "const short",
            Elem::U16 | Elem::F16 | Elem::Bf16 => "const unsigned short",
            Elem::I32 => "const int",
            Elem::U32 => "const unsigned",
            Elem::I64 => "const long long",
            Elem::F32 => "const float",
            Elem::F64 => "const double",
        };
        let value = ParamValue::Capture(self.role, slot.index(), CapturePart::Address);
        self.field(&self.stem(slot), ParamType::Pointer(ty), value)
    }

    pub(super) fn bit_offset(&mut self, slot: CaptureId) -> String {
        let value = ParamValue::Capture(self.role, slot.index(), CapturePart::BitOffset);
        let stem = format!("{}_first_bit", self.stem(slot));
        self.field(&stem, ParamType::I64, value)
    }

    pub(super) fn stride(&mut self, slot: CaptureId, axis: usize) -> String {
        let stem = self.axis_stem(slot, "stride", axis);
        let value = ParamValue::Capture(self.role, slot.index(), CapturePart::Stride(axis));
        self.field(&stem, ParamType::I64, value)
    }

    pub(super) fn extent(&mut self, slot: CaptureId, axis: usize) -> String {
        let stem = self.axis_stem(slot, "len", axis);
        let value = ParamValue::Capture(self.role, slot.index(), CapturePart::Extent(axis));
        self.field(&stem, ParamType::I64, value)
    }

    fn axis_stem(&self, slot: CaptureId, what: &str, axis: usize) -> String {
        let stem = self.stem(slot);
        if self.bindings.buffer(slot).shape().len() == 1 {
            format!("{stem}_{what}")
        } else {
            format!("{stem}_{what}_{axis}")
        }
    }

    /// `p.name` of the field with this value, which is added where it is new.
    fn field(&mut self, stem: &str, ty: ParamType, value: ParamValue) -> String {
        let known = self.params.iter().find(|(_, _, known)| *known == value);
        if let Some((name, _, _)) = known {
            return format!("p.{name}");
        }
        let wanted = format!("{}{stem}", self.prefix);
        let name = self.names.take(wanted.trim_end_matches('_'));
        let text = format!("p.{name}");
        self.params.push((name, ty, value));
        text
    }
}

fn scalar_type(ty: Ty) -> ParamType {
    match ty {
        Ty::Bool => ParamType::Bool,
        Ty::I32 => ParamType::I32,
        Ty::I64 => ParamType::I64,
        Ty::U32 => ParamType::U32,
        Ty::F32 => ParamType::F32,
    }
}
