//! Tests of `FlashMask` columns.

use proptest::prelude::*;

use super::super::model::{any_block, any_dense, block, causal, exact};
use super::*;
use crate::block_mask::CellFn;

#[track_caller]
fn columns(
    size: (u64, u64),
    kind: FlashMaskKind,
    rule: &dyn MaskEvaluator,
) -> Result<FlashMaskColumns, BlockMaskError> {
    let mask = exact(size.0, size.1, (4, 4), rule);
    let columns = mask.to_flashmask(kind, rule)?;
    assert_eq!(BlockMask::from_flashmask(&columns), Ok(mask));
    Ok(columns)
}

#[test]
fn causal_needs_no_bound_but_the_end() {
    let found = columns((6, 6), FlashMaskKind::Causal, &causal()).unwrap();
    assert_eq!(found.bounds(), [6; 6]);
}

#[test]
fn a_window_ends_each_column_after_some_rows() {
    let window = CellFn(|_, _, q, kv| kv <= q && q - kv < 3);
    let found = columns((6, 6), FlashMaskKind::Causal, &window).unwrap();
    assert_eq!(found.bounds(), [3, 4, 5, 6, 6, 6]);
    let found = columns((6, 6), FlashMaskKind::Bidirectional, &window).unwrap();
    assert_eq!(found.bounds(), [3, 0, 4, 1, 5, 2, 6, 3, 6, 4, 6, 5]);
}

#[test]
fn packed_documents_are_two_bounds() {
    let document = |at: i64| [0, 0, 0, 1, 1, 2][at as usize];
    let rule = CellFn(|_, _, q, kv| document(q) == document(kv));
    let found = columns((6, 6), FlashMaskKind::Bidirectional, &rule).unwrap();
    assert_eq!(found.bounds(), [3, 0, 3, 0, 3, 0, 5, 3, 5, 3, 6, 5]);
    let error = columns((6, 6), FlashMaskKind::CausalInterval, &rule).unwrap_err();
    assert_eq!(
        error.to_string(),
        "key column 1 of batch 0, head 0 does not fit the causal LTS/LTE form of FlashMask: its masked rows are 3..6"
    );
}

#[test]
fn an_evicted_stretch_is_an_interval() {
    let rule = CellFn(|_, _, q, kv| kv <= q && !(kv == 1 && (3..5).contains(&q)));
    let found = columns((6, 6), FlashMaskKind::CausalInterval, &rule).unwrap();
    assert_eq!(found.bounds(), [6, 6, 3, 5, 6, 6, 6, 6, 6, 6, 6, 6]);
    assert!(columns((6, 6), FlashMaskKind::Causal, &rule).is_err());
    let found = columns((6, 6), FlashMaskKind::BidirectionalInterval, &rule).unwrap();
    assert_eq!(found.bounds()[..12], [6, 6, 0, 0, 3, 5, 0, 1, 6, 6, 0, 2]);
}

#[test]
fn the_diagonal_of_the_causal_forms_ends_in_the_lower_right_corner() {
    let rule = CellFn(|_, _, q, kv| kv <= q + 4);
    let found = columns((2, 6), FlashMaskKind::Causal, &rule).unwrap();
    assert_eq!(found.bounds(), [2; 6]);
    // With more rows than keys, the first rows see nothing.
    let rule = CellFn(|_, _, q, kv| kv <= q - 4);
    let found = columns((6, 2), FlashMaskKind::Causal, &rule).unwrap();
    assert_eq!(found.bounds(), [6; 2]);
    assert!(columns((2, 6), FlashMaskKind::Causal, &causal()).is_err());
}

#[test]
fn a_column_with_many_intervals_fits_no_form() {
    let rule = CellFn(|_, _, q, _| q % 2 == 0);
    for kind in FlashMaskKind::ALL {
        let error = columns((12, 3), kind, &rule).unwrap_err();
        let end = "its masked rows are 1..2, 3..4, 5..6 and 3 more";
        assert!(error.to_string().ends_with(end), "{error}");
    }
}

#[test]
fn bounds_from_outside_are_checked() {
    let geometry = Geometry::exact(1, 2, 4, 3, block(2, 2)).unwrap();
    let new = |kind, bounds: &[i32]| {
        FlashMaskColumns::new(geometry.clone(), kind, bounds.to_vec())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        new(FlashMaskKind::Causal, &[0; 5]),
        "expected 6 FlashMask bounds for shape [1, 2, 3, 1], found 5"
    );
    assert_eq!(
        new(FlashMaskKind::Causal, &[0, 0, 0, 0, 5, 0]),
        "FlashMask bound LTS of batch 0, head 1, key column 1 is 5, expected 0..=4"
    );
    assert_eq!(
        new(
            FlashMaskKind::CausalInterval,
            &[0, 0, 3, 2, 0, 0, 0, 0, 0, 0, 0, 0]
        ),
        "FlashMask bound LTE of batch 0, head 0, key column 1 is 2, expected 3..=4"
    );
    assert_eq!(
        new(
            FlashMaskKind::Bidirectional,
            &[0, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        ),
        "FlashMask bound UTE of batch 0, head 0, key column 0 is -1, expected 0..=4"
    );
    let bucket = Geometry::new(1, 1, &"1..=4".parse().unwrap(), block(2, 2)).unwrap();
    assert!(matches!(
        FlashMaskColumns::new(bucket, FlashMaskKind::Causal, vec![0; 4]),
        Err(BlockMaskError::SeveralCalls { .. })
    ));
}

proptest! {
    #[test]
    fn columns_that_fit_say_the_same_cells(dense in any_dense(), size in any_block()) {
        let mask = dense.mask(size);
        for kind in FlashMaskKind::ALL {
            if let Ok(columns) = mask.to_flashmask(kind, &dense.rule()) {
                prop_assert_eq!(&BlockMask::from_flashmask(&columns).unwrap(), &mask);
                for (b, h) in mask.logical_entries() {
                    let mut tile = vec![0; dense.q_len as usize];
                    columns.tile(b, h, 0, dense.q_len as usize, 0, dense.kv_len as usize, &mut tile, 1);
                    for (q, line) in tile.iter().enumerate() {
                        for kv in 0..dense.kv_len as usize {
                            prop_assert_eq!(line >> kv & 1 == 1, dense.at(b, h, q as i64, kv as i64));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_column_of_two_intervals_always_fits_the_widest_form(
        bounds in proptest::collection::vec((0..9_i64, 0..9_i64, 0..9_i64, 0..9_i64), 1..80),
    ) {
        let rule = CellFn(|_, _, q, kv| {
            let (a, b, c, d) = bounds[kv as usize];
            !(a..b).contains(&q) && !(c..d).contains(&q)
        });
        let mask = exact(8, bounds.len() as u64, (3, 5), &rule);
        let columns = mask.to_flashmask(FlashMaskKind::BidirectionalInterval, &rule).unwrap();
        prop_assert_eq!(BlockMask::from_flashmask(&columns).unwrap(), mask);
    }
}
