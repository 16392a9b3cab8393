//! Calls of attention kernels for GPUs: drawn tensors in any layout, run in the emulator, and compared with dense attention in
//! `f64`.

use half::{bf16, f16};
use maskwright::cuda::{
    Counters, CudaKernel, DeviceOutput, DeviceTensor, DeviceTensorMut, EmulatorOptions, Float,
    KernelShape, KernelStore, LaunchOptions, Machine, MachineBuffer, MaskBlocks,
};
use maskwright::reference::{DenseCall, DenseOutput, dense_attention};
use maskwright::{BlockMask, Kernel, LaunchRecord, Rules, TensorRef};
use maskwright_codegen::plan::KernelPlan;

use crate::recipe::hash_f32;

/// How far an output may lie from `f64`, where no |V| exceeds 1: the weights of a row are rounded to the type before they
/// meet V, and the output once more. Half a unit in the last place of `f16` is 2^-12 of a value, of `bf16` 2^-9. Products of
/// `f32` are made of two parts of 11 bits, so they keep 22 bits of each factor, and `exp` and the sums are those of `f32`.
pub fn output_tolerance(dtype: Float) -> f64 {
    match dtype {
        Float::F16 => 1.0e-3,
        Float::BF16 => 8.0e-3,
        Float::F32 => 1.0e-5,
    }
}

/// How far log-sum-exps and row maxima may lie from `f64`, relatively where they exceed 1. No type rounds them: products of
/// half precision are exact in `f32`, and what is left are sums, scale, `exp2` and `log2` in `f32`.
pub const LSE_TOLERANCE: f64 = 1.0e-5;

/// Extents of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extents {
    /// Batch entries.
    pub batch: usize,
    /// Query heads.
    pub heads: usize,
    /// Key heads.
    pub kv_heads: usize,
    /// Query rows.
    pub q_len: usize,
    /// Keys.
    pub kv_len: usize,
    /// Head dimension of queries and keys.
    pub d_qk: usize,
    /// Head dimension of values.
    pub d_v: usize,
}

impl Extents {
    /// One batch entry, two heads with keys of their own, one head dimension.
    pub fn new(q_len: usize, kv_len: usize, d: usize) -> Self {
        Self {
            batch: 1,
            heads: 2,
            kv_heads: 2,
            q_len,
            kv_len,
            d_qk: d,
            d_v: d,
        }
    }

    /// Shapes of `q`, `k`, `v` and the output.
    pub fn shapes(&self) -> [[usize; 4]; 4] {
        [
            [self.batch, self.heads, self.q_len, self.d_qk],
            [self.batch, self.kv_heads, self.kv_len, self.d_qk],
            [self.batch, self.kv_heads, self.kv_len, self.d_v],
            [self.batch, self.heads, self.q_len, self.d_v],
        ]
    }

    /// Query rows over all heads.
    pub fn rows(&self) -> usize {
        self.batch * self.heads * self.q_len
    }
}

/// Tensors of a call in row-major order, each element one that the type holds.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// Extents.
    pub extents: Extents,
    /// The type that they have in the kernel.
    pub dtype: Float,
    /// Queries.
    pub q: Vec<f32>,
    /// Keys.
    pub k: Vec<f32>,
    /// Values.
    pub v: Vec<f32>,
}

impl Inputs {
    /// Tensors of numbers from -1 to 1.
    pub fn drawn(extents: Extents, dtype: Float, seed: u64) -> Self {
        let [q, k, v, _] = extents.shapes();
        let draw = |part: u64, shape: [usize; 4]| -> Vec<f32> {
            (0..shape.iter().product::<usize>() as u64)
                .map(|i| round(dtype, hash_f32(10 * seed + part, -1.0, 1.0, i)))
                .collect()
        };
        Self {
            extents,
            dtype,
            q: draw(1, q),
            k: draw(2, k),
            v: draw(3, v),
        }
    }

    /// Views for engines of the host.
    ///
    /// # Panics
    /// If a tensor was given another length.
    pub fn views(&self) -> [TensorRef<'_>; 3] {
        let [q, k, v, _] = self.extents.shapes();
        [(&self.q, q), (&self.k, k), (&self.v, v)]
            .map(|(data, shape)| TensorRef::contiguous(data, shape).expect("the data fits"))
    }

