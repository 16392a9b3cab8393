//! Kernels without the runtime: the text compiled as it is or with planted mistakes, parameters packed here, and memory of the
//! emulator that a test can place and leave unwritten as it likes.

use maskwright::cuda::{Float, KernelText, TileRuns};
use maskwright::jit::nvrtc::{self, Output, PtxasStats};
use maskwright::{Prepared, block_mask::CallShape};
use maskwright_codegen::back::cuda::CudaSource;
use maskwright_codegen::plan::{CapturePart, KernelPlan, ParamType, ParamValue, RuleRole, Tensor};
use maskwright_dsl::capture::{Bindings, BufferData, CaptureValue};
use maskwright_dsl::ir::Const;
use ptx_emulator::{Counters, Launch, Memory, Options, Program, Report};

use crate::call::{Extents, Inputs, Layout, decode, place};

/// A kernel that was compiled for the emulator.
#[derive(Debug)]
pub struct Bare {
    /// Its text.
    pub source: CudaSource,
    /// What it was made from.
    pub plan: KernelPlan,
    /// What the compiler made of it.
    pub ptx: String,
    program: Program,
}

impl Bare {
    /// Compiles a text.
    ///
    /// # Errors
    /// What NVRTC or the emulator says.
    pub fn compile(text: &KernelText) -> Result<Self, String> {
        Self::new(text.source().clone(), text.plan().clone())
    }

    /// The same with changes of its text.
    ///
    /// # Errors
    /// An edit that does not find what it changes, or what NVRTC or the emulator says.
    pub fn edited(&self, edits: &[Edit]) -> Result<Self, String> {
        let mut source = self.source.clone();
        for edit in edits {
            source.text = edit.apply(&source.text)?;
        }
        Self::new(source, self.plan.clone())
    }

    fn new(source: CudaSource, plan: KernelPlan) -> Result<Self, String> {
        let nvrtc = nvrtc::probe().map_err(|error| error.to_string())?;
        let target = plan.spec.target;
        let compiled = nvrtc
            .compile(&source.text, "forward.cu", target, Output::Ptx, &[])
            .map_err(|error| error.to_string())?;
        let program = Program::from_text(&compiled.ptx).map_err(|error| error.to_string())?;
        Ok(Self {
            source,
            plan,
            ptx: compiled.ptx,
            program,
        })
    }

    /// Runs it on what was placed.
    ///
    /// # Errors
    /// What the emulator reports.
    pub fn launch(&self, placed: &Placed<'_>, options: &Options) -> Result<Counters, Box<Report>> {
        let Extents {
            batch,
            heads,
            q_len,
            ..
        } = placed.inputs.extents;
        let tiles = q_len.div_ceil(self.plan.tile.q as usize);
        let launch = Launch {
            kernel: &self.source.entry,
            grid: [(tiles * heads * batch) as u32, 1, 1],
            block: [self.source.threads, 1, 1],
            dynamic_shared_bytes: self.source.shared_bytes,
            params: &placed.params(&self.source),
        };
        self.program.launch(&placed.memory, &launch, options)
    }
}

/// The statistics of a text compiled to machine code.
///
/// # Errors
/// What NVRTC says.
pub fn machine_code_stats(text: &KernelText) -> Result<Vec<PtxasStats>, String> {
    let nvrtc = nvrtc::probe().map_err(|error| error.to_string())?;
    let target = text.plan().spec.target;
    let source = text.source();
    nvrtc
        .compile(&source.text, "forward.cu", target, Output::Cubin, &[])
        .map(|compiled| compiled.stats)
        .map_err(|error| error.to_string())
}

/// A change of a text.
#[derive(Clone, Debug)]
pub struct Edit {
    /// What is replaced.
    pub from: String,
    /// Which of its occurrences, and how many there must be.
    pub which: (usize, usize),
    /// What comes in its place.
    pub to: String,
}

impl Edit {
    /// A change of what stands in the text once.
    pub fn once(from: &str, to: &str) -> Self {
        Self::nth(from, (0, 1), to)
    }

    /// A change of one of several occurrences.
    pub fn nth(from: &str, which: (usize, usize), to: &str) -> Self {
        Self {
            from: from.to_owned(),
            which,
            to: to.to_owned(),
        }
    }

    fn apply(&self, text: &str) -> Result<String, String> {
        let (which, expected) = self.which;
        let found: Vec<usize> = text.match_indices(&self.from).map(|(at, _)| at).collect();
        if found.len() != expected {
            let n = found.len();
            return Err(format!("expected {expected} of `{}`, found {n}", self.from));
        }
        let (before, rest) = text.split_at(found[which]);
        Ok(format!("{before}{}{}", self.to, &rest[self.from.len()..]))
    }
}

