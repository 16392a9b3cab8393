//! Every operator at every type, over pairs of edge and random values, in every mix of fixed and varying operands.

use maskwright_dsl::capture::{BufferData, CapturedBuffer};
use maskwright_dsl::eval::{Point, ScalarEvaluator};
use maskwright_dsl::ir::{BinaryOp, Const, Expr, ExprId, MathFn, Ty, UnaryOp};

use std::sync::Arc;

use super::build::{Build, LEN, sizes};
use crate::jit::{BoundEvaluator, CompiledRule};

const TYPES: [Ty; 5] = [Ty::Bool, Ty::I32, Ty::I64, Ty::U32, Ty::F32];

pub(super) const BINARY: [BinaryOp; 30] = [
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

/// Edge values of a type, then pseudo-random ones.
fn values(ty: Ty, n: usize, seed: u64) -> Vec<Const> {
    let edges: Vec<Const> = match ty {
        Ty::Bool => vec![Const::Bool(false), Const::Bool(true)],
        Ty::I32 => [
            0,
            1,
            -1,
            2,
            -2,
            3,
            -3,
            7,
            31,
            32,
            i32::MAX,
            i32::MIN,
            i32::MIN + 1,
        ]
        .map(Const::I32)
        .to_vec(),
        Ty::U32 => [0, 1, 2, 3, 7, 31, 32, 1 << 31, u32::MAX, u32::MAX - 1]
            .map(Const::U32)
            .to_vec(),
        Ty::I64 => [0, 1, -1, 2, -3, 7, 63, 64, 1 << 40, i64::MAX, i64::MIN]
            .map(Const::I64)
            .to_vec(),
        Ty::F32 => [
            0.0,
            -0.0,
            0.5,
            -0.5,
            1.0,
            -1.0,
            1.5,
            2.5,
            -2.5,
            0.499_999_97,
            8_388_607.5,
            16_777_217.0,
            2_147_483_648.0,
            -2_147_483_648.0,
            4_294_967_296.0,
            9.3e18,
            f32::MIN_POSITIVE,
            1e-45,
            f32::MAX,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
        ]
        .map(Const::F32)
        .to_vec(),
    };
    let mut state = seed;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let bits = state ^ state >> 29;
        let small = bits >> 60;
        // Half of them small, so that exact products and powers exist.
        let scaled = if small.is_multiple_of(2) {
            bits >> 56
        } else {
            bits
        };
        match ty {
            Ty::Bool => Const::Bool(bits >> 40 & 1 == 1),
            Ty::I32 => Const::I32((scaled as i32).wrapping_sub((small * 9) as i32)),
            Ty::U32 => Const::U32(scaled as u32),
            Ty::I64 => Const::I64((scaled as i64).wrapping_sub((small * 9) as i64)),
            Ty::F32 if small.is_multiple_of(4) => Const::F32(f32::from_bits((bits >> 20) as u32)),
            Ty::F32 => Const::F32((bits >> 40) as u16 as f32 / 256.0 - 128.0),
        }
    };
    let start = seed as usize % edges.len();
    let edges = edges[start..].iter().chain(&edges[..start]).copied();
    let mut values: Vec<Const> = edges.collect();
    while values.len() < n {
        values.push(random());
    }
    values.truncate(n);
    values
}

fn data(ty: Ty, values: &[Const]) -> BufferData {
    match ty {
        Ty::Bool => BufferData::Bool(values.iter().map(|v| *v == Const::Bool(true)).collect()),
        Ty::I32 => BufferData::I32(values.iter().map(|v| v.as_int().unwrap() as i32).collect()),
        Ty::U32 => BufferData::U32(values.iter().map(|v| v.as_int().unwrap() as u32).collect()),
        Ty::I64 => BufferData::I64(values.iter().map(|v| v.as_int().unwrap()).collect()),
        Ty::F32 => BufferData::F32(
            values
                .iter()
                .map(|v| f32::from_bits(v.key().1 as u32))
                .collect(),
        ),
    }
}

