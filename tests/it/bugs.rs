//! Public bug reports against other systems, as small inputs with the right behaviour.

mod attention;
mod kernels;

use std::sync::Arc;

use maskwright::jit::{BoundEvaluator, CompiledRule};
use maskwright_dsl::bind::MaskRule;
use maskwright_dsl::block_mask::{
    BlockLists, BlockMask, BlockSize, CellFn, Geometry, ListRow, ListsMeaning,
};
use maskwright_dsl::capture::{BufferData, CaptureValue, CapturedBuffer};
use maskwright_dsl::eval::{RowMask, Sizes};
use maskwright_dsl::ir::{Const, Elem, decode, encode};
use maskwright_dsl::pipeline::{Prepared, prepare};
use maskwright_tests::case::corpus;
use maskwright_tests::direct::{
    Size, allowed, bind, bind_mask, blocks, buffer, cells, counts, drawn, evaluate, int, ints,
    prepared, prepared_at, refusal, scope, score_row,
};
use maskwright_tests::program::{Form, Program};
use maskwright_tests::recipe::{AlibiVariant, Recipe};

const CAUSAL: &str = "mask causal() = q >= kv";

fn prepared_mask(text: &str, values: &[CaptureValue], size: Size) -> Prepared {
    prepared(&bind(text, values), size)
}

/// A mask of the corpus, prepared for one of its cases.
#[track_caller]
fn of_corpus(id: &str, case: &str) -> Prepared {
    let file = corpus()
        .iter()
        .find(|file| file.id == id)
        .expect("the rule is there");
    let case = file
        .cases
        .iter()
        .find(|c| c.id == case)
        .expect("the case is there");
    let program = Program::new(file, case, Form::RunTime).expect("the rule is accepted");
    program
        .expect("this form is always there")
        .prepare()
        .expect("the rule is valid")
}

fn corpus_text(id: &str) -> &'static str {
    let file = corpus().iter().find(|file| file.id == id);
    file.expect("the rule is there").text()
}

/// Machine code for the one call of a prepared rule.
fn compiled(prepared: &Prepared) -> BoundEvaluator {
    let scope = prepared.scope();
    let sizes = Sizes {
        batch: scope.batch as i32,
        num_q_heads: scope.num_q_heads as i32,
        q_len: *scope.bucket.q_len.end() as i32,
        kv_len: *scope.bucket.kv_len.end() as i32,
    };
    let code = CompiledRule::compile(prepared).expect("the rule has machine code");
    BoundEvaluator::new(Arc::new(code), prepared, sizes).expect("the sizes are in scope")
}

/// Rows of a mask as the interpreter and as machine code evaluate them, which must be the same.
#[track_caller]
fn row_on_both(prepared: &Prepared, code: &BoundEvaluator, b: u32, q: i64, n: usize) -> Vec<u64> {
    let mut found = [vec![0; n.div_ceil(64)], vec![0; n.div_ceil(64)]];
    let words = found[0].len();
    let interpreter = RowMask::of(prepared);
    let done = interpreter.try_tile(b, 0, q, 1, 0, n, &mut found[0], words);
    done.expect("the rule has a value everywhere");
    code.mask_tile(b, 0, q, 1, 0, n, &mut found[1], words);
    assert_eq!(found[0], found[1], "row {q}");
    let [found, _] = found;
    found
}

#[test]
fn b01_out_of_range_reads() {
    let table = |n| {
        let recipe = Recipe::HashBool(501, 1, 2);
        CaptureValue::Buffer(recipe.buffer(Elem::Bool, &[n]).expect("it fills the shape"))
    };
    let rule = bind("mask seen(seen: [bool; entries]) = seen[q]", &[table(200)]);
    let seen = prepared(&rule, [1, 1, 200, 200]);
    assert_eq!(allowed(&cells(&seen)), 18_800);
    assert_eq!(counts(&blocks(&seen, 128, 128)), [0, 4, 0]);
    // One entry less, and nothing is read at all.
    let short = bind("mask seen(seen: [bool; entries]) = seen[q]", &[table(199)]);
    assert!(refusal(&short, [1, 1, 200, 200]).contains("seen"));
}

