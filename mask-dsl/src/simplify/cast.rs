//! Rules for casts.

use super::{Expr, ExprId, Simplifier, Ty};

impl Simplifier {
    pub(super) fn cast(&mut self, to: Ty, arg: ExprId) -> ExprId {
        // x as its own type
        if self.arena.ty(arg) == to {
            return arg;
        }
        if let Some(value) = self.arena.as_const(arg) {
            return self.arena.constant(crate::eval::cast(to, value));
        }
        // x as i64 as i32 and x as u32 as i32 of an i32: wrapping there and back changes nothing
        if let Expr::Cast { arg: original, .. } = *self.arena.expr(arg) {
            let through = self.arena.ty(arg);
            let from = self.arena.ty(original);
            let integers = from.is_int() && through.is_int() && to.is_int();
            if integers && to.bits() <= through.bits() {
                return self.cast(to, original);
            }
        }
        self.arena.known(&Expr::Cast { to, arg })
    }
}
