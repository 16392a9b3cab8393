//! Compiles a rule to a tape: what is computed once per call, head or query, and the steps for 128 keys.

use super::lanes::{Counts, Reg};
use crate::ir::{BinaryOp, CaptureId, Expr, ExprId, Rule, Ty, UnaryOp, Var};

/// How often a node has to be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// Once: constants, sizes, captured scalars.
    Call,
    /// For each batch row and head.
    Head,
    /// For each query.
    Query,
    /// For each key.
    Key,
}

/// The nodes that are the same for all keys of a row and are computed at one level.
#[derive(Debug, Default)]
pub(super) struct Uniform {
    /// Nodes, operands first.
    pub(super) nodes: Vec<ExprId>,
    /// Those of them that steps read, and the registers that they fill.
    pub(super) broadcast: Vec<(ExprId, Reg)>,
}

/// One index of a read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Axis {
    /// The same for all keys of the row.
    Uniform(ExprId),
    /// One per key.
    Lanes(Reg),
}

/// What a step computes.
#[derive(Debug)]
pub(super) enum Op {
    Unary(UnaryOp, Reg),
    Binary(BinaryOp, Reg, Reg),
    Clamp(Reg, Reg, Reg),
    Cast(Reg),
    Select(Reg, Reg, Reg),
    Then(Reg, Reg),
    Load {
        buffer: CaptureId,
        axes: Vec<Axis>,
        /// One axis alone differs between keys, and goes up by one from key to key.
        unit: bool,
    },
}

/// One step of the tape.
#[derive(Debug)]
pub(super) enum Step {
    /// Computes a node.
    Compute {
        /// Where the result goes.
        dst: Reg,
        /// What is computed.
        op: Op,
    },
    /// Goes on at step `to` if `cond` is `needed` at no key: what lies between is not read there.
    Skip { cond: Reg, needed: bool, to: usize },
}

/// Where the result of the rule stands.
#[derive(Clone, Copy, Debug)]
pub(super) enum Root {
    Uniform(ExprId),
    Lanes(Reg),
}

/// A compiled rule.
#[derive(Debug)]
pub(super) struct Tape {
    /// By [`Level`], without `Key`.
    pub(super) uniform: [Uniform; 3],
    pub(super) kv_idx: Option<Reg>,
    pub(super) score: Option<Reg>,
    pub(super) steps: Vec<Step>,
    pub(super) root: Root,
    pub(super) counts: Counts,
}

impl Tape {
    pub(super) fn new(rule: &Rule) -> Tape {
        let live = rule.live();
        let levels = levels(rule);
        let mut builder = Builder {
            rule,
            levels: &levels,
            regs: vec![None; rule.arena.len()],
            units: vec![false; rule.arena.len()],
            tape: Tape {
                uniform: Default::default(),
                kv_idx: None,
                score: None,
                steps: Vec::new(),
                root: Root::Uniform(rule.root),
                counts: Counts::default(),
            },
        };
        for id in rule.arena.ids().filter(|id| live[id.index()]) {
            let level = levels[id.index()];
            if level != Level::Key {
                builder.tape.uniform[level as usize].nodes.push(id);
            }
        }
        if levels[rule.root.index()] == Level::Key {
            // Broadcast registers come first, so that their slots are less than those of the steps.
            builder.broadcast(&live);
            builder.emit(&live);
            builder.tape.root = Root::Lanes(builder.reg(rule.root));
        }
        builder.tape
    }
}

fn levels(rule: &Rule) -> Vec<Level> {
    let mut levels = Vec::with_capacity(rule.arena.len());
    for id in rule.arena.ids() {
        let expr = rule.arena.expr(id);
        let mut level = match expr {
            Expr::Var(Var::B | Var::H) => Level::Head,
            Expr::Var(Var::QIdx) => Level::Query,
            Expr::Var(Var::KvIdx | Var::Score) => Level::Key,
            Expr::Var(Var::QLen | Var::KvLen | Var::Batch | Var::NumQHeads)
            | Expr::Const(_)
            | Expr::Scalar(_)
            | Expr::Dim(_)
            | Expr::Load { .. }
            | Expr::Unary { .. }
            | Expr::Binary { .. }
            | Expr::Clamp { .. }
            | Expr::Cast { .. }
            | Expr::Select { .. }
            | Expr::Then { .. } => Level::Call,
        };
        expr.for_each_operand(|operand| level = level.max(levels[operand.index()]));
        levels.push(level);
    }
    levels
}

