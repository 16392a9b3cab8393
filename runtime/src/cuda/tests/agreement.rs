//! Attention in the emulator against dense attention in float64.

use maskwright_dsl::block_mask::{
    BlockClass, BlockLists, BlockMask, BlockSize, CallShape, Geometry, ListRow, ListsMeaning,
};
use maskwright_dsl::bucket::{Bucket, Relation};
use maskwright_dsl::pipeline::Scope;

use super::bench::{Case, check, check_kernel, has_compiler};
use crate::attention::{ForwardOptions, Kernel, Rules, Tiles};
use crate::cuda::{
    CudaKernel, DeviceOutput, DeviceTensor, DeviceTensorMut, EmulatorOptions, Float, KernelShape,
    KernelStore, LaunchOptions, Machine, MaskBlocks, TileRuns,
};
use crate::{MaskRule, mask, score};

const TYPES: [Float; 3] = [Float::F16, Float::BF16, Float::F32];

fn windowed() -> MaskRule {
    let window = 40;
    mask!(|q, kv| kv <= q && q - kv < window)
}

#[test]
fn every_type_agrees_with_float64() {
    if !has_compiler() {
        return;
    }
    for dtype in TYPES {
        let record = check(&windowed().into(), Case::new(dtype, 150, 150), None);
        assert_eq!(record.dtype.name(), dtype.name());
        assert_eq!(record.device, "emulator of sm_80");
        assert!(record.kernel.contains(dtype.name()), "{}", record.kernel);
        assert!(record.kernel.contains("sm_80"), "{}", record.kernel);
    }
}

#[test]
fn groups_odd_lengths_and_uneven_dimensions() {
    if !has_compiler() {
        return;
    }
    let documents: Vec<i32> = (0..400).map(|i| i / 37).collect();
    let slope = vec![0.5_f32, 0.25, 0.125, 0.0625];
    let rules = Rules::both(
        mask!(|q, kv| documents[q] == documents[kv] || kv < 3),
        score!(|score, h, q, kv| score + slope[h] * (kv - q) as f32),
    );
    let case = Case {
        batch: 2,
        heads: 4,
        kv_heads: 2,
        d_qk: 40,
        d_v: 24,
        ..Case::new(Float::F16, 0, 0)
    };
    let scope = Scope::new(
        Bucket {
            q_len: 0..=300,
            kv_len: 0..=300,
            relation: Relation::Free,
            q_offset: 0..=99,
        },
        2,
        4,
    );
    // One compiled kernel for all lengths.
    let kernel = Kernel::compile(&rules, &scope).unwrap();
    for (q_len, kv_len, q_offset) in [
        (1, 1, 0),
        (7, 129, 5),
        (65, 64, 0),
        (128, 63, 99),
        (131, 300, 0),
        (5, 0, 0),
        (0, 5, 0),
    ] {
        let case = Case {
            q_len,
            kv_len,
            q_offset,
            ..case
        };
        check_kernel(&kernel, case, None);
    }
}

#[test]
fn without_rules_everything_is_attended() {
    if !has_compiler() {
        return;
    }
    let case = Case {
        heads: 3,
        kv_heads: 1,
        ..Case::new(Float::F32, 70, 90)
    };
    let record = check(&Rules::dense(), case, None);
    assert_eq!((record.tiles.partial, record.tiles.skipped), (0, 0));
}

#[test]
fn rows_without_a_key_are_zero() {
    if !has_compiler() {
        return;
    }
    let rule = mask!(|q, kv| q % 3 != 0 && kv + 20 <= q);
    for dtype in [Float::BF16, Float::F32] {
        check(&rule.clone().into(), Case::new(dtype, 100, 100), None);
    }
    // A rule that a score sends to −∞ empties rows as well.
    let rules = Rules::score(score!(|score, q, kv| if q < kv {
        score
    } else {
        -f32::INFINITY
    }));
    check(&rules, Case::new(Float::F16, 80, 80), None);
}

#[test]
fn a_slice_keeps_the_positions_of_its_rule() {
    if !has_compiler() {
        return;
    }
    let scope = Scope::new(Bucket::self_attention(1..=400), 2, 4);
    let rule =
        mask!(|b, h, q, kv| kv <= q && q - kv < 90 + 30 * h && (b == 0 || (q + kv) % 5 != 1));
    let kernel = Kernel::compile(&rule.into(), &scope).unwrap();
    let whole = kernel
        .block_mask_at(400, 400, 0, BlockSize { q: 64, kv: 64 })
        .unwrap();
    let sliced = whole.slice_q(128..400).unwrap().slice_kv(64..390).unwrap();
    let sliced = sliced.slice_heads(1..3).unwrap().slice_batch(1..2).unwrap();
    let case = Case {
        q_offset: 128,
        ..Case::new(Float::F16, 272, 326)
    };
    let record = check_kernel(&kernel, case, Some(&sliced));
    assert!(0 < record.tiles.skipped && 0 < record.tiles.partial);
}

