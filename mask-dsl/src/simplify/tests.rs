//! Each rewrite by example, and all of them against the interpreter on random programs.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::analysis::facts::EnvId;
use crate::analysis::range::{Assumptions, SizeRanges};
use crate::bind::BoundRule;
use crate::bucket::{Bucket, Relation};
use crate::capture::{Bindings, BufferData, CaptureValue};
use crate::eval::{Point, ScalarEvaluator, Sizes};
use crate::ir::{CaptureDecl, CaptureId, Elem, MathFn, RuleKind, Var};
use crate::pipeline::{Scope, prepare};
use crate::sexpr::{BINARY_OPS, bound, int, ints, rule, shaped};

fn scope(longest: u64) -> Scope {
    Scope {
        bucket: Bucket {
            q_len: 1..=longest,
            kv_len: 1..=longest,
            relation: Relation::Free,
            q_offset: 0..=2,
        },
        batch: 2,
        num_q_heads: 2,
        scalar_ranges: BTreeMap::new(),
    }
}

fn simplified(rule: &Rule, scope: &Scope) -> Rule {
    let sizes = SizeRanges::of(scope).unwrap();
    simplify(&Ranges::new(rule, sizes, Assumptions::none(rule)))
}

fn print(rule: &Rule, id: ExprId) -> String {
    let list = |head: String, operands: Vec<ExprId>| {
        let operands: Vec<String> = operands.into_iter().map(|id| print(rule, id)).collect();
        format!("({head} {})", operands.join(" "))
    };
    let expr = rule.arena.expr(id);
    let mut operands = Vec::new();
    expr.for_each_operand(|operand| operands.push(operand));
    match expr {
        Expr::Const(value) => value.to_string(),
        Expr::Var(var) => var.name().to_owned(),
        Expr::Scalar(slot) => rule.captures[slot.index()].name.clone(),
        Expr::Dim(dim) => rule.dims[dim.index()].name.clone(),
        Expr::Load { buffer, .. } => list(rule.captures[buffer.index()].name.clone(), operands),
        Expr::Unary { op, .. } => list(format!("{op:?}").to_lowercase(), operands),
        Expr::Binary { op, .. } => list(op.symbol().to_owned(), operands),
        Expr::Clamp { .. } => list("clamp".to_owned(), operands),
        Expr::Cast { to, .. } => list(format!("as {to}"), operands),
        Expr::Select { .. } => list("if".to_owned(), operands),
        Expr::Then { .. } => list("let".to_owned(), operands),
    }
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let captures = [
        "w i32 1 64",
        "n i32",
        "f f32",
        "yes bool",
        "t i32 [_]",
        "u f32 [_]",
    ];
    let rule = rule(&[], &captures, text);
    let simple = simplified(&rule, &scope(64));
    assert_eq!(print(&simple, simple.root), expected, "from {text}");
}

#[test]
fn booleans() {
    check("(&& true (<= kv q))", "(<= kv q)");
    check("(&& (<= kv q) false)", "false");
    check("(|| (<= kv q) (! (<= kv q)))", "true");
    check("(&& (<= kv q) (|| yes (<= kv q)))", "(<= kv q)");
    check("(|| (&& yes (<= kv q)) yes)", "yes");
    check("(! (! yes))", "yes");
    check("(! (< kv q))", "(<= q kv)");
    check("(! (< f 1.0))", "(not (< f 1.0))");
    check("(! (== f 1.0))", "(!= f 1.0)");
    check("(^ yes true)", "(not yes)");
    check("(& yes (< kv q))", "(&& yes (< kv q))");
    check("(== yes false)", "(not yes)");
    check("(if yes true (< kv q))", "(|| yes (< kv q))");
    check("(if (! yes) false (< kv q))", "(&& yes (< kv q))");
    check("(if yes (if yes (< q kv) false) (< q kv))", "(< q kv)");
}

#[test]
fn comparisons() {
    check("(>= q kv)", "(<= kv q)");
    check("(< (+ kv 3) 5)", "(< kv 2)");
    check("(== 5 (- kv 3))", "(== kv 8)");
    check("(<= 0 (- q kv))", "(<= kv q)");
    check("(< kv kv_len)", "true");
    check("(< q q_len)", "(< q q_len)");
    check("(> kv 63)", "false");
    check("(< (% kv w) 64)", "true");
    check("(== f f)", "(== f f)");
    // A captured scalar is never folded, whatever is bound.
    check("(< (- q kv) n)", "(< (- q kv) n)");
}

