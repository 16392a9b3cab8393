//! Rules written as Rust functions and closures: the function, the interpreter and the prepared rule agree.

#![forbid(unsafe_code)]
#![deny(missing_docs, warnings, clippy::pedantic)]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    reason = "the rules convert positions, and compare bits of equal computations"
)]

use std::sync::Arc;

use maskwright::prelude::*;
use maskwright::{Bits, BoundRule, Capture, Held};
use maskwright_dsl::eval::{Point, ScalarEvaluator, Sizes};
use maskwright_dsl::pipeline::{Scope, prepare};

const LEN: i32 = 40;
const HEADS: i32 = 4;

const SIZES: Sizes = Sizes {
    batch: 1,
    num_q_heads: HEADS,
    q_len: LEN,
    kv_len: LEN,
};

fn cells() -> impl Iterator<Item = Point> {
    (0..HEADS).flat_map(|h| {
        (0..LEN).flat_map(move |q_idx| {
            (0..LEN).map(move |kv_idx| Point {
                b: 0,
                h,
                q_idx,
                kv_idx,
                score: (q_idx * 7 - kv_idx * 3) as f32 * 0.37,
            })
        })
    })
}

/// Checks the author's function against the interpreter, before and after the rule is prepared, at every cell.
#[track_caller]
fn check(bound: &BoundRule) {
    let reference = bound.reference().expect("macros attach the function");
    let bucket = Bucket::single(LEN as u64, LEN as u64, 0);
    let prepared = match prepare(bound, &Scope::new(bucket, 1, HEADS as u32)) {
        Ok(prepared) => prepared,
        Err(faults) => panic!("{}", faults.render(false)),
    };
    let mut law = ScalarEvaluator::new(bound.rule(), bound.bindings(), SIZES);
    let mut simplified = ScalarEvaluator::new(prepared.rule(), prepared.bindings(), SIZES);
    for cell in cells() {
        let expected = reference(&cell, &SIZES);
        assert_eq!(law.eval(&cell), Ok(expected), "{cell:?}");
        assert_eq!(simplified.eval(&cell), Ok(expected), "{cell:?}");
    }
}

fn documents() -> Vec<i32> {
    (0..LEN).map(|i| i / 7).collect()
}

/// Causal attention inside packed documents.
#[attention_mask]
fn packed_causal(q_idx: i32, kv_idx: i32, doc: &[i32]) -> bool {
    kv_idx <= q_idx && doc[q_idx] == doc[kv_idx]
}

#[test]
fn packed_documents() {
    let doc = documents();
    assert!(packed_causal(6, 0, &doc) && !packed_causal(7, 6, &doc));
    let rule = packed_causal::bind(&doc);
    assert_eq!(
        rule.bound().rule().doc,
        "Causal attention inside packed documents."
    );
    assert_eq!(rule.bound().rule().name, "packed_causal");
    check(rule.bound());
}

#[score_mod]
fn alibi(score: f32, h: i32, q_idx: i32, kv_idx: i32, slope: &[f32]) -> f32 {
    score + slope[h] * (kv_idx - q_idx) as f32
}

#[test]
fn alibi_adds_a_slope() {
    check(alibi::bind([0.5, 0.25, 0.125, 0.0625]).bound());
}

/// Bucketed relative positions (Raffel et al. 2020, arXiv:1910.10683).
#[score_mod]
fn t5_bias(score: f32, h: i32, q: i32, kv: i32, bias: &Buffer<f32, 2>) -> f32 {
    let distance = (q - kv).max(0);
    let bucket = if distance < 8 {
        distance
    } else {
        let far = (distance as f32 / 8.0).ln() / f32::ln(16.0) * 8.0;
        (8 + far as i32).min(15)
    };
    score + bias[[h, bucket]]
}

#[test]
fn t5_buckets_use_the_functions_of_the_language() {
    let bias: Vec<f32> = (0..HEADS * 16).map(|i| i as f32 * 0.01).collect();
    check(t5_bias::bind(Buffer::new(bias, [4, 16]).unwrap()).bound());
}

#[attention_mask]
fn tree(q_idx: i32, kv_idx: i32, ancestors: &Buffer<bool, 2>) -> bool {
    ancestors[q_idx][kv_idx]
}

