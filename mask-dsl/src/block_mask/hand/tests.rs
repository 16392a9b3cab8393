//! Tests of masks made by hand.

use super::super::model::{all, block, causal, counted, exact};
use super::*;

fn lists(rows: &[(&[u32], &[u32])]) -> BlockLists {
    let row = |&(partial, full): &(&[u32], &[u32])| ListRow {
        partial: partial.to_vec(),
        full: full.to_vec(),
    };
    BlockLists {
        batch: 1,
        heads: 1,
        rows: rows.iter().map(row).collect(),
    }
}

#[test]
fn lists_that_are_the_law_hold_against_a_rule_that_allows_all() {
    let geometry = Geometry::exact(1, 1, 256, 256, block(64, 64)).unwrap();
    for lists in [
        lists(&[
            (&[0, 2], &[]),
            (&[1, 3], &[]),
            (&[3, 0], &[]),
            (&[2, 3], &[]),
        ]),
        lists(&[
            (&[], &[0, 2]),
            (&[], &[3, 1]),
            (&[], &[0, 3]),
            (&[], &[2, 3]),
        ]),
    ] {
        let mask = BlockMask::from_lists(&geometry, &lists, ListsMeaning::Law).unwrap();
        assert_eq!(mask.authority(), Authority::Lists);
        assert_eq!(mask.allowed_cells(&all()), Ok(32768));
        let exact = mask.reclassify(&all()).unwrap();
        assert_eq!(counted(&exact), (8, 0, 8));
        assert_eq!(exact.authority(), Authority::Lists);
        // Each query sees 128 keys.
        let mut bits = vec![0; 4];
        for q in 0..256 {
            exact
                .restrict(&all())
                .tile(0, 0, q, 1, 0, 256, &mut bits, 4);
            assert_eq!(bits.iter().map(|word| word.count_ones()).sum::<u32>(), 128);
        }
        // The same lists as a claim about the rule are wrong.
        assert!(matches!(
            BlockMask::claim(&geometry, &lists, &all()),
            Err(BlockMaskError::Claim { total: 8, .. })
        ));
    }
}

#[test]
fn a_claim_is_checked_against_every_block() {
    let geometry = Geometry::exact(1, 1, 6, 6, block(2, 2)).unwrap();
    let right = lists(&[(&[0], &[]), (&[1], &[0]), (&[2], &[0, 1])]);
    let mask = BlockMask::claim(&geometry, &right, &causal()).unwrap();
    assert_eq!(mask, exact(6, 6, (2, 2), &causal()));
    assert_eq!(mask.authority(), Authority::Rule);
    // To call a full block partial is slower, never wrong.
    let slow = lists(&[(&[0], &[]), (&[1, 0], &[]), (&[2], &[0, 1])]);
    let mask = BlockMask::claim(&geometry, &slow, &causal()).unwrap();
    assert_eq!((counted(&mask), mask.is_exact()), ((2, 4, 3), false));
    let wrong = lists(&[(&[], &[0]), (&[], &[0]), (&[2, 0], &[1])]);
    assert_eq!(
        BlockMask::claim(&geometry, &wrong, &causal())
            .unwrap_err()
            .to_string(),
        "2 of the claimed blocks are wrong, the first: \
         block (0, 0) of batch 0, head 0 is claimed full but is partial, see cell (0, 1); \
         block (1, 1) of batch 0, head 0 is claimed empty but is partial, see cell (2, 2)"
    );
}

#[test]
fn a_claim_for_one_head_must_hold_for_all_of_them() {
    let geometry = Geometry::exact(1, 3, 2, 2, block(2, 2)).unwrap();
    let rule = super::super::CellFn(|_, h, _, _| h < 2);
    let error = BlockMask::claim(&geometry, &lists(&[(&[], &[0])]), &rule).unwrap_err();
    assert_eq!(
        error.to_string(),
        "1 of the claimed blocks are wrong, the first: \
         block (0, 0) of batch 0, head 2 is claimed full but is empty, see cell (0, 0)"
    );
}

#[track_caller]
fn refuses(lists: &BlockLists, message: &str) {
    let geometry = Geometry::exact(1, 1, 6, 6, block(2, 2)).unwrap();
    let error = BlockMask::from_lists(&geometry, lists, ListsMeaning::Law).unwrap_err();
    assert_eq!(error.to_string(), message);
}

#[test]
fn malformed_lists_are_refused() {
    refuses(
        &lists(&[(&[0], &[])]),
        "expected 3 rows of lists for shape [1, 1, 3], found 1",
    );
    refuses(
        &lists(&[(&[], &[]), (&[3], &[]), (&[], &[])]),
        "row 1 of batch 0, head 0 lists block 3, expected a block below 3",
    );
    refuses(
        &lists(&[(&[], &[]), (&[], &[]), (&[1, 2], &[1])]),
        "row 2 of batch 0, head 0 lists block 1 twice, as partial and as full",
    );
    refuses(
        &lists(&[(&[], &[2, 2]), (&[], &[]), (&[], &[])]),
        "row 0 of batch 0, head 0 lists block 2 twice, as full and as full",
    );
}
