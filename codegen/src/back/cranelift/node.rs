//! One node of a rule as code: as a scalar, or as the lanes of four neighbouring keys.

use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::types::{F32, F32X4, I8, I32, I32X4, I64};
use cranelift_codegen::ir::{Type, Value};
use maskwright_dsl::ir::{BinaryOp, Expr, ExprId, Ty, UnaryOp};

use super::callee::Callee;
use super::division::divides;
use super::emit::{Emitter, Lanes};
use super::facts::lane_call;
use super::layout::CaptureSlots;

impl Emitter<'_, '_> {
    /// Emits a node as a scalar. Variables that depend on the cell are set by whoever starts a cell.
    pub(super) fn emit_scalar(&mut self, id: ExprId) {
        if self.scalars[id.index()].is_some() {
            return;
        }
        let ty = self.ty(id);
        let value = match self.rule.arena.expr(id) {
            Expr::Const(value) => self.constant(*value),
            Expr::Var(var) => {
                let slot = self.layout.size(*var).expect("indices are set beforehand");
                self.arg(I32, slot)
            }
            Expr::Dim(dim) => self.arg(I32, self.layout.dim(*dim)),
            Expr::Scalar(capture) => match self.layout.capture(*capture) {
                CaptureSlots::Scalar(slot) => self.arg(scalar_type(ty), *slot),
                CaptureSlots::Buffer(_) => {
                    unreachable!("bindings are checked: a scalar slot holds a scalar")
                }
            },
            Expr::Load { .. } => self.load_scalar(id),
            Expr::Unary { op, arg } => {
                let v = self.scalar(*arg);
                match self.unary_value(*op, ty, v) {
                    Some(value) => value,
                    None => self.call_scalar(id, &[v], &[]),
                }
            }
            Expr::Binary { op, lhs, rhs } => {
                let (a, b) = (self.scalar(*lhs), self.scalar(*rhs));
                let operand = self.ty(*lhs);
                if let BinaryOp::Shl | BinaryOp::Shr = op {
                    self.shift_value(*op, operand, a, b)
                } else if divides(*op, operand) {
                    self.divide_scalar(*op, operand, a, b)
                } else if *op == BinaryOp::Pow {
                    self.power_scalar(operand, self.ty(*rhs), a, b)
                } else {
                    match self.binary_value(*op, operand, a, b) {
                        Some(value) => value,
                        None => self.call_scalar(id, &[a], &[b]),
                    }
                }
            }
            Expr::Clamp { arg, lo, hi } => {
                let (v, lo, hi) = (self.scalar(*arg), self.scalar(*lo), self.scalar(*hi));
                self.clamp_value(ty, v, lo, hi)
            }
            Expr::Cast { to, arg } => {
                let v = self.scalar(*arg);
                self.cast_scalar(self.ty(*arg), *to, v)
            }
            Expr::Select {
                cond,
                then,
                otherwise,
            } => {
                let cond = self.scalar(*cond);
                let (then, otherwise) = (self.scalar(*then), self.scalar(*otherwise));
                self.builder.ins().select(cond, then, otherwise)
            }
            Expr::Then { value, .. } => self.scalar(*value),
        };
        self.scalars[id.index()] = Some(value);
    }

    fn call_scalar(&mut self, id: ExprId, first: &[Value], second: &[Value]) -> Value {
        let callee = lane_call(&self.rule.arena, id)
            .expect("what has no instruction is computed by a function");
        self.call_in_place(callee, first, second)[0]
    }

    fn power_scalar(&mut self, ty: Ty, exponents: Ty, base: Value, exponent: Value) -> Value {
        let wide = self.cast_scalar(ty, Ty::I64, base);
        let exponent = self.cast_scalar(exponents, Ty::I64, exponent);
        let power = self.call(Callee::PowInt, &[wide, exponent]);
        self.cast_scalar(Ty::I64, ty, power)
    }

