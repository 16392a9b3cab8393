//! The functions of one argument by name, over one value or a row of them.

use super::{
    ceil, cos, erf, exp, exp2, floor, ln, log2, log10, round, sin, sqrt, tan, tanh, trig, trunc,
};

/// A function of one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MathFn {
    /// [`exp`]
    Exp,
    /// [`exp2`]
    Exp2,
    /// [`ln`]
    Ln,
    /// [`log2`]
    Log2,
    /// [`log10`]
    Log10,
    /// [`tanh`]
    Tanh,
    /// [`sqrt`]
    Sqrt,
    /// [`sin`]
    Sin,
    /// [`cos`]
    Cos,
    /// [`tan`]
    Tan,
    /// [`erf`]
    Erf,
    /// [`floor`]
    Floor,
    /// [`ceil`]
    Ceil,
    /// [`trunc`]
    Trunc,
    /// [`round`]
    Round,
}

impl MathFn {
    /// Every function, in the order of declaration.
    pub const ALL: [Self; 15] = [
        Self::Exp,
        Self::Exp2,
        Self::Ln,
        Self::Log2,
        Self::Log10,
        Self::Tanh,
        Self::Sqrt,
        Self::Sin,
        Self::Cos,
        Self::Tan,
        Self::Erf,
        Self::Floor,
        Self::Ceil,
        Self::Trunc,
        Self::Round,
    ];

    /// The name in the rule language.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exp => "exp",
            Self::Exp2 => "exp2",
            Self::Ln => "ln",
            Self::Log2 => "log2",
            Self::Log10 => "log10",
            Self::Tanh => "tanh",
            Self::Sqrt => "sqrt",
            Self::Sin => "sin",
            Self::Cos => "cos",
            Self::Tan => "tan",
            Self::Erf => "erf",
            Self::Floor => "floor",
            Self::Ceil => "ceil",
            Self::Trunc => "trunc",
            Self::Round => "round",
        }
    }

    /// The function at x.
    #[inline]
    pub fn apply(self, x: f32) -> f32 {
        match self {
            Self::Exp => exp(x),
            Self::Exp2 => exp2(x),
            Self::Ln => ln(x),
            Self::Log2 => log2(x),
            Self::Log10 => log10(x),
            Self::Tanh => tanh(x),
            Self::Sqrt => sqrt(x),
            Self::Sin => sin(x),
            Self::Cos => cos(x),
            Self::Tan => tan(x),
            Self::Erf => erf(x),
            Self::Floor => floor(x),
            Self::Ceil => ceil(x),
            Self::Trunc => trunc(x),
            Self::Round => round(x),
        }
    }
}

/// Replaces each x by f(x), with the bits of the scalar form.
///
/// It is inlined into its caller: an engine with several instruction sets calls it from a function compiled for each.
///
/// ```
/// use maskwright_dsl::math::{MathFn, apply_row, tanh};
/// let mut row = [-1.0, 0.0, 0.25, 30.0];
/// apply_row(MathFn::Tanh, &mut row);
/// assert_eq!(row, [tanh(-1.0), 0.0, tanh(0.25), 1.0]);
/// ```
#[inline(always)]
pub fn apply_row(f: MathFn, xs: &mut [f32]) {
    match f {
        MathFn::Exp => each(xs, exp),
        MathFn::Exp2 => each(xs, exp2),
        MathFn::Ln => each(xs, ln),
        MathFn::Log2 => each(xs, log2),
        MathFn::Log10 => each(xs, log10),
        MathFn::Tanh => each(xs, tanh),
        MathFn::Sqrt => each(xs, sqrt),
        MathFn::Sin => near_then_far(xs, trig::sin_near, trig::sin_far),
        MathFn::Cos => near_then_far(xs, trig::cos_near, trig::cos_far),
        MathFn::Tan => near_then_far(xs, trig::tan_near, trig::tan_far),
        MathFn::Erf => each(xs, erf),
        MathFn::Floor => each(xs, floor),
        MathFn::Ceil => each(xs, ceil),
        MathFn::Trunc => each(xs, trunc),
        MathFn::Round => each(xs, round),
    }
}

/// The plain loop, which becomes vector code because f has no branch.
#[inline(always)]
fn each(xs: &mut [f32], f: impl Fn(f32) -> f32) {
    for x in xs {
        *x = f(*x);
    }
}

/// A loop without a branch as if all arguments were near, then the far ones again where there are any.
#[inline(always)]
fn near_then_far(xs: &mut [f32], near: impl Fn(f32) -> f32, far: impl Fn(f32) -> f32) {
    let is_far = |x: f32| x.abs() > trig::NEAR;
    let mut arguments = [0f32; 64];
    for chunk in xs.chunks_mut(arguments.len()) {
        let arguments = &mut arguments[..chunk.len()];
        arguments.copy_from_slice(chunk);
        each(chunk, &near);
        if arguments.iter().fold(false, |any, &x| any | is_far(x)) {
            for (x, &argument) in chunk.iter_mut().zip(&*arguments) {
                if is_far(argument) {
                    *x = far(argument);
                }
            }
        }
    }
}
