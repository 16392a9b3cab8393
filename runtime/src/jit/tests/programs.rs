//! Random programs: typed expressions over every operator, laziness and guarded reads included.

use std::sync::Arc;

use maskwright_dsl::capture::{BufferData, CapturedBuffer};
use maskwright_dsl::eval::{Point, ScalarEvaluator, Sizes};
use maskwright_dsl::ir::{BinaryOp, CaptureId, Const, Expr, ExprId, MathFn, Ty, UnaryOp, Var};
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, proptest};

use super::build::{Build, check_compiled};
use super::operators::BINARY;
use crate::jit::CompiledRule;

const Q_LEN: i32 = 6;
const KV_LEN: i32 = 75;

const SIZES: Sizes = Sizes {
    batch: 2,
    num_q_heads: 3,
    q_len: Q_LEN,
    kv_len: KV_LEN,
};

/// A program in the making: nodes by type, the newest last.
struct Program {
    rule: Build,
    nodes: Vec<ExprId>,
    /// Nodes that depend on the score, of which only operators without preconditions are made.
    scored: Vec<ExprId>,
    ints: CaptureId,
    floats: CaptureId,
    bits: CaptureId,
    flags: CaptureId,
}

impl Program {
    fn new() -> Self {
        let mut rule = Build::default();
        let hash = |i: i32| i.wrapping_mul(-1_640_531_535);
        let ints = rule.list(BufferData::I32(
            (0..KV_LEN).map(|i| hash(i) >> 26).collect(),
        ));
        let floats = (0..KV_LEN).map(|i| hash(i) as f32 * 1e-7).collect();
        let floats = rule.list(BufferData::F32(floats));
        let bits = BufferData::Bits((0..10).map(|i| hash(i) as u8).collect());
        let bits = CapturedBuffer::strided(bits, vec![70], vec![1], 3).unwrap();
        let bits = rule.buffer(bits);
        let flags = (0..KV_LEN).map(|i| hash(i) % 3 == 0).collect();
        let flags = rule.list(BufferData::Bool(flags));
        let mut nodes = vec![
            rule.q(),
            rule.kv(),
            rule.var(Var::H),
            rule.var(Var::KvLen),
            rule.i32(-3),
            rule.u32(5),
            rule.f32(-1.75),
            rule.scalar(Const::I32(4)),
            rule.scalar(Const::I64(-1 << 33)),
            rule.scalar(Const::U32(0x9E37_79B1)),
            rule.scalar(Const::F32(0.3)),
            rule.scalar(Const::Bool(true)),
        ];
        let (q, kv) = (nodes[0], nodes[1]);
        for index in [q, kv] {
            nodes.push(rule.load(ints, &[index]));
            nodes.push(rule.load(floats, &[index]));
            nodes.push(rule.load(flags, &[index]));
        }
        let score = rule.var(Var::Score);
        nodes.push(score);
        Self {
            rule,
            nodes,
            scored: vec![score],
            ints,
            floats,
            bits,
            flags,
        }
    }

    /// One of the nodes of a type, mostly a recent one; makes one by a cast if there is none.
    fn pick(&self, ty: Option<Ty>, choice: u32) -> Option<ExprId> {
        let fits = |id: &&ExprId| ty.is_none_or(|ty| self.rule.arena.ty(**id) == ty);
        let nodes: Vec<&ExprId> = self.nodes.iter().filter(fits).collect();
        let back = (choice % 97 * (choice % 89)) as usize * nodes.len() / (97 * 89);
        nodes.iter().rev().nth(back).map(|id| **id)
    }

