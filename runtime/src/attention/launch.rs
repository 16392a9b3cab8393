//! The record of a launch: which kernel ran, why the others did not, and what it computed.

use std::fmt;

use serde::Serialize;

use super::dispatch::{Backend, Refusal};
use crate::tensor::Dtype;

/// Tiles of a launch, over all batch entries and heads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tiles {
    /// Tiles in which every cell is attended by class.
    pub full: u64,
    /// Tiles in which the rule, or empty blocks, could mask cells.
    pub partial: u64,
    /// Tiles that were never touched.
    pub skipped: u64,
}

/// Shapes of the inputs, `[batch, heads, length, head_dim]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shapes {
    /// Queries.
    pub q: [usize; 4],
    /// Keys.
    pub k: [usize; 4],
    /// Values.
    pub v: [usize; 4],
}

/// What one call ran.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LaunchRecord {
    /// The backend.
    pub backend: Backend,
    /// The kernel.
    pub kernel: String,
    /// Every other candidate, and why it did not run.
    pub refusals: Vec<Refusal>,
    /// Tiles that the kernel computed and skipped; all 0 for the reference, which has none.
    pub tiles: Tiles,
    /// Shapes of the inputs.
    pub shapes: Shapes,
    /// Element type of the queries.
    #[serde(serialize_with = "dtype_name")]
    pub dtype: Dtype,
    /// Where it ran.
    pub device: String,
    /// Threads of the pool that it ran in, where small work stays on the calling thread; on a GPU, threads of a block.
    pub threads: usize,
    /// Version of this crate.
    pub version: &'static str,
    /// Seconds that the kernel took.
    pub seconds: f64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands fields over by reference"
)]
fn dtype_name<S: serde::Serializer>(dtype: &Dtype, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(dtype.name())
}

impl fmt::Display for LaunchRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            backend,
            kernel,
            refusals,
            tiles,
            shapes,
            dtype,
            device,
            threads,
            version: _,
            seconds,
        } = self;
        write!(
            f,
            "{backend} {kernel} on {device}: {dtype} q={:?} k={:?} v={:?}, tiles {} full, {} partial, {} skipped, \
             {threads} threads, {:.3} ms",
            shapes.q,
            shapes.k,
            shapes.v,
            tiles.full,
            tiles.partial,
            tiles.skipped,
            seconds * 1e3
        )?;
        for refusal in refusals {
            write!(f, "; not {refusal}")?;
        }
        Ok(())
    }
}
