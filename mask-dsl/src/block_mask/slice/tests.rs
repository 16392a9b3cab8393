//! Tests of slices, crops, shifts and other block sizes against cells.

use proptest::prelude::*;

use super::super::model::{
    all, any_block, any_dense, block, causal, check_classes, counted, exact,
};
use super::*;
use crate::block_mask::{CellFn, Geometry};

#[test]
fn a_cropped_mask_demotes_what_now_overhangs() {
    let mask = exact(256, 257, (128, 128), &all());
    assert_eq!(mask.allowed_cells(&all()), Ok(65792));
    assert_eq!(counted(&mask), (4, 2, 0));
    let cropped = mask.crop(101, 129).unwrap();
    assert_eq!(cropped.allowed_cells(&all()), Ok(13029));
    assert_eq!(counted(&cropped), (0, 2, 0));
    assert_eq!(cropped.check_call(1, 1, 101, 129, 0), Ok(()));
    assert!(cropped.check_call(1, 1, 256, 257, 0).is_err());
}

#[test]
fn a_sliced_mask_keeps_its_rule_and_its_coordinates() {
    let geometry = Geometry::exact(4, 1, 512, 512, block(128, 128)).unwrap();
    let one_head = BlockMask::from_evaluator(&geometry, &causal()).unwrap();
    let geometry = Geometry::exact(4, 8, 512, 512, block(128, 128)).unwrap();
    let eight_heads = BlockMask::from_evaluator(&geometry, &causal()).unwrap();
    for (mask, heads) in [(one_head, 1), (eight_heads, 8)] {
        let step = mask.slice_q(300..301).unwrap();
        assert_eq!(step.geometry().q_offset(), 300);
        assert_eq!(step.check_call(4, 8, 1, 512, 300), Ok(()));
        assert!(step.check_call(4, 8, 1, 512, 0).is_err());
        assert_eq!(step.allowed_cells(&causal()), Ok(301 * 4 * heads));
        let per_plane = step.slice_batch(2..3).unwrap().slice_heads(0..1).unwrap();
        assert_eq!(counted(&per_plane), (0, 3, 1));
        assert_eq!(
            counted(&per_plane.reblock(block(1, 128)).unwrap()),
            (2, 1, 1)
        );
        assert_eq!(step.plane(3, 5 % heads as u32), per_plane.plane(0, 0));
    }
}

#[test]
fn a_rule_that_reads_batch_and_head_sees_their_indices_in_the_whole() {
    let rule = CellFn(|b: u32, h: u32, _, kv: i64| kv < i64::from(b * 4 + h));
    let geometry = Geometry::exact(3, 4, 8, 16, block(4, 4)).unwrap();
    let mask = BlockMask::from_evaluator(&geometry, &rule).unwrap();
    let part = mask.slice_batch(1..3).unwrap().slice_heads(2..4).unwrap();
    assert_eq!(part.geometry().batch_offset(), 1);
    assert_eq!(part.allowed_cells(&rule), Ok(8 * (6 + 7 + 10 + 11)));
    check_classes(&part, |b, h, _, kv| kv < i64::from(b * 4 + h));
    assert_eq!(part.demote_full().reclassify(&rule), Ok(part));
}

#[test]
fn a_mask_for_more_tokens_is_refused_or_cropped() {
    let sinks_and_window = CellFn(|_, _, q: i64, kv: i64| kv <= q && (kv < 4 || q - kv < 16));
    let mask = exact(256, 256, (16, 16), &sinks_and_window);
    assert_eq!(
        mask.check_call(1, 1, 96, 96, 0).unwrap_err().to_string(),
        "a mask built for [B=1, H=1, q=256,kv=256, block 16x16] cannot serve a call of [B=1, H=1, q=96, kv=96]"
    );
    assert_eq!(
        mask.crop(96, 96),
        Ok(exact(96, 96, (16, 16), &sinks_and_window))
    );
    let cut = mask.crop(90, 95).unwrap();
    assert_eq!(
        cut.reclassify(&sinks_and_window),
        Ok(exact(90, 95, (16, 16), &sinks_and_window))
    );
}

#[test]
fn a_slice_of_a_bucket_keeps_the_calls_that_have_its_rows() {
    let sliced = |bucket: &str, rows: Range<u64>| {
        let geometry = Geometry::new(1, 1, &bucket.parse().unwrap(), block(16, 16)).unwrap();
        let mask = BlockMask::uniform(geometry, BlockClass::Partial);
        mask.slice_q(rows).unwrap().bucket().to_string()
    };
    assert_eq!(sliced("1..=64", 10..20), "q=10,kv=20..=64,offset=10");
    assert_eq!(
        sliced("q=1..=64,kv=1..=128,relation=q<=kv,offset=0..=5", 10..20),
        "q=10,kv=20..=128,offset=10..=15"
    );
    assert_eq!(
        sliced("q=1..=64,kv=3..=128", 10..20),
        "q=10,kv=3..=128,offset=10"
    );
}

