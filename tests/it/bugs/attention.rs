//! Reports about what attention gives, or refuses.

use half::bf16;
use maskwright::tensor::TensorData;
use maskwright::{
    Attended, Backend, ForwardOptions, Kernel, MaskRule, Rules, ScoreRule, TensorRef,
};
use maskwright_dsl::block_mask::{
    BlockLists, BlockMask, BlockSize, Geometry, ListRow, ListsMeaning,
};
use maskwright_dsl::capture::{BufferData, CaptureValue};
use maskwright_tests::call::compare;
use maskwright_tests::direct::{Size, bind, bind_mask, blocks, buffer, int, ints, prepared, scope};
use maskwright_tests::expect::{Attention, check_attention, logsumexp};
use maskwright_tests::recipe::hash_f32;

use super::{CAUSAL, corpus_text};

/// How far an output may lie from its reference: 256 products of numbers below 4, in f32.
const TOLERANCE: f64 = 1e-6;

const HEAD_DIM: usize = 16;

/// How far an output of the GPU's kernel may lie from that of the CPU: products of two parts keep 22 bits of each factor.
const EMULATED_TOLERANCE: f64 = 5e-6;

/// Drawn tensors of one call.
struct Tensors {
    size: Size,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
}

impl Tensors {
    fn new(size: Size) -> Self {
        let [batch, heads, q_len, kv_len] = size.map(|n| n as usize);
        let draw = |seed, len: usize| -> Vec<f32> {
            let n = (batch * heads * len * HEAD_DIM) as u64;
            (0..n).map(|i| hash_f32(seed, -1.0, 1.0, i)).collect()
        };
        Self {
            size,
            q: draw(1, q_len),
            k: draw(2, kv_len),
            v: draw(3, kv_len),
        }
    }

    fn views(&self) -> [TensorRef<'_>; 3] {
        let [batch, heads, q_len, kv_len] = self.size.map(|n| n as usize);
        let view = |data, len| {
            TensorRef::contiguous(data, [batch, heads, len, HEAD_DIM]).expect("the data fits")
        };
        [
            view(&self.q, q_len),
            view(&self.k, kv_len),
            view(&self.v, kv_len),
        ]
    }

    /// Runs attention with the kernel that was compiled for the exact size, on the CPU and where there is a compiler in the
    /// emulator of GPUs as well, which must agree.
    #[track_caller]
    fn run(&self, rules: &Rules, options: &ForwardOptions<'_>) -> Attended {
        let done = self
            .try_run(rules, options)
            .unwrap_or_else(|error| panic!("{error}"));
        if options.backend == Backend::Auto && maskwright::jit::nvrtc::for_test().is_some() {
            let emulated = self.try_run(rules, &on_emulator(options));
            let emulated = emulated.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(emulated.record.backend, Backend::Emulator);
            let close = |what, expected: &[f32], found: &[f32]| {
                let expected: Vec<f64> = expected.iter().map(|x| f64::from(*x)).collect();
                compare(what, &expected, found, EMULATED_TOLERANCE)
                    .unwrap_or_else(|error| panic!("in the emulator: {error}"));
            };
            close("output", floats(&done), floats(&emulated));
            close("lse", &done.lse, &emulated.lse);
            close("row max", &done.row_max, &emulated.row_max);
        }
        done
    }

    fn try_run(
        &self,
        rules: &Rules,
        options: &ForwardOptions<'_>,
    ) -> Result<Attended, maskwright::AttentionError> {
        let [q, k, v] = self.views();
        maskwright::attention(q, k, v, rules, options)
    }

