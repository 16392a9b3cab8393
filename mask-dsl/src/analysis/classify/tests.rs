//! Every answer about a region is compared with its cells, for random masks.

use super::random::{LEN, Random, buffer, rule, rule_and_bindings};
use super::*;
use crate::bucket::Relation;
use crate::capture::Bindings;
use crate::eval::{Point, ScalarEvaluator, Sizes};
use crate::ir::{Arena, BinaryOp, CaptureId, Const, Expr, ExprId, Ty, Var};

#[test]
fn every_answer_holds_at_every_cell() {
    let mut decided = [0; 4];
    for seed in 0..8_000 {
        let (rule, bindings) = rule_and_bindings(seed);
        let mut random = Random(seed);
        let sizes = Sizes {
            batch: 2,
            num_q_heads: 3,
            q_len: LEN as i32,
            kv_len: LEN as i32,
        };
        let lengths = LengthRanges {
            q_len: (LEN, LEN),
            kv_len: (LEN, LEN),
            relation: Relation::Free,
        };
        let (b, h) = (random.below(2) as i32, random.below(3) as i32);
        let mut plane = PlaneClassifier::new(
            &rule,
            &bindings,
            (b, h),
            (2, 3),
            lengths,
            &[],
            &mut TableCache::new(),
        );
        let mut evaluator = ScalarEvaluator::new(&rule, &bindings, sizes);
        // Cells that break a promise of the language make the program invalid, so it is left out.
        let mut cell = |q: i64, kv: i64| {
            evaluator
                .eval(&Point {
                    b,
                    h,
                    q_idx: q as i32,
                    kv_idx: kv as i32,
                    score: 0.0,
                })
                .map(|v| v == Const::Bool(true))
        };
        'regions: for _ in 0..12 {
            let block = (1 + random.below(8) as i64, 1 + random.below(8) as i64);
            let count = (1 + random.below(3) as i64, 1 + random.below(3) as i64);
            let q0 = random.below((LEN - block.0 * count.0) as u64 + 1) as i64;
            let kv0 = random.below((LEN - block.1 * count.1) as u64 + 1) as i64;
            let region = Region {
                q: (q0, q0 + block.0 * count.0 - 1),
                kv: (kv0, kv0 + block.1 * count.1 - 1),
                block_q: block.0,
                block_kv: block.1,
                single: count == (1, 1),
            };
            let answer = plane.decide(&region);
            for block_q in 0..count.0 {
                for block_kv in 0..count.1 {
                    let (mut any_true, mut any_false) = (false, false);
                    for q in 0..block.0 {
                        for kv in 0..block.1 {
                            let at = (q0 + block_q * block.0 + q, kv0 + block_kv * block.1 + kv);
                            let Ok(value) = cell(at.0, at.1) else {
                                continue 'regions;
                            };
                            any_true |= value;
                            any_false |= !value;
                        }
                    }
                    let holds = (answer.may_true || !any_true)
                        && (answer.may_false || !any_false)
                        && (!answer.sure_true || any_true)
                        && (!answer.sure_false || any_false);
                    assert!(
                        holds,
                        "seed {seed}, {region:?}: {answer:?}, found true {any_true} false {any_false}\n{:?}",
                        rule.arena
                    );
                }
            }
            decided[match (answer.is_true(), answer.is_false(), answer.is_mixed()) {
                (true, ..) => 0,
                (_, true, _) => 1,
                (_, _, true) => 2,
                _ => 3,
            }] += 1;
        }
    }
    // The test means something only if every kind of answer was given often.
    assert!(
        decided.iter().all(|&n| 500 < n),
        "answers given: {decided:?}"
    );
}

/// Decides `root` over one block.
#[track_caller]
fn check(build: impl Fn(&mut Arena) -> ExprId, q: (i64, i64), kv: (i64, i64), expected: &str) {
    let mut arena = Arena::new();
    let root = build(&mut arena);
    let rule = rule(arena, root);
    let bindings = Bindings {
        values: vec![
            buffer((0..40).map(|i| i / 10).collect()),
            buffer(vec![5; 40]),
        ],
        dims: Vec::new(),
    };
    let lengths = LengthRanges {
        q_len: (40, 40),
        kv_len: (40, 40),
        relation: Relation::Equal,
    };
    let mut plane = PlaneClassifier::new(
        &rule,
        &bindings,
        (0, 0),
        (1, 1),
        lengths,
        &[],
        &mut TableCache::new(),
    );
    let answer = plane.decide(&Region {
        q,
        kv,
        block_q: q.1 - q.0 + 1,
        block_kv: kv.1 - kv.0 + 1,
        single: true,
    });
    let found = match (answer.is_true(), answer.is_false(), answer.is_mixed()) {
        (true, ..) => "full",
        (_, true, _) => "empty",
        (_, _, true) => "mixed",
        _ => "unknown",
    };
    assert_eq!(found, expected);
}

fn load(arena: &mut Arena, buffer: u32, var: Var) -> ExprId {
    let index = arena.var(var);
    let load = Expr::Load {
        buffer: CaptureId(buffer),
        index: Box::new([index]),
    };
    arena.intern(load, Some(Ty::I32), None).unwrap()
}

#[test]
fn a_diagonal_is_mixed_without_looking_at_cells() {
    let causal = |a: &mut Arena| {
        let (q, kv) = (a.var(Var::QIdx), a.var(Var::KvIdx));
        a.binary(BinaryOp::Le, kv, q)
    };
    check(causal, (0, 7), (0, 7), "mixed");
    check(causal, (8, 15), (0, 7), "full");
    check(causal, (7, 7), (0, 7), "full");
    check(causal, (0, 7), (8, 15), "empty");
}

#[test]
fn documents_are_decided_from_two_ranges() {
    let same = |a: &mut Arena| {
        let (x, y) = (load(a, 0, Var::QIdx), load(a, 0, Var::KvIdx));
        a.binary(BinaryOp::Eq, x, y)
    };
    check(same, (0, 4), (5, 9), "full");
    check(same, (0, 9), (10, 19), "empty");
    check(same, (5, 14), (0, 9), "mixed");
}

#[test]
fn residues_prove_a_mixture() {
    let strided = |a: &mut Arena| {
        let (q, kv) = (a.var(Var::QIdx), a.var(Var::KvIdx));
        let d = a.binary(BinaryOp::Sub, q, kv);
        let four = a.constant(Const::I32(4));
        let zero = a.constant(Const::I32(0));
        let r = a.binary(BinaryOp::RemFloor, d, four);
        a.binary(BinaryOp::Eq, r, zero)
    };
    check(strided, (0, 7), (0, 7), "mixed");
    check(strided, (3, 3), (3, 3), "full");
    let never = |a: &mut Arena| {
        let q = a.var(Var::QIdx);
        let two = a.constant(Const::I32(2));
        let one = a.constant(Const::I32(1));
        let even = a.binary(BinaryOp::Mul, q, two);
        let r = a.binary(BinaryOp::Rem, even, two);
        a.binary(BinaryOp::Eq, r, one)
    };
    check(never, (0, 7), (0, 7), "empty");
}

#[test]
fn known_bits_decide_aligned_squares() {
    let near = |a: &mut Arena| {
        let (q, kv) = (a.var(Var::QIdx), a.var(Var::KvIdx));
        let x = a.binary(BinaryOp::BitXor, q, kv);
        let eight = a.constant(Const::I32(8));
        a.binary(BinaryOp::Lt, x, eight)
    };
    check(near, (8, 15), (8, 15), "full");
    check(near, (8, 15), (16, 23), "empty");
}
