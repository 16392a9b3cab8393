//! Every operator at every type, over pairs of edge and random values: where it is evaluated as the rule says, and where it
//! is computed ahead of its guard.

use std::sync::Arc;

use maskwright_dsl::bind::BoundRule;
use maskwright_dsl::bucket::Bucket;
use maskwright_dsl::capture::{BufferData, CaptureValue, CapturedBuffer};
use maskwright_dsl::eval::{Point, ScalarEvaluator, Sizes};
use maskwright_dsl::ir::{
    Arena, BinaryOp, CaptureDecl, CaptureId, CaptureKind, Const, Expr, ExprId, Extent, MathFn,
    Rule, RuleKind, Ty, UnaryOp, Var,
};
use maskwright_dsl::pipeline::{Prepared, Scope, prepare_unchecked};

use crate::host::Subject;

const TYPES: [Ty; 5] = [Ty::Bool, Ty::I32, Ty::I64, Ty::U32, Ty::F32];

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

const LEN: i32 = 48;

const SIZES: Sizes = Sizes {
    batch: 1,
    num_q_heads: 1,
    q_len: LEN,
    kv_len: LEN,
};

/// A rule under construction, with its captured values.
#[derive(Clone, Default)]
struct Build {
    arena: Arena,
    captures: Vec<CaptureDecl>,
    values: Vec<CaptureValue>,
}

impl Build {
    fn buffer(&mut self, data: BufferData, shape: &[usize]) -> CaptureId {
        let buffer = CapturedBuffer::new(data, shape.to_vec()).unwrap();
        let slot = CaptureId(self.captures.len() as u32);
        self.captures.push(CaptureDecl {
            name: format!("c{}", slot.0),
            kind: CaptureKind::Buffer {
                elem: buffer.elem(),
                extents: vec![Extent::Unspecified; shape.len()],
            },
            min: None,
            max: None,
            span: None,
        });
        self.values.push(CaptureValue::Buffer(buffer));
        slot
    }

    fn load(&mut self, buffer: CaptureId, index: &[ExprId]) -> ExprId {
        let ty = self.captures[buffer.index()].value_ty();
        let index = index.into();
        let load = Expr::Load { buffer, index };
        self.arena.intern(load, Some(ty), None).unwrap()
    }

    /// The rule with this result, whatever its type: only the interpreter takes any.
    fn finish(&self, root: ExprId) -> Prepared {
        let is_mask = self.arena.ty(root) == Ty::Bool;
        let kind = if is_mask {
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
        let len = LEN as u64;
        prepare_unchecked(&bound, &Scope::new(Bucket::single(len, len, 0), 1, 1))
    }

    /// Where the value is defined, as a table read at the cell.
    fn defined(&mut self, value: ExprId) -> ExprId {
        let prepared = self.finish(value);
        let mut law = ScalarEvaluator::new(prepared.rule(), prepared.bindings(), SIZES);
        let mut is_defined = |cell: i32| {
            let point = Point {
                b: 0,
                h: 0,
                q_idx: cell / LEN,
                kv_idx: cell % LEN,
                score: 0.0,
            };
            law.eval_expr(value, &point).is_ok()
        };
        let table: Vec<bool> = (0..LEN * LEN).map(&mut is_defined).collect();
        let table = self.buffer(BufferData::Bool(table.into()), &[LEN as usize; 2]);
        let index = [Var::QIdx, Var::KvIdx].map(|var| self.arena.var(var));
        self.load(table, &index)
    }

    /// A float or truth value that tells integers apart; it names the value once, or twice, so that it becomes a local.
    fn digest(&mut self, value: ExprId, twice: bool) -> ExprId {
        let ty = self.arena.ty(value);
        if !ty.is_int() {
            return match (twice, ty) {
                (false, _) => value,
                (true, Ty::F32) => {
                    let half = self.arena.constant(Const::F32(0.5));
                    let part = self.arena.binary(BinaryOp::Mul, value, half);
                    self.arena.binary(BinaryOp::Add, part, value)
                }
                (true, _) => {
                    let not = self.arena.unary(UnaryOp::Not, value);
                    let never = self.arena.binary(BinaryOp::BitAnd, value, not);
                    self.arena.binary(BinaryOp::BitOr, value, never)
                }
            };
        }
        let constant = |v| Const::from_int(ty, v).unwrap();
        let odd = self.arena.constant(constant(0x2545_f491));
        let mut mixed = self.arena.binary(BinaryOp::WrappingMul, value, odd);
        if twice {
            mixed = self.arena.binary(BinaryOp::BitXor, mixed, value);
        }
        let shift = self.arena.constant(Const::U32(ty.bits() / 4));
        let high = self.arena.binary(BinaryOp::Shr, mixed, shift);
        let mixed = self.arena.binary(BinaryOp::BitXor, mixed, high);
        let low = self.arena.constant(constant(0x00ff_ffff));
        let arg = self.arena.binary(BinaryOp::BitAnd, mixed, low);
        self.arena.known(&Expr::Cast { to: Ty::F32, arg })
    }
}

/// Edge values of a type, then pseudo-random ones.
fn values(ty: Ty, seed: u64) -> BufferData {
    let mut state = seed;
    let mut word = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word ^ word >> 27
    };
    let mut fill = |edges: &[i64]| -> Vec<i64> {
        let mut all: Vec<i64> = edges.to_vec();
        while all.len() < LEN as usize {
            let word = word() as i64;
            all.push(if word % 2 == 0 { word >> 57 } else { word });
        }
        all.rotate_left(seed as usize);
        all
    };
    match ty {
        Ty::Bool => BufferData::Bool(fill(&[]).iter().map(|v| v % 2 == 0).collect()),
        Ty::I32 => {
            let edges = [
                0,
                1,
                -1,
                2,
                -2,
                3,
                7,
                31,
                32,
                i32::MAX,
                i32::MIN,
                i32::MIN + 1,
            ];
            let all = fill(&edges.map(i64::from));
            BufferData::I32(all.iter().map(|v| *v as i32).collect())
        }
        Ty::U32 => {
            let edges = [0, 1, 2, 3, 7, 31, 32, 1 << 31, u32::MAX];
            let all = fill(&edges.map(i64::from));
            BufferData::U32(all.iter().map(|v| *v as u32).collect())
        }
        Ty::I64 => {
            let edges = [0, 1, -1, 2, -3, 7, 63, 64, 1 << 40, i64::MAX, i64::MIN];
            BufferData::I64(fill(&edges).into())
        }
        Ty::F32 => {
            let edges = [
                0.0,
                -0.0,
                0.5,
                -0.5,
                1.0,
                1.5,
                -2.5,
                0.499_999_97,
                8_388_607.5,
                2_147_483_648.0,
                -2_147_483_648.0,
                4_294_967_296.0,
                9.3e18,
                1e-45,
                f32::MAX,
                f32::INFINITY,
                f32::NEG_INFINITY,
                f32::NAN,
            ];
            let rest = fill(&[]).into_iter().map(|v| {
                if v % 2 == 0 {
                    f32::from_bits(v as u32)
                } else {
                    (v >> 40) as i16 as f32 / 256.0
                }
            });
            let mut all: Vec<f32> = edges.into_iter().chain(rest).take(LEN as usize).collect();
            all.rotate_left(seed as usize);
            BufferData::F32(all.into())
        }
    }
}

