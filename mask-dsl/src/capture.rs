//! Captured values: scalars and strided buffers, bound to the slots of a rule.

use std::sync::{Arc, OnceLock};

use half::{bf16, f16};

use crate::ir::{CaptureId, Const, Elem};

/// The elements of a buffer, shared by everything that captured it.
#[derive(Clone, Debug)]
#[expect(
    missing_docs,
    reason = "each variant is the element type of the same name"
)]
pub enum BufferData {
    Bool(Arc<[bool]>),
    /// Packed bits, element `8 * n + j` in bit `j` of byte `n`.
    Bits(Arc<[u8]>),
    I8(Arc<[i8]>),
    U8(Arc<[u8]>),
    I16(Arc<[i16]>),
    U16(Arc<[u16]>),
    I32(Arc<[i32]>),
    I64(Arc<[i64]>),
    U32(Arc<[u32]>),
    F16(Arc<[f16]>),
    Bf16(Arc<[bf16]>),
    F32(Arc<[f32]>),
    F64(Arc<[f64]>),
}

impl BufferData {
    /// The element type.
    pub fn elem(&self) -> Elem {
        match self {
            BufferData::Bool(_) => Elem::Bool,
            BufferData::Bits(_) => Elem::Bits,
            BufferData::I8(_) => Elem::I8,
            BufferData::U8(_) => Elem::U8,
            BufferData::I16(_) => Elem::I16,
            BufferData::U16(_) => Elem::U16,
            BufferData::I32(_) => Elem::I32,
            BufferData::I64(_) => Elem::I64,
            BufferData::U32(_) => Elem::U32,
            BufferData::F16(_) => Elem::F16,
            BufferData::Bf16(_) => Elem::Bf16,
            BufferData::F32(_) => Elem::F32,
            BufferData::F64(_) => Elem::F64,
        }
    }

    /// Number of elements; eight per byte for packed bits.
    pub fn len(&self) -> usize {
        match self {
            BufferData::Bool(v) => v.len(),
            BufferData::Bits(v) => v.len().saturating_mul(8),
            BufferData::I8(v) => v.len(),
            BufferData::U8(v) => v.len(),
            BufferData::I16(v) => v.len(),
            BufferData::U16(v) => v.len(),
            BufferData::I32(v) => v.len(),
            BufferData::I64(v) => v.len(),
            BufferData::U32(v) => v.len(),
            BufferData::F16(v) => v.len(),
            BufferData::Bf16(v) => v.len(),
            BufferData::F32(v) => v.len(),
            BufferData::F64(v) => v.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Address of the first element (of the first byte for packed bits).
    pub fn as_ptr(&self) -> *const u8 {
        match self {
            BufferData::Bool(v) => v.as_ptr().cast(),
            BufferData::Bits(v) | BufferData::U8(v) => v.as_ptr(),
            BufferData::I8(v) => v.as_ptr().cast(),
            BufferData::I16(v) => v.as_ptr().cast(),
            BufferData::U16(v) => v.as_ptr().cast(),
            BufferData::I32(v) => v.as_ptr().cast(),
            BufferData::I64(v) => v.as_ptr().cast(),
            BufferData::U32(v) => v.as_ptr().cast(),
            BufferData::F16(v) => v.as_ptr().cast(),
            BufferData::Bf16(v) => v.as_ptr().cast(),
            BufferData::F32(v) => v.as_ptr().cast(),
            BufferData::F64(v) => v.as_ptr().cast(),
        }
    }

    /// The element at `at` as it loads: small integers widen to `i32`, small and wide floats become `f32`.
    ///
    /// # Panics
    /// If `at` is out of range; callers have checked it.
    pub fn load(&self, at: usize) -> Const {
        match self {
            BufferData::Bool(v) => Const::Bool(v[at]),
            BufferData::Bits(v) => Const::Bool(v[at / 8] >> (at % 8) & 1 == 1),
            BufferData::I8(v) => Const::I32(i32::from(v[at])),
            BufferData::U8(v) => Const::I32(i32::from(v[at])),
            BufferData::I16(v) => Const::I32(i32::from(v[at])),
            BufferData::U16(v) => Const::I32(i32::from(v[at])),
            BufferData::I32(v) => Const::I32(v[at]),
            BufferData::I64(v) => Const::I64(v[at]),
            BufferData::U32(v) => Const::U32(v[at]),
            BufferData::F16(v) => Const::F32(v[at].to_f32()),
            BufferData::Bf16(v) => Const::F32(v[at].to_f32()),
            BufferData::F32(v) => Const::F32(v[at]),
            BufferData::F64(v) => Const::F32(v[at] as f32),
        }
    }
}

/// Why a view does not fit its elements.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BufferError {
    /// Shape and strides differ in rank.
    #[error("expected {rank} strides for shape {shape:?}, found {strides:?}")]
    Rank {
        /// Number of axes.
        rank: usize,
        /// Extents.
        shape: Vec<usize>,
        /// Strides given.
        strides: Vec<i64>,
    },
    /// Some element of the view lies outside the data.
    #[error(
        "shape {shape:?} with strides {strides:?} from element {offset} reaches elements {first}..={last}, but there are {len}"
    )]
    OutOfData {
        /// Extents.
        shape: Vec<usize>,
        /// Strides in elements.
        strides: Vec<i64>,
        /// First element of the view.
        offset: usize,
        /// Least element reached.
        first: i128,
        /// Greatest element reached.
        last: i128,
        /// Elements there are.
        len: usize,
    },
    /// A conversion would change a value.
    #[error("element {at} is {value}, which {to} cannot hold")]
    Conversion {
        /// Flat position.
        at: usize,
        /// The value, printed.
        value: String,
        /// Target element type.
        to: Elem,
    },
    /// There is no conversion between these element types.
    #[error("expected elements of type {to}, found {from}")]
    NoConversion {
        /// What is there.
        from: Elem,
        /// What was asked for.
        to: Elem,
    },
}

