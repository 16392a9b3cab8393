//! The forward pass: plan the query tiles, pack keys and values, hand the tiles to threads.

use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use crate::error::CpuError;
use crate::keys::PackLayout;
use crate::micro::{Micro, STRIP};
use crate::query_tile::{Call, Item, Keys, Scratch};
use crate::request::{BlockClass, Output, Request, validate};
use crate::tiles::{Axis, QueryTileRuns, TILE};

/// What a call did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForwardStats {
    /// The kernel that ran.
    pub kernel: &'static str,
    /// Its family of micro-kernels.
    pub micro: Micro,
    /// Tiles in which every cell was attended by class, over all batches and heads.
    pub tiles_full: u64,
    /// Tiles in which the rule, or empty blocks, could mask cells.
    pub tiles_partial: u64,
    /// Tiles never touched, all of their blocks being empty.
    pub tiles_skipped: u64,
    /// Query rows of an unclipped tile.
    pub tile_q: usize,
    /// Keys of an unclipped tile.
    pub tile_kv: usize,
}

/// Bytes of packed keys and values held at a time; heads are taken in waves that fit.
const PACK_BUDGET_BYTES: usize = 256 << 20;
/// Query tiles that must share a head's keys before packing them beforehand pays.
const PACK_MIN_QUERY_TILES: usize = 4;
/// Work that takes less than this many microseconds stays on the caller: waking a thread costs half.
const SMALL_WORK_US: u64 = 200;

/// Computes attention.
///
/// Scores, weights and sums are f32 whatever the tensors are. Tiles are spread over the current
/// rayon pool, small work excepted; neither the number of threads nor the class of a block changes any bit of a result,
/// as long as V is finite.
///
/// A row that attends to nothing, or only to scores of −∞, gets output 0, lse −∞ and row max −∞.
/// A NaN or +∞ score at an attended cell makes output, lse and row max of its row NaN. Masked cells
/// never matter, whatever K and V hold there.
///
/// # Shapes
/// `q` `[B, Hq, Lq, Dqk]`, `k` `[B, Hkv, Lkv, Dqk]`, `v` `[B, Hkv, Lkv, Dv]`, `out`
/// `[B, Hq, Lq, Dv]`, `lse` and `row_max` `[B, Hq, Lq]`; query head `h` reads key head
/// `h / (Hq / Hkv)`.
///
/// # Errors
/// Whatever [`CpuError`] names; the outputs are untouched then.
///
/// # References
/// Milakov and Gimelshein 2018, Online normalizer calculation for softmax, arXiv:1805.02867; Dao 2023,
/// `FlashAttention`-2, arXiv:2307.08691.
pub fn forward(request: &Request<'_>, output: Output<'_>) -> Result<ForwardStats, CpuError> {
    forward_within(request, output, PACK_BUDGET_BYTES)
}

/// [`forward`], holding at most `pack_budget` bytes of packed keys and values; no bit depends on it.
fn forward_within(
    request: &Request<'_>,
    output: Output<'_>,
    pack_budget: usize,
) -> Result<ForwardStats, CpuError> {
    let dims = validate(request, &output)?;
    let micro = match request.micro {
        Some(micro) => micro,
        None => Micro::from_environment()?,
    };
    let kernels = micro.require()?;
    let (q_block, kv_block) = match request.blocks {
        Some(blocks) => (blocks.q_block(), blocks.kv_block()),
        None => (TILE, TILE),
    };
    let q_axis = Axis::new(dims.q_len, q_block, 1);
    let kv_axis = Axis::new(dims.kv_len, kv_block, STRIP);
    let call = Call {
        request: *request,
        dims,
        q_axis,
        kv_axis,
        q_block,
        layout: PackLayout::new(&dims, &kv_axis),
        kernels,
    };
    let mut stats = ForwardStats {
        kernel: kernels.name(),
        micro,
        tiles_full: 0,
        tiles_partial: 0,
        tiles_skipped: 0,
        tile_q: q_axis.step,
        tile_kv: kv_axis.step,
    };
    let plan = plan(&call, &mut stats)?;
    let pairs = plan.cells.iter().sum::<u64>() * (dims.d_qk + dims.d_v) as u64;
    let threads = if pairs / micro.pairs_per_us() < SMALL_WORK_US {
        1
    } else {
        rayon::current_num_threads()
    };
    run(&call, &plan, output, threads, pack_budget);
    Ok(stats)
}

/// What is to be computed, known before any thread starts.
struct Plan {
    /// Cells in the tiles of each query tile, in the order batch, head, tile.
    cells: Vec<u64>,
    /// For each key head and key tile, whether a query tile needs it.
    used: Vec<bool>,
}

