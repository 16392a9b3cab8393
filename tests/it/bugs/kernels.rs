//! Reports about what a kernel reads and where, in the forward kernel for GPUs in the emulator.

use maskwright::cuda::{Float, KernelShape, KernelStore, KernelText, Target, TileRuns};
use maskwright::jit::nvrtc;
use maskwright::{Kernel, MaskRule, Rules, ScoreRule};
use maskwright_codegen::plan::RuleRole;
use maskwright_dsl::block_mask::{BlockClass, BlockMask, BlockSize};
use maskwright_dsl::capture::BufferData;
use maskwright_tests::bare::{Bare, Placed};
use maskwright_tests::call::{Extents, Inputs, LSE_TOLERANCE, compare, output_tolerance};
use maskwright_tests::direct::{
    Size, allowed, bind, bind_mask, buffer, cells, counts, int, prepared_at, scope,
};
use maskwright_tests::engine::KernelCall;
use ptx_emulator::Options;

use super::{CAUSAL, corpus_text, of_corpus};

/// Cells of a mask in the kernel, which must be those of the interpreter; at positions from `q_offset` on.
#[track_caller]
fn cells_in_kernel(
    rule: &MaskRule,
    size: Size,
    q_offset: i64,
    mask: Option<BlockMask>,
) -> Vec<bool> {
    let kernel = Kernel::compile(&Rules::mask(rule.clone()), &scope(size, q_offset));
    let kernel = kernel.unwrap_or_else(|error| panic!("{error}"));
    let [batch, heads, q_len, kv_len] = size.map(|n| n as usize);
    let exact = || {
        kernel.block_mask_at(
            q_len as u64,
            kv_len as u64,
            q_offset,
            BlockSize { q: 128, kv: 128 },
        )
    };
    let mask = mask.unwrap_or_else(|| exact().expect("the call is in scope"));
    let call = KernelCall {
        kernel: &kernel,
        mask: Some(mask),
        kernels: &KernelStore::none(),
    };
    let extents = Extents {
        batch,
        heads,
        kv_heads: 1,
        q_len,
        kv_len,
        d_qk: 16,
        d_v: if kv_len <= 512 { 32 } else { 256 },
    };
    let found = call.cells(extents, Float::BF16, q_offset);
    let found = found.unwrap_or_else(|fault| panic!("{fault}"));
    let expected = cells(&prepared_at(rule.bound(), size, q_offset));
    assert!(found == expected, "the kernel has other cells");
    found
}

fn has_compiler() -> bool {
    nvrtc::for_test().is_some()
}

#[test]
fn b03_tables_as_long_as_the_prompt() {
    if !has_compiler() {
        return;
    }
    // The emulator reports every read beyond the 15 and 143 entries.
    let cartridge = of_corpus("M90", "n");
    let rule = MaskRule::new(cartridge.original().clone()).expect("it is a mask");
    let found = cells_in_kernel(&rule, [1, 1, 15, 143], 0, None);
    assert_eq!(allowed(&found), 1986);
}

#[test]
fn b06_products_of_constants_and_positions() {
    if !has_compiler() {
        return;
    }
    let values = [int(512), int(50), int(1024), int(24)];
    let rule = bind_mask(corpus_text("M96"), &values);
    for q_offset in [505, 25_584] {
        cells_in_kernel(&rule, [1, 1, 16, 25_600], q_offset, None);
    }
}

