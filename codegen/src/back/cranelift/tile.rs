//! The loops of a tile: steps of keys in lanes, or single keys where a step does not fit, each over all rows.
//!
//! ```text
//! once per call       what depends on neither q nor kv
//! for each step       if all of it is in the tile, and its reads are contiguous:
//!                         lanes of what depends on kv alone
//!                         for each row: what depends on q, lanes of the rest
//!                     otherwise:
//!                         for each row: what depends on q, the rest key by key
//! ```
//!
//! Steps are the outer loop because most masks compare something of the query with something of the key: either side
//! is then computed about once per row and key, not once per cell.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F32, F32X4, I8X16, I32, I32X4, I64};
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value};
use maskwright_dsl::ir::{Expr, ExprId, RuleKind, Var};

use super::emit::{Emitter, Lanes, memory};
use super::facts::{Access, lane_call};
use crate::levels::Level;

/// Parameters of a lowered function, in order.
pub(super) struct Params {
    pub(super) b: Value,
    pub(super) h: Value,
    pub(super) q0: Value,
    pub(super) n_q: Value,
    pub(super) kv0: Value,
    pub(super) n_kv: Value,
    pub(super) out: Value,
    pub(super) row_bytes: Value,
}

impl Emitter<'_, '_> {
    /// Emits the whole function, from its entry block.
    pub(super) fn emit_tile(&mut self, params: &Params) {
        let start = self.builder.create_block();
        let steps = self.builder.create_block();
        let exit = self.builder.create_block();
        // A tile without cells evaluates nothing, not even what every cell has in common.
        let zero = self.int(I64, 0);
        let rows = self.icmp(IntCC::SignedLessThan, zero, params.n_q);
        let keys = self.icmp(IntCC::SignedLessThan, zero, params.n_kv);
        let cells = self.builder.ins().band(rows, keys);
        self.builder.ins().brif(cells, start, &[], exit, &[]);

        self.builder.switch_to_block(start);
        self.set_var(Var::B, params.b);
        self.set_var(Var::H, params.h);
        self.emit_level(Level::Call);
        let zero = self.int(I64, 0);
        self.builder.ins().jump(steps, &[zero.into()]);

        let key = self.builder.append_block_param(steps, I64);
        let step = self.builder.create_block();
        self.builder.switch_to_block(steps);
        let more = self.icmp(IntCC::SignedLessThan, key, params.n_kv);
        self.builder.ins().brif(more, step, &[], exit, &[]);

        self.builder.switch_to_block(step);
        self.emit_step(params, key, steps);

        self.builder.switch_to_block(exit);
        self.builder.ins().return_(&[]);
        self.builder.seal_all_blocks();
    }

    /// Emits a step: all rows in lanes if it fits, all rows key by key otherwise; then the next step.
    fn emit_step(&mut self, params: &Params, key: Value, steps: Block) {
        let n = self.step();
        let next = self.builder.ins().iadd_imm_s(key, n);
        let key_32 = self.builder.ins().ireduce(I32, key);
        let kv = self.builder.ins().iadd(params.kv0, key_32);
        let mut fits = self.icmp(IntCC::SignedLessThanOrEqual, next, params.n_kv);
        self.start_cell(kv);
        self.emit_firsts(Level::Key);
        let streams = self.streams();
        for id in &streams {
            let unit = self.emit_unit_check(*id);
            fits = self.builder.ins().band(fits, unit);
        }
        fits = self
            .emit_range_checks(&streams, Level::Key, Some(fits))
            .unwrap_or(fits);
        let lanes = self.builder.create_block();
        let singles = self.builder.create_block();
        self.builder.ins().brif(fits, lanes, &[], singles, &[]);

        self.builder.switch_to_block(lanes);
        for group in &mut self.groups {
            group.fill(None);
        }
        let first = self.builder.ins().splat(I32X4, kv);
        self.emit_groups(Level::Key, first, key);
        self.emit_rows(params, next, steps, |this, out, row_end| {
            this.emit_firsts(Level::Cell);
            let fits = this.emit_range_checks(&streams, Level::Cell, None);
            let singles = fits.map(|fits| {
                let lanes = this.builder.create_block();
                let singles = this.builder.create_block();
                this.builder.ins().brif(fits, lanes, &[], singles, &[]);
                this.builder.switch_to_block(lanes);
                singles
            });
            let scores = this.score_address(out, key);
            this.emit_groups(Level::Cell, first, scores);
            this.store_step(key, out, scores);
            this.builder.ins().jump(row_end, &[]);
            if let Some(singles) = singles {
                this.builder.switch_to_block(singles);
                this.emit_singles(params, key, next, out, row_end);
            }
        });

        self.builder.switch_to_block(singles);
        self.emit_rows(params, next, steps, |this, out, row_end| {
            this.emit_singles(params, key, next, out, row_end);
        });
    }

