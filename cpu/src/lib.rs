//! The CPU attention engine of Maskwright: tiles, micro-kernels, online softmax.
//!
//! The engine computes `softmax(score(sm_scale · Q Kᵀ)) V` tile by tile and never touches an empty
//! mask block. It knows a rule only as two functions over a tile ([`TileRule`]) and a block mask
//! only as runs of blocks ([`BlockRows`]); what they mean is the caller's business.
//!
//! Micro-kernels are chosen at run time, by [`Request::micro`], the environment variable
//! `MASKWRIGHT_MICRO` (`portable` or `avx2`), or what the processor offers.
//!
//! ```
//! use maskwright_cpu::{Output, Request, TensorData, TensorDataMut, TensorRef, forward};
//!
//! let values = vec![0.5_f32; 2 * 3 * 4];
//! let view = TensorRef::contiguous(TensorData::F32(&values), [1, 2, 3, 4])?;
//! let mut out = vec![0.0_f32; 2 * 3 * 4];
//! let request = Request::new(view, view, view, 0.5);
//! let stats = forward(&request, Output::new(TensorDataMut::F32(&mut out)))?;
//! assert_eq!(stats.tiles_full, 2);
//! assert!(out.iter().all(|x| (x - 0.5).abs() < 1e-6));
//! # Ok::<(), maskwright_cpu::CpuError>(())
//! ```

#![deny(unsafe_code)]

mod request;
mod tensor;

mod error;
mod forward;

mod exp;
mod keys;
mod micro;
mod query_tile;
mod tile_mask;
mod tiles;

pub use error::CpuError;
pub use forward::{ForwardStats, forward};
pub use micro::Micro;
pub use request::{BlockClass, BlockRows, Output, Request, Run, TileRule};
pub use tensor::{DType, TensorData, TensorDataMut, TensorRef};