#[test]
fn lists_that_are_the_law_decide_alone() {
    if !has_compiler() {
        return;
    }
    let geometry = Geometry::exact(1, 1, 256, 256, BlockSize { q: 128, kv: 128 }).unwrap();
    let row = |full: Vec<u32>, partial: Vec<u32>| ListRow { full, partial };
    let lists = BlockLists {
        batch: 1,
        heads: 1,
        rows: vec![row(vec![1], vec![]), row(vec![0], vec![1])],
    };
    let mask = BlockMask::from_lists(&geometry, &lists, ListsMeaning::Law).unwrap();
    let record = check(
        &windowed().into(),
        Case::new(Float::F16, 256, 256),
        Some(&mask),
    );
    // 128 x 64: each block is two tiles, for each of two heads.
    let expected = Tiles {
        full: 8,
        partial: 4,
        skipped: 4,
    };
    assert_eq!(record.tiles, expected);
}

#[test]
fn one_mask_of_a_bucket_serves_its_calls() {
    if !has_compiler() {
        return;
    }
    let scope = Scope::new(Bucket::self_attention(1..=300), 1, 2);
    let kernel = Kernel::compile(&windowed().into(), &scope).unwrap();
    for block in [BlockSize { q: 128, kv: 128 }, BlockSize { q: 32, kv: 16 }] {
        let mask = kernel.block_mask(block).unwrap();
        for len in [1, 65, 200, 300] {
            check_kernel(&kernel, Case::new(Float::BF16, len, len), Some(&mask));
        }
    }
}

#[test]
fn classes_change_no_bit_and_the_record_counts_what_ran() {
    if !has_compiler() {
        return;
    }
    let case = Case::new(Float::F16, 300, 300);
    let kernel = Kernel::compile(&windowed().into(), &case.scope()).unwrap();
    let mask = kernel.block_mask(BlockSize::default()).unwrap();
    let machine = Machine::emulator(EmulatorOptions {
        seed: 3,
        ..EmulatorOptions::default()
    });
    let shape = KernelShape {
        dtype: Float::F16,
        out_dtype: Float::F16,
        d_qk: 32,
        d_v: 32,
        blocks: Some(MaskBlocks::of(&mask)),
    };
    let cuda = CudaKernel::new(&kernel, &machine, &shape, &KernelStore::none()).unwrap();
    let inputs = case.inputs();
    let [q, k, v] = inputs
        .views()
        .map(|view| machine.upload(&view.row_major_bytes()).unwrap());
    let [q_shape, k_shape, v_shape] = case.shapes();
    let run = |block_mask| {
        let mut out = machine.alloc(2 * 300 * 32 * 2).unwrap();
        let launched = cuda
            .forward(
                DeviceTensor::contiguous(q.view(), Float::F16, q_shape),
                DeviceTensor::contiguous(k.view(), Float::F16, k_shape),
                DeviceTensor::contiguous(v.view(), Float::F16, v_shape),
                &LaunchOptions {
                    block_mask,
                    ..LaunchOptions::default()
                },
                &mut DeviceOutput {
                    out: DeviceTensorMut::contiguous(out.view_mut(), Float::F16, q_shape),
                    lse: None,
                    row_max: None,
                },
            )
            .unwrap();
        (out.download().unwrap(), launched)
    };
    let uploaded = cuda.upload_mask(&mask).unwrap();
    let (masked, ran) = run(Some(&uploaded));
    let (unmasked, all) = run(None);
    assert!(masked == unmasked, "the same bits whatever the classes are");
    let tile = cuda.compiled().text().plan().tile;
    let call = CallShape {
        batch: 1,
        heads: 2,
        q_len: 300,
        kv_len: 300,
        q_offset: 0,
    };
    assert_eq!(
        ran.record.tiles,
        TileRuns::new(&mask, tile).unwrap().tiles(&call)
    );
    assert_eq!(
        all.record.tiles,
        TileRuns::uniform(tile, BlockClass::Partial).tiles(&call)
    );
    // Work on tensor cores is in proportion to the tiles.
    let computed = |tiles: Tiles| tiles.full + tiles.partial;
    let operations =
        |launched: &crate::cuda::Launched| launched.counters.as_ref().unwrap().tensor.mma;
    assert_eq!(
        operations(&ran) * computed(all.record.tiles),
        operations(&all) * computed(ran.record.tiles)
    );
}

#[test]
fn other_values_run_the_same_code() {
    if !has_compiler() {
        return;
    }
    let rule = |window: i32, labels: Vec<u8>| {
        Rules::mask(mask!(|q, kv| q - kv < window && labels[q] <= labels[kv]))
    };
    let case = Case::new(Float::F16, 90, 90);
    let kernel = Kernel::compile(
        &rule(30, (0..90).map(|i| (i % 7) as u8).collect()),
        &case.scope(),
    )
    .unwrap();
    check_kernel(&kernel, case, None);
    let again = kernel
        .rebind(&rule(30, (0..90).map(|i| (i % 5) as u8).collect()))
        .unwrap();
    check_kernel(&again, case, None);
    let options = ForwardOptions::default();
    assert_eq!(options.block, BlockSize::default());
}
