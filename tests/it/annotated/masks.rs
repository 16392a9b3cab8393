//! Masks as annotated functions, by their id in the corpus.

use maskwright::prelude::*;

use super::{Annotated, mask};

pub(super) const ALL: &[Annotated] = &[
    ("M01", |_| mask(&causal::bind())),
    ("M05", |c| mask(&decode_per_row::bind(c.ints("pos")))),
    ("M06", |c| mask(&window_inclusive::bind(c.int("window")))),
    ("M07", |c| mask(&window_exact::bind(c.int("window")))),
    ("M08", |c| mask(&window_symmetric::bind(c.int("window")))),
    ("M10", |c| {
        mask(&window_bottom_right::bind(c.int("left"), c.int("right")))
    }),
    ("M13", |c| {
        mask(&window_dilated::bind(c.int("window"), c.int("step")))
    }),
    ("M15", |c| mask(&sparse_strided::bind(c.int("stride")))),
    ("M16", |c| {
        mask(&sparse_fixed::bind(c.int("block"), c.int("summary")))
    }),
    ("M19", |c| {
        mask(&sinks_and_window::bind(c.int("window"), c.int("sinks")))
    }),
    ("M20", |c| {
        mask(&retrieval_heads::bind(
            c.bools("full_head"),
            c.int("sinks"),
            c.int("recent"),
        ))
    }),
    ("M21", |c| mask(&window_per_head::bind(c.ints("window")))),
    ("M22", |c| mask(&window_per_token::bind(c.ints("window")))),
    ("M23", |c| mask(&prefix_lm::bind(c.int("prefix")))),
    ("M24", |c| {
        mask(&prefix_lm_per_batch::bind(c.ints("n_bidir")))
    }),
    ("M25", |c| {
        mask(&causal_then_full_rows::bind(c.ints("cutoff")))
    }),
    ("M29", |c| {
        mask(&packed_interval::bind(c.ints("doc"), c.ints("start")))
    }),
    ("M30", |c| mask(&packed_causal::bind(c.ints("doc")))),
    ("M31", |c| {
        mask(&packed_prefix_lm::bind(
            c.ints("doc"),
            c.ints("start"),
            c.ints("prefix"),
        ))
    }),
    ("M34", |c| mask(&left_padding::bind(c.ints("pad")))),
    ("M36", |c| {
        mask(&padding_on_both_axes::bind(c.ints("length")))
    }),
    ("M38", |c| {
        mask(&chunked_left_padding::bind(c.int("chunk"), c.ints("pad")))
    }),
    ("M39", |c| {
        mask(&groups_of_prefix_lm::bind(c.int("group"), c.int("prefix")))
    }),
    ("M42", |c| {
        mask(&block_diffusion::bind(c.int("half"), c.int("size")))
    }),
    ("M44", |c| {
        mask(&frames_by_xor::bind(c.int("pixels"), c.int("frames")))
    }),
    ("M49", |c| {
        mask(&multi_block_draft::bind(c.int("prefix"), c.int("size")))
    }),
    ("M50", |c| {
        mask(&tree::bind(
            c.int("prefix"),
            c.int("nodes"),
            c.bools("ancestor"),
        ))
    }),
    ("M56", |c| mask(&bound_per_key::bind(c.ints("start")))),
    ("M58", |c| mask(&causal_blockwise::bind(c.ints("rows")))),
    ("M61", |c| {
        mask(&causal_or_same_image::bind(c.ints("group")))
    }),
    ("M73", |c| {
        mask(&local_2d::bind(c.int("width"), c.int("reach")))
    }),
    ("M88", |_| mask(&even_keys::bind())),
    ("M91", |c| {
        mask(&heads_switched_off::bind(c.bools("active")))
    }),
    ("M92", |c| {
        mask(&dropped_keys::bind(c.wide("seed") as u32, c.wide("drop")))
    }),
];

#[attention_mask]
fn causal(q_idx: i32, kv_idx: i32) -> bool {
    q_idx >= kv_idx
}

#[attention_mask]
fn decode_per_row(b: i32, q_idx: i32, kv_idx: i32, pos: &[i32]) -> bool {
    kv_idx <= q_idx + pos[b]
}

#[attention_mask]
fn window_inclusive(q_idx: i32, kv_idx: i32, #[range(0..=1_000_000)] window: i32) -> bool {
    causal(q_idx, kv_idx) && q_idx - kv_idx <= window
}

