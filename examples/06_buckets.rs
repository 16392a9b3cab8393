//! Precompiled buckets: a rule is verified once for a range of lengths, kept on disk, and serves a growing cache of keys.

use maskwright::artifact::{ArtifactCache, CacheMode};
use maskwright::attention::ElementsRef;
use maskwright::cache::Store;
use maskwright::prelude::*;
use maskwright::verify::VerifyRequest;
use maskwright::{ForwardOptions, Kernel, Rules, Scope, TensorRef};

/// A window of 256 keys that ends at the query.
#[attention_mask]
fn window(q_idx: i32, kv_idx: i32) -> bool {
    kv_idx <= q_idx && q_idx - kv_idx < 256
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A step of decoding is one query at the end of all keys so far.
    let bucket: Bucket = "q=1,kv=1..=1024,relation=q<=kv,offset=0..=1023".parse()?;
    let scope = Scope::new(bucket, 1, 1);
    let rule = window::bind();
    let mut request = VerifyRequest::of_mask(&rule, scope.clone());
    let block = BlockSize { q: 1, kv: 64 };
    request.blocks = vec![block];

    let folder = std::env::temp_dir().join(format!("maskwright-example-{}", std::process::id()));
    let cache = ArtifactCache::new(Store::open(&folder)?);
    let found = cache.get_or_verify(&request)?;
    println!("verified now, taken from the cache: {}", found.cached);
    assert!(!found.cached);

    // Another process finds it there. One that must not compile anything would fail loudly if it did not.
    let serving = ArtifactCache::with_mode(Store::open(&folder)?, CacheMode::NoCompile);
    assert!(serving.get_or_verify(&request)?.cached);

    // The cache of keys grows; the kernel stays, and each step looks only into the blocks of its window.
    let kernel = Kernel::compile(&Rules::mask(rule), &scope)?;
    let dim = 16;
    let keys: Vec<f32> = (0..1024 * dim)
        .map(|i| ((i * 29 % 83) as f32 - 41.0) / 41.0)
        .collect();
    for len in [1, 64, 300, 1024] {
        let mask = kernel.block_mask_at(1, len, len as i64 - 1, block)?;
        let q = TensorRef::contiguous(ElementsRef::F32(&keys[..dim]), [1, 1, 1, dim])?;
        let kv = TensorRef::contiguous(
            ElementsRef::F32(&keys[..len as usize * dim]),
            [1, 1, len as usize, dim],
        )?;
        let mut out = vec![0.0; dim];
        let options = ForwardOptions {
            q_offset: len as i64 - 1,
            block_mask: Some(&mask),
            ..ForwardOptions::default()
        };
        let output =
            maskwright::attention::Output::new(maskwright::attention::TensorDataMut::F32(&mut out));
        let record = kernel.forward(q, kv, kv, &options, output)?;
        println!("{len:4} keys: {:?}", record.tiles);
        assert!(
            record.tiles.full + record.tiles.partial <= 5,
            "a window of 256 keys touches 5 blocks of 64"
        );
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
