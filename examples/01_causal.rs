//! Causal attention: a rule as a Rust function, its block mask drawn, and attention that skips the empty blocks.

use maskwright::attention::ElementsRef;
use maskwright::block_mask::DrawOptions;
use maskwright::prelude::*;
use maskwright::{ForwardOptions, Rules, Scope, TensorRef, attention};

/// A query sees itself and everything before it.
#[attention_mask]
fn causal(q_idx: i32, kv_idx: i32) -> bool {
    kv_idx <= q_idx
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The function stays a function: it is the reference that everything is compared with.
    assert!(causal(3, 3) && !causal(3, 4));

    // `causal::bind` gives the rule that is compiled. It captures nothing.
    let rule = causal::bind();
    let scope = Scope::new(Bucket::single(512, 512, 0), 1, 1);
    let prepared = maskwright::prepare(rule.bound(), &scope)?;
    let (mask, stats) = BlockMask::build(&prepared, BlockSize { q: 64, kv: 64 })?;
    println!("{}", mask.draw(0, 0, DrawOptions::default()));
    println!("{} blocks proved, {} cells evaluated", stats.blocks_proved, stats.cells_evaluated);

    // Attention over [B, H, L, D] tensors, here 1 × 2 × 512 × 32.
    let (heads, len, dim) = (2, 512, 32);
    let values: Vec<f32> = (0..heads * len * dim).map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0).collect();
    let tensor = TensorRef::contiguous(ElementsRef::F32(&values), [1, heads, len, dim])?;
    let result = attention(tensor, tensor, tensor, &Rules::mask(rule), &ForwardOptions::default())?;
    println!("{}", result.record);

    // The first query sees the first key alone, so its output is the first value.
    let out = result.out.to_f32_vec();
    assert!(out[..dim].iter().zip(&values[..dim]).all(|(a, b)| (a - b).abs() < 1e-6));
    assert!(0 < result.record.tiles.skipped);
    Ok(())
}
