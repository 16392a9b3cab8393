//! Tests of the file format.

use proptest::prelude::*;

use super::super::model::{any_block, any_dense, causal, exact};
use super::super::{BlockLists, CellFn, ListRow, ListsMeaning};
use super::*;

#[test]
fn packed_documents_survive_a_copy_and_a_file() {
    let rule = CellFn(|_, _, q, kv| kv <= q && q / 2 == kv / 2);
    let mask = exact(4, 4, (1, 1), &rule);
    assert_eq!(mask.allowed_cells(&rule), Ok(6));
    for copy in [
        mask.clone(),
        BlockMask::from_bytes(&mask.to_bytes()).unwrap(),
    ] {
        assert_eq!(copy, mask);
        assert_eq!(copy.allowed_cells(&rule), Ok(6));
    }
}

/// A file whose checksum is right whatever was changed in it.
fn resealed(bytes: &[u8], at: usize, with: &[u8]) -> Vec<u8> {
    let mut content = bytes[..bytes.len() - CHECKSUM_BYTES].to_vec();
    content[at..at + with.len()].copy_from_slice(with);
    let checksum = Sha256::digest(&content);
    content.extend_from_slice(&checksum);
    content
}

#[test]
fn each_flipped_bit_is_an_error() {
    let bytes = exact(40, 40, (16, 16), &causal()).to_bytes();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            assert!(
                BlockMask::from_bytes(&flipped).is_err(),
                "bit {bit} of byte {at}"
            );
        }
    }
}

#[test]
fn a_cut_or_a_longer_file_is_an_error() {
    let bytes = exact(40, 40, (16, 16), &causal()).to_bytes();
    for len in 0..bytes.len() {
        assert!(BlockMask::from_bytes(&bytes[..len]).is_err(), "{len} bytes");
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert!(matches!(
        BlockMask::from_bytes(&longer),
        Err(BlockMaskError::FileLength { .. })
    ));
}

#[test]
fn errors_say_what_was_found() {
    let bytes = exact(40, 40, (16, 16), &causal()).to_bytes();
    let message = |bytes: &[u8]| BlockMask::from_bytes(bytes).unwrap_err().to_string();
    assert_eq!(
        message(b"PK"),
        "not a block mask file: expected it to begin with MWBMASK, found [80, 75]"
    );
    assert_eq!(
        message(&resealed(&bytes, 8, &[1])),
        "block mask file of version 1, expected 2"
    );
    let total = bytes.len();
    assert_eq!(
        message(&bytes[..total - 1]),
        format!("block mask file of {} bytes, expected {total}", total - 1)
    );
    let mut flipped = bytes.clone();
    flipped[total - 40] ^= 1;
    assert_eq!(
        message(&flipped),
        "the checksum of the block mask file does not match its contents"
    );
    // The relation follows 8 words, two ranges of lengths, one of offsets and the key offset.
    let relation = HEADER_BYTES + 8 * 4 + 4 * 8 + 3 * 8;
    assert_eq!(
        message(&resealed(&bytes, relation, &[7])),
        "block mask file: relation is 7, expected 0, 1 or 2"
    );
    // A count of planes that promises more than there is; 3 choices and the source come before it.
    assert!(matches!(
        BlockMask::from_bytes(&resealed(
            &bytes,
            relation + 3 + 17,
            &u32::MAX.to_le_bytes()
        )),
        Err(BlockMaskError::FileLength { .. })
    ));
    // Lengths that promise 2^31 - 1 rows are refused before anything is allocated for them.
    let q_len = HEADER_BYTES + 8 * 4;
    let long = ((1_u64 << 31) - 1) * 16;
    let long = [long.to_le_bytes(), long.to_le_bytes()].concat();
    assert!(matches!(
        BlockMask::from_bytes(&resealed(&bytes, q_len, &long)),
        Err(BlockMaskError::FileLength { .. })
    ));
}

#[test]
fn no_sealed_nonsense_panics() {
    let bytes = exact(40, 40, (16, 16), &causal()).to_bytes();
    for at in HEADER_BYTES..bytes.len() - CHECKSUM_BYTES {
        for value in [0, 1, 2, 0x7f, 0x80, 0xff] {
            if let Ok(mask) = BlockMask::from_bytes(&resealed(&bytes, at, &[value])) {
                // What is read is a mask: it can be walked and written again.
                assert_eq!(BlockMask::from_bytes(&mask.to_bytes()), Ok(mask.clone()));
                if u64::from(mask.batch()) * u64::from(mask.heads()) < 1 << 20 {
                    assert_eq!(mask.class_bytes().count() as u128, mask.counts().total());
                }
            }
        }
    }
}

#[test]
fn lists_that_are_the_law_stay_the_law() {
    let geometry = Geometry::exact(1, 1, 4, 4, BlockSize { q: 4, kv: 4 }).unwrap();
    let rows = vec![ListRow {
        partial: vec![0],
        full: vec![],
    }];
    let lists = BlockLists {
        batch: 1,
        heads: 1,
        rows,
    };
    let mask = BlockMask::from_lists(&geometry, &lists, ListsMeaning::Law).unwrap();
    let read = BlockMask::from_bytes(&mask.to_bytes()).unwrap();
    assert_eq!(
        (read.authority(), read.exactness()),
        (Authority::Lists, Exactness::Coarse)
    );
    assert_eq!(read, mask);
}

proptest! {
    #[test]
    fn a_file_holds_the_whole_mask(dense in any_dense(), size in any_block(), from in 0..5_u64) {
        let mask = dense.mask(size);
        prop_assert_eq!(&BlockMask::from_bytes(&mask.to_bytes()).unwrap(), &mask);
        let from = from.min(dense.q_len);
        let part = mask.slice_q(from..dense.q_len).unwrap().slice_heads(dense.heads - 1..dense.heads).unwrap();
        prop_assert_eq!(&BlockMask::from_bytes(&part.to_bytes()).unwrap(), &part);
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(BlockMask::from_bytes(&bytes).is_err());
        let headed = [MAGIC.as_slice(), &VERSION.to_le_bytes(), &(bytes.len() as u64).to_le_bytes(), &bytes].concat();
        let checksum = Sha256::digest(&headed);
        let _ = BlockMask::from_bytes(&[headed.as_slice(), &checksum].concat());
    }
}
