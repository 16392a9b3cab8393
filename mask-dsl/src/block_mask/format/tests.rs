//! Tests of the format: classes, clipping, sharing of planes, and the checks of a call.

use proptest::prelude::*;

use super::super::model::{
    all, any_block, any_dense, block, causal, check_classes, counted, exact,
};
use super::*;
use crate::block_mask::CellFn;

#[test]
fn a_call_of_another_shape_is_refused_with_both_shapes() {
    let geometry = Geometry::exact(2, 1, 8, 8, block(4, 4)).unwrap();
    let mask = BlockMask::from_evaluator(&geometry, &causal()).unwrap();
    assert_eq!(mask.check_call(2, 7, 8, 8, 0), Ok(()));
    let message = |result: Result<(), BlockMaskError>| result.unwrap_err().to_string();
    assert_eq!(
        message(mask.check_call(3, 2, 8, 8, 0)),
        "a mask built for [B=2, H=1, q=8,kv=8, block 4x4] cannot serve a call of [B=3, H=2, q=8, kv=8]"
    );
    assert!(mask.check_call(1, 1, 8, 8, 0).is_err());
    assert!(mask.check_call(2, 1, 8, 9, 0).is_err());
    assert!(mask.check_call(2, 1, 8, 8, 1).is_err());
    // One batch entry serves any number of them.
    let broadcast = exact(8, 8, (4, 4), &causal());
    for batch in [1, 2, 3, 100] {
        assert_eq!(broadcast.check_call(batch, 2, 8, 8, 0), Ok(()));
        assert_eq!(broadcast.class(batch - 1, 1, 1, 0), BlockClass::Full);
    }
}

#[test]
fn a_bucket_is_checked_by_its_relation() {
    let bucket = "q=1..=64,kv=1..=256,relation=q<=kv,offset=0..=9"
        .parse()
        .unwrap();
    let geometry = Geometry::new(1, 1, &bucket, block(16, 16)).unwrap();
    let mask = BlockMask::uniform(geometry, BlockClass::Partial);
    assert_eq!(mask.check_call(5, 3, 64, 64, 9), Ok(()));
    assert!(mask.check_call(5, 3, 64, 63, 9).is_err());
    assert!(mask.check_call(5, 3, 65, 65, 9).is_err());
    assert!(mask.check_call(5, 3, 64, 64, 10).is_err());
    assert!(matches!(
        mask.reclassify(&causal()),
        Err(BlockMaskError::SeveralCalls { .. })
    ));
}

#[test]
fn equal_planes_are_stored_once() {
    let geometry = Geometry::exact(2, 4, 64, 64, block(16, 16)).unwrap();
    // Heads 0 and 2 are causal, 1 and 3 see everything; both batch entries agree.
    let mask =
        BlockMask::from_evaluator(&geometry, &CellFn(|_, h, q, kv| h % 2 == 1 || kv <= q)).unwrap();
    assert_eq!(mask.distinct_planes().len(), 2);
    assert_eq!(mask.plane_of(), [0, 1, 0, 1, 0, 1, 0, 1]);
    assert_eq!(counted(&mask), (4 * 16 + 4 * 6, 4 * 4, 4 * 6));
}

#[test]
fn a_table_of_exactly_the_length_is_not_read_beyond_it() {
    let table: Vec<bool> = (0..200).map(|q| q % 3 != 0).collect();
    let mask = exact(
        200,
        200,
        (128, 128),
        &CellFn(|_, _, q, _| table[q as usize]),
    );
    assert_eq!(counted(&mask), (0, 4, 0));
    // The overhanging blocks are reported partial even where every real cell is allowed.
    let mask = exact(
        200,
        200,
        (128, 128),
        &CellFn(|_, _, q, _| table[q as usize] || 128 <= q),
    );
    assert_eq!(mask.class(0, 0, 1, 1), BlockClass::Full);
    assert_eq!(mask.reported_class(0, 0, 1, 1), BlockClass::Partial);
    assert_eq!(counted(&mask), (0, 4, 0));
}

#[test]
fn few_queries_visit_one_block_of_a_long_key_range() {
    let mask = exact(16, 200_000, (128, 128), &causal());
    assert_eq!(counted(&mask), (0, 1, 1562));
    assert_eq!(mask.allowed_cells(&causal()), Ok(136));
    assert_eq!(mask.row(0, 0, 0).len(), 1);
}

#[test]
fn decoding_does_not_visit_the_empty_part_of_the_cache() {
    let geometry = Geometry::exact(1, 1, 1, 2048, block(128, 128)).unwrap();
    let geometry = geometry.with_q_offset(100).unwrap();
    let mask = BlockMask::from_evaluator(&geometry, &causal()).unwrap();
    assert_eq!(mask.allowed_cells(&causal()), Ok(101));
    assert_eq!(counted(&mask), (0, 1, 15));
}