/// Compares all bits of a value: a float as the score, integers in pieces of 16 bits.
fn check_value(rule: &mut Build, value: ExprId) {
    let ty = rule.arena.ty(value);
    if ty == Ty::F32 {
        return rule.check(value);
    }
    if ty == Ty::Bool {
        return rule.check(value);
    }
    let mut shift = 0;
    while shift < ty.bits() {
        let (by, low) = (rule.u32(shift), Const::from_int(ty, 0xffff).unwrap());
        let low = rule.arena.constant(low);
        let piece = rule.op(BinaryOp::Shr, value, by);
        let piece = rule.op(BinaryOp::BitAnd, piece, low);
        let score = rule.cast(Ty::F32, piece);
        rule.check(score);
        shift += 16;
    }
}

/// Replaces operands for which the operator is undefined: the value is used only where a table of ours says it may.
fn guarded(rule: &mut Build, value: ExprId) -> ExprId {
    let prepared = rule.finish_any(value);
    let mut law = ScalarEvaluator::new(prepared.rule(), prepared.bindings(), sizes());
    let mut defined = Vec::new();
    for q in 0..LEN {
        for kv in 0..LEN {
            let point = Point {
                b: 0,
                h: 0,
                q_idx: q,
                kv_idx: kv,
                score: 0.0,
            };
            defined.push(law.eval_expr(value, &point).is_ok());
        }
    }
    if defined.iter().all(|defined| *defined) {
        return value;
    }
    let n = LEN as usize;
    let defined = CapturedBuffer::new(BufferData::Bool(defined.into()), vec![n, n]).unwrap();
    let defined = rule.buffer(defined);
    let (q, kv) = (rule.q(), rule.kv());
    let defined = rule.load(defined, &[q, kv]);
    let other = match rule.arena.ty(value) {
        Ty::F32 => Const::F32(0.0),
        ty => Const::from_int(ty, 0).unwrap(),
    };
    let other = rule.arena.constant(other);
    rule.select(defined, value, other)
}

/// Operands that vary with the key, with the query, and that are literals.
fn operands(rule: &mut Build, ty: Ty, seed: u64) -> [ExprId; 3] {
    operands_but(rule, ty, seed, f32::NAN)
}

/// As [`operands`], without a certain float.
fn operands_but(rule: &mut Build, ty: Ty, seed: u64, not: f32) -> [ExprId; 3] {
    let mut all = values(ty, LEN as usize, seed);
    for value in &mut all {
        if matches!(value, Const::F32(v) if *v == not) {
            *value = Const::F32(0.25);
        }
    }
    let buffer = rule.list(data(ty, &all));
    let (q, kv) = (rule.q(), rule.kv());
    let literal = rule.arena.constant(all[seed as usize % all.len()]);
    [rule.load(buffer, &[kv]), rule.load(buffer, &[q]), literal]
}

#[test]
fn binary_operators() {
    for op in BINARY {
        for lhs in TYPES {
            for rhs in TYPES {
                for seed in [3, 8] {
                    let mut rule = Build::default();
                    let a = operands(&mut rule, lhs, 0);
                    let b = match op {
                        // Zeros of both signs have a test of their own.
                        BinaryOp::Min | BinaryOp::Max => operands_but(&mut rule, rhs, seed, 0.0),
                        _ => operands(&mut rule, rhs, seed),
                    };
                    let expr = |lhs, rhs| Expr::Binary { op, lhs, rhs };
                    if rule.arena.intern(expr(a[0], b[0]), None, None).is_err() {
                        continue;
                    }
                    for (a, b) in
                        [(0, 0), (0, 1), (1, 0), (0, 2), (1, 1), (2, 0)].map(|(i, j)| (a[i], b[j]))
                    {
                        let mut rule = rule.clone();
                        let value = rule.arena.intern(expr(a, b), None, None).unwrap();
                        let value = guarded(&mut rule, value);
                        check_value(&mut rule, value);
                    }
                }
            }
        }
    }
}

