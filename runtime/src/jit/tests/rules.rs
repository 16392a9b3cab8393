//! Rules as users write them.

use half::{bf16, f16};
use maskwright_dsl::capture::{BufferData, CaptureValue, CapturedBuffer};
use maskwright_dsl::eval::Sizes;
use maskwright_dsl::ir::{BinaryOp, CaptureId, Const, Elem, ExprId, MathFn, Ty, UnaryOp, Var};
use maskwright_dsl::pipeline::prepare_unchecked;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use super::build::{Build, LEN, check, check_compiled, scope, sizes};
use crate::jit::{BoundEvaluator, CompiledRule, EvaluatorError, clif};

fn documents(n: i32, length: i32) -> BufferData {
    BufferData::I32((0..n).map(|i| i / length).collect())
}

fn causal(rule: &mut Build) -> ExprId {
    let (q, kv) = (rule.q(), rule.kv());
    rule.op(BinaryOp::Le, kv, q)
}

fn window_in_documents(rule: &mut Build, window: ExprId, doc: CaptureId) -> ExprId {
    let (q, kv) = (rule.q(), rule.kv());
    let causal = causal(rule);
    let distance = rule.op(BinaryOp::Sub, q, kv);
    let near = rule.op(BinaryOp::Lt, distance, window);
    let (mine, theirs) = (rule.load(doc, &[q]), rule.load(doc, &[kv]));
    let same = rule.op(BinaryOp::Eq, mine, theirs);
    let root = rule.op(BinaryOp::And, causal, near);
    rule.op(BinaryOp::And, root, same)
}

#[test]
fn causal_and_constant_masks() {
    let mut rule = Build::default();
    let root = causal(&mut rule);
    rule.check(root);
    for allow in [false, true] {
        let mut rule = Build::default();
        let root = rule.arena.constant(Const::Bool(allow));
        rule.check(root);
    }
    let mut rule = Build::default();
    let (q, seven) = (rule.q(), rule.i32(7));
    let root = rule.op(BinaryOp::Gt, q, seven);
    rule.check(root);
}

#[test]
fn a_window_inside_documents() {
    let mut rule = Build::default();
    let window = rule.scalar(Const::I32(40));
    let doc = rule.list(documents(LEN, 29));
    let root = window_in_documents(&mut rule, window, doc);
    rule.check(root);
}

#[test]
fn other_values_and_lengths_run_the_same_code() {
    let mut rule = Build::default();
    let window = rule.scalar(Const::I32(40));
    let doc = rule.list(documents(LEN, 29));
    let root = window_in_documents(&mut rule, window, doc);
    let first = rule.finish(root);
    let compiled = Arc::new(CompiledRule::compile(&first).unwrap());
    for (n, length, window) in [(33, 5, 7), (400, 100, 300), (1, 1, 1)] {
        let doc = CapturedBuffer::new(documents(n, length), vec![n as usize]).unwrap();
        let bound = first
            .original()
            .rebind(CaptureId(0), CaptureValue::Scalar(Const::I32(window)))
            .and_then(|bound| bound.rebind(CaptureId(1), CaptureValue::Buffer(doc)))
            .unwrap();
        let prepared = prepare_unchecked(&bound, &scope());
        let sizes = Sizes {
            q_len: n,
            kv_len: n,
            ..sizes()
        };
        let tiles = [(0, n as usize, 0, n as usize), (0, 0, 0, n as usize)];
        check_compiled(Arc::clone(&compiled), &prepared, sizes, &tiles);
    }
}

#[test]
fn code_of_another_rule_and_sizes_out_of_scope_are_refused() {
    let mut rule = Build::default();
    let root = causal(&mut rule);
    let prepared = rule.finish(root);
    let compiled = Arc::new(CompiledRule::compile(&prepared).unwrap());
    let mut other = Build::default();
    let (q, kv) = (other.q(), other.kv());
    let root = other.op(BinaryOp::Lt, kv, q);
    let error = BoundEvaluator::new(Arc::clone(&compiled), &other.finish(root), sizes());
    assert!(matches!(error, Err(EvaluatorError::OtherRule { .. })));
    for sizes in [
        Sizes {
            batch: 3,
            ..sizes()
        },
        Sizes {
            num_q_heads: 2,
            ..sizes()
        },
        Sizes {
            kv_len: -1,
            ..sizes()
        },
    ] {
        let error = BoundEvaluator::new(Arc::clone(&compiled), &prepared, sizes);
        assert!(matches!(error, Err(EvaluatorError::OutOfScope { .. })));
    }
}

