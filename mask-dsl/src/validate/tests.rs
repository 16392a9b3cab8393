//! What validation proves, what it refuses, and in which words.

use std::collections::BTreeMap;

use super::*;
use crate::bucket::{Bucket, Relation};
use crate::capture::{BufferData, CaptureValue};
use crate::ir::Const;
use crate::pipeline::prepare;
use crate::sexpr::{bound, int, ints, shaped};

fn lengths(q: std::ops::RangeInclusive<u64>, kv: std::ops::RangeInclusive<u64>) -> Scope {
    Scope {
        bucket: Bucket {
            q_len: q,
            kv_len: kv,
            relation: Relation::Free,
            q_offset: 0..=0,
        },
        batch: 2,
        num_q_heads: 4,
        scalar_ranges: BTreeMap::new(),
    }
}

fn self_attention(longest: u64) -> Scope {
    let mut scope = lengths(1..=longest, 1..=longest);
    scope.bucket.relation = Relation::Equal;
    scope
}

/// The messages of all faults, or the preconditions of a valid rule.
#[track_caller]
fn check(rule: &BoundRule, scope: &Scope, expected: &[&str]) {
    let found: Vec<String> = match prepare(rule, scope) {
        Ok(prepared) => prepared
            .preconditions()
            .iter()
            .map(|p| format!("ok: {p}"))
            .collect(),
        Err(diagnostics) => diagnostics
            .items
            .iter()
            .map(|d| d.message.clone())
            .collect(),
    };
    assert_eq!(found, expected);
}

fn floats(n: usize) -> CaptureValue {
    shaped(BufferData::F32(vec![0.5; n].into()), &[n])
}

const PACKED: &str = "(&& (<= kv q) (== (doc q) (doc kv)))";

#[test]
fn declared_lengths_prove_reads_at_every_length() {
    let rule = bound(&[], &["doc i32 [kv_len]"], PACKED, vec![ints(0..4096)]);
    check(
        &rule,
        &self_attention(4096),
        &["ok: doc has at least 4096 elements along axis 0"],
    );
    let rule = bound(&[], &["doc i32 [kv_len]"], PACKED, vec![ints(0..100)]);
    check(
        &rule,
        &self_attention(4096),
        &["capture `doc` must have at least kv_len = 4096 elements, found 100"],
    );
}

#[test]
fn undeclared_lengths_are_inferred() {
    let rule = bound(&[], &["doc i32 [_]"], PACKED, vec![ints(0..5000)]);
    check(
        &rule,
        &self_attention(4096),
        &["ok: doc has at least 4096 elements along axis 0"],
    );
    let rule = bound(&[], &["doc i32 [_]"], PACKED, vec![ints(0..100)]);
    check(
        &rule,
        &self_attention(4096),
        &[
            "index of `doc` can be 0..=4095, outside 0..100",
            "index of `doc` can be 0..=4095, outside 0..100",
        ],
    );
}

#[test]
fn a_query_may_lie_beyond_the_keys() {
    let rule = bound(&[], &["doc i32 [kv_len]"], PACKED, vec![ints(0..4096)]);
    check(
        &rule,
        &lengths(1..=4096, 1..=4096),
        &["index of `doc` can be 0..=4095, outside 0..kv_len"],
    );
    let mut scope = lengths(1..=4096, 1..=4096);
    scope.bucket.relation = Relation::AtMost;
    let proved = ["ok: doc has at least 4096 elements along axis 0"];
    check(&rule, &scope, &proved);
    scope.bucket.q_offset = 0..=1;
    check(
        &rule,
        &scope,
        &["index of `doc` can be 0..=4096, outside 0..kv_len"],
    );
    // A guard says what the bucket does not.
    let guarded = bound(
        &[],
        &["doc i32 [kv_len]"],
        "(&& (< q kv_len) (== (doc q) (doc kv)))",
        vec![ints(0..4096)],
    );
    check(&guarded, &scope, &proved);
}

#[test]
fn an_offset_within_a_longer_table_is_proved() {
    let mut scope = lengths(1..=8, 1..=64);
    scope.bucket.q_offset = 0..=56;
    let rule = bound(
        &[],
        &["bias f32 [64]"],
        "(+ score (bias q))",
        vec![floats(64)],
    );
    check(
        &rule,
        &scope,
        &["ok: bias has at least 64 elements along axis 0"],
    );
}

