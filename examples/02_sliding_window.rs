//! A sliding window as a closure that captures its width, joined with other masks by the algebra.

use maskwright::Scope;
use maskwright::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // `w` is captured as a run-time scalar: another width is other data, not other code.
    let w = 256;
    let window = mask!(|q, kv| kv <= q && q - kv < w);

    // Four sink tokens stay visible to everybody after them.
    let sinks = mask!(|q, kv| kv <= q && kv < 4);
    let both = window | sinks;

    let scope = Scope::new(Bucket::single(4096, 4096, 0), 1, 1);
    let prepared = maskwright::prepare(both.bound(), &scope)?;
    let (mask, _) = BlockMask::build(&prepared, BlockSize { q: 128, kv: 128 })?;
    let counts = mask.counts();
    println!(
        "full {}, partial {}, empty {}",
        counts.full, counts.partial, counts.empty
    );

    // 32 rows of blocks: a diagonal of three, and the first column for the sinks.
    assert_eq!(counts.full, 31);
    assert!(85.0 < mask.sparsity());
    Ok(())
}