struct Builder<'a> {
    rule: &'a Rule,
    levels: &'a [Level],
    regs: Vec<Option<Reg>>,
    /// Nodes that go up by one from key to key.
    units: Vec<bool>,
    tape: Tape,
}

impl Builder<'_> {
    fn is_key(&self, id: ExprId) -> bool {
        self.levels[id.index()] == Level::Key
    }

    fn reg(&self, id: ExprId) -> Reg {
        self.regs[id.index()].expect("operands are emitted before their users")
    }

    fn broadcast(&mut self, live: &[bool]) {
        let mut read = vec![false; self.rule.arena.len()];
        for id in self.rule.arena.ids() {
            let expr = self.rule.arena.expr(id);
            // A read takes uniform indices as scalars.
            if live[id.index()] && self.is_key(id) && !matches!(expr, Expr::Load { .. }) {
                expr.for_each_operand(|operand| read[operand.index()] = true);
            }
        }
        for id in self.rule.arena.ids() {
            if read[id.index()] && !self.is_key(id) {
                let reg = self.tape.counts.allocate(self.rule.arena.ty(id), true);
                self.regs[id.index()] = Some(reg);
                let level = self.levels[id.index()] as usize;
                self.tape.uniform[level].broadcast.push((id, reg));
            }
        }
    }

    /// Emits every node per key, those that only one side of a lazy operator needs between a skip and its target.
    fn emit(&mut self, live: &[bool]) {
        let regions = Regions::new(self.rule, live, self.levels);
        // A region, how far it is emitted, and the skip that jumps over it.
        let mut stack = vec![(0, 0, None)];
        while let Some((region, at, skip)) = stack.pop() {
            let Some(item) = regions.items[region].get(at) else {
                if let Some(skip) = skip {
                    let end = self.tape.steps.len();
                    if let Step::Skip { to, .. } = &mut self.tape.steps[skip] {
                        *to = end;
                    }
                }
                continue;
            };
            stack.push((region, at + 1, skip));
            match *item {
                Item::Node(id) => self.emit_node(id),
                Item::Region(inner) => {
                    let guard = regions.guards[inner].expect("only the outermost has no guard");
                    let skip = (SKIP_FROM <= regions.weights[inner]).then(|| {
                        self.tape.steps.push(Step::Skip {
                            cond: self.reg(guard.cond),
                            needed: guard.needed,
                            to: 0,
                        });
                        self.tape.steps.len() - 1
                    });
                    stack.push((inner, 0, skip));
                }
            }
        }
    }

    fn emit_node(&mut self, id: ExprId) {
        self.units[id.index()] = self.is_unit(id);
        let rule = self.rule;
        let ty = rule.arena.ty(id);
        let op = match rule.arena.expr(id) {
            Expr::Var(var) => {
                let reg = self.tape.counts.allocate(ty, false);
                self.regs[id.index()] = Some(reg);
                if *var == Var::Score {
                    self.tape.score = Some(reg);
                } else {
                    self.tape.kv_idx = Some(reg);
                }
                return;
            }
            Expr::Const(_) | Expr::Scalar(_) | Expr::Dim(_) => {
                unreachable!("leaves other than the key and the score are uniform")
            }
            Expr::Load { buffer, index } => {
                let axes: Vec<Axis> = index
                    .iter()
                    .map(|&i| {
                        if self.is_key(i) {
                            Axis::Lanes(self.reg(i))
                        } else {
                            Axis::Uniform(i)
                        }
                    })
                    .collect();
                let mut per_key = index.iter().filter(|i| self.is_key(**i));
                let unit = per_key.next().is_some_and(|i| self.units[i.index()])
                    && per_key.next().is_none();
                Op::Load {
                    buffer: *buffer,
                    axes,
                    unit,
                }
            }
            Expr::Unary { op, arg } => Op::Unary(*op, self.reg(*arg)),
            Expr::Binary { op, lhs, rhs } => Op::Binary(*op, self.reg(*lhs), self.reg(*rhs)),
            Expr::Clamp { arg, lo, hi } => Op::Clamp(self.reg(*arg), self.reg(*lo), self.reg(*hi)),
            Expr::Cast { arg, .. } => Op::Cast(self.reg(*arg)),
            Expr::Select {
                cond,
                then,
                otherwise,
            } => Op::Select(self.reg(*cond), self.reg(*then), self.reg(*otherwise)),
            Expr::Then { first, value } => Op::Then(self.reg(*first), self.reg(*value)),
        };
        let dst = self.tape.counts.allocate(ty, false);
        self.regs[id.index()] = Some(dst);
        self.tape.steps.push(Step::Compute { dst, op });
    }

    /// Whether an integer node goes up by one from key to key, wherever it is not poisoned.
    fn is_unit(&self, id: ExprId) -> bool {
        let unit = |id: ExprId| self.units[id.index()];
        match self.rule.arena.expr(id) {
            Expr::Var(var) => *var == Var::KvIdx,
            Expr::Binary { op, lhs, rhs } if self.rule.arena.ty(id).is_int() => match op {
                BinaryOp::Add => {
                    unit(*lhs) && !self.is_key(*rhs) || unit(*rhs) && !self.is_key(*lhs)
                }
                BinaryOp::Sub => unit(*lhs) && !self.is_key(*rhs),
                BinaryOp::Mul
                | BinaryOp::Div
                | BinaryOp::Rem
                | BinaryOp::DivFloor
                | BinaryOp::RemFloor
                | BinaryOp::DivEuclid
                | BinaryOp::RemEuclid
                | BinaryOp::Pow
                | BinaryOp::Powi
                | BinaryOp::Powf
                | BinaryOp::WrappingAdd
                | BinaryOp::WrappingSub
                | BinaryOp::WrappingMul
                | BinaryOp::BitAnd
                | BinaryOp::BitOr
                | BinaryOp::BitXor
                | BinaryOp::Shl
                | BinaryOp::Shr
                | BinaryOp::Min
                | BinaryOp::Max
                | BinaryOp::And
                | BinaryOp::Or
                | BinaryOp::Eq
                | BinaryOp::Ne
                | BinaryOp::Lt
                | BinaryOp::Le
                | BinaryOp::Gt
                | BinaryOp::Ge => false,
            },
            Expr::Cast { to, arg } => *to == Ty::I64 && unit(*arg),
            Expr::Then { value, .. } => unit(*value),
            Expr::Const(_)
            | Expr::Scalar(_)
            | Expr::Dim(_)
            | Expr::Load { .. }
            | Expr::Unary { .. }
            | Expr::Binary { .. }
            | Expr::Clamp { .. }
            | Expr::Select { .. } => false,
        }
    }
}