#[attention_mask]
fn window_exact(q_idx: i32, kv_idx: i32, #[range(1..=1_000_000)] window: i32) -> bool {
    kv_idx <= q_idx && kv_idx > q_idx - window
}

#[attention_mask]
fn window_symmetric(q_idx: i32, kv_idx: i32, window: i32) -> bool {
    (q_idx - kv_idx).abs() <= window
}

#[attention_mask]
fn window_bottom_right(
    q_idx: i32,
    kv_idx: i32,
    q_len: i32,
    kv_len: i32,
    #[range(0..=1_000_000)] left: i32,
    #[range(0..=1_000_000)] right: i32,
) -> bool {
    let middle = q_idx + (kv_len - q_len);
    middle - left <= kv_idx && kv_idx <= middle + right
}

#[attention_mask]
fn window_dilated(q_idx: i32, kv_idx: i32, window: i32, #[range(1..=4096)] step: i32) -> bool {
    let d = (q_idx - kv_idx).abs();
    d <= window && d % step == 0
}

#[attention_mask]
fn sparse_strided(q_idx: i32, kv_idx: i32, #[range(1..=65536)] stride: i32) -> bool {
    q_idx >= kv_idx && (q_idx - kv_idx) % stride == 0
}

#[attention_mask]
fn sparse_fixed(
    q_idx: i32,
    kv_idx: i32,
    #[range(1..=65536)] block: i32,
    #[range(0..=65536)] summary: i32,
) -> bool {
    q_idx >= kv_idx && (q_idx / block == kv_idx / block || kv_idx % block >= block - summary)
}

#[attention_mask]
fn sinks_and_window(q_idx: i32, kv_idx: i32, window: i32, sinks: i32) -> bool {
    if kv_idx > q_idx {
        return false;
    }
    q_idx - kv_idx < window || kv_idx < sinks
}

#[attention_mask]
fn retrieval_heads(
    h: i32,
    q_idx: i32,
    kv_idx: i32,
    full_head: &[bool],
    sinks: i32,
    recent: i32,
) -> bool {
    q_idx >= kv_idx && (full_head[h] || kv_idx < sinks || q_idx - kv_idx < recent)
}

#[attention_mask]
fn window_per_head(h: i32, q_idx: i32, kv_idx: i32, window: &[i32]) -> bool {
    q_idx >= kv_idx && q_idx - kv_idx < window[h]
}

#[attention_mask]
fn window_per_token(q_idx: i32, kv_idx: i32, window: &[i32]) -> bool {
    kv_idx <= q_idx && q_idx - kv_idx <= window[q_idx]
}

#[attention_mask]
fn prefix_lm(q_idx: i32, kv_idx: i32, prefix: i32) -> bool {
    kv_idx < prefix || q_idx >= kv_idx
}

#[attention_mask]
fn prefix_lm_per_batch(b: i32, q_idx: i32, kv_idx: i32, n_bidir: &[i32]) -> bool {
    let n = n_bidir[b];
    q_idx <= n && kv_idx <= n || q_idx >= kv_idx
}

#[attention_mask]
fn causal_then_full_rows(b: i32, q_idx: i32, kv_idx: i32, cutoff: &[i32]) -> bool {
    q_idx >= kv_idx || q_idx >= cutoff[b]
}

#[attention_mask]
fn packed_interval(q_idx: i32, kv_idx: i32, doc: &[i32], start: &[i32]) -> bool {
    kv_idx >= start[doc[q_idx]] && q_idx >= kv_idx
}

#[attention_mask]
fn packed_causal(b: i32, q_idx: i32, kv_idx: i32, doc: &Buffer<i32, 2>) -> bool {
    q_idx >= kv_idx && doc[[b, q_idx]] == doc[[b, kv_idx]]
}

#[attention_mask]
fn packed_prefix_lm(q_idx: i32, kv_idx: i32, doc: &[i32], start: &[i32], prefix: &[i32]) -> bool {
    let dq = doc[q_idx];
    let dk = doc[kv_idx];
    dq == dk && (q_idx >= kv_idx || kv_idx - start[dk] < prefix[dk])
}

#[attention_mask]
fn left_padding(b: i32, q_idx: i32, kv_idx: i32, pad: &[i32]) -> bool {
    q_idx >= kv_idx && kv_idx >= pad[b]
}

#[attention_mask]
fn padding_on_both_axes(b: i32, q_idx: i32, kv_idx: i32, length: &[i32]) -> bool {
    if q_idx < length[b] {
        kv_idx < length[b]
    } else {
        false
    }
}

