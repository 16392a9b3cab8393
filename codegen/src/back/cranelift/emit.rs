//! The state of lowering one rule, and what all parts of it use: constants, memory, calls.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32, F32X4, I8, I8X16, I32, I32X4, I64, I64X2};
use cranelift_codegen::ir::{
    Endianness, ExtFuncData, ExternalName, FuncRef, InstBuilder, MemFlagsData, StackSlot,
    StackSlotData, StackSlotKind, Type, UserExternalName, Value,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::FunctionBuilder;
use maskwright_dsl::ir::{Const, ExprId, Rule, Ty};

use super::callee::Callee;
use super::facts::Facts;
use super::layout::ArgsLayout;

/// One value per key for four neighbouring keys. Truth values are all ones or all zeros.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lanes {
    /// Four lanes of 32 bits.
    Four(Value),
    /// Two and two lanes of 64 bits.
    Pair([Value; 2]),
}

impl Lanes {
    /// The vector of a 32-bit type.
    pub(super) fn four(self) -> Value {
        match self {
            Lanes::Four(v) => v,
            Lanes::Pair(_) => unreachable!("the arena is typed: 64-bit lanes for a 32-bit operand"),
        }
    }

    /// The vectors of a 64-bit type.
    pub(super) fn pair(self) -> [Value; 2] {
        match self {
            Lanes::Pair(v) => v,
            Lanes::Four(_) => unreachable!("the arena is typed: 32-bit lanes for a 64-bit operand"),
        }
    }
}

/// The state of lowering one rule.
pub(super) struct Emitter<'a, 'f> {
    pub(super) builder: FunctionBuilder<'f>,
    pub(super) rule: &'a Rule,
    pub(super) facts: &'a Facts,
    pub(super) layout: &'a ArgsLayout,
    pub(super) call_conv: CallConv,
    /// Address of the table of sizes and captures.
    pub(super) args: Value,
    /// Values of nodes as scalars; those at cell level hold for the key that is being emitted.
    pub(super) scalars: Vec<Option<Value>>,
    /// Values of nodes that are the same for all keys, as lanes.
    pub(super) splats: Vec<Option<Lanes>>,
    /// Values of nodes by group of four keys.
    pub(super) groups: Vec<Vec<Option<Lanes>>>,
    /// Address (and bit) of each read without what depends on the key.
    pub(super) bases: Vec<Option<Value>>,
    callees: [Option<FuncRef>; Callee::ALL.len()],
    slots: [Option<StackSlot>; 2],
}

impl<'a, 'f> Emitter<'a, 'f> {
    pub(super) fn new(
        builder: FunctionBuilder<'f>,
        rule: &'a Rule,
        facts: &'a Facts,
        layout: &'a ArgsLayout,
        call_conv: CallConv,
        args: Value,
        n_groups: usize,
    ) -> Self {
        let n = rule.arena.len();
        Self {
            builder,
            rule,
            facts,
            layout,
            call_conv,
            args,
            scalars: vec![None; n],
            splats: vec![None; n],
            groups: vec![vec![None; n]; n_groups],
            bases: vec![None; n],
            callees: [None; Callee::ALL.len()],
            slots: [None; 2],
        }
    }

    pub(super) fn ty(&self, id: ExprId) -> Ty {
        self.rule.arena.ty(id)
    }

    /// The scalar of a node that has been emitted.
    pub(super) fn scalar(&self, id: ExprId) -> Value {
        self.scalars[id.index()].expect("operands are emitted before what uses them")
    }

    /// The lanes of a node that has been emitted.
    pub(super) fn lanes(&self, group: usize, id: ExprId) -> Lanes {
        self.groups[group][id.index()]
            .or(self.splats[id.index()])
            .expect("operands are emitted before what uses them")
    }

    /// An integer constant of a scalar or vector type; `v` is taken modulo the width.
    pub(super) fn int(&mut self, ty: Type, v: i64) -> Value {
        let lane = ty.lane_type();
        let unused = 64 - lane.bits();
        let bits = ((v as u64) << unused) >> unused;
        let scalar = self.builder.ins().iconst(lane, bits as i64);
        self.spread(ty, scalar)
    }

    /// A float constant of type `F32` or `F32X4`.
    pub(super) fn float(&mut self, ty: Type, v: f32) -> Value {
        let scalar = self.builder.ins().f32const(v);
        self.spread(ty, scalar)
    }

