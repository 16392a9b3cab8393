//! The CPU engine behind a kernel: block mask and rules as it takes them.

use maskwright_cpu::{BlockClass, BlockRows, Micro, Output, Request, Run, TileRule, forward};
use maskwright_dsl::block_mask::{self, BlockMask};

use super::error::AttentionError;
use super::evaluator::RuleEvaluator;
use super::launch::Tiles;
use super::request::{Call, Origin};

/// The rules of a kernel over tiles of a call: rows and keys of the call in, absolute positions out.
pub(super) struct TileRules<'a> {
    pub(super) mask: Option<&'a RuleEvaluator>,
    pub(super) score: Option<&'a RuleEvaluator>,
    pub(super) origin: Origin,
    pub(super) q_offset: i64,
}

impl TileRule for TileRules<'_> {
    fn has_mask(&self) -> bool {
        self.mask.is_some()
    }

    fn has_score(&self) -> bool {
        self.score.is_some()
    }

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
    ) {
        let Some(mask) = self.mask else { return };
        let (b, h) = (self.origin.b + b as u32, self.origin.h + h as u32);
        let (q0, kv0) = (self.q_offset + q0 as i64, self.origin.kv + kv0 as i64);
        mask.mask_tile(b, h, q0, n_q, kv0, n_kv, bits, words_per_row);
    }

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
    ) {
        let Some(score) = self.score else { return };
        let (b, h) = (self.origin.b + b as u32, self.origin.h + h as u32);
        let (q0, kv0) = (self.q_offset + q0 as i64, self.origin.kv + kv0 as i64);
        score.score_tile(b, h, q0, n_q, kv0, n_kv, scores, row_stride);
    }
}

/// A block mask over the keys of one call.
struct MaskRows<'a> {
    mask: &'a BlockMask,
    kv_len: u64,
}

impl BlockRows for MaskRows<'_> {
    fn q_block(&self) -> usize {
        self.mask.block().q as usize
    }

    fn kv_block(&self) -> usize {
        self.mask.block().kv as usize
    }

    fn row(&self, b: usize, h: usize, q_block_idx: usize, out: &mut Vec<Run>) {
        let mut runs = Vec::new();
        let (b, h, row) = (b as u32, h as u32, q_block_idx as u32);
        self.mask.row_clipped(b, h, row, self.kv_len, &mut runs);
        out.extend(runs.iter().map(|run| Run {
            first: run.first(),
            count: run.count(),
            class: match run.class() {
                block_mask::BlockClass::Full => BlockClass::Full,
                block_mask::BlockClass::Partial => BlockClass::Partial,
                block_mask::BlockClass::Empty => unreachable!("no run holds empty blocks"),
            },
        }));
    }
}

/// Runs the engine, and gives the name of the kernel and the tiles that it computed.
pub(super) fn run(
    micro: Micro,
    call: &Call<'_>,
    sm_scale: f32,
    blocks: Option<&BlockMask>,
    rules: &TileRules<'_>,
    output: Output<'_>,
) -> Result<(&'static str, Tiles), AttentionError> {
    let why = "a call with f64 elements was refused before";
    let rows = blocks.map(|mask| MaskRows {
        mask,
        kv_len: call.shape.kv_len,
    });
    let request = Request {
        q: call.q.on_cpu()?.expect(why),
        k: call.k.on_cpu()?.expect(why),
        v: call.v.on_cpu()?.expect(why),
        blocks: rows.as_ref().map(|rows| rows as &dyn BlockRows),
        rule: Some(rules),
        sm_scale,
        micro: Some(micro),
    };
    let stats = forward(&request, output)?;
    let tiles = Tiles {
        full: stats.tiles_full,
        partial: stats.tiles_partial,
        skipped: stats.tiles_skipped,
    };
    Ok((stats.kernel, tiles))
}