#[test]
fn b03_out_of_range_reads_of_short_prompts() {
    let cartridge = of_corpus("M90", "n");
    assert_eq!(allowed(&cells(&cartridge)), 1986);
    assert_eq!(counts(&blocks(&cartridge, 128, 128)), [0, 2, 0]);
}

#[test]
fn b05_guarded_reads() {
    let rel = || buffer(BufferData::F32(vec![0.5; 64].into()), &[64]);
    let size = [1, 1, 256, 256];
    let rule = bind(
        "score banded(rel: [f32; 64]) = score + rel[q - kv + 32]",
        &[rel()],
    );
    let message = refusal(&rule, size);
    for part in ["rel", "-223..=287", "64"] {
        assert!(message.contains(part), "{part} is missing:\n{message}");
    }
    // The guard of the report bounds one side only.
    let rule = bind(
        "score banded(rel: [f32; 64]) = if kv - q < 32 { score + rel[q - kv + 32] } else { -inf }",
        &[rel()],
    );
    let message = refusal(&rule, size);
    for part in ["rel", "1..=287", "64"] {
        assert!(message.contains(part), "{part} is missing:\n{message}");
    }
    let rule = bind(
        "score banded(rel: [f32; 64]) = if abs(q - kv) < 32 { score + rel[q - kv + 32] } else { -inf }",
        &[rel()],
    );
    let row = score_row(&prepared(&rule, size), (0, 0, 40), &[1.0; 256]);
    assert_eq!(row.iter().filter(|score| **score == 1.5).count(), 63);
}

#[test]
fn b06_constants_do_not_depend_on_how_terms_are_associated() {
    let text = corpus_text("M96");
    let moved = text.replace(
        "!(main_k + lag * window < stands_q)",
        "!(lag * window < stands_q - main_k)",
    );
    assert_ne!(text, moved);
    let (memory, every, window, len) = (512, 50, 1024, 25_600);
    for lag in [1, 2, 24] {
        let values = [int(memory), int(every), int(window), int(lag)];
        let rules = [text, &moved].map(|text| prepared_mask(text, &values, [1, 1, len, len]));
        let codes = [compiled(&rules[0]), compiled(&rules[1])];
        for q in [0, 1, 20, 500, 511, 512, 513, 1535, 1536, 20_000, 25_599] {
            let rows = [0, 1].map(|i| row_on_both(&rules[i], &codes[i], 0, q, len as usize));
            assert_eq!(rows[0], rows[1], "lag {lag}, row {q}");
            for kv in 0..i64::from(len) {
                let (memory, every) = (i64::from(memory), i64::from(every));
                let (window, lag) = (i64::from(window), i64::from(lag));
                let (main_q, main_k) = (q - memory, kv - memory);
                let expected = match (q < memory, kv < memory) {
                    (false, false) => 0 <= main_q - main_k && main_q - main_k < window,
                    (false, true) => kv * every <= main_q,
                    (true, true) => kv <= q,
                    (true, false) => main_k <= q * every && q * every <= main_k + lag * window,
                };
                let found = rows[0][kv as usize / 64] >> (kv % 64) & 1 == 1;
                assert_eq!(found, expected, "lag {lag} at ({q}, {kv})");
            }
        }
    }
}

#[test]
fn b07_long_keys() {
    let causal = prepared_mask(CAUSAL, &[], [1, 1, 16, 200_000]);
    let (mask, stats) = BlockMask::build(&causal, BlockSize { q: 128, kv: 128 }).expect("it fits");
    assert_eq!(counts(&mask), [0, 1, 1562]);
    assert_eq!(mask.allowed_cells(&RowMask::of(&causal)), Ok(136));
    // Everything but the first block is proved without looking into it.
    assert!(stats.blocks_evaluated <= 1, "{stats:?}");
}