    fn spread(&mut self, ty: Type, scalar: Value) -> Value {
        if ty.is_vector() {
            self.builder.ins().splat(ty, scalar)
        } else {
            scalar
        }
    }

    /// The bits of a vector or scalar as another type of the same width.
    pub(super) fn cast_bits(&mut self, ty: Type, v: Value) -> Value {
        if self.builder.func.dfg.value_type(v) == ty {
            return v;
        }
        let flags = MemFlagsData::new().with_endianness(Endianness::Little);
        self.builder.ins().bitcast(ty, flags, v)
    }

    /// A literal as a scalar.
    pub(super) fn constant(&mut self, value: Const) -> Value {
        match value {
            Const::Bool(v) => self.int(I8, i64::from(v)),
            Const::I32(v) => self.int(I32, i64::from(v)),
            Const::U32(v) => self.int(I32, i64::from(v)),
            Const::I64(v) => self.int(I64, v),
            Const::F32(v) => self.float(F32, v),
        }
    }

    /// Four equal lanes of a scalar of type `ty`.
    pub(super) fn splat(&mut self, ty: Ty, scalar: Value) -> Lanes {
        match ty {
            Ty::Bool => {
                let mask = self.builder.ins().bmask(I32, scalar);
                Lanes::Four(self.builder.ins().splat(I32X4, mask))
            }
            Ty::I32 | Ty::U32 => Lanes::Four(self.builder.ins().splat(I32X4, scalar)),
            Ty::F32 => Lanes::Four(self.builder.ins().splat(F32X4, scalar)),
            Ty::I64 => {
                let half = self.builder.ins().splat(I64X2, scalar);
                Lanes::Pair([half, half])
            }
        }
    }

    /// One lane as a scalar.
    pub(super) fn extract(&mut self, ty: Ty, lanes: Lanes, lane: usize) -> Value {
        match (ty, lanes) {
            (Ty::Bool, Lanes::Four(v)) => {
                let mask = self.builder.ins().extractlane(v, lane as u8);
                let zero = self.int(I32, 0);
                self.builder.ins().icmp(IntCC::NotEqual, mask, zero)
            }
            (Ty::I32 | Ty::U32 | Ty::F32 | Ty::I64, Lanes::Four(v)) => {
                self.builder.ins().extractlane(v, lane as u8)
            }
            (Ty::Bool | Ty::I32 | Ty::U32 | Ty::F32 | Ty::I64, Lanes::Pair(v)) => {
                self.builder.ins().extractlane(v[lane / 2], lane as u8 % 2)
            }
        }
    }

    /// Four scalars of type `ty` as lanes.
    pub(super) fn gather(&mut self, ty: Ty, scalars: [Value; 4]) -> Lanes {
        match ty {
            Ty::Bool => {
                let masks = scalars.map(|v| self.builder.ins().bmask(I32, v));
                Lanes::Four(self.insert(I32X4, &masks))
            }
            Ty::I32 | Ty::U32 => Lanes::Four(self.insert(I32X4, &scalars)),
            Ty::F32 => Lanes::Four(self.insert(F32X4, &scalars)),
            Ty::I64 => Lanes::Pair([
                self.insert(I64X2, &scalars[..2]),
                self.insert(I64X2, &scalars[2..]),
            ]),
        }
    }

    fn insert(&mut self, ty: Type, scalars: &[Value]) -> Value {
        let mut vector = self.builder.ins().scalar_to_vector(ty, scalars[0]);
        for (lane, scalar) in scalars.iter().enumerate().skip(1) {
            vector = self.builder.ins().insertlane(vector, *scalar, lane as u8);
        }
        vector
    }

    /// Computes lanes one after the other, where there is no vector instruction.
    pub(super) fn per_lane<const N: usize>(
        &mut self,
        result: Ty,
        operands: [(Ty, Lanes); N],
        mut f: impl FnMut(&mut Self, [Value; N]) -> Value,
    ) -> Lanes {
        let scalars = [0, 1, 2, 3].map(|lane| {
            let operands = operands.map(|(ty, lanes)| self.extract(ty, lanes, lane));
            f(self, operands)
        });
        self.gather(result, scalars)
    }

