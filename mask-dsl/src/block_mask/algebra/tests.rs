//! Tests of the algebra against cells.

use proptest::prelude::*;

use super::super::model::{
    Dense, any_block, any_dense, any_dense_of, block, causal, check_classes, counted, exact,
};
use super::*;
use crate::block_mask::CellFn;

#[test]
fn of_no_masks_all_allows_everything_and_any_nothing() {
    let mask = exact(4, 4, (1, 1), &causal());
    let geometry = mask.geometry();
    assert_eq!(
        BlockMask::all_of(geometry.clone(), &[&mask]),
        Ok(mask.clone())
    );
    assert_eq!(counted(&mask), (10, 0, 6));
    let everything = BlockMask::all_of(geometry.clone(), &[]).unwrap();
    assert_eq!(counted(&everything), (16, 0, 0));
    let nothing = BlockMask::any_of(geometry.clone(), &[]).unwrap();
    assert_eq!(counted(&nothing), (0, 0, 16));
    assert_eq!(
        BlockMask::any_of(geometry.clone(), &[&mask]),
        Ok(mask.clone())
    );
}

#[test]
fn masks_of_other_lengths_are_refused_with_both_shapes() {
    let (a, b) = (
        exact(8, 8, (4, 4), &causal()),
        exact(8, 12, (4, 4), &causal()),
    );
    assert_eq!(
        a.and(&b).unwrap_err().to_string(),
        "the masks do not match: [B=1, H=1, q=8,kv=8, block 4x4] against \
         [B=1, H=1, q=8,kv=12, block 4x4]"
    );
    let c = exact(8, 8, (4, 2), &causal());
    assert!(matches!(a.or(&c), Err(BlockMaskError::Geometry { .. })));
    // Of the same size, but of other queries.
    let d = exact(16, 8, (4, 4), &causal()).slice_q(8..16).unwrap();
    assert!(matches!(a.xor(&d), Err(BlockMaskError::Geometry { .. })));
    let two = Geometry::exact(2, 1, 8, 8, block(4, 4)).unwrap();
    let three = Geometry::exact(3, 1, 8, 8, block(4, 4)).unwrap();
    let [two, three] = [two, three].map(|geometry| BlockMask::uniform(geometry, BlockClass::Full));
    assert!(matches!(
        two.and(&three),
        Err(BlockMaskError::Geometry { .. })
    ));
    assert_eq!(two.and(&a).unwrap().batch(), 2);
}

#[test]
fn where_two_partial_blocks_meet_the_result_is_coarse_until_evaluated() {
    let window = CellFn(|_, _, q, kv| q - kv < 100);
    let (a, b) = (
        exact(512, 512, (128, 128), &causal()),
        exact(512, 512, (128, 128), &window),
    );
    let both = a.and(&b).unwrap();
    assert_eq!(both.exactness(), Exactness::Coarse);
    let rule = CellFn(|_, _, q: i64, kv: i64| kv <= q && q - kv < 100);
    assert_eq!(
        both.reclassify(&rule),
        Ok(exact(512, 512, (128, 128), &rule))
    );
    // Beside full and empty blocks a mixed one stays known to be mixed.
    let everything = BlockMask::uniform(a.geometry().clone(), BlockClass::Full);
    assert_eq!(a.and(&everything), Ok(a.clone()));
    assert_eq!(a.xor(&everything), Ok(a.not()));
}

#[test]
fn the_result_holds_for_the_calls_of_both() {
    let mask = |bucket: &str| {
        let geometry = Geometry::new(1, 1, &bucket.parse().unwrap(), block(16, 16)).unwrap();
        BlockMask::uniform(geometry, BlockClass::Full)
    };
    let both = mask("q=1..=64,kv=1..=64,relation=q<=kv")
        .and(&mask("32..=64"))
        .unwrap();
    assert_eq!(both.bucket().to_string(), "32..=64");
    assert!(mask("1..=64").and(&mask("1..=63")).is_err());
}

#[test]
fn heads_choose_their_mask() {
    let window = exact(
        64,
        64,
        (16, 16),
        &CellFn(|_, _, q: i64, kv: i64| (q - kv).abs() < 9),
    );
    let triangle = exact(64, 64, (16, 16), &causal());
    let mixed = BlockMask::select_heads(&[true, false, true], &triangle, &window).unwrap();
    assert_eq!((mixed.heads(), mixed.stored_heads()), (3, 3));
    assert_eq!(mixed.distinct_planes().len(), 2);
    assert_eq!(mixed.plane(0, 0), triangle.plane(0, 0));
    assert_eq!(mixed.plane(0, 1), window.plane(0, 0));
    assert!(mixed.is_exact());
    assert_eq!(
        BlockMask::select_heads(&[true], &mixed, &window),
        Err(BlockMaskError::HeadChoice {
            expected: 3,
            found: 1
        })
    );
    assert!(BlockMask::select_heads(&[], &triangle, &window).is_err());
}

type OnMasks = fn(&BlockMask, &BlockMask) -> Result<BlockMask, BlockMaskError>;
type OnCells = fn(bool, bool) -> bool;

fn pair() -> impl Strategy<Value = (Dense, Dense)> {
    any_dense().prop_flat_map(|a| {
        let (q_len, kv_len) = (a.q_len, a.kv_len);
        let axis = |n: u32| if n == 1 { 1..3 } else { n..n + 1 };
        let b = any_dense_of(
            axis(a.batch),
            axis(a.heads),
            q_len..q_len + 1,
            kv_len..kv_len + 1,
        );
        (Just(a), b)
    })
}

proptest! {
    #[test]
    fn operations_on_classes_agree_with_the_cells((x, y) in pair(), size in any_block()) {
        let (a, b) = (x.mask(size), y.mask(size));
        let operations: [(OnMasks, OnCells); 4] = [
            (BlockMask::and, |x, y| x && y),
            (BlockMask::or, |x, y| x || y),
            (BlockMask::difference, |x, y| x && !y),
            (BlockMask::xor, |x, y| x ^ y),
        ];
        for (operation, on_cells) in operations {
            let result = operation(&a, &b).unwrap();
            let cell = |b, h, q, kv| on_cells(x.at(b, h, q, kv), y.at(b, h, q, kv));
            check_classes(&result, cell);
            // Evaluated, it is what the combined rule gives.
            let exact = result.reclassify(&CellFn(cell)).unwrap();
            prop_assert!(exact.is_exact());
            check_classes(&exact, cell);
            // A coarse operand makes no false claim either.
            let coarse = operation(&a.demote_full(), &b).unwrap();
            check_classes(&coarse, cell);
        }
        let not = a.not();
        check_classes(&not, |b, h, q, kv| !x.at(b, h, q, kv));
        prop_assert_eq!(not.not(), a);
    }
}