#[test]
fn guards_make_reads_legal() {
    let captures = ["doc i32 [_]", "table i32 [_]"];
    let values = || vec![ints((0..16).map(|i| i - 8)), ints(0..8)];
    let rule = bound(
        &[],
        &captures,
        "(&& (>= (doc q) 0) (> (table (doc q)) 0))",
        values(),
    );
    check(
        &rule,
        &self_attention(16),
        &[
            "ok: doc has at least 16 elements along axis 0",
            "ok: table has at least 8 elements along axis 0",
            "ok: every doc is in -8..=7",
        ],
    );
    let rule = bound(&[], &captures, "(> (table (doc q)) 0)", values());
    check(
        &rule,
        &self_attention(16),
        &["index of `table` can be -8..=7, outside 0..8"],
    );
    // The same read in the other arm, behind `||`, and after a negation.
    for text in [
        "(if (< (doc q) 0) false (> (table (doc q)) 0))",
        "(|| (< (doc q) 0) (> (table (doc q)) 0))",
        "(&& (! (|| (< (doc q) 0) (== kv 3))) (> (table (doc q)) 0))",
    ] {
        prepare(&bound(&[], &captures, text, values()), &self_attention(16))
            .unwrap_or_else(|e| panic!("{text}: {e}"));
    }
}

#[test]
fn a_banded_bias_without_a_lower_guard_is_refused() {
    let scope = lengths(256..=256, 256..=256);
    let rel = || vec![floats(64)];
    let rule = bound(
        &[],
        &["rel f32 [_]"],
        "(+ score (rel (+ (- q kv) 32)))",
        rel(),
    );
    check(
        &rule,
        &scope,
        &["index of `rel` can be -223..=287, outside 0..64"],
    );
    let rule = bound(
        &[],
        &["rel f32 [_]"],
        "(if (< (- kv q) 32) (+ score (rel (+ (- q kv) 32))) -inf)",
        rel(),
    );
    check(
        &rule,
        &scope,
        &["index of `rel` can be 1..=287, outside 0..64"],
    );
    let rule = bound(
        &[],
        &["rel f32 [_]"],
        "(if (< (abs (- kv q)) 32) (+ score (rel (+ (- q kv) 32))) -inf)",
        rel(),
    );
    check(
        &rule,
        &scope,
        &["ok: rel has at least 64 elements along axis 0"],
    );
}

#[test]
fn a_fault_points_at_the_index_and_says_what_would_prove_it() {
    let rule = bound(
        &[],
        &["rel f32 [_]"],
        "(+ score (rel (- q kv)))",
        vec![floats(64)],
    );
    let faults = prepare(&rule, &self_attention(64)).expect_err("kv may be past q");
    let fault = &faults.items[0];
    assert_eq!(fault.code, "out-of-bounds");
    let span = fault.labels[0].span;
    let text = &rule.rule().source.as_ref().unwrap().text;
    assert_eq!(&text[span.start as usize..span.end as usize], "(- q kv)");
    assert_eq!(fault.labels[0].text, "can be -63..=63");
    let help = fault.help.as_deref().unwrap();
    assert!(help.contains("0 <= index"), "{help}");
}

#[test]
fn overflow_names_the_shortest_length() {
    let rule = bound(&[], &[], "(< (* q kv) 5)", vec![]);
    check(&rule, &self_attention(46341), &[]);
    check(
        &rule,
        &self_attention(65536),
        &[
            "`*` can give 0..=4294836225, which i32 cannot hold; the shortest length at which it does is 46342",
        ],
    );
    let wide = bound(&[], &[], "(< (* (as i64 q) (as i64 kv)) 5i64)", vec![]);
    check(&wide, &self_attention(65536), &[]);
    let wrapping = bound(&[], &[], "(< (wrapping_mul q kv) 5)", vec![]);
    check(&wrapping, &self_attention(65536), &[]);
    let either = bound(&[], &[], "(== (- (as u32 q) (as u32 kv)) 0u32)", vec![]);
    check(
        &either,
        &self_attention(64),
        &[
            "`-` can give -63..=63, which u32 cannot hold; the shortest length at which it does is 2",
        ],
    );
}

