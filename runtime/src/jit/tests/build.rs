//! Rules built by hand, and the comparison of compiled code with the interpreter over tiles.

use std::sync::Arc;

use maskwright_dsl::bind::BoundRule;
use maskwright_dsl::bucket::{Bucket, Relation};
use maskwright_dsl::capture::{BufferData, CaptureValue, CapturedBuffer};
use maskwright_dsl::eval::{Point, ScalarEvaluator, Sizes};
use maskwright_dsl::ir::{
    Arena, BinaryOp, CaptureDecl, CaptureId, CaptureKind, Const, Expr, ExprId, Extent, MathFn,
    Rule, RuleKind, Ty, UnaryOp, Var,
};
use maskwright_dsl::pipeline::{Prepared, Scope, prepare_unchecked};

use crate::jit::{BoundEvaluator, CompiledRule};

/// A rule under construction, with its captured values.
#[derive(Clone, Default)]
pub(super) struct Build {
    pub(super) arena: Arena,
    captures: Vec<CaptureDecl>,
    values: Vec<CaptureValue>,
}

impl Build {
    pub(super) fn var(&mut self, var: Var) -> ExprId {
        self.arena.var(var)
    }

    pub(super) fn q(&mut self) -> ExprId {
        self.var(Var::QIdx)
    }

    pub(super) fn kv(&mut self) -> ExprId {
        self.var(Var::KvIdx)
    }

    pub(super) fn i32(&mut self, v: i32) -> ExprId {
        self.arena.constant(Const::I32(v))
    }

    pub(super) fn u32(&mut self, v: u32) -> ExprId {
        self.arena.constant(Const::U32(v))
    }

    pub(super) fn f32(&mut self, v: f32) -> ExprId {
        self.arena.constant(Const::F32(v))
    }

    pub(super) fn op(&mut self, op: BinaryOp, a: ExprId, b: ExprId) -> ExprId {
        self.arena.binary(op, a, b)
    }

    pub(super) fn unary(&mut self, op: UnaryOp, a: ExprId) -> ExprId {
        self.arena.unary(op, a)
    }

    pub(super) fn math(&mut self, f: MathFn, a: ExprId) -> ExprId {
        self.arena.unary(UnaryOp::Math(f), a)
    }

    pub(super) fn cast(&mut self, to: Ty, arg: ExprId) -> ExprId {
        self.arena.known(&Expr::Cast { to, arg })
    }

    pub(super) fn select(&mut self, cond: ExprId, then: ExprId, otherwise: ExprId) -> ExprId {
        self.arena.select(cond, then, otherwise)
    }

    pub(super) fn scalar(&mut self, value: Const) -> ExprId {
        let slot = self.capture(CaptureKind::Scalar(value.ty()), CaptureValue::Scalar(value));
        self.arena
            .intern(Expr::Scalar(slot), Some(value.ty()), None)
            .unwrap()
    }

    pub(super) fn buffer(&mut self, buffer: CapturedBuffer) -> CaptureId {
        let kind = CaptureKind::Buffer {
            elem: buffer.elem(),
            extents: vec![Extent::Unspecified; buffer.shape().len()],
        };
        self.capture(kind, CaptureValue::Buffer(buffer))
    }

    pub(super) fn list(&mut self, data: BufferData) -> CaptureId {
        let n = data.len();
        self.buffer(CapturedBuffer::new(data, vec![n]).unwrap())
    }

    fn capture(&mut self, kind: CaptureKind, value: CaptureValue) -> CaptureId {
        let slot = CaptureId(self.captures.len() as u32);
        self.captures.push(CaptureDecl {
            name: format!("c{}", slot.0),
            kind,
            min: None,
            max: None,
            span: None,
        });
        self.values.push(value);
        slot
    }

    pub(super) fn load(&mut self, buffer: CaptureId, index: &[ExprId]) -> ExprId {
        let ty = self.captures[buffer.index()].value_ty();
        let index = index.into();
        self.arena
            .intern(Expr::Load { buffer, index }, Some(ty), None)
            .unwrap()
    }

    /// The rule with this result, prepared for every call in [`scope`].
    pub(super) fn finish(&self, root: ExprId) -> Prepared {
        self.finish_any(root)
    }

    /// As [`Build::finish`]; the result may have any type if it is only interpreted.
    pub(super) fn finish_any(&self, root: ExprId) -> Prepared {
        let kind = if self.arena.ty(root) == Ty::Bool {
            RuleKind::Mask
        } else {
            RuleKind::Score
        };
        let rule = Rule {
            name: "test".to_owned(),
            doc: String::new(),
            kind,
            captures: self.captures.clone(),
            dims: Vec::new(),
            arena: self.arena.clone(),
            root,
            source: None,
        };
        let bound = BoundRule::new(Arc::new(rule), self.values.clone(), &[]).unwrap();
        prepare_unchecked(&bound, &scope())
    }