    /// The output in f64, from allowed cells `[batch, heads, queries, keys]`.
    fn reference(&self, cells: &[bool]) -> Vec<f64> {
        let [_, _, q_len, kv_len] = self.size.map(|n| n as usize);
        let scale = 1.0 / (HEAD_DIM as f64).sqrt();
        let mut out = Vec::new();
        for (row, cells) in cells.chunks(kv_len).enumerate() {
            let keys = row / q_len * kv_len;
            let q = &self.q[row * HEAD_DIM..][..HEAD_DIM];
            let weight = |kv: usize| {
                let k = &self.k[(keys + kv) * HEAD_DIM..][..HEAD_DIM];
                let products = q.iter().zip(k).map(|(q, k)| f64::from(*q) * f64::from(*k));
                if cells[kv] {
                    (products.sum::<f64>() * scale).exp()
                } else {
                    0.0
                }
            };
            let weights: Vec<f64> = (0..kv_len).map(weight).collect();
            let sum: f64 = weights.iter().sum();
            out.extend((0..HEAD_DIM).map(|d| {
                let value = |kv: usize| f64::from(self.v[(keys + kv) * HEAD_DIM + d]);
                let total: f64 = (0..kv_len).map(|kv| weights[kv] * value(kv)).sum();
                if sum == 0.0 { 0.0 } else { total / sum }
            }));
        }
        out
    }
}

#[track_caller]
fn floats(done: &Attended) -> &[f32] {
    match &done.out.data {
        TensorData::F32(out) => out,
        other => panic!("the output is {other:?}"),
    }
}

fn bits(done: &Attended) -> Vec<u32> {
    let lse = done.lse.iter().map(|x| x.to_bits());
    floats(done)
        .iter()
        .map(|x| x.to_bits())
        .chain(lse)
        .collect()
}

#[track_caller]
fn check_close(found: &[f32], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let distance = (f64::from(*found) - expected).abs();
        // Written so that a NaN on either side fails.
        assert!(
            distance <= TOLERANCE,
            "element {at}: expected {expected}, found {found}"
        );
    }
}

/// The same call in the emulator.
fn on_emulator<'a>(options: &ForwardOptions<'a>) -> ForwardOptions<'a> {
    ForwardOptions {
        backend: Backend::Emulator,
        ..*options
    }
}

fn causal() -> Rules {
    Rules::mask(bind_mask(CAUSAL, &[]))
}

fn causal_cells(planes: usize, n: usize) -> Vec<bool> {
    (0..planes * n * n).map(|at| at % n <= at / n % n).collect()
}

#[test]
fn b12_attention_refuses_a_mask_of_another_shape() {
    let mask = blocks(&prepared(&bind(CAUSAL, &[]), [2, 1, 8, 8]), 128, 128);
    let options = ForwardOptions {
        block_mask: Some(&mask),
        ..ForwardOptions::default()
    };
    for options in [options, on_emulator(&options)] {
        let error = Tensors::new([3, 2, 8, 8]).try_run(&causal(), &options);
        let message = error.expect_err("the batch differs").to_string();
        for part in ["B=2", "H=1", "B=3", "H=2"] {
            assert!(message.contains(part), "{part} is missing: {message}");
        }
    }
    let mask = blocks(&prepared(&bind(CAUSAL, &[]), [1, 1, 8, 8]), 128, 128);
    let options = ForwardOptions {
        block_mask: Some(&mask),
        ..ForwardOptions::default()
    };
    let tensors = Tensors::new([3, 2, 8, 8]);
    let done = tensors.run(&causal(), &options);
    check_close(floats(&done), &tensors.reference(&causal_cells(6, 8)));
}

#[test]
fn b18_decoding_with_a_sliced_mask() {
    let rules = causal();
    let tensors = Tensors::new([4, 8, 1, 512]);
    let cells: Vec<bool> = (0..32 * 512).map(|at| at % 512 <= 300).collect();
    let expected = tensors.reference(&cells);
    let causal = bind(CAUSAL, &[]);
    let mut outputs = Vec::new();
    for heads in [1, 8] {
        let whole = blocks(&prepared(&causal, [4, heads, 512, 512]), 128, 128);
        let sliced = whole.slice_q(300..301).expect("the row is there");
        let options = ForwardOptions {
            q_offset: 300,
            block_mask: Some(&sliced),
            ..ForwardOptions::default()
        };
        let done = tensors.run(&rules, &options);
        check_close(floats(&done), &expected);
        outputs.push(bits(&done));
    }
    assert_eq!(outputs[0], outputs[1]);
    let unmasked = ForwardOptions {
        q_offset: 300,
        ..ForwardOptions::default()
    };
    check_close(floats(&tensors.run(&rules, &unmasked)), &expected);
}

