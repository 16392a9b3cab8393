//! Keys and values, packed tile by tile into the panels that micro-kernels read.
//!
//! A packed tile holds `ceil(n_kv / 16)` panels of K, each `[d_qk][16 keys]`, then `ceil(d_v / 16)`
//! panels of V, each `[n_kv][16 columns]`. What a panel lacks is 0.

use std::ops::Range;

use crate::micro::STRIP;
use crate::request::{Dims, Request};
use crate::tiles::Axis;

/// Where the parts of a packed tile lie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PackLayout {
    d_qk: usize,
    d_v: usize,
    /// Elements of K in the largest tile.
    k_len: usize,
    /// Elements of the largest packed tile.
    pub(crate) tile_len: usize,
}

impl PackLayout {
    pub(crate) fn new(dims: &Dims, kv: &Axis) -> Self {
        let n_kv = kv.step.min(dims.kv_len);
        let k_len = n_kv.next_multiple_of(STRIP) * dims.d_qk;
        Self {
            d_qk: dims.d_qk,
            d_v: dims.d_v,
            k_len,
            tile_len: k_len + n_kv * dims.d_v.next_multiple_of(STRIP),
        }
    }

    /// The panels of K and of V in a packed tile.
    pub(crate) fn split<'p>(&self, packed: &'p [f32]) -> (&'p [f32], &'p [f32]) {
        packed.split_at(self.k_len)
    }

    /// Packs the keys `span` of one head into `packed`; `row` is scratch.
    pub(crate) fn pack(
        &self,
        request: &Request<'_>,
        b: usize,
        h: usize,
        span: Range<usize>,
        packed: &mut [f32],
        row: &mut Vec<f32>,
    ) {
        let n_kv = span.len();
        let (k, v) = packed.split_at_mut(self.k_len);
        row.resize(self.d_qk.max(self.d_v), 0.0);
        for (j, key) in span.clone().enumerate() {
            request.k.read_row(b, h, key, &mut row[..self.d_qk]);
            let panel = &mut k[j / STRIP * STRIP * self.d_qk..][..STRIP * self.d_qk];
            for (lanes, x) in panel.chunks_exact_mut(STRIP).zip(row.iter()) {
                lanes[j % STRIP] = *x;
            }
        }
        // The buffer is used again, so lanes past the last key hold another tile's keys.
        let rest = n_kv % STRIP;
        if rest != 0 {
            let panel = &mut k[n_kv / STRIP * STRIP * self.d_qk..][..STRIP * self.d_qk];
            for lanes in panel.chunks_exact_mut(STRIP) {
                lanes[rest..].fill(0.0);
            }
        }
        for (j, key) in span.enumerate() {
            request.v.read_row(b, h, key, &mut row[..self.d_v]);
            for (panel, columns) in row[..self.d_v].chunks(STRIP).enumerate() {
                let lanes = &mut v[(panel * n_kv + j) * STRIP..][..STRIP];
                lanes[..columns.len()].copy_from_slice(columns);
                lanes[columns.len()..].fill(0.0);
            }
        }
    }
}
