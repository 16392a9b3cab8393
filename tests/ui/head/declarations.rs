use maskwright::prelude::*;

#[attention_mask(fast)]
fn rule(
    #[range(1..)] w: i32,
    #[extent(batch, kv_len)] doc: &[i32],
    #[extent(4)] n: i32,
    #[range(9..=2)] m: i32,
) -> bool {
    w + n + m == doc[0]
}

fn main() {}
