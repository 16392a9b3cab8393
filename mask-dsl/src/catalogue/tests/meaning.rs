//! What papers and published code say of single cells and rows, worked out by hand.

use super::*;
use crate::capture::{BufferData, CapturedBuffer};
use crate::eval::{Point, ScalarEvaluator};
use crate::ir::Const;

fn int(value: i32) -> CaptureValue {
    CaptureValue::Scalar(Const::I32(value))
}

fn ints<const N: usize>(values: [i32; N]) -> Vec<CaptureValue> {
    values.map(int).to_vec()
}

fn float(value: f32) -> CaptureValue {
    CaptureValue::Scalar(Const::F32(value))
}

fn floats(values: &[f32], shape: &[usize]) -> CaptureValue {
    let data = BufferData::F32(values.into());
    CaptureValue::Buffer(CapturedBuffer::new(data, shape.to_vec()).unwrap())
}

/// Values `0, 1, 2, …`, so that a bias tells its place.
fn places(shape: &[usize]) -> CaptureValue {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|i| i as f32).collect();
    floats(&values, shape)
}

/// How many keys each of `len` queries sees in self-attention.
fn keys_seen(name: &str, values: Vec<CaptureValue>, len: u64) -> Vec<u32> {
    let entry = find(name).unwrap();
    let scope = Scope::new(Bucket::single(len, len, 0), 1, 1);
    let prepared = prepared(entry, values, &scope);
    let shape = DenseShape {
        batches: 0..1,
        heads: 0..1,
        q_offset: 0,
        q_len: len as usize,
        kv_len: len as usize,
    };
    let sizes = greatest(&scope.bucket, 1, 1);
    let mut seen = Vec::new();
    dense_mask(
        prepared.rule(),
        prepared.bindings(),
        sizes,
        &shape,
        |_, bits| {
            seen.push(bits.iter().map(|word| word.count_ones()).sum());
        },
    )
    .unwrap();
    seen
}

#[test]
fn windows_have_as_many_keys_as_they_say() {
    let seen = |name, values| keys_seen(name, values, 7);
    assert_eq!(seen("sliding_window", ints([1])), [1; 7]);
    assert_eq!(seen("sliding_window", ints([3])), [1, 2, 3, 3, 3, 3, 3]);
    assert_eq!(
        seen("sliding_window", ints([16_777_216])),
        [1, 2, 3, 4, 5, 6, 7]
    );
    assert_eq!(seen("sliding_window_symmetric", ints([0])), [1; 7]);
    assert_eq!(
        seen("sliding_window_symmetric", ints([2])),
        [3, 4, 5, 5, 5, 4, 3]
    );
    assert_eq!(
        seen("sliding_window_left_right", ints([2, 0])),
        [1, 2, 3, 3, 3, 3, 3]
    );
    assert_eq!(
        seen("sliding_window_left_right", ints([0, 3])),
        [4, 4, 4, 4, 3, 2, 1]
    );
    assert_eq!(seen("sinks_window", ints([0, 3])), [1, 2, 3, 3, 3, 3, 3]);
    assert_eq!(seen("sinks_window", ints([2, 3])), [1, 2, 3, 4, 5, 5, 5]);
    assert_eq!(seen("dilated_window", ints([1, 3])), [2, 2, 2, 3, 2, 2, 2]);
    assert_eq!(seen("dilated_window", ints([2, 1])), [3, 4, 5, 5, 5, 4, 3]);
    assert_eq!(seen("global_window", ints([2, 1])), [7, 7, 4, 5, 5, 5, 4]);
    assert_eq!(seen("global_window", ints([0, 1])), [2, 3, 3, 3, 3, 3, 2]);
}

