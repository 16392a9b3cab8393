//! Measures how many cells a second compiled rules evaluate on one core, and how long they take to compile.
//!
//! `cargo run --release -p maskwright --example evaluator_speed`
#![allow(clippy::print_stdout, reason = "this program prints what it measures")]

use std::sync::Arc;
use std::time::Instant;

use maskwright::jit::{BoundEvaluator, CompiledRule};
use maskwright_dsl::bind::BoundRule;
use maskwright_dsl::bucket::{Bucket, Relation};
use maskwright_dsl::capture::{BufferData, CaptureValue, CapturedBuffer};
use maskwright_dsl::eval::Sizes;
use maskwright_dsl::ir::{
    Arena, BinaryOp, CaptureDecl, CaptureId, CaptureKind, Const, Elem, Expr, ExprId, Extent,
    MathFn, Rule, RuleKind, Ty, UnaryOp, Var,
};
use maskwright_dsl::pipeline::{Prepared, Scope, prepare};

const LEN: i32 = 4096;
const TILE: usize = 128;
const ROUNDS: usize = 40;

fn main() {
    for (name, prepared) in rules() {
        measure(name, &prepared);
    }
}

fn measure(name: &str, prepared: &Prepared) {
    let mut compile_secs = f64::INFINITY;
    let mut code_bytes = 0;
    for _ in 0..ROUNDS {
        let compiled = CompiledRule::compile(prepared).expect("the rule compiles here");
        compile_secs = compile_secs.min(compiled.compile_secs());
        code_bytes = compiled.code_bytes();
    }
    let compiled = CompiledRule::compile(prepared).expect("the rule compiles here");
    let sizes = Sizes {
        batch: 1,
        num_q_heads: 1,
        q_len: LEN,
        kv_len: LEN,
    };
    let evaluator = BoundEvaluator::new(Arc::new(compiled), prepared, sizes)
        .expect("the sizes are those that the rule was prepared for");
    let mut best = f64::INFINITY;
    let tiles = LEN as usize / TILE;
    let mut bits = vec![0u64; TILE * TILE / 64];
    let mut scores = vec![1.5f32; TILE * TILE];
    for _ in 0..ROUNDS {
        let started = Instant::now();
        for q in 0..tiles {
            for kv in 0..tiles {
                let (q0, kv0) = ((q * TILE) as i64, (kv * TILE) as i64);
                match prepared.rule().kind {
                    RuleKind::Mask => {
                        evaluator.mask_tile(0, 0, q0, TILE, kv0, TILE, &mut bits, TILE / 64);
                    }
                    RuleKind::Score => {
                        evaluator.score_tile(0, 0, q0, TILE, kv0, TILE, &mut scores, TILE);
                    }
                }
            }
        }
        best = best.min(started.elapsed().as_secs_f64());
    }
    let cells = f64::from(LEN) * f64::from(LEN);
    println!(
        "{name:28} {:6.2} G cells/s, compiled in {:5.2} ms to {code_bytes} bytes",
        cells / best * 1e-9,
        compile_secs * 1e3,
    );
}

fn rules() -> Vec<(&'static str, Prepared)> {
    let mut rules = Vec::new();
    let mut r = Builder::default();
    let causal = r.op(BinaryOp::Le, r.kv, r.q);
    rules.push(("causal", r.finish(causal)));
    rules.push(("window and documents", window_and_documents(false)));
    rules.push(("guarded documents", window_and_documents(true)));
    rules.push(("hash", hash()));
    rules.push(("neighbourhood", neighbourhood()));
    rules.push(("gather by document", gather()));
    let mut r = Builder::default();
    let distance = r.op(BinaryOp::Sub, r.kv, r.q);
    let distance = r.arena.known(&Expr::Cast {
        to: Ty::F32,
        arg: distance,
    });
    let slope = r.constant(Const::F32(0.125));
    let bias = r.op(BinaryOp::Mul, slope, distance);
    let score = r.arena.var(Var::Score);
    let root = r.op(BinaryOp::Add, score, bias);
    rules.push(("alibi", r.finish(root)));
    rules.push(("a hundred offsets", offsets()));
    let mut r = Builder::default();
    let cap = r.constant(Const::F32(30.0));
    let score = r.arena.var(Var::Score);
    let small = r.op(BinaryOp::Div, score, cap);
    let tanh = r.arena.unary(UnaryOp::Math(MathFn::Tanh), small);
    let root = r.op(BinaryOp::Mul, tanh, cap);
    rules.push(("softcap", r.finish(root)));
    rules
}

fn window_and_documents(guarded: bool) -> Prepared {
    let mut r = Builder::default();
    let doc = r.documents();
    let causal = r.op(BinaryOp::Le, r.kv, r.q);
    let distance = r.op(BinaryOp::Sub, r.q, r.kv);
    let window = r.constant(Const::I32(256));
    let near = r.op(BinaryOp::Lt, distance, window);
    let (mine, theirs) = (r.load(doc, r.q), r.load(doc, r.kv));
    let same = r.op(BinaryOp::Eq, mine, theirs);
    let both = r.op(BinaryOp::And, causal, near);
    // The reads are proved either by their place in front of the guard, or only behind it.
    let root = if guarded {
        r.op(BinaryOp::And, both, same)
    } else {
        r.op(BinaryOp::And, same, both)
    };
    r.finish(root)
}

