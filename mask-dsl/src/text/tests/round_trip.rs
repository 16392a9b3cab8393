//! Printing and parsing again changes nothing.

use proptest::prelude::*;

use super::*;
use crate::ir::{BinaryOp, Elem, Span, Ty};
use crate::text::{
    Arm, Block, Expr, ExprKind, Item, ItemKind, Loc, Name, Param, ParamTy, Pattern, Range,
    Reduction, Sign, Stmt, print,
};

const NOWHERE: Loc = Loc(Span { start: 0, end: 0 });

fn name() -> impl Strategy<Value = Name> {
    prop::sample::select(
        &[
            "q", "kv", "x", "doc", "score", "mask", "any_of", "_i", "näme",
        ][..],
    )
    .prop_map(|text| Name {
        text: text.to_owned(),
        loc: NOWHERE,
    })
}

fn ty() -> impl Strategy<Value = Ty> {
    prop::sample::select(&[Ty::I32, Ty::I64, Ty::U32, Ty::F32, Ty::Bool][..])
}

fn int_ty() -> impl Strategy<Value = Ty> {
    prop::sample::select(&[Ty::I32, Ty::I64, Ty::U32][..])
}

fn at(kind: ExprKind) -> Expr {
    Expr { kind, loc: NOWHERE }
}

fn boxed(expr: Expr) -> Box<Expr> {
    Box::new(expr)
}

fn range(expr: impl Strategy<Value = Expr> + Clone) -> impl Strategy<Value = Range> {
    (expr.clone(), expr, any::<bool>()).prop_map(|(lo, hi, inclusive)| Range {
        lo: boxed(lo),
        hi: boxed(hi),
        inclusive,
        loc: NOWHERE,
    })
}

fn pattern() -> impl Strategy<Value = Pattern> {
    prop_oneof![
        any::<i64>().prop_map(Pattern::Int),
        any::<bool>().prop_map(Pattern::Bool),
        Just(Pattern::Any),
        name().prop_map(Pattern::Name),
        (any::<i64>(), any::<i64>(), any::<bool>()).prop_map(|(lo, hi, inclusive)| {
            Pattern::Range {
                lo: Some(lo),
                hi: Some(hi),
                inclusive,
            }
        }),
        any::<i64>().prop_map(|lo| Pattern::Range {
            lo: Some(lo),
            hi: None,
            inclusive: false
        }),
        (any::<i64>(), any::<bool>()).prop_map(|(hi, inclusive)| Pattern::Range {
            lo: None,
            hi: Some(hi),
            inclusive
        }),
    ]
}

const OPERATORS: [BinaryOp; 18] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::Rem,
    BinaryOp::BitAnd,
    BinaryOp::BitOr,
    BinaryOp::BitXor,
    BinaryOp::Shl,
    BinaryOp::Shr,
    BinaryOp::And,
    BinaryOp::Or,
    BinaryOp::Eq,
    BinaryOp::Ne,
    BinaryOp::Lt,
    BinaryOp::Le,
    BinaryOp::Gt,
    BinaryOp::Ge,
];

fn block(expr: impl Strategy<Value = Expr> + Clone + 'static) -> BoxedStrategy<Block> {
    let stmt = prop_oneof![
        (name(), any::<bool>(), prop::option::of(ty()), expr.clone()).prop_map(
            |(name, mutable, ty, value)| Stmt::Let {
                name,
                mutable,
                ty,
                value,
                loc: NOWHERE
            }
        ),
        (
            name(),
            prop::option::of(prop::sample::select(&OPERATORS[..10])),
            expr.clone()
        )
            .prop_map(|(name, op, value)| Stmt::Assign {
                name,
                op,
                value,
                loc: NOWHERE
            }),
        expr.clone().prop_map(|value| Stmt::Return {
            value,
            loc: NOWHERE
        }),
        (expr.clone(), expr.clone()).prop_map(|(cond, tail)| {
            let then = Block {
                stmts: Vec::new(),
                tail: Some(boxed(tail)),
                loc: NOWHERE,
            };
            Stmt::Expr(at(ExprKind::If {
                cond: boxed(cond),
                then,
                otherwise: None,
            }))
        }),
        (name(), range(expr.clone()), expr.clone()).prop_map(|(var, range, tail)| Stmt::For {
            var,
            range,
            body: Block {
                stmts: Vec::new(),
                tail: Some(boxed(tail)),
                loc: NOWHERE
            },
            loc: NOWHERE
        }),
    ];
    (prop::collection::vec(stmt, 0..3), prop::option::of(expr))
        .prop_map(|(stmts, tail)| Block {
            stmts,
            tail: tail.map(boxed),
            loc: NOWHERE,
        })
        .boxed()
}

