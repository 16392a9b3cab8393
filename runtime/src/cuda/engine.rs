//! A kernel on a machine, with its captured values in place: launches for any call of its bucket.

use std::sync::Arc;
use std::time::Instant;

use maskwright_codegen::spec::{Float, Target};
use maskwright_dsl::block_mask::{BlockClass, BlockMask};
use ptx_emulator::Counters;

use super::compiled::{CompiledKernel, KernelStore};
use super::error::KernelError;
use super::machine::{Code, Machine, MachineError};
use super::mask::DeviceMask;
use super::params::{TensorAt, Values, pack_params};
use super::state::CaptureSet;
use super::tensor::{DeviceTensor, DeviceTensorMut, LayoutError};
use super::text::KernelShape;
use crate::attention::{AttentionError, Frame, Kernel, LaunchRecord, Shapes};
use crate::device::{DeviceViewMut, Launch, Stream};
use crate::jit::nvrtc::Output as Product;
use crate::tensor::Dtype;

/// A [`Kernel`] that was compiled for a GPU, or for the emulator of one, with its captured values in the machine's
/// memory.
///
/// Launching it allocates nothing there and waits for nothing, so it can be called in a loop, on the streams and
/// tensors of another framework.
#[derive(Clone, Debug)]
pub struct CudaKernel {
    kernel: Kernel,
    machine: Machine,
    compiled: Arc<CompiledKernel>,
    code: Code,
    captures: Arc<CaptureSet>,
    /// For calls without a block mask.
    unmasked: Arc<DeviceMask>,
}

/// What may be chosen about a launch.
#[derive(Clone, Copy, Debug, Default)]
pub struct LaunchOptions<'a> {
    /// Factor of the dot products; `1 / sqrt(d_qk)` unless given.
    pub sm_scale: Option<f32>,
    /// Position of the first query row.
    pub q_offset: i64,
    /// The block mask. Without one, the mask rule is asked about every cell.
    pub block_mask: Option<&'a DeviceMask>,
    /// The stream; the machine's own unless given.
    pub stream: Option<&'a Stream>,
}

/// Where results go.
///
/// # Shapes
/// `out` `[B, Hq, Lq, Dv]`; `lse` and `row_max` `f32 [B, Hq, Lq]`, row-major.
#[derive(Debug)]
pub struct DeviceOutput<'a> {
    /// The output.
    pub out: DeviceTensorMut<'a>,
    /// The natural logarithm of each row's sum of exponentials.
    pub lse: Option<DeviceViewMut<'a>>,
    /// The largest score of each row.
    pub row_max: Option<DeviceViewMut<'a>>,
}

/// A launch that was begun, or that an emulator has finished.
#[derive(Clone, Debug)]
pub struct Launched {
    /// What runs. On a GPU its seconds are those that beginning it took.
    pub record: LaunchRecord,
    /// What an emulator counted.
    pub counters: Option<Counters>,
}

impl CudaKernel {
    /// Compiles a kernel for a machine, or takes it from the store, and uploads its captured values.
    ///
    /// # Errors
    /// [`KernelError`] if there is no such kernel for the types, dimensions and blocks, it can be neither found nor
    /// compiled, or the machine does not take it.
    pub fn new(
        kernel: &Kernel,
        machine: &Machine,
        shape: &KernelShape,
        kernels: &KernelStore,
    ) -> Result<Self, KernelError> {
        let compiled = compile_for(kernel, machine, shape, kernels)?;
        let code = compiled.code(machine)?;
        let class = match kernel.prepared_mask() {
            Some(_) => BlockClass::Partial,
            None => BlockClass::Full,
        };
        let tile = compiled.text().plan().tile;
        Ok(Self {
            captures: kernel.cuda_state().captures(kernel, machine)?,
            unmasked: Arc::new(DeviceMask::uniform(machine, tile, class)?),
            kernel: kernel.clone(),
            machine: machine.clone(),
            compiled,
            code,
        })
    }

    /// The kernel that it computes.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// What it runs on.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The compiled code.
    pub fn compiled(&self) -> &CompiledKernel {
        &self.compiled
    }