    fn grow(&mut self, choice: u64) {
        let [kind, a, b, c] = [0, 16, 32, 48].map(|shift| (choice >> shift) as u32 & 0xffff);
        let ty = [Ty::Bool, Ty::I32, Ty::I64, Ty::U32, Ty::F32][(kind / 64 % 5) as usize];
        let Some(x) = self.pick(None, a) else { return };
        let same = self.pick(Some(self.rule.arena.ty(x)), b).unwrap_or(x);
        let mut partial = false;
        let expr = match kind % 16 {
            0..=6 => {
                let op = BINARY[(c % 30) as usize];
                let rhs = match op {
                    BinaryOp::Shl | BinaryOp::Shr | BinaryOp::Pow | BinaryOp::Powi => {
                        self.pick(Some(Ty::I32), b)
                    }
                    // The order of zeros under `min` and `max` has a test of its own.
                    BinaryOp::Min | BinaryOp::Max if self.rule.arena.ty(x) == Ty::F32 => {
                        Some(self.rule.f32(0.625))
                    }
                    _ => Some(same),
                };
                let Some(rhs) = rhs else { return };
                partial = self.rule.arena.ty(x).is_int() && has_preconditions(op);
                Expr::Binary { op, lhs: x, rhs }
            }
            7 | 8 => {
                let op = [
                    UnaryOp::Not,
                    UnaryOp::Neg,
                    UnaryOp::WrappingNeg,
                    UnaryOp::Abs,
                    UnaryOp::Signum,
                ]
                .into_iter()
                .chain(MathFn::ALL.map(UnaryOp::Math))
                .nth(c as usize % 20)
                .unwrap();
                partial = matches!(op, UnaryOp::Neg | UnaryOp::Abs);
                Expr::Unary { op, arg: x }
            }
            9 | 10 => Expr::Cast { to: ty, arg: x },
            11 | 12 => {
                let Some(cond) = self.pick(Some(Ty::Bool), c) else {
                    return;
                };
                Expr::Select {
                    cond,
                    then: x,
                    otherwise: same,
                }
            }
            13 => {
                partial = true;
                let hi = self.pick(Some(self.rule.arena.ty(x)), c).unwrap_or(x);
                Expr::Clamp {
                    arg: x,
                    lo: same,
                    hi,
                }
            }
            14 => {
                partial = true;
                let buffer = [self.ints, self.floats, self.bits, self.flags][(c % 4) as usize];
                let Some(index) = self.pick(Some([Ty::I32, Ty::I64][b as usize % 2]), a) else {
                    return;
                };
                let load = self.rule.load(buffer, &[index]);
                self.rule.arena.expr(load).clone()
            }
            _ => Expr::Then {
                first: x,
                value: same,
            },
        };
        let mut scored = false;
        expr.for_each_operand(|operand| scored |= self.scored.contains(&operand));
        if scored && partial {
            return;
        }
        let leaf = match &expr {
            Expr::Load { buffer, index } => Some(self.rule.load(*buffer, index)),
            _ => None,
        };
        let leaf = leaf.map(|id| self.rule.arena.ty(id));
        let Ok(value) = self.rule.arena.intern(expr, leaf, None) else {
            return;
        };
        let value = if partial { self.guard(value) } else { value };
        if scored {
            self.scored.push(value);
        }
        self.nodes.push(value);
    }

    /// A value that is used only where it is defined, as a table of ours says.
    fn guard(&mut self, value: ExprId) -> ExprId {
        let prepared = self.rule.finish_any(value);
        let mut law = ScalarEvaluator::new(prepared.rule(), prepared.bindings(), SIZES);
        let mut defined = Vec::new();
        for h in 0..SIZES.num_q_heads {
            for q_idx in 0..Q_LEN {
                for kv_idx in 0..KV_LEN {
                    let point = Point {
                        b: 0,
                        h,
                        q_idx,
                        kv_idx,
                        score: 0.0,
                    };
                    defined.push(law.eval_expr(value, &point).is_ok());
                }
            }
        }
        if defined.iter().all(|defined| *defined) {
            return value;
        }
        let shape = [SIZES.num_q_heads, Q_LEN, KV_LEN].map(|n| n as usize);
        let table = CapturedBuffer::new(BufferData::Bool(defined.into()), shape.to_vec());
        let table = self.rule.buffer(table.unwrap());
        let index = [Var::H, Var::QIdx, Var::KvIdx].map(|var| self.rule.var(var));
        let defined = self.rule.load(table, &index);
        let other = match self.rule.arena.ty(value) {
            Ty::F32 => Const::F32(-2.5),
            ty => Const::from_int(ty, 1).unwrap(),
        };
        let other = self.rule.arena.constant(other);
        if self.rule.arena.ty(value) == Ty::Bool {
            return self.rule.op(BinaryOp::And, defined, value);
        }
        self.rule.select(defined, value, other)
    }
}

/// Whether an operator of integers is undefined for some operands.
fn has_preconditions(op: BinaryOp) -> bool {
    !(op.is_comparison()
        || matches!(
            op,
            BinaryOp::WrappingAdd
                | BinaryOp::WrappingSub
                | BinaryOp::WrappingMul
                | BinaryOp::BitAnd
                | BinaryOp::BitOr
                | BinaryOp::BitXor
                | BinaryOp::Min
                | BinaryOp::Max
        ))
}

fn run(choices: &[u64], tile: (u16, u16, u16)) {
    let mut program = Program::new();
    for choice in choices {
        program.grow(*choice);
    }
    let n_kv = usize::from(tile.0) % 70 + 1;
    let kv0 = i64::from(tile.1) % (i64::from(KV_LEN) - n_kv as i64 + 1);
    let q0 = i64::from(tile.2) % i64::from(Q_LEN);
    let n_q = Q_LEN as usize - q0 as usize;
    let tiles = [(q0, n_q, kv0, n_kv), (0, 2, 0, 64), (0, 1, 10, 37)];
    let mut roots = Vec::new();
    let mut rule = program.rule.clone();
    if let Some(mask) = program
        .nodes
        .iter()
        .rfind(|id| rule.arena.ty(**id) == Ty::Bool && !program.scored.contains(id))
    {
        roots.push(*mask);
    }
    for &id in program.nodes.iter().rev().take(2) {
        roots.push(match rule.arena.ty(id) {
            Ty::F32 => id,
            _ => rule.cast(Ty::F32, id),
        });
    }
    for root in roots {
        let prepared = rule.finish(root);
        let compiled = Arc::new(CompiledRule::compile(&prepared).unwrap());
        check_compiled(compiled, &prepared, SIZES, &tiles);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn compiled_programs_equal_the_interpreter(
        choices in vec(any::<u64>(), 1..60),
        tile in any::<(u16, u16, u16)>(),
    ) {
        run(&choices, tile);
    }
}