fn expr() -> BoxedStrategy<Expr> {
    let leaf = prop_oneof![
        (any::<u64>(), prop::option::of(int_ty()))
            .prop_map(|(value, suffix)| at(ExprKind::Int { value, suffix })),
        (0f32..1e30).prop_map(|value| at(ExprKind::Float(value))),
        any::<bool>().prop_map(|value| at(ExprKind::Bool(value))),
        prop::collection::vec(name(), 1..3).prop_map(|path| at(ExprKind::Path(path))),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        let args = prop::collection::vec(inner.clone(), 0..3);
        let branch = block(inner.clone());
        let arm = (
            prop::collection::vec(pattern(), 1..3),
            prop::option::of(inner.clone()),
            inner.clone(),
        )
            .prop_map(|(patterns, guard, body)| Arm {
                patterns,
                guard,
                body,
                loc: NOWHERE,
            });
        prop_oneof![
            (any::<bool>(), inner.clone()).prop_map(|(not, arg)| {
                at(ExprKind::Unary {
                    op: if not { Sign::Not } else { Sign::Neg },
                    arg: boxed(arg),
                })
            }),
            (
                prop::sample::select(&OPERATORS[..]),
                inner.clone(),
                inner.clone()
            )
                .prop_map(|(op, lhs, rhs)| at(ExprKind::Binary {
                    op,
                    lhs: boxed(lhs),
                    rhs: boxed(rhs)
                })),
            (inner.clone(), prop::option::of(ty())).prop_map(|(arg, to)| at(ExprKind::Cast {
                arg: boxed(arg),
                to
            })),
            (
                prop::collection::vec(name(), 1..3),
                prop::collection::vec(inner.clone(), 0..2),
                args.clone()
            )
                .prop_map(|(path, generics, args)| at(ExprKind::Call {
                    path,
                    generics,
                    args
                })),
            (inner.clone(), name(), args.clone()).prop_map(|(receiver, name, args)| at(
                ExprKind::Method {
                    receiver: boxed(receiver),
                    name,
                    args
                }
            )),
            (name(), args).prop_map(|(buffer, index)| at(ExprKind::Index { buffer, index })),
            (
                inner.clone(),
                branch.clone(),
                prop::option::of(branch.clone())
            )
                .prop_map(|(cond, then, otherwise)| at(ExprKind::If {
                    cond: boxed(cond),
                    then,
                    otherwise: otherwise.map(|block| boxed(at(ExprKind::Block(block)))),
                })),
            (inner.clone(), prop::collection::vec(arm, 0..3)).prop_map(|(scrutinee, arms)| at(
                ExprKind::Match {
                    scrutinee: boxed(scrutinee),
                    arms
                }
            )),
            branch.prop_map(|block| at(ExprKind::Block(block))),
            (
                prop::sample::select(&[Reduction::Any, Reduction::All, Reduction::Sum][..]),
                name(),
                range(inner.clone()),
                inner,
                prop::option::of(ty())
            )
                .prop_map(|(op, var, range, body, ty)| at(ExprKind::Reduce {
                    op,
                    var,
                    range,
                    body: boxed(body),
                    ty: ty.filter(|_| op == Reduction::Sum),
                })),
        ]
    })
    .boxed()
}