    /// Emits a loop over the rows of the tile, and the jump to the next step.
    ///
    /// `body` gets the address of the row, and leaves to the block that it is given.
    fn emit_rows(
        &mut self,
        params: &Params,
        next: Value,
        steps: Block,
        body: impl FnOnce(&mut Self, Value, Block),
    ) {
        let row = self.builder.create_block();
        let row_end = self.builder.create_block();
        let q = self.builder.append_block_param(row, I32);
        let out = self.builder.append_block_param(row, I64);
        let left = self.builder.append_block_param(row, I64);
        let first = [params.q0.into(), params.out.into(), params.n_q.into()];
        self.builder.ins().jump(row, &first);

        self.builder.switch_to_block(row);
        for id in self.rule.arena.ids() {
            if self.facts.level[id.index()] == Level::Row {
                self.scalars[id.index()] = None;
            }
        }
        self.set_var(Var::QIdx, q);
        self.emit_level(Level::Row);
        body(self, out, row_end);

        self.builder.switch_to_block(row_end);
        let next_q = self.builder.ins().iadd_imm_s(q, 1);
        let next_out = self.builder.ins().iadd(out, params.row_bytes);
        let next_left = self.builder.ins().iadd_imm_s(left, -1);
        let following = [next_q.into(), next_out.into(), next_left.into()];
        self.builder
            .ins()
            .brif(next_left, row, &following, steps, &[next.into()]);
    }

    fn set_var(&mut self, var: Var, value: Value) {
        for id in self.rule.arena.ids() {
            if *self.rule.arena.expr(id) == Expr::Var(var) {
                self.scalars[id.index()] = Some(value);
            }
        }
    }

    fn needed(&self) -> impl Iterator<Item = ExprId> + use<> {
        let needed = self.facts.needed.clone();
        self.rule.arena.ids().filter(move |id| needed[id.index()])
    }

    /// Emits what is computed once per call or row, the lanes made of it, and the fixed parts of addresses.
    fn emit_level(&mut self, level: Level) {
        for id in self.needed() {
            if let Expr::Load { index, .. } = self.rule.arena.expr(id) {
                let fixed = index
                    .iter()
                    .map(|i| self.facts.level[i.index()])
                    .filter(|level| !level.varies())
                    .fold(Level::Call, Level::join);
                if fixed == level {
                    self.emit_base(id);
                }
            }
            if self.facts.level[id.index()] != level {
                continue;
            }
            self.emit_scalar(id);
            if self.facts.splat[id.index()] {
                let scalar = self.scalar(id);
                self.splats[id.index()] = Some(self.splat(self.ty(id), scalar));
            }
        }
    }

    fn step(&self) -> i64 {
        self.groups.len() as i64 * 4
    }

    /// Reads of neighbours that vector code does.
    fn streams(&self) -> Vec<ExprId> {
        self.needed()
            .filter(|id| self.facts.in_lanes[id.index()] && self.is_stream(*id))
            .collect()
    }

    /// Emits the scalars at the first key of a step that contiguous reads start from.
    fn emit_firsts(&mut self, level: Level) {
        for id in self.needed() {
            if self.facts.level[id.index()] == level && self.facts.at_first[id.index()] {
                self.emit_scalar(id);
            }
        }
    }