#[test]
fn a_divisor_needs_a_range_or_a_guard() {
    let scope = self_attention(64);
    let text = "(== (% q n) 0)";
    check(
        &bound(&[], &["n i32"], text, vec![int(4)]),
        &scope,
        &["ok: n is in 4..=4"],
    );
    check(
        &bound(&[], &["n i32 1 64"], text, vec![int(4)]),
        &scope,
        &["ok: n is in 1..=64"],
    );
    check(
        &bound(&[], &["n i32 0 64"], text, vec![int(4)]),
        &scope,
        &["divisor of `%` can be 0: it can be 0..=64"],
    );
    check(
        &bound(&[], &["n i32"], text, vec![int(0)]),
        &scope,
        &["divisor of `%` can be 0: it can be 0"],
    );
    let guarded = "(&& (!= n 0) (== (div_floor q n) 0))";
    check(
        &bound(&[], &["n i32 0 64"], guarded, vec![int(4)]),
        &scope,
        &["ok: n is in 0..=64"],
    );
    let mut bucket = self_attention(64);
    bucket.scalar_ranges.insert("n".to_owned(), (1, 8));
    check(
        &bound(&[], &["n i32"], text, vec![int(4)]),
        &bucket,
        &["ok: n is in 1..=8"],
    );
    check(
        &bound(&[], &["n i32"], text, vec![int(9)]),
        &bucket,
        &["capture `n` of rule test is 9, outside 1..=8"],
    );
    check(
        &bound(&[], &["n i32 1 4"], text, vec![int(4)]),
        &bucket,
        &["the bucket has `n` in 1..=8, but rule test declares 1..=4"],
    );
}

#[test]
fn the_tree_mask_reads_behind_its_clamp() {
    let text =
        "(|| (< kv p) (&& (&& (<= p kv) (< kv (+ p n))) (anc q (clamp (- kv p) 0 (- n 1)))))";
    let anc = || shaped(BufferData::Bool(vec![true; 36].into()), &[6, 6]);
    let scope = lengths(1..=6, 1..=10);
    // From what is bound; the guards alone say that `p` lies among the keys.
    let captures = ["anc bool [_ _]", "p i32", "n i32"];
    check(
        &bound(&[], &captures, text, vec![anc(), int(4), int(6)]),
        &scope,
        &[
            "ok: anc has at least 6 elements along axis 0",
            "ok: anc has at least 6 elements along axis 1",
            "ok: n is in 6..=6",
        ],
    );
    // All from declarations: one preparation serves every prefix and tree.
    let captures = ["p i32 0 131072", "n i32 1 128", "anc bool [q_len n]"];
    check(
        &bound(&[], &captures, text, vec![int(4), int(6), anc()]),
        &scope,
        &[
            "ok: p is in 0..=131072",
            "ok: n is in 1..=128",
            "ok: anc has at least 6 elements along axis 0",
            "ok: anc has at least 6 elements along axis 1",
        ],
    );
    // Without the clamp the guard alone proves the index too.
    let text = "(|| (< kv p) (&& (&& (<= p kv) (< kv (+ p n))) (anc q (- kv p))))";
    check(
        &bound(&[], &captures, text, vec![int(4), int(6), anc()]),
        &scope,
        &[
            "ok: p is in 0..=131072",
            "ok: n is in 1..=128",
            "ok: anc has at least 6 elements along axis 0",
            "ok: anc has at least 6 elements along axis 1",
        ],
    );
    // A clamp whose bounds may cross is refused.
    let captures = ["p i32 0 131072", "n i32 0 128", "anc bool [q_len n]"];
    let text = "(anc q (clamp (- kv p) 0 (- n 1)))";
    let faults = prepare(
        &bound(&[], &captures, text, vec![int(4), int(6), anc()]),
        &scope,
    )
    .expect_err("n may be 0");
    assert!(faults.items.iter().any(|d| d.code == "crossed-clamp"));
}

