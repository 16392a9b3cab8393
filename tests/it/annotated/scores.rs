//! Score rules as annotated functions, by their id in the corpus.

use maskwright::prelude::*;

use super::{Annotated, score};

pub(super) const ALL: &[Annotated] = &[
    ("S01", |_| score(&causal_by_infinity::bind())),
    ("S03", |c| score(&clamped_distance::bind(c.int("cap")))),
    ("S05", |c| score(&alibi_causal::bind(c.floats("slope")))),
    ("S08", |c| score(&soft_cap::bind(c.float("cap")))),
    ("S13", |c| score(&dense_bias::bind(c.floats("bias")))),
    ("S18", |c| {
        score(&swin_table::bind(c.int("w"), c.floats("table")))
    }),
    ("S23", |_| score(&silu::bind())),
    ("S25", |_| score(&checkerboard::bind())),
];

#[score_mod]
fn causal_by_infinity(score: f32, q_idx: i32, kv_idx: i32) -> f32 {
    if q_idx >= kv_idx {
        score
    } else {
        f32::NEG_INFINITY
    }
}

#[score_mod]
fn clamped_distance(score: f32, q_idx: i32, kv_idx: i32, cap: i32) -> f32 {
    score + (q_idx - kv_idx).abs().min(cap) as f32
}

#[score_mod]
fn alibi_causal(score: f32, h: i32, q_idx: i32, kv_idx: i32, slope: &[f32]) -> f32 {
    if q_idx < kv_idx {
        return f32::NEG_INFINITY;
    }
    score + slope[h] * (kv_idx - q_idx) as f32
}

#[score_mod]
fn soft_cap(score: f32, cap: f32) -> f32 {
    cap * (score / cap).tanh()
}

#[score_mod]
fn dense_bias(score: f32, b: i32, h: i32, q_idx: i32, kv_idx: i32, bias: &Buffer<f32, 4>) -> f32 {
    score + bias[[b, h, q_idx, kv_idx]]
}

#[score_mod]
fn swin_table(score: f32, h: i32, q_idx: i32, kv_idx: i32, w: i32, table: &Buffer<f32, 2>) -> f32 {
    let dr = q_idx / w - kv_idx / w;
    let dc = q_idx % w - kv_idx % w;
    score + table[[(dr + w - 1) * (2 * w - 1) + dc + w - 1, h]]
}

#[score_mod]
fn silu(score: f32) -> f32 {
    score / (1.0 + (-score).exp())
}

#[score_mod]
fn checkerboard(score: f32, q_idx: i32, kv_idx: i32) -> f32 {
    if (kv_idx - q_idx).abs() % 2 == 1 {
        score * 0.5
    } else {
        score * 2.0
    }
}