#[test]
fn b08_offsets_beyond_32_bits() {
    // Packed bits hold the 2.4 billion elements in 300 MB.
    let shape = [9, 16, 4096, 4096];
    let n: usize = shape.iter().product();
    let last = n - 1;
    let bytes = (0..n / 8).map(|at| if at == last / 8 { 0x80 } else { 0 });
    let bias = CapturedBuffer::new(BufferData::Bits(bytes.collect()), shape.to_vec());
    let bias = bias.expect("the bits fill the shape");
    assert_eq!(bias.element(&[7, 15, 4095, 4095]), Some(2_147_483_647));
    assert_eq!(bias.element(&[8, 15, 4095, 4095]), Some(2_415_919_103));
    let rule = bind(
        "score biased(bias: [bits; batch, num_q_heads, q_len, kv_len]) = score + bias[b, h, q, kv] as i32 as f32",
        &[CaptureValue::Buffer(bias)],
    );
    let biased = prepared(&rule, [9, 16, 4096, 4096]);
    let code = compiled(&biased);
    for q in [0, 4095] {
        let scores = vec![1.0; 4096];
        let mut expected = scores.clone();
        if q == 4095 {
            expected[4095] = 2.0;
        }
        assert_eq!(score_row(&biased, (8, 15, q), &scores), expected);
        let mut found = scores;
        code.score_tile(8, 15, i64::from(q), 1, 0, 4096, &mut found, 4096);
        assert_eq!(found, expected);
    }
}

#[test]
fn b09_row_strides_beyond_32_bits() {
    let stride: i64 = (1 << 30) + 1;
    let target = 2 * stride as usize;
    assert_eq!(target, 2_147_483_650);
    let n_bytes = (target + 8).div_ceil(8);
    let bytes = (0..n_bytes).map(|at| u8::from(at == target / 8) << (target % 8));
    let data = BufferData::Bits(bytes.collect());
    let table = CapturedBuffer::strided(data, vec![3, 8], vec![stride, 1], 0);
    let table = table.expect("the view lies within the bits");
    assert_eq!(table.element(&[2, 0]), Some(target));
    let rule = bind(
        "mask listed(table: [bits; q_len, kv_len]) = table[q, kv]",
        &[CaptureValue::Buffer(table)],
    );
    let listed = prepared(&rule, [1, 1, 3, 8]);
    let code = compiled(&listed);
    for q in 0..3 {
        let row = row_on_both(&listed, &code, 0, q, 8);
        assert_eq!(row, [u64::from(q == 2)]);
    }
}

#[test]
fn b12_shapes_of_block_masks_and_calls() {
    let mask = blocks(&prepared_mask(CAUSAL, &[], [2, 1, 8, 8]), 128, 128);
    let error = mask
        .check_call(3, 2, 8, 8, 0)
        .expect_err("the batch differs");
    let message = error.to_string();
    for part in ["B=2", "B=3"] {
        assert!(message.contains(part), "{part} is missing: {message}");
    }
    assert_eq!(mask.check_call(2, 2, 8, 8, 0), Ok(()));
    let broadcast = blocks(&prepared_mask(CAUSAL, &[], [1, 1, 8, 8]), 128, 128);
    for batch in [1, 2, 77] {
        assert_eq!(broadcast.check_call(batch, 5, 8, 8, 0), Ok(()));
    }
}

#[test]
fn b14_a_mask_for_longer_lengths() {
    let values = [int(16), int(4)];
    let text = corpus_text("M19");
    let long = prepared_mask(text, &values, [1, 1, 256, 256]);
    let short = prepared_mask(text, &values, [1, 1, 96, 96]);
    let mask = blocks(&long, 64, 64);
    let error = mask
        .check_call(1, 1, 96, 96, 0)
        .expect_err("it is for other lengths");
    let message = error.to_string();
    assert!(
        message.contains("256") && message.contains("96"),
        "{message}"
    );
    let cropped = mask.crop(96, 96).expect("96 is shorter");
    let rule = RowMask::of(&short);
    assert_eq!(
        evaluate(short.scope(), &cropped.restrict(&rule)),
        cells(&short)
    );
    assert_eq!(
        cropped.class_sha256(),
        blocks(&short, 64, 64).class_sha256()
    );
}

