//! Runs a tape: uniform nodes when the call, head or query changes, steps for each 128 keys.

use super::lanes::{File, LANES, Lanes, Reg};
use super::load;
use super::ops;
use super::tape::{Level, Op, Root, Step, Tape};
use crate::capture::Bindings;
use crate::eval::Sizes;
use crate::eval::scalar;
use crate::ir::{BinaryOp, Const, Expr, ExprId, Rule, Var};

/// The scratch of one running evaluation.
#[derive(Debug)]
pub(super) struct State {
    file: File,
    /// Uniform nodes by arena position; `None` where the scalar interpreter would fail.
    values: Vec<Option<Const>>,
    /// The `(b, h, q_idx)` that they are of.
    query: Option<(i32, i32, i32)>,
    /// 1 at the lanes that hold a key of the row.
    active: Lanes<u8>,
    n_active: usize,
    fault: Lanes<u8>,
}

impl State {
    pub(super) fn new(tape: &Tape, rule: &Rule, bindings: &Bindings, sizes: Sizes) -> State {
        let mut state = State {
            file: File::new(tape.counts),
            values: vec![None; rule.arena.len()],
            query: None,
            active: [1; LANES],
            n_active: LANES,
            fault: [0; LANES],
        };
        let nowhere = (0, 0, 0);
        state.compute_level(tape, Level::Call, rule, bindings, sizes, nowhere);
        state
    }

    /// Moves to a row.
    pub(super) fn enter(
        &mut self,
        tape: &Tape,
        rule: &Rule,
        bindings: &Bindings,
        sizes: Sizes,
        query: (i32, i32, i32),
    ) {
        if self.query == Some(query) {
            return;
        }
        if self.query.map(|(b, h, _)| (b, h)) != Some((query.0, query.1)) {
            self.compute_level(tape, Level::Head, rule, bindings, sizes, query);
        }
        self.compute_level(tape, Level::Query, rule, bindings, sizes, query);
        self.query = Some(query);
    }

    fn compute_level(
        &mut self,
        tape: &Tape,
        level: Level,
        rule: &Rule,
        bindings: &Bindings,
        sizes: Sizes,
        query: (i32, i32, i32),
    ) {
        let uniform = &tape.uniform[level as usize];
        for &id in &uniform.nodes {
            self.values[id.index()] = compute(rule, bindings, sizes, query, &self.values, id);
        }
        for &(id, reg) in &uniform.broadcast {
            let value = self.values[id.index()];
            self.file.poison_all(reg, value.is_none());
            match value {
                Some(Const::Bool(v)) => self.file.bools[reg.slot].fill(u8::from(v)),
                Some(Const::I32(v)) => self.file.i32s[reg.slot].fill(v),
                Some(Const::I64(v)) => self.file.i64s[reg.slot].fill(v),
                Some(Const::U32(v)) => self.file.u32s[reg.slot].fill(v),
                Some(Const::F32(v)) => self.file.f32s[reg.slot].fill(v),
                None => {}
            }
        }
    }

    /// Computes all steps at the keys `kv_idx..kv_idx + active` of the row.
    pub(super) fn run(
        &mut self,
        tape: &Tape,
        bindings: &Bindings,
        kv_idx: i32,
        active: usize,
        scores: Option<&[f32]>,
    ) {
        if self.n_active != active {
            self.n_active = active;
            self.active.fill(0);
            self.active[..active].fill(1);
        }
        if let Some(reg) = tape.kv_idx {
            let lanes = &mut self.file.i32s[reg.slot];
            for (i, lane) in lanes.iter_mut().enumerate() {
                *lane = kv_idx.wrapping_add(i as i32);
            }
        }
        if let Some(reg) = tape.score {
            let lanes = &mut self.file.f32s[reg.slot];
            lanes.fill(0.0);
            if let Some(scores) = scores {
                lanes[..active].copy_from_slice(scores);
            }
        }
        let mut at = 0;
        while let Some(step) = tape.steps.get(at) {
            at += 1;
            match step {
                Step::Skip { cond, needed, to } => {
                    if !self.any_needs(*cond, *needed) {
                        at = *to;
                    }
                }
                Step::Compute { dst, op } => self.step(bindings, *dst, op),
            }
        }
    }

    fn any_needs(&self, cond: Reg, needed: bool) -> bool {
        let flip = u8::from(!needed);
        let mut any = 0;
        for (cond, active) in self.file.bools[cond.slot].iter().zip(&self.active) {
            any |= (cond ^ flip) & active;
        }
        any != 0
    }

    fn step(&mut self, bindings: &Bindings, dst: Reg, op: &Op) {
        let (file, fault) = (&mut self.file, &mut self.fault);
        match *op {
            Op::Unary(op, arg) => {
                let bad = ops::unary(file, op, arg, dst, fault);
                file.spread(dst, &[arg], bad.then_some(fault));
            }
            Op::Binary(BinaryOp::And, lhs, rhs) => {
                ops::bool_binary(file, BinaryOp::And, lhs, rhs, dst);
                file.spread_chosen(dst, lhs, Some(rhs), None);
            }
            Op::Binary(BinaryOp::Or, lhs, rhs) => {
                ops::bool_binary(file, BinaryOp::Or, lhs, rhs, dst);
                file.spread_chosen(dst, lhs, None, Some(rhs));
            }
            Op::Binary(op, lhs, rhs) => {
                let bad = ops::binary(file, op, lhs, rhs, dst, fault);
                file.spread(dst, &[lhs, rhs], bad.then_some(fault));
            }
            Op::Clamp(arg, lo, hi) => {
                let bad = ops::clamp(file, arg, lo, hi, dst, fault);
                file.spread(dst, &[arg, lo, hi], bad.then_some(fault));
            }
            Op::Cast(arg) => {
                ops::cast(file, arg, dst);
                file.spread(dst, &[arg], None);
            }
            Op::Select(cond, then, otherwise) => {
                ops::select(file, cond, then, otherwise, dst);
                file.spread_chosen(dst, cond, Some(then), Some(otherwise));
            }
            Op::Then(first, value) => {
                ops::copy(file, value, dst);
                file.spread(dst, &[first, value], None);
            }
            Op::Load {
                buffer,
                ref axes,
                unit,
            } => {
                let buffer = bindings.buffer(buffer);
                let bad = load::load(file, &self.values, buffer, axes, unit, dst, fault);
                if bad {
                    load::spread(file, dst, axes, Some(fault));
                } else {
                    load::spread(file, dst, axes, None);
                }
            }
        }
    }