#[attention_mask]
fn tree_bits(q_idx: i32, kv_idx: i32, ancestors: &Buffer<Bits, 2>) -> bool {
    ancestors[[q_idx, kv_idx]]
}

#[test]
fn tree_masks_of_bools_and_bits() {
    let is_ancestor = |at: i32| (at / LEN + at % LEN) % 3 == 0;
    let n = LEN as usize;
    let bools: Vec<bool> = (0..LEN * LEN).map(is_ancestor).collect();
    let bytes: Vec<u8> = bools
        .chunks(8)
        .map(|bits| (0..8).map(|j| u8::from(bits[j]) << j).sum())
        .collect();
    check(tree::bind(Buffer::new(bools, [n, n]).unwrap()).bound());
    let bits = Buffer::from_bits(bytes, [n, n]).unwrap();
    check(tree_bits::bind(&bits).bound());
}

#[attention_mask]
fn dilated<#[range(1..=8)] const STEPS: i32>(
    q_idx: i32,
    kv_idx: i32,
    #[range(1..=64)] stride: i32,
) -> bool {
    let mut found = false;
    for i in 0..STEPS {
        found |= kv_idx == q_idx - i * stride;
    }
    found || (0..STEPS).any(|i| kv_idx == i)
}

#[attention_mask]
fn nothing<const N: i32>() -> bool {
    N == 3
}

#[test]
fn loops_are_bounded_by_constants() {
    let (four, one) = (dilated::bind::<4>(3), dilated::bind::<1>(3));
    check(four.bound());
    check(one.bound());
    assert!(dilated::<4>(20, 11, 3) && !dilated::<1>(20, 11, 3));
    let capture = &four.bound().rule().captures[0];
    assert!(capture.min.is_some() && capture.max.is_some());
    let error = dilated::try_bind::<9>(3).unwrap_err().to_string();
    assert!(
        error.contains("expected `STEPS` in 1..=8, found 9"),
        "{error}"
    );
    check(nothing::bind::<3>().bound());
}

#[attention_mask]
fn by_head(h: i32, q_idx: i32, kv_idx: i32, kv_len: i32, w: i32) -> bool {
    if kv_idx == kv_len - 1 {
        return false;
    }
    match h {
        0 => true,
        1 | 2 if w > 2 => q_idx - kv_idx < w * h,
        3.. => (q_idx ^ kv_idx) & 1 == 0,
        _ => kv_idx.div_floor(3) == (q_idx - 7).rem_floor(5) || (kv_idx - 9).rem_euclid(4) == 2,
    }
}

#[test]
fn matches_and_early_returns() {
    check(by_head::bind(9).bound());
    check(by_head::bind(1).bound());
}

mod masks {
    //! Rules of another module, two with names that ours have too.
    use maskwright::prelude::*;

    #[attention_mask]
    pub(crate) fn near(q_idx: i32, kv_idx: i32, w: i32) -> bool {
        even(q_idx, kv_idx) && q_idx - kv_idx < w
    }

    #[attention_mask]
    fn even(q_idx: i32, kv_idx: i32) -> bool {
        (q_idx + kv_idx) % 2 == 0
    }

    pub(crate) mod deeper {
        //! A function that has a name of its caller.
        use maskwright::prelude::*;

        #[attention_mask]
        pub(crate) fn calls(q_idx: i32, kv_idx: i32, doc: &[i32]) -> bool {
            doc[kv_idx] % 2 == 0 || kv_idx < q_idx
        }
    }
}

use masks::near as close;

#[attention_mask]
fn even(q_idx: i32, kv_idx: i32) -> bool {
    q_idx % 2 == 0 && kv_idx % 2 == 0
}

#[attention_mask]
fn calls(q_idx: i32, kv_idx: i32, doc: &[i32], w: i32) -> bool {
    packed_causal(q_idx, kv_idx, doc) && masks::near(q_idx, kv_idx, w)
        || even(kv_idx, q_idx)
        || close(q_idx.max(3), kv_idx, 2)
        || masks::deeper::calls(kv_idx, q_idx, doc) && dilated::<3>(q_idx, kv_idx, 5)
}

