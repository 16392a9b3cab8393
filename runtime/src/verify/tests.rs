//! Rules built by hand, verified and found out.

use std::sync::Arc;

use maskwright_dsl::bind::{BoundRule, MaskRule, Reference, ScoreRule};
use maskwright_dsl::block_mask::{
    BlockClass, BlockMask, BlockSize, Exactness, Geometry, PlaneBuilder,
};
use maskwright_dsl::bucket::Bucket;
use maskwright_dsl::capture::{BufferData, CaptureValue, CapturedBuffer};
use maskwright_dsl::dense::{DenseShape, summarize};
use maskwright_dsl::eval::{Point, ScalarEvaluator, Sizes};
use maskwright_dsl::ir::{
    Arena, BinaryOp, CaptureDecl, CaptureId, CaptureKind, Const, Expr, ExprId, Extent, MathFn,
    Rule, RuleKind, Ty, UnaryOp, Var,
};
use maskwright_dsl::pipeline::{Prepared, Scope};

use super::attention::{
    AttentionCase, AttentionCheck, AttentionFailure, AttentionResult, HEAD_DIM, Tolerance,
};
use super::*;

/// A rule under construction, with its captured values.
#[derive(Default)]
pub(crate) struct Build {
    pub(crate) arena: Arena,
    captures: Vec<CaptureDecl>,
    values: Vec<CaptureValue>,
}

impl Build {
    pub(crate) fn q(&mut self) -> ExprId {
        self.arena.var(Var::QIdx)
    }

    pub(crate) fn kv(&mut self) -> ExprId {
        self.arena.var(Var::KvIdx)
    }

    pub(crate) fn int(&mut self, value: i32) -> ExprId {
        self.arena.constant(Const::I32(value))
    }

    pub(crate) fn op(&mut self, op: BinaryOp, a: ExprId, b: ExprId) -> ExprId {
        self.arena.binary(op, a, b)
    }

    fn capture(
        &mut self,
        name: &str,
        kind: CaptureKind,
        value: CaptureValue,
        range: Option<(i32, i32)>,
    ) -> CaptureId {
        let slot = CaptureId(self.captures.len() as u32);
        let mut bound = |value| self.arena.constant(Const::I32(value));
        self.captures.push(CaptureDecl {
            name: name.to_owned(),
            kind,
            min: range.map(|range| bound(range.0)),
            max: range.map(|range| bound(range.1)),
            span: None,
        });
        self.values.push(value);
        slot
    }

    /// A captured scalar with a declared range.
    pub(crate) fn scalar(&mut self, name: &str, value: i32, range: (i32, i32)) -> ExprId {
        let value = CaptureValue::Scalar(Const::I32(value));
        let slot = self.capture(name, CaptureKind::Scalar(Ty::I32), value, Some(range));
        self.arena
            .intern(Expr::Scalar(slot), Some(Ty::I32), None)
            .unwrap()
    }

    pub(crate) fn list(&mut self, name: &str, data: BufferData) -> CaptureId {
        let (elem, len) = (data.elem(), data.len());
        let buffer = CapturedBuffer::new(data, vec![len]).unwrap();
        let kind = CaptureKind::Buffer {
            elem,
            extents: vec![Extent::Unspecified],
        };
        self.capture(name, kind, CaptureValue::Buffer(buffer), None)
    }

    pub(crate) fn load(&mut self, buffer: CaptureId, index: ExprId) -> ExprId {
        let ty = self.captures[buffer.index()].value_ty();
        let index = [index].as_slice().into();
        self.arena
            .intern(Expr::Load { buffer, index }, Some(ty), None)
            .unwrap()
    }

