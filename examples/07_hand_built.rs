//! Masks built by hand, in two ways: the lists are the law, or the lists claim a rule and are checked.

use maskwright::block_mask::{BlockClass, BlockLists, CellFn, Geometry, ListRow, ListsMeaning};
use maskwright::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let geometry = Geometry::exact(1, 1, 256, 256, BlockSize { q: 64, kv: 64 })?;

    // The law: each query block sees two chosen key blocks, as a router might pick them.
    let chosen = [[0, 2], [1, 3], [0, 3], [2, 3]];
    let lists = BlockLists {
        batch: 1,
        heads: 1,
        rows: chosen.iter().map(|cols| ListRow { full: cols.to_vec(), partial: Vec::new() }).collect(),
    };
    let law = BlockMask::from_lists(&geometry, &lists, ListsMeaning::Law)?;
    let counts = law.counts();
    assert_eq!((counts.full, counts.partial, counts.empty), (8, 0, 8));
    assert_eq!(law.class(0, 0, 1, 2), BlockClass::Empty);

    // The claim: these lists say they are causal. They forgot that the diagonal is cut, and are refused.
    let causal = CellFn(|_, _, q: i64, kv: i64| kv <= q);
    let wrong = BlockLists {
        batch: 1,
        heads: 1,
        rows: (0..4u32).map(|row| ListRow { full: (0..=row).collect(), partial: Vec::new() }).collect(),
    };
    let fault = BlockMask::from_lists(&geometry, &wrong, ListsMeaning::Claim(&causal)).expect_err("the diagonal is partial");
    println!("{fault}");
    Ok(())
}
