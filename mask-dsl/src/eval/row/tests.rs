//! The row interpreter against the scalar one: every operator at edge values, reads of every element, random programs.

use std::sync::Arc;

use half::{bf16, f16};
use proptest::prelude::*;

use super::*;
use crate::capture::{BufferData, CaptureValue, CapturedBuffer};
use crate::ir::{
    Arena, BinaryOp, CaptureDecl, CaptureId, CaptureKind, Const, DimDecl, DimId, Elem, Expr,
    ExprId, Extent, MathFn, Ty, UnaryOp, Var,
};

const SIZES: Sizes = Sizes {
    batch: 2,
    num_q_heads: 3,
    q_len: 70,
    kv_len: 300,
};

const INTS: [i64; 13] = [0, 1, -1, 2, 3, -3, 31, 32, 64, -7, 100, 46341, 1 << 20];

const BINARY: [BinaryOp; 30] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::Rem,
    BinaryOp::DivFloor,
    BinaryOp::RemFloor,
    BinaryOp::DivEuclid,
    BinaryOp::RemEuclid,
    BinaryOp::Pow,
    BinaryOp::Powi,
    BinaryOp::Powf,
    BinaryOp::WrappingAdd,
    BinaryOp::WrappingSub,
    BinaryOp::WrappingMul,
    BinaryOp::BitAnd,
    BinaryOp::BitOr,
    BinaryOp::BitXor,
    BinaryOp::Shl,
    BinaryOp::Shr,
    BinaryOp::Min,
    BinaryOp::Max,
    BinaryOp::And,
    BinaryOp::Or,
    BinaryOp::Eq,
    BinaryOp::Ne,
    BinaryOp::Lt,
    BinaryOp::Le,
    BinaryOp::Gt,
    BinaryOp::Ge,
];

const TYPES: [Ty; 5] = [Ty::Bool, Ty::I32, Ty::I64, Ty::U32, Ty::F32];

/// Values at which operators change their mind.
fn edges(ty: Ty) -> Vec<Const> {
    match ty {
        Ty::Bool => vec![Const::Bool(false), Const::Bool(true)],
        Ty::I32 | Ty::I64 | Ty::U32 => {
            let (lo, hi) = ty.int_range().expect("an integer type has a range");
            let near = [lo, lo.saturating_add(1), hi, hi - 1, lo / 2, hi / 2];
            let mut values: Vec<i64> = INTS.into_iter().chain(near).collect();
            values.sort_unstable();
            values.dedup();
            values
                .into_iter()
                .filter_map(|v| Const::from_int(ty, v))
                .collect()
        }
        Ty::F32 => [
            0.0,
            -0.0,
            1.0,
            -1.5,
            2.5,
            0.5,
            -3.0,
            1e10,
            -1e10,
            1e38,
            f32::MIN_POSITIVE,
            1e-40,
            f32::MAX,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
            2_147_483_648.0,
        ]
        .into_iter()
        .map(Const::F32)
        .collect(),
    }
}

fn buffer_of(values: &[Const]) -> CapturedBuffer {
    let n = values.len();
    let ints = || {
        values
            .iter()
            .map(|v| v.as_int().expect("all values have one type"))
    };
    let data = match values[0].ty() {
        Ty::Bool => BufferData::Bool(ints().map(|v| v != 0).collect()),
        Ty::I32 => BufferData::I32(ints().map(|v| v as i32).collect()),
        Ty::I64 => BufferData::I64(ints().collect()),
        Ty::U32 => BufferData::U32(ints().map(|v| v as u32).collect()),
        Ty::F32 => BufferData::F32(
            values
                .iter()
                .map(|v| match v {
                    Const::F32(v) => *v,
                    other => panic!("all values have one type, found {other}"),
                })
                .collect(),
        ),
    };
    CapturedBuffer::new(data, vec![n]).unwrap()
}

