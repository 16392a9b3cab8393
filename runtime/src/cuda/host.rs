//! Tensors of the host on a machine: uploaded, computed, and downloaded again.

use std::sync::OnceLock;

use half::{bf16, f16};
use maskwright_codegen::spec::Float;
use maskwright_cpu::{Output, TensorDataMut};
use maskwright_dsl::block_mask::{Authority, BlockMask};

use super::compiled::KernelStore;
use super::engine::{CudaKernel, DeviceOutput, LaunchOptions, float_of};
use super::error::KernelError;
use super::machine::{EmulatorOptions, Machine, MachineError};
use super::state::CudaState;
use super::tensor::{DeviceTensor, DeviceTensorMut};
use super::text::{KernelShape, MaskBlocks};
use crate::attention::{
    AttentionError, Backend, Call, ForwardOptions, Kernel, LaunchRecord, TensorRef,
};
use crate::device::DeviceError;

/// A kernel that is ready to run one call.
#[derive(Debug)]
pub(crate) struct HostRun {
    kernel: CudaKernel,
    out_dtype: Float,
}

/// The first GPU, opened once in a process; all calls on tensors of the host share its stream.
pub(crate) fn first_gpu() -> Result<Machine, String> {
    static GPU: OnceLock<Result<Machine, String>> = OnceLock::new();
    let opened = GPU.get_or_init(|| {
        Machine::device(0).map_err(|error| match error {
            MachineError::Device(DeviceError::NoDriver(_)) => "there is no CUDA driver".to_owned(),
            error => in_one_line(&error),
        })
    });
    opened.clone()
}

/// An emulator of its own for one call.
#[expect(
    clippy::unnecessary_wraps,
    reason = "it stands beside `first_gpu`, which may find none"
)]
pub(crate) fn new_emulator() -> Result<Machine, String> {
    Ok(Machine::emulator(EmulatorOptions::default()))
}

/// Makes a kernel ready for a call, or says in one line why it cannot run.
pub(crate) fn prepare_run(
    kernel: &Kernel,
    machine: impl FnOnce() -> Result<Machine, String>,
    call: &Call<'_>,
    options: &ForwardOptions<'_>,
    out: &TensorDataMut<'_>,
) -> Result<HostRun, String> {
    for (name, tensor) in [("q", call.q), ("k", call.k), ("v", call.v)] {
        let dtype = tensor.dtype();
        if float_of(dtype).is_none() {
            return Err(format!("{name} is {dtype}, and it takes f32, f16 and bf16"));
        }
        if dtype != call.q.dtype() {
            return Err(format!(
                "{name} is {dtype} and q is {}, and it takes one type",
                call.q.dtype()
            ));
        }
    }
    let dtype = float_of(call.q.dtype()).expect("checked above");
    let out_dtype = match out {
        TensorDataMut::F32(_) => Float::F32,
        TensorDataMut::F16(_) => Float::F16,
        TensorDataMut::BF16(_) => Float::BF16,
    };
    let blocks = match options.block_mask {
        Some(mask) => Some(MaskBlocks::of(mask)),
        None => kernel.prepared_mask().map(|_| MaskBlocks {
            block: options.block,
            authority: Authority::Rule,
        }),
    };
    let dimension = |d: usize| u32::try_from(d).unwrap_or(u32::MAX);
    let shape = KernelShape {
        dtype,
        out_dtype,
        d_qk: dimension(call.d_qk),
        d_v: dimension(call.d_v),
        blocks,
    };
    // What the machine is matters last: a call that no kernel takes says so on any.
    CudaState::check_shape(kernel, &shape).map_err(|error| in_one_line(&error))?;
    let machine = machine()?;
    let from_env;
    let kernels = if let Some(kernels) = options.kernels {
        kernels
    } else {
        from_env = KernelStore::from_env();
        &from_env
    };
    let kernel =
        CudaKernel::new(kernel, &machine, &shape, kernels).map_err(|error| in_one_line(&error))?;
    Ok(HostRun { kernel, out_dtype })
}

/// An error with its causes.
fn in_one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

impl HostRun {
    pub(crate) fn backend(&self) -> Backend {
        self.kernel.machine().backend()
    }

    /// The kernel with its tile and target.
    pub(crate) fn name(&self) -> String {
        self.kernel.compiled().text().name()
    }

    /// Uploads the inputs, runs, and writes the outputs.
    pub(crate) fn run(
        &self,
        call: &Call<'_>,
        sm_scale: f32,
        q_offset: i64,
        blocks: Option<&BlockMask>,
        output: Output<'_>,
    ) -> Result<LaunchRecord, AttentionError> {
        let machine = self.kernel.machine();
        let blocks = blocks
            .map(|mask| self.kernel.upload_mask(mask))
            .transpose()?;
        let upload = |tensor: &TensorRef<'_>| {
            let memory = machine.upload(&tensor.row_major_bytes());
            memory.map_err(KernelError::from)
        };
        let (q, k, v) = (upload(&call.q)?, upload(&call.k)?, upload(&call.v)?);
        let [batch, heads, q_len, _] = call.q.shape();
        let out_shape = [batch, heads, q_len, call.d_v];
        let n_rows = batch * heads * q_len;
        let out_bytes = n_rows * call.d_v * self.out_dtype.bytes() as usize;
        let alloc = |bytes: usize| machine.alloc(bytes).map_err(KernelError::from);
        let mut out = alloc(out_bytes)?;
        let side = |wanted: bool| wanted.then(|| alloc(4 * n_rows)).transpose();
        let mut lse = side(output.lse.is_some())?;
        let mut row_max = side(output.row_max.is_some())?;
        let dtype = float_of(call.q.dtype()).expect("other types were refused before");
        let launched = self.kernel.forward(
            DeviceTensor::contiguous(q.view(), dtype, call.q.shape()),
            DeviceTensor::contiguous(k.view(), dtype, call.k.shape()),
            DeviceTensor::contiguous(v.view(), dtype, call.v.shape()),
            &LaunchOptions {
                sm_scale: Some(sm_scale),
                q_offset,
                block_mask: blocks.as_deref(),
                stream: None,
            },
            &mut DeviceOutput {
                out: DeviceTensorMut::contiguous(out.view_mut(), self.out_dtype, out_shape),
                lse: lse.as_mut().map(|memory| memory.view_mut()),
                row_max: row_max.as_mut().map(|memory| memory.view_mut()),
            },
        )?;
        let download =
            |memory: &super::machine::MachineBuffer| memory.download().map_err(KernelError::from);
        let bytes = download(&out)?;
        match output.out {
            TensorDataMut::F32(to) => fill(to, &bytes, f32::from_le_bytes),
            TensorDataMut::F16(to) => fill(to, &bytes, f16::from_le_bytes),
            TensorDataMut::BF16(to) => fill(to, &bytes, bf16::from_le_bytes),
        }
        for (to, from) in [(output.lse, &lse), (output.row_max, &row_max)] {
            if let (Some(to), Some(from)) = (to, from) {
                fill(to, &download(from)?, f32::from_le_bytes);
            }
        }
        Ok(launched.record)
    }
}

fn fill<T, const N: usize>(to: &mut [T], bytes: &[u8], read: impl Fn([u8; N]) -> T) {
    let (elements, rest) = bytes.as_chunks::<N>();
    debug_assert!(rest.is_empty() && elements.len() == to.len());
    for (to, element) in to.iter_mut().zip(elements) {
        *to = read(*element);
    }
}
