use maskwright::prelude::*;

#[attention_mask]
fn causal(q_idx: i32, kv_idx: i32) -> bool {
    kv_id <= q_idx
}

fn main() {
    let _ = causal::bind();
    let _ = causal(1, 0);
}