#[attention_mask]
fn chunked_left_padding(
    b: i32,
    q_idx: i32,
    kv_idx: i32,
    #[range(1..=1_000_000)] chunk: i32,
    pad: &[i32],
) -> bool {
    q_idx >= kv_idx && div_floor(q_idx - pad[b], chunk) == div_floor(kv_idx - pad[b], chunk)
}

#[attention_mask]
fn groups_of_prefix_lm(
    q_idx: i32,
    kv_idx: i32,
    #[range(1..=1_000_000)] group: i32,
    prefix: i32,
) -> bool {
    let ql = q_idx % group;
    let kl = kv_idx % group;
    q_idx / group == kv_idx / group && (kl < prefix || ql >= kl)
}

#[attention_mask]
fn block_diffusion(
    q_idx: i32,
    kv_idx: i32,
    #[range(1..=1_000_000)] half: i32,
    #[range(1..=65536)] size: i32,
) -> bool {
    let noised_q = q_idx < half;
    let noised_k = kv_idx < half;
    let qb = (q_idx % half) / size;
    let kb = (kv_idx % half) / size;
    match (qb - kb).signum() {
        0 => noised_q == noised_k || !noised_q && !noised_k,
        1 => !noised_k,
        _ => false,
    }
}

#[attention_mask]
fn frames_by_xor(
    q_idx: i32,
    kv_idx: i32,
    #[range(1..=65536)] pixels: i32,
    #[range(1..=65536)] frames: i32,
) -> bool {
    let fq = q_idx / pixels;
    let fk = kv_idx / pixels;
    let toward = fk < frames;
    let own = fk >= frames && fq == fk;
    (((fq >= fk) ^ (fq - frames > fk) ^ (fq < frames)) && toward) ^ own ^ toward
}

#[attention_mask]
fn multi_block_draft(q_idx: i32, kv_idx: i32, prefix: i32, #[range(1..=65536)] size: i32) -> bool {
    let r = kv_idx - prefix;
    kv_idx < prefix || q_idx / size == div_floor(r, size) && rem_floor(r, size) <= q_idx % size
}

#[attention_mask]
fn tree(q_idx: i32, kv_idx: i32, prefix: i32, nodes: i32, ancestor: &Buffer<bool, 2>) -> bool {
    kv_idx < prefix
        || kv_idx < prefix + nodes && ancestor[[q_idx, (kv_idx - prefix).clamp(0, nodes - 1)]]
}

#[attention_mask]
fn bound_per_key(q_idx: i32, kv_idx: i32, start: &[i32]) -> bool {
    q_idx >= kv_idx && q_idx < start[kv_idx]
}

#[attention_mask]
fn causal_blockwise(q_idx: i32, kv_idx: i32, rows: &Buffer<i32, 2>) -> bool {
    q_idx >= kv_idx && !(rows[[kv_idx, 0]] <= q_idx && q_idx < rows[[kv_idx, 1]])
}

#[attention_mask]
fn causal_or_same_image(b: i32, q_idx: i32, kv_idx: i32, group: &Buffer<i32, 2>) -> bool {
    let mine = group[[b, q_idx]];
    q_idx >= kv_idx || mine >= 0 && mine == group[[b, kv_idx]]
}

#[attention_mask]
fn local_2d(q_idx: i32, kv_idx: i32, #[range(1..=65536)] width: i32, reach: i32) -> bool {
    (q_idx / width - kv_idx / width).abs() <= reach
        && (q_idx % width - kv_idx % width).abs() <= reach
}

#[attention_mask]
fn even_keys(kv_idx: i32) -> bool {
    kv_idx % 2 == 0
}

#[attention_mask]
fn heads_switched_off(h: i32, q_idx: i32, kv_idx: i32, active: &[bool]) -> bool {
    active[h] && q_idx >= kv_idx
}

#[attention_mask]
fn dropped_keys(b: i32, h: i32, q_idx: i32, kv_idx: i32, seed: u32, drop: i64) -> bool {
    let mut x = (b as u32).wrapping_mul(73_856_093)
        ^ (h as u32).wrapping_mul(19_349_663)
        ^ (q_idx as u32).wrapping_mul(83_492_791)
        ^ (kv_idx as u32).wrapping_mul(2_654_435_761)
        ^ seed;
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x ^= x >> 16;
    q_idx >= kv_idx && i64::from(x) >= drop
}
