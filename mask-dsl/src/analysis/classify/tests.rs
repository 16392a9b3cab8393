//! Every answer about a region is compared with its cells, for random masks.

use super::*;
use crate::bucket::Relation;
use crate::capture::{Bindings, BufferData, CaptureValue, CapturedBuffer};
use crate::eval::{Point, ScalarEvaluator, Sizes};
use crate::ir::{
    Arena, BinaryOp, CaptureDecl, CaptureId, CaptureKind, Const, Elem, Expr, ExprId, Extent, Rule,
    RuleKind, Ty, UnaryOp, Var,
};

const LEN: i64 = 40;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let mut z = self.0;
        z ^= z >> 33;
        z = z.wrapping_mul(0xff51_afd7_ed55_8ccd);
        z ^ (z >> 29)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }
}

fn int(arena: &mut Arena, random: &mut Random, depth: u32) -> ExprId {
    if depth == 0 || random.below(5) == 0 {
        return match random.below(8) {
            0..=2 => arena.var(Var::QIdx),
            3..=5 => arena.var(Var::KvIdx),
            6 => arena.var(random.pick(&[Var::B, Var::H, Var::QLen, Var::KvLen])),
            _ => arena.constant(Const::I32(random.below(20) as i32 - 4)),
        };
    }
    let small = |arena: &mut Arena, random: &mut Random| {
        let c = random.pick(&[1, 2, 3, 4, 7, 8, 16]);
        arena.constant(Const::I32(c))
    };
    match random.below(16) {
        0..=4 => {
            let op = random.pick(&[
                BinaryOp::Add,
                BinaryOp::Sub,
                BinaryOp::Min,
                BinaryOp::Max,
                BinaryOp::BitAnd,
                BinaryOp::BitOr,
                BinaryOp::BitXor,
                BinaryOp::WrappingMul,
            ]);
            let (a, b) = (int(arena, random, depth - 1), int(arena, random, depth - 1));
            arena.binary(op, a, b)
        }
        5..=9 => {
            let op = random.pick(&[
                BinaryOp::Mul,
                BinaryOp::Div,
                BinaryOp::Rem,
                BinaryOp::DivFloor,
                BinaryOp::RemFloor,
                BinaryOp::DivEuclid,
                BinaryOp::RemEuclid,
                BinaryOp::Shr,
                BinaryOp::Shl,
            ]);
            let (a, b) = (int(arena, random, depth - 1), small(arena, random));
            arena.binary(op, a, b)
        }
        10 => {
            let op = random.pick(&[UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Signum, UnaryOp::Not]);
            let a = int(arena, random, depth - 1);
            arena.unary(op, a)
        }
        11 => {
            let (c, t, e) = (
                truth(arena, random, depth - 1),
                int(arena, random, depth - 1),
                int(arena, random, depth - 1),
            );
            arena.select(c, t, e)
        }
        12 => {
            let a = truth(arena, random, depth - 1);
            arena.known(&Expr::Cast {
                to: Ty::I32,
                arg: a,
            })
        }
        13 => {
            // Through u32 and back.
            let a = int(arena, random, depth - 1);
            let a = arena.known(&Expr::Cast {
                to: Ty::U32,
                arg: a,
            });
            arena.known(&Expr::Cast {
                to: Ty::I32,
                arg: a,
            })
        }
        _ => {
            // A read kept in range by a clamp, or by the variable itself.
            let index = if random.below(2) == 0 {
                arena.var(random.pick(&[Var::QIdx, Var::KvIdx]))
            } else {
                let a = int(arena, random, depth - 1);
                let lo = arena.constant(Const::I32(0));
                let hi = arena.constant(Const::I32(LEN as i32 - 1));
                arena.known(&Expr::Clamp { arg: a, lo, hi })
            };
            let buffer = CaptureId(random.below(2) as u32);
            arena
                .intern(
                    Expr::Load {
                        buffer,
                        index: Box::new([index]),
                    },
                    Some(Ty::I32),
                    None,
                )
                .unwrap()
        }
    }
}

fn truth(arena: &mut Arena, random: &mut Random, depth: u32) -> ExprId {
    if depth == 0 || random.below(3) == 0 {
        let op = random.pick(&[
            BinaryOp::Eq,
            BinaryOp::Ne,
            BinaryOp::Lt,
            BinaryOp::Le,
            BinaryOp::Gt,
            BinaryOp::Ge,
        ]);
        let depth = depth.max(1);
        let (a, b) = (int(arena, random, depth - 1), int(arena, random, depth - 1));
        return arena.binary(op, a, b);
    }
    match random.below(6) {
        0 => {
            let a = truth(arena, random, depth - 1);
            arena.unary(UnaryOp::Not, a)
        }
        1 => {
            let (c, t, e) = (
                truth(arena, random, depth - 1),
                truth(arena, random, depth - 1),
                truth(arena, random, depth - 1),
            );
            arena.select(c, t, e)
        }
        _ => {
            let op = random.pick(&[BinaryOp::And, BinaryOp::Or, BinaryOp::BitXor, BinaryOp::Eq]);
            let (a, b) = (
                truth(arena, random, depth - 1),
                truth(arena, random, depth - 1),
            );
            arena.binary(op, a, b)
        }
    }
}

fn buffer(values: Vec<i32>) -> CaptureValue {
    let shape = vec![values.len()];
    CaptureValue::Buffer(CapturedBuffer::new(BufferData::I32(values.into()), shape).unwrap())
}

fn rule(arena: Arena, root: ExprId) -> Rule {
    let capture = |name: &str| CaptureDecl {
        name: name.to_owned(),
        kind: CaptureKind::Buffer {
            elem: Elem::I32,
            extents: vec![Extent::Unspecified],
        },
        min: None,
        max: None,
        span: None,
    };
    Rule {
        name: "random".to_owned(),
        doc: String::new(),
        kind: RuleKind::Mask,
        captures: vec![capture("sorted"), capture("mixed")],
        dims: Vec::new(),
        arena,
        root,
        source: None,
    }
}

#[test]
fn every_answer_holds_at_every_cell() {
    let mut decided = [0; 4];
    for seed in 0..8_000 {
        let mut random = Random(seed);
        let mut arena = Arena::new();
        let root = truth(&mut arena, &mut random, 4);
        let rule = rule(arena, root);
        let bindings = Bindings {
            values: vec![
                buffer((0..LEN as i32).map(|i| i / 9).collect()),
                buffer((0..LEN).map(|_| random.below(12) as i32).collect()),
            ],
            dims: Vec::new(),
        };
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
