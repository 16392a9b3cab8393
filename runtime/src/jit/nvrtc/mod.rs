//! CUDA text to PTX and cubins through NVRTC, the compiler library of CUDA. It needs no GPU and no driver.
//!
//! [`probe`] looks for the library once per process; [`Nvrtc::compile`] compiles one text. Nothing here panics for want of the
//! library: what was looked at is in [`NvrtcMissing`].
//!
//! The functions are taken from the very file that was found, and results are plain numbers. (`cudarc`'s bindings look for a
//! library of their own by bare name, which may be another one than was probed; they panic where it or a function is missing,
//! and read result codes as a Rust enum, which a newer library's codes are not part of.)
//!
//! # Example
//! ```
//! use maskwright::jit::nvrtc::{self, Output, Target};
//!
//! match nvrtc::probe() {
//!     Ok(nvrtc) => {
//!         let source = "extern \"C\" __global__ void one(float *out) { out[threadIdx.x] = 1.0f; }";
//!         let compiled = nvrtc.compile(source, "one.cu", Target::SM80, Output::Cubin, &[])?;
//!         assert!(compiled.ptx.contains(".entry one("));
//!         assert_eq!(compiled.stats[0].spill_stores, 0);
//!     }
//!     Err(missing) => eprintln!("{missing}"),
//! }
//! # Ok::<(), nvrtc::NvrtcError>(())
//! ```

mod compile;
mod library;
mod probe;
mod ptxas;
mod required;

pub use compile::{Compiled, NvrtcError, Output, arguments};
pub use library::Nvrtc;
pub use maskwright_codegen::spec::Target;
pub use probe::{NvrtcMissing, VARIABLE, probe};
pub use ptxas::PtxasStats;
#[doc(hidden)]
pub use required::for_test;

#[cfg(test)]
mod tests;
