use maskwright::prelude::*;

#[attention_mask]
fn causal(q_idx: i32, kv_idx: i32, doc: &[i32]) -> bool {
    doc[q_idx] == doc[kv_idx]
}

fn main() {
    let _ = causal::bind(&[0.5f32, 1.0]);
}
