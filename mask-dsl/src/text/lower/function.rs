//! The built-in functions: written `f(x, y)` or `x.f(y)`.

use crate::ir::{BinaryOp, Const, Expr, MathFn, Ty, TypeError, UnaryOp};

use super::super::ast::{self, Loc, Name, Reduction};
use super::{Lowering, Val};

/// What a built-in function computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Unary(UnaryOp),
    /// Of two values of one type.
    Binary(BinaryOp),
    /// Of a number and an exponent of its own type.
    Power(BinaryOp),
    Clamp,
}

const UNARY: [UnaryOp; 3] = [UnaryOp::Abs, UnaryOp::Signum, UnaryOp::WrappingNeg];

const BINARY: [BinaryOp; 9] = [
    BinaryOp::Min,
    BinaryOp::Max,
    BinaryOp::DivFloor,
    BinaryOp::RemFloor,
    BinaryOp::DivEuclid,
    BinaryOp::RemEuclid,
    BinaryOp::WrappingAdd,
    BinaryOp::WrappingSub,
    BinaryOp::WrappingMul,
];

const POWERS: [BinaryOp; 3] = [BinaryOp::Pow, BinaryOp::Powi, BinaryOp::Powf];

fn unary_name(op: UnaryOp) -> &'static str {
    match op {
        UnaryOp::Not => "!",
        UnaryOp::Neg => "-",
        UnaryOp::WrappingNeg => "wrapping_neg",
        UnaryOp::Abs => "abs",
        UnaryOp::Signum => "signum",
        UnaryOp::Math(function) => function.name(),
    }
}

/// The names of all built-in functions.
pub(super) fn built_ins() -> impl Iterator<Item = &'static str> {
    let unary = UNARY.into_iter().map(unary_name);
    let binary = BINARY.into_iter().chain(POWERS).map(BinaryOp::symbol);
    let math = MathFn::ALL.into_iter().map(MathFn::name);
    let reductions = [Reduction::Any, Reduction::All, Reduction::Sum].map(Reduction::name);
    unary
        .chain(binary)
        .chain(math)
        .chain(["clamp"])
        .chain(reductions)
}

pub(super) fn is_built_in(name: &str) -> bool {
    built_ins().any(|other| other == name)
}

fn function(name: &str) -> Option<Function> {
    let unary = UNARY.into_iter().find(|op| unary_name(*op) == name);
    let binary = BINARY.into_iter().find(|op| op.symbol() == name);
    let power = POWERS.into_iter().find(|op| op.symbol() == name);
    let math = MathFn::ALL.into_iter().find(|f| f.name() == name);
    unary
        .map(Function::Unary)
        .or(binary.map(Function::Binary))
        .or(power.map(Function::Power))
        .or(math.map(|f| Function::Unary(UnaryOp::Math(f))))
        .or((name == "clamp").then_some(Function::Clamp))
}

