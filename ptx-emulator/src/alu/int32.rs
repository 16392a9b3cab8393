//! Integer operations whose operands and results are 32 bits or fewer.

use super::lane_table;

lane_table! {
    /// Operations on 32-bit registers; a `16` in the name means that the lower half counts, an `x2` that each half does.
    Int32(a: u32, b: u32, c: u32) -> u32 {
        Mov => a,
        Low16 => a & 0xffff,
        High16 => a >> 16,
        Low8 => a & 0xff,
        Pack16 => (a & 0xffff) | (b << 16),
        Pack8 => (a & 0xff) | ((b & 0xff) << 8),
        Byte1 => (a >> 8) & 0xff,
        Byte2 => (a >> 16) & 0xff,
        Byte3 => a >> 24,
        Add => a.wrapping_add(b),
        AddSat => (a as i32).saturating_add(b as i32) as u32,
        Sub => a.wrapping_sub(b),
        SubSat => (a as i32).saturating_sub(b as i32) as u32,
        Add16 => a.wrapping_add(b) & 0xffff,
        Sub16 => a.wrapping_sub(b) & 0xffff,
        Add16x2 => halves(a, b, u16::wrapping_add),
        Sub16x2 => halves(a, b, u16::wrapping_sub),
        MulLo => a.wrapping_mul(b),
        MulHiU => ((u64::from(a) * u64::from(b)) >> 32) as u32,
        MulHiS => ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32,
        MulLo16 => a.wrapping_mul(b) & 0xffff,
        MulHiU16 => low(a).wrapping_mul(low(b)) >> 16,
        MulHiS16 => ((signed16(a) * signed16(b)) >> 16) as u32 & 0xffff,
        MulWideU16 => low(a).wrapping_mul(low(b)),
        MulWideS16 => signed16(a).wrapping_mul(signed16(b)) as u32,
        MadLo => a.wrapping_mul(b).wrapping_add(c),
        MadHiU => (((u64::from(a) * u64::from(b)) >> 32) as u32).wrapping_add(c),
        MadHiS => (((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32).wrapping_add(c),
        MadHiSatS => (((i64::from(a as i32) * i64::from(b as i32)) >> 32) as i32).saturating_add(c as i32) as u32,
        MadLo16 => a.wrapping_mul(b).wrapping_add(c) & 0xffff,
        MadHiU16 => (low(a).wrapping_mul(low(b)) >> 16).wrapping_add(c) & 0xffff,
        MadHiS16 => (((signed16(a) * signed16(b)) >> 16) as u32).wrapping_add(c) & 0xffff,
        MadWideU16 => low(a).wrapping_mul(low(b)).wrapping_add(c),
        MadWideS16 => (signed16(a).wrapping_mul(signed16(b)) as u32).wrapping_add(c),
        Mul24LoU => (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff),
        Mul24LoS => signed24(a).wrapping_mul(signed24(b)) as u32,
        Mul24HiU => ((u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff)) >> 16) as u32,
        Mul24HiS => ((i64::from(signed24(a)) * i64::from(signed24(b))) >> 16) as u32,
        Mad24LoU => (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff).wrapping_add(c),
        Mad24LoS => (signed24(a).wrapping_mul(signed24(b)) as u32).wrapping_add(c),
        Mad24HiU => (((u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff)) >> 16) as u32).wrapping_add(c),
        Mad24HiS => (((i64::from(signed24(a)) * i64::from(signed24(b))) >> 16) as u32).wrapping_add(c),
        SadU => a.abs_diff(b).wrapping_add(c),
        SadS => (a as i32).abs_diff(b as i32).wrapping_add(c),
        SadU16 => low(a).abs_diff(low(b)).wrapping_add(c) & 0xffff,
        SadS16 => signed16(a).abs_diff(signed16(b)).wrapping_add(c) & 0xffff,
        // A division by zero yields all ones, as devices do; the ISA leaves it open.
        DivU => a.checked_div(b).unwrap_or(u32::MAX),
        DivS => if b == 0 { u32::MAX } else { (a as i32).wrapping_div(b as i32) as u32 },
        RemU => a.checked_rem(b).unwrap_or(a),
        RemS => if b == 0 { a } else { (a as i32).wrapping_rem(b as i32) as u32 },
        DivU16 => low(a).checked_div(low(b)).unwrap_or(0xffff),
        DivS16 => if low(b) == 0 { 0xffff } else { (signed16(a) / signed16(b)) as u32 & 0xffff },
        RemU16 => low(a).checked_rem(low(b)).unwrap_or(low(a)),
        RemS16 => if low(b) == 0 { low(a) } else { (signed16(a) % signed16(b)) as u32 & 0xffff },
        Abs => (a as i32).wrapping_abs() as u32,
        Abs16 => signed16(a).unsigned_abs() & 0xffff,
        Neg => a.wrapping_neg(),
        Neg16 => a.wrapping_neg() & 0xffff,
        MinU => a.min(b),
        MinS => (a as i32).min(b as i32) as u32,
        MaxU => a.max(b),
        MaxS => (a as i32).max(b as i32) as u32,
        MinReluS => (a as i32).min(b as i32).max(0) as u32,
        MaxReluS => (a as i32).max(b as i32).max(0) as u32,
        MinU16 => low(a).min(low(b)),
        MinS16 => signed16(a).min(signed16(b)) as u32 & 0xffff,
        MaxU16 => low(a).max(low(b)),
        MaxS16 => signed16(a).max(signed16(b)) as u32 & 0xffff,
        MinU16x2 => halves(a, b, std::cmp::min),
        MaxU16x2 => halves(a, b, std::cmp::max),
        MinS16x2 => halves(a, b, |x, y| (x as i16).min(y as i16) as u16),
        MaxS16x2 => halves(a, b, |x, y| (x as i16).max(y as i16) as u16),
        MinReluS16x2 => halves(a, b, |x, y| (x as i16).min(y as i16).max(0) as u16),
        MaxReluS16x2 => halves(a, b, |x, y| (x as i16).max(y as i16).max(0) as u16),
        Popc => a.count_ones(),
        Clz => a.leading_zeros(),
        Brev => a.reverse_bits(),
        BfindU => find(a),
        BfindS => find(if (a as i32) < 0 { !a } else { a }),
        BfindShiftU => a.leading_zeros() | ones_if(a == 0),
        BfindShiftS => { let a = if (a as i32) < 0 { !a } else { a }; a.leading_zeros() | ones_if(a == 0) },
        Fns => nth_set(a, b, c),
        BfeU => extract(a, b, c),
        BfeS => extract_signed(a, b, c),
        BmskClamp => mask_at(a, b.min(32)),
        BmskWrap => mask_at(a & 31, b & 31),
        SzextClampU => if b >= 32 { a } else { a & !(u32::MAX << b) },
        SzextClampS => if b >= 32 { a } else { sign_extend(a, b) },
        SzextWrapU => a & !(u32::MAX << (b & 31)),
        SzextWrapS => sign_extend(a, b & 31),
        And => a & b,
        Or => a | b,
        Xor => a ^ b,
        Not => !a,
        Not16 => !a & 0xffff,
        Cnot => u32::from(a == 0),
        Shl => if b > 31 { 0 } else { a << b },
        Shl16 => if b > 15 { 0 } else { (a << b) & 0xffff },
        ShrU => if b > 31 { 0 } else { a >> b },
        ShrS => ((a as i32) >> b.min(31)) as u32,
        ShrU16 => if b > 15 { 0 } else { low(a) >> b },
        ShrS16 => (signed16(a) >> b.min(15)) as u32 & 0xffff,
        ShfLClamp => funnel_left(a, b, c.min(32)),
        ShfLWrap => funnel_left(a, b, c & 31),
        ShfRClamp => funnel_right(a, b, c.min(32)),
        ShfRWrap => funnel_right(a, b, c & 31),
        Prmt => permute(a, b, c),
        PrmtF4e => bytes(a, b, |i| i + (c & 3)),
        PrmtB4e => bytes(a, b, |i| (8 + (c & 3) - i) & 7),
        PrmtRc8 => bytes(a, b, |_| c & 3),
        PrmtEcl => bytes(a, b, |i| i.max(c & 3)),
        PrmtEcr => bytes(a, b, |i| i.min(c & 3)),
        PrmtRc16 => bytes(a, b, |i| (i & 1) + 2 * (c & 1)),
        Dp4aUU => dot(a, b, c, i32::from, i32::from),
        Dp4aUS => dot(a, b, c, i32::from, |x| i32::from(x as i8)),
        Dp4aSU => dot(a, b, c, |x| i32::from(x as i8), i32::from),
        Dp4aSS => dot(a, b, c, |x| i32::from(x as i8), |x| i32::from(x as i8)),
        Dp2aLoUU => dot2(low(a) as i32, (a >> 16) as i32, b, c, i32::from),
        Dp2aLoUS => dot2(low(a) as i32, (a >> 16) as i32, b, c, |x| i32::from(x as i8)),
        Dp2aLoSU => dot2(signed16(a), signed16(a >> 16), b, c, i32::from),
        Dp2aLoSS => dot2(signed16(a), signed16(a >> 16), b, c, |x| i32::from(x as i8)),
        Dp2aHiUU => dot2(low(a) as i32, (a >> 16) as i32, b >> 16, c, i32::from),
        Dp2aHiUS => dot2(low(a) as i32, (a >> 16) as i32, b >> 16, c, |x| i32::from(x as i8)),
        Dp2aHiSU => dot2(signed16(a), signed16(a >> 16), b >> 16, c, i32::from),
        Dp2aHiSS => dot2(signed16(a), signed16(a >> 16), b >> 16, c, |x| i32::from(x as i8)),
        Slct => if (c as i32) >= 0 { a } else { b },
        SlctF32 => { let c = f32::from_bits(c); if c >= 0.0 { a } else { b } },
        SlctF32Ftz => { let c = f32::from_bits(c); if c > -f32::MIN_POSITIVE { a } else { b } },
        SignExtend8 => a as i8 as u32,
        SignExtend8To16 => a as i8 as u32 & 0xffff,
        SignExtend16 => a as i16 as u32,
    }
}

