//! Any bytes and any tensors are a block mask or an error; a mask that is read is written and read again the same.
#![no_main]

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use maskwright_dsl::block_mask::{
    BlockMask, BlockSize, CellFn, Geometry, ListsMeaning, TorchBlockMask, TorchTensor,
};
use sha2::{Digest, Sha256};

/// Bytes before the payload of a file, and after it.
const HEADER: usize = 20;
const CHECKSUM: usize = 32;

/// Blocks beyond which a mask is not written out whole.
const MAX_BLOCKS: u128 = 4096;

/// The bytes as a file whose length and checksum are right, so that the payload is looked at.
fn sealed(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut file = bytes.to_vec();
    let end = file.len().checked_sub(CHECKSUM)?;
    let payload = (end.checked_sub(HEADER)? as u64).to_le_bytes();
    file[HEADER - 8..HEADER].copy_from_slice(&payload);
    let checksum = Sha256::digest(&file[..end]);
    file[end..].copy_from_slice(&checksum);
    Some(file)
}

fn check_mask(mask: &BlockMask) {
    let written = mask.to_bytes();
    let again = BlockMask::from_bytes(&written).expect("what is written can be read");
    assert_eq!(again, *mask);
    let (rows, cols) = (u128::from(mask.rows()), u128::from(mask.cols()));
    let entries = u128::from(mask.batch()) * u128::from(mask.heads());
    let blocks = entries
        .checked_mul(rows)
        .and_then(|blocks| blocks.checked_mul(cols));
    if blocks.is_none_or(|blocks| MAX_BLOCKS < blocks) {
        return;
    }
    let counts = mask.counts();
    assert_eq!(counts.total(), entries * rows * cols);
    assert_eq!(mask.not().not(), *mask);
    assert_eq!(mask.class_bytes().count() as u128, entries * rows * cols);
    let tensors = mask.to_torch().expect("a small mask fits in memory");
    if mask.bucket().is_single() {
        let law = BlockMask::from_torch(mask.geometry(), &tensors, ListsMeaning::Law);
        let law = law.expect("what is written can be read");
        assert_eq!(law.class_sha256(), mask.class_sha256());
    }
}

fn geometry(u: &mut Unstructured<'_>) -> Result<Option<Geometry>> {
    let [batch, heads] = [u.int_in_range(0..=3)?, u.int_in_range(0..=3)?];
    let [q_len, kv_len] = [u.int_in_range(0..=40)?, u.int_in_range(0..=40)?];
    let block = BlockSize {
        q: u.int_in_range(0..=20)?,
        kv: u.int_in_range(0..=20)?,
    };
    Ok(Geometry::exact(batch, heads, q_len, kv_len, block).ok())
}

/// Mostly of the shape that is wanted, so that what lies deeper is reached.
fn tensor(u: &mut Unstructured<'_>, wanted: &[usize]) -> Result<TorchTensor> {
    let mut shape = wanted.to_vec();
    if u.ratio(1, 8)? {
        shape = u
            .arbitrary_iter::<u8>()?
            .take(5)
            .flatten()
            .map(usize::from)
            .collect();
    }
    let mut count: usize = shape.iter().product();
    if u.ratio(1, 8)? {
        count = u.int_in_range(0..=64)?;
    }
    let data = (0..count.min(4096))
        .map(|_| u.int_in_range(-1..=9))
        .collect::<Result<_>>()?;
    Ok(TorchTensor { shape, data })
}

fn torch(u: &mut Unstructured<'_>) -> Result<()> {
    let Some(geometry) = geometry(u)? else {
        return Ok(());
    };
    let lead = [geometry.batch() as usize, geometry.heads() as usize];
    let [rows, cols] = [geometry.rows() as usize, geometry.cols() as usize];
    let pair = |u: &mut Unstructured<'_>, lists: usize, width: usize| -> Result<_> {
        let counts = tensor(u, &[lead[0], lead[1], lists])?;
        Ok((counts, tensor(u, &[lead[0], lead[1], lists, width])?))
    };
    let maybe = |u: &mut Unstructured<'_>, lists: usize, width: usize| -> Result<_> {
        let (counts, indices) = pair(u, lists, width)?;
        Ok((
            u.arbitrary::<bool>()?.then_some(counts),
            u.arbitrary::<bool>()?.then_some(indices),
        ))
    };
    let (kv_num_blocks, kv_indices) = pair(u, rows, cols)?;
    let (full_kv_num_blocks, full_kv_indices) = maybe(u, rows, cols)?;
    let (q_num_blocks, q_indices) = maybe(u, cols, rows)?;
    let (full_q_num_blocks, full_q_indices) = maybe(u, cols, rows)?;
    let tensors = TorchBlockMask {
        kv_num_blocks,
        kv_indices,
        full_kv_num_blocks,
        full_kv_indices,
        q_num_blocks,
        q_indices,
        full_q_num_blocks,
        full_q_indices,
    };
    let causal = CellFn(|_, _, q: i64, kv: i64| kv <= q);
    for meaning in [ListsMeaning::Law, ListsMeaning::Claim(&causal)] {
        match BlockMask::from_torch(&geometry, &tensors, meaning) {
            Ok(mask) => check_mask(&mask),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(mask) = BlockMask::from_bytes(bytes) {
        check_mask(&mask);
    }
    if let Some(Ok(mask)) = sealed(bytes).map(|file| BlockMask::from_bytes(&file)) {
        check_mask(&mask);
    }
    // Too few bytes for the tensors are no fault of anyone.
    let _ = torch(&mut Unstructured::new(bytes));
});
