//! CUDA text that is ready to be compiled.

use crate::plan::ParamLayout;

/// A kernel as CUDA C++.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaSource {
    /// The whole translation unit.
    pub text: String,
    /// The name of the kernel, which has C linkage.
    pub entry: String,
    /// The struct that is its one parameter.
    pub params: ParamLayout,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
}