    /// Emits calls that compute a node for all groups at once.
    pub(super) fn emit_call_lanes(&mut self, id: ExprId, callee: Callee) {
        let (first, second) = match self.rule.arena.expr(id) {
            Expr::Binary { lhs, rhs, .. } => (*lhs, Some(*rhs)),
            Expr::Unary { arg, .. } => (*arg, None),
            Expr::Const(_)
            | Expr::Var(_)
            | Expr::Scalar(_)
            | Expr::Dim(_)
            | Expr::Load { .. }
            | Expr::Clamp { .. }
            | Expr::Cast { .. }
            | Expr::Select { .. }
            | Expr::Then { .. } => unreachable!("functions have one or two operands"),
        };
        let all = |this: &Self, id: ExprId| -> Vec<Value> {
            (0..this.groups.len())
                .map(|group| this.lanes(group, id).four())
                .collect()
        };
        let x = all(self, first);
        let y = second.map_or_else(Vec::new, |id| all(self, id));
        for (group, value) in self.call_in_place(callee, &x, &y).into_iter().enumerate() {
            self.groups[group][id.index()] = Some(Lanes::Four(value));
        }
    }

    /// Emits a node for one group of four keys.
    pub(super) fn emit_lanes(&mut self, id: ExprId, group: usize) {
        if self.groups[group][id.index()].is_some() {
            return;
        }
        let ty = self.ty(id);
        let lanes = match self.rule.arena.expr(id) {
            Expr::Const(_) | Expr::Var(_) | Expr::Scalar(_) | Expr::Dim(_) => {
                unreachable!("the key and the score are set beforehand, other leaves are splats")
            }
            Expr::Load { .. } => self.load_gathered(id, group),
            Expr::Unary { op, arg } => {
                let v = self.lanes(group, *arg);
                self.unary_lanes(*op, ty, v)
            }
            Expr::Binary { op, lhs, rhs } => {
                let (a, b) = (self.lanes(group, *lhs), self.lanes(group, *rhs));
                let operand = self.ty(*lhs);
                if let BinaryOp::Shl | BinaryOp::Shr = op {
                    self.shift_lanes(*op, *lhs, *rhs, a, b)
                } else if divides(*op, operand) {
                    let divisor = self.rule.arena.as_const(*rhs);
                    self.divide_lanes(*op, operand, a, b, divisor)
                } else if *op == BinaryOp::Pow {
                    let exponents = self.ty(*rhs);
                    let operands = [(operand, a), (exponents, b)];
                    self.per_lane(ty, operands, |this, [base, exponent]| {
                        this.power_scalar(operand, exponents, base, exponent)
                    })
                } else {
                    self.binary_lanes(*op, operand, a, b)
                }
            }
            Expr::Clamp { arg, lo, hi } => {
                let [v, lo, hi] = [*arg, *lo, *hi].map(|id| self.lanes(group, id));
                self.zip([v, lo, hi], |this, [v, lo, hi]| {
                    this.clamp_value(ty, v, lo, hi)
                })
            }
            Expr::Cast { to, arg } => {
                let v = self.lanes(group, *arg);
                self.cast_lanes(self.ty(*arg), *to, v)
            }
            Expr::Select {
                cond,
                then,
                otherwise,
            } => {
                let cond = self.lanes(group, *cond);
                let cond = if ty == Ty::I64 {
                    self.widen_mask(cond)
                } else {
                    cond
                };
                let (then, otherwise) = (self.lanes(group, *then), self.lanes(group, *otherwise));
                self.zip([cond, then, otherwise], |this, [cond, then, otherwise]| {
                    this.blend(cond, then, otherwise)
                })
            }
            Expr::Then { value, .. } => self.lanes(group, *value),
        };
        self.groups[group][id.index()] = Some(lanes);
    }

    /// Applies an operation of vectors to all vectors of its operands.
    fn zip<const N: usize>(
        &mut self,
        operands: [Lanes; N],
        mut f: impl FnMut(&mut Self, [Value; N]) -> Value,
    ) -> Lanes {
        match operands[0] {
            Lanes::Four(_) => Lanes::Four(f(self, operands.map(Lanes::four))),
            Lanes::Pair(_) => {
                Lanes::Pair([0, 1].map(|half| f(self, operands.map(|v| v.pair()[half]))))
            }
        }
    }

    fn unary_lanes(&mut self, op: UnaryOp, ty: Ty, v: Lanes) -> Lanes {
        self.zip([v], |this, [v]| {
            this.unary_value(op, ty, v)
                .expect("what has no instruction is called for all groups at once")
        })
    }

