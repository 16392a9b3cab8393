use maskwright::prelude::*;

const WINDOW: i32 = 256;

#[attention_mask]
fn window(q_idx: i32, kv_idx: i32) -> bool {
    q_idx - kv_idx < WINDOW
}

fn main() {}