#[test]
fn b22_results_do_not_depend_on_the_block_size() {
    let tensors = Tensors::new([1, 2, 256, 256]);
    let expected = tensors.reference(&causal_cells(2, 256));
    let mut outputs = Vec::new();
    for (q, kv) in [
        (128, 128),
        (64, 64),
        (32, 32),
        (16, 16),
        (128, 64),
        (64, 128),
    ] {
        let options = ForwardOptions {
            block: BlockSize { q, kv },
            ..ForwardOptions::default()
        };
        let done = tensors.run(&causal(), &options);
        check_close(floats(&done), &expected);
        outputs.push(bits(&done));
    }
    for output in &outputs[1..] {
        assert_eq!(*output, outputs[0]);
    }
}

#[test]
fn b24_full_blocks_listed_as_partial_change_no_bit() {
    let tensors = Tensors::new([1, 1, 256, 256]);
    let mask = blocks(&prepared(&bind(CAUSAL, &[]), [1, 1, 256, 256]), 64, 64);
    let rows = (0..4).map(|row| ListRow {
        partial: (0..=row).collect(),
        full: Vec::new(),
    });
    let lists = BlockLists {
        batch: 1,
        heads: 1,
        rows: rows.collect(),
    };
    let all_partial = BlockMask::from_lists(mask.geometry(), &lists, ListsMeaning::Law);
    let all_partial = all_partial.expect("the lists fit");
    assert_eq!((mask.counts().full, all_partial.counts().full), (6, 0));
    let outputs = [&mask, &all_partial].map(|mask| {
        let options = ForwardOptions {
            block_mask: Some(mask),
            ..ForwardOptions::default()
        };
        let done = tensors.run(&causal(), &options);
        check_close(floats(&done), &tensors.reference(&causal_cells(1, 256)));
        bits(&done)
    });
    assert_eq!(outputs[0], outputs[1]);
}

#[test]
fn b25_attention_looks_at_lists_without_a_rule() {
    let size = BlockSize { q: 64, kv: 64 };
    let geometry = Geometry::exact(1, 1, 256, 256, size).expect("it fits");
    let seen: [[usize; 2]; 4] = [[0, 2], [1, 3], [0, 3], [2, 3]];
    let rows = seen.map(|blocks| ListRow {
        full: blocks.iter().map(|block| *block as u32).collect(),
        partial: Vec::new(),
    });
    let lists = BlockLists {
        batch: 1,
        heads: 1,
        rows: rows.to_vec(),
    };
    let mask = BlockMask::from_lists(&geometry, &lists, ListsMeaning::Law).expect("they fit");
    let tensors = Tensors::new([1, 1, 256, 256]);
    let cells: Vec<bool> = (0..256 * 256)
        .map(|at| seen[at / 256 / 64].contains(&(at % 256 / 64)))
        .collect();
    let options = ForwardOptions {
        block_mask: Some(&mask),
        ..ForwardOptions::default()
    };
    let everything = Rules::mask(bind_mask("mask everything() = true", &[]));
    for rules in [Rules::dense(), everything] {
        let done = tensors.run(&rules, &options);
        check_close(floats(&done), &tensors.reference(&cells));
    }
}