/// A captured buffer: shared elements, a shape, and strides in elements.
#[derive(Clone, Debug)]
pub struct CapturedBuffer {
    data: BufferData,
    shape: Vec<usize>,
    strides: Vec<i64>,
    offset: usize,
    range: Arc<OnceLock<Option<(i64, i64)>>>,
}

impl CapturedBuffer {
    /// A contiguous row-major buffer.
    ///
    /// # Errors
    /// [`BufferError::OutOfData`] if the data has fewer elements than the shape.
    pub fn new(data: BufferData, shape: Vec<usize>) -> Result<Self, BufferError> {
        let strides = row_major(&shape);
        Self::strided(data, shape, strides, 0)
    }

    /// A view with strides in elements (0 repeats, negative ones walk back) from element `offset`.
    ///
    /// # Errors
    /// [`BufferError`] if ranks differ, or if any element of the view lies outside the data.
    pub fn strided(
        data: BufferData,
        shape: Vec<usize>,
        strides: Vec<i64>,
        offset: usize,
    ) -> Result<Self, BufferError> {
        if strides.len() != shape.len() {
            return Err(BufferError::Rank {
                rank: shape.len(),
                shape,
                strides,
            });
        }
        if !shape.contains(&0) {
            let (mut first, mut last) = (offset as i128, offset as i128);
            for (&extent, &stride) in shape.iter().zip(&strides) {
                let reach = (extent as i128 - 1) * i128::from(stride);
                first += reach.min(0);
                last += reach.max(0);
            }
            let len = data.len();
            if first < 0 || len as i128 <= last {
                return Err(BufferError::OutOfData {
                    shape,
                    strides,
                    offset,
                    first,
                    last,
                    len,
                });
            }
        }
        Ok(Self {
            data,
            shape,
            strides,
            offset,
            range: Arc::default(),
        })
    }

    /// The shared elements.
    pub fn data(&self) -> &BufferData {
        &self.data
    }

    /// Element type in memory.
    pub fn elem(&self) -> Elem {
        self.data.elem()
    }

    /// Extents, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Strides in elements.
    pub fn strides(&self) -> &[i64] {
        &self.strides
    }

    /// Element where the view starts.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Number of elements of the view.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether some extent is 0.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Position of an element in the data, in 64 bits; `None` if an index leaves its axis.
    pub fn element(&self, index: &[i64]) -> Option<usize> {
        if index.len() != self.shape.len() {
            return None;
        }
        let mut at = self.offset as i64;
        for ((&i, &extent), &stride) in index.iter().zip(&self.shape).zip(&self.strides) {
            if i < 0 || extent as i64 <= i {
                return None;
            }
            at += i * stride;
        }
        Some(at as usize)
    }

    /// The element at `index` as it loads; `None` if an index leaves its axis.
    pub fn load(&self, index: &[i64]) -> Option<Const> {
        self.element(index).map(|at| self.data.load(at))
    }

