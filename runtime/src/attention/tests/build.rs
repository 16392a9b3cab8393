//! Rules built by hand, inputs that repeat, and the comparison with the reference.

use std::sync::Arc;

use half::{bf16, f16};
use maskwright_dsl::bind::{BoundRule, MaskRule, ScoreRule};
use maskwright_dsl::bucket::Bucket;
use maskwright_dsl::capture::{BufferData, CaptureValue, CapturedBuffer};
use maskwright_dsl::ir::{
    Arena, BinaryOp, CaptureDecl, CaptureId, CaptureKind, Const, Expr, ExprId, Extent, MathFn,
    Rule, RuleKind, Ty, UnaryOp, Var,
};
use maskwright_dsl::pipeline::Scope;

use crate::attention::{
    Attended, AttentionError, Backend, ForwardOptions, Kernel, LaunchRecord, Output, Rules,
    TensorDataMut, TensorRef, attention,
};
use crate::reference::{DenseCall, DenseOutput, dense_attention};

/// A rule under construction.
#[derive(Default)]
pub(super) struct Build {
    arena: Arena,
    captures: Vec<CaptureDecl>,
    values: Vec<CaptureValue>,
}

impl Build {
    pub(super) fn var(&mut self, var: Var) -> ExprId {
        self.arena.var(var)
    }

    pub(super) fn i32(&mut self, v: i32) -> ExprId {
        self.arena.constant(Const::I32(v))
    }

    pub(super) fn f32(&mut self, v: f32) -> ExprId {
        self.arena.constant(Const::F32(v))
    }

    pub(super) fn op(&mut self, op: BinaryOp, a: ExprId, b: ExprId) -> ExprId {
        self.arena.binary(op, a, b)
    }

    pub(super) fn math(&mut self, f: MathFn, a: ExprId) -> ExprId {
        self.arena.unary(UnaryOp::Math(f), a)
    }

    pub(super) fn select(&mut self, cond: ExprId, then: ExprId, otherwise: ExprId) -> ExprId {
        self.arena.select(cond, then, otherwise)
    }

    pub(super) fn float(&mut self, arg: ExprId) -> ExprId {
        self.arena.known(&Expr::Cast { to: Ty::F32, arg })
    }

    pub(super) fn scalar(&mut self, v: i32) -> ExprId {
        let slot = self.capture(
            CaptureKind::Scalar(Ty::I32),
            CaptureValue::Scalar(Const::I32(v)),
        );
        self.arena
            .intern(Expr::Scalar(slot), Some(Ty::I32), None)
            .unwrap()
    }