#[test]
fn a_chunk_of_a_prompt_sees_the_whole_cache() {
    let geometry = Geometry::exact(1, 1, 128, 256, block(128, 128)).unwrap();
    let geometry = geometry.with_q_offset(128).unwrap();
    let mask = BlockMask::from_evaluator(&geometry, &causal()).unwrap();
    assert_eq!(mask.allowed_cells(&causal()), Ok(24640));
    assert_eq!(counted(&mask), (1, 1, 0));
}

#[test]
fn runs_are_clipped_at_the_keys_of_a_call() {
    let mask = exact(64, 64, (16, 16), &causal());
    let mut runs = Vec::new();
    mask.row_clipped(0, 0, 3, 40, &mut runs);
    assert_eq!(runs, [Run::new(0, 3, BlockClass::Full).unwrap()]);
    mask.row_clipped(0, 0, 3, 64, &mut runs);
    assert_eq!(runs, mask.row(0, 0, 3));
    mask.row_clipped(0, 0, 3, 10_000, &mut runs);
    assert_eq!(runs, mask.row(0, 0, 3));
    mask.row_clipped(0, 0, 3, 0, &mut runs);
    assert_eq!(runs, []);
}

#[test]
fn demoting_full_blocks_leaves_the_cells() {
    let mask = exact(256, 256, (64, 64), &causal());
    let demoted = mask.demote_full();
    assert_eq!(counted(&demoted), (0, 10, 6));
    assert_eq!(
        demoted.allowed_cells(&causal()),
        mask.allowed_cells(&causal())
    );
    assert_eq!(demoted.reclassify(&causal()), Ok(mask));
}

#[test]
fn a_geometry_that_cannot_be_is_refused() {
    let refused = |batch, heads, q_len, kv_len, size: (u32, u32)| {
        Geometry::exact(batch, heads, q_len, kv_len, block(size.0, size.1)).unwrap_err()
    };
    assert!(matches!(
        refused(1, 1, 8, 8, (0, 1)),
        BlockMaskError::ZeroBlock { q: 0, kv: 1 }
    ));
    assert!(matches!(
        refused(1, 0, 8, 8, (1, 1)),
        BlockMaskError::ZeroAxis { .. }
    ));
    assert!(matches!(
        refused(1, 1, 8, 1 << 40, (1, 128)),
        BlockMaskError::TooManyBlocks { axis: "kv", .. }
    ));
    assert!(matches!(
        refused(1, 1, u64::MAX, 8, (u32::MAX, 1)),
        BlockMaskError::TooManyBlocks { axis: "q", .. }
    ));
    let geometry = Geometry::exact(1, 1, 8, 8, BlockSize::default()).unwrap();
    assert!(matches!(
        geometry.clone().with_q_offset(i64::MAX - 7),
        Err(BlockMaskError::CoordinateOverflow { axis: "q", .. })
    ));
    assert!(geometry.clone().with_kv_offset(i64::MAX - 8).is_ok());
    assert!(geometry.with_axis_offsets(0, u32::MAX).is_err());
}

#[test]
fn planes_must_fit_the_geometry() {
    let geometry = Geometry::exact(2, 3, 8, 8, block(4, 4)).unwrap();
    let plane = || Plane::uniform(2, 2, BlockClass::Full);
    let built = |batch, heads, planes| {
        BlockMask::from_planes(geometry.clone(), batch, heads, planes, Exactness::Exact)
    };
    assert!(built(1, 1, vec![plane()]).is_ok());
    assert!(matches!(
        built(1, 2, vec![plane(), plane()]),
        Err(BlockMaskError::StoredAxis { axis: "heads", .. })
    ));
    assert!(matches!(
        built(2, 1, vec![plane()]),
        Err(BlockMaskError::PlaneCount {
            expected: 2,
            found: 1
        })
    ));
    assert!(matches!(
        built(1, 1, vec![Plane::uniform(2, 3, BlockClass::Full)]),
        Err(BlockMaskError::PlaneShape { .. })
    ));
}

#[test]
fn all_masks_of_a_block_are_one_class() {
    let mask = exact(300, 300, (128, 128), &all());
    assert_eq!(counted(&mask), (4, 5, 0));
    assert!(mask.is_exact());
}

proptest! {
    #[test]
    fn classes_agree_with_the_cells(dense in any_dense(), size in any_block()) {
        let mask = dense.mask(size);
        prop_assert!(mask.is_exact());
        check_classes(&mask, |b, h, q, kv| dense.at(b, h, q, kv));
        let demoted = mask.demote_full();
        prop_assert_eq!(demoted.reclassify(&dense.rule()).unwrap(), mask);
    }

    #[test]
    fn the_transposed_plane_is_the_plane_of_the_transposed_rule(dense in any_dense(), size in any_block()) {
        let mask = dense.mask(size);
        for b in 0..dense.batch {
            for h in 0..dense.heads {
                let transposed = mask.transposed_plane(b, h);
                for row in 0..mask.rows() {
                    for col in 0..mask.cols() {
                        prop_assert_eq!(transposed.class(col, row), mask.class(b, h, row, col));
                    }
                }
            }
        }
    }
}