fn decl(value: &CaptureValue) -> CaptureDecl {
    let kind = match value {
        CaptureValue::Scalar(value) => CaptureKind::Scalar(value.ty()),
        CaptureValue::Buffer(buffer) => CaptureKind::Buffer {
            elem: buffer.elem(),
            extents: vec![Extent::Unspecified; buffer.shape().len()],
        },
    };
    CaptureDecl {
        name: "c".to_owned(),
        kind,
        min: None,
        max: None,
        span: None,
    }
}

fn rule(arena: Arena, root: ExprId, bindings: &Bindings) -> Rule {
    Rule {
        name: "tested".to_owned(),
        doc: String::new(),
        kind: if arena.ty(root) == Ty::Bool {
            RuleKind::Mask
        } else {
            RuleKind::Score
        },
        captures: bindings.values.iter().map(decl).collect(),
        dims: bindings
            .dims
            .iter()
            .map(|_| DimDecl {
                name: "n".to_owned(),
                span: None,
            })
            .collect(),
        arena,
        root,
        source: None,
    }
}

fn load(arena: &mut Arena, bindings: &Bindings, slot: u32, index: &[ExprId]) -> ExprId {
    let elem = bindings.buffer(CaptureId(slot)).elem();
    let expr = Expr::Load {
        buffer: CaptureId(slot),
        index: index.into(),
    };
    arena.intern(expr, Some(elem.loads_as()), None).unwrap()
}

fn same(a: Const, b: Const) -> bool {
    match (a, b) {
        (Const::F32(a), Const::F32(b)) => a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
        (a, b) => a == b,
    }
}

fn score_of(kv: i32) -> f32 {
    (kv % 17) as f32 * 0.75 - 4.0
}

/// Both interpreters agree on a stretch of one row: as a whole, and on each part of it that does not fail.
#[track_caller]
fn check_row(rule: &Rule, bindings: &Bindings, query: (i32, i32, i32), kv0: i32, n: usize) {
    let mut scalar = ScalarEvaluator::new(rule, bindings, SIZES);
    let law: Vec<Result<Const, EvalError>> = (0..n)
        .map(|i| {
            let kv_idx = kv0.wrapping_add(i as i32);
            scalar.eval(&Point {
                b: query.0,
                h: query.1,
                q_idx: query.2,
                kv_idx,
                score: score_of(kv_idx),
            })
        })
        .collect();
    let mut rows = RowEvaluator::new(rule, bindings, SIZES);
    check_stretch(&mut rows, query, kv0, &law);
    let mut at = 0;
    while at < n {
        let good = law[at..].iter().take_while(|v| v.is_ok()).count();
        if good == 0 {
            at += 1;
            continue;
        }
        let first = kv0.wrapping_add(at as i32);
        check_stretch(&mut rows, query, first, &law[at..at + good]);
        at += good;
    }
}

#[track_caller]
fn check_stretch(
    rows: &mut RowEvaluator<'_>,
    (b, h, q): (i32, i32, i32),
    kv0: i32,
    law: &[Result<Const, EvalError>],
) {
    let failure = law.iter().find_map(|v| v.clone().err());
    if rows.rule.kind == RuleKind::Mask {
        let mut bits = vec![u64::MAX; law.len().div_ceil(64) + 1];
        let found = rows.mask_row(b, h, q, kv0, law.len(), &mut bits);
        assert_eq!(found.err(), failure);
        if failure.is_some() {
            return;
        }
        for (i, law) in law.iter().enumerate() {
            let bit = bits[i / 64] >> (i % 64) & 1 == 1;
            assert_eq!(Ok(Const::Bool(bit)), *law, "at key {i} from {kv0}");
        }
        for i in law.len()..bits.len() * 64 {
            assert_eq!(bits[i / 64] >> (i % 64) & 1, 0, "bit {i} has no key");
        }
        return;
    }
    let mut scores: Vec<f32> = (0..law.len())
        .map(|i| score_of(kv0.wrapping_add(i as i32)))
        .collect();
    let found = rows.score_row(b, h, q, kv0, &mut scores);
    // NaN bounds of a clamp make errors that differ from themselves.
    assert_eq!(
        found.err().map(|e| e.to_string()),
        failure.as_ref().map(ToString::to_string)
    );
    if failure.is_some() {
        return;
    }
    for (i, law) in law.iter().enumerate() {
        let law = law.clone().unwrap();
        let score = Const::F32(scores[i]);
        assert!(
            same(score, law),
            "{score} is not {law} at key {i} from {kv0}"
        );
    }
}