#[test]
fn annotated_functions_call_one_another_by_any_path() {
    check(calls::bind(documents(), 6).bound());
}

#[attention_mask]
fn endless(q_idx: i32, kv_idx: i32) -> bool {
    kv_idx <= q_idx || more(q_idx, kv_idx)
}

#[attention_mask]
fn more(q_idx: i32, kv_idx: i32) -> bool {
    kv_idx == 0 || endless(q_idx, kv_idx)
}

#[test]
fn recursion_is_refused_when_it_is_bound() {
    let error = endless::try_bind().unwrap_err().to_string();
    assert!(error.contains("`endless` calls itself"), "{error}");
    assert!(
        error.contains("kv_idx <= q_idx || more(q_idx, kv_idx)"),
        "{error}"
    );
}

#[attention_mask]
fn declared(
    b: i32,
    q_idx: i32,
    kv_idx: i32,
    #[extent(batch, kv_len)]
    #[range(0..docs)]
    doc: &Buffer<u8, 2>,
    #[extent(docs)] start: &[i64],
) -> bool {
    start[doc[[b, q_idx]] as usize] <= i64::from(kv_idx)
}

#[test]
fn extents_and_ranges_are_declared_by_attributes() {
    let doc: Vec<u8> = (0..LEN).map(|i| (i / 7) as u8).collect();
    let start: Vec<i64> = (0..6).map(|d| d * 7).collect();
    let rule = declared::bind(Buffer::new(doc, [1, 40]).unwrap(), start);
    assert_eq!(rule.bound().rule().dims[0].name, "docs");
    check(rule.bound());
}

#[attention_mask]
#[allow(clippy::too_many_arguments, reason = "one capture of each type")]
fn every_capture(
    q: i32,
    kv: i32,
    int: i32,
    long: i64,
    word: u32,
    real: f32,
    flag: bool,
    u8s: &[u8],
    i8s: &[i8],
    u16s: &[u16],
    i16s: &[i16],
    i64s: &[i64],
    u32s: &[u32],
    f16s: &[half::f16],
    bf16s: &[half::bf16],
    f64s: &[f64],
    bools: &[bool],
    one: &Buffer<i32, 0>,
) -> bool {
    let small = u8s[q] + i8s[kv] + u16s[q as usize] + i16s[i64::from(kv)] + one[[]];
    let wide = i64s[q] + long * 2;
    let float = f16s[kv] + bf16s[q] * real + f64s[kv];
    (small < int || wide == i64::from(kv) || u32s[kv] == word) && float > 0.5 || flag && bools[q]
}

#[test]
fn every_type_is_captured() {
    let n = LEN as usize;
    let rule = every_capture::bind(
        9,
        -3,
        7,
        0.5,
        true,
        vec![3u8; n],
        vec![-1i8; n].into_boxed_slice(),
        Arc::from(vec![7u16; n]),
        (0..LEN as i16).collect::<Vec<i16>>(),
        [5i64; LEN as usize],
        Buffer::strided((0..2 * LEN as u32).collect::<Vec<_>>(), [n], [2], 1).unwrap(),
        Arc::from(vec![half::f16::from_f32(0.25); n]),
        Buffer::strided(vec![half::bf16::from_f32(1.5)], [n], [0], 0).unwrap(),
        (0..LEN).map(|i| f64::from(i) * 0.01).collect::<Vec<_>>(),
        [true, false].repeat(n / 2),
        Buffer::new([2], []).unwrap(),
    );
    check(rule.bound());
}

#[test]
fn functions_may_stand_in_functions() {
    #[attention_mask]
    fn local(q: i32, kv: i32) -> bool {
        kv <= q
    }
    check(local::bind().bound());
}

macro_rules! windows {
    ($($name:ident, $size:expr, $ty:ty;)*) => {$(
        #[attention_mask]
        fn $name(q: $ty, kv: $ty, doc: &[$ty]) -> bool {
            kv <= q && q - kv < $size * 2 && doc[q] == doc[$size - 1]
        }
    )*};
}

windows! {
    narrow, 1 + 2, i32;
    wide, 12, i32;
}