/// Counts tiles and refuses block rows out of order.
fn plan(call: &Call<'_>, stats: &mut ForwardStats) -> Result<Plan, CpuError> {
    let dims = &call.dims;
    let (q_tiles, kv_tiles) = (call.q_axis.count(), call.kv_axis.count());
    let mut cells = Vec::new();
    let mut used = vec![false; dims.batch * dims.num_kv_heads * kv_tiles];
    let mut runs = QueryTileRuns::default();
    let mut tiles = Vec::new();
    for b in 0..dims.batch {
        for h in 0..dims.num_q_heads {
            let kv_head = b * dims.num_kv_heads + h / dims.group();
            let used = &mut used[kv_head * kv_tiles..][..kv_tiles];
            for t in 0..q_tiles {
                let q = call.q_axis.span(t);
                call.load_runs(&mut runs, b, h, q.clone())?;
                runs.tiles(&call.kv_axis, &mut tiles);
                let mut n_cells = 0;
                for tile in &tiles {
                    used[tile.index] = true;
                    n_cells += (q.len() * call.kv_axis.span(tile.index).len()) as u64;
                    match tile.class {
                        BlockClass::Full => stats.tiles_full += 1,
                        BlockClass::Partial => stats.tiles_partial += 1,
                    }
                }
                stats.tiles_skipped += (kv_tiles - tiles.len()) as u64;
                cells.push(n_cells);
            }
        }
    }
    Ok(Plan { cells, used })
}

/// Computes all query tiles, one wave of key heads after the other.
fn run(call: &Call<'_>, plan: &Plan, output: Output<'_>, threads: usize, pack_budget: usize) {
    let dims = &call.dims;
    let (q_tiles, kv_tiles) = (call.q_axis.count(), call.kv_axis.count());
    let items_per_head = dims.group() * q_tiles;
    // Saturated, a length stays over the budget.
    let head_len = kv_tiles.saturating_mul(call.layout.tile_len);
    let head_bytes = head_len.saturating_mul(size_of::<f32>());
    let mut items = cut(call, &plan.cells, output);

    if items_per_head < PACK_MIN_QUERY_TILES || head_len == 0 || pack_budget < head_bytes {
        spread(call, items, threads, |_| Keys::InPlace);
        return;
    }
    let num_heads = dims.batch * dims.num_kv_heads;
    let wave = (pack_budget / head_bytes).min(num_heads).max(1);
    let mut packed = vec![0.0; wave * head_len];
    for first in (0..num_heads).step_by(wave) {
        let heads = wave.min(num_heads - first);
        let pack = |(i, tile): (usize, &mut [f32]), row: &mut Vec<f32>| {
            let (head, t) = (first + i / kv_tiles, i % kv_tiles);
            if plan.used[head * kv_tiles + t] {
                let (b, h) = (head / dims.num_kv_heads, head % dims.num_kv_heads);
                let span = call.kv_axis.span(t);
                call.layout.pack(&call.request, b, h, span, tile, row);
            }
        };
        let heads_packed = &mut packed[..heads * head_len];
        if threads == 1 {
            let mut row = Vec::new();
            let tiles = heads_packed.chunks_exact_mut(call.layout.tile_len);
            tiles.enumerate().for_each(|tile| pack(tile, &mut row));
        } else {
            let tiles = heads_packed.par_chunks_exact_mut(call.layout.tile_len);
            tiles
                .enumerate()
                .for_each_init(Vec::new, |row, tile| pack(tile, row));
        }
        let rest = items.split_off(heads * items_per_head);
        spread(call, items, threads, |item| {
            let head = item.b * dims.num_kv_heads + item.h / dims.group() - first;
            Keys::Packed(&packed[head * head_len..][..head_len])
        });
        items = rest;
    }
}

/// Cuts the outputs into query tiles, in the order batch, head, tile.
fn cut<'o>(call: &Call<'_>, cells: &[u64], output: Output<'o>) -> Vec<Item<'o>> {
    fn take<'s>(slice: &mut Option<&'s mut [f32]>, len: usize) -> Option<&'s mut [f32]> {
        slice.as_mut().and_then(|rest| rest.split_off_mut(..len))
    }
    let q_tiles = call.q_axis.count();
    let mut rest = output.out;
    let (mut lse, mut row_max) = (output.lse, output.row_max);
    let mut items = Vec::with_capacity(cells.len());
    for (i, &cells) in cells.iter().enumerate() {
        let q = call.q_axis.span(i % q_tiles);
        let head = i / q_tiles;
        let out = rest.split_off_front(q.len() * call.dims.d_v);
        items.push(Item {
            b: head / call.dims.num_q_heads,
            h: head % call.dims.num_q_heads,
            cells,
            out,
            lse: take(&mut lse, q.len()),
            row_max: take(&mut row_max, q.len()),
            q,
        });
    }
    items
}

/// Computes query tiles on up to `threads` threads of the current pool, the caller among them.
fn spread<'p>(
    call: &Call<'_>,
    mut items: Vec<Item<'_>>,
    threads: usize,
    keys: impl Fn(&Item<'_>) -> Keys<'p> + Sync,
) {
    let threads = threads.min(items.len());
    if threads <= 1 {
        let mut scratch = Scratch::new(call);
        for item in items {
            let keys = keys(&item);
            call.compute(item, keys, &mut scratch);
        }
        return;
    }
    // Largest last, since the queue gives from its end.
    items.sort_by_key(|item| item.cells);
    let queue = Mutex::new(items);
    let work = || {
        let mut scratch = Scratch::new(call);
        loop {
            // A panic in a rule poisons nothing here: items are whole or taken.
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(item) = next else { return };
            let keys = keys(&item);
            call.compute(item, keys, &mut scratch);
        }
    };
    rayon::in_place_scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|_| work());
        }
        work();
    });
}

#[cfg(test)]
mod tests;
