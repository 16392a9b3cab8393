//! The parameters of one launch: what the host writes into the struct that a kernel takes.

use std::marker::PhantomData;

use maskwright_codegen::plan::Tensor as TensorRole;
use maskwright_codegen::plan::{CapturePart, Param, ParamLayout, ParamType, ParamValue, RuleRole};
use maskwright_dsl::ir::Const;

use super::captures::{UploadedCapture, UploadedCaptures};

/// Why the parameters of a launch could not be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParamError {
    /// A value that its field cannot hold.
    #[error("parameter {name} is {found}, which a field of type {ty} cannot hold")]
    Range {
        /// The field.
        name: String,
        /// Its type.
        ty: String,
        /// The value.
        found: i128,
    },
    /// The struct is larger than the driver takes.
    #[error("the parameters take {found} bytes, of which the driver takes {MAX_BYTES}")]
    TooLarge {
        /// Bytes of the struct.
        found: u32,
    },
    /// A kernel asks for what the launch does not have, so it is not a kernel of these rules.
    #[error("parameter {name} asks for {value:?}, which this launch does not have")]
    Absent {
        /// The field.
        name: String,
        /// What it asks for.
        value: ParamValue,
    },
}

/// Bytes of parameters that every driver takes.
const MAX_BYTES: u32 = 4096;

/// The bytes of a struct of parameters, kept where they are built: a launch allocates nothing.
#[derive(Clone, Debug)]
pub(crate) struct ParamBlock<'a> {
    words: [u64; MAX_BYTES as usize / 8],
    bytes: usize,
    memory: PhantomData<&'a ()>,
}

impl ParamBlock<'_> {
    /// The bytes, as the host's processor and the kernel read them: the lowest byte first.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let bytes = self.words.iter().flat_map(|word| word.to_le_bytes());
        bytes.take(self.bytes).collect()
    }

    /// The words that hold the bytes, with those of the last one that are not used.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words[..self.bytes.div_ceil(8)]
    }

    fn put(&mut self, offset: u32, bytes: u32, value: u64) {
        let (word, shift) = (offset as usize / 8, offset % 8 * 8);
        let mask = if bytes == 8 {
            u64::MAX
        } else {
            u64::from(u32::MAX)
        };
        self.words[word] &= !(mask << shift);
        self.words[word] |= (value & mask) << shift;
    }
}

/// A tensor as a kernel finds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TensorAt {
    pub(crate) address: u64,
    /// Elements, of batch, head and row.
    pub(crate) strides: [i64; 3],
}

/// A block mask as a kernel finds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MaskAt {
    pub(crate) plane_of: u64,
    pub(crate) batch_stride: u32,
    pub(crate) head_stride: u32,
    pub(crate) row_start: u64,
    pub(crate) rows: u32,
    pub(crate) tiles_per_row: u32,
    pub(crate) runs: u64,
}

/// The part of a launch that is an evaluator's alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EvalAt {
    pub(crate) b: u32,
    pub(crate) h: u32,
    pub(crate) q: i64,
    pub(crate) kv: i64,
    pub(crate) rows: u32,
    pub(crate) cols: u32,
    /// Where bits or scores are.
    pub(crate) result: u64,
}

/// All values of one launch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Values<'a> {
    pub(crate) q: TensorAt,
    pub(crate) k: TensorAt,
    pub(crate) v: TensorAt,
    pub(crate) out: TensorAt,
    pub(crate) lse: u64,
    pub(crate) row_max: u64,
    pub(crate) q_len: u64,
    pub(crate) kv_len: u64,
    pub(crate) batch: u32,
    pub(crate) num_q_heads: u32,
    pub(crate) group: u32,
    pub(crate) sm_scale: f32,
    pub(crate) q_offset: i64,
    pub(crate) kv_offset: i64,
    pub(crate) b_offset: u32,
    pub(crate) h_offset: u32,
    pub(crate) mask: MaskAt,
    pub(crate) eval: Option<EvalAt>,
    pub(crate) mask_captures: Option<&'a UploadedCaptures>,
    pub(crate) score_captures: Option<&'a UploadedCaptures>,
}

/// A value before it has the type of its field.
enum Value {
    Address(u64),
    Int(i128),
    Float(f32),
    Bool(bool),
}

/// Writes the struct of a launch.
pub(crate) fn pack_params<'a>(
    layout: &ParamLayout,
    values: &Values<'a>,
) -> Result<ParamBlock<'a>, ParamError> {
    let bytes = layout.size();
    if MAX_BYTES < bytes {
        return Err(ParamError::TooLarge { found: bytes });
    }
    let mut block = ParamBlock {
        words: [0; MAX_BYTES as usize / 8],
        bytes: bytes as usize,
        memory: PhantomData,
    };
    for param in layout.params() {
        let value = value_of(param.value, values).ok_or_else(|| ParamError::Absent {
            name: param.name.clone(),
            value: param.value,
        })?;
        block.put(param.offset, param.ty.bytes(), bits(param, &value)?);
    }
    Ok(block)
}

