//! One call on a machine, with tensors in the layouts that the call names.

use maskwright::Kernel;
use maskwright::cuda::{
    CudaKernel, DeviceOutput, DeviceTensor, DeviceTensorMut, KernelStore, LaunchOptions, Machine,
};

use super::groups::{Call, Group};
use crate::error::RunError;
use crate::tensors::{Tensor, element, extent, places};

/// What a call gave, in row-major order.
pub(super) struct Results {
    /// Bytes of the output, as long as its layout is.
    out: Vec<u8>,
    out_at: ([usize; 4], [usize; 4]),
    pub(super) lse: Vec<f32>,
    pub(super) row_max: Vec<f32>,
}

impl Results {
    /// The output, element by element.
    pub(super) fn out(&self, group: &Group) -> Vec<f32> {
        let (shape, strides) = self.out_at;
        let dtype = group.shape.out_dtype;
        places(shape, strides)
            .map(|at| element(dtype, &self.out, at))
            .collect()
    }
}

/// `q`, `k` and `v` of a call: the same whenever they are asked for.
pub(super) fn inputs(group: &Group, call: &Call) -> [Tensor; 3] {
    let batch = group.scope.batch as usize;
    let (heads, kv_heads) = (group.scope.num_q_heads as usize, group.kv_heads);
    let (d_qk, d_v) = (group.shape.d_qk as usize, group.shape.d_v as usize);
    let dtype = group.shape.dtype;
    [
        Tensor::drawn(dtype, [batch, heads, call.q_len, d_qk], call.q_layout, 1),
        Tensor::drawn(
            dtype,
            [batch, kv_heads, call.kv_len, d_qk],
            call.kv_layout,
            2,
        ),
        Tensor::drawn(
            dtype,
            [batch, kv_heads, call.kv_len, d_v],
            call.kv_layout,
            3,
        ),
    ]
}

/// Runs a call. Outputs hold NaN before, so that what the kernel does not write shows.
pub(super) fn launch(
    group: &Group,
    kernel: &Kernel,
    call: &Call,
    machine: &Machine,
    kernels: &KernelStore,
) -> Result<Results, RunError> {
    let cuda = CudaKernel::new(kernel, machine, &group.shape, kernels)?;
    let has_cells = 0 < call.q_len && 0 < call.kv_len;
    let mask = match group.shape.blocks {
        Some(blocks) if has_cells && kernel.prepared_mask().is_some() => {
            let (q_len, kv_len) = (call.q_len as u64, call.kv_len as u64);
            let mask = kernel.block_mask_at(q_len, kv_len, call.q_offset, blocks.block)?;
            Some(cuda.upload_mask(&mask)?)
        }
        Some(_) | None => None,
    };
    let [q, k, v] = inputs(group, call);
    let on_machine = |tensor: &Tensor| machine.upload(&tensor.elements.bytes());
    let memory = [on_machine(&q)?, on_machine(&k)?, on_machine(&v)?];
    let [batch, heads, q_len, _] = q.shape;
    let out_shape = [batch, heads, q_len, group.shape.d_v as usize];
    let out_strides = call.q_layout.strides(out_shape);
    let out_dtype = group.shape.out_dtype;
    let out_bytes = extent(out_shape, out_strides) * out_dtype.bytes() as usize;
    // All bits set are a NaN in every type.
    let unwritten = |bytes: usize| machine.upload(&vec![0xff; bytes]);
    let mut out = unwritten(out_bytes)?;
    let n_rows = batch * heads * q_len;
    let (mut lse, mut row_max) = (unwritten(4 * n_rows)?, unwritten(4 * n_rows)?);
    let tensor = |of: &Tensor, at: usize| DeviceTensor {
        memory: memory[at].view(),
        dtype: group.shape.dtype,
        shape: of.shape,
        strides: of.strides,
    };
    cuda.forward(
        tensor(&q, 0),
        tensor(&k, 1),
        tensor(&v, 2),
        &LaunchOptions {
            q_offset: call.q_offset,
            block_mask: mask.as_deref(),
            ..LaunchOptions::default()
        },
        &mut DeviceOutput {
            out: DeviceTensorMut {
                memory: out.view_mut(),
                dtype: out_dtype,
                shape: out_shape,
                strides: out_strides,
            },
            lse: Some(lse.view_mut()),
            row_max: Some(row_max.view_mut()),
        },
    )?;
    Ok(Results {
        out: out.download()?,
        out_at: (out_shape, out_strides),
        lse: floats(&lse.download()?),
        row_max: floats(&row_max.download()?),
    })
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|x| f32::from_le_bytes(*x))
        .collect()
}
