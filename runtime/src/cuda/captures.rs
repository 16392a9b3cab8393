//! Captured values as a kernel reads them: scalars by value, buffers as memory of the machine, uploaded once.

use std::ops::RangeInclusive;

use maskwright_dsl::capture::{Bindings, BufferData, CaptureValue, CapturedBuffer};
use maskwright_dsl::ir::{Const, Elem};

use super::machine::{Machine, MachineBuffer, MachineError};

/// The captured values of one rule on a machine.
#[derive(Debug)]
pub(crate) struct UploadedCaptures {
    values: Vec<UploadedCapture>,
    dims: Vec<i32>,
}

/// One captured value.
#[derive(Debug)]
pub(crate) enum UploadedCapture {
    /// Part of the parameters.
    Scalar(Const),
    /// In memory.
    Buffer(UploadedBuffer),
}

/// A captured buffer in the memory of a machine.
#[derive(Debug)]
pub(crate) struct UploadedBuffer {
    /// Of the element `[0, 0, …]`; of packed bits, of the byte that `first_bit` counts from.
    pub(crate) address: u64,
    pub(crate) shape: Vec<usize>,
    /// In elements.
    pub(crate) strides: Vec<i64>,
    pub(crate) first_bit: i64,
    /// What is at the address.
    _memory: MachineBuffer,
}

impl UploadedCaptures {
    /// Uploads what a rule captures. Of a view, the stretch of memory between its ends is uploaded.
    pub(crate) fn upload(machine: &Machine, bindings: &Bindings) -> Result<Self, MachineError> {
        let values = bindings.values.iter().map(|value| match value {
            CaptureValue::Scalar(value) => Ok(UploadedCapture::Scalar(*value)),
            CaptureValue::Buffer(buffer) => upload(machine, buffer).map(UploadedCapture::Buffer),
        });
        Ok(Self {
            values: values.collect::<Result<_, _>>()?,
            dims: bindings.dims.clone(),
        })
    }

    pub(crate) fn values(&self) -> &[UploadedCapture] {
        &self.values
    }

    pub(crate) fn dims(&self) -> &[i32] {
        &self.dims
    }
}

fn upload(machine: &Machine, buffer: &CapturedBuffer) -> Result<UploadedBuffer, MachineError> {
    let Placed {
        bytes,
        at,
        first_bit,
    } = place(buffer);
    let memory = machine.upload(&bytes)?;
    Ok(UploadedBuffer {
        address: memory.address() + at,
        shape: buffer.shape().to_vec(),
        strides: buffer.strides().to_vec(),
        first_bit,
        _memory: memory,
    })
}

/// The memory that a view reaches, and where in it the view begins.
#[derive(Debug, PartialEq, Eq)]
struct Placed {
    bytes: Vec<u8>,
    /// Bytes from the first one to element `[0, 0, …]`, or to the byte that bits are counted from.
    at: u64,
    first_bit: i64,
}

fn place(buffer: &CapturedBuffer) -> Placed {
    let Some(reach) = reach(buffer) else {
        return Placed {
            bytes: Vec::new(),
            at: 0,
            first_bit: 0,
        };
    };
    let (first, offset) = (*reach.start(), buffer.offset());
    let elem_bytes = match buffer.elem() {
        Elem::Bits => {
            // The first byte stays whole, so bits count from it.
            let bytes = bytes_of(buffer.data(), reach);
            return Placed {
                bytes,
                at: 0,
                first_bit: (offset - first / 8 * 8) as i64,
            };
        }
        Elem::Bool | Elem::I8 | Elem::U8 => 1,
        Elem::I16 | Elem::U16 | Elem::F16 | Elem::Bf16 => 2,
        Elem::I32 | Elem::U32 | Elem::F32 => 4,
        Elem::I64 | Elem::F64 => 8,
    };
    Placed {
        bytes: bytes_of(buffer.data(), reach),
        at: (offset - first) as u64 * elem_bytes,
        first_bit: 0,
    }
}

/// The least and the greatest element that a view reaches; `None` if it has none.
fn reach(buffer: &CapturedBuffer) -> Option<RangeInclusive<usize>> {
    if buffer.is_empty() {
        return None;
    }
    let (mut first, mut last) = (buffer.offset() as i64, buffer.offset() as i64);
    for (&extent, &stride) in buffer.shape().iter().zip(buffer.strides()) {
        // In range: a view is checked against its data when it is made.
        let far = (extent as i64 - 1) * stride;
        first += far.min(0);
        last += far.max(0);
    }
    Some(first as usize..=last as usize)
}