/// From this much work on, it pays to ask whether any key needs it.
const SKIP_FROM: u64 = 4;

/// What decides whether a region is needed at a key.
#[derive(Clone, Copy)]
struct Guard {
    cond: ExprId,
    needed: bool,
}

enum Item {
    Node(ExprId),
    Region(usize),
}

/// The tree of regions: one for each guarded side of a lazy operator, holding the nodes that nothing outside reads.
struct Regions {
    guards: Vec<Option<Guard>>,
    items: Vec<Vec<Item>>,
    weights: Vec<u64>,
}

impl Regions {
    fn new(rule: &Rule, live: &[bool], levels: &[Level]) -> Regions {
        let is_key = |id: ExprId| levels[id.index()] == Level::Key;
        let mut guards: Vec<Option<Guard>> = vec![None];
        // Parent and depth.
        let mut tree = vec![(0, 0u32)];
        let mut region_of: Vec<Option<usize>> = vec![None; rule.arena.len()];
        let mut owned: Vec<Vec<usize>> = vec![Vec::new(); rule.arena.len()];
        region_of[rule.root.index()] = Some(0);
        // Users before operands, so that a node's region is known once it is reached.
        for id in rule.arena.ids().rev() {
            if !live[id.index()] || !is_key(id) {
                continue;
            }
            let here = region_of[id.index()].expect("a live node per key has a user per key");
            let mut place = |operand: ExprId, region: usize| {
                if is_key(operand) {
                    let known = &mut region_of[operand.index()];
                    *known = Some(known.map_or(region, |known| common(&tree, known, region)));
                }
            };
            let sides = guarded_sides(rule.arena.expr(id));
            rule.arena.expr(id).for_each_operand(|operand| {
                if sides.iter().flatten().all(|(side, _)| *side != operand) {
                    place(operand, here);
                }
            });
            if let Some(cond) = condition(rule.arena.expr(id)) {
                // A side may be the condition itself.
                place(cond, here);
            }
            for (side, guard) in sides.into_iter().flatten() {
                if !is_key(side) {
                    continue;
                }
                let region = tree.len();
                tree.push((here, tree[here].1 + 1));
                guards.push(Some(guard));
                owned[id.index()].push(region);
                let known = &mut region_of[side.index()];
                *known = Some(known.map_or(region, |known| common(&tree, known, region)));
            }
        }
        let mut items: Vec<Vec<Item>> = (0..tree.len()).map(|_| Vec::new()).collect();
        let mut weights = vec![0u64; tree.len()];
        for id in rule.arena.ids() {
            let Some(here) = region_of[id.index()] else {
                continue;
            };
            items[here].extend(owned[id.index()].iter().map(|&inner| Item::Region(inner)));
            items[here].push(Item::Node(id));
            weights[here] += weight(rule.arena.expr(id));
        }
        // Inner regions have greater numbers than those around them.
        for region in (1..tree.len()).rev() {
            weights[tree[region].0] += weights[region];
        }
        Regions {
            guards,
            items,
            weights,
        }
    }
}