/// Compares an operation on every tuple of edge values. `build` makes the node from operands that vary by key, or with
/// the last one uniform.
#[track_caller]
fn check_op(tys: &[Ty], build: &dyn Fn(&mut Arena, &[ExprId]) -> Option<ExprId>) {
    let mut tuples: Vec<Vec<Const>> = vec![Vec::new()];
    for ty in tys {
        tuples = tuples
            .iter()
            .flat_map(|tuple| {
                edges(*ty).into_iter().map(|v| {
                    let mut tuple = tuple.clone();
                    tuple.push(v);
                    tuple
                })
            })
            .collect();
    }
    let operands = |at: usize| -> Vec<Const> { tuples.iter().map(|t| t[at]).collect() };
    let mut values: Vec<CaptureValue> = (0..tys.len())
        .map(|at| CaptureValue::Buffer(buffer_of(&operands(at))))
        .collect();
    let bindings = Bindings {
        values: values.clone(),
        dims: Vec::new(),
    };
    let mut arena = Arena::new();
    let kv = arena.var(Var::KvIdx);
    let ids: Vec<ExprId> = (0..tys.len())
        .map(|slot| load(&mut arena, &bindings, slot as u32, &[kv]))
        .collect();
    let Some(node) = build(&mut arena, &ids) else {
        return;
    };
    // Results as the law has them; where there are none, the guard keeps the operation from being asked.
    let probe = rule(arena.clone(), node, &bindings);
    let mut scalar = ScalarEvaluator::new(&probe, &bindings, SIZES);
    let zero = match arena.ty(node) {
        Ty::Bool => Const::Bool(false),
        Ty::F32 => Const::F32(0.0),
        ty => Const::from_int(ty, 0).unwrap(),
    };
    let mut good = Vec::new();
    let mut expected = Vec::new();
    for kv_idx in 0..tuples.len() as i32 {
        let point = Point {
            b: 0,
            h: 0,
            q_idx: 0,
            kv_idx,
            score: 0.0,
        };
        let value = scalar.eval_expr(node, &point);
        good.push(Const::Bool(value.is_ok()));
        expected.push(value.unwrap_or(zero));
    }
    values.push(CaptureValue::Buffer(buffer_of(&good)));
    values.push(CaptureValue::Buffer(buffer_of(&expected)));
    let bindings = Bindings {
        values,
        dims: Vec::new(),
    };
    let n = tys.len() as u32;
    let ok = load(&mut arena, &bindings, n, &[kv]);
    if arena.ty(node) == Ty::F32 {
        let nothing = arena.constant(zero);
        let root = arena.select(ok, node, nothing);
        check_row(
            &rule(arena.clone(), root, &bindings),
            &bindings,
            (0, 0, 0),
            0,
            tuples.len(),
        );
        return;
    }
    let wanted = load(&mut arena, &bindings, n + 1, &[kv]);
    let equal = arena.binary(BinaryOp::Eq, node, wanted);
    let guarded = arena.binary(BinaryOp::And, ok, equal);
    check_row(
        &rule(arena.clone(), guarded, &bindings),
        &bindings,
        (0, 0, 0),
        0,
        tuples.len(),
    );
    check_row(
        &rule(arena, equal, &bindings),
        &bindings,
        (0, 0, 0),
        0,
        tuples.len(),
    );
}

#[test]
fn every_unary_operator_is_the_scalar_one() {
    let mut ops = vec![
        UnaryOp::Not,
        UnaryOp::Neg,
        UnaryOp::WrappingNeg,
        UnaryOp::Abs,
        UnaryOp::Signum,
    ];
    ops.extend(MathFn::ALL.map(UnaryOp::Math));
    for op in ops {
        for ty in TYPES {
            check_op(&[ty], &|arena, ids| {
                arena
                    .intern(Expr::Unary { op, arg: ids[0] }, None, None)
                    .ok()
            });
        }
    }
}

