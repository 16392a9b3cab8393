//! Tests of the tensors of `PyTorch`.

use proptest::prelude::*;

use super::super::model::{all, any_block, any_dense, causal, counted, exact};
use super::*;

#[test]
fn listed_blocks_come_first_and_then_the_others() {
    let tensors = exact(384, 384, (128, 128), &causal()).to_torch().unwrap();
    assert_eq!(tensors.kv_num_blocks.shape, [1, 1, 3]);
    assert_eq!(tensors.kv_num_blocks.data, [1, 1, 1]);
    assert_eq!(tensors.kv_indices.shape, [1, 1, 3, 3]);
    assert_eq!(tensors.kv_indices.data, [0, 1, 2, 1, 0, 2, 2, 0, 1]);
    assert_eq!(tensors.full_kv_num_blocks.unwrap().data, [0, 1, 2]);
    assert_eq!(
        tensors.full_kv_indices.unwrap().data,
        [0, 1, 2, 0, 1, 2, 0, 1, 2]
    );
    assert_eq!(tensors.q_num_blocks.unwrap().data, [1, 1, 1]);
    assert_eq!(tensors.full_q_num_blocks.unwrap().data, [2, 1, 0]);
    assert_eq!(
        tensors.full_q_indices.unwrap().data,
        [1, 2, 0, 2, 0, 1, 0, 1, 2]
    );
}

#[test]
fn overhanging_blocks_are_never_full() {
    let mask = exact(200, 200, (128, 128), &all());
    let tensors = mask.to_torch().unwrap();
    assert_eq!(tensors.full_kv_num_blocks.as_ref().unwrap().data, [1, 0]);
    assert_eq!(tensors.kv_num_blocks.data, [1, 2]);
    // Full blocks that overhang, as some versions leave them, are read; nothing changes in the report.
    let crowded = TorchBlockMask {
        kv_num_blocks: TorchTensor {
            shape: vec![1, 1, 2],
            data: vec![0, 0],
        },
        kv_indices: TorchTensor {
            shape: vec![1, 1, 2, 0],
            data: vec![],
        },
        full_kv_num_blocks: Some(TorchTensor {
            shape: vec![1, 1, 2],
            data: vec![2, 2],
        }),
        full_kv_indices: Some(TorchTensor {
            shape: vec![1, 1, 2, 2],
            data: vec![1, 0, 0, 1],
        }),
        q_num_blocks: None,
        q_indices: None,
        full_q_num_blocks: None,
        full_q_indices: None,
    };
    let read =
        BlockMask::from_torch(mask.geometry(), &crowded, ListsMeaning::Claim(&all())).unwrap();
    assert_eq!(read, mask);
    assert_eq!(counted(&read), (1, 3, 0));
}

#[track_caller]
fn refuses(change: impl FnOnce(&mut TorchBlockMask), message: &str) {
    let mask = exact(384, 512, (128, 128), &causal());
    let mut tensors = mask.to_torch().unwrap();
    change(&mut tensors);
    let error = BlockMask::from_torch(mask.geometry(), &tensors, ListsMeaning::Law).unwrap_err();
    assert_eq!(error.to_string(), message);
}

#[test]
fn errors_name_the_tensor_and_the_position() {
    refuses(
        |t| t.kv_num_blocks.shape = vec![2, 1, 3],
        "kv_num_blocks: expected shape [1 or 1, 1 or 1, 3], found [2, 1, 3]",
    );
    refuses(
        |t| t.kv_num_blocks.shape = vec![1, 1, 4],
        "kv_num_blocks: expected shape [1, 1, 3], found [1, 1, 4]",
    );
    refuses(
        |t| t.kv_indices.shape = vec![1, 3, 4],
        "kv_indices: expected shape [1, 1, 3, any], found [1, 3, 4]",
    );
    refuses(
        |t| t.kv_indices.shape = vec![1, 1, 3, usize::MAX],
        &format!(
            "kv_indices: shape [1, 1, 3, {}] does not have 12 elements",
            usize::MAX
        ),
    );
    refuses(
        |t| t.q_indices = None,
        "q_num_blocks is given without q_indices",
    );
    refuses(
        |t| t.kv_num_blocks.data[1] = 5,
        "kv_num_blocks[0, 0, 1] is 5, expected 0..=4",
    );
    refuses(
        |t| t.kv_num_blocks.data[2] = -1,
        "kv_num_blocks[0, 0, 2] is -1, expected 0..=4",
    );
    refuses(
        |t| t.kv_indices.data[4] = -2,
        "kv_indices[0, 0, 1, 0] is -2, expected a block below 4",
    );
    refuses(
        |t| t.full_kv_indices.as_mut().unwrap().data[8..10].copy_from_slice(&[1, 1]),
        "full_kv_indices[0, 0, 2, 1] lists block 1 a second time",
    );
    refuses(
        |t| t.kv_indices.data[8] = 0,
        "full_kv_indices and kv_indices both list block 0 in row [0, 0, 2]",
    );
    refuses(
        |t| t.full_q_num_blocks.as_mut().unwrap().data[0] = 1,
        "full_q_indices[0, 0, 0] makes block (2, 0) empty, but the kv tensors make it full",
    );
    refuses(
        |t| t.q_indices.as_mut().unwrap().data[3] = 0,
        "q_indices[0, 0, 1] makes block (0, 1) partial, but the kv tensors make it empty",
    );
}

proptest! {
    #[test]
    fn tensors_and_mask_say_the_same(dense in any_dense(), size in any_block()) {
        let mask = dense.mask(size);
        let tensors = mask.to_torch().unwrap();
        let read = BlockMask::from_torch(mask.geometry(), &tensors, ListsMeaning::Law).unwrap();
        for (b, h) in mask.logical_entries() {
            for row in 0..mask.rows() {
                for col in 0..mask.cols() {
                    prop_assert_eq!(read.class(b, h, row, col), mask.reported_class(b, h, row, col));
                }
            }
        }
        prop_assert_eq!(read.to_torch().unwrap(), tensors.clone());
        let claimed = BlockMask::from_torch(mask.geometry(), &tensors, ListsMeaning::Claim(&dense.rule())).unwrap();
        prop_assert_eq!(claimed.demote_full().reclassify(&dense.rule()).unwrap(), mask.clone());
        // Each row of indices is a permutation of all blocks.
        for row in tensors.kv_indices.data.chunks(mask.cols().max(1) as usize) {
            let mut sorted = row.to_vec();
            sorted.sort_unstable();
            prop_assert!(sorted.into_iter().eq(0..mask.cols() as i32));
        }
    }
}