    /// Calls `f` with the data position of each element, in row-major order of the view.
    pub fn for_each_element(&self, mut f: impl FnMut(usize)) {
        if self.is_empty() {
            return;
        }
        let rank = self.shape.len();
        let mut index = vec![0usize; rank];
        let mut at = self.offset as i64;
        loop {
            f(at as usize);
            let mut axis = rank;
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                index[axis] += 1;
                at += self.strides[axis];
                if index[axis] < self.shape[axis] {
                    break;
                }
                at -= self.strides[axis] * self.shape[axis] as i64;
                index[axis] = 0;
            }
        }
    }

    /// Least and greatest integer (or `bool` as 0 and 1) in the view; `None` for floats and empty views. Cached.
    pub fn int_range(&self) -> Option<(i64, i64)> {
        *self.range.get_or_init(|| {
            self.elem().int_range()?;
            let mut range: Option<(i64, i64)> = None;
            self.for_each_element(|at| {
                let v = self
                    .data
                    .load(at)
                    .as_int()
                    .expect("the element is an integer");
                let (lo, hi) = range.unwrap_or((v, v));
                range = Some((lo.min(v), hi.max(v)));
            });
            range
        })
    }

    /// A contiguous buffer of another element type, if every value survives the change (floats may round).
    ///
    /// # Errors
    /// [`BufferError::Conversion`] at the first value that does not fit, [`BufferError::NoConversion`] between
    /// integers and floats.
    pub fn convert(&self, to: Elem) -> Result<CapturedBuffer, BufferError> {
        let from = self.elem();
        if from == to {
            return Ok(self.clone());
        }
        let no_way = || BufferError::NoConversion { from, to };
        let both_int = from.int_range().is_some() && to.int_range().is_some();
        let both_float = from.int_range().is_none() && to.int_range().is_none();
        if !(both_int || both_float) {
            return Err(no_way());
        }
        let mut ints = Vec::new();
        let mut floats = Vec::new();
        let mut bad = None;
        let range = to.int_range();
        self.for_each_element(|at| match (range, &self.data) {
            (Some((lo, hi)), data) => {
                let v = data.load(at).as_int().expect("the element is an integer");
                if (v < lo || hi < v) && bad.is_none() {
                    bad = Some((ints.len(), v));
                }
                ints.push(v);
            }
            (None, BufferData::F64(v)) => floats.push(v[at]),
            (None, data) => {
                let Const::F32(v) = data.load(at) else { return };
                floats.push(f64::from(v));
            }
        });
        if let Some((at, value)) = bad {
            return Err(BufferError::Conversion {
                at,
                value: value.to_string(),
                to,
            });
        }
        let data = match to {
            Elem::Bool => BufferData::Bool(ints.iter().map(|&v| v != 0).collect()),
            Elem::I8 => BufferData::I8(ints.iter().map(|&v| v as i8).collect()),
            Elem::U8 => BufferData::U8(ints.iter().map(|&v| v as u8).collect()),
            Elem::I16 => BufferData::I16(ints.iter().map(|&v| v as i16).collect()),
            Elem::U16 => BufferData::U16(ints.iter().map(|&v| v as u16).collect()),
            Elem::I32 => BufferData::I32(ints.iter().map(|&v| v as i32).collect()),
            Elem::I64 => BufferData::I64(ints.into()),
            Elem::U32 => BufferData::U32(ints.iter().map(|&v| v as u32).collect()),
            Elem::F16 => BufferData::F16(floats.iter().map(|&v| f16::from_f64(v)).collect()),
            Elem::Bf16 => BufferData::Bf16(floats.iter().map(|&v| bf16::from_f64(v)).collect()),
            Elem::F32 => BufferData::F32(floats.iter().map(|&v| v as f32).collect()),
            Elem::F64 => BufferData::F64(floats.into()),
            Elem::Bits => {
                let byte =
                    |bits: &[i64]| (0..bits.len()).fold(0, |byte, j| byte | (bits[j] as u8) << j);
                BufferData::Bits(ints.chunks(8).map(byte).collect())
            }
        };
        CapturedBuffer::new(data, self.shape.clone())
    }
}

/// Row-major strides of a shape, in elements.
fn row_major(shape: &[usize]) -> Vec<i64> {
    let mut strides = vec![1i64; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis] as i64);
    }
    strides
}

/// A captured scalar or buffer.
#[derive(Clone, Debug)]
pub enum CaptureValue {
    /// One value.
    Scalar(Const),
    /// A buffer.
    Buffer(CapturedBuffer),
}

/// The captured values of a rule, by slot, with the values of its dimension names.
#[derive(Clone, Debug, Default)]
pub struct Bindings {
    /// By [`CaptureId`].
    pub values: Vec<CaptureValue>,
    /// By dimension slot.
    pub dims: Vec<i32>,
}

impl Bindings {
    /// The scalar in a slot.
    ///
    /// # Panics
    /// If the slot holds a buffer: bindings are checked against the rule before anything reads them.
    pub fn scalar(&self, slot: CaptureId) -> Const {
        match &self.values[slot.index()] {
            CaptureValue::Scalar(value) => *value,
            CaptureValue::Buffer(_) => panic!("slot {} holds a buffer, not a scalar", slot.0),
        }
    }

    /// The buffer in a slot.
    ///
    /// # Panics
    /// If the slot holds a scalar: bindings are checked against the rule before anything reads them.
    pub fn buffer(&self, slot: CaptureId) -> &CapturedBuffer {
        match &self.values[slot.index()] {
            CaptureValue::Buffer(buffer) => buffer,
            CaptureValue::Scalar(_) => panic!("slot {} holds a scalar, not a buffer", slot.0),
        }
    }
}
