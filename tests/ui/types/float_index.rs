use maskwright::prelude::*;

#[score_mod]
fn bias(score: f32, q_idx: i32, table: &Buffer<f32, 2>) -> f32 {
    score + table[[score, q_idx]] + table[q_idx]
}

fn main() {}
