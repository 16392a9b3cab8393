//! Listings and expressions of small rules.

use super::*;
use crate::ir::{
    Arena, BinaryOp as B, CaptureDecl, CaptureId, DimDecl, DimId, Elem, MathFn, Ty, Var,
};

fn rule() -> Rule {
    let mut arena = Arena::new();
    let root = arena.constant(Const::Bool(true));
    let kv_len = arena.var(Var::KvLen);
    let one = arena.constant(Const::I32(1));
    let docs = arena.intern(Expr::Dim(DimId(0)), None, None).unwrap();
    let decl = |name: &str, kind, min, max| CaptureDecl {
        name: name.to_owned(),
        kind,
        min,
        max,
        span: None,
    };
    let doc = CaptureKind::Buffer {
        elem: Elem::I32,
        extents: vec![Extent::AtLeast(kv_len), Extent::Unspecified],
    };
    Rule {
        name: "sample".to_owned(),
        doc: String::new(),
        kind: RuleKind::Mask,
        captures: vec![
            decl("w", CaptureKind::Scalar(Ty::I32), Some(one), Some(docs)),
            decl("doc", doc, Some(one), None),
        ],
        dims: vec![DimDecl {
            name: "docs".to_owned(),
            span: None,
        }],
        arena,
        root,
        source: None,
    }
}

fn load(arena: &mut Arena, index: &[ExprId]) -> ExprId {
    let expr = Expr::Load {
        buffer: CaptureId(1),
        index: index.into(),
    };
    arena.intern(expr, Some(Ty::I32), None).unwrap()
}

#[track_caller]
fn check(build: impl FnOnce(&mut Arena) -> ExprId, expected: &str) {
    let mut rule = rule();
    let id = build(&mut rule.arena);
    assert_eq!(rule.to_expression_string(id), expected);
}

fn int(arena: &mut Arena, value: i32) -> ExprId {
    arena.constant(Const::I32(value))
}

#[test]
fn parentheses_stand_where_they_are_needed_only() {
    check(
        |a| {
            let (q, kv) = (a.var(Var::QIdx), a.var(Var::KvIdx));
            let le = a.binary(B::Le, kv, q);
            let distance = a.binary(B::Sub, q, kv);
            let four = int(a, 4);
            let rest = a.binary(B::Rem, distance, four);
            let zero = int(a, 0);
            let strided = a.binary(B::Eq, rest, zero);
            let h = a.var(Var::H);
            let head = a.binary(B::Ne, h, zero);
            let either = a.binary(B::Or, strided, head);
            let not = a.unary(UnaryOp::Not, either);
            a.binary(B::And, le, not)
        },
        "kv <= q && !((q - kv) % 4 == 0 || h != 0)",
    );
    check(
        |a| {
            let (q, kv, h) = (a.var(Var::QIdx), a.var(Var::KvIdx), a.var(Var::H));
            let left = a.binary(B::Sub, q, kv);
            let left = a.binary(B::Sub, left, h);
            let right = a.binary(B::Sub, kv, h);
            a.binary(B::Sub, left, right)
        },
        "q - kv - h - (kv - h)",
    );
    check(
        |a| {
            let (q, kv) = (a.var(Var::QIdx), a.var(Var::KvIdx));
            let and = a.binary(B::BitAnd, q, kv);
            let one = int(a, 1);
            let sum = a.binary(B::Add, kv, one);
            let shifted = a.binary(B::Shr, q, sum);
            let or = a.binary(B::BitOr, shifted, and);
            a.binary(B::BitAnd, or, one)
        },
        "(q >> kv + 1 | q & kv) & 1",
    );
}

#[test]
fn comparisons_and_casts_keep_theirs() {
    check(
        |a| {
            let (q, kv) = (a.var(Var::QIdx), a.var(Var::KvIdx));
            let lt = a.binary(B::Lt, q, kv);
            let le = a.binary(B::Le, q, kv);
            a.binary(B::Eq, lt, le)
        },
        "(q < kv) == (q <= kv)",
    );
    check(
        |a| {
            let (q, kv) = (a.var(Var::QIdx), a.var(Var::KvIdx));
            let sum = a.binary(B::Add, q, kv);
            let wide = a.known(&Expr::Cast {
                to: Ty::I64,
                arg: sum,
            });
            let ten = a.constant(Const::I64(-10));
            a.binary(B::Lt, wide, ten)
        },
        "((q + kv) as i64) < -10i64",
    );
}

