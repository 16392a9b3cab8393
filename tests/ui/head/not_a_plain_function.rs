use maskwright::prelude::*;

#[attention_mask]
async fn later(q_idx: i32, kv_idx: i32) -> bool {
    kv_idx <= q_idx
}

#[attention_mask]
unsafe fn generic<T>(q_idx: i32, kv_idx: i32) -> bool {
    kv_idx <= q_idx
}

fn main() {}