#[test]
fn functions_may_come_from_macros() {
    check(narrow::bind(documents()).bound());
    check(wide::bind(documents()).bound());
}

#[score_mod]
fn shaped(score: f32, q: i32, kv: i32, cap: f32) -> f32 {
    let d = (q - kv).abs() as f32;
    let x = cap * (score / cap).tanh() + d.sqrt().powi(3) - (-d).exp().ln().max(-30.0);
    let y = erf(x) + f32::powf(d, 0.3) + std::cmp::min(q, 3) as f32 + maskwright::math::exp2(-d);
    let terms = (0..3).map(|i| (d + i as f32).sin()).sum::<f32>();
    if kv > q {
        -inf
    } else {
        x + y.clamp(-1.0, 1.0) + terms.signum() + i64::pow(2, 3) as f32
    }
}

#[test]
fn float_functions_are_the_same_bits() {
    check(shaped::bind(20.0).bound());
}

#[test]
fn closures_capture_what_is_around_them() {
    let (w, doc, table) = (
        9,
        documents(),
        Buffer::new(vec![1.0f32; 160], [4, 40]).unwrap(),
    );
    let shared: Arc<[f32]> = Arc::from([0.5; 4]);
    check(mask!(|q, kv| kv <= q && q - kv < w).bound());
    check(mask!(|q: i32, kv: i32| -> bool { doc[q] == doc[kv] }).bound());
    check(mask!(|q_idx, kv_idx| packed_causal(q_idx, kv_idx, &doc) || even(q_idx, kv_idx)).bound());
    check(score!(|score, h, q, kv| score + shared[h] * (kv - q) as f32 * table[[h, q]]).bound());
    check(score!(|score| score.tanh() * 30.0).bound());
    check(mask!(|| true).bound());
    let slice = &doc[..];
    let rule = mask!(move |q, kv| {
        let w = w * 2;
        if kv > q {
            return false;
        }
        (0..2).any(|i| q - kv == i * w) || slice[kv] == 0
    });
    check(rule.bound());
    assert_eq!(rule.bound().rule().captures.len(), 2);
    assert_eq!(
        rule.bound().rule().name,
        "|q, kv| let w = w * 2; if kv > q { return false; } (0..2).an…"
    );
    assert_eq!(doc, documents());
}

fn generic_window<W>(w: W, half: i32) -> MaskRule
where
    W: Capture,
    W::Held: for<'a> Held<Seen<'a> = i32>,
{
    mask!(|q, kv| q - kv < w && q < half)
}

#[test]
fn one_closure_serves_every_value() {
    let rules: Vec<MaskRule> = (1..4).map(|w| mask!(|q, kv| q - kv < w)).collect();
    assert!(Arc::ptr_eq(
        rules[0].bound().rule(),
        rules[2].bound().rule()
    ));
    for rule in &rules {
        check(rule.bound());
    }
    check(generic_window(3, 20).bound());
}

#[test]
fn masks_combine_by_value_and_by_reference() {
    let (a, b) = (packed_causal::bind(documents()), mask!(|q, kv| q - kv < 5));
    for rule in [
        &a & &b,
        &a | b.clone(),
        a.clone() ^ &b,
        &a - &b,
        !&a & b.clone(),
        a | !b,
    ] {
        check(rule.bound());
    }
}

#[test]
fn a_read_outside_of_its_buffer_says_where() {
    let panic = std::panic::catch_unwind(|| packed_causal(3, 2, &[0, 0])).unwrap_err();
    let message = panic.downcast_ref::<String>().expect("a formatted message");
    assert_eq!(message, "index 3 leaves a captured slice of length 2");
}

#[test]
fn faults_of_a_prepared_rule_point_into_the_function() {
    let rule = packed_causal::bind(vec![0; 10]);
    let scope = Scope::new(Bucket::single(40, 40, 0), 1, 1);
    let faults = prepare(rule.bound(), &scope).unwrap_err().render(false);
    assert!(faults.contains("macros.rs:"), "{faults}");
    assert!(
        faults.contains("kv_idx <= q_idx && doc[q_idx] == doc[kv_idx]"),
        "{faults}"
    );
}
