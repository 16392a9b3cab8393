//! Float functions of the language.
#![allow(
    missing_docs,
    reason = "placeholder of the module that is being written"
)]
pub fn exp(x: f32) -> f32 {
    x.exp()
}
pub fn exp2(x: f32) -> f32 {
    x.exp2()
}
pub fn ln(x: f32) -> f32 {
    x.ln()
}
pub fn log2(x: f32) -> f32 {
    x.log2()
}
pub fn log10(x: f32) -> f32 {
    x.log10()
}
pub fn tanh(x: f32) -> f32 {
    x.tanh()
}
pub fn sqrt(x: f32) -> f32 {
    x.sqrt()
}
pub fn sin(x: f32) -> f32 {
    x.sin()
}
pub fn cos(x: f32) -> f32 {
    x.cos()
}
pub fn tan(x: f32) -> f32 {
    x.tan()
}
pub fn erf(x: f32) -> f32 {
    x
}
pub fn floor(x: f32) -> f32 {
    x.floor()
}
pub fn ceil(x: f32) -> f32 {
    x.ceil()
}
pub fn round(x: f32) -> f32 {
    x.round()
}
pub fn trunc(x: f32) -> f32 {
    x.trunc()
}
pub fn signum(x: f32) -> f32 {
    x.signum()
}
pub fn powi(x: f32, n: i32) -> f32 {
    x.powi(n)
}
pub fn powf(x: f32, y: f32) -> f32 {
    x.powf(y)
}
pub fn min(x: f32, y: f32) -> f32 {
    x.min(y)
}
pub fn max(x: f32, y: f32) -> f32 {
    x.max(y)
}
