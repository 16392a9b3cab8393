//! Round trips of encoded rules, what their identity depends on, and bytes that are no rule.

use proptest::prelude::*;

use super::super::arena::Arena;
use super::super::op::{BinaryOp, UnaryOp, Var};
use super::super::rule::{CaptureId, DimDecl, DimId};
use super::super::ty::{Const, Elem, Ty};
use super::codes::{BINARY_OPS, TYPES, VARS, unary_ops};
use super::read::MAX_DEPTH;
use super::*;

fn scalar(arena: &mut Arena, slot: u32, ty: Ty) -> ExprId {
    let expr = Expr::Scalar(CaptureId(slot));
    arena.intern(expr, Some(ty), None).unwrap()
}

fn load(arena: &mut Arena, slot: u32, elem: Elem, index: &[ExprId]) -> ExprId {
    let expr = Expr::Load {
        buffer: CaptureId(slot),
        index: index.into(),
    };
    arena.intern(expr, Some(elem.loads_as()), None).unwrap()
}

fn decl(name: &str, kind: CaptureKind) -> CaptureDecl {
    CaptureDecl {
        name: name.to_owned(),
        kind,
        min: None,
        max: None,
        span: None,
    }
}

/// `kv <= q && q - kv < window && doc[q] == doc[kv]`, with `window in 1..=docs` and `doc: [i32; kv_len]`.
///
/// `reversed` interns what it can in another order, and some nodes that nothing reads.
fn sample(reversed: bool) -> Rule {
    let mut arena = Arena::new();
    if reversed {
        let kv = arena.var(Var::KvIdx);
        let doc_kv = load(&mut arena, 1, Elem::I32, &[kv]);
        arena.binary(BinaryOp::Mul, doc_kv, doc_kv);
        arena.intern(Expr::Dim(DimId(0)), None, None).unwrap();
    }
    let (q, kv) = (arena.var(Var::QIdx), arena.var(Var::KvIdx));
    let le = arena.binary(BinaryOp::Le, kv, q);
    let distance = arena.binary(BinaryOp::Sub, q, kv);
    let window = scalar(&mut arena, 0, Ty::I32);
    let near = arena.binary(BinaryOp::Lt, distance, window);
    let doc_q = load(&mut arena, 1, Elem::I32, &[q]);
    let doc_kv = load(&mut arena, 1, Elem::I32, &[kv]);
    let same = arena.binary(BinaryOp::Eq, doc_q, doc_kv);
    let both = arena.binary(BinaryOp::And, le, near);
    let root = arena.binary(BinaryOp::And, both, same);
    let one = arena.constant(Const::I32(1));
    let docs = arena.intern(Expr::Dim(DimId(0)), None, None).unwrap();
    let kv_len = arena.var(Var::KvLen);
    let mut window = decl("window", CaptureKind::Scalar(Ty::I32));
    window.min = Some(one);
    window.max = Some(docs);
    let doc = decl(
        "doc",
        CaptureKind::Buffer {
            elem: Elem::I32,
            extents: vec![Extent::AtLeast(kv_len)],
        },
    );
    Rule {
        name: "sample".to_owned(),
        doc: "A sample.".to_owned(),
        kind: RuleKind::Mask,
        captures: vec![window, doc],
        dims: vec![DimDecl {
            name: "docs".to_owned(),
            span: None,
        }],
        arena,
        root,
        source: None,
    }
}

/// A score that uses every operator.
fn everything() -> Rule {
    let mut arena = Arena::new();
    let mut values: Vec<ExprId> = VARS.map(|var| arena.var(var)).to_vec();
    for value in [
        Const::Bool(true),
        Const::I32(i32::MIN),
        Const::I64(i64::MIN),
        Const::U32(u32::MAX),
        Const::F32(-0.0),
        Const::F32(f32::NAN),
    ] {
        values.push(arena.constant(value));
    }
    let mut captures = Vec::new();
    for ty in TYPES {
        values.push(scalar(&mut arena, captures.len() as u32, ty));
        captures.push(decl("s", CaptureKind::Scalar(ty)));
    }
    let q = arena.var(Var::QIdx);
    for (rank, elem) in Elem::ALL.into_iter().enumerate() {
        values.push(load(
            &mut arena,
            captures.len() as u32,
            elem,
            &vec![q; rank],
        ));
        let extents = vec![Extent::Unspecified; rank];
        captures.push(decl("b", CaptureKind::Buffer { elem, extents }));
    }
    let mut made = Vec::new();
    for &a in &values {
        for op in unary_ops() {
            made.extend(arena.intern(Expr::Unary { op, arg: a }, None, None));
        }
        for to in TYPES {
            made.extend(arena.intern(Expr::Cast { to, arg: a }, None, None));
        }
        for &b in &values {
            for op in BINARY_OPS {
                let expr = Expr::Binary { op, lhs: a, rhs: b };
                made.extend(arena.intern(expr, None, None));
            }
        }
        let (arg, lo, hi) = (a, a, a);
        made.extend(arena.intern(Expr::Clamp { arg, lo, hi }, None, None));
        let on = arena.constant(Const::Bool(false));
        made.push(arena.select(on, a, a));
    }
    let mut root = arena.var(Var::Score);
    for first in made {
        root = arena.known(&Expr::Then { first, value: root });
    }
    Rule {
        name: "everything".to_owned(),
        doc: String::new(),
        kind: RuleKind::Score,
        captures,
        dims: Vec::new(),
        arena,
        root,
        source: None,
    }
}

