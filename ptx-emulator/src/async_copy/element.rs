//! Elements of tensors, and what a reducing copy does to them.

use half::{bf16, f16};

/// Type of an element of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Element {
    U8,
    U16,
    U32,
    S32,
    U64,
    S64,
    F16,
    F32,
    F64,
    Bf16,
    /// Subnormal numbers are read as 0.
    F32Ftz,
    /// Rounded to a mantissa of 10 bits.
    Tf32,
    /// Both.
    Tf32Ftz,
}

/// All elements, in the order of their codes.
const ELEMENTS: [Element; 13] = [
    Element::U8,
    Element::U16,
    Element::U32,
    Element::S32,
    Element::U64,
    Element::S64,
    Element::F16,
    Element::F32,
    Element::F64,
    Element::Bf16,
    Element::F32Ftz,
    Element::Tf32,
    Element::Tf32Ftz,
];

impl Element {
    /// Its size.
    pub fn bytes(self) -> u32 {
        match self {
            Self::U8 => 1,
            Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::S32 | Self::F32 | Self::F32Ftz | Self::Tf32 | Self::Tf32Ftz => 4,
            Self::U64 | Self::S64 | Self::F64 => 8,
        }
    }

    /// Whether it is a floating-point number.
    pub fn is_float(self) -> bool {
        match self {
            Self::U8 | Self::U16 | Self::U32 | Self::S32 | Self::U64 | Self::S64 => false,
            Self::F16
            | Self::F32
            | Self::F64
            | Self::Bf16
            | Self::F32Ftz
            | Self::Tf32
            | Self::Tf32Ftz => true,
        }
    }

    pub(crate) fn code(self) -> u8 {
        ELEMENTS
            .iter()
            .position(|&e| e == self)
            .expect("every element is listed") as u8
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        ELEMENTS.get(usize::from(code)).copied()
    }

    /// The type of a `cp.reduce.async.bulk`, as spelled. Bits count as unsigned integers.
    pub(crate) fn from_type(name: &str) -> Option<Self> {
        Some(match name {
            "u32" | "b32" => Self::U32,
            "s32" => Self::S32,
            "u64" | "b64" => Self::U64,
            "s64" => Self::S64,
            "f16" => Self::F16,
            "bf16" => Self::Bf16,
            "f32" => Self::F32,
            "f64" => Self::F64,
            _ => return None,
        })
    }

    /// The not-a-number that fills what lies outside a tensor.
    pub fn nan(self) -> &'static [u8] {
        match self {
            Self::F16 | Self::Bf16 => &[0xff, 0x7f],
            Self::F32 | Self::F32Ftz | Self::Tf32 | Self::Tf32Ftz => &[0xff, 0xff, 0xff, 0x7f],
            Self::F64 => &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
            Self::U8 | Self::U16 | Self::U32 | Self::S32 | Self::U64 | Self::S64 => &[],
        }
    }
}

/// What a reducing copy does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the ISA")]
pub enum ReduceOp {
    Add,
    Min,
    Max,
    Inc,
    Dec,
    And,
    Or,
    Xor,
}