/// Tensors, mask and captured values in the emulator's memory.
#[derive(Debug)]
pub struct Placed<'a> {
    /// The memory.
    pub memory: Memory,
    /// The tensors of the call.
    pub inputs: &'a Inputs,
    /// Addresses of `q`, `k`, `v` and the output.
    pub addresses: [u64; 4],
    /// Their strides of batch, head and row, in elements.
    pub strides: [[i64; 3]; 4],
    /// Position of the first query.
    pub q_offset: i32,
    /// Addresses and strides of captured buffers, by rule and slot.
    pub buffers: Vec<(RuleRole, usize, u64, Vec<i64>)>,
    lse: u64,
    row_max: u64,
    mask: Option<&'a Prepared>,
    score: Option<&'a Prepared>,
    runs: &'a TileRuns,
    tables: [u64; 3],
}

/// Results as they lie in the memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// The output.
    pub out: Vec<f32>,
    /// Log-sum-exps.
    pub lse: Vec<f32>,
    /// Row maxima.
    pub row_max: Vec<f32>,
}

impl<'a> Placed<'a> {
    /// Places everything in row-major order.
    pub fn new(
        inputs: &'a Inputs,
        mask: Option<&'a Prepared>,
        score: Option<&'a Prepared>,
        runs: &'a TileRuns,
    ) -> Self {
        let memory = Memory::new();
        let shapes = inputs.extents.shapes();
        let strides = shapes.map(|shape| Layout::RowMajor.strides(shape));
        let upload = |i: usize, values: &[f32]| {
            memory.alloc_from(&place(inputs.dtype, values, shapes[i], strides[i]))
        };
        let n_rows = inputs.extents.rows() as u64;
        let alloc = |bytes: u64| memory.alloc(bytes).expect("results are small");
        let out_bytes = n_rows * inputs.extents.d_v as u64 * u64::from(inputs.dtype.bytes());
        let addresses = [
            upload(0, &inputs.q),
            upload(1, &inputs.k),
            upload(2, &inputs.v),
            alloc(out_bytes),
        ];
        let words = |words: Vec<u32>| {
            let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
            memory.alloc_from(&bytes)
        };
        let tables = [
            words(runs.plane_of().to_vec()),
            words(runs.row_start().to_vec()),
            words(runs.runs().as_flattened().to_vec()),
        ];
        let mut buffers = Vec::new();
        for (role, rule) in [(RuleRole::Mask, mask), (RuleRole::Score, score)] {
            let values = rule.map_or(&[][..], |rule| &rule.bindings().values);
            for (slot, value) in values.iter().enumerate() {
                if let CaptureValue::Buffer(buffer) = value {
                    let address = memory.alloc_from(&buffer_bytes(buffer.data()));
                    buffers.push((role, slot, address, buffer.strides().to_vec()));
                }
            }
        }
        Self {
            addresses,
            strides: strides.map(|[batch, head, row, _]| [batch, head, row].map(|s| s as i64)),
            lse: alloc(4 * n_rows),
            row_max: alloc(4 * n_rows),
            memory,
            inputs,
            q_offset: 0,
            buffers,
            mask,
            score,
            runs,
            tables,
        }
    }

    /// The call as masks see it.
    pub fn call_shape(&self) -> CallShape {
        let extents = self.inputs.extents;
        CallShape {
            batch: extents.batch as u32,
            heads: extents.heads as u32,
            q_len: extents.q_len as u64,
            kv_len: extents.kv_len as u64,
            q_offset: i64::from(self.q_offset),
        }
    }

    /// What a kernel wrote, where the output is in row-major order.
    ///
    /// # Errors
    /// Which of them it left unwritten.
    pub fn results(&self) -> Result<Results, String> {
        let extents = self.inputs.extents;
        let read = |name: &str, dtype, address, n: usize| {
            let bytes = n * bytes_of(dtype);
            match self.memory.is_written(address, bytes) {
                Ok(true) => {}
                Ok(false) => return Err(format!("{name} is not written everywhere")),
                Err(error) => return Err(error.to_string()),
            }
            let bytes = self.memory.read(address, bytes);
            Ok(decode(dtype, &bytes.map_err(|error| error.to_string())?))
        };
        let n_rows = extents.rows();
        let f32 = Float::F32;
        Ok(Results {
            out: read(
                "out",
                self.inputs.dtype,
                self.addresses[3],
                n_rows * extents.d_v,
            )?,
            lse: read("lse", f32, self.lse, n_rows)?,
            row_max: read("row_max", f32, self.row_max, n_rows)?,
        })
    }