fn low(a: u32) -> u32 {
    a & 0xffff
}

fn signed16(a: u32) -> i32 {
    i32::from(a as i16)
}

fn signed24(a: u32) -> i32 {
    ((a << 8) as i32) >> 8
}

fn ones_if(condition: bool) -> u32 {
    if condition { u32::MAX } else { 0 }
}

fn halves(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    u32::from(f(a as u16, b as u16)) | u32::from(f((a >> 16) as u16, (b >> 16) as u16)) << 16
}

fn find(a: u32) -> u32 {
    31u32.wrapping_sub(a.leading_zeros()) | ones_if(a == 0)
}

/// The position of the `offset`-th set bit, counted from bit `base` upwards or, where the offset is negative, downwards.
fn nth_set(mask: u32, base: u32, offset: u32) -> u32 {
    let offset = offset as i32;
    let base = base & 31;
    if offset == 0 {
        return if mask >> base & 1 == 1 {
            base
        } else {
            u32::MAX
        };
    }
    let mut left = offset.unsigned_abs();
    let mut position = base as i32;
    while (0..32).contains(&position) {
        if mask >> position & 1 == 1 {
            left -= 1;
            if left == 0 {
                return position as u32;
            }
        }
        position += offset.signum();
    }
    u32::MAX
}