#[test]
fn calls_reads_and_blocks() {
    check(
        |a| {
            let (q, kv) = (a.var(Var::QIdx), a.var(Var::KvIdx));
            let two = int(a, 2);
            let power = a.binary(B::Pow, two, kv);
            let minus = int(a, -3);
            let abs = a.unary(UnaryOp::Abs, minus);
            let sum = a.binary(B::Add, power, abs);
            let clamped = a.known(&Expr::Clamp {
                arg: sum,
                lo: minus,
                hi: q,
            });
            load(a, &[clamped, kv])
        },
        "doc[((2).pow(kv) + (-3).abs()).clamp(-3, q), kv]",
    );
    check(
        |a| {
            let score = a.var(Var::Score);
            let half = a.constant(Const::F32(0.5));
            let tanh = a.unary(UnaryOp::Math(MathFn::Tanh), score);
            let low = a.constant(Const::F32(f32::NEG_INFINITY));
            let (q, kv) = (a.var(Var::QIdx), a.var(Var::KvIdx));
            let on = a.binary(B::Le, kv, q);
            let off = a.binary(B::Eq, kv, q);
            let inner = a.select(off, half, low);
            let outer = a.select(on, tanh, inner);
            let negative = a.unary(UnaryOp::Neg, outer);
            a.binary(B::Mul, negative, half)
        },
        "-(if kv <= q { score.tanh() } else if kv == q { 0.5 } else { -inf }) * 0.5",
    );
    check(
        |a| {
            let (q, kv) = (a.var(Var::QIdx), a.var(Var::KvIdx));
            let first = load(a, &[q, q]);
            let value = a.binary(B::Le, kv, q);
            a.known(&Expr::Then { first, value })
        },
        "{ let _ = doc[q, q]; kv <= q }",
    );
}

#[test]
fn what_is_too_deep_is_left_out() {
    let mut rule = rule();
    let arena = &mut rule.arena;
    let q = arena.var(Var::QIdx);
    let mut deep = arena.var(Var::KvIdx);
    for n in 0..5000 {
        let n = arena.constant(Const::I32(n));
        let sum = arena.binary(B::Add, deep, n);
        deep = arena.binary(B::Mul, sum, q);
    }
    let text = rule.to_expression_string(deep);
    assert!(
        text.chars().count() <= MAX_CHARS && text.contains('…'),
        "{text}"
    );
    assert!(text.ends_with("+ 4998) * q + 4999) * q"), "{text}");
    // Doubling makes a text of 2^40 characters out of 40 nodes.
    let mut wide = q;
    for _ in 0..40 {
        wide = rule.arena.binary(B::Add, wide, wide);
    }
    assert_eq!(
        rule.to_expression_string(wide),
        "… + … + (… + …) + (… + … + (… + …)) + (… + … + (… + …) + (… + … + (… + …)))"
    );
}

#[test]
fn a_listing_shows_declarations_and_one_line_per_live_node() {
    let mut rule = rule();
    let arena = &mut rule.arena;
    let (q, kv) = (arena.var(Var::QIdx), arena.var(Var::KvIdx));
    arena.binary(B::Mul, q, kv);
    let near = arena.binary(B::Sub, q, kv);
    let w = arena
        .intern(Expr::Scalar(CaptureId(0)), Some(Ty::I32), None)
        .unwrap();
    let near = arena.binary(B::Lt, near, w);
    let zero = arena.constant(Const::I32(0));
    let doc = load(arena, &[kv, zero]);
    let doc = arena.known(&Expr::Cast {
        to: Ty::F32,
        arg: doc,
    });
    let half = arena.constant(Const::F32(0.5));
    let positive = arena.binary(B::Gt, doc, half);
    rule.root = arena.binary(B::And, near, positive);
    let expected = "\
mask sample {
  capture w: i32 in 1..=docs
  capture doc: [i32; kv_len, _] in 1..
  dim docs
  %0 = var q : i32
  %1 = var kv : i32
  %2 = sub %0, %1 : i32
  %3 = scalar w : i32
  %4 = lt %2, %3 : bool
  %5 = const 0 : i32
  %6 = load doc[%1, %5] : i32
  %7 = cast %6 : f32
  %8 = const 0.5 : f32
  %9 = gt %7, %8 : bool
  %10 = and %4, %9 : bool
  return %10
}
";
    assert_eq!(rule.to_listing(), expected);
}