/// The innermost region around both.
fn common(tree: &[(usize, u32)], mut a: usize, mut b: usize) -> usize {
    while a != b {
        if tree[a].1 < tree[b].1 {
            b = tree[b].0;
        } else {
            a = tree[a].0;
        }
    }
    a
}

fn condition(expr: &Expr) -> Option<ExprId> {
    match expr {
        Expr::Binary {
            op: BinaryOp::And | BinaryOp::Or,
            lhs,
            ..
        } => Some(*lhs),
        Expr::Select { cond, .. } => Some(*cond),
        Expr::Const(_)
        | Expr::Var(_)
        | Expr::Scalar(_)
        | Expr::Dim(_)
        | Expr::Load { .. }
        | Expr::Unary { .. }
        | Expr::Binary { .. }
        | Expr::Clamp { .. }
        | Expr::Cast { .. }
        | Expr::Then { .. } => None,
    }
}

/// The operands that a lazy operator may leave alone, each with what decides it.
fn guarded_sides(expr: &Expr) -> [Option<(ExprId, Guard)>; 2] {
    let side = |cond: ExprId, needed: bool, side: ExprId| Some((side, Guard { cond, needed }));
    match expr {
        Expr::Binary {
            op: BinaryOp::And,
            lhs,
            rhs,
        } => [side(*lhs, true, *rhs), None],
        Expr::Binary {
            op: BinaryOp::Or,
            lhs,
            rhs,
        } => [side(*lhs, false, *rhs), None],
        Expr::Select {
            cond,
            then,
            otherwise,
        } => [side(*cond, true, *then), side(*cond, false, *otherwise)],
        Expr::Const(_)
        | Expr::Var(_)
        | Expr::Scalar(_)
        | Expr::Dim(_)
        | Expr::Load { .. }
        | Expr::Unary { .. }
        | Expr::Binary { .. }
        | Expr::Clamp { .. }
        | Expr::Cast { .. }
        | Expr::Then { .. } => [None, None],
    }
}

/// Roughly what a node costs, in steps over 128 lanes.
fn weight(expr: &Expr) -> u64 {
    match expr {
        Expr::Const(_) | Expr::Var(_) | Expr::Scalar(_) | Expr::Dim(_) => 0,
        Expr::Load { .. } => 2,
        Expr::Unary {
            op: UnaryOp::Math(_),
            ..
        } => 16,
        Expr::Binary {
            op:
                BinaryOp::Div
                | BinaryOp::Rem
                | BinaryOp::DivFloor
                | BinaryOp::RemFloor
                | BinaryOp::DivEuclid
                | BinaryOp::RemEuclid
                | BinaryOp::Pow
                | BinaryOp::Powi
                | BinaryOp::Powf,
            ..
        } => 8,
        Expr::Unary { .. }
        | Expr::Binary { .. }
        | Expr::Clamp { .. }
        | Expr::Cast { .. }
        | Expr::Select { .. }
        | Expr::Then { .. } => 1,
    }
}
