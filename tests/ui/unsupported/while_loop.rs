use maskwright::prelude::*;

#[attention_mask]
fn rule(q_idx: i32, kv_idx: i32) -> bool {
    let mut i = 0;
    while i < q_idx {
        i += kv_idx;
    }
    i == q_idx
}

fn main() {}