    pub(crate) fn finish(self, name: &str, root: ExprId) -> BoundRule {
        let kind = match self.arena.ty(root) {
            Ty::Bool => RuleKind::Mask,
            Ty::I32 | Ty::I64 | Ty::U32 | Ty::F32 => RuleKind::Score,
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
}

pub(crate) fn scope(bucket: &str, batch: u32, num_q_heads: u32) -> Scope {
    Scope::new(bucket.parse().unwrap(), batch, num_q_heads)
}

/// `kv <= q`.
pub(crate) fn causal_bound() -> BoundRule {
    let mut build = Build::default();
    let (q, kv) = (build.q(), build.kv());
    let root = build.op(BinaryOp::Le, kv, q);
    build.finish("causal", root)
}

pub(crate) fn causal() -> MaskRule {
    MaskRule::new(causal_bound()).unwrap()
}

/// `kv <= q && q - kv < window && doc[q] == doc[kv]`, documents of 700 tokens.
pub(crate) fn packed_window(len: usize, window: i32) -> MaskRule {
    let docs: Vec<i32> = (0..len).map(|at| (at / 700) as i32).collect();
    packed_window_of(&docs, window)
}

pub(crate) fn packed_window_of(docs: &[i32], window: i32) -> MaskRule {
    let mut build = Build::default();
    let (q, kv) = (build.q(), build.kv());
    let window = build.scalar("window", window, (1, 1 << 16));
    let doc = build.list("doc", BufferData::I32(docs.into()));
    let causal = build.op(BinaryOp::Le, kv, q);
    let distance = build.op(BinaryOp::Sub, q, kv);
    let near = build.op(BinaryOp::Lt, distance, window);
    let (of_q, of_kv) = (build.load(doc, q), build.load(doc, kv));
    let same = build.op(BinaryOp::Eq, of_q, of_kv);
    let near = build.op(BinaryOp::And, causal, near);
    let root = build.op(BinaryOp::And, near, same);
    MaskRule::new(build.finish("packed_window", root)).unwrap()
}

/// `kv_len - kv <= h * 40 + b`: reads a length, the head and the batch entry.
pub(crate) fn last_keys() -> MaskRule {
    let mut build = Build::default();
    let kv = build.kv();
    let len = build.arena.var(Var::KvLen);
    let left = build.op(BinaryOp::Sub, len, kv);
    let (h, b) = (build.arena.var(Var::H), build.arena.var(Var::B));
    let forty = build.int(40);
    let reach = build.op(BinaryOp::Mul, h, forty);
    let reach = build.op(BinaryOp::Add, reach, b);
    let root = build.op(BinaryOp::Le, left, reach);
    MaskRule::new(build.finish("last_keys", root)).unwrap()
}

/// `tanh(score / 20) * 20 + slope[h] * (kv - q)`.
pub(crate) fn soft_alibi(slopes: &[f32]) -> ScoreRule {
    let mut build = Build::default();
    let (q, kv) = (build.q(), build.kv());
    let score = build.arena.var(Var::Score);
    let twenty = build.arena.constant(Const::F32(20.0));
    let soft = build.op(BinaryOp::Div, score, twenty);
    let soft = build.arena.unary(UnaryOp::Math(MathFn::Tanh), soft);
    let soft = build.op(BinaryOp::Mul, soft, twenty);
    let slope = build.list("slope", BufferData::F32(slopes.into()));
    let h = build.arena.var(Var::H);
    let slope = build.load(slope, h);
    let distance = build.op(BinaryOp::Sub, kv, q);
    let distance = build.arena.known(&Expr::Cast {
        to: Ty::F32,
        arg: distance,
    });
    let bias = build.op(BinaryOp::Mul, slope, distance);
    let root = build.op(BinaryOp::Add, soft, bias);
    ScoreRule::new(build.finish("soft_alibi", root)).unwrap()
}

fn check_names(certificate: &Certificate) -> Vec<&str> {
    certificate
        .checks
        .iter()
        .map(|check| check.what.as_str())
        .collect()
}

#[test]
fn one_call_is_verified_at_every_cell() {
    let rule = packed_window(900, 300);
    let scope = scope("900", 2, 3);
    let mut request = VerifyRequest::of_mask(&rule, scope);
    request.blocks = [(128, 128), (48, 96), (200, 33)]
        .map(|(q, kv)| BlockSize { q, kv })
        .to_vec();
    request.want_packbits = true;
    let verified = verify(&request).unwrap();
    let (report, certificate) = (verified.report(), verified.certificate());

    let sizes = Sizes {
        batch: 2,
        num_q_heads: 3,
        q_len: 900,
        kv_len: 900,
    };
    let shape = DenseShape {
        batches: 0..2,
        heads: 0..3,
        q_offset: 0,
        q_len: 900,
        kv_len: 900,
    };
    let bound = rule.bound();
    let dense = summarize(bound.rule(), bound.bindings(), sizes, &shape).unwrap();
    assert_eq!(report.allowed, Some(dense.allowed));
    assert_eq!(
        report.rows_without_any_key,
        Some(dense.rows_without_any_key)
    );
    assert_eq!(report.packbits_sha256, Some(hex(&dense.packbits_sha256)));
    assert!(report.exhaustive && certificate.exhaustive);
    assert_eq!(certificate.cells_checked, 6 * 900 * 900);
    assert_eq!(report.blocks.len(), 3);
    let blocks = &report.blocks[0];
    assert_eq!(blocks.full + blocks.partial + blocks.empty, 6 * 64);
    assert_eq!(
        blocks.class_sha256,
        hex(&verified.masks()[0].class_sha256())
    );
    assert_eq!(
        certificate.preconditions,
        [
            "packed_window: window is in 1..=65536",
            "packed_window: doc has at least 900 elements along axis 0",
        ]
    );
    assert!(check_names(certificate).contains(&"compiled mask bits against the interpreter"));
    assert!(
        certificate
            .to_string()
            .contains("exhaustive: 4860000 cells at 1 call")
    );
}

#[test]
fn heads_and_batch_entries_that_differ_are_hashed_in_order() {
    let rule = last_keys();
    let mut request = VerifyRequest::of_mask(&rule, scope("q=70,kv=150", 3, 4));
    request.want_packbits = true;
    let verified = verify(&request).unwrap();
    let sizes = Sizes {
        batch: 3,
        num_q_heads: 4,
        q_len: 70,
        kv_len: 150,
    };
    let shape = DenseShape {
        batches: 0..3,
        heads: 0..4,
        q_offset: 0,
        q_len: 70,
        kv_len: 150,
    };
    let bound = rule.bound();
    let dense = summarize(bound.rule(), bound.bindings(), sizes, &shape).unwrap();
    assert_eq!(
        verified.report().packbits_sha256,
        Some(hex(&dense.packbits_sha256))
    );
    assert_eq!(
        verified.report().rows_without_any_key,
        Some(dense.rows_without_any_key)
    );
}

#[test]
fn buckets_of_every_kind_are_verified() {
    let window = packed_window(700, 50);
    for bucket in [
        "1..=700",
        "0..=40",
        "q=0..=300,kv=0..=300,offset=0..=20",
        "q=1,kv=1..=650,relation=q<=kv,offset=0..=49",
        "q=5..=200,kv=3..=600",
    ] {
        for rule in [&window, &last_keys(), &MaskRule::constant(true)] {
            let verified = verify(&VerifyRequest::of_mask(rule, scope(bucket, 1, 2)));
            let verified = verified.unwrap_or_else(|error| panic!("{bucket}: {error}"));
            let shapes = &verified.certificate().shapes;
            assert!(20 < shapes.len(), "{bucket}: {}", shapes.len());
            let bucket: Bucket = verified.certificate().bucket.parse().unwrap();
            let contained = |s: &CheckedShape| bucket.contains(s.q_len, s.kv_len, s.q_offset);
            assert!(shapes.iter().all(contained));
        }
    }
}

/// The author's function of `kv <= q`, which lies at one cell.
fn lies_at(q_idx: i32, kv_idx: i32) -> Reference {
    Arc::new(move |point: &Point, _: &Sizes| {
        let lie = (point.q_idx, point.kv_idx) == (q_idx, kv_idx);
        Const::Bool((point.kv_idx <= point.q_idx) ^ lie)
    })
}

#[test]
fn an_author_who_disagrees_is_told_the_cell() {
    let bound = causal_bound().with_reference(lies_at(70, 71));
    let rule = MaskRule::new(bound).unwrap();
    let error = verify(&VerifyRequest::of_mask(&rule, scope("1..=100", 1, 1))).unwrap_err();
    let VerifyError::Mismatch(report) = error else {
        panic!("{error}");
    };
    assert_eq!(report.first_cell(), Some((0, 0, 70, 71)));
    let Finding::Cells(cells) = &report.finding else {
        panic!("{report}");
    };
    assert_eq!(cells.len(), 1);
    assert_eq!(cells[0].expected, CellValue::Attend(true));
    assert_eq!(cells[0].found, CellValue::Attend(false));
    // The smallest call that has the cell.
    assert_eq!((report.shape.q_len, report.shape.kv_len), (72, 72));
    assert_eq!(report.what, "the interpreter against the author's function");
    let drawing = report.draw();
    assert!(
        drawing.contains(&format!("70  {}#  {}.\n", "#".repeat(31), "#".repeat(31))),
        "{drawing}"
    );
    assert!(drawing.contains('^'));
    assert!(
        report
            .to_string()
            .contains("(b=0, h=0, q=70, kv=71): expected true, found false")
    );
}

#[test]
fn an_author_who_agrees_is_the_law_of_every_plane() {
    let law: Reference =
        Arc::new(|point: &Point, _: &Sizes| Const::Bool(point.kv_idx <= point.q_idx));
    let rule = MaskRule::new(causal_bound().with_reference(law)).unwrap();
    let verified = verify(&VerifyRequest::of_mask(&rule, scope("40", 2, 2))).unwrap();
    let names = check_names(verified.certificate());
    assert!(names.contains(&"compiled mask bits against the author's function"));
    assert!(names.contains(&"the interpreter against the author's function"));
    assert!(verified.certificate().mask.as_ref().unwrap().author);

    // One who looks at the head, which the rule does not.
    let law: Reference = Arc::new(|point: &Point, _: &Sizes| {
        Const::Bool(point.kv_idx <= point.q_idx && (point.b, point.h) != (1, 1))
    });
    let rule = MaskRule::new(causal_bound().with_reference(law)).unwrap();
    let error = verify(&VerifyRequest::of_mask(&rule, scope("40", 2, 2))).unwrap_err();
    let VerifyError::Mismatch(report) = error else {
        panic!("{error}");
    };
    assert_eq!(report.first_cell(), Some((1, 1, 0, 0)));
}

#[test]
fn an_author_who_panics_is_told_where() {
    let law: Reference = Arc::new(|point: &Point, _: &Sizes| {
        assert!((point.q_idx, point.kv_idx) != (3, 2), "no such document");
        Const::Bool(point.kv_idx <= point.q_idx)
    });
    let rule = MaskRule::new(causal_bound().with_reference(law)).unwrap();
    let error = verify(&VerifyRequest::of_mask(&rule, scope("5", 1, 1))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the author's function of rule causal panics at [B=1, H=1, q=5, kv=5], cell (b=0, h=0, q=3, kv=2): no such document"
    );
}

/// Verifies, without time for every cell of a large call, with the class of one block replaced.
fn with_class(rule: &MaskRule, scope: &Scope, at: (u32, u32), class: BlockClass) -> VerifyError {
    let request = VerifyRequest {
        blocks: vec![BlockSize { q: 32, kv: 32 }],
        budget_secs: 0.0,
        ..VerifyRequest::of_mask(rule, scope.clone())
    };
    let build: run::BuildMask<'_> = &|prepared, block, evaluator| {
        let mask = run::build_mask(prepared, block, evaluator)?;
        let geometry: &Geometry = mask.geometry();
        let mut builder = PlaneBuilder::new(mask.rows(), mask.cols());
        for row in 0..mask.rows() {
            for col in 0..mask.cols() {
                let class = if (row, col) == at {
                    class
                } else {
                    mask.class(0, 0, row, col)
                };
                builder.push(row, col, 1, class);
            }
        }
        BlockMask::from_planes(
            geometry.clone(),
            1,
            1,
            vec![builder.finish()],
            Exactness::Exact,
        )
    };
    run::verify_with(&request, build).unwrap_err()
}

#[test]
fn a_wrong_class_is_caught() {
    let rule = causal();
    for bucket in ["100", "1..=100", "3000"] {
        for (at, class, actual, witness) in [
            ((1, 0), BlockClass::Empty, BlockClass::Full, (32, 0)),
            ((1, 0), BlockClass::Partial, BlockClass::Full, (32, 0)),
            ((0, 2), BlockClass::Full, BlockClass::Empty, (0, 64)),
            ((0, 2), BlockClass::Partial, BlockClass::Empty, (0, 64)),
            ((1, 1), BlockClass::Full, BlockClass::Partial, (32, 33)),
            ((1, 1), BlockClass::Empty, BlockClass::Partial, (32, 32)),
        ] {
            let error = with_class(&rule, &scope(bucket, 1, 1), at, class);
            let VerifyError::Mismatch(report) = error else {
                panic!("{error}");
            };
            let Finding::Block { block, wrong } = &report.finding else {
                panic!("{report}");
            };
            assert_eq!(*block, BlockSize { q: 32, kv: 32 });
            assert_eq!(((wrong.row, wrong.col), wrong.claimed), (at, class));
            // A sample comes upon another cell.
            if bucket != "3000" {
                assert_eq!(wrong.witness, witness);
            }
            // A shorter call may hold less of the block.
            if bucket != "1..=100" || class == BlockClass::Partial {
                assert_eq!(wrong.actual, actual);
            }
            assert!(!report.draw().is_empty());
        }
    }
}

#[test]
fn a_large_call_without_time_is_sampled_and_says_so() {
    let rule = packed_window(3000, 900);
    let request = VerifyRequest {
        budget_secs: 0.0,
        ..VerifyRequest::of_mask(&rule, scope("3000", 1, 2))
    };
    let verified = verify(&request).unwrap();
    let certificate = verified.certificate();
    assert!(certificate.is_sampled() && !certificate.exhaustive);
    let check = &certificate.checks[1];
    assert_eq!(check.what, "compiled mask bits against the interpreter");
    assert!(!check.exhaustive && 100_000 < check.sampled_cells);
    assert!(check.sampled_cells < 3000 * 3000);
    assert_eq!(verified.report().allowed, None);
    assert!(
        certificate
            .notes
            .iter()
            .any(|note| note.contains("was sampled"))
    );
    // All partial blocks of the plane are looked into.
    let partial = verified.masks()[0]
        .distinct_planes()
        .next()
        .unwrap()
        .runs()
        .iter();
    let partial: u32 = partial
        .filter(|run| !run.is_full())
        .map(|run| run.count())
        .sum();
    assert_eq!(certificate.checks[2].blocks, u64::from(partial));
    let again = verify(&request).unwrap();
    assert_eq!(certificate.checks, again.certificate().checks);
    assert_eq!(certificate.shapes, again.certificate().shapes);

    // A wrong class and a wrong cell at a block edge are caught by the sample too.
    let bound = packed_window(3000, 900).bound().clone();
    let law = {
        let bound = bound.clone();
        move |point: &Point, sizes: &Sizes| {
            let value = ScalarEvaluator::new(bound.rule(), bound.bindings(), *sizes).eval(point);
            let lie = (point.q_idx, point.kv_idx) == (1408, 77);
            Const::Bool((value == Ok(Const::Bool(true))) ^ lie)
        }
    };
    let rule = MaskRule::new(bound.with_reference(Arc::new(law))).unwrap();
    let error = verify(&VerifyRequest {
        budget_secs: 0.0,
        ..VerifyRequest::of_mask(&rule, scope("3000", 1, 1))
    });
    let VerifyError::Mismatch(report) = error.unwrap_err() else {
        panic!("a mismatch");
    };
    assert_eq!(report.first_cell(), Some((0, 0, 1408, 77)));
}

#[test]
fn scores_are_verified_to_the_bit() {
    let rule = soft_alibi(&[0.5, 0.25, 0.125]);
    let verified = verify(&VerifyRequest::of_score(&rule, scope("1..=600", 1, 3))).unwrap();
    let names = check_names(verified.certificate());
    assert_eq!(
        names,
        [
            "compiled scores against the interpreter, to the bit",
            "compiled rule soft_alibi against the interpreter, with generated captured values",
            "attention on the CPU in f32: output, lse and row max against dense attention in float64",
        ]
    );
    assert_eq!(verified.masks().len(), 0);

    let law: Reference = Arc::new(|point: &Point, _: &Sizes| Const::F32(point.score));
    let bound = rule.bound().clone().with_reference(law);
    let rule = ScoreRule::new(bound).unwrap();
    let error = verify(&VerifyRequest::of_score(&rule, scope("1..=600", 1, 3))).unwrap_err();
    let VerifyError::Mismatch(report) = error else {
        panic!("{error}");
    };
    assert_eq!(report.what, "compiled scores against the author's function");
}

#[test]
fn a_derived_mask_must_leave_out_infinite_scores_only() {
    let mut build = Build::default();
    let (q, kv) = (build.q(), build.kv());
    let cond = build.op(BinaryOp::Le, kv, q);
    let score = build.arena.var(Var::Score);
    let never = build.arena.constant(Const::F32(f32::NEG_INFINITY));
    let root = build.arena.select(cond, score, never);
    let bound = build.finish("causal_score", root);
    let prepared = maskwright_dsl::pipeline::prepare(&bound, &scope("50", 1, 1)).unwrap();
    let compiled = Arc::new(crate::jit::CompiledRule::compile(&prepared).unwrap());
    let member = prepared.scope().bucket.ends()[0];
    let check = |derived: &Arc<Rule>| {
        let under_test = scores::ScoreUnderTest {
            prepared: &prepared,
            compiled: &compiled,
            derived: Some(derived),
            generated_captures: false,
        };
        scores::check_scores(&under_test, member, scores::WHOLE_SCORES, 1)
    };
    check(causal().bound().rule()).unwrap();
    check(prepared.derived_mask().unwrap()).unwrap();
    let score = ScoreRule::new(bound).unwrap();
    let verified = verify(&VerifyRequest::of_score(&score, scope("1..=50", 1, 1))).unwrap();
    assert_eq!(verified.masks().len(), 1);
    assert_eq!(verified.report().allowed, Some(50 * 51 / 2));
    assert!(verified.mask().is_some() && verified.certificate().mask.is_none());
    let error = check(MaskRule::constant(false).bound().rule()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("outside the mask that was derived"),
        "{error}"
    );
}

#[test]
fn generated_values_keep_ranges_and_shapes() {
    use super::captured::{Generation, generated};
    let rule = packed_window(300, 7);
    let prepared =
        maskwright_dsl::pipeline::prepare(rule.bound(), &scope("1..=300", 1, 1)).unwrap();
    let mut random = random::Random::new(0, 0);
    let mut windows = Vec::new();
    for how in Generation::ALL {
        let other: Prepared = generated(&prepared, how, &mut random).unwrap();
        let Some(Const::I32(window)) = Some(other.bindings().scalar(CaptureId(0))) else {
            panic!("a scalar");
        };
        windows.push(window);
        let doc = other.bindings().buffer(CaptureId(1));
        assert_eq!(doc.shape(), [300]);
        assert_eq!(doc.int_range(), Some((0, 0)));
    }
    assert_eq!(windows[..3], [7, 1, 1 << 16]);
}

#[test]
fn nothing_to_verify_and_sizes_beyond_the_language_are_errors() {
    let error = verify(&VerifyRequest::new(None, None, scope("1", 1, 1))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "expected a mask or a score_mod to verify, found neither"
    );
    let rule = causal();
    let error = verify(&VerifyRequest::of_mask(
        &rule,
        scope("1..=3000000000", 1, 1),
    ))
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "expected q_len of at most 2147483647, found 3000000000"
    );
}