#[test]
fn arithmetic() {
    check("(== (* (+ q 0) 1) (- (+ kv n) n))", "(== q kv)");
    check("(== (+ (+ q 1) 2) n)", "(== (+ q 3) n)");
    check("(== (* q 0) n)", "(== n 0)");
    check("(== (rem_euclid kv 4) n)", "(== (& kv 3) n)");
    check("(== (rem_euclid (- q kv) 4) n)", "(== (& (- q kv) 3) n)");
    check("(== (% (- q kv) 4) n)", "(== (% (- q kv) 4) n)");
    check("(== (/ kv 8) n)", "(== (>> kv 3) n)");
    check("(== (/ (- q kv) 8) n)", "(== (/ (- q kv) 8) n)");
    check("(== (div_floor kv 12) n)", "(== (/ kv 12) n)");
    check("(== (div_floor kv 64) n)", "(== n 0)");
    check("(== (% kv 100) n)", "(== kv n)");
    check("(== (rem_floor q w) n)", "(== (% q w) n)");
    check("(== (abs kv) n)", "(== kv n)");
    check("(== (min kv kv_len) n)", "(== kv n)");
    check("(== (clamp kv 0 n) n)", "(== (min kv n) n)");
    check("(== (let (t 3) (max kv -1)) n)", "(== kv n)");
    check("(== (as i32 (as i64 kv)) n)", "(== kv n)");
}

#[test]
fn floats_keep_their_bits() {
    check("(* (/ score 1.0) 1.0)", "score");
    check("(- (- score))", "score");
    check("(+ score 0.0)", "(+ score 0.0)");
    check("(- score 0.0)", "score");
    check("(- score score)", "(- score score)");
    check("(* score 0.0)", "(* score 0.0)");
    check("(+ score (as f32 3))", "(+ score 3.0)");
}

#[test]
fn captures_keep_their_slots_and_declarations() {
    let rule = rule(
        &["docs"],
        &[
            "unused i32 1 4",
            "doc i32 [kv_len] 0 (- docs 1)",
            "start i32 [docs]",
        ],
        "(&& true (== (doc kv) (* 0 (start 0))))",
    );
    let simple = simplified(&rule, &scope(8));
    assert_eq!(print(&simple, simple.root), "(== (doc kv) 0)");
    assert_eq!(simple.captures.len(), 3);
    let max = simple.captures[1].max.unwrap();
    assert_eq!(print(&simple, max), "(- docs 1)");
}

fn derived(text: &str) -> Option<(Rule, BoundRule)> {
    let bound = bound(
        &[],
        &["t i32 [_]", "n i32"],
        text,
        vec![ints((0..16).map(|i| i % 5)), int(3)],
    );
    let prepared = prepare(&bound, &scope(6)).unwrap();
    let mask = prepared.derived_mask().map(|mask| Rule::clone(mask));
    mask.map(|mask| (mask, bound))
}

/// The derived mask reads as `expected`, and is false only where every score becomes -∞.
#[track_caller]
fn check_derived(text: &str, expected: &str) {
    let Some((mask, bound)) = derived(text) else {
        assert_eq!(expected, "none", "from {text}");
        return;
    };
    assert_eq!(print(&mask, mask.root), expected, "from {text}");
    for_each_cell(6, 4, |sizes, point| {
        let attends = ScalarEvaluator::new(&mask, bound.bindings(), sizes).eval(&point);
        if attends == Ok(Const::Bool(false)) {
            for score in [0.0, 5.0, -3.0, f32::NAN, f32::INFINITY] {
                let point = Point { score, ..point };
                let result = ScalarEvaluator::new(bound.rule(), bound.bindings(), sizes)
                    .eval(&point)
                    .unwrap();
                assert_eq!(result, Const::F32(f32::NEG_INFINITY), "{text} at {point:?}");
            }
        }
    });
}

#[test]
fn masks_are_derived_from_minus_infinity() {
    check_derived("(if (<= kv q) (* score 2.0) -inf)", "(<= kv q)");
    check_derived("(if (<= kv q) -inf score)", "(< q kv)");
    check_derived("(+ score 1.0)", "none");
    check_derived("(if (> score 1.0) score -inf)", "none");
    check_derived("(if (&& (<= kv q) (> score 1.0)) score -inf)", "(<= kv q)");
    check_derived(
        "(if (! (|| (< q kv) (> score 1.0))) (if (< kv 3) score -inf) -inf)",
        "(&& (<= kv q) (< kv 3))",
    );
    check_derived(
        "(if (|| (> score 0.0) (== kv 1)) -inf (if (< kv n) score -inf))",
        "(&& (!= kv 1) (< kv n))",
    );
    check_derived(
        "(if (< kv 3) (if (== (t kv) (t q)) score -inf) (if (< q 2) -inf (- score 1.0)))",
        "(if (< kv 3) (== (t kv) (t q)) (<= 2 q))",
    );
    // A read that only a condition on the score protects is not taken out of it.
    check_derived(
        "(if (> score 0.0) (if (== (t (clamp kv 0 3)) 2) score -inf) -inf)",
        "(== (t (min kv 3)) 2)",
    );
}