#[test]
fn b16_full_blocks_that_overhang_after_cropping() {
    let all = prepared_mask("mask everything() = true", &[], [1, 1, 256, 257]);
    let mask = blocks(&all, 128, 128);
    let rule = RowMask::of(&all);
    assert_eq!(counts(&mask), [4, 2, 0]);
    assert_eq!(mask.allowed_cells(&rule), Ok(65_792));
    let cropped = mask.crop(101, 129).expect("both are shorter");
    assert_eq!(counts(&cropped), [0, 2, 0]);
    assert_eq!(cropped.allowed_cells(&rule), Ok(13_029));
}

#[test]
fn b18_slices_keep_their_rule() {
    let causal = bind(CAUSAL, &[]);
    let whole = prepared(&causal, [4, 1, 512, 512]);
    let step = prepared_at(&causal, [4, 1, 1, 512], 300);
    assert_eq!(allowed(&cells(&step)), 4 * 301);
    assert_eq!(counts(&blocks(&step, 128, 128)), [0, 3 * 4, 4]);
    assert_eq!(counts(&blocks(&step, 1, 128)), [2 * 4, 4, 4]);
    let sliced = blocks(&whole, 128, 128)
        .slice_q(300..301)
        .expect("the row is there");
    assert_eq!(counts(&sliced), [0, 3 * 4, 4]);
    let rule = RowMask::of(&whole);
    assert_eq!(sliced.allowed_cells(&rule), Ok(4 * 301));
    assert_eq!(
        evaluate(step.scope(), &sliced.restrict(&rule)),
        cells(&step)
    );
    let eight = prepared_at(&causal, [4, 8, 1, 512], 300);
    let all_heads = cells(&eight);
    for heads in all_heads.chunks(8 * 512) {
        assert!(heads.chunks(512).all(|head| *head == cells(&step)[..512]));
    }
}

#[test]
fn b20_sparsity_is_a_share() {
    let causal = prepared_mask(CAUSAL, &[], [1, 1, 100, 100]);
    let mask = blocks(&causal, 128, 128);
    assert_eq!(allowed(&cells(&causal)), 5050);
    assert_eq!(counts(&mask), [0, 1, 0]);
    assert_eq!(mask.sparsity(), 0.0);
    let share = mask
        .sparsity_cells(&RowMask::of(&causal))
        .expect("it is one call");
    assert!((0.0..=100.0).contains(&share) && (share - 49.5).abs() < 1e-9);
}

#[test]
fn b22_block_sizes() {
    let causal = prepared_mask(CAUSAL, &[], [1, 1, 256, 256]);
    let rule = RowMask::of(&causal);
    for (q, kv) in [(64, 64), (32, 32), (16, 16), (128, 64), (64, 128), (1, 3)] {
        let mask = blocks(&causal, q, kv);
        let restricted = evaluate(causal.scope(), &mask.restrict(&rule));
        assert_eq!(restricted, cells(&causal), "{q} x {kv}");
    }
}

#[test]
fn b25_lists_are_the_law() {
    let size = BlockSize { q: 64, kv: 64 };
    let geometry = Geometry::exact(1, 1, 256, 256, size).expect("it fits");
    let row = |full: &[u32]| ListRow {
        full: full.to_vec(),
        partial: Vec::new(),
    };
    let lists = BlockLists {
        batch: 1,
        heads: 1,
        rows: vec![row(&[0, 2]), row(&[1, 3]), row(&[0, 3]), row(&[2, 3])],
    };
    let mask = BlockMask::from_lists(&geometry, &lists, ListsMeaning::Law).expect("they fit");
    assert_eq!(counts(&mask), [8, 0, 8]);
    let everything = CellFn(|_, _, _, _| true);
    assert_eq!(mask.allowed_cells(&everything), Ok(32_768));
    let law = evaluate(&scope([1, 1, 256, 256], 0), &mask.restrict(&everything));
    assert!(law.chunks(256).all(|row| allowed(row) == 128));
    // As a claim about the rule that allows all, the same lists are wrong.
    let claim = BlockMask::claim(&geometry, &lists, &everything);
    claim.expect_err("empty blocks have cells that the rule allows");
}