    /// Rearranges the 32-bit lanes of two vectors; 0 to 3 are those of `a`, 4 to 7 those of `b`.
    pub(super) fn shuffle(&mut self, a: Value, b: Value, lanes: [u8; 4]) -> Value {
        let a = self.cast_bits(I8X16, a);
        let b = self.cast_bits(I8X16, b);
        let bytes: Vec<u8> = lanes
            .iter()
            .flat_map(|lane| (0..4).map(move |byte| lane * 4 + byte))
            .collect();
        let mask = self.builder.func.dfg.immediates.push(bytes.into());
        let bytes = self.builder.ins().shuffle(a, b, mask);
        self.cast_bits(I32X4, bytes)
    }

    /// `cond ? then : otherwise` lane by lane; `cond` is a mask of the same lane width.
    pub(super) fn blend(&mut self, cond: Value, then: Value, otherwise: Value) -> Value {
        let ty = self.builder.func.dfg.value_type(then);
        if !ty.is_vector() {
            return self.builder.ins().select(cond, then, otherwise);
        }
        let cond = self.cast_bits(ty, cond);
        self.builder.ins().bitselect(cond, then, otherwise)
    }

    pub(super) fn icmp(&mut self, cc: IntCC, a: Value, b: Value) -> Value {
        self.builder.ins().icmp(cc, a, b)
    }

    pub(super) fn fcmp(&mut self, cc: FloatCC, a: Value, b: Value) -> Value {
        self.builder.ins().fcmp(cc, a, b)
    }

    /// A slot of the table of arguments.
    pub(super) fn arg(&mut self, ty: Type, slot: usize) -> Value {
        let flags = MemFlagsData::trusted().with_readonly();
        self.builder
            .ins()
            .load(ty, flags, self.args, slot as i32 * 8)
    }

    /// Calls a function that works in place on values in memory: `n` scalars, or whole lanes.
    pub(super) fn call_in_place(
        &mut self,
        callee: Callee,
        first: &[Value],
        second: &[Value],
    ) -> Vec<Value> {
        let mut params = Vec::with_capacity(3);
        for (which, values) in [first, second].into_iter().enumerate() {
            if values.is_empty() {
                continue;
            }
            let slot = self.slot(which);
            let mut at = 0;
            for value in values {
                self.builder.ins().stack_store(I64, *value, slot, at);
                at += self.builder.func.dfg.value_type(*value).bytes() as i32;
            }
            params.push(self.builder.ins().stack_addr(I64, slot, 0));
        }
        let ty = self.builder.func.dfg.value_type(first[0]);
        let n = first.len() as i64 * i64::from(ty.lane_count());
        params.push(self.builder.ins().iconst(I64, n));
        let function = self.callee(callee);
        self.builder.ins().call(function, &params);
        let slot = self.slot(0);
        (0..first.len())
            .map(|k| {
                let at = k as i32 * ty.bytes() as i32;
                self.builder.ins().stack_load(I64, ty, slot, at)
            })
            .collect()
    }

    /// Calls a function of scalars.
    pub(super) fn call(&mut self, callee: Callee, params: &[Value]) -> Value {
        let function = self.callee(callee);
        let call = self.builder.ins().call(function, params);
        self.builder.inst_results(call)[0]
    }

    fn slot(&mut self, which: usize) -> StackSlot {
        let bytes = 16 * self.groups.len() as u32;
        *self.slots[which].get_or_insert_with(|| {
            self.builder.create_sized_stack_slot(StackSlotData::new(
                StackSlotKind::ExplicitSlot,
                bytes,
                4,
            ))
        })
    }

    fn callee(&mut self, callee: Callee) -> FuncRef {
        let index = callee.index();
        if let Some(function) = self.callees[index as usize] {
            return function;
        }
        let signature = self
            .builder
            .import_signature(callee.signature(self.call_conv));
        let name = self
            .builder
            .func
            .declare_imported_user_function(UserExternalName::new(0, index));
        let function = self.builder.import_function(ExtFuncData {
            name: ExternalName::user(name),
            signature,
            colocated: false,
            patchable: false,
        });
        self.callees[index as usize] = Some(function);
        function
    }
}

/// Memory that the checks of a call have proved to be there, of any alignment.
pub(super) fn memory() -> MemFlagsData {
    MemFlagsData::new()
        .with_notrap()
        .with_endianness(Endianness::Little)
}