    /// Dense attention in `f64`.
    ///
    /// # Panics
    /// If it is refused.
    #[track_caller]
    pub fn reference(
        &self,
        rules: &Rules,
        q_offset: i64,
        block_mask: Option<&BlockMask>,
    ) -> DenseOutput {
        let [q, k, v] = self.views();
        let call = DenseCall {
            q_offset,
            block_mask,
            ..DenseCall::new(q, k, v, rules)
        };
        dense_attention(&call).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// The nearest number that a type holds.
pub fn round(dtype: Float, x: f32) -> f32 {
    match dtype {
        Float::F16 => f16::from_f32(x).to_f32(),
        Float::BF16 => bf16::from_f32(x).to_f32(),
        Float::F32 => x,
    }
}

/// Elements as bytes of a type.
pub fn encode(dtype: Float, x: f32, bytes: &mut Vec<u8>) {
    match dtype {
        Float::F16 => bytes.extend(f16::from_f32(x).to_le_bytes()),
        Float::BF16 => bytes.extend(bf16::from_f32(x).to_le_bytes()),
        Float::F32 => bytes.extend(x.to_le_bytes()),
    }
}

/// Bytes of a type as elements.
pub fn decode(dtype: Float, bytes: &[u8]) -> Vec<f32> {
    match dtype {
        Float::F16 => read(bytes, |x| f16::from_le_bytes(x).to_f32()),
        Float::BF16 => read(bytes, |x| bf16::from_le_bytes(x).to_f32()),
        Float::F32 => read(bytes, f32::from_le_bytes),
    }
}

fn read<const N: usize>(bytes: &[u8], element: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    let (elements, rest) = bytes.as_chunks::<N>();
    assert!(rest.is_empty(), "whole elements");
    elements.iter().map(|x| element(*x)).collect()
}

/// How tensors lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `[batch, head, row, element]`.
    RowMajor,
    /// `[batch, row, head, element]`.
    Tokens,
    /// Row-major, with unused elements behind each row and each head.
    Padded,
}

impl Layout {
    /// Strides of a shape, in elements.
    pub fn strides(self, [_, heads, rows, d]: [usize; 4]) -> [usize; 4] {
        match self {
            Layout::RowMajor => [heads * rows * d, rows * d, d, 1],
            Layout::Tokens => [rows * heads * d, d, heads * d, 1],
            Layout::Padded => {
                let row = d + 16;
                let head = rows * row + 8;
                [heads * head + 24, head, row, 1]
            }
        }
    }
}

/// Elements that a tensor reaches over.
pub fn reach(shape: [usize; 4], strides: [usize; 4]) -> usize {
    if shape.contains(&0) {
        return 0;
    }
    1 + (0..4)
        .map(|axis| (shape[axis] - 1) * strides[axis])
        .sum::<usize>()
}

/// Positions of a tensor's elements, in row-major order.
pub fn positions(shape: [usize; 4], strides: [usize; 4]) -> impl Iterator<Item = usize> {
    (0..shape.iter().product()).map(move |i: usize| {
        let mut rest = i;
        (0..4)
            .rev()
            .map(|axis| {
                let at = rest % shape[axis];
                rest /= shape[axis];
                at * strides[axis]
            })
            .sum()
    })
}

/// How a call is made.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// Position of the first query.
    pub q_offset: i64,
    /// Factor of the dot products.
    pub sm_scale: Option<f32>,
    /// The block mask; without one, the rule is asked about every cell.
    pub block_mask: Option<&'a BlockMask>,
    /// How tensors lie in memory.
    pub layout: Layout,
    /// Type of the output; that of the inputs unless given.
    pub out_dtype: Option<Float>,
    /// How the emulator runs.
    pub emulator: EmulatorOptions,
    /// Where compiled kernels are kept.
    pub kernels: &'a KernelStore,
}

impl<'a> Setting<'a> {
    /// A call from position 0 with nothing special about it, on one thread of the host.
    pub fn new(kernels: &'a KernelStore) -> Self {
        Self {
            q_offset: 0,
            sm_scale: None,
            block_mask: None,
            layout: Layout::RowMajor,
            out_dtype: None,
            emulator: EmulatorOptions {
                threads: 1,
                ..EmulatorOptions::default()
            },
            kernels,
        }
    }
}

/// What came of a call.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The output in row-major order.
    pub out: Vec<f32>,
    /// Log-sum-exp of each row.
    pub lse: Vec<f32>,
    /// Greatest score of each row.
    pub row_max: Vec<f32>,
    /// What ran.
    pub record: LaunchRecord,
    /// What the emulator counted; nothing where there were no blocks.
    pub counters: Option<Counters>,
    /// The plan of the kernel.
    pub plan: KernelPlan,
}

impl Ran {
    /// All results as bits.
    pub fn bits(&self) -> Vec<u32> {
        let results = self.out.iter().chain(&self.lse).chain(&self.row_max);
        results.map(|x| x.to_bits()).collect()
    }

    /// Compares all results with the reference.
    ///
    /// # Errors
    /// The first number that differs.
    pub fn compare(&self, expected: &DenseOutput, dtype: Float) -> Result<(), String> {
        compare("lse", &expected.lse, &self.lse, LSE_TOLERANCE)?;
        compare("row max", &expected.row_max, &self.row_max, LSE_TOLERANCE)?;
        compare("output", &expected.out, &self.out, output_tolerance(dtype))
    }
}

