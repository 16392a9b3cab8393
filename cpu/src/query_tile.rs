//! One query tile from start to end: the online softmax over its key tiles.
//!
//! | symbol | meaning |
//! | --- | --- |
//! | `Q` | the tile's queries, `[n_q][d_qk]` as f32 |
//! | `S`, `P` | scores of a band of rows against one key tile, and their weights |
//! | `m`, `l` | each row's largest score so far, and the sum of its weights relative to `m` |
//! | `O` | each row's weighted sum of values, relative to `m` |
//!
//! What a tile computes follows from which of its cells are attended, and from nothing else: a
//! tile called partial whose cells are all attended takes the path of a full one.

use std::ops::Range;

use crate::keys::PackLayout;
use crate::micro::{BAND, Bits, Extent, GROUP, Kernels, RowState, STRIP, Scores};
use crate::request::{BlockClass, Dims, Request};
use crate::tensor::TensorDataMut;
use crate::tile_mask::{Cells, MAX_WORDS, Place, attended_cells, extents};
use crate::tiles::{Axis, KvTile, QueryTileRuns, TILE};

/// What every query tile of a call shares.
pub(crate) struct Call<'a> {
    pub(crate) request: Request<'a>,
    pub(crate) dims: Dims,
    pub(crate) q_axis: Axis,
    pub(crate) kv_axis: Axis,
    pub(crate) q_block: usize,
    pub(crate) layout: PackLayout,
    pub(crate) kernels: &'static dyn Kernels,
}

/// Where a query tile finds packed keys.
#[derive(Clone, Copy)]
pub(crate) enum Keys<'a> {
    /// Every tile of the head, packed beforehand, one after the other.
    Packed(&'a [f32]),
    /// Nowhere yet: it packs what it needs.
    InPlace,
}

/// A query tile and the rows of the outputs that are its own.
pub(crate) struct Item<'o> {
    pub(crate) b: usize,
    pub(crate) h: usize,
    pub(crate) q: Range<usize>,
    /// Cells to compute, by which items are ordered.
    pub(crate) cells: u64,
    pub(crate) out: TensorDataMut<'o>,
    pub(crate) lse: Option<&'o mut [f32]>,
    pub(crate) row_max: Option<&'o mut [f32]>,
}

/// Buffers of one thread, used for one query tile after the other.
pub(crate) struct Scratch {
    q: Vec<f32>,
    s: Vec<f32>,
    o: Vec<f32>,
    max: Vec<f32>,
    sum: Vec<f32>,
    alpha: [f32; BAND],
    bits: Vec<u64>,
    extents: Vec<Extent>,
    runs: QueryTileRuns,
    tiles: Vec<KvTile>,
    packed: Vec<f32>,
    row: Vec<f32>,
}

/// Elements between rows of scores: a cache line more than a row, so that columns do not collide.
const SCORE_STRIDE: usize = TILE + STRIP;

impl Scratch {
    pub(crate) fn new(call: &Call<'_>) -> Self {
        let n_q = call.q_axis.step.min(call.dims.q_len);
        Self {
            q: vec![0.0; n_q * call.dims.d_qk],
            s: vec![0.0; BAND * SCORE_STRIDE],
            o: vec![0.0; n_q * call.dims.d_v.next_multiple_of(STRIP)],
            max: vec![0.0; n_q],
            sum: vec![0.0; n_q],
            alpha: [1.0; BAND],
            bits: vec![0; n_q * MAX_WORDS],
            extents: Vec::new(),
            runs: QueryTileRuns::default(),
            tiles: Vec::new(),
            packed: Vec::new(),
            row: Vec::new(),
        }
    }
}