/// Every cell of every pair of lengths up to `longest`, with offsets up to 2.
fn for_each_cell(longest: i32, step: i32, mut f: impl FnMut(Sizes, Point)) {
    for (q_len, kv_len) in (1..=longest).flat_map(|q| (1..=longest).map(move |kv| (q, kv))) {
        if (q_len + kv_len) % step == 1 {
            continue;
        }
        let sizes = Sizes {
            batch: 2,
            num_q_heads: 2,
            q_len,
            kv_len,
        };
        for q_offset in 0..=2 {
            for q_idx in q_offset..q_offset + q_len {
                for kv_idx in 0..kv_len {
                    let point = Point {
                        b: kv_idx % 2,
                        h: q_idx % 2,
                        q_idx,
                        kv_idx,
                        score: 0.5,
                    };
                    f(sizes, point);
                }
            }
        }
    }
}

/// One step of a random program: an operator and where its operands come from.
#[derive(Clone, Debug)]
struct Step {
    kind: u8,
    op: u8,
    operands: [u8; 3],
    literal: i8,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (any::<u8>(), any::<u8>(), any::<[u8; 3]>(), any::<i8>()).prop_map(
        |(kind, op, operands, literal)| Step {
            kind,
            op,
            operands,
            literal,
        },
    );
    prop::collection::vec(step, 1..40)
}

/// A program that guards small index arithmetic and reads: about half of these are valid.
fn guarded_program(steps: &[Step]) -> Rule {
    let steps: Vec<Step> = steps
        .iter()
        .map(|step| {
            let (kind, op) = match step.kind % 8 {
                0 | 1 => (11, step.op),
                2 => (1, 0),
                // Comparisons, `&&` and `||`.
                3..=5 => (10, step.op),
                6 => (7, step.op),
                _ => match step.op % 8 {
                    0 => (0, step.op),
                    1 => (3, 2),
                    2 => (12, 24),
                    3 => (12, 20),
                    4 => (12, 21),
                    5 => (12, 3),
                    6 => (12, 8),
                    _ => (3, 0),
                },
            };
            let ty = match kind {
                7 if step.operands[2] % 2 == 0 => 3,
                3 if op == 0 => 3,
                _ => 0,
            };
            // `program` takes the type from the sum of the operator and the last operand.
            let last = (ty + 7 * 36 - op % 7) % 7;
            Step {
                kind,
                op,
                operands: [step.operands[0], step.operands[1], last],
                literal: step.literal % 8,
            }
        })
        .collect();
    let mut rule = program(&steps);
    let bool_root = rule
        .arena
        .ids()
        .rev()
        .find(|&id| rule.arena.ty(id) == Ty::Bool);
    rule.root = bool_root.unwrap();
    rule.kind = RuleKind::Mask;
    rule
}