    /// Uploads a block mask, for any number of launches.
    ///
    /// # Errors
    /// [`KernelError::Tile`] if the kernel was made for masks of another block size.
    pub fn upload_mask(&self, mask: &BlockMask) -> Result<Arc<DeviceMask>, KernelError> {
        let tile = self.compiled.text().plan().tile;
        Ok(Arc::new(DeviceMask::new(&self.machine, mask, tile)?))
    }

    /// Launches the kernel on tensors in the machine's memory. On a GPU it runs behind what the stream holds, and this
    /// does not wait for it; an emulator has run it when this returns.
    ///
    /// # Errors
    /// As [`Kernel::forward`], with the refusals of a GPU in [`AttentionError::Cuda`].
    pub fn forward(
        &self,
        q: DeviceTensor<'_>,
        k: DeviceTensor<'_>,
        v: DeviceTensor<'_>,
        options: &LaunchOptions<'_>,
        output: &mut DeviceOutput<'_>,
    ) -> Result<Launched, AttentionError> {
        let mask = options.block_mask.and_then(DeviceMask::mask);
        let shapes = [q.shape, k.shape, v.shape];
        let frame = Frame::new(shapes, options.q_offset, mask)?;
        let sm_scale = frame.scale(options.sm_scale)?;
        self.kernel.check_call(&frame, mask)?;
        self.check_tensors(&frame, &[("q", &q), ("k", &k), ("v", &v)], output)?;
        let tensors = Tensors {
            q: q.place("q").map_err(KernelError::from)?,
            k: k.place("k").map_err(KernelError::from)?,
            v: v.place("v").map_err(KernelError::from)?,
            out: output.out.place("out").map_err(KernelError::from)?,
        };
        let blocks = options.block_mask.unwrap_or(&self.unmasked);
        blocks
            .check_home(&self.machine)
            .map_err(KernelError::from)?;
        let started = Instant::now();
        let counters = self.launch(&frame, tensors, sm_scale, blocks, options, output)?;
        let record = LaunchRecord {
            backend: self.machine.backend(),
            kernel: self.compiled.text().name(),
            refusals: Vec::new(),
            tiles: blocks.tiles(&frame.shape),
            shapes: Shapes {
                q: q.shape,
                k: k.shape,
                v: v.shape,
            },
            dtype: dtype_of(q.dtype),
            device: self.machine.to_string(),
            threads: match self.machine.emulated() {
                Some(emulator) => emulator.threads(),
                None => self.compiled.text().source().threads as usize,
            },
            version: env!("CARGO_PKG_VERSION"),
            seconds: started.elapsed().as_secs_f64(),
        };
        Ok(Launched { record, counters })
    }

    fn launch(
        &self,
        frame: &Frame,
        tensors: Tensors,
        sm_scale: f32,
        blocks: &DeviceMask,
        options: &LaunchOptions<'_>,
        output: &DeviceOutput<'_>,
    ) -> Result<Option<Counters>, KernelError> {
        let source = self.compiled.text().source();
        let shape = frame.shape;
        let tile_q = u64::from(self.compiled.text().plan().tile.q);
        let n_blocks = u128::from(shape.q_len.div_ceil(tile_q))
            * u128::from(shape.batch)
            * u128::from(shape.heads);
        if n_blocks == 0 {
            return Ok(None);
        }
        let grid = i32::try_from(n_blocks).map_err(|_| KernelError::Grid { found: n_blocks })?;
        let address =
            |view: &Option<DeviceViewMut<'_>>| view.as_ref().map_or(0, DeviceViewMut::address);
        let values = Values {
            q: tensors.q,
            k: tensors.k,
            v: tensors.v,
            out: tensors.out,
            lse: address(&output.lse),
            row_max: address(&output.row_max),
            q_len: shape.q_len,
            kv_len: shape.kv_len,
            batch: shape.batch,
            num_q_heads: shape.heads,
            group: shape.heads / (frame.num_kv_heads as u32).max(1),
            sm_scale,
            q_offset: options.q_offset,
            kv_offset: frame.origin.kv,
            b_offset: frame.origin.b,
            h_offset: frame.origin.h,
            mask: blocks.at(),
            eval: None,
            mask_captures: self.captures.mask.as_ref(),
            score_captures: self.captures.score.as_ref(),
        };
        let params = pack_params(&source.params, &values).map_err(MachineError::from)?;
        let launch = Launch {
            grid: [grid as u32, 1, 1],
            threads: source.threads,
            shared_bytes: source.shared_bytes,
        };
        Ok(self
            .machine
            .launch(&self.code, launch, &params, options.stream)?)
    }