    /// Joins `fits` with the range checks of the contiguous reads at a level.
    fn emit_range_checks(
        &mut self,
        streams: &[ExprId],
        level: Level,
        mut fits: Option<Value>,
    ) -> Option<Value> {
        for id in streams {
            if self.facts.level[id.index()] != level {
                continue;
            }
            if let Some(inside) = self.emit_range_check(*id, self.step()) {
                fits = Some(match fits {
                    Some(fits) => self.builder.ins().band(fits, inside),
                    None => inside,
                });
            }
        }
        fits
    }

    fn is_stream(&self, id: ExprId) -> bool {
        self.facts.level[id.index()].varies() && self.facts.access[id.index()] != Access::Gather
    }

    /// Forgets the scalars of the last cell and starts another.
    fn start_cell(&mut self, kv: Value) {
        for id in self.rule.arena.ids() {
            if self.facts.level[id.index()].varies() {
                self.scalars[id.index()] = None;
            }
        }
        self.set_var(Var::KvIdx, kv);
    }

    /// Emits all of a cell as scalars.
    fn emit_cell(&mut self) {
        for id in self.needed() {
            if self.facts.level[id.index()].varies() {
                self.emit_scalar(id);
            }
        }
    }

    /// Address of the scores of a key.
    fn score_address(&mut self, out: Value, key: Value) -> Value {
        let offset = self.ishl(key, 2);
        self.builder.ins().iadd(out, offset)
    }

    /// Emits the lanes of all nodes at a level, group by group between calls. `scores` is read at [`Level::Cell`] only.
    fn emit_groups(&mut self, level: Level, first: Value, scores: Value) {
        let n_groups = self.groups.len();
        let ids: Vec<ExprId> = self
            .needed()
            .filter(|id| self.facts.in_lanes[id.index()] && self.facts.level[id.index()] == level)
            .collect();
        let mut starts = vec![None; self.rule.arena.len()];
        for &id in &ids {
            if self.is_stream(id) {
                starts[id.index()] = Some(self.emit_stream_start(id));
            }
        }
        let calls = ids.iter().map(|id| self.facts.rank[id.index()]).max();
        for rank in 0..=calls.unwrap_or(0) {
            for &id in ids.iter().filter(|id| self.facts.rank[id.index()] == rank) {
                if let Some(callee) = lane_call(&self.rule.arena, id) {
                    self.emit_call_lanes(id, callee);
                }
            }
            for group in 0..n_groups {
                for &id in ids.iter().filter(|id| self.facts.rank[id.index()] == rank) {
                    if let Some(start) = starts[id.index()] {
                        let lanes = self.load_stream(id, start, group);
                        self.groups[group][id.index()] = Some(lanes);
                    } else if let Expr::Var(var) = self.rule.arena.expr(id) {
                        let lanes = self.var_lanes(*var, first, scores, group);
                        self.groups[group][id.index()] = Some(lanes);
                    } else {
                        self.emit_lanes(id, group);
                    }
                }
            }
        }
    }

    fn store_step(&mut self, key: Value, out: Value, scores: Value) {
        match self.rule.kind {
            RuleKind::Mask => self.store_bits(key, out),
            RuleKind::Score => {
                let flags = memory();
                for group in 0..self.groups.len() {
                    let value = self.lanes(group, self.rule.root).four();
                    let at = group as i32 * 16;
                    self.builder.ins().store(flags, value, scores, at);
                }
            }
        }
    }

    fn var_lanes(&mut self, var: Var, first: Value, scores: Value, group: usize) -> Lanes {
        match var {
            Var::KvIdx => {
                let at = group as i32 * 4;
                let offsets = self.quads([at, at + 1, at + 2, at + 3]);
                Lanes::Four(self.builder.ins().iadd(first, offsets))
            }
            Var::Score => {
                let flags = memory();
                let at = group as i32 * 16;
                Lanes::Four(self.builder.ins().load(F32X4, flags, scores, at))
            }
            Var::B | Var::H | Var::QIdx | Var::QLen | Var::KvLen | Var::Batch | Var::NumQHeads => {
                unreachable!("only the key and the score differ between lanes")
            }
        }
    }