#[test]
fn nested_gathers_rest_on_declared_contents() {
    let captures = ["doc i32 [kv_len] 0 (- docs 1)", "start i32 [docs]"];
    let text = "(<= (start (doc q)) kv)";
    let rule = bound(
        &["docs"],
        &captures,
        text,
        vec![ints((0..64).map(|i| i / 16)), ints([0, 16, 32, 48])],
    );
    let scope = self_attention(64);
    check(
        &rule,
        &scope,
        &[
            "ok: doc has at least 64 elements along axis 0",
            "ok: every doc is in 0..=3",
            "ok: start has at least 4 elements along axis 0",
        ],
    );
    let prepared = prepare(&rule, &scope).unwrap();
    // Later batches may have more documents, as long as they keep what was declared.
    let later = vec![ints((0..64).map(|i| i / 8)), ints((0..8).map(|i| i * 8))];
    let rebound = prepared.rebind(later).unwrap();
    assert!(std::sync::Arc::ptr_eq(prepared.rule(), rebound.rule()));
    let broken = vec![ints((0..64).map(|i| i / 8)), ints([0, 16, 32, 48])];
    let error = prepared.rebind(broken).unwrap_err();
    assert_eq!(
        error.items[0].message,
        "capture `doc` of rule test has 4 at [32], outside 0..=3"
    );
}

#[test]
fn a_dimension_is_only_asked_to_exist() {
    let rule = bound(
        &["docs"],
        &["start i32 [docs]"],
        "(<= (start (clamp (- q 3) 0 (- docs 1))) kv)",
        vec![ints([0, 16, 32, 48])],
    );
    check(
        &rule,
        &self_attention(64),
        &[
            "ok: start has at least 4 elements along axis 0",
            "ok: docs is at least 1",
        ],
    );
    let prepared = prepare(&rule, &self_attention(64)).unwrap();
    assert!(prepared.rebind(vec![ints([0, 7])]).is_ok());
    let error = prepared.rebind(vec![ints([])]).unwrap_err();
    assert_eq!(
        error.items[0].message,
        "dimension `docs` of rule test is 0, outside 1.."
    );
}

#[test]
fn block_tables_are_read_by_quotients() {
    let scope = self_attention(4096);
    let table = ints(0..256);
    let rule = bound(
        &[],
        &["table i32 [(/ (+ kv_len 15) 16)]"],
        "(== (table (/ kv 16)) (table (>> q 4)))",
        vec![table],
    );
    check(
        &rule,
        &scope,
        &["ok: table has at least 256 elements along axis 0"],
    );
    // Chunks bound the distance within them.
    let rule = bound(
        &[],
        &["rel i32 [_]"],
        "(&& (== (/ q 32) (/ kv 32)) (> (rel (+ (- q kv) 31)) 0))",
        vec![ints(0..63)],
    );
    check(
        &rule,
        &scope,
        &["ok: rel has at least 63 elements along axis 0"],
    );
    // A remainder stays below its divisor, whatever that is.
    let rule = bound(
        &[],
        &["n i32 1 64", "phase i32 [n]"],
        "(== (phase (rem_euclid (- q kv) n)) 0)",
        vec![int(8), ints(0..8)],
    );
    check(
        &rule,
        &scope,
        &[
            "ok: n is in 1..=64",
            "ok: phase has at least 8 elements along axis 0",
        ],
    );
}

#[test]
fn an_index_chosen_by_cases_is_proved_by_cases() {
    let rule = bound(
        &[],
        &["doc i32 [kv_len]"],
        "(== (doc (if (< q kv) q (min kv (- kv_len 1)))) 0)",
        vec![ints(0..64)],
    );
    check(
        &rule,
        &lengths(1..=64, 1..=64),
        &["ok: doc has at least 64 elements along axis 0"],
    );
}

