//! The functions outside that lowered code may call.

use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{AbiParam, Signature};
use cranelift_codegen::isa::CallConv;
use maskwright_dsl::ir::MathFn;

/// A function that lowered code calls: an operation that has no instruction.
///
/// All but [`Callee::PowInt`] work in place on `n` values in memory, so that one call serves a whole step of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Callee {
    /// `fn(x: *mut f32, n: u64)`: each `x` becomes `f(x)`.
    Math(MathFn),
    /// `fn(x: *mut f32, y: *const f32, n: u64)`: each `x` becomes `x % y`.
    Rem,
    /// `fn(x: *mut f32, y: *const f32, n: u64)`: each `x` becomes `x.powf(y)`.
    Powf,
    /// `fn(x: *mut f32, y: *const i32, n: u64)`: each `x` becomes `x.powi(y)`.
    Powi,
    /// `fn(x: i64, y: i64) -> i64`: `x` to the power `y`, modulo 2^64; anything for a negative `y`.
    PowInt,
}

impl Callee {
    /// Every function; its position here is its index in the name that the IR refers to it by.
    pub const ALL: [Callee; 14] = [
        Callee::Math(MathFn::Exp),
        Callee::Math(MathFn::Exp2),
        Callee::Math(MathFn::Ln),
        Callee::Math(MathFn::Log2),
        Callee::Math(MathFn::Log10),
        Callee::Math(MathFn::Tanh),
        Callee::Math(MathFn::Sin),
        Callee::Math(MathFn::Cos),
        Callee::Math(MathFn::Tan),
        Callee::Math(MathFn::Erf),
        Callee::Rem,
        Callee::Powf,
        Callee::Powi,
        Callee::PowInt,
    ];

    /// Position in [`Callee::ALL`].
    pub fn index(self) -> u32 {
        let at = Callee::ALL.iter().position(|callee| *callee == self);
        at.expect("functions with an instruction are never called") as u32
    }

    /// A name that no other symbol has.
    pub fn symbol(self) -> String {
        match self {
            Callee::Math(f) => format!("maskwright_{}", f.name()),
            Callee::Rem => "maskwright_rem".to_owned(),
            Callee::Powf => "maskwright_powf".to_owned(),
            Callee::Powi => "maskwright_powi".to_owned(),
            Callee::PowInt => "maskwright_pow_int".to_owned(),
        }
    }

    /// Parameters and result.
    pub fn signature(self, call_conv: CallConv) -> Signature {
        let mut signature = Signature::new(call_conv);
        let params: &[_] = match self {
            Callee::Rem | Callee::Powf | Callee::Powi => &[I64, I64, I64],
            Callee::Math(_) | Callee::PowInt => &[I64, I64],
        };
        signature.params = params.iter().map(|ty| AbiParam::new(*ty)).collect();
        if self == Callee::PowInt {
            signature.returns.push(AbiParam::new(I64));
        }
        signature
    }

    /// The function that computes `f`, unless an instruction does.
    pub(super) fn of_math(f: MathFn) -> Option<Callee> {
        match f {
            MathFn::Exp
            | MathFn::Exp2
            | MathFn::Ln
            | MathFn::Log2
            | MathFn::Log10
            | MathFn::Tanh
            | MathFn::Sin
            | MathFn::Cos
            | MathFn::Tan
            | MathFn::Erf => Some(Callee::Math(f)),
            MathFn::Sqrt | MathFn::Floor | MathFn::Ceil | MathFn::Round | MathFn::Trunc => None,
        }
    }
}
