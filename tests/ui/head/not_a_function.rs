use maskwright::prelude::*;

#[attention_mask]
struct Causal {}

fn main() {
    let _ = Causal {};
}