#[test]
fn odd_requests_are_served() {
    let rule = causal();
    for (budget_secs, blocks) in [(f64::NAN, 2), (f64::INFINITY, 1), (-1.0, 0)] {
        let request = VerifyRequest {
            budget_secs,
            blocks: vec![BlockSize::default(); blocks],
            ..VerifyRequest::of_mask(&rule, scope("0..=3", 1, 1))
        };
        let verified = verify(&request).unwrap();
        assert_eq!(verified.masks().len(), blocks.min(1));
        let json = serde_json::to_string(verified.certificate()).unwrap();
        assert!(serde_json::from_str::<Certificate>(&json).is_ok());
    }
    let error = verify(&VerifyRequest {
        blocks: vec![BlockSize { q: 0, kv: 1 }],
        ..VerifyRequest::of_mask(&rule, scope("3", 1, 1))
    });
    assert!(matches!(error, Err(VerifyError::BlockMask(_))));
    let error = verify(&VerifyRequest::of_mask(&rule, scope("3", 0, 1)));
    assert!(matches!(error, Err(VerifyError::BlockMask(_))));
}

#[test]
fn a_certificate_is_read_back_from_json() {
    let rule = causal();
    let verified = verify(&VerifyRequest::of_mask(&rule, scope("1..=70", 1, 2))).unwrap();
    let json = serde_json::to_string(verified.certificate()).unwrap();
    assert_eq!(
        serde_json::from_str::<Certificate>(&json).unwrap(),
        *verified.certificate()
    );
    let note = "rule causal captures nothing, so no captured values were generated";
    assert_eq!(verified.certificate().notes, [note]);
}