    pub(super) fn list(&mut self, data: BufferData) -> CaptureId {
        let n = data.len();
        let kind = CaptureKind::Buffer {
            elem: data.elem(),
            extents: vec![Extent::Unspecified],
        };
        let buffer = CapturedBuffer::new(data, vec![n]).unwrap();
        self.capture(kind, CaptureValue::Buffer(buffer))
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

    pub(super) fn load(&mut self, buffer: CaptureId, index: ExprId) -> ExprId {
        let ty = self.captures[buffer.index()].value_ty();
        let index = [index].into();
        self.arena
            .intern(Expr::Load { buffer, index }, Some(ty), None)
            .unwrap()
    }

    fn finish(self, name: &str, root: ExprId) -> BoundRule {
        let kind = if self.arena.ty(root) == Ty::Bool {
            RuleKind::Mask
        } else {
            RuleKind::Score
        };
        let rule = Rule {
            name: name.to_owned(),
            doc: String::new(),
            kind,
            captures: self.captures,
            dims: Vec::new(),
            arena: self.arena,
            root,
            source: None,
        };
        BoundRule::new(Arc::new(rule), self.values, &[]).unwrap()
    }

    pub(super) fn mask(self, name: &str, root: ExprId) -> MaskRule {
        MaskRule::new(self.finish(name, root)).unwrap()
    }

    pub(super) fn score(self, name: &str, root: ExprId) -> ScoreRule {
        ScoreRule::new(self.finish(name, root)).unwrap()
    }
}

/// `kv <= q`.
pub(super) fn causal() -> MaskRule {
    let mut rule = Build::default();
    let (q, kv) = (rule.var(Var::QIdx), rule.var(Var::KvIdx));
    let root = rule.op(BinaryOp::Le, kv, q);
    rule.mask("causal", root)
}

/// `q - kv < w`, with `w` captured.
pub(super) fn near(w: i32) -> MaskRule {
    let mut rule = Build::default();
    let (q, kv, w) = (rule.var(Var::QIdx), rule.var(Var::KvIdx), rule.scalar(w));
    let distance = rule.op(BinaryOp::Sub, q, kv);
    let root = rule.op(BinaryOp::Lt, distance, w);
    rule.mask("near", root)
}

/// `doc[q] == doc[kv]`.
pub(super) fn same_document(doc: impl Iterator<Item = i32>) -> MaskRule {
    let mut rule = Build::default();
    let doc = rule.list(BufferData::I32(doc.collect()));
    let (q, kv) = (rule.var(Var::QIdx), rule.var(Var::KvIdx));
    let (mine, theirs) = (rule.load(doc, q), rule.load(doc, kv));
    let root = rule.op(BinaryOp::Eq, mine, theirs);
    rule.mask("same_document", root)
}

/// `(q + 3 * kv + 5 * b + 7 * h) % 4 != 0`: another mask for every batch entry and head.
pub(super) fn scattered() -> MaskRule {
    let mut rule = Build::default();
    let mut sum = rule.var(Var::QIdx);
    for (var, factor) in [(Var::KvIdx, 3), (Var::B, 5), (Var::H, 7)] {
        let (index, factor) = (rule.var(var), rule.i32(factor));
        let term = rule.op(BinaryOp::Mul, index, factor);
        sum = rule.op(BinaryOp::Add, sum, term);
    }
    let (four, zero) = (rule.i32(4), rule.i32(0));
    let rest = rule.op(BinaryOp::Rem, sum, four);
    let root = rule.op(BinaryOp::Ne, rest, zero);
    rule.mask("scattered", root)
}

/// `kv < kv_len - n`: reads a length.
pub(super) fn not_the_last(n: i32) -> MaskRule {
    let mut rule = Build::default();
    let (kv, len, n) = (rule.var(Var::KvIdx), rule.var(Var::KvLen), rule.i32(n));
    let end = rule.op(BinaryOp::Sub, len, n);
    let root = rule.op(BinaryOp::Lt, kv, end);
    rule.mask("not_the_last", root)
}

/// `score + slope[h] * (kv - q)`.
pub(super) fn alibi(heads: i32) -> ScoreRule {
    let mut rule = Build::default();
    let slopes = (1..=heads).map(|h| (-h as f32 * 8.0 / heads as f32).exp2());
    let slope = rule.list(BufferData::F32(slopes.collect()));
    let (q, kv, h) = (rule.var(Var::QIdx), rule.var(Var::KvIdx), rule.var(Var::H));
    let (score, slope) = (rule.var(Var::Score), rule.load(slope, h));
    let distance = rule.op(BinaryOp::Sub, kv, q);
    let distance = rule.float(distance);
    let bias = rule.op(BinaryOp::Mul, slope, distance);
    let root = rule.op(BinaryOp::Add, score, bias);
    rule.score("alibi", root)
}

/// `cap * tanh(score / cap)`.
pub(super) fn softcap(cap: f32) -> ScoreRule {
    let mut rule = Build::default();
    let (score, cap) = (rule.var(Var::Score), rule.f32(cap));
    let ratio = rule.op(BinaryOp::Div, score, cap);
    let bounded = rule.math(MathFn::Tanh, ratio);
    let root = rule.op(BinaryOp::Mul, cap, bounded);
    rule.score("softcap", root)
}

/// Values in -1..1 that depend on the seed alone.
pub(super) fn values(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(next).take(n).collect()
}

/// q, k and v of one shape.
#[derive(Clone)]
pub(super) struct Inputs {
    pub(super) q: Vec<f32>,
    pub(super) k: Vec<f32>,
    pub(super) v: Vec<f32>,
    pub(super) dims: Dims,
}

#[derive(Clone, Copy)]
pub(super) struct Dims {
    pub(super) batch: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) q_len: usize,
    pub(super) kv_len: usize,
    pub(super) d_qk: usize,
    pub(super) d_v: usize,
}

impl Dims {
    pub(super) fn new(batch: usize, heads: usize, q_len: usize, kv_len: usize) -> Self {
        Self {
            batch,
            heads,
            kv_heads: heads,
            q_len,
            kv_len,
            d_qk: 16,
            d_v: 16,
        }
    }

    pub(super) fn q(&self) -> [usize; 4] {
        [self.batch, self.heads, self.q_len, self.d_qk]
    }

    pub(super) fn k(&self) -> [usize; 4] {
        [self.batch, self.kv_heads, self.kv_len, self.d_qk]
    }

    pub(super) fn v(&self) -> [usize; 4] {
        [self.batch, self.kv_heads, self.kv_len, self.d_v]
    }

    pub(super) fn inputs(self) -> Inputs {
        let n = |shape: [usize; 4]| shape.iter().product();
        Inputs {
            q: values(n(self.q()), 1),
            k: values(n(self.k()), 2),
            v: values(n(self.v()), 3),
            dims: self,
        }
    }

    pub(super) fn scope(&self, bucket: Bucket) -> Scope {
        Scope::new(bucket, self.batch as u32, self.heads as u32)
    }
}

impl Inputs {
    pub(super) fn views(&self) -> [TensorRef<'_>; 3] {
        [
            TensorRef::contiguous(&self.q, self.dims.q()).unwrap(),
            TensorRef::contiguous(&self.k, self.dims.k()).unwrap(),
            TensorRef::contiguous(&self.v, self.dims.v()).unwrap(),
        ]
    }

    pub(super) fn attention(&self, rules: &Rules, options: &ForwardOptions<'_>) -> Attended {
        let [q, k, v] = self.views();
        attention(q, k, v, rules, options).unwrap()
    }