#[test]
fn b07_long_keys_in_one_tile() {
    if !has_compiler() {
        return;
    }
    let rule = bind_mask(CAUSAL, &[]);
    let kernel = Kernel::compile(&Rules::mask(rule), &scope([1, 1, 16, 200_000], 0));
    let kernel = kernel.expect("the rule is valid");
    let mask = kernel.block_mask_at(16, 200_000, 0, BlockSize { q: 128, kv: 128 });
    let mask = mask.expect("it is in scope");
    assert_eq!(counts(&mask), [0, 1, 1562]);
    let (shape, prepared) = (shape(16), kernel.prepared_mask());
    let text = KernelText::new(prepared, None, &shape, Target::SM80).expect("there is a kernel");
    let bare = Bare::compile(&text).unwrap_or_else(|error| panic!("{error}"));
    let runs = TileRuns::new(&mask, bare.plan.tile).expect("the tile divides the block");
    // Only the keys of the first block are there.
    let extents = Extents {
        heads: 1,
        kv_heads: 1,
        ..Extents::new(16, 128, 16)
    };
    let mut inputs = Inputs::drawn(extents, Float::BF16, 1);
    let expected = inputs.reference(kernel.rules(), 0, None);
    inputs.extents.kv_len = 200_000;
    inputs.k.resize(200_000 * 16, 0.0);
    inputs.v.resize(200_000 * 16, 0.0);
    let placed = Placed::new(&inputs, prepared, None, &runs);
    let (written, row) = (128 * 32, 32);
    for tensor in [1, 2] {
        let at = placed.addresses[tensor] + written as u64;
        let forgotten = placed.memory.forget(at, 200_000 * row - written);
        forgotten.expect("the tensor is there");
    }
    let done = bare.launch(&placed, &Options::default());
    done.unwrap_or_else(|report| panic!("{report}"));
    check_results(&placed, &expected);
}

fn shape(d: u32) -> KernelShape {
    KernelShape {
        dtype: Float::BF16,
        out_dtype: Float::BF16,
        d_qk: d,
        d_v: d,
        blocks: None,
    }
}

#[track_caller]
fn check_results(placed: &Placed<'_>, expected: &maskwright::reference::DenseOutput) {
    let found = placed.results().unwrap_or_else(|error| panic!("{error}"));
    let tolerance = output_tolerance(placed.inputs.dtype);
    compare("lse", &expected.lse, &found.lse, LSE_TOLERANCE)
        .and_then(|()| compare("output", &expected.out, &found.out, tolerance))
        .unwrap_or_else(|error| panic!("{error}"));
}

/// Puts the parts of a buffer into allocations that are equally far apart, each followed by `gap` that hold a byte; the
/// emulator leaves a MiB free after each. Returns the address of the first part, and bytes from one to the next.
fn spread(placed: &Placed<'_>, parts: &[&[u8]], gap: usize) -> (u64, i64) {
    let mut addresses = Vec::new();
    for part in parts {
        // All parts take equally much, so that their distances are equal.
        addresses.push(placed.memory.alloc_from(part));
        for _ in 0..gap {
            placed.memory.alloc(1).expect("a byte fits");
        }
    }
    let distance = addresses[1] - addresses[0];
    assert!(
        addresses
            .windows(2)
            .all(|pair| pair[1] - pair[0] == distance)
    );
    (addresses[0], distance as i64)
}

#[test]
fn b08_b09_captured_offsets_beyond_32_bits() {
    if !has_compiler() {
        return;
    }
    // A bias of one byte an element, whose batch rows are 2^31 elements apart; and a table whose third row is that far away.
    let rule = "score biased(t: [u8; 2, 3, 16]) = score + t[b, q, kv] as f32";
    let elements: Vec<u8> = (0..2 * 3 * 16).map(|i| (i * 7 % 5) as u8).collect();
    let table = buffer(BufferData::U8(elements.clone().into()), &[2, 3, 16]);
    let score = ScoreRule::new(bind(rule, &[table])).expect("it is a score rule");
    let rules = Rules::score(score);
    let kernel = Kernel::compile(&rules, &scope([2, 1, 3, 16], 0)).expect("the rule is valid");
    let prepared = kernel.prepared_score();
    let text = KernelText::new(None, prepared, &shape(16), Target::SM80).expect("there is one");
    let bare = Bare::compile(&text).unwrap_or_else(|error| panic!("{error}"));
    let extents = Extents {
        batch: 2,
        heads: 1,
        kv_heads: 1,
        ..Extents::new(3, 16, 16)
    };
    let inputs = Inputs::drawn(extents, Float::BF16, 2);
    let expected = inputs.reference(&rules, 0, None);
    let runs = TileRuns::uniform(bare.plan.tile, BlockClass::Full);
    let check = |move_buffer: &dyn Fn(&Placed<'_>) -> (u64, Vec<i64>)| {
        let mut placed = Placed::new(&inputs, None, prepared, &runs);
        let (address, strides) = move_buffer(&placed);
        let beyond: i64 = strides.iter().zip([1, 2, 15]).map(|(s, i)| s * i).sum();
        assert!(i64::from(i32::MAX) < beyond);
        assert_eq!(
            (placed.buffers[0].0, placed.buffers[0].1),
            (RuleRole::Score, 0)
        );
        (placed.buffers[0].2, placed.buffers[0].3) = (address, strides);
        let done = bare.launch(&placed, &Options::default());
        done.unwrap_or_else(|report| panic!("{report}"));
        check_results(&placed, &expected);
    };
    check(&|placed| {
        let batches: Vec<&[u8]> = elements.chunks(48).collect();
        let (address, distance) = spread(placed, &batches, 2100);
        (address, vec![distance, 16, 1])
    });
    check(&|placed| {
        // Rows of both batch entries side by side.
        let row = |q: usize| [&elements[q * 16..][..16], &elements[48 + q * 16..][..16]].concat();
        let rows = [row(0), row(1), row(2)];
        let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
        let (address, distance) = spread(placed, &rows, 1100);
        (address, vec![16, distance, 1])
    });
}