#[test]
fn a_member_of_a_bucket_has_its_lengths() {
    let geometry = Geometry::new(1, 1, &"1..=64".parse().unwrap(), block(16, 16)).unwrap();
    let mask = exact(64, 64, (16, 16), &causal());
    let planes = mask
        .distinct_planes()
        .map(|plane| (**plane).clone())
        .collect();
    let bucket = BlockMask::from_planes(geometry, 1, 1, planes, mask.exactness()).unwrap();
    assert_eq!(
        bucket.member(32, 32, 0),
        Ok(exact(32, 32, (16, 16), &causal()))
    );
    let cut = bucket.member(40, 40, 0).unwrap();
    assert_eq!(
        cut.reclassify(&causal()),
        Ok(exact(40, 40, (16, 16), &causal()))
    );
    assert!(matches!(
        bucket.member(40, 41, 0),
        Err(BlockMaskError::Call { .. })
    ));
}

#[test]
fn a_longer_mask_must_continue_the_shorter_one() {
    let (short, long) = (
        exact(64, 100, (16, 16), &causal()),
        exact(64, 180, (16, 16), &causal()),
    );
    assert_eq!(short.extend_kv(&long), Ok(long.clone()));
    assert!(matches!(
        long.extend_kv(&short),
        Err(BlockMaskError::Geometry { .. })
    ));
    let other = exact(
        64,
        180,
        (16, 16),
        &CellFn(|_, _, q, kv| kv <= q || kv == 70),
    );
    assert_eq!(
        short.extend_kv(&other).unwrap_err().to_string(),
        "block (0, 4) of batch 0, head 0 is empty in the mask, but its cells are partial in the longer one"
    );
    let other = exact(65, 180, (16, 16), &causal());
    assert!(matches!(
        short.extend_kv(&other),
        Err(BlockMaskError::Geometry { .. })
    ));
}

#[test]
fn slices_out_of_range_are_refused() {
    let mask = exact(64, 100, (16, 16), &causal());
    let error = mask.slice_q(60..65).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the slice 60..65 does not lie within the q axis of length 64"
    );
    #[expect(
        clippy::reversed_empty_ranges,
        reason = "a slice that ends before it starts is the point"
    )]
    let reversed = mask.slice_kv(9..8);
    assert!(reversed.is_err());
    assert!(mask.slice_heads(0..2).is_err());
    assert!(mask.slice_batch(0..0).is_err());
    assert!(mask.crop(65, 100).is_err());
    assert!(mask.shift(i64::MIN, 0, BlockClass::Empty).is_err());
    assert_eq!(mask.slice_q(5..5).unwrap().rows(), 0);
}

#[test]
fn aligned_slices_stay_exact() {
    let mask = exact(64, 64, (16, 16), &causal());
    for part in [
        mask.slice_q(16..48).unwrap(),
        mask.slice_kv(32..64).unwrap(),
        mask.crop(32, 64).unwrap(),
        mask.reblock(block(32, 32)).unwrap(),
        mask.shift(16, -16, BlockClass::Empty).unwrap(),
    ] {
        assert!(part.is_exact(), "{}", part.geometry());
    }
    assert!(!mask.slice_q(15..48).unwrap().is_exact());
    assert!(!mask.reblock(block(8, 8)).unwrap().is_exact());
}

fn part(len: u64) -> impl Strategy<Value = Range<u64>> {
    (0..=len, 0..=len).prop_map(|(a, b)| a.min(b)..a.max(b))
}

proptest! {
    #[test]
    fn slices_agree_with_the_cells(
        (dense, rows, cols) in any_dense().prop_flat_map(|dense| {
            let (rows, cols) = (part(dense.q_len), part(dense.kv_len));
            (Just(dense), rows, cols)
        }),
        size in any_block(),
        other in any_block(),
    ) {
        let mask = dense.mask(size);
        let cell = |b, h, q, kv| dense.at(b, h, q, kv);
        let sliced = mask.slice_q(rows.clone()).unwrap();
        check_classes(&sliced, cell);
        let sliced = sliced.slice_kv(cols.clone()).unwrap();
        check_classes(&sliced, cell);
        prop_assert_eq!(sliced.geometry().q_idx(0), rows.start as i64);
        prop_assert_eq!(sliced.geometry().kv_idx(0), cols.start as i64);
        check_classes(&mask.crop(rows.end, cols.end).unwrap(), cell);
        let reblocked = mask.reblock(other).unwrap();
        check_classes(&reblocked, cell);
        prop_assert_eq!(reblocked.reclassify(&dense.rule()).unwrap(), dense.mask(other));
        check_classes(&mask.demote_full().slice_kv(cols).unwrap(), cell);
    }

    #[test]
    fn shifts_agree_with_the_cells(
        dense in any_dense(),
        size in any_block(),
        by_q in -25..25_i64,
        by_kv in -25..25_i64,
        beyond in any::<bool>(),
    ) {
        let mask = dense.mask(size);
        let outside = if beyond { BlockClass::Full } else { BlockClass::Empty };
        let cell = |b, h, q: i64, kv: i64| {
            let (q, kv) = (q - by_q, kv - by_kv);
            let inside = (0..dense.q_len as i64).contains(&q) && (0..dense.kv_len as i64).contains(&kv);
            if inside { dense.at(b, h, q, kv) } else { beyond }
        };
        let shifted = mask.shift(by_q, by_kv, outside).unwrap();
        check_classes(&shifted, cell);
        let unknown = mask.shift(by_q, by_kv, BlockClass::Partial).unwrap();
        check_classes(&unknown, cell);
        prop_assert_eq!(unknown.reclassify(&CellFn(cell)), shifted.reclassify(&CellFn(cell)));
    }
}