impl Call<'_> {
    /// Loads the runs of a query tile, real ones or those that a missing block mask stands for.
    pub(crate) fn load_runs(
        &self,
        runs: &mut QueryTileRuns,
        b: usize,
        h: usize,
        q: Range<usize>,
    ) -> Result<(), crate::error::CpuError> {
        if let Some(blocks) = self.request.blocks {
            return runs.load(blocks, b, h, q, self.dims.kv_len);
        }
        let class = match self.request.rule {
            Some(rule) if rule.has_mask() => BlockClass::Partial,
            Some(_) | None => BlockClass::Full,
        };
        if 0 < self.dims.kv_len {
            runs.load_uniform(class, self.dims.kv_len);
        }
        Ok(())
    }

    /// Computes one query tile.
    pub(crate) fn compute(&self, mut item: Item<'_>, keys: Keys<'_>, scratch: &mut Scratch) {
        let n_q = item.q.len();
        let d_qk = self.dims.d_qk;
        for (i, row) in scratch.q.chunks_exact_mut(d_qk).take(n_q).enumerate() {
            self.request
                .q
                .read_row(item.b, item.h, item.q.start + i, row);
        }
        scratch.max[..n_q].fill(f32::NEG_INFINITY);
        scratch.sum[..n_q].fill(0.0);
        scratch.o.fill(0.0);

        // The plan read the same rows before any thread started, and refused what is out of order.
        if self
            .load_runs(&mut scratch.runs, item.b, item.h, item.q.clone())
            .is_ok()
        {
            scratch.runs.tiles(&self.kv_axis, &mut scratch.tiles);
        } else {
            scratch.tiles.clear();
        }
        for t in 0..scratch.tiles.len() {
            let tile = scratch.tiles[t];
            let place = Place {
                b: item.b,
                h: item.h,
                q: item.q.clone(),
                kv: self.kv_axis.span(tile.index),
            };
            self.key_tile(&place, tile, keys, scratch);
        }
        self.finish(&mut item, scratch);
    }

    /// Takes one key tile into the state of all rows.
    fn key_tile(&self, place: &Place, tile: KvTile, keys: Keys<'_>, scratch: &mut Scratch) {
        let (n_q, n_kv) = (place.q.len(), place.kv.len());
        let words = n_kv.div_ceil(64);
        let bits = &mut scratch.bits[..n_q * words];
        let cells = match tile.class {
            BlockClass::Full => Cells::All,
            BlockClass::Partial => {
                let rule = self.request.rule;
                attended_cells(place, &scratch.runs, self.q_block, rule, bits)
            }
        };
        let bits = match cells {
            Cells::None => return,
            Cells::Some => {
                extents(bits, words, &mut scratch.extents);
                Some(&*bits)
            }
            Cells::All => {
                let all = Extent {
                    from: 0,
                    to: n_kv.div_ceil(STRIP),
                };
                scratch.extents.clear();
                scratch.extents.resize(n_q.div_ceil(GROUP), all);
                None
            }
        };

        let tile_len = self.layout.tile_len;
        let packed = match keys {
            Keys::Packed(head) => &head[tile.index * tile_len..][..tile_len],
            Keys::InPlace => {
                scratch.packed.resize(tile_len, 0.0);
                let kv_head = place.h / self.dims.group();
                self.layout.pack(
                    &self.request,
                    place.b,
                    kv_head,
                    place.kv.clone(),
                    &mut scratch.packed,
                    &mut scratch.row,
                );
                &scratch.packed
            }
        };
        let (k, v) = self.layout.split(packed);

        let d_qk = self.dims.d_qk;
        let panels = self.dims.d_v.div_ceil(STRIP);
        let v = &v[..panels * n_kv * STRIP];
        // A weight of 0 does not silence NaN or inf, and masked cells must be silent.
        let finite = bits.is_none() || all_finite(v);
        for first in (0..n_q).step_by(BAND) {
            let rows = BAND.min(n_q - first);
            let extents = &scratch.extents[first / GROUP..(first + rows).div_ceil(GROUP)];
            let mut scores = Scores {
                s: &mut scratch.s,
                ld: SCORE_STRIDE,
                rows,
                extents,
            };
            // S = sm_scale · Q Kᵀ
            let q = &scratch.q[first * d_qk..];
            self.kernels
                .scores(&mut scores, q, k, d_qk, self.request.sm_scale);
            self.apply_rule(place, first, &mut scores);
            // Columns past the last key take part in the softmax, so they must weigh nothing.
            if !n_kv.is_multiple_of(STRIP) {
                for row in scores.s.chunks_exact_mut(SCORE_STRIDE).take(rows) {
                    row[n_kv..n_kv.next_multiple_of(STRIP)].fill(f32::NEG_INFINITY);
                }
            }
            // P = exp(S - m)
            let bits = bits.map(|bits| Bits {
                words: &bits[first * words..],
                per_row: words,
            });
            let mut state = RowState {
                max: &mut scratch.max[first..],
                sum: &mut scratch.sum[first..],
                alpha: &mut scratch.alpha,
            };
            self.kernels.softmax(&mut scores, bits, &mut state);
            // O = α O + P V
            let o = &mut scratch.o[first * panels * STRIP..];
            match bits {
                Some(bits) if !finite => {
                    accumulate_attended(&scores, bits, v, panels, &scratch.alpha, o);
                }
                Some(_) | None => {
                    let alpha = &scratch.alpha;
                    self.kernels.accumulate(&scores, v, n_kv, panels, alpha, o);
                }
            }
        }
    }

    /// Lets the rule change the scores of a band, within the columns that some row needs.
    fn apply_rule(&self, place: &Place, first: usize, scores: &mut Scores<'_>) {
        let Some(rule) = self.request.rule.filter(|rule| rule.has_score()) else {
            return;
        };
        let wanted = scores.extents.iter().filter(|e| e.from < e.to);
        let (from, to) = wanted.fold((usize::MAX, 0), |(from, to), e| {
            (from.min(e.from), to.max(e.to))
        });
        if to <= from {
            return;
        }
        let (from, to) = (from * STRIP, (to * STRIP).min(place.kv.len()));
        let end = (scores.rows - 1) * scores.ld + to;
        rule.score(
            place.b,
            place.h,
            place.q.start + first,
            scores.rows,
            place.kv.start + from,
            to - from,
            &mut scores.s[from..end],
            scores.ld,
        );
    }

    /// Divides by the sums and writes the item's rows.
    fn finish(&self, item: &mut Item<'_>, scratch: &mut Scratch) {
        let d_v = self.dims.d_v;
        let o_stride = d_v.next_multiple_of(STRIP);
        for i in 0..item.q.len() {
            let (m, l) = (scratch.max[i], scratch.sum[i]);
            let o = &mut scratch.o[i * o_stride..][..d_v];
            let (lse, row_max) = if l == 0.0 {
                // Nothing weighed anything. A score of -inf may have left 0 · inf here.
                o.fill(0.0);
                (f32::NEG_INFINITY, f32::NEG_INFINITY)
            } else if l.is_nan() {
                // An attended score was NaN or +inf.
                o.fill(f32::NAN);
                (f32::NAN, f32::NAN)
            } else {
                // O = O / l
                for x in o.iter_mut() {
                    *x /= l;
                }
                // lse = m + ln l, where f64 makes the library's accuracy no concern
                ((f64::from(m) + f64::from(l).ln()) as f32, m)
            };
            item.out.write(i * d_v, o);
            if let Some(out) = &mut item.lse {
                out[i] = lse;
            }
            if let Some(out) = &mut item.row_max {
                out[i] = row_max;
            }
        }
    }
}