#[test]
fn b27_a_broadcast_mask_is_refused_where_the_rule_reads_the_batch() {
    let rule = bind(corpus_text("M05"), &[ints(&[0, 4, 8])]);
    let mask = blocks(&prepared(&rule, [1, 1, 2, 10]), 128, 128);
    let rules = Rules::mask(MaskRule::new(rule).expect("it is a mask"));
    let tensors = Tensors::new([3, 1, 2, 10]);
    let options = ForwardOptions {
        block_mask: Some(&mask),
        ..ForwardOptions::default()
    };
    let error = tensors
        .try_run(&rules, &options)
        .expect_err("the rule reads b");
    assert!(error.to_string().contains("reads `b`"), "{error}");
    let error = tensors.try_run(&rules, &on_emulator(&options));
    let error = error.expect_err("the rule reads b");
    assert!(error.to_string().contains("reads `b`"), "{error}");
    let cells: Vec<bool> = (0..60)
        .map(|at| at % 10 <= at / 10 % 2 + at / 20 * 4)
        .collect();
    let done = tensors.run(&rules, &ForwardOptions::default());
    check_close(floats(&done), &tensors.reference(&cells));
}

#[test]
fn b30_a_captured_scale_is_a_scale() {
    let half = buffer(BufferData::F32(vec![0.5].into()), &[]);
    let rule = bind("score scaled(scale: [f32;]) = score * scale", &[half]);
    let scaled = Rules::score(ScoreRule::new(rule).expect("it is a score rule"));
    let tensors = Tensors::new([1, 1, 8, 8]);
    let captured = tensors.run(&scaled, &ForwardOptions::default());
    let given = ForwardOptions {
        sm_scale: Some(0.5 / (HEAD_DIM as f32).sqrt()),
        ..ForwardOptions::default()
    };
    let plain = tensors.run(&Rules::dense(), &given);
    assert_eq!(bits(&captured), bits(&plain));
}

/// Checks that the rows for which `empty` holds have no key: output exactly 0, lse and row max `-inf`.
#[track_caller]
fn check_empty_rows(done: &Attended, empty: impl Fn(usize) -> bool) {
    for (row, out) in floats(done).chunks(HEAD_DIM).enumerate() {
        assert!(out.iter().all(|x| x.is_finite()), "row {row} has a NaN");
        if empty(row) {
            assert!(out.iter().all(|x| x.to_bits() == 0), "row {row}: {out:?}");
            assert_eq!(done.lse[row], f32::NEG_INFINITY, "row {row}");
            assert_eq!(done.row_max[row], f32::NEG_INFINITY, "row {row}");
        } else {
            assert!(done.lse[row].is_finite(), "row {row}");
        }
    }
}

#[test]
fn b36_rows_of_padding_give_zero() {
    let rules = Rules::mask(bind_mask(corpus_text("M34"), &[ints(&[0, 4])]));
    let done = Tensors::new([2, 1, 7, 7]).run(&rules, &ForwardOptions::default());
    check_empty_rows(&done, |row| (7..11).contains(&row));
}

#[test]
fn b48_a_nan_on_either_side_is_a_fault() {
    let rules = Rules::mask(bind_mask(corpus_text("M94"), &[int(0), int(200)]));
    let tensors = Tensors::new([1, 1, 200, 200]);
    let mut outputs = Vec::new();
    for backend in [Backend::Cpu, Backend::Reference] {
        let options = ForwardOptions {
            backend,
            ..ForwardOptions::default()
        };
        let done = tensors.run(&rules, &options);
        check_empty_rows(&done, |_| true);
        outputs.push(bits(&done));
    }
    assert_eq!(outputs[0], outputs[1]);
    // The comparison that the corpus uses flags a NaN in the output, and one in the reference.
    let nan = Attention {
        weights: vec![f32::NAN, 0.0],
        lse: vec![f32::NEG_INFINITY],
    };
    check_attention(2, &[f32::NEG_INFINITY; 2], &nan).expect_err("the output is NaN");
    let even = Attention {
        weights: vec![0.5, 0.5],
        lse: vec![0.5_f32.exp()],
    };
    assert!(logsumexp(&[f32::NAN, 0.5]).is_nan());
    check_attention(2, &[f32::NAN, 0.5], &even).expect_err("the reference is NaN");
}

