//! `ALiBi` (Press et al. 2022, arXiv:2108.12409): a score rule with captured slopes, checked against dense float64.

use maskwright::attention::ElementsRef;
use maskwright::prelude::*;
use maskwright::reference::{DenseCall, dense_attention};
use maskwright::{ForwardOptions, Rules, TensorRef, attention};

/// A linear penalty on distance, steeper on the first heads.
#[score_mod]
fn alibi(score: f32, h: i32, q_idx: i32, kv_idx: i32, slope: &[f32]) -> f32 {
    score + slope[h] * (kv_idx - q_idx) as f32
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (heads, len, dim) = (4, 200, 16);
    let slopes: Vec<f32> = (1..=heads).map(|h| 2f32.powf(-8.0 * h as f32 / heads as f32)).collect();
    let rules = Rules::both(mask!(|q, kv| kv <= q), alibi::bind(&slopes));

    let values: Vec<f32> = (0..heads * len * dim).map(|i| ((i * 61 % 97) as f32 - 48.0) / 48.0).collect();
    let tensor = TensorRef::contiguous(ElementsRef::F32(&values), [1, heads, len, dim])?;
    let fast = attention(tensor, tensor, tensor, &rules, &ForwardOptions::default())?;
    let dense = dense_attention(&DenseCall::new(tensor, tensor, tensor, &rules))?;

    let worst = fast.out.to_f32_vec().iter().zip(&dense.out).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
    println!("{}\nlargest difference from dense float64: {worst:.1e}", fast.record);
    assert!(worst < 1e-5);
    Ok(())
}
