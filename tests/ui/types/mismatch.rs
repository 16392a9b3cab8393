use maskwright::prelude::*;

#[score_mod]
fn alibi(score: f32, h: i32, q_idx: i32, kv_idx: i32, slope: &[f32]) -> f32 {
    score + slope[h] * (kv_idx - q_idx)
}

fn main() {
    let _ = alibi::bind(vec![0.5]);
}