/// Dense attention that sees every key, in float64.
fn dense(case: &AttentionCase<'_>) -> AttentionResult<f64> {
    let (q_len, kv_len) = (case.member.q_len as usize, case.member.kv_len as usize);
    let mut result = AttentionResult::default();
    for plane in 0..case.batch * case.num_q_heads {
        for row in 0..q_len {
            let d = case.head_dim;
            let q = &case.q[(plane * q_len + row) * d..][..d];
            let dot = |k: &[f32]| {
                q.iter()
                    .zip(k)
                    .map(|(a, b)| f64::from(*a) * f64::from(*b))
                    .sum::<f64>()
            };
            let keys = case.k[plane * kv_len * d..][..kv_len * d].chunks(d);
            let scores: Vec<f64> = keys.map(|k| dot(k) * f64::from(case.sm_scale)).collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = scores.iter().map(|score| (score - max).exp()).sum();
            for at in 0..d {
                let v = |key: usize| f64::from(case.v[(plane * kv_len + key) * d + at]);
                let out: f64 = (0..kv_len)
                    .map(|key| (scores[key] - max).exp() / sum * v(key))
                    .sum();
                result.out.push(if kv_len == 0 { 0.0 } else { out });
            }
            result
                .lse
                .push(if kv_len == 0 { max } else { max + sum.ln() });
            result.row_max.push(max);
        }
    }
    result
}

