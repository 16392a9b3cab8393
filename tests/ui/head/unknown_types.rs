use maskwright::prelude::*;

#[attention_mask]
fn rule(q_idx: i32, a: usize, v: Vec<i32>, c: &[i32; 4], d: Buffer<f32, 2>) -> bool {
    q_idx == a && v[q_idx] == c[q_idx] && d[[0, q_idx]] > 0.0 && q_idx
}

fn main() {}