#[test]
fn b26_branches_on_indices() {
    let rule = "mask branch() = if q < 4 { kv < 4 } else { q >= kv }";
    let branch = prepared_mask(rule, &[], [1, 1, 9, 9]);
    assert_eq!(allowed(&cells(&branch)), 51);
    let code = compiled(&branch);
    for q in 0..9 {
        row_on_both(&branch, &code, 0, q, 9);
    }
}

#[test]
fn b27_a_broadcast_batch_under_a_rule_that_reads_it() {
    let text = corpus_text("M05");
    let pos = [ints(&[0, 4, 8])];
    let rule = prepared_mask(text, &pos, [3, 1, 2, 10]);
    assert!(
        rule.reads().b,
        "whoever broadcasts a mask can see that this one may not be"
    );
    assert_eq!(
        drawn(&rule),
        "1000000000/1100000000 1111100000/1111110000 1111111110/1111111111"
    );
    assert_eq!(blocks(&rule, 128, 128).stored_batch(), 3);
}

#[test]
fn b30_a_captured_scalar_without_axes() {
    let half = buffer(BufferData::F32(vec![0.5].into()), &[]);
    let rule = bind("score scaled(scale: [f32;]) = score * scale", &[half]);
    let scaled = prepared(&rule, [1, 1, 8, 8]);
    let scores: Vec<f32> = (0_u8..8).map(|i| f32::from(i) - 3.25).collect();
    let halves: Vec<f32> = scores.iter().map(|score| score * 0.5).collect();
    assert_eq!(score_row(&scaled, (0, 0, 5), &scores), halves);
    let mut found = scores.clone();
    compiled(&scaled).score_tile(0, 0, 5, 1, 0, 8, &mut found, 8);
    assert_eq!(found, halves);
}

#[test]
fn b32_windows_with_and_without_their_end() {
    let rule = |id| prepared_mask(corpus_text(id), &[int(4)], [1, 1, 8, 8]);
    let (exact, inclusive) = (rule("M07"), rule("M06"));
    let row = |rule: &Prepared| drawn(rule).split('/').nth(7).map(str::to_owned);
    assert_eq!(row(&exact).as_deref(), Some("00001111"));
    assert_eq!(row(&inclusive).as_deref(), Some("00011111"));
    assert_eq!(allowed(&cells(&exact)), 26);
    assert_eq!(allowed(&cells(&inclusive)), 30);
}

#[test]
fn b34_one_key_too_many() {
    let window = prepared_mask(corpus_text("M07"), &[int(3)], [1, 1, 5, 5]);
    assert_eq!(drawn(&window), "10000/11000/11100/01110/00111");
}

#[test]
fn b36_rows_of_padding() {
    let padded = prepared_mask(corpus_text("M34"), &[ints(&[0, 4])], [2, 1, 7, 7]);
    let cells = cells(&padded);
    assert_eq!((allowed(&cells[..49]), allowed(&cells[49..])), (28, 6));
    for row in 0..4 {
        assert_eq!(allowed(&cells[49 + row * 7..][..7]), 0);
    }
}

/// Causal, and bidirectional within an image.
fn images(groups: &[i32]) -> Prepared {
    let n = groups.len();
    let group = buffer(BufferData::I32(groups.into()), &[1, n]);
    let causal = bind_mask(CAUSAL, &[]);
    let same = bind_mask(
        "mask same_image(group: [i32; batch, kv_len]) = group[b, q] >= 0 && group[b, q] == group[b, kv]",
        std::slice::from_ref(&group),
    );
    let size = [1, 1, n as u32, n as u32];
    let composed = prepared((causal | same).bound(), size);
    let whole = prepared_mask(corpus_text("M61"), &[group], size);
    assert_eq!(drawn(&composed), drawn(&whole));
    composed
}

#[test]
fn b37_images_do_not_see_later_images() {
    let mask = images(&[-1, 0, 0, -1, 1, 1, -1]);
    assert_eq!(
        drawn(&mask),
        "1000000/1110000/1110000/1111000/1111110/1111110/1111111"
    );
}

#[test]
fn b39_a_composed_rule_keeps_both_parts() {
    let mask = images(&[-1, 0, 0, 0, -1]);
    assert_eq!(drawn(&mask), "10000/11110/11110/11110/11111");
}