type Run<'a> =
    &'a (dyn Fn(&AttentionCase<'_>) -> Result<AttentionResult<f32>, AttentionFailure> + Sync);

#[test]
fn attention_is_compared_within_its_tolerance() {
    let narrow = |case: &AttentionCase<'_>| {
        let f32s = |values: Vec<f64>| values.into_iter().map(|value| value as f32).collect();
        let dense = dense(case);
        AttentionResult {
            out: f32s(dense.out),
            lse: f32s(dense.lse),
            row_max: f32s(dense.row_max),
        }
    };
    let rule = MaskRule::constant(true);
    let reference = |case: &AttentionCase<'_>| Ok(dense(case));
    let good = |case: &AttentionCase<'_>| Ok(narrow(case));
    let bad = |case: &AttentionCase<'_>| {
        let mut result = narrow(case);
        if let Some(lse) = result.lse.get_mut(3) {
            *lse += 0.1;
        }
        Ok(result)
    };
    let broken = |_: &AttentionCase<'_>| -> Result<AttentionResult<f32>, AttentionFailure> {
        Err("no such instruction".into())
    };
    let check = |run: Run<'_>| {
        let request = VerifyRequest {
            attention: vec![AttentionCheck {
                engine: "a test engine".to_owned(),
                run,
                reference: &reference,
                tolerance: Tolerance {
                    name: "f32 rounding".to_owned(),
                    absolute: 1.0e-6,
                    relative: 1.0e-6,
                },
                head_dim: HEAD_DIM,
            }],
            ..VerifyRequest::of_mask(&rule, scope("0..=90", 1, 2))
        };
        verify(&request)
    };
    let verified = check(&good).unwrap();
    let names = check_names(verified.certificate());
    assert!(
        names
            .iter()
            .any(|name| name.starts_with("a test engine: output, lse"))
    );
    let error = check(&bad).unwrap_err();
    assert!(
        error.to_string().contains("lse against dense attention"),
        "{error}"
    );
    let error = check(&broken).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("a test engine could not be run"),
        "{error}"
    );
}

#[test]
fn a_long_call_has_attention_checked_on_a_part() {
    let rule = packed_window(1500, 200);
    let verified = verify(&VerifyRequest::of_mask(&rule, scope("1500", 1, 2))).unwrap();
    let check = verified.certificate().checks.last().unwrap();
    assert!(check.what.starts_with("attention on the CPU"));
    assert_eq!(check.cells, 2 * 512 * (40 + 2));
}