    fn check_tensors(
        &self,
        frame: &Frame,
        inputs: &[(&'static str, &DeviceTensor<'_>)],
        output: &DeviceOutput<'_>,
    ) -> Result<(), KernelError> {
        let spec = self.compiled.text().plan().spec;
        let other =
            |expected: String, found: String| Err(KernelError::OtherSpec { expected, found });
        for (name, tensor) in inputs {
            if tensor.dtype != spec.dtype {
                return other(
                    format!("{name} of type {}", spec.dtype),
                    tensor.dtype.to_string(),
                );
            }
            self.machine.check_home(name, tensor.memory.home())?;
        }
        if (frame.d_qk, frame.d_v) != (spec.d_qk as usize, spec.d_v as usize) {
            return other(
                format!("head dimensions {} and {}", spec.d_qk, spec.d_v),
                format!("{} and {}", frame.d_qk, frame.d_v),
            );
        }
        let out = &output.out;
        if out.dtype != spec.out_dtype {
            return other(
                format!("out of type {}", spec.out_dtype),
                out.dtype.to_string(),
            );
        }
        self.machine.check_home("out", out.memory.home())?;
        let [batch, heads, q_len, _] = inputs[0].1.shape;
        let expected = [batch, heads, q_len, frame.d_v];
        if out.shape != expected {
            return other(
                format!("out of shape {expected:?}"),
                format!("{:?}", out.shape),
            );
        }
        let n_rows = batch as u128 * heads as u128 * q_len as u128;
        for (name, view) in [("lse", &output.lse), ("row_max", &output.row_max)] {
            let Some(view) = view else { continue };
            self.machine.check_home(name, view.home())?;
            let expected = n_rows.saturating_mul(4);
            if view.bytes() as u128 != expected {
                return Err(LayoutError::Rows {
                    name,
                    expected,
                    found: view.bytes(),
                }
                .into());
            }
        }
        Ok(())
    }
}

/// Where the tensors of a launch lie.
#[derive(Clone, Copy)]
struct Tensors {
    q: TensorAt,
    k: TensorAt,
    v: TensorAt,
    out: TensorAt,
}

/// The compiled kernel for a machine: for its own target, or where that one is missing and cannot be compiled, for an
/// older one whose code it runs.
fn compile_for(
    kernel: &Kernel,
    machine: &Machine,
    shape: &KernelShape,
    kernels: &KernelStore,
) -> Result<Arc<CompiledKernel>, KernelError> {
    let product = match machine.gpu() {
        Some(_) => Product::Cubin,
        None => Product::Ptx,
    };
    let compile = |target| {
        kernel
            .cuda_state()
            .compiled(kernel, shape, target, product, kernels)
    };
    let target = machine.target();
    match compile(target) {
        Err(KernelError::Missing(missing)) if target.major == 8 && target != Target::SM80 => {
            compile(Target::SM80).map_err(|_| KernelError::Missing(missing))
        }
        done => done,
    }
}

pub(crate) fn dtype_of(float: Float) -> Dtype {
    match float {
        Float::F16 => Dtype::F16,
        Float::BF16 => Dtype::BF16,
        Float::F32 => Dtype::F32,
    }
}

/// The type as kernels have it; `None` where they have none.
pub(crate) fn float_of(dtype: Dtype) -> Option<Float> {
    match dtype {
        Dtype::F16 => Some(Float::F16),
        Dtype::BF16 => Some(Float::BF16),
        Dtype::F32 => Some(Float::F32),
        Dtype::F64
        | Dtype::Bool
        | Dtype::I8
        | Dtype::U8
        | Dtype::I16
        | Dtype::U16
        | Dtype::I32
        | Dtype::U32
        | Dtype::I64
        | Dtype::U64 => None,
    }
}
