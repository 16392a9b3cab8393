//! Every rule, shape, type and layout against the dense reference.

use std::sync::Arc;

use maskwright_dsl::bind::{MaskRule, ScoreRule};
use maskwright_dsl::ir::Const;

use super::build::{
    BF16, Build, Dims, F16, F32, agree, alibi, brains, causal, close, halves, near, not_the_last,
    reference, same_document, scattered, softcap,
};
use crate::attention::{ForwardOptions, Rules, TensorRef, attention};
use crate::tensor::{Dtype, Tensor};

#[test]
fn rules_agree_with_the_reference() {
    let rules = [
        Rules::dense(),
        causal().into(),
        (causal() & near(40)).into(),
        (causal() & same_document((0..200).map(|i| i / 37))).into(),
        scattered().into(),
        (!scattered() & near(90)).into(),
        not_the_last(70).into(),
        alibi(3).into(),
        softcap(0.5).into(),
        Rules::both(causal(), alibi(3)),
        Rules::both(causal() & near(64), softcap(2.0)),
    ];
    for rules in &rules {
        let dims = Dims::new(2, 3, 150, 150);
        dims.inputs().check(rules, &ForwardOptions::default());
    }
}

#[test]
fn groups_of_query_heads_share_their_keys() {
    for (heads, kv_heads) in [(3, 3), (3, 1), (6, 2), (7, 1), (14, 2), (8, 1)] {
        let dims = Dims {
            kv_heads,
            ..Dims::new(2, heads, 37, 70)
        };
        let rules = Rules::both(causal(), alibi(heads as i32));
        let options = ForwardOptions {
            q_offset: 20,
            ..ForwardOptions::default()
        };
        dims.inputs().check(&rules, &options);
    }
}

#[test]
fn odd_lengths_head_dims_and_offsets() {
    for (q_len, kv_len, q_offset, d_qk, d_v) in [
        (1, 1, 0, 1, 1),
        (1, 301, 300, 16, 16),
        (5, 129, 124, 24, 7),
        (127, 65, -30, 3, 40),
        (130, 257, 60, 8, 72),
        (0, 9, 0, 4, 4),
        (9, 0, 0, 4, 4),
    ] {
        let dims = Dims {
            d_qk,
            d_v,
            ..Dims::new(1, 2, q_len, kv_len)
        };
        let options = ForwardOptions {
            q_offset,
            ..ForwardOptions::default()
        };
        let inputs = dims.inputs();
        inputs.check(&causal().into(), &options);
        inputs.check(&Rules::both(near(33), softcap(1.0)), &options);
    }
}

#[test]
fn nothing_to_do_is_no_error() {
    for dims in [
        Dims::new(0, 2, 5, 5),
        Dims::new(2, 0, 5, 5),
        Dims::new(0, 0, 0, 0),
    ] {
        let record = dims
            .inputs()
            .check(&Rules::both(causal(), alibi(2)), &ForwardOptions::default());
        assert_eq!(record.tiles.full + record.tiles.partial, 0);
    }
    // Without keys every row is empty.
    let done = Dims::new(1, 1, 3, 0)
        .inputs()
        .attention(&Rules::dense(), &ForwardOptions::default());
    assert_eq!(done.out.to_f32_vec(), [0.0; 48]);
    assert_eq!(done.lse, [f32::NEG_INFINITY; 3]);
    assert_eq!(done.row_max, [f32::NEG_INFINITY; 3]);
}

#[test]
fn half_precision_inputs() {
    let inputs = Dims::new(1, 2, 90, 90).inputs();
    let rules = Rules::both(causal(), softcap(1.0));
    let options = ForwardOptions::default();
    let dims = &inputs.dims;

    let [q, k, v] = [&inputs.q, &inputs.k, &inputs.v].map(|data| halves(data));
    let [q, k, v] = [(&q, dims.q()), (&k, dims.k()), (&v, dims.v())]
        .map(|(data, shape)| TensorRef::contiguous(data, shape).unwrap());
    let done = attention(q, k, v, &rules, &options).unwrap();
    assert_eq!(done.out.dtype(), Dtype::F16);
    assert_eq!(done.record.dtype, Dtype::F16);
    let expected = reference([q, k, v], &rules, &options);
    let out = done.out.to_f32_vec();
    agree(&out, &done.lse, &done.row_max, &expected, F16);

    let [q, k, v] = [&inputs.q, &inputs.k, &inputs.v].map(|data| brains(data));
    let [q, k, v] = [(&q, dims.q()), (&k, dims.k()), (&v, dims.v())]
        .map(|(data, shape)| TensorRef::contiguous(data, shape).unwrap());
    let done = attention(q, k, v, &rules, &options).unwrap();
    assert_eq!(done.out.dtype(), Dtype::BF16);
    let expected = reference([q, k, v], &rules, &options);
    let out = done.out.to_f32_vec();
    agree(&out, &done.lse, &done.row_max, &expected, BF16);
}

