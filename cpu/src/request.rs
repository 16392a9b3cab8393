//! What is asked of the engine: tensors, the block mask as runs, the rule as functions over a tile.

use crate::error::CpuError;
use crate::micro::Micro;
use crate::tensor::{TensorDataMut, TensorRef};

/// What a mask block holds; empty blocks are in no run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockClass {
    /// The rule decides cell by cell.
    Partial,
    /// Every cell in range is attended.
    Full,
}

/// Neighbouring non-empty mask blocks of one class, in one row of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Run {
    /// Column of the first block; column 0 starts at key 0.
    pub first: u32,
    /// How many blocks.
    pub count: u32,
    /// The class of all of them.
    pub class: BlockClass,
}

/// A block mask, as rows of runs.
pub trait BlockRows: Sync {
    /// Queries per mask block, at least 1.
    fn q_block(&self) -> usize;

    /// Keys per mask block, at least 1.
    fn kv_block(&self) -> usize;

    /// Appends the runs of block row `q_block_idx` to `out`, ascending and without overlap.
    ///
    /// `h` is the query head. Block row 0 starts at query row 0 of the call. Runs may reach past
    /// the keys there are; what overhangs is ignored.
    fn row(&self, b: usize, h: usize, q_block_idx: usize, out: &mut Vec<Run>);
}

/// A rule, as functions over a tile of `n_q` query rows from `q0` and `n_kv` keys from `kv0`.
///
/// `b` and `h` are batch and query head. Rows count from 0 in the call; an implementor adds its
/// query offset. Both functions must be pure and cell by cell: the engine may call them for any
/// rectangle, in any order, from any thread.
pub trait TileRule: Sync {
    /// Whether [`mask`](Self::mask) restricts anything.
    fn has_mask(&self) -> bool;

    /// Whether [`score`](Self::score) changes anything.
    fn has_score(&self) -> bool;

    /// Sets bit `j % 64` of word `j / 64` of row `i` where row `q0 + i` may see key `kv0 + j`.
    ///
    /// `bits` holds `n_q` rows of `words_per_row` words and arrives zeroed; bits past `n_kv` are
    /// ignored.
    #[expect(clippy::too_many_arguments, reason = "a rectangle in four dimensions")]
    fn mask(
        &self,
        b: usize,
        h: usize,
        q0: usize,
        n_q: usize,
        kv0: usize,
        n_kv: usize,
        bits: &mut [u64],
        words_per_row: usize,
    );

    /// Changes the scores, which are scaled by `sm_scale` already, in place.
    ///
    /// Row `i` starts at `scores[i * row_stride]`, and `scores` ends with the last row's last
    /// score. Cells that no query may see can hold anything.
    #[expect(clippy::too_many_arguments, reason = "a rectangle in four dimensions")]
    fn score(
        &self,
        b: usize,
        h: usize,
        q0: usize,
        n_q: usize,
        kv0: usize,
        n_kv: usize,
        scores: &mut [f32],
        row_stride: usize,
    );
}

/// One attention call. `q` is `[B, Hq, Lq, Dqk]`, `k` `[B, Hkv, Lkv, Dqk]`, `v` `[B, Hkv, Lkv, Dv]`.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Queries.
    pub q: TensorRef<'a>,
    /// Keys.
    pub k: TensorRef<'a>,
    /// Values.
    pub v: TensorRef<'a>,
    /// The block mask. Without one, every block is partial if the rule has a mask, and full if not.
    pub blocks: Option<&'a dyn BlockRows>,
    /// The rule. Without one, partial blocks attend to every cell.
    pub rule: Option<&'a dyn TileRule>,
    /// Factor of the dot products.
    pub sm_scale: f32,
    /// The micro-kernel to use; without one, `MASKWRIGHT_MICRO` or the processor decides.
    pub micro: Option<Micro>,
}

impl<'a> Request<'a> {
    /// Asks for dense attention; set the other fields for more.
    pub fn new(q: TensorRef<'a>, k: TensorRef<'a>, v: TensorRef<'a>, sm_scale: f32) -> Self {
        Self {
            q,
            k,
            v,
            blocks: None,
            rule: None,
            sm_scale,
            micro: None,
        }
    }
}