    /// Packs the masks of a step into bits: 32-bit lanes to bytes, then the sign of each byte.
    fn store_bits(&mut self, key: Value, out: Value) {
        let masks: Vec<Value> = (0..self.groups.len())
            .map(|group| self.lanes(group, self.rule.root).four())
            .collect();
        let bytes = self.ushr(key, 3);
        let address = self.builder.ins().iadd(out, bytes);
        let flags = memory();
        let mut words = Vec::new();
        for four in masks.chunks(4) {
            let halves: Vec<Value> = four
                .chunks(2)
                .map(|two| {
                    let last = *two.last().expect("chunks are not empty");
                    self.builder.ins().snarrow(two[0], last)
                })
                .collect();
            let last = *halves.last().expect("chunks are not empty");
            let packed = self.builder.ins().snarrow(halves[0], last);
            debug_assert_eq!(self.builder.func.dfg.value_type(packed), I8X16);
            words.push(self.builder.ins().vhigh_bits(I32, packed));
        }
        match (words.as_slice(), masks.len()) {
            (&[low, high], 8) => {
                let high = self.ishl(high, 16);
                let word = self.builder.ins().bor(low, high);
                self.builder.ins().store(flags, word, address, 0);
            }
            (&[low], 4) => {
                self.builder.ins().istore16(flags, low, address, 0);
            }
            (&[low], 2) => {
                self.builder.ins().istore8(flags, low, address, 0);
            }
            _ => unreachable!("a step has 8, 16 or 32 keys"),
        }
    }

    /// Emits the loop over keys `key..min(next, n_kv)`, one at a time.
    fn emit_singles(
        &mut self,
        params: &Params,
        key: Value,
        next: Value,
        out: Value,
        row_end: Block,
    ) {
        let end = self.builder.ins().smin(next, params.n_kv);
        let cell = self.builder.create_block();
        let at = self.builder.append_block_param(cell, I64);
        let bits = self.builder.append_block_param(cell, I32);
        let flush = self.builder.create_block();
        let none = self.int(I32, 0);
        let args: [BlockArg; 2] = [key.into(), none.into()];
        self.builder.ins().jump(cell, &args);

        self.builder.switch_to_block(cell);
        let at_32 = self.builder.ins().ireduce(I32, at);
        let kv = self.builder.ins().iadd(params.kv0, at_32);
        self.start_cell(kv);
        let score = self.score_address(out, at);
        let flags = memory();
        if self.rule.kind == RuleKind::Score {
            let value = self.builder.ins().load(F32, flags, score, 0);
            self.set_var(Var::Score, value);
        }
        self.emit_cell();
        let result = self.scalar(self.rule.root);
        let bits = match self.rule.kind {
            RuleKind::Score => {
                self.builder.ins().store(flags, result, score, 0);
                bits
            }
            RuleKind::Mask => {
                let bit = self.builder.ins().uextend(I32, result);
                let shift = self.builder.ins().isub(at, key);
                let bit = self.builder.ins().ishl(bit, shift);
                self.builder.ins().bor(bits, bit)
            }
        };
        let following = self.builder.ins().iadd_imm_s(at, 1);
        let more = self.icmp(IntCC::SignedLessThan, following, end);
        let args: [BlockArg; 2] = [following.into(), bits.into()];
        self.builder.ins().brif(more, cell, &args, flush, &[]);

        self.builder.switch_to_block(flush);
        if self.rule.kind == RuleKind::Mask {
            let bytes = self.ushr(key, 3);
            let address = self.builder.ins().iadd(out, bytes);
            match self.step() {
                32 => {
                    self.builder.ins().store(flags, bits, address, 0);
                }
                16 => {
                    self.builder.ins().istore16(flags, bits, address, 0);
                }
                _ => {
                    self.builder.ins().istore8(flags, bits, address, 0);
                }
            }
        }
        self.builder.ins().jump(row_end, &[]);
    }
}
