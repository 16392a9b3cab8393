use maskwright::prelude::*;

struct Model;

impl Model {
    #[attention_mask]
    fn causal(&self, q_idx: i32, kv_idx: i32) -> bool {
        kv_idx <= q_idx
    }
}

fn main() {}
