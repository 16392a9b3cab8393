//! Prints the speed of the forward pass on one thread, for causal, windowed and dense attention.
//!
//! Run with `cargo run --release -p maskwright-cpu --example forward_speed`. Rates count `4 · D`
//! operations for every attended pair, so that work on masked cells lowers them.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::time::Instant;

use maskwright_cpu::{
    BlockClass, BlockRows, CpuError, Output, Request, Run, TensorData, TensorDataMut, TensorRef,
    TileRule, forward,
};

const HEADS: usize = 8;
const LEN: usize = 4096;
const DIM: usize = 64;
const BLOCK: usize = 128;
const ROUNDS: usize = 7;

/// Query `q` sees the keys `q - reach < kv <= q`.
struct Window {
    reach: usize,
}

impl BlockRows for Window {
    fn q_block(&self) -> usize {
        BLOCK
    }

    fn kv_block(&self) -> usize {
        BLOCK
    }

    fn row(&self, _: usize, _: usize, q_block_idx: usize, out: &mut Vec<Run>) {
        let (first_q, last_q) = (q_block_idx * BLOCK, q_block_idx * BLOCK + BLOCK - 1);
        for block in 0..=q_block_idx {
            let (first_kv, last_kv) = (block * BLOCK, block * BLOCK + BLOCK - 1);
            if last_kv + self.reach <= first_q {
                continue;
            }
            let full = last_kv <= first_q && last_q < first_kv + self.reach;
            out.push(Run {
                first: block as u32,
                count: 1,
                class: if full {
                    BlockClass::Full
                } else {
                    BlockClass::Partial
                },
            });
        }
    }
}

impl TileRule for Window {
    fn has_mask(&self) -> bool {
        true
    }

    fn has_score(&self) -> bool {
        false
    }

    fn mask(
        &self,
        _: usize,
        _: usize,
        q0: usize,
        n_q: usize,
        kv0: usize,
        n_kv: usize,
        bits: &mut [u64],
        words_per_row: usize,
    ) {
        for (i, row) in bits.chunks_exact_mut(words_per_row).take(n_q).enumerate() {
            let q = q0 + i;
            let from = (q + 1).saturating_sub(self.reach).max(kv0) - kv0;
            let to = (q + 1).clamp(kv0, kv0 + n_kv) - kv0;
            for j in from..to {
                row[j / 64] |= 1 << (j % 64);
            }
        }
    }

    fn score(
        &self,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: &mut [f32],
        _: usize,
    ) {
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    let mut state = 1_u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    let mut tensor = || (0..HEADS * LEN * DIM).map(|_| random()).collect::<Vec<_>>();
    let (q, k, v) = (tensor(), tensor(), tensor());
    let view = |data| TensorRef::contiguous(TensorData::F32(data), [1, HEADS, LEN, DIM]);
    let dense = Request::new(view(&q)?, view(&k)?, view(&v)?, 0.125);

    let mut dense_ms = 0.0;
    for (name, window) in [
        ("dense", None),
        ("causal", Some(Window { reach: LEN })),
        ("window 256", Some(Window { reach: 256 })),
    ] {
        let mut request = dense;
        if let Some(window) = &window {
            request.blocks = Some(window);
            request.rule = Some(window);
        }
        let pairs: usize = match &window {
            None => LEN * LEN,
            Some(window) => (1..=LEN).map(|n| n.min(window.reach)).sum(),
        };
        let mut out = vec![0.0; q.len()];
        let mut best = f64::INFINITY;
        let mut stats = None;
        for _ in 0..ROUNDS {
            let start = Instant::now();
            let result: Result<_, CpuError> =
                pool.install(|| forward(&request, Output::new(TensorDataMut::F32(&mut out))));
            best = best.min(start.elapsed().as_secs_f64());
            stats = Some(result?);
        }
        let stats = stats.ok_or("no round was run")?;
        let ms = best * 1e3;
        if window.is_none() {
            dense_ms = ms;
        }
        let computed = stats.tiles_full + stats.tiles_partial;
        let fraction = computed as f64 / (computed + stats.tiles_skipped) as f64;
        let gflops = (4 * DIM * HEADS * pairs) as f64 / best / 1e9;
        println!(
            "{name:10} {ms:8.2} ms  {gflops:6.1} GFLOP/s  time/dense {:.3}  tiles/dense {fraction:.3}  \
             ratio {:.2}  {}",
            ms / dense_ms,
            ms / dense_ms / fraction,
            stats.kernel,
        );
    }
    Ok(())
}
