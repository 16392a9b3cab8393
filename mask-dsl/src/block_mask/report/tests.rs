//! Tests of counts, sparsity and the class hash.

use proptest::prelude::*;

use super::super::model::{all, any_block, any_dense, block, causal, counted, exact};
use super::*;

#[test]
fn sparsity_counts_blocks_and_stays_within_bounds() {
    let mask = exact(100, 100, (128, 128), &causal());
    assert_eq!(mask.allowed_cells(&causal()), Ok(5050));
    assert_eq!(counted(&mask), (0, 1, 0));
    assert_eq!(mask.sparsity(), 0.0);
    assert_eq!(mask.sparsity_cells(&causal()), Ok(49.5));
    let nothing = exact(0, 5, (2, 2), &all());
    assert_eq!(
        (nothing.sparsity(), nothing.sparsity_cells(&all())),
        (0.0, Ok(0.0))
    );
}

#[test]
fn a_broadcast_axis_is_counted_for_each_of_its_entries() {
    let geometry = Geometry::exact(3, 5, 64, 64, block(16, 16)).unwrap();
    let plane = exact(64, 64, (16, 16), &causal()).plane(0, 0).clone();
    let exactness = super::super::Exactness::Exact;
    let mask = BlockMask::from_shared(geometry, 1, 1, vec![plane], exactness).unwrap();
    assert_eq!(counted(&mask), (90, 60, 90));
    assert_eq!(mask.allowed_cells(&causal()), Ok(15 * 65 * 32));
    assert_eq!(mask.class_bytes().count(), 15 * 16);
}

#[test]
fn the_hash_is_that_of_the_class_bytes() {
    let mask = exact(5, 3, (2, 2), &all());
    let bytes: Vec<u8> = mask.class_bytes().collect();
    assert_eq!(bytes, [2, 1, 2, 1, 1, 1]);
    assert_eq!(mask.class_sha256()[..], Sha256::digest(&bytes)[..]);
}

#[test]
fn counting_is_exact_for_very_long_axes() {
    let geometry =
        Geometry::exact(1 << 20, 1 << 20, 1 << 40, 1 << 40, block(1 << 20, 1 << 31)).unwrap();
    let mask = BlockMask::uniform(geometry, BlockClass::Full);
    assert_eq!(mask.counts().full, 1 << 69);
    assert_eq!(mask.allowed_cells(&all()), Ok(1 << 120));
    assert_eq!(mask.sparsity_cells(&all()), Ok(0.0));
}

proptest! {
    #[test]
    fn reports_agree_with_the_cells(dense in any_dense(), size in any_block()) {
        let mask = dense.mask(size);
        let allowed = dense.cells.iter().filter(|&&cell| cell).count();
        prop_assert_eq!(mask.allowed_cells(&dense.rule()), Ok(allowed as u128));
        let mut bytes = Vec::new();
        for (b, h) in mask.logical_entries() {
            for row in 0..mask.rows() {
                for col in 0..mask.cols() {
                    bytes.push(mask.reported_class(b, h, row, col).byte());
                }
            }
        }
        let counts = mask.counts();
        let of = |class: u8| bytes.iter().map(|&byte| u128::from(byte == class)).sum::<u128>();
        prop_assert_eq!((counts.empty, counts.partial, counts.full), (of(0), of(1), of(2)));
        prop_assert_eq!(counts.total(), bytes.len() as u128);
        prop_assert!((0.0..=100.0).contains(&mask.sparsity()));
        prop_assert!((0.0..=100.0).contains(&mask.sparsity_cells(&dense.rule()).unwrap()));
        prop_assert!(mask.class_bytes().eq(bytes));
    }
}
