use maskwright::prelude::*;

#[attention_mask]
fn causal(q_idx: i32, kv_idx: i32) {
    kv_idx <= q_idx
}

#[score_mod]
fn same(score: f32) {
    score
}

fn main() {}