fn bytes_of(data: &BufferData, reach: RangeInclusive<usize>) -> Vec<u8> {
    macro_rules! bytes {
        ($elements:expr) => {
            $elements[reach]
                .iter()
                .flat_map(|x| x.to_le_bytes())
                .collect()
        };
    }
    match data {
        BufferData::Bool(v) => v[reach].iter().map(|&x| u8::from(x)).collect(),
        BufferData::Bits(v) => v[reach.start() / 8..=reach.end() / 8].to_vec(),
        BufferData::U8(v) => v[reach].to_vec(),
        BufferData::I8(v) => bytes!(v),
        BufferData::I16(v) => bytes!(v),
        BufferData::U16(v) => bytes!(v),
        BufferData::I32(v) => bytes!(v),
        BufferData::I64(v) => bytes!(v),
        BufferData::U32(v) => bytes!(v),
        BufferData::F16(v) => bytes!(v),
        BufferData::Bf16(v) => bytes!(v),
        BufferData::F32(v) => bytes!(v),
        BufferData::F64(v) => bytes!(v),
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;

    #[track_caller]
    fn check(buffer: &CapturedBuffer, bytes: &[u8], at: u64, first_bit: i64) {
        let placed = place(buffer);
        assert_eq!(
            placed,
            Placed {
                bytes: bytes.to_vec(),
                at,
                first_bit
            }
        );
    }

    #[test]
    fn a_view_uploads_what_it_reaches() {
        let data = BufferData::I16((0..20i16).collect());
        let whole = CapturedBuffer::new(data.clone(), vec![20]).unwrap();
        assert_eq!(place(&whole).bytes.len(), 40);
        let part = CapturedBuffer::strided(data.clone(), vec![2, 2], vec![4, 1], 3).unwrap();
        check(&part, &[3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0], 0, 0);
        let backwards = CapturedBuffer::strided(data.clone(), vec![3], vec![-1], 5).unwrap();
        check(&backwards, &[3, 0, 4, 0, 5, 0], 4, 0);
        let repeated = CapturedBuffer::strided(data.clone(), vec![1 << 40], vec![0], 7).unwrap();
        check(&repeated, &[7, 0], 0, 0);
        let empty = CapturedBuffer::strided(data, vec![0, 4], vec![1, 1], 99).unwrap();
        check(&empty, &[], 0, 0);
    }

    #[test]
    fn bits_keep_their_place_in_a_byte() {
        let data = BufferData::Bits([0x11, 0x22, 0x33, 0x44].into());
        let part = CapturedBuffer::strided(data.clone(), vec![6], vec![1], 13).unwrap();
        check(&part, &[0x22, 0x33], 0, 5);
        let backwards = CapturedBuffer::strided(data, vec![10], vec![-1], 20).unwrap();
        check(&backwards, &[0x22, 0x33], 0, 12);
    }

    #[test]
    fn every_element_type_has_bytes() {
        let one = |data: BufferData| place(&CapturedBuffer::new(data, vec![2]).unwrap()).bytes;
        assert_eq!(one(BufferData::Bool([true, false].into())), [1, 0]);
        assert_eq!(one(BufferData::I8([-1, 2].into())), [255, 2]);
        assert_eq!(one(BufferData::U8([7, 8].into())), [7, 8]);
        assert_eq!(one(BufferData::U16([1, 2].into())), [1, 0, 2, 0]);
        assert_eq!(one(BufferData::I32([1, -1].into()))[4..], [255; 4]);
        assert_eq!(one(BufferData::U32([1, 2].into())).len(), 8);
        assert_eq!(one(BufferData::I64([1, 2].into())).len(), 16);
        assert_eq!(
            one(BufferData::F16([f16::ONE; 2].into())),
            [0, 0x3c, 0, 0x3c]
        );
        assert_eq!(
            one(BufferData::Bf16([bf16::ONE; 2].into())),
            [0x80, 0x3f, 0x80, 0x3f]
        );
        assert_eq!(
            one(BufferData::F32([1.0; 2].into()))[..4],
            [0, 0, 0x80, 0x3f]
        );
        assert_eq!(one(BufferData::F64([1.0; 2].into())).len(), 16);
    }
}