#[test]
fn minus_zero_is_below_zero() {
    for (op, expected) in [(BinaryOp::Min, -0.0f32), (BinaryOp::Max, 0.0)] {
        let mut rule = Build::default();
        let zeros: [f32; LEN as usize] = std::array::from_fn(|i| [0.0, -0.0][i % 2]);
        let zeros = rule.list(BufferData::F32(zeros.into()));
        let (q, kv) = (rule.q(), rule.kv());
        let (mine, theirs) = (rule.load(zeros, &[q]), rule.load(zeros, &[kv]));
        for (a, b) in [(mine, theirs), (theirs, mine)] {
            let root = rule.op(op, a, b);
            let prepared = rule.finish(root);
            let compiled = Arc::new(CompiledRule::compile(&prepared).unwrap());
            let evaluator = BoundEvaluator::new(compiled, &prepared, sizes()).unwrap();
            let mut scores = [1.0; 33];
            // Query 0 has +0 and query 1 has -0; so have even and odd keys.
            for q in 0..2 {
                evaluator.score_tile(0, 0, q, 1, 0, 33, &mut scores, 33);
                for (kv, score) in scores.iter().enumerate() {
                    let expected = match (q, kv % 2) {
                        (0, 0) => 0.0,
                        (1, 1) => -0.0,
                        _ => expected,
                    };
                    assert_eq!(score.to_bits(), f32::to_bits(expected));
                }
            }
        }
    }
}

#[test]
fn divisors_of_every_kind() {
    for ty in [Ty::I32, Ty::U32, Ty::I64] {
        for divisor in [
            1,
            2,
            3,
            7,
            8,
            1000,
            1 << 30,
            -1,
            -2,
            -7,
            i64::from(i32::MIN),
        ] {
            let Some(divisor) = Const::from_int(ty, divisor) else {
                continue;
            };
            for op in &BINARY[3..9] {
                let mut rule = Build::default();
                let [a, ..] = operands(&mut rule, ty, 5);
                let b = rule.arena.constant(divisor);
                let run_time = rule.scalar(divisor);
                for b in [b, run_time] {
                    let mut rule = rule.clone();
                    let value = rule.op(*op, a, b);
                    let value = guarded(&mut rule, value);
                    check_value(&mut rule, value);
                }
            }
        }
    }
}

#[test]
fn unary_operators_and_casts() {
    let ops = [
        UnaryOp::Not,
        UnaryOp::Neg,
        UnaryOp::WrappingNeg,
        UnaryOp::Abs,
        UnaryOp::Signum,
    ];
    let functions = MathFn::ALL.map(UnaryOp::Math);
    for ty in TYPES {
        let mut exprs: Vec<Box<dyn Fn(ExprId) -> Expr>> = Vec::new();
        for op in ops.into_iter().chain(functions) {
            exprs.push(Box::new(move |arg| Expr::Unary { op, arg }));
        }
        for to in TYPES {
            exprs.push(Box::new(move |arg| Expr::Cast { to, arg }));
        }
        for expr in exprs {
            let mut rule = Build::default();
            for arg in operands(&mut rule, ty, 0) {
                let mut rule = rule.clone();
                let Ok(value) = rule.arena.intern(expr(arg), None, None) else {
                    continue;
                };
                let value = guarded(&mut rule, value);
                check_value(&mut rule, value);
            }
        }
    }
}

#[test]
fn clamps_and_selections() {
    for ty in TYPES {
        let mut rule = Build::default();
        let v = operands(&mut rule, ty, 0);
        let lo = operands(&mut rule, ty, 4);
        let hi = operands(&mut rule, ty, 9);
        let cond = operands(&mut rule, Ty::Bool, 1);
        for (i, j, k) in [(0, 0, 0), (0, 1, 1), (1, 0, 2), (0, 2, 0), (1, 1, 1)] {
            let mut clamped = rule.clone();
            let expr = Expr::Clamp {
                arg: v[i],
                lo: lo[j],
                hi: hi[k],
            };
            if let Ok(value) = clamped.arena.intern(expr, None, None) {
                let value = guarded(&mut clamped, value);
                check_value(&mut clamped, value);
            }
            let mut selected = rule.clone();
            let value = selected.select(cond[k], v[i], lo[j]);
            check_value(&mut selected, value);
        }
    }
}
