//! Reads of captured buffers: one element, four neighbours, or four elements gathered.
//!
//! Where a guard excludes a cell its index may be anything, so the index of a guarded read is first brought into the
//! buffer; the value that is read there reaches no result. Other reads are proved in range.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F32, F32X4, F64, F64X2, I8X16, I16X8, I32, I32X4, I64, I64X2};
use cranelift_codegen::ir::{InstBuilder, Value};
use maskwright_dsl::ir::{CaptureId, Elem, Expr, ExprId, Ty};

use super::emit::{Emitter, Lanes, memory};
use super::facts::Access;
use super::layout::{AxisSlots, unit_stride};

impl<'a> Emitter<'a, '_> {
    fn read(&self, id: ExprId) -> (CaptureId, &'a [ExprId]) {
        match self.rule.arena.expr(id) {
            Expr::Load { buffer, index } => (*buffer, index),
            Expr::Const(_)
            | Expr::Var(_)
            | Expr::Scalar(_)
            | Expr::Dim(_)
            | Expr::Unary { .. }
            | Expr::Binary { .. }
            | Expr::Clamp { .. }
            | Expr::Cast { .. }
            | Expr::Select { .. }
            | Expr::Then { .. } => unreachable!("only reads are lowered as reads"),
        }
    }

    fn elem(&self, buffer: CaptureId) -> Elem {
        self.layout.buffer(buffer).elem
    }

    /// Emits the part of a read's address that does not depend on the key; for packed bits a bit position.
    pub(super) fn emit_base(&mut self, id: ExprId) {
        let (buffer, index) = self.read(id);
        let slots = self.layout.buffer(buffer);
        let start = if slots.elem == Elem::Bits {
            slots.bit_offset
        } else {
            slots.address
        };
        let mut base = self.arg(I64, start);
        for (&i, axis) in index.iter().zip(&slots.axes) {
            if !self.facts.level[i.index()].varies() {
                let scalar = self.scalar(i);
                base = self.step_to(id, base, i, scalar, *axis);
            }
        }
        self.bases[id.index()] = Some(base);
    }

    /// Adds an index of type `ty(i)` along an axis to an address.
    fn step_to(
        &mut self,
        read: ExprId,
        base: Value,
        i: ExprId,
        scalar: Value,
        axis: AxisSlots,
    ) -> Value {
        let mut wide = self.widen_index(self.ty(i), scalar);
        if !self.facts.certain[read.index()] {
            // Unsigned, so that negative indices become the last one too.
            let last = self.arg(I64, axis.last);
            wide = self.builder.ins().umin(wide, last);
        }
        let stride = self.arg(I64, axis.stride);
        let offset = self.builder.ins().imul(wide, stride);
        self.builder.ins().iadd(base, offset)
    }

    fn widen_index(&mut self, ty: Ty, v: Value) -> Value {
        match ty {
            Ty::I64 => v,
            Ty::U32 => self.builder.ins().uextend(I64, v),
            Ty::I32 | Ty::Bool | Ty::F32 => self.builder.ins().sextend(I64, v),
        }
    }

    fn base(&self, id: ExprId) -> Value {
        self.bases[id.index()].expect("the base of a read is emitted before the read")
    }

    /// A read of one element, with all indices as scalars.
    pub(super) fn load_scalar(&mut self, id: ExprId) -> Value {
        let (buffer, index) = self.read(id);
        let mut at = self.base(id);
        for (axis, &i) in index.iter().enumerate() {
            if self.facts.level[i.index()].varies() {
                let scalar = self.scalar(i);
                let axis = self.layout.buffer(buffer).axes[axis];
                at = self.step_to(id, at, i, scalar, axis);
            }
        }
        let raw = self.load_raw(buffer, at);
        match self.elem(buffer) {
            Elem::Bool | Elem::Bits => {
                let zero = self.int(I32, 0);
                self.icmp(IntCC::NotEqual, raw, zero)
            }
            Elem::F16 => self.half_to_single(raw),
            Elem::Bf16 => self.bfloat_to_single(raw),
            Elem::I8
            | Elem::U8
            | Elem::I16
            | Elem::U16
            | Elem::I32
            | Elem::I64
            | Elem::U32
            | Elem::F32
            | Elem::F64 => raw,
        }
    }

    /// An element as it is widened by the load itself: bits, bytes and halves in 32 bits.
    fn load_raw(&mut self, buffer: CaptureId, at: Value) -> Value {
        let flags = memory();
        match self.elem(buffer) {
            Elem::Bits => {
                let address = self.layout.buffer(buffer).address;
                let start = self.arg(I64, address);
                let byte = self.ushr(at, 3);
                let address = self.builder.ins().iadd(start, byte);
                let byte = self.builder.ins().uload8(I32, flags, address, 0);
                let bit = self.builder.ins().band_imm_u(at, 7);
                let bits = self.builder.ins().ushr(byte, bit);
                self.builder.ins().band_imm_u(bits, 1)
            }
            Elem::Bool | Elem::U8 => self.builder.ins().uload8(I32, flags, at, 0),
            Elem::I8 => self.builder.ins().sload8(I32, flags, at, 0),
            Elem::I16 => self.builder.ins().sload16(I32, flags, at, 0),
            Elem::U16 | Elem::F16 | Elem::Bf16 => self.builder.ins().uload16(I32, flags, at, 0),
            Elem::I32 | Elem::U32 => self.builder.ins().load(I32, flags, at, 0),
            Elem::I64 => self.builder.ins().load(I64, flags, at, 0),
            Elem::F32 => self.builder.ins().load(F32, flags, at, 0),
            Elem::F64 => {
                let double = self.builder.ins().load(F64, flags, at, 0);
                self.builder.ins().fdemote(F32, double)
            }
        }
    }

    /// Whether neighbours along the last axis of a contiguous read lie next to each other in memory, as a truth value.
    pub(super) fn emit_unit_check(&mut self, id: ExprId) -> Value {
        let (buffer, _) = self.read(id);
        let slots = self.layout.buffer(buffer);
        let axis = slots.axes.last().expect("a stream has an axis");
        let stride = self.arg(I64, axis.stride);
        let unit = self.int(I64, unit_stride(slots.elem));
        self.icmp(IntCC::Equal, stride, unit)
    }

    /// Whether a contiguous read of `n` keys stays in its buffer, as a truth value: `None` where that is proved.
    ///
    /// The scalars must hold for the first key.
    pub(super) fn emit_range_check(&mut self, id: ExprId, n: i64) -> Option<Value> {
        if self.facts.certain[id.index()] {
            return None;
        }
        let (buffer, index) = self.read(id);
        let axis = self.layout.buffer(buffer).axes.last();
        let axis = *axis.expect("a stream has an axis");
        let i = *index.last().expect("a stream has an axis");
        let scalar = self.scalar(i);
        let first = self.widen_index(self.ty(i), scalar);
        let n = self.int(I64, n - 1);
        let (least, greatest) = if self.facts.access[id.index()] == Access::Ascending {
            (first, self.builder.ins().iadd(first, n))
        } else {
            (self.builder.ins().isub(first, n), first)
        };
        let last = self.arg(I64, axis.last);
        let zero = self.int(I64, 0);
        let above = self.icmp(IntCC::SignedLessThanOrEqual, zero, least);
        let below = self.icmp(IntCC::SignedLessThanOrEqual, greatest, last);
        Some(self.builder.ins().band(above, below))
    }

    /// Address (for packed bits, position) of the element at the first key of a step.
    pub(super) fn emit_stream_start(&mut self, id: ExprId) -> Value {
        let (buffer, index) = self.read(id);
        let i = *index.last().expect("a stream has an axis");
        let scalar = self.scalar(i);
        let wide = self.widen_index(self.ty(i), scalar);
        let unit = self.int(I64, unit_stride(self.elem(buffer)));
        let offset = self.builder.ins().imul(wide, unit);
        let base = self.base(id);
        self.builder.ins().iadd(base, offset)
    }

    /// Four neighbours, `group * 4` keys after the first of the step.
    pub(super) fn load_stream(&mut self, id: ExprId, start: Value, group: usize) -> Lanes {
        let (buffer, _) = self.read(id);
        let elem = self.elem(buffer);
        let unit = unit_stride(elem) as i32;
        let descends = self.facts.access[id.index()] == Access::Descending;
        let keys = group as i32 * 4;
        let at = if descends {
            -(keys + 3) * unit
        } else {
            keys * unit
        };
        let raw = self.load_neighbours(buffer, start, at);
        let raw = match raw {
            Lanes::Four(v) if descends => {
                let ty = self.builder.func.dfg.value_type(v);
                let turned = self.shuffle(v, v, [3, 2, 1, 0]);
                Lanes::Four(self.cast_bits(ty, turned))
            }
            Lanes::Pair(v) if descends => Lanes::Pair([v[1], v[0]].map(|v| {
                let turned = self.shuffle(v, v, [2, 3, 0, 1]);
                self.cast_bits(I64X2, turned)
            })),
            Lanes::Four(_) | Lanes::Pair(_) => raw,
        };
        self.finish(elem, raw)
    }

    fn load_neighbours(&mut self, buffer: CaptureId, start: Value, at: i32) -> Lanes {
        let flags = memory();
        Lanes::Four(match self.elem(buffer) {
            Elem::Bits => self.load_bits(buffer, start, at),
            elem @ (Elem::Bool | Elem::U8 | Elem::I8) => {
                let bytes = self.builder.ins().load(I32, flags, start, at);
                let bytes = self.builder.ins().scalar_to_vector(I32X4, bytes);
                let bytes = self.cast_bits(I8X16, bytes);
                if elem == Elem::I8 {
                    let halves = self.builder.ins().swiden_low(bytes);
                    self.builder.ins().swiden_low(halves)
                } else {
                    let halves = self.builder.ins().uwiden_low(bytes);
                    self.builder.ins().uwiden_low(halves)
                }
            }
            elem @ (Elem::I16 | Elem::U16 | Elem::F16 | Elem::Bf16) => {
                let halves = self.builder.ins().load(I64, flags, start, at);
                let halves = self.builder.ins().scalar_to_vector(I64X2, halves);
                let halves = self.cast_bits(I16X8, halves);
                if elem == Elem::I16 {
                    self.builder.ins().swiden_low(halves)
                } else {
                    self.builder.ins().uwiden_low(halves)
                }
            }
            Elem::I32 | Elem::U32 => self.builder.ins().load(I32X4, flags, start, at),
            Elem::F32 => self.builder.ins().load(F32X4, flags, start, at),
            Elem::F64 => {
                let singles = [at, at + 16].map(|at| {
                    let doubles = self.builder.ins().load(F64X2, flags, start, at);
                    self.builder.ins().fvdemote(doubles)
                });
                let joined = self.shuffle(singles[0], singles[1], [0, 1, 4, 5]);
                self.cast_bits(F32X4, joined)
            }
            Elem::I64 => {
                return Lanes::Pair(
                    [at, at + 16].map(|at| self.builder.ins().load(I64X2, flags, start, at)),
                );
            }
        })
    }

    /// Four bits from position `start + at`: the bytes of the first and of the last hold them all, and exist.
    fn load_bits(&mut self, buffer: CaptureId, start: Value, at: i32) -> Value {
        let flags = memory();
        let address = self.layout.buffer(buffer).address;
        let bytes = self.arg(I64, address);
        let first = self.builder.ins().iadd_imm_s(start, i64::from(at));
        let last = self.builder.ins().iadd_imm_s(first, 3);
        let [low, high] = [first, last].map(|bit| {
            let byte = self.ushr(bit, 3);
            let address = self.builder.ins().iadd(bytes, byte);
            self.builder.ins().uload8(I32, flags, address, 0)
        });
        let high = self.ishl(high, 8);
        let both = self.builder.ins().bor(low, high);
        let shift = self.builder.ins().band_imm_u(first, 7);
        let bits = self.builder.ins().ushr(both, shift);
        let bits = self.builder.ins().splat(I32X4, bits);
        let select = self.quads([1, 2, 4, 8]);
        self.builder.ins().band(bits, select)
    }

    /// A vector of four literals.
    pub(super) fn quads(&mut self, lanes: [i32; 4]) -> Value {
        let bytes: Vec<u8> = lanes.iter().flat_map(|lane| lane.to_le_bytes()).collect();
        let constant = self.builder.func.dfg.constants.insert(bytes.into());
        self.builder.ins().vconst(I32X4, constant)
    }

    /// Four elements wherever they are.
    pub(super) fn load_gathered(&mut self, id: ExprId, group: usize) -> Lanes {
        let (buffer, index) = self.read(id);
        let mut varying = Vec::new();
        for (axis, &i) in index.iter().enumerate() {
            if self.facts.level[i.index()].varies() {
                let lanes = self.lanes(group, i);
                varying.push((i, lanes, self.layout.buffer(buffer).axes[axis]));
            }
        }
        let raw = [0, 1, 2, 3].map(|lane| {
            let mut at = self.base(id);
            for (i, lanes, axis) in &varying {
                let scalar = self.extract(self.ty(*i), *lanes, lane);
                at = self.step_to(id, at, *i, scalar, *axis);
            }
            self.load_raw(buffer, at)
        });
        let elem = self.elem(buffer);
        let ty = match elem {
            Elem::F32 | Elem::F64 => Ty::F32,
            Elem::I64 => Ty::I64,
            Elem::Bool
            | Elem::Bits
            | Elem::I8
            | Elem::U8
            | Elem::I16
            | Elem::U16
            | Elem::I32
            | Elem::U32
            | Elem::F16
            | Elem::Bf16 => Ty::I32,
        };
        let raw = self.gather(ty, raw);
        self.finish(elem, raw)
    }

    fn finish(&mut self, elem: Elem, raw: Lanes) -> Lanes {
        match elem {
            Elem::Bool | Elem::Bits => {
                let zero = self.int(I32X4, 0);
                Lanes::Four(self.icmp(IntCC::NotEqual, raw.four(), zero))
            }
            Elem::F16 => Lanes::Four(self.half_to_single(raw.four())),
            Elem::Bf16 => Lanes::Four(self.bfloat_to_single(raw.four())),
            Elem::I8
            | Elem::U8
            | Elem::I16
            | Elem::U16
            | Elem::I32
            | Elem::I64
            | Elem::U32
            | Elem::F32
            | Elem::F64 => raw,
        }
    }
}