#[test]
fn float_buckets_are_bounded() {
    // T5: half of the buckets exact, the rest logarithmic.
    let t5 = "(let (- q kv) (+ score (bias (if (< (abs (- q kv)) 16) (abs (- q kv)) \
              (min (+ 16 (as i32 (* (/ (ln (/ (as f32 (abs (- q kv))) 16.0)) (ln (/ 128.0 16.0))) 16.0))) 31)))))";
    let rule = bound(&[], &["bias f32 [_]"], t5, vec![floats(32)]);
    check(
        &rule,
        &self_attention(4096),
        &["ok: bias has at least 32 elements along axis 0"],
    );
    // The logarithm of 0 saturates below, which a sum upwards survives and one downwards does not.
    let rule = bound(
        &[],
        &["bias f32 [_]"],
        "(+ score (bias (clamp (+ 16 (as i32 (ln (/ (as f32 (abs (- q kv))) 16.0)))) 0 31)))",
        vec![floats(32)],
    );
    check(
        &rule,
        &self_attention(4096),
        &["ok: bias has at least 22 elements along axis 0"],
    );
    let rule = bound(
        &[],
        &["bias f32 [_]"],
        "(+ score (bias (clamp (+ -16 (as i32 (ln (/ (as f32 (abs (- q kv))) 16.0)))) 0 31)))",
        vec![floats(32)],
    );
    check(
        &rule,
        &self_attention(64),
        &["`+` can give -2147483664..=-15, which i32 cannot hold, at every length"],
    );
}

#[test]
fn all_faults_come_at_once_in_source_order() {
    let rule = bound(
        &[],
        &["n i32 0 64", "t i32 [_]"],
        "(|| (== (/ q n) 0) (|| (== (<< q n) (pow 2 kv)) (> (t (- kv)) (- (t 0) q))))",
        vec![int(4), ints([1])],
    );
    let faults = prepare(&rule, &self_attention(64)).unwrap_err();
    let codes: Vec<_> = faults.items.iter().map(|d| d.code).collect();
    assert_eq!(
        codes,
        ["zero-divisor", "shift-amount", "overflow", "out-of-bounds"]
    );
}

#[test]
fn breached_declarations_name_the_first_offender() {
    let scope = self_attention(8);
    let rule = bound(
        &[],
        &["t i32 [2 4] 0 15"],
        "(> (t 0 0) 0)",
        vec![shaped(
            BufferData::I32([0, 1, 2, 3, 4, 99, -1, 5].into()),
            &[2, 4],
        )],
    );
    check(
        &rule,
        &scope,
        &["capture `t` of rule test has 99 at [1, 1], outside 0..=15"],
    );
    let rule = bound(
        &[],
        &["w f32 0 1"],
        "(* score w)",
        vec![CaptureValue::Scalar(Const::F32(f32::NAN))],
    );
    check(
        &rule,
        &scope,
        &["capture `w` of rule test is NaN, outside 0..=1"],
    );
}

#[test]
fn nothing_needs_proof_where_there_are_no_cells() {
    let rule = bound(
        &[],
        &["t i32 [_]"],
        "(== (/ (t (* q 1000000000)) 0) 0)",
        vec![ints([])],
    );
    check(&rule, &lengths(0..=0, 0..=0), &[]);
    let mut none = self_attention(64);
    none.batch = 0;
    check(&rule, &none, &[]);
}

#[test]
fn lengths_must_fit_positions() {
    let rule = bound(&[], &[], "(<= kv q)", vec![]);
    check(
        &rule,
        &lengths(1..=8, 1..=3_000_000_000),
        &[
            "kv_len reaches 3000000000 in rule test, but positions and sizes are i32, at most 2147483647",
        ],
    );
    let mut scope = lengths(1..=8, 1..=8);
    scope.bucket.q_offset = 0..=i64::from(i32::MAX);
    check(
        &rule,
        &scope,
        &[
            "q_idx reaches 2147483654 in rule test, but positions and sizes are i32, at most 2147483647",
        ],
    );
}

#[test]
fn later_values_are_checked_against_what_was_needed() {
    let scope = self_attention(64);
    let rule = bound(
        &[],
        &["w i32", "n i32"],
        "(&& (< (- q kv) w) (== (% q n) 0))",
        vec![int(16), int(4)],
    );
    let prepared = prepare(&rule, &scope).unwrap();
    // Any window will do, as no proof needed it.
    assert!(prepared.rebind(vec![int(-5), int(4)]).is_ok());
    let error = prepared.rebind(vec![int(16), int(8)]).unwrap_err();
    assert_eq!(
        error.items[0].message,
        "capture `n` of rule test is 8, outside 4..=4"
    );
    let error = prepared.rebind(vec![int(16)]).unwrap_err();
    assert_eq!(error.items[0].code, "bind");
}