#[test]
fn b50_the_mask_comes_after_the_soft_cap() {
    let score = bind(
        corpus_text("S08"),
        &[CaptureValue::Scalar(maskwright_dsl::ir::Const::F32(50.0))],
    );
    let score = ScoreRule::new(score).expect("it is a score rule");
    let rules = Rules::both(bind_mask(CAUSAL, &[]), score);
    let (zeros, values) = (vec![0.0_f32; 2], vec![0.0_f32, 1.0]);
    let view = |data| TensorRef::contiguous(data, [1, 1, 2, 1]).expect("two elements");
    let options = ForwardOptions::default();
    let done = maskwright::attention(view(&zeros), view(&zeros), view(&values), &rules, &options);
    assert_eq!(floats(&done.expect("the call is right")), [0.0, 0.5]);
    let narrow = |data: &[f32]| -> Vec<bf16> { data.iter().map(|x| bf16::from_f32(*x)).collect() };
    let (zeros, values) = (narrow(&zeros), narrow(&values));
    let view = |data| TensorRef::contiguous(data, [1, 1, 2, 1]).expect("two elements");
    let done = maskwright::attention(view(&zeros), view(&zeros), view(&values), &rules, &options);
    match done.expect("the call is right").out.data {
        TensorData::BF16(out) => assert_eq!(out[..], narrow(&[0.0, 0.5])),
        other => panic!("the output is {other:?}"),
    }
}

#[test]
fn b55_one_kernel_leaves_nothing_to_the_next() {
    let listed = |table: &str| {
        let table: Vec<bool> = table.chars().map(|c| c == '1').collect();
        let table = buffer(BufferData::Bool(table.into()), &[4, 4]);
        Rules::mask(bind_mask(
            "mask listed(t: [bool; q_len, kv_len]) = t[q, kv]",
            &[table],
        ))
    };
    let tensors = Tensors::new([1, 1, 4, 4]);
    let [q, k, v] = tensors.views();
    let run = |kernel: &Kernel| {
        let mut out = vec![f32::NAN; 4 * HEAD_DIM];
        let output =
            maskwright::attention::Output::new(maskwright::attention::TensorDataMut::F32(&mut out));
        let done = kernel.forward(q, k, v, &ForwardOptions::default(), output);
        done.expect("the call is in scope");
        out
    };
    let scope = scope([1, 1, 4, 4], 0);
    let (first, second) = ("1000110010101101", "1000010000100001");
    let kernel = Kernel::compile(&listed(first), &scope).expect("the rule is valid");
    let other = Kernel::compile(&causal(), &scope).expect("the rule is valid");
    let cells = |table: &str| -> Vec<bool> { table.chars().map(|c| c == '1').collect() };
    check_close(&run(&kernel), &tensors.reference(&cells(first)));
    check_close(&run(&other), &tensors.reference(&causal_cells(1, 4)));
    check_close(&run(&kernel), &tensors.reference(&cells(first)));
    // The same code with another table, and the first kernel still has its own.
    let moved = kernel.rebind(&listed(second)).expect("it is the same rule");
    check_close(&run(&moved), &tensors.reference(&cells(second)));
    check_close(&run(&kernel), &tensors.reference(&cells(first)));
}

#[test]
fn b57_equal_rows_of_a_batch_give_equal_results() {
    let mut tensors = Tensors::new([2, 1, 5, 5]);
    for data in [&mut tensors.q, &mut tensors.k, &mut tensors.v] {
        let half = data.len() / 2;
        data.copy_within(..half, half);
    }
    let done = tensors.run(&causal(), &ForwardOptions::default());
    let out = floats(&done);
    assert_eq!(out[..out.len() / 2], out[out.len() / 2..]);
    check_close(out, &tensors.reference(&causal_cells(2, 5)));
}