#[test]
fn what_was_encoded_decodes_to_the_same_rule() {
    for rule in [sample(false), sample(true), everything()] {
        let bytes = encode(&rule);
        let back = decode(&bytes).unwrap();
        assert_eq!(encode(&back), bytes);
        assert_eq!(back.identity(), rule.identity());
        assert_eq!((&back.name, &back.doc), (&rule.name, &rule.doc));
        assert_eq!(back.kind, rule.kind);
        assert_eq!(back.dims, rule.dims);
        let shape = |rule: &Rule| -> Vec<(String, Ty)> {
            let captures = rule.captures.iter();
            captures.map(|c| (c.name.clone(), c.value_ty())).collect()
        };
        assert_eq!(shape(&back), shape(&rule));
        assert_eq!(back.arena.len(), canonical_order(&rule).len());
    }
}

#[test]
fn identity_does_not_depend_on_names_or_the_order_of_interning() {
    let identity = sample(false).identity();
    let mut other = sample(true);
    assert_eq!(encode(&other), encode(&sample(false)));
    other.name = "other".to_owned();
    other.doc.clear();
    other.captures[0].name = "w".to_owned();
    other.dims[0].name = "n".to_owned();
    assert_eq!(other.identity(), identity);
    assert_ne!(encode(&other), encode(&sample(false)));
}

#[test]
fn identity_depends_on_everything_else() {
    let mut identities = vec![sample(false).identity()];
    let mut changed = |change: &dyn Fn(&mut Rule)| {
        let mut rule = sample(false);
        change(&mut rule);
        let identity = rule.identity();
        assert!(!identities.contains(&identity));
        identities.push(identity);
    };
    changed(&|rule| rule.captures[0].min = None);
    changed(&|rule| rule.captures[0].max = rule.captures[0].min);
    changed(&|rule| {
        rule.captures[1].kind = CaptureKind::Buffer {
            elem: Elem::I32,
            extents: vec![Extent::Unspecified],
        };
    });
    changed(&|rule| {
        rule.captures[1].kind = CaptureKind::Buffer {
            elem: Elem::I16,
            extents: vec![Extent::Unspecified],
        };
    });
    changed(&|rule| rule.captures.swap(0, 1));
    changed(&|rule| rule.captures.push(rule.captures[0].clone()));
    changed(&|rule| rule.dims.push(rule.dims[0].clone()));
    changed(&|rule| rule.root = rule.arena.unary(UnaryOp::Not, rule.root));
    changed(&|rule| {
        let (q, kv) = (rule.arena.var(Var::QIdx), rule.arena.var(Var::KvIdx));
        rule.root = rule.arena.binary(BinaryOp::Le, kv, q);
    });
    changed(&|rule| {
        let (q, kv) = (rule.arena.var(Var::QIdx), rule.arena.var(Var::KvIdx));
        rule.root = rule.arena.binary(BinaryOp::Le, q, kv);
    });
}

#[test]
fn codes_are_distinct() {
    let distinct = |mut codes: Vec<u8>| {
        let n = codes.len();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), n);
    };
    distinct(BINARY_OPS.map(binary_code).to_vec());
    distinct(unary_ops().map(unary_code).collect());
    distinct(VARS.map(var_code).to_vec());
    distinct(TYPES.map(ty_code).to_vec());
    distinct(Elem::ALL.map(elem_code).to_vec());
}

#[test]
fn other_bytes_are_refused_with_a_reason() {
    let bytes = encode(&sample(false));
    assert_eq!(decode(b"").unwrap_err(), DecodeError::NotARule);
    assert_eq!(decode(b"\0asm\x01").unwrap_err(), DecodeError::NotARule);
    let mut newer = bytes.clone();
    newer[4] = 9;
    assert_eq!(
        decode(&newer).unwrap_err(),
        DecodeError::Version { found: 9 }
    );
    let mut longer = bytes.clone();
    longer.push(0);
    let at = bytes.len();
    assert_eq!(decode(&longer).unwrap_err(), DecodeError::Trailing { at });
    for n in 5..bytes.len() {
        assert!(decode(&bytes[..n]).is_err(), "{n} of {at} bytes");
    }
}

#[test]
fn a_path_of_absurd_length_is_refused() {
    let mut arena = Arena::new();
    let mut root = arena.constant(Const::Bool(true));
    for _ in 0..=MAX_DEPTH {
        root = arena.unary(UnaryOp::Not, root);
    }
    let rule = Rule {
        arena,
        root,
        captures: Vec::new(),
        dims: Vec::new(),
        ..sample(false)
    };
    let found = decode(&encode(&rule));
    assert!(matches!(found, Err(DecodeError::TooMany { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn changed_bytes_are_refused_or_make_a_rule(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        full in prop::bool::weighted(0.1),
    ) {
        let mut bytes = encode(&if full { everything() } else { sample(false) });
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(rule) = decode(&bytes) {
            // Whatever it is now, it is a rule as good as any.
            let again = encode(&rule);
            prop_assert_eq!(encode(&decode(&again).unwrap()), again);
        }
    }

    #[test]
    fn any_bytes_are_refused_or_make_a_rule(tail in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut bytes = MAGIC.to_vec();
        bytes.push(VERSION);
        bytes.extend(tail);
        drop(decode(&bytes));
    }
}