#[test]
fn deep_rules_need_no_deep_stack() {
    let mut text = "(== kv 0)".to_owned();
    let mut sum = "q".to_owned();
    for i in 0..1500 {
        text = format!(
            "(|| (&& (<= kv q) (== (rem_euclid (- q kv) {}) 0)) {text})",
            i + 2
        );
        sum = format!("(wrapping_add {sum} (% kv {}))", i + 2);
    }
    let text = format!("(|| {text} (== {sum} 3))");
    let rule = std::thread::Builder::new()
        .stack_size(64 << 20)
        .spawn(move || crate::sexpr::rule(&[], &[], &text))
        .unwrap()
        .join()
        .unwrap();
    let rule = BoundRule::new(std::sync::Arc::new(rule), vec![], &[]).unwrap();
    std::thread::Builder::new()
        .stack_size(512 << 10)
        .spawn(move || {
            prepare(&rule, &self_attention(4096)).unwrap();
        })
        .unwrap()
        .join()
        .unwrap();
}

#[test]
fn sizes_are_compared_as_expressions() {
    let rule = bound(
        &[],
        &[
            "doc i32 [batch kv_len]",
            "cu i32 [(+ batch 1)]",
            "rel f32 [(* 2 kv_len)]",
            "slope f32 [(/ num_q_heads 2)]",
        ],
        "(if (&& (== (doc b q) (doc b kv)) (< kv (cu (+ b 1)))) \
         (+ (rel (+ (- q kv) kv_len)) (slope (/ h 2))) -inf)",
        vec![
            shaped(BufferData::I32(vec![7; 128].into()), &[2, 64]),
            ints([0, 10, 20]),
            floats(128),
            floats(2),
        ],
    );
    check(
        &rule,
        &self_attention(64),
        &[
            "ok: doc has at least 2 elements along axis 0",
            "ok: doc has at least 64 elements along axis 1",
            "ok: cu has at least 3 elements along axis 0",
            "ok: rel has at least 128 elements along axis 0",
            "ok: slope has at least 2 elements along axis 0",
        ],
    );
}

#[test]
fn a_condition_that_stands_twice_is_known_the_second_time() {
    let rule = bound(
        &[],
        &["on bool", "t i32 [_]"],
        "(if on (if on true (> (t -1) 0)) (|| on (> (t 0) 0)))",
        vec![CaptureValue::Scalar(Const::Bool(true)), ints([1])],
    );
    check(
        &rule,
        &self_attention(64),
        &["ok: t has at least 1 elements along axis 0"],
    );
}

