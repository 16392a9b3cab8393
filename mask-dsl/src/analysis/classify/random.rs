//! Random masks for tests: typed expressions with guarded reads.

use crate::capture::{Bindings, BufferData, CaptureValue, CapturedBuffer};
use crate::ir::{
    Arena, BinaryOp, CaptureDecl, CaptureId, CaptureKind, Const, Elem, Expr, ExprId, Extent, Rule,
    RuleKind, Ty, UnaryOp, Var,
};

pub(crate) const LEN: i64 = 40;

pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let mut z = self.0;
        z ^= z >> 33;
        z = z.wrapping_mul(0xff51_afd7_ed55_8ccd);
        z ^ (z >> 29)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }
}

fn int(arena: &mut Arena, random: &mut Random, depth: u32) -> ExprId {
    if depth == 0 || random.below(5) == 0 {
        return match random.below(8) {
            0..=2 => arena.var(Var::QIdx),
            3..=5 => arena.var(Var::KvIdx),
            6 => arena.var(random.pick(&[Var::B, Var::H, Var::QLen, Var::KvLen])),
            _ => arena.constant(Const::I32(random.below(20) as i32 - 4)),
        };
    }
    let small = |arena: &mut Arena, random: &mut Random| {
        let c = random.pick(&[1, 2, 3, 4, 7, 8, 16]);
        arena.constant(Const::I32(c))
    };
    match random.below(16) {
        0..=4 => {
            let op = random.pick(&[
                BinaryOp::Add,
                BinaryOp::Sub,
                BinaryOp::Min,
                BinaryOp::Max,
                BinaryOp::BitAnd,
                BinaryOp::BitOr,
                BinaryOp::BitXor,
                BinaryOp::WrappingMul,
            ]);
            let (a, b) = (int(arena, random, depth - 1), int(arena, random, depth - 1));
            arena.binary(op, a, b)
        }
        5..=9 => {
            let op = random.pick(&[
                BinaryOp::Mul,
                BinaryOp::Div,
                BinaryOp::Rem,
                BinaryOp::DivFloor,
                BinaryOp::RemFloor,
                BinaryOp::DivEuclid,
                BinaryOp::RemEuclid,
                BinaryOp::Shr,
                BinaryOp::Shl,
            ]);
            let (a, b) = (int(arena, random, depth - 1), small(arena, random));
            arena.binary(op, a, b)
        }
        10 => {
            let op = random.pick(&[UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Signum, UnaryOp::Not]);
            let a = int(arena, random, depth - 1);
            arena.unary(op, a)
        }
        11 => {
            let (c, t, e) = (
                truth(arena, random, depth - 1),
                int(arena, random, depth - 1),
                int(arena, random, depth - 1),
            );
            arena.select(c, t, e)
        }
        12 => {
            let a = truth(arena, random, depth - 1);
            arena.known(&Expr::Cast {
                to: Ty::I32,
                arg: a,
            })
        }
        13 => {
            // Through u32 and back.
            let a = int(arena, random, depth - 1);
            let a = arena.known(&Expr::Cast {
                to: Ty::U32,
                arg: a,
            });
            arena.known(&Expr::Cast {
                to: Ty::I32,
                arg: a,
            })
        }
        _ => {
            // A read kept in range by a clamp, or by the variable itself.
            let index = if random.below(2) == 0 {
                arena.var(random.pick(&[Var::QIdx, Var::KvIdx]))
            } else {
                let a = int(arena, random, depth - 1);
                let lo = arena.constant(Const::I32(0));
                let hi = arena.constant(Const::I32(LEN as i32 - 1));
                arena.known(&Expr::Clamp { arg: a, lo, hi })
            };
            let buffer = CaptureId(random.below(2) as u32);
            arena
                .intern(
                    Expr::Load {
                        buffer,
                        index: Box::new([index]),
                    },
                    Some(Ty::I32),
                    None,
                )
                .unwrap()
        }
    }
}

fn truth(arena: &mut Arena, random: &mut Random, depth: u32) -> ExprId {
    if depth == 0 || random.below(3) == 0 {
        let op = random.pick(&[
            BinaryOp::Eq,
            BinaryOp::Ne,
            BinaryOp::Lt,
            BinaryOp::Le,
            BinaryOp::Gt,
            BinaryOp::Ge,
        ]);
        let depth = depth.max(1);
        let (a, b) = (int(arena, random, depth - 1), int(arena, random, depth - 1));
        return arena.binary(op, a, b);
    }
    match random.below(6) {
        0 => {
            let a = truth(arena, random, depth - 1);
            arena.unary(UnaryOp::Not, a)
        }
        1 => {
            let (c, t, e) = (
                truth(arena, random, depth - 1),
                truth(arena, random, depth - 1),
                truth(arena, random, depth - 1),
            );
            arena.select(c, t, e)
        }
        _ => {
            let op = random.pick(&[BinaryOp::And, BinaryOp::Or, BinaryOp::BitXor, BinaryOp::Eq]);
            let (a, b) = (
                truth(arena, random, depth - 1),
                truth(arena, random, depth - 1),
            );
            arena.binary(op, a, b)
        }
    }
}

pub(crate) fn buffer(values: Vec<i32>) -> CaptureValue {
    let shape = vec![values.len()];
    CaptureValue::Buffer(CapturedBuffer::new(BufferData::I32(values.into()), shape).unwrap())
}

pub(crate) fn rule(arena: Arena, root: ExprId) -> Rule {
    let capture = |name: &str| CaptureDecl {
        name: name.to_owned(),
        kind: CaptureKind::Buffer {
            elem: Elem::I32,
            extents: vec![Extent::Unspecified],
        },
        min: None,
        max: None,
        span: None,
    };
    Rule {
        name: "random".to_owned(),
        doc: String::new(),
        kind: RuleKind::Mask,
        captures: vec![capture("sorted"), capture("mixed")],
        dims: Vec::new(),
        arena,
        root,
        source: None,
    }
}

/// A mask whose root is random, with a sorted and a shuffled buffer of [`LEN`] elements.
pub(crate) fn rule_and_bindings(seed: u64) -> (Rule, Bindings) {
    let mut random = Random(seed);
    let mut arena = Arena::new();
    let root = truth(&mut arena, &mut random, 4);
    let bindings = Bindings {
        values: vec![
            buffer((0..LEN as i32).map(|i| i / 9).collect()),
            buffer((0..LEN).map(|_| random.below(12) as i32).collect()),
        ],
        dims: Vec::new(),
    };
    (rule(arena, root), bindings)
}

/// `kv <= q`.
pub(crate) fn causal() -> (Rule, Bindings) {
    let mut arena = Arena::new();
    let (q, kv) = (arena.var(Var::QIdx), arena.var(Var::KvIdx));
    let root = arena.binary(BinaryOp::Le, kv, q);
    let mut rule = rule(arena, root);
    rule.captures.clear();
    (rule, Bindings::default())
}