/// Compares numbers with those of the reference: within `tolerance`, relatively where they exceed 1; NaN only where NaN is
/// expected; infinities and the zeros of empty rows exactly.
///
/// # Errors
/// The first number that differs.
pub fn compare(what: &str, expected: &[f64], found: &[f32], tolerance: f64) -> Result<(), String> {
    if expected.len() != found.len() {
        return Err(format!(
            "{what}: expected {} numbers, found {}",
            expected.len(),
            found.len()
        ));
    }
    for (at, (&expected, &found)) in expected.iter().zip(found).enumerate() {
        let found = f64::from(found);
        let same = expected == found || (expected.is_nan() && found.is_nan());
        let near = expected != 0.0
            && expected.is_finite()
            && (found - expected).abs() <= tolerance * expected.abs().max(1.0);
        if !same && !near {
            return Err(format!("{what} {at}: expected {expected}, found {found}"));
        }
    }
    Ok(())
}

/// Runs a kernel in an emulator of its own.
///
/// # Errors
/// What refused the call, with its causes.
pub fn run(kernel: &Kernel, inputs: &Inputs, setting: &Setting<'_>) -> Result<Ran, String> {
    let fault = |error: &dyn std::error::Error| {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        text
    };
    let Extents { d_qk, d_v, .. } = inputs.extents;
    let dtype = inputs.dtype;
    let out_dtype = setting.out_dtype.unwrap_or(dtype);
    let machine = Machine::emulator(setting.emulator);
    let shape = KernelShape {
        dtype,
        out_dtype,
        d_qk: d_qk as u32,
        d_v: d_v as u32,
        blocks: setting.block_mask.map(MaskBlocks::of),
    };
    let cuda = CudaKernel::new(kernel, &machine, &shape, setting.kernels).map_err(|e| fault(&e))?;
    let blocks = match setting.block_mask {
        Some(mask) => Some(cuda.upload_mask(mask).map_err(|e| fault(&e))?),
        None => None,
    };
    let shapes = inputs.extents.shapes();
    let strides = shapes.map(|shape| setting.layout.strides(shape));
    let upload = |i: usize, values: &[f32]| -> Result<MachineBuffer, String> {
        let bytes = place(dtype, values, shapes[i], strides[i]);
        machine.upload(&bytes).map_err(|e| fault(&e))
    };
    let (q, k, v) = (
        upload(0, &inputs.q)?,
        upload(1, &inputs.k)?,
        upload(2, &inputs.v)?,
    );
    let alloc = |bytes: usize| machine.alloc(bytes).map_err(|e| fault(&e));
    let out_bytes = out_dtype.bytes() as usize;
    let mut out = alloc(reach(shapes[3], strides[3]) * out_bytes)?;
    let n_rows = inputs.extents.rows();
    let (mut lse, mut row_max) = (alloc(4 * n_rows)?, alloc(4 * n_rows)?);
    let launched = cuda
        .forward(
            input(&q, dtype, shapes[0], strides[0]),
            input(&k, dtype, shapes[1], strides[1]),
            input(&v, dtype, shapes[2], strides[2]),
            &LaunchOptions {
                sm_scale: setting.sm_scale,
                q_offset: setting.q_offset,
                block_mask: blocks.as_deref(),
                stream: None,
            },
            &mut DeviceOutput {
                out: DeviceTensorMut {
                    strides: strides[3],
                    ..DeviceTensorMut::contiguous(out.view_mut(), out_dtype, shapes[3])
                },
                lse: Some(lse.view_mut()),
                row_max: Some(row_max.view_mut()),
            },
        )
        .map_err(|e| fault(&e))?;
    let download = |dtype, memory: &MachineBuffer| -> Result<Vec<f32>, String> {
        Ok(decode(dtype, &memory.download().map_err(|e| fault(&e))?))
    };
    let elements = download(out_dtype, &out)?;
    Ok(Ran {
        out: positions(shapes[3], strides[3])
            .map(|at| elements[at])
            .collect(),
        lse: download(Float::F32, &lse)?,
        row_max: download(Float::F32, &row_max)?,
        record: launched.record,
        counters: launched.counters,
        plan: cuda.compiled().text().plan().clone(),
    })
}

fn input(
    memory: &MachineBuffer,
    dtype: Float,
    shape: [usize; 4],
    strides: [usize; 4],
) -> DeviceTensor<'_> {
    DeviceTensor {
        strides,
        ..DeviceTensor::contiguous(memory.view(), dtype, shape)
    }
}

/// A tensor's bytes, with NaN wherever it has no element.
pub fn place(dtype: Float, values: &[f32], shape: [usize; 4], strides: [usize; 4]) -> Vec<u8> {
    let mut elements = vec![f32::NAN; reach(shape, strides)];
    for (at, value) in positions(shape, strides).zip(values) {
        elements[at] = *value;
    }
    let mut bytes = Vec::with_capacity(elements.len() * dtype.bytes() as usize);
    for element in elements {
        encode(dtype, element, &mut bytes);
    }
    bytes
}
