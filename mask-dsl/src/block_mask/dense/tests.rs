//! Tests of dense bits.

use proptest::prelude::*;

use super::super::model::{Dense, all, any_block, any_dense, any_dense_of, block, causal, exact};
use super::*;

fn bits(mask: &BlockMask, rule: &dyn MaskEvaluator) -> Vec<u8> {
    let mut out = Vec::new();
    mask.packed_bits(rule, |bytes| {
        out.extend_from_slice(bytes);
        Ok::<_, BlockMaskError>(())
    })
    .unwrap();
    out
}

/// What `numpy.packbits` does.
fn packbits(cells: &[bool]) -> Vec<u8> {
    let byte = |cells: &[bool]| {
        cells
            .iter()
            .zip((0..8).rev())
            .map(|(&cell, at)| u8::from(cell) << at)
            .sum()
    };
    cells.chunks(8).map(byte).collect()
}

#[test]
fn the_first_cell_is_the_highest_bit() {
    // 10000 11000 11100 11110 11111
    let mask = exact(5, 5, (2, 2), &causal());
    assert_eq!(
        bits(&mask, &causal()),
        [0b1000_0110, 0b0011_1001, 0b1110_1111, 0b1000_0000]
    );
}

#[test]
fn rows_wider_than_a_chunk_are_written_in_pieces() {
    let kv_len = CHUNK_CELLS * 2 + 3;
    let mask = exact(2, kv_len, (1, 1 << 16), &all());
    let mut largest = 0;
    let mut total = 0;
    mask.packed_bits(&all(), |bytes| {
        largest = largest.max(bytes.len());
        total += bytes.len();
        Ok::<_, BlockMaskError>(())
    })
    .unwrap();
    assert_eq!(total as u64, (2 * kv_len).div_ceil(8));
    assert!(largest <= CHUNK_CELLS as usize / 8 + 8, "{largest}");
}

#[test]
fn an_error_of_the_sink_comes_back() {
    let mask = exact(5, 5, (2, 2), &causal());
    let full = BlockMaskError::FileChecksum;
    assert_eq!(
        mask.packed_bits(&causal(), |_| Err(full.clone())),
        Err(full)
    );
}

#[test]
fn a_dense_mask_of_another_size_is_refused() {
    let geometry = Geometry::exact(1, 2, 3, 4, block(2, 2)).unwrap();
    let error = BlockMask::from_dense(&geometry, &[true; 12]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a dense mask of shape [1, 2, 3, 4] does not have 12 cells"
    );
}

proptest! {
    #[test]
    fn bits_and_classes_agree_with_the_cells(dense in any_dense(), size in any_block()) {
        let mask = BlockMask::from_dense(&dense.geometry(size), &dense.cells).unwrap();
        prop_assert_eq!(&mask, &dense.mask(size));
        prop_assert_eq!(bits(&mask, &dense.rule()), packbits(&dense.cells));
        prop_assert_eq!(
            mask.packed_bits_sha256(&dense.rule()).unwrap()[..].to_vec(),
            Sha256::digest(packbits(&dense.cells)).to_vec()
        );
    }

    #[test]
    fn the_restricted_rule_is_that_of_the_mask(
        dense in any_dense_of(1..3, 1..3, 1..20, 1..150),
        size in any_block(),
        q0 in -5..25_i64,
        kv0 in -70..160_i64,
        n_q in 0..30_usize,
        n_kv in 0..140_usize,
    ) {
        let mask = dense.mask(size).slice_q(1..dense.q_len).unwrap();
        let rule = dense.rule();
        let restricted = mask.restrict(&rule);
        let words = n_kv.div_ceil(64);
        let mut tile = vec![u64::MAX; n_q * words];
        restricted.tile(dense.batch - 1, dense.heads - 1, q0, n_q, kv0, n_kv, &mut tile, words);
        for row in 0..n_q {
            for col in 0..words * 64 {
                let (q, kv) = (q0 + row as i64, kv0 + col as i64);
                let expected = col < n_kv && 1 <= q && dense.at(dense.batch - 1, dense.heads - 1, q, kv);
                prop_assert_eq!(tile[row * words + col / 64] >> (col % 64) & 1 == 1, expected);
            }
        }
    }

    #[test]
    fn wide_rows_are_packed_without_padding(kv_len in 60..200_u64, q_len in 1..9_u64) {
        let dense = Dense::from_fn((1, 1, q_len, kv_len), |_, _, q, kv| (q * 31 + kv * 17) % 5 < 2);
        let mask = dense.mask(block(3, 50));
        prop_assert_eq!(bits(&mask, &dense.rule()), packbits(&dense.cells));
    }
}