    /// The struct of parameters, each at its offset.
    fn params(&self, source: &CudaSource) -> Vec<u8> {
        let mut bytes = vec![0; source.params.size() as usize];
        for param in source.params.params() {
            let n = param.ty.bytes() as usize;
            let at = param.offset as usize;
            let value = self.value(param.value);
            if n == 4 {
                let narrow = match param.ty {
                    ParamType::I32 | ParamType::U32 | ParamType::Bool | ParamType::F32 => value,
                    ParamType::Pointer(_) | ParamType::I64 => unreachable!("these have 8 bytes"),
                };
                bytes[at..at + 4].copy_from_slice(&(narrow as u32).to_le_bytes());
            } else {
                bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
        }
        bytes
    }

    fn value(&self, value: ParamValue) -> u64 {
        let extents = self.inputs.extents;
        let index = |tensor| match tensor {
            Tensor::Q => 0,
            Tensor::K => 1,
            Tensor::V => 2,
            Tensor::Out => 3,
        };
        let scale = (1.0 / (extents.d_qk as f64).sqrt()) as f32;
        match value {
            ParamValue::Address(tensor) => self.addresses[index(tensor)],
            ParamValue::Stride(tensor, axis) => self.strides[index(tensor)][axis] as u64,
            ParamValue::Lse => self.lse,
            ParamValue::RowMax => self.row_max,
            ParamValue::QLen => extents.q_len as u64,
            ParamValue::KvLen | ParamValue::RuleKvLen => extents.kv_len as u64,
            ParamValue::Batch => extents.batch as u64,
            ParamValue::NumQHeads => extents.heads as u64,
            ParamValue::Group => (extents.heads / extents.kv_heads) as u64,
            ParamValue::SmScale => u64::from(scale.to_bits()),
            ParamValue::QOffset => i64::from(self.q_offset) as u64,
            ParamValue::KvOffset | ParamValue::BOffset | ParamValue::HOffset => 0,
            ParamValue::PlaneOf => self.tables[0],
            ParamValue::PlaneBatchStride => u64::from(self.runs.batch_stride()),
            ParamValue::PlaneHeadStride => u64::from(self.runs.head_stride()),
            ParamValue::RowStart => self.tables[1],
            ParamValue::MaskRows => u64::from(self.runs.rows()),
            ParamValue::TilesPerRow => u64::from(self.runs.tiles_per_row()),
            ParamValue::Runs => self.tables[2],
            ParamValue::Capture(role, slot, part) => self.capture(role, slot, part),
            ParamValue::Dim(role, slot) => self.bindings(role).dims[slot] as u64,
            ParamValue::EvalB
            | ParamValue::EvalH
            | ParamValue::EvalQ
            | ParamValue::EvalKv
            | ParamValue::EvalRows
            | ParamValue::EvalCols
            | ParamValue::EvalBits
            | ParamValue::EvalScores => unreachable!("only evaluators have these"),
        }
    }

    fn bindings(&self, role: RuleRole) -> &Bindings {
        let rule = match role {
            RuleRole::Mask => self.mask,
            RuleRole::Score => self.score,
        };
        rule.expect("a kernel asks for values of its rules")
            .bindings()
    }

    fn capture(&self, role: RuleRole, slot: usize, part: CapturePart) -> u64 {
        let placed = || {
            let mut buffers = self.buffers.iter();
            buffers
                .find(|(r, s, _, _)| (*r, *s) == (role, slot))
                .expect("every buffer was placed")
        };
        match (&self.bindings(role).values[slot], part) {
            (CaptureValue::Scalar(value), CapturePart::Value) => match value {
                Const::Bool(x) => u64::from(*x),
                Const::I32(x) => i64::from(*x) as u64,
                Const::I64(x) => *x as u64,
                Const::U32(x) => u64::from(*x),
                Const::F32(x) => u64::from(x.to_bits()),
            },
            (CaptureValue::Buffer(_), CapturePart::Address) => placed().2,
            (CaptureValue::Buffer(_), CapturePart::Stride(axis)) => placed().3[axis] as u64,
            (CaptureValue::Buffer(buffer), CapturePart::Extent(axis)) => {
                buffer.shape()[axis] as u64
            }
            (CaptureValue::Buffer(_), CapturePart::BitOffset) => 0,
            (CaptureValue::Scalar(_), _) | (CaptureValue::Buffer(_), CapturePart::Value) => {
                unreachable!("a scalar has a value, and a buffer the rest")
            }
        }
    }
}

fn bytes_of(dtype: Float) -> usize {
    dtype.bytes() as usize
}

/// The elements as they lie in memory, of the types that tests here capture.
fn buffer_bytes(data: &BufferData) -> Vec<u8> {
    match data {
        BufferData::U8(x) => x.to_vec(),
        BufferData::I32(x) => x.iter().flat_map(|x| x.to_le_bytes()).collect(),
        BufferData::F32(x) => x.iter().flat_map(|x| x.to_le_bytes()).collect(),
        other => panic!("expected u8, i32 or f32 elements, found {:?}", other.elem()),
    }
}