#[test]
fn b40_packed_rows_beside_a_padding_mask() {
    let positions = [ints(&[0, 1, 2, 0, 1, 2])];
    let packed = bind_mask(
        "mask packed(pos: [i32; kv_len]) = q >= kv && q - pos[q] == kv - pos[kv]",
        &positions,
    );
    let keep = bind_mask(
        "mask kept(keep: [bool; kv_len]) = keep[kv]",
        &[buffer(BufferData::Bool(vec![true; 6].into()), &[6])],
    );
    let size = [1, 1, 6, 6];
    let expected = "100000/110000/111000/000100/000110/000111";
    assert_eq!(drawn(&prepared(packed.bound(), size)), expected);
    assert_eq!(drawn(&prepared((packed & keep).bound(), size)), expected);
}

#[test]
fn b45_causal_with_a_cache_of_its_own_lengths() {
    let rule = "mask cached(valid: [i32; batch]) = kv <= q + valid[b] - q_len";
    let mask = prepared_mask(rule, &[ints(&[4, 6])], [2, 1, 2, 6]);
    assert_eq!(drawn(&mask), "111000/111100 111110/111111");
}

#[test]
fn b54_both_ends_of_a_window() {
    let window = prepared_mask(corpus_text("M10"), &[int(2), int(2)], [1, 1, 16, 16]);
    assert_eq!(allowed(&cells(&window)), 74);
    let drawing = drawn(&window);
    assert_eq!(drawing.split('/').nth(8), Some("0000001111100000"));
}

#[test]
fn b55_no_state_is_left_behind() {
    let table: Vec<bool> = "1000110010101101".chars().map(|c| c == '1').collect();
    let table = buffer(BufferData::Bool(table.into()), &[4, 4]);
    let size = [1, 1, 4, 4];
    let listed = prepared_mask(
        "mask listed(t: [bool; q_len, kv_len]) = t[q, kv]",
        &[table],
        size,
    );
    let causal = prepared_mask(CAUSAL, &[], size);
    let codes = [compiled(&listed), compiled(&causal)];
    let steps = [
        (&listed, &codes[0], 8),
        (&causal, &codes[1], 10),
        (&listed, &codes[0], 8),
    ];
    for (rule, code, expected) in steps {
        assert_eq!(allowed(&cells(rule)), expected);
        let rows = (0..4).map(|q| row_on_both(rule, code, 0, q, 4)[0].count_ones() as usize);
        assert_eq!(rows.sum::<usize>(), expected);
    }
}

#[test]
fn b57_rows_of_a_batch_are_alike() {
    let causal = prepared_mask(CAUSAL, &[], [2, 1, 5, 5]);
    let found = cells(&causal);
    assert_eq!(found[..25], found[25..]);
    assert_eq!(allowed(&found[..25]), 15);
}

#[test]
fn b59_chunked_prefill() {
    let chunk = prepared_at(&bind(CAUSAL, &[]), [1, 1, 128, 256], 128);
    assert_eq!(allowed(&cells(&chunk)), 24_640);
    assert_eq!(counts(&blocks(&chunk, 128, 128)), [1, 1, 0]);
}

#[test]
fn b61_slopes_of_any_head_count() {
    let slopes = Recipe::Alibi(12, AlibiVariant::Interleave);
    let found = slopes
        .values(&[12])
        .expect("there is a slope for each head");
    let exponents = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 0.5, 1.5, 2.5, 3.5];
    for (h, exponent) in exponents.into_iter().enumerate() {
        let slope = (-exponent as f32).exp2();
        assert!((found[h] as f32 - slope).abs() <= 1e-7 * slope, "head {h}");
    }
    let buffer = slopes.buffer(Elem::F32, &[12]).expect("it fills the shape");
    let rule = bind(corpus_text("S05"), &[CaptureValue::Buffer(buffer)]);
    let alibi = prepared(&rule, [1, 12, 2, 2]);
    for (h, slope) in found.iter().enumerate() {
        let row = score_row(&alibi, (0, h as i32, 1), &[0.0, 0.0]);
        assert_eq!(row, [-*slope as f32, 0.0], "head {h}");
    }
}