    fn binary_lanes(&mut self, op: BinaryOp, ty: Ty, a: Lanes, b: Lanes) -> Lanes {
        let result = self.zip([a, b], |this, [a, b]| {
            this.binary_value(op, ty, a, b)
                .expect("what has no instruction is lowered elsewhere")
        });
        if op.is_comparison() {
            self.narrow(result)
        } else {
            result
        }
    }

    fn shift_lanes(&mut self, op: BinaryOp, v: ExprId, by: ExprId, a: Lanes, b: Lanes) -> Lanes {
        let ty = self.ty(v);
        if !self.facts.level[by.index()].varies() {
            let amount = self.scalar(by);
            return self.zip([a], |this, [v]| this.shift_value(op, ty, v, amount));
        }
        let operands = [(ty, a), (self.ty(by), b)];
        self.per_lane(ty, operands, |this, [v, amount]| {
            this.shift_value(op, ty, v, amount)
        })
    }

    /// The low halves of 64-bit lanes, as 32-bit ones; masks stay masks.
    fn narrow(&mut self, lanes: Lanes) -> Lanes {
        match lanes {
            Lanes::Four(_) => lanes,
            Lanes::Pair(v) => Lanes::Four(self.shuffle(v[0], v[1], [0, 2, 4, 6])),
        }
    }

    fn widen_mask(&mut self, mask: Lanes) -> Lanes {
        self.widen(Ty::I32, mask)
    }

    fn widen(&mut self, from: Ty, lanes: Lanes) -> Lanes {
        let v = lanes.four();
        if from == Ty::U32 {
            let low = self.builder.ins().uwiden_low(v);
            return Lanes::Pair([low, self.builder.ins().uwiden_high(v)]);
        }
        let low = self.builder.ins().swiden_low(v);
        Lanes::Pair([low, self.builder.ins().swiden_high(v)])
    }

    fn cast_lanes(&mut self, from: Ty, to: Ty, lanes: Lanes) -> Lanes {
        match (from, to) {
            (_, Ty::Bool)
            | (Ty::F32, Ty::F32)
            | (Ty::I64, Ty::I64)
            | (Ty::I32 | Ty::U32, Ty::I32 | Ty::U32) => lanes,
            (Ty::Bool, Ty::I32 | Ty::U32) => Lanes::Four(self.ushr(lanes.four(), 31)),
            (Ty::Bool, Ty::I64) => {
                let wide = self.widen_mask(lanes).pair();
                Lanes::Pair(wide.map(|v| self.ushr(v, 63)))
            }
            (Ty::Bool, Ty::F32) => {
                let one = self.int(I32X4, i64::from(1f32.to_bits()));
                let bits = self.builder.ins().band(lanes.four(), one);
                Lanes::Four(self.cast_bits(F32X4, bits))
            }
            (Ty::I32 | Ty::U32, Ty::I64) => self.widen(from, lanes),
            (Ty::I64, Ty::I32 | Ty::U32) => self.narrow(lanes),
            (Ty::I32, Ty::F32) => {
                Lanes::Four(self.builder.ins().fcvt_from_sint(F32X4, lanes.four()))
            }
            (Ty::U32, Ty::F32) => {
                Lanes::Four(self.builder.ins().fcvt_from_uint(F32X4, lanes.four()))
            }
            (Ty::F32, Ty::I32) => {
                Lanes::Four(self.builder.ins().fcvt_to_sint_sat(I32X4, lanes.four()))
            }
            (Ty::F32, Ty::U32) => {
                Lanes::Four(self.builder.ins().fcvt_to_uint_sat(I32X4, lanes.four()))
            }
            (Ty::I64, Ty::F32) | (Ty::F32, Ty::I64) => {
                self.per_lane(to, [(from, lanes)], |this, [v]| {
                    this.cast_scalar(from, to, v)
                })
            }
        }
    }
}

/// How a scalar of the language lies in a register.
pub(super) fn scalar_type(ty: Ty) -> Type {
    match ty {
        Ty::Bool => I8,
        Ty::I32 | Ty::U32 => I32,
        Ty::I64 => I64,
        Ty::F32 => F32,
    }
}
