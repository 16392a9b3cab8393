//! The launch of our own kernels, whose parameters are known to be right.

use super::error::DeviceError;
use super::module::{DeviceModule, Launch};
use super::stream::Stream;
use crate::cuda::ParamBlock;

impl DeviceModule {
    /// Launches one of our kernels behind what the stream holds.
    pub(crate) fn attend(
        &self,
        stream: &Stream,
        launch: Launch,
        params: &ParamBlock<'_>,
    ) -> Result<(), DeviceError> {
        // SAFETY: kernels come from `codegen` with the layout of their parameters, and a block is written for that
        // layout. Its addresses are those of buffers and views that the block borrows, of tensors that were checked to
        // stay within them; the kernels stay within the tensors and tables that they are given, which the emulator
        // checks. A view of our own is freed only behind what runs, and of others' memory its maker promised as much.
        unsafe { self.launch(stream, launch, params.words()) }
    }
}
