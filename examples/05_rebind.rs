//! Captures that change without a recompile: one kernel, new document boundaries at every step.

use maskwright::prelude::*;
use maskwright::{Kernel, Rules, Scope};

/// Causal attention inside packed documents, with at most 64 of them.
#[attention_mask]
fn packed(q_idx: i32, kv_idx: i32, #[range(0..64)] doc: &[i32]) -> bool {
    kv_idx <= q_idx && doc[q_idx] == doc[kv_idx]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let len = 1024;
    let scope = Scope::new(Bucket::single(len, len, 0), 1, 1);
    let documents = |n: u64| -> Vec<i32> { (0..len).map(|i| (i * n / len) as i32).collect() };

    let mut kernel = Kernel::compile(&Rules::mask(packed::bind(documents(1))), &scope)?;
    for n in [1, 3, 17, 64] {
        // Nothing is analysed or compiled again: preconditions are checked, and a new block mask is proved.
        kernel = kernel.rebind(&Rules::mask(packed::bind(documents(n))))?;
        let mask = kernel.block_mask(BlockSize { q: 64, kv: 64 })?;
        println!("{n:2} documents: {:?}", mask.counts());
    }

    // A value outside the declared range is refused, with its position.
    let fault = kernel
        .rebind(&Rules::mask(packed::bind(documents(65))))
        .expect_err("64 is outside 0..64");
    println!("refused: {fault}");
    Ok(())
}