#[test]
fn tiles_out_of_scope_panic() {
    let mut rule = Build::default();
    let root = causal(&mut rule);
    let prepared = rule.finish(root);
    let compiled = Arc::new(CompiledRule::compile(&prepared).unwrap());
    let evaluator = BoundEvaluator::new(compiled, &prepared, sizes()).unwrap();
    let tile = |b, h, q0, kv0, n_kv, words: usize| {
        let evaluator = evaluator.clone();
        std::panic::catch_unwind(AssertUnwindSafe(move || {
            let mut bits = vec![0; words];
            evaluator.mask_tile(b, h, q0, 1, kv0, n_kv, &mut bits, words);
        }))
    };
    assert!(tile(1, 2, 149, 0, 150, 3).is_ok());
    assert!(tile(2, 2, 149, 0, 150, 3).is_err());
    assert!(tile(1, 3, 149, 0, 150, 3).is_err());
    assert!(tile(1, 2, -1, 0, 150, 3).is_err());
    assert!(tile(1, 2, 149, 1, 150, 3).is_err());
    assert!(tile(1, 2, 149, -1, 150, 3).is_err());
    assert!(tile(1, 2, 149, 0, 150, 2).is_err());
}

/// `x ^= x >> 16; x *= 0x7feb352d; x ^= x >> 15; x *= 0x846ca68b; x ^= x >> 16`.
fn mix(rule: &mut Build, mut x: ExprId) -> ExprId {
    for (shift, factor) in [(16, Some(0x7FEB_352D)), (15, Some(0x846C_A68B)), (16, None)] {
        let shift = rule.i32(shift);
        let high = rule.op(BinaryOp::Shr, x, shift);
        x = rule.op(BinaryOp::BitXor, x, high);
        if let Some(factor) = factor {
            let factor = rule.u32(factor);
            x = rule.op(BinaryOp::WrappingMul, x, factor);
        }
    }
    x
}

#[test]
fn keys_dropped_by_a_hash() {
    let mut rule = Build::default();
    let seed = rule.scalar(Const::U32(0xDEAD_BEEF));
    let drop = rule.scalar(Const::U32(429_496_729));
    let mut x = seed;
    for (var, factor) in [
        (Var::B, 73_856_093),
        (Var::H, 19_349_663),
        (Var::QIdx, 83_492_791),
        (Var::KvIdx, 2_654_435_761),
    ] {
        let (var, factor) = (rule.var(var), rule.u32(factor));
        let var = rule.cast(Ty::U32, var);
        let term = rule.op(BinaryOp::WrappingMul, var, factor);
        x = rule.op(BinaryOp::BitXor, x, term);
    }
    let hash = mix(&mut rule, x);
    let kept = rule.op(BinaryOp::Ge, hash, drop);
    let causal = causal(&mut rule);
    let root = rule.op(BinaryOp::And, causal, kept);
    rule.check(root);
}

#[test]
fn a_bias_by_logarithmic_buckets() {
    let mut rule = Build::default();
    let table: BufferData = BufferData::F32((0..96).map(|i| i as f32 * 0.37 - 9.0).collect());
    let bias = rule.buffer(CapturedBuffer::new(table, vec![32, 3]).unwrap());
    let (q, kv) = (rule.q(), rule.kv());
    let (zero, one, exact, last) = (rule.i32(0), rule.i32(1), rule.i32(16), rule.i32(31));
    let distance = rule.op(BinaryOp::Sub, q, kv);
    let distance = rule.op(BinaryOp::Max, distance, zero);
    let at_least_one = rule.op(BinaryOp::Max, distance, one);
    let float = rule.cast(Ty::F32, at_least_one);
    let sixteen = rule.f32(16.0);
    let ratio = rule.op(BinaryOp::Div, float, sixteen);
    let log = rule.math(MathFn::Ln, ratio);
    let scale = rule.f32(16.0 / 8f32.ln());
    let log = rule.op(BinaryOp::Mul, log, scale);
    let steps = rule.cast(Ty::I32, log);
    let far = rule.op(BinaryOp::Add, exact, steps);
    let far = rule.op(BinaryOp::Min, far, last);
    let near = rule.op(BinaryOp::Lt, distance, exact);
    let bucket = rule.select(near, distance, far);
    let h = rule.var(Var::H);
    let add = rule.load(bias, &[bucket, h]);
    let score = rule.var(Var::Score);
    let root = rule.op(BinaryOp::Add, score, add);
    rule.check(root);
}