#[test]
fn a_neighbourhood_is_whole_at_the_ends() {
    for kernel in 1..=9 {
        assert_eq!(
            keys_seen("natten_1d", ints([kernel]), 9),
            [kernel as u32; 9]
        );
    }
    assert_eq!(keys_seen("natten_1d", ints([40]), 9), [9; 9]);
    assert_eq!(keys_seen("natten_2d", ints([5, 7, 3]), 35), [9; 35]);
    assert_eq!(keys_seen("natten_2d", ints([3, 5, 4]), 15), [3 * 4; 15]);
    // One token more than the image has.
    assert_eq!(keys_seen("natten_2d", ints([2, 2, 2]), 5)[..4], [4; 4]);
}

#[test]
fn chunks_and_strides_count_from_where_they_should() {
    let chunks = [1, 2, 3, 4, 1, 2, 3, 4, 1, 2];
    assert_eq!(keys_seen("chunked", ints([4]), 10), chunks);
    // Rows 6 and 7 see three recent keys and two strided ones.
    assert_eq!(keys_seen("strided", ints([3]), 8), [1, 2, 3, 4, 4, 4, 5, 5]);
    let fixed = [1, 2, 3, 4, 3, 4, 5, 6, 5, 6];
    assert_eq!(keys_seen("sparse_fixed", ints([4, 2]), 10), fixed);
    assert_eq!(keys_seen("sparse_fixed", ints([4, 0]), 10), chunks);
    assert_eq!(
        keys_seen("sparse_fixed", ints([4, 4]), 10),
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    );
}

#[test]
fn prefixes_and_blocks_attend_both_ways() {
    assert_eq!(keys_seen("prefix_lm", ints([0]), 5), [1, 2, 3, 4, 5]);
    assert_eq!(keys_seen("prefix_lm", ints([3]), 5), [3, 3, 3, 4, 5]);
    // Five tokens in blocks of 2, 2 and 1: noisy, then clean.
    let seen = [2, 2, 4, 4, 5, 2, 2, 4, 4, 5];
    assert_eq!(keys_seen("block_causal_diffusion", ints([5, 2]), 10), seen);
}