/// Where the results go.
#[derive(Debug)]
pub struct Output<'a> {
    /// `[B, Hq, Lq, Dv]`, contiguous; of the type of `q`, or f32.
    pub out: TensorDataMut<'a>,
    /// `[B, Hq, Lq]`: the natural logarithm of the sum of `exp(score)` over attended keys.
    pub lse: Option<&'a mut [f32]>,
    /// `[B, Hq, Lq]`: the largest score over attended keys.
    pub row_max: Option<&'a mut [f32]>,
}

impl<'a> Output<'a> {
    /// Asks for `out` alone.
    pub fn new(out: TensorDataMut<'a>) -> Self {
        Self {
            out,
            lse: None,
            row_max: None,
        }
    }
}

/// The extents of a valid request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dims {
    pub(crate) batch: usize,
    pub(crate) num_q_heads: usize,
    pub(crate) num_kv_heads: usize,
    pub(crate) q_len: usize,
    pub(crate) kv_len: usize,
    pub(crate) d_qk: usize,
    pub(crate) d_v: usize,
}

impl Dims {
    /// Query heads per key head.
    pub(crate) fn group(&self) -> usize {
        // With no key head there is no query head either, and nobody divides by the group.
        (self.num_q_heads / self.num_kv_heads.max(1)).max(1)
    }
}

/// Checks that shapes, types and lengths agree.
pub(crate) fn validate(request: &Request<'_>, output: &Output<'_>) -> Result<Dims, CpuError> {
    let [q_batch, num_q_heads, q_len, d_qk] = request.q.shape();
    let [k_batch, num_kv_heads, kv_len, k_dim] = request.k.shape();
    let [v_batch, v_heads, v_len, d_v] = request.v.shape();
    if q_batch != k_batch || q_batch != v_batch {
        return Err(CpuError::BatchMismatch {
            q: q_batch,
            k: k_batch,
            v: v_batch,
        });
    }
    if num_kv_heads != v_heads {
        return Err(CpuError::KvHeadMismatch {
            k: num_kv_heads,
            v: v_heads,
        });
    }
    let divides = match num_kv_heads {
        0 => num_q_heads == 0,
        n => num_q_heads.is_multiple_of(n),
    };
    if !divides {
        return Err(CpuError::HeadRatio {
            num_q_heads,
            num_kv_heads,
        });
    }
    if kv_len != v_len {
        return Err(CpuError::KvLenMismatch {
            k: kv_len,
            v: v_len,
        });
    }
    if d_qk != k_dim {
        return Err(CpuError::HeadDimMismatch { q: d_qk, k: k_dim });
    }
    if d_qk == 0 || d_v == 0 {
        return Err(CpuError::ZeroHeadDim { qk: d_qk, v: d_v });
    }
    validate_output(
        request,
        output,
        [q_batch, num_q_heads, q_len].map(|n| n as u128),
        d_v as u128,
    )?;
    if let Some(blocks) = request.blocks {
        let (q_block, kv_block) = (blocks.q_block(), blocks.kv_block());
        if q_block == 0 || kv_block == 0 {
            return Err(CpuError::ZeroBlock { q_block, kv_block });
        }
    }
    Ok(Dims {
        batch: q_batch,
        num_q_heads,
        num_kv_heads,
        q_len,
        kv_len,
        d_qk,
        d_v,
    })
}

fn validate_output(
    request: &Request<'_>,
    output: &Output<'_>,
    rows: [u128; 3],
    d_v: u128,
) -> Result<(), CpuError> {
    let (q, out) = (request.q.dtype(), output.out.dtype());
    if out != q && out != crate::tensor::DType::F32 {
        return Err(CpuError::OutputDType { q, out });
    }
    // Views of stride 0 may be larger than any slice, so even 128 bits are multiplied with care.
    let product = |factors: &[u128]| {
        if factors.contains(&0) {
            return 0;
        }
        factors.iter().fold(1, |n: u128, f| n.saturating_mul(*f))
    };
    let n_rows = product(&rows);
    let side = |slice: &Option<&mut [f32]>| slice.as_ref().map(|s| s.len());
    for (name, expected, found) in [
        ("out", product(&[n_rows, d_v]), Some(output.out.len())),
        ("lse", n_rows, side(&output.lse)),
        ("row_max", n_rows, side(&output.row_max)),
    ] {
        if let Some(found) = found
            && found as u128 != expected
        {
            return Err(CpuError::OutputLen {
                name,
                expected,
                found,
            });
        }
    }
    Ok(())
}
