use maskwright::prelude::*;

#[attention_mask]
fn window(q_idx: i32, kv_idx: i32, window: i32) -> bool {
    q_idx - kv_idx < window
}

fn main() {}
