use maskwright::prelude::*;

#[attention_mask]
fn rule(q_idx: i32, kv_idx: i32) -> bool {
    let f = |x: i32| x + 1;
    let name = "text";
    let list = vec![1, 2];
    let point = Point { x: 1 };
    let pair = (q_idx, kv_idx);
    true
}

fn main() {}