#[test]
fn known_rules_are_proved() {
    let f32s = |shape: &[usize]| {
        let n: usize = shape.iter().product();
        shaped(BufferData::F32(vec![0.5; n].into()), shape)
    };
    let cases: Vec<(&str, &[&str], &str, Vec<CaptureValue>)> = vec![
        (
            "a page table, its physical block looked up under a guard",
            &["page i32 1 64", "p2l i32 [_ _]"],
            "(if (>= (p2l b (/ kv page)) 0) \
             (+ score (as f32 (- q (+ (* (p2l b (/ kv page)) page) (% kv page))))) -inf)",
            vec![
                int(16),
                shaped(BufferData::I32(vec![-1; 128].into()), &[2, 64]),
            ],
        ),
        (
            "a relative bias in two dimensions (Swin)",
            &["w i32", "table f32 [_ _]"],
            "(+ score (table (+ (+ (* (- (+ (- (/ q w) (/ kv w)) w) 1) (- (* 2 w) 1)) (- (% q w) (% kv w))) (- w 1)) h))",
            vec![int(8), f32s(&[225, 4])],
        ),
        (
            "decomposed relative positions",
            &[
                "w i32 1 64",
                "rel_h f32 [batch num_q_heads q_len (/ (+ kv_len (- w 1)) w)]",
                "rel_w f32 [batch num_q_heads q_len w]",
            ],
            "(+ (+ score (rel_w b h q (% kv w))) (rel_h b h q (/ kv w)))",
            vec![int(64), f32s(&[2, 4, 64, 1]), f32s(&[2, 4, 64, 64])],
        ),
        (
            "a clamped relative bias",
            &["mx i32 0 64", "rs f32 [(+ (* 2 mx) 1)]"],
            "(+ score (rs (clamp (+ (- q kv) mx) 0 (* 2 mx))))",
            vec![int(16), f32s(&[33])],
        ),
        (
            "logarithmic buckets (DeBERTa)",
            &["c2p f32 [batch num_q_heads q_len 512]"],
            "(+ score (c2p b h q (clamp (+ (if (<= (if (< (abs (- q kv)) 128) 127 (abs (- q kv))) 128) (- q kv) \
             (as i32 (* (as f32 (signum (- q kv))) (+ 128.0 (ceil (* 127.0 (/ (ln (/ (as f32 (if (< (abs (- q kv)) 128) 127 (abs (- q kv)))) 128.0)) \
             (ln (/ 511.0 128.0))))))))) 256) 0 511)))",
            vec![f32s(&[2, 4, 64, 512])],
        ),
        (
            "a hash of the cell (dropout)",
            &["seed u32", "drop u32"],
            "(>= (^ (wrapping_mul (^ (wrapping_mul (as u32 q) 83492791u32) (^ (wrapping_mul (as u32 kv) 2654435761u32) seed)) 2146121005u32) \
             (>> (wrapping_mul (as u32 b) 73856093u32) 15)) drop)",
            vec![
                CaptureValue::Scalar(Const::U32(7)),
                CaptureValue::Scalar(Const::U32(9)),
            ],
        ),
        (
            "documents with prefixes, offsets looked up by document",
            &[
                "doc i32 [kv_len] 0 7",
                "offs i32 [8] 0 4096",
                "plen i32 [8] 0 4096",
            ],
            "(&& (== (doc q) (doc kv)) (|| (>= q kv) (< (- kv (offs (doc kv))) (plen (doc kv)))))",
            vec![ints((0..64).map(|i| i / 8)), ints(0..8), ints(0..8)],
        ),
        (
            "selected blocks, shared by a group of heads",
            &["sel bool [batch (/ num_q_heads 2) q_len (/ (+ kv_len 15) 16)]"],
            "(&& (>= q kv) (|| (== (/ q 16) (/ kv 16)) (sel b (/ h 2) q (/ kv 16))))",
            vec![shaped(
                BufferData::Bool(vec![true; 2 * 2 * 64 * 4].into()),
                &[2, 2, 64, 4],
            )],
        ),
        (
            "rounds of training (EAGLE-3)",
            &["length i32 [batch] 0 65536", "shift i32 0 16"],
            "(|| (&& (>= (- q shift) kv) (< kv (length b))) \
             (&& (&& (>= kv q_len) (< (% kv q_len) (length b))) (== (% (- kv q) q_len) 0)))",
            vec![ints([5, 6]), int(2)],
        ),
    ];
    for (name, captures, text, values) in cases {
        let rule = bound(&[], captures, text, values);
        prepare(&rule, &self_attention(64)).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn a_scalar_within_the_bound_of_another_keeps_its_own() {
    // Lowering meets `n` in the extent before it meets the bounds of `n`.
    let text = "mask m(x: [i32; 2 * n - 1], n: i32 in 1..=64, m: i32 in 0..n) = x[m] == kv % n";
    let source = crate::ir::Source {
        name: "m.mask".to_owned(),
        text: text.to_owned(),
    };
    let module = crate::text::parse(source.into()).unwrap();
    let options = crate::text::LowerOptions::default();
    let rule = crate::text::lower(&module, None, &options, &crate::text::EmptyLibrary).unwrap();
    let values = vec![ints(0..9), int(5), int(4)];
    let rule = BoundRule::new(rule.into(), values, &[]).unwrap();
    check(
        &rule,
        &self_attention(1_000_000),
        &[
            "ok: x has at least 9 elements along axis 0",
            "ok: n is in 1..=64",
            "ok: m is in 0..=4",
        ],
    );
}
