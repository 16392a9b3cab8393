use maskwright::prelude::*;

#[attention_mask]
fn causal(q_idx: i32, kv_idx: i32) -> f32 {
    if kv_idx <= q_idx { 0.0 } else { -f32::INFINITY }
}

fn main() {
    let _: f32 = causal(1, 0);
}