/// Whether no element is NaN or infinite.
fn all_finite(x: &[f32]) -> bool {
    // A maximum of integers becomes vectors, where an early end would not.
    let largest = x.iter().fold(0, |m, x| x.abs().to_bits().max(m));
    largest < f32::INFINITY.to_bits()
}

/// `O = alpha · O + P V` over attended cells alone: for a V that is not finite, which is rare.
fn accumulate_attended(
    weights: &Scores<'_>,
    bits: Bits<'_>,
    v: &[f32],
    panels: usize,
    alpha: &[f32],
    o: &mut [f32],
) {
    let n_kv = v.len() / (panels * STRIP);
    for (i, o) in o
        .chunks_exact_mut(panels * STRIP)
        .take(weights.rows)
        .enumerate()
    {
        let extent = weights.extents[i / GROUP];
        if extent.to <= extent.from {
            continue;
        }
        // O = alpha · O
        for o in o.iter_mut() {
            *o *= alpha[i];
        }
        // O += P V
        for j in extent.from * STRIP..(extent.to * STRIP).min(n_kv) {
            if !bits.get(i, j) {
                continue;
            }
            let p = weights.s[i * weights.ld + j];
            for (panel, o) in o.chunks_exact_mut(STRIP).enumerate() {
                for (o, v) in o.iter_mut().zip(&v[(panel * n_kv + j) * STRIP..]) {
                    *o += p * v;
                }
            }
        }
    }
}