#[test]
fn every_binary_operator_is_the_scalar_one() {
    for op in BINARY {
        for lhs in TYPES {
            for rhs in TYPES {
                check_op(&[lhs, rhs], &|arena, ids| {
                    let (lhs, rhs) = (ids[0], ids[1]);
                    arena.intern(Expr::Binary { op, lhs, rhs }, None, None).ok()
                });
            }
        }
    }
}

#[test]
fn every_binary_operator_with_one_right_side_for_all_keys_is_the_scalar_one() {
    for op in BINARY {
        for lhs in TYPES {
            for value in TYPES.into_iter().flat_map(edges) {
                check_op(&[lhs], &|arena, ids| {
                    let (lhs, rhs) = (ids[0], arena.constant(value));
                    arena.intern(Expr::Binary { op, lhs, rhs }, None, None).ok()
                });
            }
        }
    }
}

#[test]
fn casts_selects_lets_and_clamps_are_the_scalar_ones() {
    for from in TYPES {
        for to in TYPES {
            check_op(&[from], &|arena, ids| {
                arena
                    .intern(Expr::Cast { to, arg: ids[0] }, None, None)
                    .ok()
            });
        }
        check_op(&[Ty::Bool, from, from], &|arena, ids| {
            Some(arena.select(ids[0], ids[1], ids[2]))
        });
        check_op(&[from, from], &|arena, ids| {
            let (first, value) = (ids[0], ids[1]);
            arena.intern(Expr::Then { first, value }, None, None).ok()
        });
        check_op(&[from, from, from], &|arena, ids| {
            let (arg, lo, hi) = (ids[0], ids[1], ids[2]);
            arena.intern(Expr::Clamp { arg, lo, hi }, None, None).ok()
        });
    }
}

/// A buffer of each element type, and views with odd strides.
fn buffers() -> Vec<CapturedBuffer> {
    let ints: Vec<i64> = (0..280).map(|i| (i * 37 + 11) % 101).collect();
    let floats: Vec<f64> = (0..280).map(|i| f64::from(i) * 0.37 - 40.0).collect();
    let mut buffers: Vec<CapturedBuffer> = Elem::ALL
        .iter()
        .map(|elem| {
            let data = match elem {
                Elem::Bool => BufferData::Bool(ints.iter().map(|v| v % 3 == 0).collect()),
                Elem::Bits => BufferData::Bits(ints[..35].iter().map(|v| *v as u8).collect()),
                Elem::I8 => BufferData::I8(ints.iter().map(|v| (v - 50) as i8).collect()),
                Elem::U8 => BufferData::U8(ints.iter().map(|v| (v * 2) as u8).collect()),
                Elem::I16 => BufferData::I16(ints.iter().map(|v| (v - 9) as i16).collect()),
                Elem::U16 => BufferData::U16(ints.iter().map(|v| (v * 9) as u16).collect()),
                Elem::I32 => BufferData::I32(ints.iter().map(|v| (v - 3) as i32).collect()),
                Elem::I64 => BufferData::I64(ints.iter().map(|v| v - 1).collect()),
                Elem::U32 => BufferData::U32(ints.iter().map(|v| *v as u32).collect()),
                Elem::F16 => BufferData::F16(floats.iter().map(|v| f16::from_f64(*v)).collect()),
                Elem::Bf16 => BufferData::Bf16(floats.iter().map(|v| bf16::from_f64(*v)).collect()),
                Elem::F32 => BufferData::F32(floats.iter().map(|v| *v as f32).collect()),
                Elem::F64 => BufferData::F64(floats.clone().into()),
            };
            CapturedBuffer::new(data, vec![280]).unwrap()
        })
        .collect();
    let some: Vec<BufferData> = buffers.iter().map(|b| b.data().clone()).collect();
    let view = |at: usize, shape: &[usize], strides: &[i64], offset| {
        CapturedBuffer::strided(some[at].clone(), shape.to_vec(), strides.to_vec(), offset).unwrap()
    };
    buffers.push(view(6, &[7, 40], &[40, 1], 0));
    buffers.push(view(11, &[40, 7], &[1, 40], 0));
    buffers.push(view(7, &[140], &[-2], 279));
    buffers.push(view(1, &[90], &[3], 5));
    buffers.push(view(4, &[5, 200], &[0, 1], 77));
    buffers.push(view(6, &[], &[], 3));
    buffers.push(view(8, &[0], &[1], 0));
    buffers.push(view(9, &[2, 3, 40], &[130, 43, 1], 2));
    buffers
}

