//! Bits that depend neither on block classes nor on threads nor on who evaluates the rule.

use maskwright_dsl::bind::MaskRule;
use maskwright_dsl::block_mask::{BlockMask, BlockSize};
use maskwright_dsl::bucket::Bucket;

use super::build::{Dims, Forward, Inputs, alibi, causal, same_document};
use crate::attention::{ForwardOptions, Kernel, Rules};

fn case() -> (Inputs, Kernel, Kernel) {
    let dims = Dims {
        kv_heads: 2,
        ..Dims::new(1, 4, 700, 700)
    };
    let documents = same_document((0..700).map(|i| i / 300));
    let rules = Rules::both(causal() & documents, alibi(4));
    let scope = dims.scope(Bucket::single(700, 700, 0));
    let compiled = Kernel::compile(&rules, &scope).unwrap();
    let interpreted = Kernel::interpret(&rules, &scope).unwrap();
    (dims.inputs(), compiled, interpreted)
}

fn forward(inputs: &Inputs, kernel: &Kernel, mask: &BlockMask) -> Forward {
    let options = ForwardOptions {
        block_mask: Some(mask),
        ..ForwardOptions::default()
    };
    inputs.forward(kernel, &options)
}

#[test]
fn classes_change_no_bit() {
    let (inputs, kernel, interpreted) = case();
    for size in [16, 64, 100, 128] {
        let block = BlockSize { q: size, kv: size };
        let mask = kernel.block_mask(block).unwrap();
        let exact = forward(&inputs, &kernel, &mask);
        let demoted = forward(&inputs, &kernel, &mask.demote_full());
        assert!(0 < exact.record.tiles.full, "{}", exact.record);
        assert_eq!(demoted.record.tiles.full, 0);
        assert_eq!(
            exact.record.tiles.full + exact.record.tiles.partial,
            demoted.record.tiles.partial
        );
        assert!(exact.bits() == demoted.bits(), "block {size}");
        let again = forward(&inputs, &interpreted, &mask);
        assert!(exact.bits() == again.bits(), "block {size}, interpreted");
    }
}

#[test]
fn threads_change_no_bit() {
    let (inputs, kernel, _) = case();
    let mask = kernel.block_mask(BlockSize::default()).unwrap();
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let pool = pool.build().unwrap();
        pool.install(|| forward(&inputs, &kernel, &mask))
    };
    let (one, two) = (on(1), on(2));
    assert_eq!((one.record.threads, two.record.threads), (1, 2));
    assert!(one.bits() == two.bits());
}

#[test]
fn a_mask_of_everything_changes_no_bit_of_dense_attention() {
    let inputs = Dims::new(2, 2, 150, 150).inputs();
    let options = ForwardOptions::default();
    let dense = inputs.attention(&Rules::dense(), &options);
    let all = inputs.attention(&MaskRule::constant(true).into(), &options);
    assert_eq!(dense.out, all.out);
    assert_eq!(dense.lse, all.lse);
}