#[test]
fn scores_capped_by_tanh() {
    let mut rule = Build::default();
    let cap = rule.scalar(Const::F32(30.0));
    let score = rule.var(Var::Score);
    let small = rule.op(BinaryOp::Div, score, cap);
    let tanh = rule.math(MathFn::Tanh, small);
    let root = rule.op(BinaryOp::Mul, cap, tanh);
    rule.check(root);
}

#[test]
fn slopes_by_head_and_infinity_outside() {
    let mut rule = Build::default();
    let slope = rule.list(BufferData::F32([0.5, 0.25, 0.125].into()));
    let (q, kv, h, score) = (rule.q(), rule.kv(), rule.var(Var::H), rule.var(Var::Score));
    let slope = rule.load(slope, &[h]);
    let distance = rule.op(BinaryOp::Sub, kv, q);
    let distance = rule.cast(Ty::F32, distance);
    let bias = rule.op(BinaryOp::Mul, slope, distance);
    let biased = rule.op(BinaryOp::Add, score, bias);
    let never = rule.f32(f32::NEG_INFINITY);
    let causal = causal(&mut rule);
    let root = rule.select(causal, biased, never);
    rule.check(root);
    let constant = rule.f32(2.5);
    rule.check(constant);
}

#[test]
fn guarded_reads_stay_in_their_buffers() {
    for n in [0, 1, 5, 40, 100] {
        let mut rule = Build::default();
        let table = rule.list(BufferData::I32((0..n).map(|i| i * 7 % 5).collect()));
        let length = rule.scalar(Const::I32(n));
        let (q, kv) = (rule.q(), rule.kv());
        let (zero, three) = (rule.i32(0), rule.i32(3));
        let guarded = |rule: &mut Build, index: ExprId| {
            let above = rule.op(BinaryOp::Le, zero, index);
            let below = rule.op(BinaryOp::Lt, index, length);
            let inside = rule.op(BinaryOp::And, above, below);
            let value = rule.load(table, &[index]);
            let small = rule.op(BinaryOp::Lt, value, three);
            rule.op(BinaryOp::And, inside, small)
        };
        let behind = rule.op(BinaryOp::Sub, kv, three);
        let back = rule.op(BinaryOp::Sub, q, kv);
        let square = rule.op(BinaryOp::Mul, kv, kv);
        let square = rule.op(BinaryOp::Sub, square, three);
        let indices = [kv, q, behind, back, square];
        let guards = indices.map(|index| guarded(&mut rule, index));
        for guard in guards {
            rule.check(guard);
        }
        let any = guards
            .into_iter()
            .reduce(|a, b| rule.op(BinaryOp::BitXor, a, b))
            .unwrap();
        rule.check(any);
    }
}

#[test]
fn neighbourhoods_of_a_grid_with_run_time_width() {
    for width in [1, 7, 16] {
        let mut rule = Build::default();
        let width = rule.scalar(Const::I32(width));
        let radius = rule.scalar(Const::I32(2));
        let (q, kv) = (rule.q(), rule.kv());
        let mut near = |op| {
            let (a, b) = (rule.op(op, q, width), rule.op(op, kv, width));
            let distance = rule.op(BinaryOp::Sub, a, b);
            let distance = rule.unary(UnaryOp::Abs, distance);
            rule.op(BinaryOp::Le, distance, radius)
        };
        let (rows, columns) = (near(BinaryOp::Div), near(BinaryOp::Rem));
        let root = rule.op(BinaryOp::And, rows, columns);
        rule.check(root);
    }
}