/// Operands that vary with the query and with the key, and a literal.
fn operands(rule: &mut Build, ty: Ty, seed: u64) -> [ExprId; 3] {
    let data = values(ty, seed);
    let literal = rule.arena.constant(data.load(5));
    let buffer = rule.buffer(data, &[LEN as usize]);
    let [q, kv] = [Var::QIdx, Var::KvIdx].map(|var| rule.arena.var(var));
    [rule.load(buffer, &[q]), rule.load(buffer, &[kv]), literal]
}

/// A long rule each of whose links names the one before twice.
pub(crate) fn chain(links: u32) -> Prepared {
    let mut rule = Build::default();
    let arena = &mut rule.arena;
    let [kv, score] = [Var::KvIdx, Var::Score].map(|var| arena.var(var));
    let mut link = kv;
    for i in 0..links {
        let literal = arena.constant(Const::I32(i as i32 + 7));
        let mixed = arena.binary(BinaryOp::BitXor, link, literal);
        link = arena.binary(BinaryOp::WrappingAdd, mixed, link);
    }
    let arg = arena.known(&Expr::Cast {
        to: Ty::F32,
        arg: link,
    });
    let root = arena.binary(BinaryOp::Add, score, arg);
    rule.finish(root)
}

/// Both forms of a value: evaluated where it is defined, and ahead of the guard that asks whether it is.
fn subjects(all: &mut Vec<Subject>, name: &str, rule: &Build, value: ExprId) {
    for twice in [false, true] {
        let mut rule = rule.clone();
        let defined = rule.defined(value);
        let digest = rule.digest(value, twice);
        let root = if rule.arena.ty(digest) == Ty::Bool {
            rule.arena.binary(BinaryOp::And, defined, digest)
        } else {
            let nothing = rule.arena.constant(Const::F32(0.0));
            // A comparison asks for the exact form of every function.
            let zero = rule.arena.binary(BinaryOp::Eq, digest, nothing);
            let one = rule.arena.constant(Const::F32(1.0));
            let digest = rule.arena.select(zero, one, digest);
            rule.arena.select(defined, digest, nothing)
        };
        all.push(Subject {
            name: format!("{name}, {}", if twice { "ahead" } else { "in place" }),
            prepared: rule.finish(root),
            sizes: SIZES,
            q_offset: 0,
        });
    }
}