    /// The first active lane at which the rule fails.
    pub(super) fn first_poisoned(&self, tape: &Tape, active: usize) -> Option<usize> {
        match tape.root {
            Root::Uniform(id) => self.values[id.index()].is_none().then_some(0),
            Root::Lanes(reg) => {
                let poison = self.file.poison(reg)?;
                poison[..active].iter().position(|lane| *lane != 0)
            }
        }
    }

    /// Writes the result of a mask as bits.
    pub(super) fn pack(&self, tape: &Tape, active: usize, words: &mut [u64]) {
        match tape.root {
            Root::Uniform(id) => {
                let on = self.values[id.index()] == Some(Const::Bool(true));
                words.fill(if on { u64::MAX } else { 0 });
            }
            Root::Lanes(reg) => {
                let lanes = &self.file.bools[reg.slot];
                for (word, lanes) in words.iter_mut().zip(lanes.chunks_exact(64)) {
                    *word = pack_word(lanes);
                }
            }
        }
        for (k, word) in words.iter_mut().enumerate() {
            let used = active.saturating_sub(64 * k);
            if used < 64 {
                *word &= (1 << used) - 1;
            }
        }
    }

    /// Writes the result of a `score_mod`.
    pub(super) fn copy_scores(&self, tape: &Tape, scores: &mut [f32]) {
        match tape.root {
            Root::Uniform(id) => {
                let Some(Const::F32(value)) = self.values[id.index()] else {
                    unreachable!("the root of a score_mod is f32, and was not poisoned")
                };
                scores.fill(value);
            }
            Root::Lanes(reg) => {
                scores.copy_from_slice(&self.file.f32s[reg.slot][..scores.len()]);
            }
        }
    }
}

/// 64 bytes, each 0 or 1, as bits.
fn pack_word(lanes: &[u8]) -> u64 {
    let mut word = 0;
    for (k, eight) in lanes.chunks_exact(8).enumerate() {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(eight);
        // The multiplication moves bit 0 of byte i to bit 56 + i; no two products meet.
        let bits = u64::from_le_bytes(bytes).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        word |= bits << (8 * k);
    }
    word
}

/// A uniform node from its operands; `None` where the scalar interpreter would fail.
fn compute(
    rule: &Rule,
    bindings: &Bindings,
    sizes: Sizes,
    (b, h, q_idx): (i32, i32, i32),
    values: &[Option<Const>],
    id: ExprId,
) -> Option<Const> {
    let value = |id: ExprId| values[id.index()];
    let chosen = |cond: Const, on: ExprId, off: ExprId| {
        value(if cond == Const::Bool(true) { on } else { off })
    };
    match rule.arena.expr(id) {
        Expr::Const(value) => Some(*value),
        Expr::Var(var) => Some(Const::I32(match var {
            Var::B => b,
            Var::H => h,
            Var::QIdx => q_idx,
            Var::QLen => sizes.q_len,
            Var::KvLen => sizes.kv_len,
            Var::Batch => sizes.batch,
            Var::NumQHeads => sizes.num_q_heads,
            Var::KvIdx | Var::Score => unreachable!("the key and the score are not uniform"),
        })),
        Expr::Scalar(slot) => Some(bindings.scalar(*slot)),
        Expr::Dim(dim) => Some(Const::I32(bindings.dims[dim.index()])),
        Expr::Load { buffer, index } => {
            let buffer = bindings.buffer(*buffer);
            let mut few = [0; 8];
            if let Some(at) = few.get_mut(..index.len()) {
                for (at, i) in at.iter_mut().zip(index) {
                    *at = value(*i)?.as_int()?;
                }
                return buffer.load(at);
            }
            let at: Option<Vec<i64>> = index.iter().map(|i| value(*i)?.as_int()).collect();
            buffer.load(&at?)
        }
        Expr::Unary { op, arg } => scalar::unary(*op, value(*arg)?).ok(),
        Expr::Binary {
            op: BinaryOp::And,
            lhs,
            rhs,
        } => chosen(value(*lhs)?, *rhs, *lhs),
        Expr::Binary {
            op: BinaryOp::Or,
            lhs,
            rhs,
        } => chosen(value(*lhs)?, *lhs, *rhs),
        Expr::Binary { op, lhs, rhs } => scalar::binary(*op, value(*lhs)?, value(*rhs)?).ok(),
        Expr::Clamp { arg, lo, hi } => scalar::clamp(value(*arg)?, value(*lo)?, value(*hi)?).ok(),
        Expr::Cast { to, arg } => Some(scalar::cast(*to, value(*arg)?)),
        Expr::Select {
            cond,
            then,
            otherwise,
        } => chosen(value(*cond)?, *then, *otherwise),
        Expr::Then { first, value: last } => {
            value(*first)?;
            value(*last)
        }
    }
}