fn hash() -> Prepared {
    let mut r = Builder::default();
    let mut x = r.constant(Const::U32(0xDEAD_BEEF));
    for (var, factor) in [(r.q, 83_492_791), (r.kv, 2_654_435_761)] {
        let var = r.arena.known(&Expr::Cast {
            to: Ty::U32,
            arg: var,
        });
        let factor = r.constant(Const::U32(factor));
        let term = r.op(BinaryOp::WrappingMul, var, factor);
        x = r.op(BinaryOp::BitXor, x, term);
    }
    for (shift, factor) in [(16, Some(0x7FEB_352D)), (15, Some(0x846C_A68B)), (16, None)] {
        let shift = r.constant(Const::I32(shift));
        let high = r.op(BinaryOp::Shr, x, shift);
        x = r.op(BinaryOp::BitXor, x, high);
        if let Some(factor) = factor {
            let factor = r.constant(Const::U32(factor));
            x = r.op(BinaryOp::WrappingMul, x, factor);
        }
    }
    let drop = r.constant(Const::U32(429_496_729));
    let kept = r.op(BinaryOp::Ge, x, drop);
    let causal = r.op(BinaryOp::Le, r.kv, r.q);
    let root = r.op(BinaryOp::And, causal, kept);
    r.finish(root)
}

fn neighbourhood() -> Prepared {
    let mut r = Builder::default();
    let width = r.scalar(Const::I32(60));
    let radius = r.constant(Const::I32(6));
    let mut near = |op| {
        let (a, b) = (r.op(op, r.q, width), r.op(op, r.kv, width));
        let distance = r.op(BinaryOp::Sub, a, b);
        let distance = r.arena.unary(UnaryOp::Abs, distance);
        r.op(BinaryOp::Le, distance, radius)
    };
    let (rows, columns) = (near(BinaryOp::Div), near(BinaryOp::Rem));
    let root = r.op(BinaryOp::And, rows, columns);
    r.finish(root)
}

fn offsets() -> Prepared {
    let mut r = Builder::default();
    let mut root = r.op(BinaryOp::Le, r.kv, r.q);
    let distance = r.op(BinaryOp::Sub, r.q, r.kv);
    for offset in 0..100 {
        let offset = r.constant(Const::I32(offset * offset));
        let hit = r.op(BinaryOp::Eq, distance, offset);
        root = r.op(BinaryOp::Or, root, hit);
    }
    r.finish(root)
}

fn gather() -> Prepared {
    let mut r = Builder::default();
    let doc = r.documents();
    let start = r.documents();
    let theirs = r.load(doc, r.kv);
    let start = r.load(start, theirs);
    let root = r.op(BinaryOp::Le, start, r.q);
    r.finish(root)
}

struct Builder {
    arena: Arena,
    q: ExprId,
    kv: ExprId,
    captures: Vec<CaptureDecl>,
    values: Vec<CaptureValue>,
}

impl Default for Builder {
    fn default() -> Self {
        let mut arena = Arena::new();
        let (q, kv) = (arena.var(Var::QIdx), arena.var(Var::KvIdx));
        Self {
            arena,
            q,
            kv,
            captures: Vec::new(),
            values: Vec::new(),
        }
    }
}

impl Builder {
    fn op(&mut self, op: BinaryOp, a: ExprId, b: ExprId) -> ExprId {
        self.arena.binary(op, a, b)
    }

    fn constant(&mut self, value: Const) -> ExprId {
        self.arena.constant(value)
    }

    fn scalar(&mut self, value: Const) -> ExprId {
        let slot = self.capture(CaptureKind::Scalar(value.ty()), CaptureValue::Scalar(value));
        self.arena
            .intern(Expr::Scalar(slot), Some(value.ty()), None)
            .expect("a leaf has no operands")
    }

    fn documents(&mut self) -> CaptureId {
        let data = BufferData::I32((0..LEN).map(|i| i / 300).collect());
        let buffer =
            CapturedBuffer::new(data, vec![LEN as usize]).expect("the data has this length");
        let kind = CaptureKind::Buffer {
            elem: Elem::I32,
            extents: vec![Extent::Unspecified],
        };
        self.capture(kind, CaptureValue::Buffer(buffer))
    }

    fn load(&mut self, buffer: CaptureId, index: ExprId) -> ExprId {
        let index = [index].into();
        self.arena
            .intern(Expr::Load { buffer, index }, Some(Ty::I32), None)
            .expect("the index is an integer")
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

    fn finish(self, root: ExprId) -> Prepared {
        let kind = if self.arena.ty(root) == Ty::Bool {
            RuleKind::Mask
        } else {
            RuleKind::Score
        };
        let rule = Rule {
            name: "measured".to_owned(),
            doc: String::new(),
            kind,
            captures: self.captures,
            dims: Vec::new(),
            arena: self.arena,
            root,
            source: None,
        };
        let bound = BoundRule::new(Arc::new(rule), self.values, &[]).expect("the captures fit");
        let len = LEN as u64;
        let scope = Scope::new(Bucket::self_attention(len..=len), 1, 1);
        prepare(&bound, &scope).expect("the rule is valid")
    }
}