impl Lowering<'_> {
    /// The value of a built-in function; `None` if there is none of that name.
    pub(super) fn built_in(
        &mut self,
        name: &Name,
        of: Option<Ty>,
        args: &[&ast::Expr],
        expected: Option<Ty>,
        loc: Loc,
    ) -> Option<Val> {
        let function = function(&name.text)?;
        let count = match function {
            Function::Unary(_) => 1,
            Function::Binary(_) | Function::Power(_) => 2,
            Function::Clamp => 3,
        };
        if args.len() != count {
            self.fault(
                "argument-count",
                format!(
                    "`{}` takes {count} argument{}, found {}",
                    name.text,
                    if count == 1 { "" } else { "s" },
                    args.len()
                ),
                loc,
            );
            for arg in args {
                self.expr(arg, expected);
            }
            return Some(Val::Error);
        }
        let expected = of.or(expected);
        let value = match function {
            Function::Unary(op) => {
                let hint = match op {
                    UnaryOp::Math(_) => Some(Ty::F32),
                    UnaryOp::Not
                    | UnaryOp::Neg
                    | UnaryOp::WrappingNeg
                    | UnaryOp::Abs
                    | UnaryOp::Signum => expected,
                };
                let arg = self.expr(args[0], hint);
                let arg = self.of_type(arg, of, args[0].loc);
                self.unary(op, arg, args[0].loc, loc)
            }
            Function::Binary(op) => {
                let (lhs, rhs) = self.pair(args[0], args[1], expected);
                let lhs = self.of_type(lhs, of, args[0].loc);
                self.binary_of(op, (lhs, args[0].loc), (rhs, args[1].loc), loc)
            }
            Function::Power(op) => {
                let base_hint = if op == BinaryOp::Pow {
                    expected
                } else {
                    Some(Ty::F32)
                };
                let exponent_hint = match op {
                    BinaryOp::Powi => Ty::I32,
                    BinaryOp::Powf => Ty::F32,
                    _ => Ty::U32,
                };
                let lhs = self.expr(args[0], base_hint);
                let lhs = self.of_type(lhs, of, args[0].loc);
                let rhs = self.expr(args[1], Some(exponent_hint));
                self.binary_of(op, (lhs, args[0].loc), (rhs, args[1].loc), loc)
            }
            Function::Clamp => self.clamp(args, of, expected, loc),
        };
        Some(value)
    }

    fn of_type(&mut self, value: Val, of: Option<Ty>, loc: Loc) -> Val {
        match of {
            Some(ty) => self.expect_ty(value, ty, loc, "as the first argument"),
            None => value,
        }
    }

    fn clamp(
        &mut self,
        args: &[&ast::Expr],
        of: Option<Ty>,
        expected: Option<Ty>,
        loc: Loc,
    ) -> Val {
        let (arg, lo) = self.pair(args[0], args[1], expected);
        let arg = self.of_type(arg, of, args[0].loc);
        let ty = self.ty(arg).or(self.ty(lo));
        let hi = self.expr(args[2], ty);
        let (Some(ty), Val::Node(arg)) = (self.ty(arg), arg) else {
            return Val::Error;
        };
        let lo = self.expect_ty(lo, ty, args[1].loc, "as the lower bound");
        let hi = self.expect_ty(hi, ty, args[2].loc, "as the upper bound");
        let (Val::Node(lo), Val::Node(hi)) = (lo, hi) else {
            return Val::Error;
        };
        match self.intern(Expr::Clamp { arg, lo, hi }, None, loc) {
            Ok(value) => value,
            Err(error) => {
                self.takes("clamp", &error, args[0].loc);
                Val::Error
            }
        }
    }

    /// `op arg`.
    pub(super) fn unary(&mut self, op: UnaryOp, arg: Val, arg_loc: Loc, loc: Loc) -> Val {
        let Val::Node(arg) = arg else {
            return Val::Error;
        };
        if op == UnaryOp::Neg
            && let Some(Const::F32(value)) = self.arena.as_const(arg)
        {
            return self.constant(Const::F32(-value), loc);
        }
        match self.intern(Expr::Unary { op, arg }, None, loc) {
            Ok(value) => value,
            Err(error) => {
                self.takes(unary_name(op), &error, arg_loc);
                Val::Error
            }
        }
    }

    /// Reports an operand of a type that the operator does not take.
    pub(super) fn takes(&mut self, op: &str, error: &TypeError, loc: Loc) {
        let message = format!("`{op}` takes {}, found `{}`", error.expected, error.found);
        let found = Ty::from_name(&error.found);
        let help = match (error.expected.as_str(), found) {
            ("f32", Some(from)) if op != "f32" => self.cast_help(from, Ty::F32, loc),
            ("a signed number", Some(Ty::U32)) => Some(if op == "-" {
                "write `x.wrapping_neg()`, or convert with `as i64`".to_owned()
            } else {
                "convert with `as i64`".to_owned()
            }),
            ("an integer", Some(Ty::F32)) if op == "pow" => {
                Some("a float has `powi` and `powf`".to_owned())
            }
            ("a number" | "an integer" | "a signed number", Some(Ty::Bool)) => Some(
                "a bool becomes 0 or 1 with `as i32`; bools combine with `&&`, `||` and `!`"
                    .to_owned(),
            ),
            ("bool", Some(from)) => self.cast_help(from, Ty::Bool, loc),
            _ => None,
        };
        match help {
            Some(help) => self.fault_help("type-mismatch", message, loc, help),
            None => self.fault("type-mismatch", message, loc),
        }
    }
}