/// Every element type, read along the keys, against them, along queries and at gathered places.
fn elements() -> Vec<BufferData> {
    let n = LEN as usize;
    let hash = |i: usize| (i as u32).wrapping_mul(2_654_435_761) >> 7;
    // Halves with all exponents, infinities and NaNs among them.
    let half = |i: usize| (hash(i) & 0xffff) as u16;
    let ints = 0..n;
    vec![
        BufferData::Bool(ints.clone().map(|i| hash(i) % 3 == 0).collect()),
        BufferData::Bits(ints.clone().map(|i| hash(i) as u8).collect()),
        BufferData::I8(ints.clone().map(|i| hash(i) as i8).collect()),
        BufferData::U8(ints.clone().map(|i| hash(i) as u8).collect()),
        BufferData::I16(ints.clone().map(|i| hash(i) as i16).collect()),
        BufferData::U16(ints.clone().map(|i| hash(i) as u16).collect()),
        BufferData::I32(ints.clone().map(|i| hash(i) as i32 * 64).collect()),
        BufferData::I64(ints.clone().map(|i| i64::from(hash(i)) << 20).collect()),
        BufferData::U32(ints.clone().map(|i| hash(i) << 7).collect()),
        BufferData::F16(ints.clone().map(|i| f16::from_bits(half(i))).collect()),
        BufferData::Bf16(ints.clone().map(|i| bf16::from_bits(half(i))).collect()),
        BufferData::F32(ints.clone().map(|i| f32::from_bits(hash(i) << 7)).collect()),
        BufferData::F64(ints.map(|i| f64::from(hash(i)) * 1e-3 - 7.0).collect()),
    ]
}

/// A value of any type as a score, so that all of it is compared.
fn as_score(rule: &mut Build, value: ExprId) -> ExprId {
    match rule.arena.ty(value) {
        Ty::F32 => value,
        Ty::Bool | Ty::I32 | Ty::U32 | Ty::I64 => rule.cast(Ty::F32, value),
    }
}

#[test]
fn every_element_type_along_every_direction() {
    for data in elements() {
        let elem = data.elem();
        let mut rule = Build::default();
        let forward = CapturedBuffer::strided(data.clone(), vec![LEN as usize], vec![1], 0);
        let backward = CapturedBuffer::strided(data.clone(), vec![LEN as usize], vec![-1], 149);
        let sparse = CapturedBuffer::strided(data.clone(), vec![75], vec![2], 1);
        let same = CapturedBuffer::strided(data.clone(), vec![LEN as usize], vec![0], 3);
        let plane = CapturedBuffer::strided(data, vec![3, 50], vec![1, 2], 7);
        let [forward, backward, sparse, same, plane] =
            [forward, backward, sparse, same, plane].map(|view| rule.buffer(view.unwrap()));
        let (q, kv, h) = (rule.q(), rule.kv(), rule.var(Var::H));
        let (two, three) = (rule.i32(2), rule.i32(3));
        let last = rule.i32(LEN - 1);
        let reverse = rule.op(BinaryOp::Sub, last, kv);
        let wide = rule.cast(Ty::I64, kv);
        let unsigned = rule.cast(Ty::U32, kv);
        let half = rule.op(BinaryOp::Div, kv, two);
        let third = rule.op(BinaryOp::Div, kv, three);
        let rest = rule.op(BinaryOp::Rem, kv, three);
        for (buffer, index) in [
            (forward, vec![kv]),
            (forward, vec![reverse]),
            (forward, vec![wide]),
            (forward, vec![unsigned]),
            (forward, vec![q]),
            (forward, vec![half]),
            (backward, vec![kv]),
            (same, vec![kv]),
            (sparse, vec![half]),
            (plane, vec![h, third]),
            (plane, vec![rest, third]),
        ] {
            let value = rule.load(buffer, &index);
            assert_eq!(rule.arena.ty(value), elem.loads_as());
            let root = as_score(&mut rule, value);
            rule.check(root);
        }
    }
}

#[test]
fn every_element_type_behind_a_guard() {
    for data in elements() {
        let mut rule = Build::default();
        let n = 100;
        let view = CapturedBuffer::strided(data, vec![n as usize], vec![1], 5).unwrap();
        let buffer = rule.buffer(view);
        let (kv, q) = (rule.kv(), rule.q());
        let (twenty, length) = (rule.i32(20), rule.i32(n));
        let zero = rule.i32(0);
        let ahead = rule.op(BinaryOp::Sub, kv, twenty);
        let back = rule.op(BinaryOp::Sub, q, kv);
        for index in [ahead, back] {
            let above = rule.op(BinaryOp::Le, zero, index);
            let below = rule.op(BinaryOp::Lt, index, length);
            let inside = rule.op(BinaryOp::And, above, below);
            let value = rule.load(buffer, &[index]);
            let value = as_score(&mut rule, value);
            let other = rule.var(Var::Score);
            let root = rule.select(inside, value, other);
            rule.check(root);
        }
    }
}