fn extract(a: u32, position: u32, length: u32) -> u32 {
    let (position, length) = (position & 0xff, length & 0xff);
    let shifted = if position > 31 { 0 } else { a >> position };
    if length > 31 {
        shifted
    } else {
        shifted & !(u32::MAX << length)
    }
}

fn extract_signed(a: u32, position: u32, length: u32) -> u32 {
    let (position, length) = (position & 0xff, length & 0xff);
    if length == 0 {
        return 0;
    }
    let sign = a >> (position + length - 1).min(31) & 1;
    let field = extract(a, position, length);
    let width = length.min(32u32.saturating_sub(position));
    if sign == 1 && width < 32 {
        field | (u32::MAX << width)
    } else {
        field
    }
}

fn mask_at(position: u32, width: u32) -> u32 {
    let ones = if width > 31 {
        u32::MAX
    } else {
        !(u32::MAX << width)
    };
    if position > 31 { 0 } else { ones << position }
}

fn sign_extend(a: u32, width: u32) -> u32 {
    if width == 0 {
        0
    } else {
        (((a << (32 - width)) as i32) >> (32 - width)) as u32
    }
}

fn funnel_left(low: u32, high: u32, n: u32) -> u32 {
    ((((u64::from(high) << 32) | u64::from(low)) << n) >> 32) as u32
}

fn funnel_right(low: u32, high: u32, n: u32) -> u32 {
    (((u64::from(high) << 32) | u64::from(low)) >> n) as u32
}

fn permute(a: u32, b: u32, selector: u32) -> u32 {
    let pair = (u64::from(b) << 32) | u64::from(a);
    let mut out = 0;
    for i in 0..4 {
        let control = selector >> (4 * i);
        let byte = (pair >> (8 * (control & 7))) as u8;
        let byte = if control & 8 == 0 {
            byte
        } else {
            ((byte as i8) >> 7) as u8
        };
        out |= u32::from(byte) << (8 * i);
    }
    out
}

fn bytes(a: u32, b: u32, source: impl Fn(u32) -> u32) -> u32 {
    let pair = (u64::from(b) << 32) | u64::from(a);
    (0..4)
        .map(|i| u32::from((pair >> (8 * (source(i) & 7))) as u8) << (8 * i))
        .sum()
}

fn dot(a: u32, b: u32, c: u32, x: impl Fn(u8) -> i32, y: impl Fn(u8) -> i32) -> u32 {
    let products = (0..4).map(|i| x((a >> (8 * i)) as u8) * y((b >> (8 * i)) as u8));
    products.fold(c, |sum, product| sum.wrapping_add(product as u32))
}

fn dot2(a0: i32, a1: i32, b: u32, c: u32, y: impl Fn(u8) -> i32) -> u32 {
    let products = a0
        .wrapping_mul(y(b as u8))
        .wrapping_add(a1.wrapping_mul(y((b >> 8) as u8)));
    c.wrapping_add(products as u32)
}

/// Inserts the lower bits of `a` into `b`.
pub(crate) fn insert(a: u32, b: u32, position: u32, length: u32) -> u32 {
    let (position, length) = (position & 0xff, length & 0xff);
    let mask = mask_at(position, length.min(32));
    if position > 31 {
        b
    } else {
        (b & !mask) | ((a << position) & mask)
    }
}

/// The function of three inputs whose truth table is `table`, on each bit.
pub(crate) fn lop3(table: u8, a: u32, b: u32, c: u32) -> u32 {
    (0..8)
        .filter(|row| table >> row & 1 == 1)
        .fold(0, |out, row| {
            let pick = |bit: u32, x: u32| if row >> bit & 1 == 1 { x } else { !x };
            out | (pick(2, a) & pick(1, b) & pick(0, c))
        })
}