    pub(super) fn reference(&self, rules: &Rules, options: &ForwardOptions<'_>) -> DenseOutput {
        reference(self.views(), rules, options)
    }

    /// Runs a kernel; gives out, lse, row max and the record.
    pub(super) fn forward(&self, kernel: &Kernel, options: &ForwardOptions<'_>) -> Forward {
        self.try_forward(kernel, options).unwrap()
    }

    pub(super) fn try_forward(
        &self,
        kernel: &Kernel,
        options: &ForwardOptions<'_>,
    ) -> Result<Forward, AttentionError> {
        let [q, k, v] = self.views();
        let rows = self.dims.batch * self.dims.heads * self.dims.q_len;
        let mut out = vec![f32::NAN; rows * self.dims.d_v];
        let (mut lse, mut row_max) = (vec![f32::NAN; rows], vec![f32::NAN; rows]);
        let output = Output {
            out: TensorDataMut::F32(&mut out),
            lse: Some(&mut lse),
            row_max: Some(&mut row_max),
        };
        let record = kernel.forward(q, k, v, options, output)?;
        Ok(Forward {
            out,
            lse,
            row_max,
            record,
        })
    }

    /// Compares the compiled kernel, the interpreted one and the reference backend with the reference.
    #[track_caller]
    pub(super) fn check(&self, rules: &Rules, options: &ForwardOptions<'_>) -> LaunchRecord {
        let expected = self.reference(rules, options);
        let done = self.attention(rules, options);
        agree(
            &done.out.to_f32_vec(),
            &done.lse,
            &done.row_max,
            &expected,
            F32,
        );
        let dims = &self.dims;
        let bucket = Bucket::single(dims.q_len as u64, dims.kv_len as u64, options.q_offset);
        if options.block_mask.is_none() {
            let kernel = Kernel::interpret(rules, &dims.scope(bucket)).unwrap();
            let ran = self.forward(&kernel, options);
            agree(&ran.out, &ran.lse, &ran.row_max, &expected, F32);
        }
        let asked = ForwardOptions {
            backend: Backend::Reference,
            ..*options
        };
        let dense = self.attention(rules, &asked);
        assert_eq!(dense.record.backend, Backend::Reference);
        agree(
            &dense.out.to_f32_vec(),
            &dense.lse,
            &dense.row_max,
            &expected,
            F32,
        );
        done.record
    }
}

pub(super) struct Forward {
    pub(super) out: Vec<f32>,
    pub(super) lse: Vec<f32>,
    pub(super) row_max: Vec<f32>,
    pub(super) record: LaunchRecord,
}

impl Forward {
    /// The bits of all results.
    pub(super) fn bits(&self) -> Vec<u32> {
        let all = self.out.iter().chain(&self.lse).chain(&self.row_max);
        all.map(|x| x.to_bits()).collect()
    }
}

pub(super) fn reference(
    [q, k, v]: [TensorRef<'_>; 3],
    rules: &Rules,
    options: &ForwardOptions<'_>,
) -> DenseOutput {
    dense_attention(&DenseCall {
        sm_scale: options.sm_scale,
        q_offset: options.q_offset,
        block_mask: options.block_mask,
        ..DenseCall::new(q, k, v, rules)
    })
    .unwrap()
}

/// `f32` sums of a few hundred terms below 1 in magnitude.
pub(super) const F32: f64 = 2e-5;
/// Half a unit in the last place of `f16` below 2, beside what `f32` loses.
pub(super) const F16: f64 = 6e-4;
/// Half a unit in the last place of `bf16` below 2, beside what `f32` loses.
pub(super) const BF16: f64 = 5e-3;

/// Compares results with the reference; a NaN or an infinity on one side alone is a difference.
#[track_caller]
pub(super) fn agree(
    out: &[f32],
    lse: &[f32],
    row_max: &[f32],
    expected: &DenseOutput,
    out_tolerance: f64,
) {
    for (name, found, expected, tolerance) in [
        ("out", out, &expected.out, out_tolerance),
        ("lse", lse, &expected.lse, F32),
        ("row_max", row_max, &expected.row_max, F32),
    ] {
        assert_eq!(found.len(), expected.len(), "{name}");
        for (at, (&found, &expected)) in found.iter().zip(expected).enumerate() {
            assert!(
                close(f64::from(found), expected, tolerance),
                "{name}[{at}] is {found}, expected {expected}"
            );
        }
    }
}

pub(super) fn close(found: f64, expected: f64, tolerance: f64) -> bool {
    if found.is_nan() || expected.is_nan() {
        return found.is_nan() && expected.is_nan();
    }
    if found.is_infinite() || expected.is_infinite() {
        return found == expected;
    }
    (found - expected).abs() <= tolerance * expected.abs().max(1.0)
}

pub(super) fn halves(data: &[f32]) -> Vec<f16> {
    data.iter().map(|x| f16::from_f32(*x)).collect()
}

pub(super) fn brains(data: &[f32]) -> Vec<bf16> {
    data.iter().map(|x| bf16::from_f32(*x)).collect()
}