/// A well-typed program from arbitrary steps: operands are picked among the nodes of the type that is wanted.
fn program(steps: &[Step]) -> Rule {
    let mut arena = Arena::new();
    let mut nodes: Vec<ExprId> = [
        Var::QIdx,
        Var::KvIdx,
        Var::QLen,
        Var::KvLen,
        Var::B,
        Var::H,
        Var::Score,
    ]
    .into_iter()
    .map(|var| arena.var(var))
    .collect();
    let scalar = |arena: &mut Arena, slot: u32, ty: Ty| {
        arena
            .intern(Expr::Scalar(CaptureId(slot)), Some(ty), None)
            .unwrap()
    };
    nodes.push(scalar(&mut arena, 0, Ty::I32));
    nodes.push(scalar(&mut arena, 1, Ty::I32));
    nodes.push(scalar(&mut arena, 2, Ty::F32));
    for value in [
        Const::I32(0),
        Const::I32(1),
        Const::I32(4),
        Const::I64(3),
        Const::U32(7),
        Const::F32(1.0),
        Const::F32(0.0),
        Const::F32(f32::NEG_INFINITY),
        Const::Bool(true),
    ] {
        nodes.push(arena.constant(value));
    }
    for step in steps {
        let pick = |arena: &Arena, ty: Ty, at: u8| {
            let of_ty: Vec<ExprId> = nodes
                .iter()
                .copied()
                .filter(|&id| arena.ty(id) == ty)
                .collect();
            // Late nodes are more likely, so that programs grow deep.
            let from_end = usize::from(at) * usize::from(at) / 256 % of_ty.len();
            of_ty[of_ty.len() - 1 - from_end]
        };
        let any_ty = |at: u8| {
            [
                Ty::I32,
                Ty::I32,
                Ty::I32,
                Ty::Bool,
                Ty::I64,
                Ty::U32,
                Ty::F32,
            ][usize::from(at) % 7]
        };
        let [x, y, z] = step.operands;
        let ty = any_ty(step.op.wrapping_add(z));
        let expr = match step.kind % 16 {
            0 => Expr::Const(match ty {
                Ty::Bool => Const::Bool(step.literal % 2 == 0),
                Ty::I32 => Const::I32(i32::from(step.literal)),
                Ty::I64 => Const::I64(i64::from(step.literal)),
                Ty::U32 => Const::U32(step.literal as u32),
                Ty::F32 => Const::F32(f32::from(step.literal) / 4.0),
            }),
            1 => Expr::Load {
                buffer: CaptureId(3),
                index: [pick(&arena, Ty::I32, x)].into(),
            },
            2 => Expr::Load {
                buffer: CaptureId(4),
                index: [pick(&arena, Ty::I32, x), pick(&arena, Ty::I32, y)].into(),
            },
            3 | 4 => {
                let ops = [
                    UnaryOp::Not,
                    UnaryOp::Neg,
                    UnaryOp::Abs,
                    UnaryOp::Signum,
                    UnaryOp::WrappingNeg,
                    UnaryOp::Math(MathFn::ALL[usize::from(y) % MathFn::ALL.len()]),
                ];
                Expr::Unary {
                    op: ops[usize::from(step.op) % ops.len()],
                    arg: pick(&arena, ty, x),
                }
            }
            5 => Expr::Clamp {
                arg: pick(&arena, ty, x),
                lo: pick(&arena, ty, y),
                hi: pick(&arena, ty, z),
            },
            6 => Expr::Cast {
                to: any_ty(step.op),
                arg: pick(&arena, any_ty(y), x),
            },
            7 | 8 => Expr::Select {
                cond: pick(&arena, Ty::Bool, x),
                then: pick(&arena, ty, y),
                otherwise: pick(&arena, ty, z),
            },
            9 => Expr::Then {
                first: pick(&arena, any_ty(step.op), x),
                value: pick(&arena, ty, y),
            },
            kind => {
                let op = match kind {
                    10 => [
                        BinaryOp::And,
                        BinaryOp::Or,
                        BinaryOp::Lt,
                        BinaryOp::Le,
                        BinaryOp::Eq,
                    ][usize::from(step.op) % 5],
                    11 => [BinaryOp::Add, BinaryOp::Sub][usize::from(step.op) % 2],
                    _ => BINARY_OPS[usize::from(step.op) % BINARY_OPS.len()],
                };
                let (lhs, rhs) = match op {
                    BinaryOp::And | BinaryOp::Or => (Ty::Bool, Ty::Bool),
                    BinaryOp::Powi => (Ty::F32, Ty::I32),
                    BinaryOp::Powf => (Ty::F32, Ty::F32),
                    BinaryOp::Pow | BinaryOp::Shl | BinaryOp::Shr => (ty, Ty::I32),
                    _ => (ty, ty),
                };
                Expr::Binary {
                    op,
                    lhs: pick(&arena, lhs, x),
                    rhs: pick(&arena, rhs, y),
                }
            }
        };
        let leaf_ty = match expr {
            Expr::Load { buffer, .. } if buffer.0 == 4 => Some(Ty::F32),
            _ => Some(Ty::I32),
        };
        if let Ok(id) = arena.intern(expr, leaf_ty, None) {
            nodes.retain(|&other| other != id);
            nodes.push(id);
        }
    }
    let root = *nodes
        .iter()
        .rev()
        .find(|&&id| arena.ty(id) == Ty::Bool || arena.ty(id) == Ty::F32)
        .unwrap();
    let kind = if arena.ty(root) == Ty::Bool {
        RuleKind::Mask
    } else {
        RuleKind::Score
    };
    let capture = |name: &str, kind: CaptureKind| CaptureDecl {
        name: name.to_owned(),
        kind,
        min: None,
        max: None,
        span: None,
    };
    let buffer = |elem, rank| CaptureKind::Buffer {
        elem,
        extents: vec![Extent::Unspecified; rank],
    };
    let mut captures = vec![
        capture("m", CaptureKind::Scalar(Ty::I32)),
        capture("n", CaptureKind::Scalar(Ty::I32)),
        capture("f", CaptureKind::Scalar(Ty::F32)),
        capture("t", buffer(Elem::I32, 1)),
        capture("u", buffer(Elem::F32, 2)),
    ];
    captures[1].min = Some(arena.constant(Const::I32(1)));
    captures[1].max = Some(arena.var(Var::KvLen));
    Rule {
        name: "random".to_owned(),
        doc: String::new(),
        kind,
        captures,
        dims: Vec::new(),
        arena,
        root,
        source: None,
    }
}

