//! The functions that compiled rules call: the float functions of the language, row-wise, so that every bit is the
//! interpreter's.

use std::slice;

use maskwright_codegen::back::cranelift::Callee;
use maskwright_dsl::ir::MathFn;
use maskwright_dsl::math;

/// Address of the function that a compiled rule calls.
pub(super) fn address(callee: Callee) -> *const u8 {
    match callee {
        Callee::Math(f) => in_place(f) as *const u8,
        Callee::Rem => rem as *const u8,
        Callee::Powf => powf as *const u8,
        Callee::Powi => powi as *const u8,
        Callee::PowInt => pow_int as *const u8,
    }
}

type InPlace = unsafe extern "C" fn(*mut f32, u64);

fn in_place(f: MathFn) -> InPlace {
    macro_rules! rows {
        ($($name:ident),*) => {{
            $(
                unsafe extern "C" fn $name(x: *mut f32, n: u64) {
                    // SAFETY: compiled code passes `n` values on its own stack.
                    let x = unsafe { slice::from_raw_parts_mut(x, n as usize) };
                    for x in x {
                        *x = math::$name(*x);
                    }
                }
            )*
            match f {
                MathFn::Exp => exp,
                MathFn::Exp2 => exp2,
                MathFn::Ln => ln,
                MathFn::Log2 => log2,
                MathFn::Log10 => log10,
                MathFn::Tanh => tanh,
                MathFn::Sqrt => sqrt,
                MathFn::Sin => sin,
                MathFn::Cos => cos,
                MathFn::Tan => tan,
                MathFn::Erf => erf,
                MathFn::Floor => floor,
                MathFn::Ceil => ceil,
                MathFn::Round => round,
                MathFn::Trunc => trunc,
            }
        }};
    }
    rows!(
        exp, exp2, ln, log2, log10, tanh, sqrt, sin, cos, tan, erf, floor, ceil, round, trunc
    )
}

/// The values that compiled code passes by address: what is changed in place, and what is only read.
///
/// # Safety
/// Both addresses hold `n` values, apart from each other, for as long as the slices live.
unsafe fn rows<'a, T>(x: *mut f32, y: *const T, n: u64) -> (&'a mut [f32], &'a [T]) {
    let n = n as usize;
    // SAFETY: the caller's promise.
    unsafe { (slice::from_raw_parts_mut(x, n), slice::from_raw_parts(y, n)) }
}

unsafe extern "C" fn rem(x: *mut f32, y: *const f32, n: u64) {
    // SAFETY: compiled code passes `n` values in each of two slots on its own stack.
    let (x, y) = unsafe { rows(x, y, n) };
    for (x, y) in x.iter_mut().zip(y) {
        *x %= y;
    }
}

unsafe extern "C" fn powf(x: *mut f32, y: *const f32, n: u64) {
    // SAFETY: compiled code passes `n` values in each of two slots on its own stack.
    let (x, y) = unsafe { rows(x, y, n) };
    for (x, y) in x.iter_mut().zip(y) {
        *x = math::powf(*x, *y);
    }
}

unsafe extern "C" fn powi(x: *mut f32, y: *const i32, n: u64) {
    // SAFETY: compiled code passes `n` values in each of two slots on its own stack.
    let (x, y) = unsafe { rows(x, y, n) };
    for (x, y) in x.iter_mut().zip(y) {
        *x = math::powi(*x, *y);
    }
}

extern "C" fn pow_int(x: i64, y: i64) -> i64 {
    // A negative exponent comes only from a cell that a guard excludes.
    x.wrapping_pow(u32::try_from(y).unwrap_or(0))
}
