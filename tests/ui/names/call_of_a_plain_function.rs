use maskwright::prelude::*;

fn plain(q_idx: i32) -> bool {
    q_idx == 0
}

#[attention_mask]
fn calls(q_idx: i32) -> bool {
    plain(q_idx)
}

fn main() {}
