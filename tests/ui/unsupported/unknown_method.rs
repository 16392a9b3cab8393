use maskwright::prelude::*;

#[attention_mask]
fn rule(q_idx: i32, kv_idx: i32, doc: &[i32]) -> bool {
    q_idx.checked_sub(kv_idx) == doc.len() && doc.get(q_idx) < q_idx.mx(3)
}

fn main() {}