fn param() -> impl Strategy<Value = Param> {
    let elem = prop::sample::select(&Elem::ALL[..]);
    let ty = prop_oneof![
        ty().prop_map(ParamTy::Scalar),
        int_ty().prop_map(ParamTy::Const),
        (elem.clone(), prop::collection::vec(expr(), 0..3))
            .prop_map(|(elem, dims)| ParamTy::Shaped { elem, dims }),
        (elem, 0..4usize).prop_map(|(elem, rank)| ParamTy::Unshaped { elem, rank }),
    ];
    (name(), ty, prop::option::of(range(expr()))).prop_map(|(name, ty, range)| Param {
        name,
        ty,
        range,
        loc: NOWHERE,
    })
}

fn item() -> impl Strategy<Value = Item> {
    let kind = prop_oneof![
        Just(ItemKind::Rule(RuleKind::Mask)),
        Just(ItemKind::Rule(RuleKind::Score)),
        Just(ItemKind::RustRule(RuleKind::Mask)),
        Just(ItemKind::RustRule(RuleKind::Score)),
        ty().prop_map(|returns| ItemKind::Function { returns }),
    ];
    let doc = prop::sample::select(&["", "One line.", "Two.\n\n  - indented", "/ slash"][..]);
    (
        doc,
        kind,
        name(),
        prop::collection::vec(param(), 0..3),
        block(expr()),
    )
        .prop_map(|(doc, kind, name, params, body)| Item {
            doc: doc.to_owned(),
            kind,
            name,
            params,
            body,
            loc: NOWHERE,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn a_printed_tree_parses_to_itself(items in prop::collection::vec(item(), 0..3)) {
        let module = Module { source: source(""), items };
        let text = print(&module);
        match parse(source(&text)) {
            Ok(again) => prop_assert_eq!(&again, &module, "{}\n{}", text, print(&again)),
            Err(faults) => prop_assert!(false, "{}", faults.render(false)),
        }
    }
}

#[track_caller]
fn check_meaning(text: &str) {
    let first = module(text);
    let printed = print(&first);
    let second = module(&printed);
    assert_eq!(first, second, "{printed}");
    assert_eq!(printed, print(&second));
    for item in &first.items {
        if let ItemKind::Function { .. } = item.kind {
            continue;
        }
        let lower = |module: &Module| {
            let options = LowerOptions::default();
            unwrap_rule(lower(
                module,
                Some(&item.name.text),
                &options,
                &EmptyLibrary,
            ))
        };
        let (first, second) = (lower(&first), lower(&second));
        assert_eq!(first.root, second.root);
        assert!(
            first
                .arena
                .ids()
                .all(|id| first.arena.expr(id) == second.arena.expr(id))
        );
    }
}

#[test]
fn printed_rules_keep_their_meaning() {
    check_meaning(
        "/// Morton order.
        fn even(i: i32) -> i32 { let mut x = 0; for b in 0..8 { x |= (i >> (2 * b) & 1) << b; } x }
        fn near(a: i32, x: i32, n: i32, k: i32) -> bool = (a.clamp(k / 2, n - 1 - k / 2) - x).abs() <= k / 2
        mask natten(cw: i32 in 2..=64, kw: i32 in 1..=16) = kw < cw && near(even(q), even(kv), cw, kw)
        mask document(doc: [i32; kv_len] in 0..docs, start: [i32; docs + 1]) {
            if doc[q] != doc[kv] { return false; }
            let from = start[doc[q]];
            kv - from <= q - from
        }
        score t5(table: [f32; 32, num_q_heads]) {
            let d = kv - q;
            let n = abs(d);
            let far = 8 + min((ln(n as f32 / 8.0) / ln(16.0) * 8.0) as i32, 7);
            score + table[(if n < 8 { n } else { far }) + if d > 0 { 16 } else { 0 }, h]
        }
        #[attention_mask]
        fn rust(q_idx: i32, kv_idx: i32, anc: &[bool]) -> bool {
            (0..4).any(|i| kv_idx + i == q_idx && anc[i as usize]) || !(q_idx < kv_idx)
        }",
    );
}