#[test]
fn packed_bits_stand_in_for_bytes() {
    let mut rule = Build::default();
    let allowed = rule.list(BufferData::Bool((0..LEN).map(|i| i % 3 == 0).collect()));
    let kv = rule.kv();
    let root = rule.load(allowed, &[kv]);
    let prepared = rule.finish(root);
    let bytes = CompiledRule::compile(&prepared).unwrap();
    let data = BufferData::Bits((0..20u8).map(|i| i.wrapping_mul(37)).collect());
    let bits = CapturedBuffer::strided(data, vec![LEN as usize], vec![1], 6).unwrap();
    let bound = prepared
        .original()
        .rebind(allowed, CaptureValue::Buffer(bits))
        .unwrap();
    let prepared = prepare_unchecked(&bound, &scope());
    // Bits need other loads than bytes, so this is other code.
    assert!(!bytes.fits(&prepared));
    check(&prepared, sizes());
    assert_eq!(prepared.bindings().buffer(allowed).elem(), Elem::Bits);
}

#[test]
fn eager_lets_and_sizes() {
    let mut rule = Build::default();
    let doc = rule.list(documents(LEN, 11));
    let (q, kv) = (rule.q(), rule.kv());
    let first = rule.load(doc, &[q]);
    let sizes = [Var::QLen, Var::KvLen, Var::Batch, Var::NumQHeads].map(|var| rule.var(var));
    let total = sizes
        .into_iter()
        .reduce(|a, b| rule.op(BinaryOp::Add, a, b))
        .unwrap();
    let two = rule.i32(2);
    let half = rule.op(BinaryOp::Div, total, two);
    let sum = rule.op(BinaryOp::Add, q, kv);
    let value = rule.op(BinaryOp::Lt, sum, half);
    let root = rule
        .arena
        .known(&maskwright_dsl::ir::Expr::Then { first, value });
    rule.check(root);
}

#[test]
fn large_rules_take_shorter_steps() {
    for n in [10, 40, 100, 400] {
        let mut rule = Build::default();
        let doc = rule.list(documents(LEN, 13));
        let (q, kv) = (rule.q(), rule.kv());
        let mut root = causal(&mut rule);
        let mine = rule.load(doc, &[q]);
        for i in 0..n {
            let factor = rule.i32(i * 3 + 1);
            let place = rule.op(BinaryOp::Mul, mine, factor);
            let sum = rule.op(BinaryOp::Add, place, kv);
            let other = rule.i32(i + 17);
            let hit = rule.op(BinaryOp::Eq, sum, other);
            root = rule.op(BinaryOp::BitXor, root, hit);
        }
        rule.check(root);
        let score = rule.var(Var::Score);
        let halved = rule.unary(UnaryOp::Math(MathFn::Sqrt), score);
        let root = rule.select(root, score, halved);
        rule.check(root);
    }
}

#[test]
fn the_same_rule_gives_the_same_text() {
    let build = || {
        let mut rule = Build::default();
        let window = rule.scalar(Const::I32(40));
        let doc = rule.list(documents(LEN, 29));
        let root = window_in_documents(&mut rule, window, doc);
        clif(&rule.finish(root)).unwrap()
    };
    let text = build();
    assert_eq!(text, build());
    assert!(text.starts_with("function"), "{text}");
    assert!(text.contains("vhigh_bits"), "{text}");
}

#[test]
fn evaluators_are_shared_between_threads() {
    fn shared<T: Send + Sync + Clone>(_: &T) {}
    let mut rule = Build::default();
    let root = causal(&mut rule);
    let prepared = rule.finish(root);
    let compiled = Arc::new(CompiledRule::compile(&prepared).unwrap());
    let evaluator = BoundEvaluator::new(compiled, &prepared, sizes()).unwrap();
    shared(&evaluator);
    std::thread::scope(|scope| {
        for q0 in 0..4 {
            let evaluator = &evaluator;
            scope.spawn(move || {
                let mut bits = [0; 3];
                evaluator.mask_tile(0, 0, q0, 1, 0, LEN as usize, &mut bits, 3);
                assert_eq!(bits, [(2 << q0) - 1, 0, 0]);
            });
        }
    });
}