/// Every operator of two operands.
pub(crate) fn binary() -> Vec<Subject> {
    let mut all = Vec::new();
    for op in BINARY {
        for ty in TYPES {
            for rhs in TYPES {
                let mut rule = Build::default();
                let a = operands(&mut rule, ty, 0);
                let b = operands(&mut rule, rhs, 3);
                for (i, j) in [(0, 1), (1, 2)] {
                    let mut rule = rule.clone();
                    let expr = Expr::Binary {
                        op,
                        lhs: a[i],
                        rhs: b[j],
                    };
                    if let Ok(value) = rule.arena.intern(expr, None, None) {
                        let name = format!("{} of {ty} and {rhs}, {i} {j}", op.symbol());
                        subjects(&mut all, &name, &rule, value);
                    }
                }
            }
        }
    }
    all
}

/// Every operator of one operand, casts, and bounds.
pub(crate) fn unary() -> Vec<Subject> {
    let ops = [
        UnaryOp::Not,
        UnaryOp::Neg,
        UnaryOp::WrappingNeg,
        UnaryOp::Abs,
        UnaryOp::Signum,
    ];
    let mut all = Vec::new();
    for ty in TYPES {
        let mut rule = Build::default();
        let [arg, lo, _] = operands(&mut rule, ty, 0);
        let [_, _, hi] = operands(&mut rule, ty, 7);
        let mut exprs = vec![("clamp".to_owned(), Expr::Clamp { arg, lo, hi })];
        for op in ops.into_iter().chain(MathFn::ALL.map(UnaryOp::Math)) {
            exprs.push((format!("{op:?}"), Expr::Unary { op, arg }));
        }
        for to in TYPES {
            exprs.push((format!("as {to}"), Expr::Cast { to, arg }));
        }
        for (name, expr) in exprs {
            let mut rule = rule.clone();
            if let Ok(value) = rule.arena.intern(expr, None, None) {
                subjects(&mut all, &format!("{name} of {ty}"), &rule, value);
            }
        }
    }
    all
}

/// Reads of every element type, from strided views: in range, and where a guard keeps the index in range.
pub(crate) fn reads() -> Vec<Subject> {
    use half::{bf16, f16};
    let n = 2 * LEN as usize;
    let hash = |i: usize| (i as i32).wrapping_mul(-1_640_531_535) >> 7;
    let ints = || (0..n).map(hash);
    let halves = ints().map(|v| f16::from_bits(v as u16));
    let data = [
        BufferData::Bool(ints().map(|v| v % 3 == 0).collect()),
        BufferData::Bits(ints().map(|v| v as u8).collect()),
        BufferData::I8(ints().map(|v| v as i8).collect()),
        BufferData::U8(ints().map(|v| v as u8).collect()),
        BufferData::I16(ints().map(|v| v as i16).collect()),
        BufferData::U16(ints().map(|v| v as u16).collect()),
        BufferData::I32(ints().collect()),
        BufferData::I64(ints().map(|v| i64::from(v) << 20).collect()),
        BufferData::U32(ints().map(|v| v as u32).collect()),
        BufferData::F16(halves.collect()),
        BufferData::Bf16(ints().map(|v| bf16::from_bits(v as u16)).collect()),
        BufferData::F32(ints().map(|v| v as f32 * 1e-3).collect()),
        BufferData::F64(ints().map(|v| f64::from(v) / 3.0).collect()),
    ];
    let mut all = Vec::new();
    for data in data {
        let elem = data.elem();
        // From the middle backwards, so that a step is negative and the start is no element of the data's own.
        let list = CapturedBuffer::strided(data.clone(), vec![30], vec![-1], 37).unwrap();
        let table = CapturedBuffer::strided(data, vec![6, 5], vec![1, 9], 2).unwrap();
        let mut rule = Build::default();
        let list_slot = rule.buffer(BufferData::Bool([true].into()), &[1]);
        let table_slot = rule.buffer(BufferData::Bool([true].into()), &[1, 1]);
        for (slot, buffer) in [(list_slot, list), (table_slot, table)] {
            let CaptureKind::Buffer { elem, .. } = &mut rule.captures[slot.index()].kind else {
                panic!("it was declared as a buffer");
            };
            *elem = buffer.elem();
            rule.values[slot.index()] = CaptureValue::Buffer(buffer);
        }
        let [q, kv] = [Var::QIdx, Var::KvIdx].map(|var| rule.arena.var(var));
        let two = rule.arena.constant(Const::I32(2));
        let back = rule.arena.binary(BinaryOp::Sub, kv, two);
        let apart = rule.arena.binary(BinaryOp::Sub, q, kv);
        for (name, slot, index) in [
            ("[q]", list_slot, vec![q]),
            ("[kv - 2]", list_slot, vec![back]),
            ("[q - kv]", list_slot, vec![apart]),
            ("[q, kv]", table_slot, vec![q, kv]),
            ("[kv - 2, 2]", table_slot, vec![back, two]),
        ] {
            let mut rule = rule.clone();
            let value = rule.load(slot, &index);
            subjects(&mut all, &format!("{elem}{name}"), &rule, value);
        }
    }
    all
}
