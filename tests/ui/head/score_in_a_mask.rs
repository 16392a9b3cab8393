use maskwright::prelude::*;

#[attention_mask]
fn threshold(score: f32, q_idx: i32, _h: i32) -> bool {
    score > q_idx as f32
}

fn main() {}