#[test]
fn b08_b09_tensors_beyond_32_bits() {
    if !has_compiler() {
        return;
    }
    let rules = Rules::mask(bind_mask(CAUSAL, &[]));
    let kernel = Kernel::compile(&rules, &scope([2, 1, 20, 20], 0)).expect("the rule is valid");
    let prepared = kernel.prepared_mask();
    let text = KernelText::new(prepared, None, &shape(16), Target::SM80).expect("there is one");
    let bare = Bare::compile(&text).unwrap_or_else(|error| panic!("{error}"));
    let extents = Extents {
        batch: 2,
        heads: 1,
        kv_heads: 1,
        ..Extents::new(20, 20, 16)
    };
    let inputs = Inputs::drawn(extents, Float::BF16, 3);
    let expected = inputs.reference(&rules, 0, None);
    let runs = TileRuns::uniform(bare.plan.tile, BlockClass::Partial);
    // Batch entries, and then rows, so far apart that the last element is 2^31 elements away, 2^32 bytes.
    for (parts, axis, gap) in [(2, 0, 4200), (40, 2, 220)] {
        let mut placed = Placed::new(&inputs, prepared, None, &runs);
        for tensor in 0..3 {
            let bytes = placed.memory.read(placed.addresses[tensor], 40 * 32);
            let bytes = bytes.expect("the tensor is there");
            let parts: Vec<&[u8]> = bytes.chunks(40 * 32 / parts).collect();
            let (address, distance) = spread(&placed, &parts, gap);
            placed.addresses[tensor] = address;
            placed.strides[tensor][axis] = distance / 2;
            if axis == 2 {
                placed.strides[tensor][0] = 20 * distance / 2;
            }
            let [batch, _, row] = placed.strides[tensor];
            assert!(i64::from(i32::MAX) < batch + 19 * row);
        }
        let done = bare.launch(&placed, &Options::default());
        done.unwrap_or_else(|report| panic!("{report}"));
        check_results(&placed, &expected);
    }
}

#[test]
fn b16_cropped_masks_in_the_kernel() {
    if !has_compiler() {
        return;
    }
    let rule = bind_mask("mask everything() = true", &[]);
    let whole = super::blocks(&super::prepared(rule.bound(), [1, 1, 256, 257]), 128, 128);
    let cropped = whole.crop(101, 129).expect("both are shorter");
    let found = cells_in_kernel(&rule, [1, 1, 101, 129], 0, Some(cropped));
    assert_eq!(allowed(&found), 13_029);
}

#[test]
fn b26_b59_b77_branches_chunks_and_decoding() {
    if !has_compiler() {
        return;
    }
    let branch = "mask branch() = if q < 4 { kv < 4 } else { q >= kv }";
    let found = cells_in_kernel(&bind_mask(branch, &[]), [1, 1, 9, 9], 0, None);
    assert_eq!(allowed(&found), 51);
    let causal = bind_mask(CAUSAL, &[]);
    let found = cells_in_kernel(&causal, [1, 1, 128, 256], 128, None);
    assert_eq!(allowed(&found), 24_640);
    let found = cells_in_kernel(&causal, [1, 1, 1, 2048], 100, None);
    assert_eq!(allowed(&found), 101);
}