#[test]
fn strided_inputs_read_as_contiguous_ones() {
    let dims = Dims::new(2, 3, 20, 20);
    let inputs = dims.inputs();
    let [q, k, v] = inputs.views();
    let rules = Rules::both(causal(), alibi(3));
    let expected = reference([q, k, v], &rules, &ForwardOptions::default());
    // The same elements as [batch, length, heads, head_dim], and backwards along the head dimension.
    let permuted = |data: &[f32]| {
        let mut out = vec![0.0; data.len()];
        for (at, x) in data.iter().enumerate() {
            let (d, l) = (at % 16, at / 16 % 20);
            let (h, b) = (at / 320 % 3, at / 960);
            out[((b * 20 + l) * 3 + h) * 16 + 15 - d] = *x;
        }
        out
    };
    let [q, k, v] = [&inputs.q, &inputs.k, &inputs.v].map(|data| permuted(data));
    let [q, k, v] = [&q, &k, &v]
        .map(|data| TensorRef::new(data, [2, 3, 20, 16], [960, 16, 48, -1], 15).unwrap());
    let done = attention(q, k, v, &rules, &ForwardOptions::default()).unwrap();
    let out = done.out.to_f32_vec();
    agree(&out, &done.lse, &done.row_max, &expected, F32);
}

#[test]
fn tensors_are_views() {
    let inputs = Dims::new(1, 1, 4, 4).inputs();
    let tensor = Tensor::new([1, 1, 4, 16], inputs.q.clone()).unwrap();
    let view = TensorRef::try_from(&tensor).unwrap();
    assert_eq!(
        (view.shape(), view.strides()),
        ([1, 1, 4, 16], [64, 64, 16, 1])
    );
    let flat = Tensor::new([64], inputs.q).unwrap();
    let error = TensorRef::try_from(&flat).unwrap_err().to_string();
    assert_eq!(
        error,
        "expected a tensor [batch, heads, length, head_dim], found shape [64]"
    );
    let ints = Tensor::new([1, 1, 1, 1], vec![1_i32]).unwrap();
    let error = TensorRef::try_from(&ints).unwrap_err().to_string();
    assert_eq!(
        error,
        "expected elements of type f32, f16, bf16 or f64, found i32"
    );
}

#[test]
fn the_authors_function_is_the_law() {
    // The function and the expression differ on purpose: the reference takes the function.
    let lower = Arc::new(|point: &_, _: &_| {
        let point: &maskwright_dsl::eval::Point = point;
        Const::Bool(point.kv_idx < point.q_idx)
    });
    let mask = MaskRule::new(causal().bound().clone().with_reference(lower)).unwrap();
    let score = Arc::new(|point: &_, _: &_| {
        let point: &maskwright_dsl::eval::Point = point;
        Const::F32(point.score * 2.0)
    });
    let twice = ScoreRule::new(softcap(1.0).bound().clone().with_reference(score)).unwrap();
    let inputs = Dims::new(1, 1, 3, 3).inputs();
    let options = ForwardOptions::default();
    let found = inputs.reference(&Rules::both(mask, twice), &options);
    let lower = causal().shift(0, -1);
    let scaled = ForwardOptions {
        sm_scale: Some(0.5),
        ..options
    };
    let expected = inputs.reference(&lower.into(), &scaled);
    for (found, expected) in found.out.iter().zip(&expected.out) {
        assert!(close(*found, *expected, 1e-6));
    }
    assert_eq!(found.lse[0], f64::NEG_INFINITY);
}

#[test]
fn what_is_not_finite_behaves_as_in_a_dense_softmax() {
    let dims = Dims::new(1, 1, 20, 20);
    let mut inputs = dims.inputs();
    inputs.k[7 * 16] = f32::NAN;
    inputs.k[15 * 16] = f32::INFINITY;
    let record = inputs.check(&causal().into(), &ForwardOptions::default());
    assert!(record.tiles.partial == 1);
    let done = inputs.attention(&causal().into(), &ForwardOptions::default());
    assert!(done.lse[..7].iter().all(|lse| lse.is_finite()));
    assert!(done.lse[7..].iter().all(|lse| lse.is_nan()));
}

#[test]
fn a_score_of_minus_infinity_masks_its_cell() {
    let mut rule = Build::default();
    let score = rule.f32(f32::NEG_INFINITY);
    let rules = Rules::score(rule.score("nothing", score));
    let done = Dims::new(1, 1, 3, 3)
        .inputs()
        .attention(&rules, &ForwardOptions::default());
    assert_eq!(done.out.to_f32_vec(), [0.0; 48]);
    assert_eq!(done.lse, [f32::NEG_INFINITY; 3]);
    Dims::new(1, 1, 3, 3)
        .inputs()
        .check(&rules, &ForwardOptions::default());
}