/// What a score rule makes of `score` at one cell, with two batch rows.
#[track_caller]
fn changed(
    name: &str,
    values: &[CaptureValue],
    heads: u32,
    len: u64,
    (b, h, q_idx, kv_idx): (i32, i32, i32, i32),
    score: f32,
) -> f32 {
    let entry = find(name).unwrap();
    let scope = Scope::new(Bucket::single(len, len, 0), 2, heads);
    let prepared = prepared(entry, values.to_vec(), &scope);
    let sizes = greatest(&scope.bucket, 2, heads);
    let point = Point {
        b,
        h,
        q_idx,
        kv_idx,
        score,
    };
    let rule = prepared.rule();
    match ScalarEvaluator::new(rule, prepared.bindings(), sizes).eval(&point) {
        Ok(Const::F32(value)) => value,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn t5_buckets_are_those_of_the_published_code() {
    // (key - query, bucket) with 32 buckets and a greatest distance of 128. 16, 32 and 64 are at edges, where a
    // logarithm that is off by one unit in the last place would fall into the bucket before.
    let expected = [
        (0, 0),
        (1, 17),
        (-1, 1),
        (7, 23),
        (-7, 7),
        (8, 24),
        (-8, 8),
        (11, 24),
        (12, 25),
        (15, 25),
        (16, 26),
        (-16, 10),
        (22, 26),
        (23, 27),
        (31, 27),
        (32, 28),
        (45, 28),
        (46, 29),
        (63, 29),
        (64, 30),
        (-64, 14),
        (90, 30),
        (91, 31),
        (127, 31),
        (128, 31),
        (-128, 15),
        (5000, 31),
    ];
    let values = [int(32), int(128), places(&[32, 3])];
    for (ahead, bucket) in expected {
        let (q, kv) = if ahead < 0 { (-ahead, 0) } else { (0, ahead) };
        let found = changed("t5_buckets", &values, 3, 6000, (0, 2, q, kv), 0.5);
        assert_eq!(found, 0.5 + (bucket * 3 + 2) as f32, "distance {ahead}");
    }
    // Few buckets, and a greatest distance below the exact ones.
    for (buckets, max_distance) in [(4, 2), (5, 3), (7, 128), (32, 4)] {
        let values = [
            int(buckets),
            int(max_distance),
            places(&[buckets as usize, 1]),
        ];
        let found = changed("t5_buckets", &values, 1, 6000, (0, 0, 5999, 0), 0.0);
        assert!((0.0..(buckets / 2) as f32).contains(&found), "{found}");
    }
}

#[test]
fn biases_are_read_where_they_stand() {
    let values = [int(2), places(&[2, 5])];
    for (q, kv, place) in [
        (9, 0, 0),
        (2, 0, 0),
        (1, 0, 1),
        (3, 3, 2),
        (3, 4, 3),
        (3, 5, 4),
        (0, 9, 4),
    ] {
        let found = changed("relative_bias", &values, 2, 10, (0, 1, q, kv), 1.0);
        assert_eq!(found, 1.0 + (5 + place) as f32, "({q}, {kv})");
    }
    let values = [places(&[2, 3, 4, 4])];
    let found = changed("learned_bias", &values, 3, 4, (1, 2, 3, 0), 1.0);
    assert_eq!(found, 1.0 + (((3 + 2) * 4 + 3) * 4) as f32);
    // A patch of 2 × 2: the middle of the 3 × 3 table is for a token and itself.
    let values = [int(2), places(&[3, 3, 1])];
    for (q, kv, place) in [
        (0, 0, 4),
        (3, 3, 4),
        (0, 3, 0),
        (3, 0, 8),
        (1, 2, 2),
        (2, 1, 6),
    ] {
        let found = changed("swin_bias", &values, 1, 6, (0, 0, q, kv), 1.0);
        assert_eq!(found, 1.0 + place as f32, "({q}, {kv})");
    }
    assert_eq!(changed("swin_bias", &values, 1, 6, (0, 0, 4, 0), 1.0), 1.0);
    assert_eq!(changed("swin_bias", &values, 1, 6, (0, 0, 0, 5), 1.0), 1.0);
}

#[test]
fn slopes_are_those_of_the_paper() {
    let values = [floats(&[0.5, 0.25], &[2])];
    assert_eq!(changed("alibi", &values, 2, 8, (0, 1, 5, 1), 1.0), 0.0);
    // For 8 heads the paper has 1/2, 1/4, .., 1/256.
    for h in 0..8 {
        let found = changed("alibi_computed", &[], 8, 16, (0, h, 10, 6), 0.0);
        assert_eq!(found, -4.0 / (2 << h) as f32);
    }
    // For 16 they are powers of 1/sqrt(2).
    let found = changed("alibi_computed", &[], 16, 16, (0, 0, 1, 0), 0.0);
    assert!((found + 0.5_f32.sqrt()).abs() < 1e-7, "{found}");
}

#[test]
fn caps_and_temperatures_change_no_small_score() {
    let values = [float(20.0)];
    assert_eq!(changed("softcap", &values, 1, 4, (0, 0, 0, 0), 0.0), 0.0);
    assert_eq!(changed("softcap", &values, 1, 4, (0, 0, 0, 0), 1e6), 20.0);
    assert_eq!(changed("softcap", &values, 1, 4, (0, 0, 0, 0), -1e6), -20.0);
    let found = changed("softcap", &values, 1, 4, (0, 0, 0, 0), 20.0);
    assert!((found - 20.0 * 1_f32.tanh()).abs() < 1e-5, "{found}");

    let values = [int(4), float(0.1)];
    for (q, grown) in [
        (0, 0.0),
        (2, 0.0),
        (3, 2_f32.ln()),
        (6, 2_f32.ln()),
        (7, 3_f32.ln()),
    ] {
        let found = changed("temperature", &values, 1, 8, (0, 0, q, 0), 3.0);
        assert!(
            (found - 3.0 * (1.0 + 0.1 * grown)).abs() < 1e-6,
            "{q}: {found}"
        );
    }
}
