//! Float operations with qualifiers over whole registers: `f32` and `f64` in full, 16-bit formats, single and packed in pairs.

use super::float::{FloatOp, Mode, Width, compute};
use super::{Lanes32, Lanes64};

/// A float instruction on the 32-bit file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FloatInst {
    pub(crate) op: FloatOp,
    pub(crate) width: Width,
    /// Two values to a register.
    pub(crate) packed: bool,
    pub(crate) mode: Mode,
}

impl FloatInst {
    /// Computes the result of every lane that is set in `lanes`.
    pub(crate) fn apply(self, lanes: u32, a: &Lanes32, b: &Lanes32, c: &Lanes32) -> Lanes32 {
        let mut out = [0; 32];
        for (lane, out) in out.iter_mut().enumerate() {
            if lanes >> lane & 1 == 0 {
                continue;
            }
            let at = |shift: u32| {
                let narrow = |x: u32| {
                    if self.width == Width::F32 {
                        u64::from(x)
                    } else {
                        u64::from((x >> shift) as u16)
                    }
                };
                compute(
                    self.op,
                    self.width,
                    self.mode,
                    [narrow(a[lane]), narrow(b[lane]), narrow(c[lane])],
                ) as u32
            };
            *out = if self.packed {
                at(0) | at(16) << 16
            } else {
                at(0)
            };
        }
        out
    }

    /// The same for `f64`.
    pub(crate) fn apply64(self, lanes: u32, a: &Lanes64, b: &Lanes64, c: &Lanes64) -> Lanes64 {
        let mut out = [0; 32];
        for (lane, out) in out.iter_mut().enumerate() {
            if lanes >> lane & 1 == 1 {
                *out = compute(self.op, Width::F64, self.mode, [a[lane], b[lane], c[lane]]);
            }
        }
        out
    }
}
