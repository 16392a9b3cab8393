//! The register file of the row interpreter: 128 values of one type, and which of them are poisoned.

use crate::ir::Ty;

/// Keys that are evaluated at once.
pub(super) const LANES: usize = 128;

/// One value per key; a `bool` is a byte, 0 or 1.
pub(super) type Lanes<T> = [T; LANES];

/// Where a node's values stand. Of registers of one type, an operand's slot is less than that of its users.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reg {
    /// Which pool.
    pub(super) ty: Ty,
    /// Position in the pool of that type.
    pub(super) slot: usize,
    /// Position among the poison masks, which all types share.
    pub(super) poison: usize,
    /// Whether all lanes are equal in every chunk.
    pub(super) uniform: bool,
}

/// How many registers of each type a tape needs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    i32s: usize,
    u32s: usize,
    i64s: usize,
    f32s: usize,
    bools: usize,
    all: usize,
}

impl Counts {
    /// The next register of a type.
    pub(super) fn allocate(&mut self, ty: Ty, uniform: bool) -> Reg {
        let count = match ty {
            Ty::Bool => &mut self.bools,
            Ty::I32 => &mut self.i32s,
            Ty::I64 => &mut self.i64s,
            Ty::U32 => &mut self.u32s,
            Ty::F32 => &mut self.f32s,
        };
        let reg = Reg {
            ty,
            slot: *count,
            poison: self.all,
            uniform,
        };
        *count += 1;
        self.all += 1;
        reg
    }
}

/// All registers.
#[derive(Debug)]
pub(super) struct File {
    pub(super) i32s: Vec<Lanes<i32>>,
    pub(super) u32s: Vec<Lanes<u32>>,
    pub(super) i64s: Vec<Lanes<i64>>,
    pub(super) f32s: Vec<Lanes<f32>>,
    pub(super) bools: Vec<Lanes<u8>>,
    /// Lanes at which the scalar interpreter would fail, where `poisoned` says that there are any.
    poison: Vec<Lanes<u8>>,
    poisoned: Vec<bool>,
}

impl File {
    pub(super) fn new(counts: Counts) -> Self {
        Self {
            i32s: vec![[0; LANES]; counts.i32s],
            u32s: vec![[0; LANES]; counts.u32s],
            i64s: vec![[0; LANES]; counts.i64s],
            f32s: vec![[0.0; LANES]; counts.f32s],
            bools: vec![[0; LANES]; counts.bools],
            poison: vec![[0; LANES]; counts.all],
            poisoned: vec![false; counts.all],
        }
    }

    /// The poisoned lanes of a register, if there are any.
    pub(super) fn poison(&self, reg: Reg) -> Option<&Lanes<u8>> {
        self.poisoned[reg.poison].then(|| &self.poison[reg.poison])
    }

    /// Poisons all lanes of a register, or none.
    pub(super) fn poison_all(&mut self, reg: Reg, poisoned: bool) {
        self.poisoned[reg.poison] = poisoned;
        self.poison[reg.poison].fill(u8::from(poisoned));
    }

    /// Poisons `dst` where an operand is, and at the lanes of `fault`.
    pub(super) fn spread(&mut self, dst: Reg, operands: &[Reg], fault: Option<&Lanes<u8>>) {
        let mut any = fault.is_some();
        for operand in operands {
            any |= self.poisoned[operand.poison];
        }
        self.poisoned[dst.poison] = any;
        if !any {
            return;
        }
        let mut all = fault.copied().unwrap_or([0; LANES]);
        for operand in operands {
            if let Some(poison) = self.poison(*operand) {
                for i in 0..LANES {
                    all[i] |= poison[i];
                }
            }
        }
        self.poison[dst.poison] = all;
    }

    /// Poisons `dst` where the condition is, and where the side that it takes is: `on` at true, `off` at false.
    pub(super) fn spread_chosen(&mut self, dst: Reg, cond: Reg, on: Option<Reg>, off: Option<Reg>) {
        self.spread(dst, &[cond], None);
        for (side, taken) in [(on, 1), (off, 0)] {
            let Some(poison) = side.and_then(|side| self.poison(side)).copied() else {
                continue;
            };
            if !self.poisoned[dst.poison] {
                self.poison[dst.poison].fill(0);
                self.poisoned[dst.poison] = true;
            }
            let cond = &self.bools[cond.slot];
            let all = &mut self.poison[dst.poison];
            for i in 0..LANES {
                all[i] |= poison[i] & u8::from(cond[i] == taken);
            }
        }
    }
}

/// A type that lanes hold, with its pool.
pub(super) trait Lane: Copy + Default {
    /// The registers of this type.
    fn pool(file: &mut File) -> &mut Vec<Lanes<Self>>;
}

impl Lane for i32 {
    fn pool(file: &mut File) -> &mut Vec<Lanes<i32>> {
        &mut file.i32s
    }
}

impl Lane for u32 {
    fn pool(file: &mut File) -> &mut Vec<Lanes<u32>> {
        &mut file.u32s
    }
}

impl Lane for i64 {
    fn pool(file: &mut File) -> &mut Vec<Lanes<i64>> {
        &mut file.i64s
    }
}

impl Lane for f32 {
    fn pool(file: &mut File) -> &mut Vec<Lanes<f32>> {
        &mut file.f32s
    }
}

impl Lane for u8 {
    fn pool(file: &mut File) -> &mut Vec<Lanes<u8>> {
        &mut file.bools
    }
}

/// A number, which compares into a `bool`: its pool, and that of the results.
pub(super) trait Number: Lane + PartialOrd {
    /// The registers of this type, and those of `bool`.
    fn with_bools(file: &mut File) -> (&[Lanes<Self>], &mut [Lanes<u8>]);
}

impl Number for i32 {
    fn with_bools(file: &mut File) -> (&[Lanes<i32>], &mut [Lanes<u8>]) {
        (&file.i32s, &mut file.bools)
    }
}

impl Number for u32 {
    fn with_bools(file: &mut File) -> (&[Lanes<u32>], &mut [Lanes<u8>]) {
        (&file.u32s, &mut file.bools)
    }
}

impl Number for i64 {
    fn with_bools(file: &mut File) -> (&[Lanes<i64>], &mut [Lanes<u8>]) {
        (&file.i64s, &mut file.bools)
    }
}

impl Number for f32 {
    fn with_bools(file: &mut File) -> (&[Lanes<f32>], &mut [Lanes<u8>]) {
        (&file.f32s, &mut file.bools)
    }
}