impl ReduceOp {
    /// The operation of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "add" => Self::Add,
            "min" => Self::Min,
            "max" => Self::Max,
            "inc" => Self::Inc,
            "dec" => Self::Dec,
            "and" => Self::And,
            "or" => Self::Or,
            "xor" => Self::Xor,
            _ => return None,
        })
    }

    /// Whether a copy may do this to elements of that type.
    pub fn takes(self, element: Element) -> bool {
        use Element::{Bf16, F16, F32, F64, S32, S64, U32, U64};
        match self {
            Self::Add => matches!(element, U32 | S32 | U64 | S64 | F16 | Bf16 | F32 | F64),
            Self::Min | Self::Max => matches!(element, U32 | S32 | U64 | S64 | F16 | Bf16),
            Self::Inc | Self::Dec => element == U32,
            Self::And | Self::Or | Self::Xor => matches!(element, U32 | S32 | U64 | S64),
        }
    }

    /// Combines the elements of `old`, in place, with those of `new`; `false` if the operation does not take them.
    pub fn apply(self, element: Element, old: &mut [u8], new: &[u8]) -> bool {
        if !self.takes(element) {
            return false;
        }
        let size = element.bytes() as usize;
        for (old, new) in old.chunks_exact_mut(size).zip(new.chunks_exact(size)) {
            self.apply_one(element, old, new);
        }
        true
    }

    fn apply_one(self, element: Element, old: &mut [u8], new: &[u8]) {
        macro_rules! integer {
            ($t:ty) => {{
                let a = <$t>::from_le_bytes(
                    (&*old)
                        .try_into()
                        .expect("chunks have the size of the element"),
                );
                let b = <$t>::from_le_bytes(
                    new.try_into().expect("chunks have the size of the element"),
                );
                let c = match self {
                    Self::Add => a.wrapping_add(b),
                    Self::Min => a.min(b),
                    Self::Max => a.max(b),
                    Self::Inc => {
                        if a >= b {
                            0
                        } else {
                            a + 1
                        }
                    }
                    Self::Dec => {
                        if a == 0 || a > b {
                            b
                        } else {
                            a - 1
                        }
                    }
                    Self::And => a & b,
                    Self::Or => a | b,
                    Self::Xor => a ^ b,
                };
                old.copy_from_slice(&c.to_le_bytes());
            }};
        }
        macro_rules! float {
            ($t:ty, $to:expr, $from:expr) => {{
                let a: $t = <$t>::from_le_bytes((&*old).try_into().expect("chunks have the size of the element"));
                let b: $t = <$t>::from_le_bytes(new.try_into().expect("chunks have the size of the element"));
                let (x, y): (f64, f64) = ($to(a), $to(b));
                let c: $t = match self {
                    Self::Min => $from(x.min(y)),
                    Self::Max => $from(x.max(y)),
                    // The sum of two 16-bit numbers is exact in 64 bits wherever both of them matter to it.
                    Self::Add | Self::Inc | Self::Dec | Self::And | Self::Or | Self::Xor => $from(x + y),
                };
                old.copy_from_slice(&c.to_le_bytes());
            }};
        }
        match element {
            Element::U32 => integer!(u32),
            Element::S32 => integer!(i32),
            Element::U64 => integer!(u64),
            Element::S64 => integer!(i64),
            Element::F16 => float!(f16, f16::to_f64, f16::from_f64),
            Element::Bf16 => float!(bf16, bf16::to_f64, bf16::from_f64),
            Element::F64 => float!(f64, |x| x, |x| x),
            // Rounding the exact sum of two 32-bit numbers twice is harmless: 53 bits are more than 2 * 24 + 2.
            Element::F32 | Element::F32Ftz | Element::Tf32 | Element::Tf32Ftz => {
                float!(f32, f64::from, |x| x as f32);
            }
            Element::U8 | Element::U16 => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(op: ReduceOp, element: Element, old: &[u8], new: &[u8], expected: &[u8]) {
        let mut got = old.to_vec();
        assert!(op.apply(element, &mut got, new));
        assert_eq!(got, expected, "{op:?} {element:?}");
    }

    #[test]
    fn integers_reduce() {
        let u = |x: u32| x.to_le_bytes();
        check(ReduceOp::Add, Element::U32, &u(u32::MAX), &u(2), &u(1));
        check(
            ReduceOp::Min,
            Element::S32,
            &u(u32::MAX),
            &u(2),
            &u(u32::MAX),
        );
        check(ReduceOp::Min, Element::U32, &u(u32::MAX), &u(2), &u(2));
        check(
            ReduceOp::Max,
            Element::S64,
            &(-1i64).to_le_bytes(),
            &2i64.to_le_bytes(),
            &2i64.to_le_bytes(),
        );
        check(ReduceOp::Inc, Element::U32, &u(3), &u(3), &u(0));
        check(ReduceOp::Inc, Element::U32, &u(2), &u(3), &u(3));
        check(ReduceOp::Dec, Element::U32, &u(0), &u(3), &u(3));
        check(ReduceOp::Dec, Element::U32, &u(5), &u(3), &u(3));
        check(ReduceOp::Dec, Element::U32, &u(2), &u(3), &u(1));
        check(
            ReduceOp::And,
            Element::U64,
            &6u64.to_le_bytes(),
            &3u64.to_le_bytes(),
            &2u64.to_le_bytes(),
        );
        check(ReduceOp::Or, Element::U32, &u(6), &u(3), &u(7));
        check(ReduceOp::Xor, Element::S32, &u(6), &u(3), &u(5));
    }

    #[test]
    fn floats_reduce() {
        let h = |x: f32| f16::from_f32(x).to_le_bytes();
        check(ReduceOp::Add, Element::F16, &h(1.5), &h(-0.25), &h(1.25));
        check(
            ReduceOp::Max,
            Element::Bf16,
            &bf16::from_f32(1.5).to_le_bytes(),
            &bf16::from_f32(2.0).to_le_bytes(),
            &bf16::from_f32(2.0).to_le_bytes(),
        );
        check(
            ReduceOp::Add,
            Element::F32,
            &1e8f32.to_le_bytes(),
            &1.0f32.to_le_bytes(),
            &1e8f32.to_le_bytes(),
        );
        assert!(!ReduceOp::Max.apply(Element::F32, &mut [0; 4], &[0; 4]));
        assert!(!ReduceOp::Inc.apply(Element::S32, &mut [0; 4], &[0; 4]));
        assert!(!ReduceOp::Add.apply(Element::U8, &mut [0; 4], &[0; 4]));
    }

    #[test]
    fn codes_come_back() {
        for element in ELEMENTS {
            assert_eq!(Element::from_code(element.code()), Some(element));
            assert_eq!(element.is_float(), !element.nan().is_empty());
            assert!(element.nan().is_empty() || element.nan().len() == element.bytes() as usize);
        }
        assert_eq!(Element::from_code(13), None);
    }
}