    /// Compiles the rule with this result, and compares it with the interpreter.
    #[track_caller]
    pub(super) fn check(&self, root: ExprId) {
        check(&self.finish(root), sizes());
    }
}

pub(super) const LEN: i32 = 150;

pub(super) fn scope() -> Scope {
    let bucket = Bucket {
        q_len: 0..=1 << 20,
        kv_len: 0..=1 << 20,
        relation: Relation::Free,
        q_offset: 0..=1 << 20,
    };
    Scope::new(bucket, 2, 3)
}

pub(super) fn sizes() -> Sizes {
    Sizes {
        batch: 2,
        num_q_heads: 3,
        q_len: LEN,
        kv_len: LEN,
    }
}

/// First and count of queries, first and count of keys: odd sizes at odd places, within [`LEN`].
const TILES: [(i64, usize, i64, usize); 7] = [
    (0, 3, 0, 64),
    (5, 2, 0, 128),
    (17, 2, 3, 147),
    (149, 1, 1, 33),
    (60, 2, 80, 70),
    (7, 1, 149, 1),
    (100, 3, 9, 15),
];

#[track_caller]
pub(super) fn check(prepared: &Prepared, sizes: Sizes) {
    let compiled = Arc::new(CompiledRule::compile(prepared).unwrap());
    check_compiled(compiled, prepared, sizes, &TILES);
}

#[track_caller]
pub(super) fn check_compiled(
    compiled: Arc<CompiledRule>,
    prepared: &Prepared,
    sizes: Sizes,
    tiles: &[(i64, usize, i64, usize)],
) {
    let compiled = BoundEvaluator::new(compiled, prepared, sizes).unwrap();
    let mut law = ScalarEvaluator::new(prepared.rule(), prepared.bindings(), sizes);
    for (i, &(q0, n_q, kv0, n_kv)) in tiles.iter().enumerate() {
        let (b, h) = (i as u32 % 2, i as u32 % 3);
        let point = |row: usize, key: usize, score: f32| Point {
            b: b as i32,
            h: h as i32,
            q_idx: q0 as i32 + row as i32,
            kv_idx: kv0 as i32 + key as i32,
            score,
        };
        match prepared.rule().kind {
            RuleKind::Mask => {
                let words = n_kv.div_ceil(64) + i % 2;
                let mut bits = vec![u64::MAX; n_q * words];
                compiled.mask_tile(b, h, q0, n_q, kv0, n_kv, &mut bits, words);
                for row in 0..n_q {
                    for key in 0..words * 64 {
                        let found = bits[row * words + key / 64] >> (key % 64) & 1 == 1;
                        let point = point(row, key, f32::NAN);
                        let expected = key < n_kv && law.eval(&point).unwrap() == Const::Bool(true);
                        assert_eq!(found, expected, "{point:?}");
                    }
                }
            }
            RuleKind::Score => {
                let stride = n_kv + i;
                let before: Vec<f32> = (0..n_q * stride).map(score_at).collect();
                let mut after = before.clone();
                compiled.score_tile(b, h, q0, n_q, kv0, n_kv, &mut after, stride);
                for (at, (&before, &after)) in before.iter().zip(&after).enumerate() {
                    let (row, key) = (at / stride, at % stride);
                    let point = point(row, key, before);
                    let expected = if key < n_kv {
                        law.eval(&point).unwrap()
                    } else {
                        Const::F32(before)
                    };
                    assert!(
                        same(Const::F32(after), expected),
                        "{after:?} instead of {expected:?} at {point:?}"
                    );
                }
            }
        }
    }
}

/// Scores of many sizes, with a few that are special.
fn score_at(at: usize) -> f32 {
    match at % 37 {
        5 => f32::INFINITY,
        11 => f32::NEG_INFINITY,
        17 => f32::NAN,
        23 => -0.0,
        29 => f32::MAX,
        _ => {
            let hash = (at as u32).wrapping_mul(2_654_435_761) >> 8;
            (hash as f32 / 65536.0 - 128.0) * if at.is_multiple_of(2) { 1.0 } else { 0.01 }
        }
    }
}

/// Equal bits, or both NaN.
pub(super) fn same(a: Const, b: Const) -> bool {
    match (a, b) {
        (Const::F32(a), Const::F32(b)) => a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
        _ => a == b,
    }
}
