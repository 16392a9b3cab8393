//! Packed documents: no token sees another document, and the boundary is asserted cell by cell.

use maskwright::prelude::*;
use maskwright::{Kernel, Rules, Scope};

/// Causal attention inside packed documents.
#[attention_mask]
fn packed_causal(q_idx: i32, kv_idx: i32, doc: &[i32]) -> bool {
    kv_idx <= q_idx && doc[q_idx] == doc[kv_idx]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let lengths = [700, 33, 291];
    let doc: Vec<i32> = lengths
        .iter()
        .enumerate()
        .flat_map(|(i, &n)| vec![i as i32; n])
        .collect();
    let len = doc.len() as u64;

    let rules = Rules::mask(packed_causal::bind(&doc));
    let kernel = Kernel::compile(&rules, &Scope::new(Bucket::single(len, len, 0), 1, 1))?;
    let cells = kernel
        .mask_evaluator(len, len, 0)?
        .ok_or("there is a mask")?;
    let sees = |q: i64, kv: i64| {
        let mut bits = [0];
        cells.mask_tile(0, 0, q, 1, kv, 1, &mut bits, 1);
        bits[0] == 1
    };

    // The first token of a document cannot see the last one of the document before it.
    let mut start = 0;
    for n in lengths {
        let (first, last) = (start, start + n as i64 - 1);
        assert!(
            first == 0 || !sees(first, first - 1),
            "document boundary at {first}"
        );
        assert!(
            sees(first, first)
                && sees(last, first)
                && !sees(first, last.max(first + 1).min(len as i64 - 1))
        );
        start += n as i64;
    }

    let mask = kernel.block_mask(BlockSize { q: 64, kv: 64 })?;
    println!(
        "{}",
        mask.draw(0, 0, maskwright::block_mask::DrawOptions::default())
    );
    println!("{:.0} % of the blocks are never touched", mask.sparsity());
    Ok(())
}
