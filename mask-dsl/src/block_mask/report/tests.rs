//! Tests of counts, sparsity and the class hash.

use proptest::prelude::*;

use super::super::model::{all, any_block, any_dense, block, causal, counted, exact};
use super::*;
use crate::block_mask::{BlockSize, CellFn, MaskEvaluator};

/// What an oracle in `NumPy`, which knows nothing of blocks beyond counting cells, says of a rule.
struct Golden {
    shape: (u32, u32, u64, u64),
    allowed: u128,
    packbits: &'static str,
    /// Full, partial and empty blocks and the class hash, for blocks of 128 and of 64.
    blocks: [((u128, u128, u128), &'static str); 2],
}

#[track_caller]
fn check(rule: &dyn MaskEvaluator, golden: &Golden) {
    let hex = |hash: [u8; 32]| hash.map(|byte| format!("{byte:02x}")).concat();
    for (size, (counts, classes)) in [128, 64].into_iter().zip(golden.blocks) {
        let (batch, heads, q_len, kv_len) = golden.shape;
        let size = BlockSize { q: size, kv: size };
        let geometry = Geometry::exact(batch, heads, q_len, kv_len, size).unwrap();
        let mask = BlockMask::from_evaluator(&geometry, rule).unwrap();
        assert_eq!(counted(&mask), counts);
        assert_eq!(hex(mask.class_sha256()), classes);
        assert_eq!(mask.allowed_cells(rule), Ok(golden.allowed));
        assert_eq!(hex(mask.packed_bits_sha256(rule).unwrap()), golden.packbits);
    }
}

#[test]
fn golden_causal() {
    check(
        &causal(),
        &Golden {
            shape: (1, 1, 333, 333),
            allowed: 55611,
            packbits: "1ef61d629cd2418c79806abf0e81efe4bc40fe771dc4f851d5956fcb3142de12",
            blocks: [
                (
                    (1, 5, 3),
                    "b4d4726779853cdfddbb36d891e34c1fdb7f30f4aae6f839227a2d02af74161c",
                ),
                (
                    (10, 11, 15),
                    "a217b64903ec92885d8358aff0f8291d2877077f099a865e17dd26409521c9a4",
                ),
            ],
        },
    );
    check(
        &causal(),
        &Golden {
            shape: (2, 3, 200, 200),
            allowed: 120_600,
            packbits: "eb5d822843848b9299f896686eae940c22553e927e5e5b9ea9bdb833e5cbb515",
            blocks: [
                (
                    (0, 18, 6),
                    "90c90d359f47273e81c200b6d548275de541fea1446371954d8ebf47ccd8e510",
                ),
                (
                    (18, 42, 36),
                    "229a92d9a50fc59b299029710564b5ad3a95258391e823a55a450725e0fa7cf2",
                ),
            ],
        },
    );
}

#[test]
fn golden_decode_offset() {
    check(
        &CellFn(|_, _, q, kv| kv <= q + 200),
        &Golden {
            shape: (1, 1, 5, 333),
            allowed: 1015,
            packbits: "ace4dd81ab47d9995611426720acc0e210733112ba933c2d0cc6a0fe3ac6ff6f",
            blocks: [
                (
                    (0, 2, 1),
                    "9f44ac6acb8a37b00b615dc89259d306035be82dee7db2b472e4c48326195440",
                ),
                (
                    (0, 4, 2),
                    "691e02a09744f1284347b4acfb5f179ad2f629b96936e7dc4b57d08da0d6d716",
                ),
            ],
        },
    );
}

#[test]
fn golden_sinks_and_window() {
    check(
        &CellFn(|_, _, q, kv| kv <= q && (q - kv < 65 || kv < 4)),
        &Golden {
            shape: (1, 1, 500, 500),
            allowed: 32154,
            packbits: "2d465e718979def52caf8fd736544962bd86c5c967289fd112a7d740c61a8c19",
            blocks: [
                (
                    (0, 9, 7),
                    "135784cab6d5513772c9a026e1660c7bd4867a8b891432ca4f2e92ff3889c8c8",
                ),
                (
                    (0, 21, 43),
                    "574e2c04e12dbbedc9092a4e56c50f7d05c0d72f33045ce0e447dc80f308a191",
                ),
            ],
        },
    );
}

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