#[test]
fn b62_slopes_start_at_a_half() {
    let alibi = prepared(&bind(corpus_text("S04"), &[int(8)]), [1, 8, 1, 2]);
    for h in 0..8 {
        let row = score_row(&alibi, (0, h, 0), &[0.0, 0.0]);
        assert_eq!(row, [0.0, 0.5_f32.powi(h + 1)], "head {h}");
    }
}

#[test]
fn b67_copies_keep_their_structure() {
    let doc = buffer(BufferData::I32(vec![0, 0, 1, 1].into()), &[1, 4]);
    let size = [1, 1, 4, 4];
    let rule = bind(corpus_text("M30"), std::slice::from_ref(&doc));
    let packed = prepared(&rule, size);
    let expected = "1000/1100/0010/0011";
    assert_eq!(drawn(&packed), expected);
    assert_eq!(drawn(&packed.clone()), expected);
    let bytes = encode(rule.rule());
    let decoded = Arc::new(decode(&bytes).expect("what was written can be read"));
    assert_eq!(decoded.identity(), rule.rule().identity());
    let copy = maskwright::BoundRule::new(decoded, vec![doc], &[]).expect("the captures fit");
    assert_eq!(drawn(&prepared(&copy, size)), expected);
    let mask = blocks(&packed, 2, 2);
    let read = BlockMask::from_bytes(&mask.to_bytes()).expect("what was written can be read");
    assert_eq!(counts(&read), counts(&mask));
    let restricted = evaluate(packed.scope(), &read.restrict(&RowMask::of(&packed)));
    assert_eq!(allowed(&restricted), 6);
}

#[test]
fn b69_combinations_of_one_and_of_none() {
    let size = [1, 1, 4, 4];
    let count = |rule: &MaskRule| allowed(&cells(&prepared(rule.bound(), size)));
    let causal = bind_mask(CAUSAL, &[]);
    assert_eq!(count(&MaskRule::all_of([causal.clone()])), 10);
    assert_eq!(count(&MaskRule::any_of([causal])), 10);
    assert_eq!(count(&MaskRule::all_of([])), 16);
    assert_eq!(count(&MaskRule::any_of([])), 0);
}

#[test]
fn b71_the_block_of_a_rule_is_no_mask_block() {
    let diffusion = of_corpus("M42", "t");
    assert_eq!(counts(&blocks(&diffusion, 128, 128)), [0, 1, 0]);
    // The corpus has the rows; here only that the diffusion blocks of 3 show in them.
    assert!(
        drawn(&diffusion)
            .starts_with("1110000000000000/1110000000000000/1110000000000000/0001110011")
    );
}

#[test]
fn b73_windows_that_are_not_shifted() {
    let windows = |shift| {
        let values = [int(4), int(4), int(2), int(shift)];
        allowed(&cells(&prepared_mask(
            corpus_text("M66"),
            &values,
            [1, 1, 16, 16],
        )))
    };
    assert_eq!(windows(0), 64);
    assert_eq!(windows(1), 36);
}

#[test]
fn b77_decoding_does_not_see_the_unused_cache() {
    let offset = CaptureValue::Scalar(Const::I32(100));
    let step = prepared_mask(corpus_text("M04-scalar"), &[offset], [1, 1, 1, 2048]);
    let moved = prepared_at(&bind(CAUSAL, &[]), [1, 1, 1, 2048], 100);
    for step in [step, moved] {
        assert_eq!(allowed(&cells(&step)), 101);
        assert_eq!(counts(&blocks(&step, 128, 128)), [0, 1, 15]);
    }
}

#[test]
fn rules_are_refused_whole() {
    // What `prepare` refuses never becomes a `Prepared`, so no engine can run it.
    let rule = bind(
        "mask beyond(t: [bool; 4]) = t[q]",
        &[buffer(BufferData::Bool(vec![true; 4].into()), &[4])],
    );
    assert!(prepare(&rule, &scope([1, 1, 5, 5], 0)).is_err());
    assert!(prepare(&rule, &scope([1, 1, 4, 5], 0)).is_ok());
}