fn captures() -> Bindings {
    let mut values: Vec<CaptureValue> = buffers().into_iter().map(CaptureValue::Buffer).collect();
    values.extend(
        [
            Const::Bool(true),
            Const::I32(5),
            Const::I64(-2),
            Const::U32(9),
            Const::F32(0.25),
        ]
        .map(CaptureValue::Scalar),
    );
    Bindings {
        values,
        dims: vec![40, 7],
    }
}

/// A generator of programs from a seed, by `SplitMix64`.
struct Generator {
    state: u64,
    reads_score: bool,
    arena: Arena,
    bindings: Bindings,
}

impl Generator {
    fn next(&mut self, below: usize) -> usize {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % below as u64) as usize
    }

    /// A node of the type: an old one, so that nodes are shared between guarded and unguarded places, or a new one.
    fn node(&mut self, ty: Ty, depth: usize) -> ExprId {
        let old: Vec<ExprId> = self
            .arena
            .ids()
            .filter(|id| self.arena.ty(*id) == ty)
            .collect();
        if !old.is_empty() && self.next(4) == 0 {
            return old[self.next(old.len())];
        }
        if depth == 0 {
            return self.leaf(ty);
        }
        loop {
            let made = match self.next(8) {
                0 => {
                    let op = match self.next(6) {
                        0 => UnaryOp::Not,
                        1 => UnaryOp::Neg,
                        2 => UnaryOp::WrappingNeg,
                        3 => UnaryOp::Abs,
                        4 => UnaryOp::Signum,
                        _ => UnaryOp::Math(MathFn::ALL[self.next(15)]),
                    };
                    let arg = self.node(ty, depth - 1);
                    Some(Expr::Unary { op, arg })
                }
                1 => Some(Expr::Cast {
                    to: ty,
                    arg: {
                        let from = TYPES[self.next(5)];
                        self.node(from, depth - 1)
                    },
                }),
                2 => Some(Expr::Select {
                    cond: self.node(Ty::Bool, depth - 1),
                    then: self.node(ty, depth - 1),
                    otherwise: self.node(ty, depth - 1),
                }),
                3 => {
                    let first = TYPES[self.next(5)];
                    Some(Expr::Then {
                        first: self.node(first, depth - 1),
                        value: self.node(ty, depth - 1),
                    })
                }
                4 if ty != Ty::Bool => Some(Expr::Clamp {
                    arg: self.node(ty, depth - 1),
                    lo: self.node(ty, depth - 1),
                    hi: self.node(ty, depth - 1),
                }),
                5 => self.read(ty, depth),
                _ => {
                    let op = BINARY[self.next(BINARY.len())];
                    let (lhs, rhs) = match op {
                        BinaryOp::Shl | BinaryOp::Shr | BinaryOp::Pow => {
                            (ty, [Ty::I32, Ty::U32, Ty::I64][self.next(3)])
                        }
                        BinaryOp::Powi => (ty, Ty::I32),
                        _ if op.is_comparison() => {
                            let ty = TYPES[self.next(5)];
                            (ty, ty)
                        }
                        _ => (ty, ty),
                    };
                    Some(Expr::Binary {
                        op,
                        lhs: self.node(lhs, depth - 1),
                        rhs: self.node(rhs, depth - 1),
                    })
                }
            };
            let Some(expr) = made else { continue };
            let leaf = matches!(expr, Expr::Load { .. }).then_some(ty);
            match self.arena.intern(expr, leaf, None) {
                Ok(id) if self.arena.ty(id) == ty => return id,
                Ok(_) | Err(_) => {}
            }
        }
    }

    fn read(&mut self, ty: Ty, depth: usize) -> Option<Expr> {
        let slot = CaptureId(self.next(21) as u32);
        let buffer = self.bindings.buffer(slot).clone();
        if buffer.elem().loads_as() != ty {
            return None;
        }
        let index = buffer
            .shape()
            .iter()
            .map(|extent| {
                let ty = [Ty::I32, Ty::I32, Ty::I32, Ty::I64, Ty::U32][self.next(5)];
                let index = self.node(ty, depth - 1);
                if ty != Ty::I32 || self.next(3) == 0 {
                    return index;
                }
                // Most indices are kept within the axis, so that programs mostly work.
                let extent = self.arena.constant(Const::I32((*extent).max(1) as i32));
                self.arena.binary(BinaryOp::RemEuclid, index, extent)
            })
            .collect();
        Some(Expr::Load {
            buffer: slot,
            index,
        })
    }

    fn leaf(&mut self, ty: Ty) -> ExprId {
        let ints = [
            Var::B,
            Var::H,
            Var::QIdx,
            Var::KvIdx,
            Var::KvIdx,
            Var::QLen,
            Var::KvLen,
            Var::Batch,
            Var::NumQHeads,
        ];
        match self.next(3) {
            0 if ty == Ty::I32 => {
                let var = ints[self.next(ints.len())];
                self.arena.var(var)
            }
            0 if ty == Ty::F32 && self.reads_score => self.arena.var(Var::Score),
            1 if ty == Ty::I32 && self.next(2) == 0 => {
                let dim = Expr::Dim(DimId(self.next(2) as u32));
                self.arena.intern(dim, None, None).unwrap()
            }
            1 => {
                let at = TYPES.iter().position(|t| *t == ty).unwrap();
                let scalar = Expr::Scalar(CaptureId(21 + at as u32));
                self.arena.intern(scalar, Some(ty), None).unwrap()
            }
            _ => {
                let edges = edges(ty);
                let value = edges[self.next(edges.len())];
                self.arena.constant(value)
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn random_rules_are_the_scalar_ones(
        seed in any::<u64>(),
        depth in 1usize..8,
        score in any::<bool>(),
        q in -3..80i32,
        kv0 in prop_oneof![Just(0), -20..300i32, Just(i32::MAX - 40), Just(i32::MIN)],
        n in 1usize..300,
    ) {
        let mut generator = Generator {
            state: seed,
            reads_score: score,
            arena: Arena::new(),
            bindings: captures(),
        };
        let root = generator.node(if score { Ty::F32 } else { Ty::Bool }, depth);
        let rule = rule(generator.arena, root, &generator.bindings);
        let n = if kv0 > i32::MAX - 300 { n.min(40) } else { n };
        let bindings = &generator.bindings;
        check_row(&rule, bindings, ((seed % 2) as i32, (seed % 3) as i32, q), kv0, n);
    }
}

#[test]
fn every_element_type_is_read_in_runs_and_by_gather() {
    let bindings = captures();
    for slot in 0..21 {
        let rank = bindings.buffer(CaptureId(slot)).shape().len();
        for index_ty in [Ty::I32, Ty::I64, Ty::U32] {
            for axis in 0..rank.max(1) {
                for gather in [false, true] {
                    for offset in [-130, -5, 0, 3] {
                        let mut arena = Arena::new();
                        let kv = arena.var(Var::KvIdx);
                        let by = arena.constant(Const::I32(offset));
                        let mut index = arena.binary(BinaryOp::Add, kv, by);
                        if gather {
                            let three = arena.constant(Const::I32(3));
                            index = arena.binary(BinaryOp::DivFloor, index, three);
                        }
                        let index = arena.known(&Expr::Cast {
                            to: index_ty,
                            arg: index,
                        });
                        let one = arena.constant(Const::I32(1));
                        let at: Vec<ExprId> = (0..rank)
                            .map(|a| if a == axis { index } else { one })
                            .collect();
                        let value = load(&mut arena, &bindings, slot, &at);
                        let score = arena.var(Var::Score);
                        let root = if arena.ty(value) == Ty::Bool {
                            value
                        } else {
                            let to = Ty::F32;
                            let value = arena.known(&Expr::Cast { to, arg: value });
                            arena.binary(BinaryOp::Add, score, value)
                        };
                        let rule = rule(arena, root, &bindings);
                        for (kv0, n) in [(0, 290), (0, 128), (129, 33), (270, 5)] {
                            check_row(&rule, &bindings, (0, 0, 7), kv0, n);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_node_shared_by_guards_that_exclude_each_other_is_right() {
    // if c { x && y } else { y && x }, where x and y each fail unless the other was asked first and denied.
    let data = BufferData::I32((0..200).map(|i| i % 5).collect());
    let bindings = Bindings {
        values: vec![CaptureValue::Buffer(
            CapturedBuffer::new(data, vec![200]).unwrap(),
        )],
        dims: Vec::new(),
    };
    let mut arena = Arena::new();
    let kv = arena.var(Var::KvIdx);
    let v = load(&mut arena, &bindings, 0, &[kv]);
    let [zero, one, two, ten] = [0, 1, 2, 10].map(|v| arena.constant(Const::I32(v)));
    let over = |arena: &mut Arena, by: ExprId| {
        let difference = arena.binary(BinaryOp::Sub, v, by);
        let quotient = arena.binary(BinaryOp::Div, ten, difference);
        arena.binary(BinaryOp::Gt, quotient, zero)
    };
    let x = over(&mut arena, one);
    let y = over(&mut arena, two);
    let c = arena.binary(BinaryOp::Eq, v, two);
    let xy = arena.binary(BinaryOp::And, x, y);
    let yx = arena.binary(BinaryOp::And, y, x);
    let root = arena.select(c, xy, yx);
    let rule = rule(arena, root, &bindings);
    check_row(&rule, &bindings, (0, 0, 0), 0, 200);
}

#[test]
fn tiles_are_evaluated_from_several_threads() {
    let bindings = Bindings::default();
    let mut arena = Arena::new();
    let (q, kv) = (arena.var(Var::QIdx), arena.var(Var::KvIdx));
    let root = arena.binary(BinaryOp::Le, kv, q);
    let mask = RowMask::new(Arc::new(rule(arena, root, &bindings)), bindings, SIZES);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let mask = &mask;
            scope.spawn(move || {
                for q0 in 0..200 {
                    let mut bits = [0; 2];
                    mask.tile(0, thread, q0, 2, 0, 64, &mut bits, 1);
                    let row = |q: i64| if q < 63 { (1 << (q + 1)) - 1 } else { u64::MAX };
                    assert_eq!(bits, [row(q0), row(q0 + 1)]);
                }
            });
        }
    });
}

#[test]
fn tiles_are_rows_and_clear_what_has_no_cell() {
    let bindings = Bindings::default();
    let mut arena = Arena::new();
    let (q, kv) = (arena.var(Var::QIdx), arena.var(Var::KvIdx));
    let root = arena.binary(BinaryOp::Le, kv, q);
    let mask = RowMask::new(Arc::new(rule(arena, root, &bindings)), bindings, SIZES);
    let mut bits = vec![u64::MAX; 5 * 4];
    mask.tile(0, 0, 3, 5, 1, 130, &mut bits, 4);
    for (i, row) in bits.chunks(4).enumerate() {
        assert_eq!(row, [(1 << (3 + i)) - 1, 0, 0, 0]);
    }
    mask.tile(0, 0, 300, 5, 1, 130, &mut bits, 4);
    assert_eq!(bits[..4], [u64::MAX, u64::MAX, 3, 0]);
}