fn bits(param: &Param, value: &Value) -> Result<u64, ParamError> {
    let out_of_range = |found: i128| ParamError::Range {
        name: param.name.clone(),
        ty: format!("{:?}", param.ty),
        found,
    };
    let whole = match *value {
        Value::Address(address) => i128::from(address),
        Value::Int(whole) => whole,
        Value::Bool(flag) => i128::from(flag),
        Value::Float(float) => match param.ty {
            ParamType::F32 => return Ok(u64::from(float.to_bits())),
            ParamType::Pointer(_)
            | ParamType::I64
            | ParamType::I32
            | ParamType::U32
            | ParamType::Bool => return Err(out_of_range(float as i128)),
        },
    };
    let fits = match param.ty {
        ParamType::Pointer(_) => u64::try_from(whole).ok(),
        ParamType::I64 => i64::try_from(whole).ok().map(|x| x as u64),
        ParamType::I32 => i32::try_from(whole).ok().map(|x| u64::from(x as u32)),
        ParamType::U32 => u32::try_from(whole).ok().map(u64::from),
        ParamType::Bool => (0..=1).contains(&whole).then_some(whole as u64),
        ParamType::F32 => None,
    };
    fits.ok_or_else(|| out_of_range(whole))
}

fn value_of(value: ParamValue, values: &Values<'_>) -> Option<Value> {
    let int = |x: i64| Some(Value::Int(x.into()));
    let unsigned = |x: u64| Some(Value::Int(x.into()));
    let address = |x: u64| Some(Value::Address(x));
    let tensor = |role| match role {
        TensorRole::Q => &values.q,
        TensorRole::K => &values.k,
        TensorRole::V => &values.v,
        TensorRole::Out => &values.out,
    };
    let eval = || values.eval.as_ref();
    match value {
        ParamValue::Address(role) => address(tensor(role).address),
        ParamValue::Stride(role, axis) => int(*tensor(role).strides.get(axis)?),
        ParamValue::Lse => address(values.lse),
        ParamValue::RowMax => address(values.row_max),
        ParamValue::QLen => unsigned(values.q_len),
        ParamValue::KvLen => unsigned(values.kv_len),
        ParamValue::Batch => unsigned(values.batch.into()),
        ParamValue::NumQHeads => unsigned(values.num_q_heads.into()),
        ParamValue::Group => unsigned(values.group.into()),
        ParamValue::SmScale => Some(Value::Float(values.sm_scale)),
        ParamValue::QOffset => int(values.q_offset),
        ParamValue::KvOffset => int(values.kv_offset),
        ParamValue::BOffset => unsigned(values.b_offset.into()),
        ParamValue::HOffset => unsigned(values.h_offset.into()),
        // A rule that reads the key length is refused where keys begin elsewhere, so nobody sees the sum.
        ParamValue::RuleKvLen => int(values.kv_len as i64 + values.kv_offset),
        ParamValue::PlaneOf => address(values.mask.plane_of),
        ParamValue::PlaneBatchStride => unsigned(values.mask.batch_stride.into()),
        ParamValue::PlaneHeadStride => unsigned(values.mask.head_stride.into()),
        ParamValue::RowStart => address(values.mask.row_start),
        ParamValue::MaskRows => unsigned(values.mask.rows.into()),
        ParamValue::TilesPerRow => unsigned(values.mask.tiles_per_row.into()),
        ParamValue::Runs => address(values.mask.runs),
        ParamValue::Capture(role, slot, part) => {
            capture(captures_of(role, values)?.values().get(slot)?, part)
        }
        ParamValue::Dim(role, slot) => int((*captures_of(role, values)?.dims().get(slot)?).into()),
        ParamValue::EvalB => unsigned(eval()?.b.into()),
        ParamValue::EvalH => unsigned(eval()?.h.into()),
        ParamValue::EvalQ => int(eval()?.q),
        ParamValue::EvalKv => int(eval()?.kv),
        ParamValue::EvalRows => unsigned(eval()?.rows.into()),
        ParamValue::EvalCols => unsigned(eval()?.cols.into()),
        ParamValue::EvalBits | ParamValue::EvalScores => address(eval()?.result),
    }
}

fn captures_of<'a>(role: RuleRole, values: &Values<'a>) -> Option<&'a UploadedCaptures> {
    match role {
        RuleRole::Mask => values.mask_captures,
        RuleRole::Score => values.score_captures,
    }
}

fn capture(capture: &UploadedCapture, part: CapturePart) -> Option<Value> {
    match (capture, part) {
        (UploadedCapture::Scalar(value), CapturePart::Value) => Some(match *value {
            Const::Bool(x) => Value::Bool(x),
            Const::I32(x) => Value::Int(x.into()),
            Const::I64(x) => Value::Int(x.into()),
            Const::U32(x) => Value::Int(x.into()),
            Const::F32(x) => Value::Float(x),
        }),
        (UploadedCapture::Buffer(buffer), CapturePart::Address) => {
            Some(Value::Address(buffer.address))
        }
        (UploadedCapture::Buffer(buffer), CapturePart::Stride(axis)) => {
            Some(Value::Int((*buffer.strides.get(axis)?).into()))
        }
        (UploadedCapture::Buffer(buffer), CapturePart::Extent(axis)) => {
            Some(Value::Int(*buffer.shape.get(axis)? as i128))
        }
        (UploadedCapture::Buffer(buffer), CapturePart::BitOffset) => {
            Some(Value::Int(buffer.first_bit.into()))
        }
        (
            UploadedCapture::Scalar(_),
            CapturePart::Address
            | CapturePart::Stride(_)
            | CapturePart::Extent(_)
            | CapturePart::BitOffset,
        )
        | (UploadedCapture::Buffer(_), CapturePart::Value) => None,
    }
}

#[cfg(test)]
mod tests;