fn values() -> impl Strategy<Value = Vec<CaptureValue>> {
    (-5..9i32, prop::collection::vec(-3..12i32, 9), any::<f32>()).prop_map(|(m, t, f)| {
        vec![
            int(m),
            int(1),
            CaptureValue::Scalar(Const::F32(f)),
            ints(t),
            shaped(
                BufferData::F32(vec![0.5, -2.0, f, 3.5, -0.0, 1.0].into()),
                &[3, 2],
            ),
        ]
    })
}

fn same(a: Const, b: Const) -> bool {
    match (a, b) {
        (Const::F32(x), Const::F32(y)) if x.is_nan() && y.is_nan() => true,
        _ => a == b,
    }
}

fn bindings(values: Vec<CaptureValue>) -> Bindings {
    Bindings {
        values,
        dims: Vec::new(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Simplification keeps the value wherever the original has one.
    #[test]
    fn simplify_keeps_eval(steps in steps(), values in values()) {
        let original = program(&steps);
        let simple = simplified(&original, &scope(3));
        let bindings = bindings(values);
        let mut failure = None;
        for_each_cell(3, 5, |sizes, point| {
            let before = ScalarEvaluator::new(&original, &bindings, sizes).eval(&point);
            let after = ScalarEvaluator::new(&simple, &bindings, sizes).eval(&point);
            if let Ok(before) = before
                && !after.clone().is_ok_and(|after| same(before, after))
            {
                failure.get_or_insert((sizes, point, before, after));
            }
        });
        prop_assert!(
            failure.is_none(),
            "{failure:?}\n{}\n{}",
            print(&original, original.root),
            print(&simple, simple.root)
        );
    }

    /// Intervals hold every value, and a rule that validates never fails.
    #[test]
    fn ranges_hold_and_valid_rules_never_fail(steps in steps(), values in values()) {
        check_ranges(&program(&steps), values)?;
    }

    /// The same of programs that guard their reads.
    #[test]
    fn guards_are_sound(steps in steps(), values in values()) {
        check_ranges(&guarded_program(&steps), values)?;
    }
}

fn check_ranges(original: &Rule, values: Vec<CaptureValue>) -> Result<(), TestCaseError> {
    let sizes = SizeRanges::of(&scope(3)).unwrap();
    let mut ranges = Ranges::new(original, sizes, Assumptions::none(original));
    let found: Vec<Value> = original
        .arena
        .ids()
        .map(|id| ranges.value(id, EnvId::ROOT))
        .collect();
    let bound = BoundRule::new(Arc::new(original.clone()), values, &[]).unwrap();
    let prepared = prepare(&bound, &scope(3));
    let mut failure = None;
    for_each_cell(3, 7, |sizes, point| {
        let mut evaluator = ScalarEvaluator::new(original, bound.bindings(), sizes);
        for id in original.arena.ids() {
            let Ok(value) = evaluator.eval_expr(id, &point) else {
                continue;
            };
            let range = found[id.index()];
            let holds = match (range, value) {
                (Value::Bool(truth), Const::Bool(true)) => truth.may_be_true,
                (Value::Bool(truth), Const::Bool(false)) => truth.may_be_false,
                (Value::Float(range), Const::F32(v)) => range.contains(v),
                (Value::Int(range), v) => range.contains(i128::from(v.as_int().unwrap())),
                _ => false,
            };
            if !holds {
                let text = print(original, id);
                failure.get_or_insert((point, sizes, text, format!("{value} not in {range:?}")));
            }
        }
        if let Ok(prepared) = &prepared {
            let law = evaluator.eval(&point);
            let simple =
                ScalarEvaluator::new(prepared.rule(), bound.bindings(), sizes).eval(&point);
            if !matches!((&law, &simple), (Ok(a), Ok(b)) if same(*a, *b)) {
                let text = print(original, original.root);
                let found = format!("valid, but {law:?} and {simple:?}");
                failure.get_or_insert((point, sizes, text, found));
            }
        }
    });
    prop_assert!(failure.is_none(), "{failure:?}");
    Ok(())
}
