//! Integer operations with 64-bit operands or results.

use super::lane_table;

lane_table! {
    /// Operations on 64-bit registers only.
    Int64(a: u64, b: u64, c: u64) -> u64 {
        Mov => a,
        Add => a.wrapping_add(b),
        Sub => a.wrapping_sub(b),
        MulLo => a.wrapping_mul(b),
        MulHiU => ((u128::from(a) * u128::from(b)) >> 64) as u64,
        MulHiS => ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64,
        MadLo => a.wrapping_mul(b).wrapping_add(c),
        MadHiU => (((u128::from(a) * u128::from(b)) >> 64) as u64).wrapping_add(c),
        MadHiS => (((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64).wrapping_add(c),
        SadU => a.abs_diff(b).wrapping_add(c),
        SadS => (a as i64).abs_diff(b as i64).wrapping_add(c),
        DivU => a.checked_div(b).unwrap_or(u64::MAX),
        DivS => if b == 0 { u64::MAX } else { (a as i64).wrapping_div(b as i64) as u64 },
        RemU => a.checked_rem(b).unwrap_or(a),
        RemS => if b == 0 { a } else { (a as i64).wrapping_rem(b as i64) as u64 },
        Abs => (a as i64).wrapping_abs() as u64,
        Neg => a.wrapping_neg(),
        MinU => a.min(b),
        MinS => (a as i64).min(b as i64) as u64,
        MaxU => a.max(b),
        MaxS => (a as i64).max(b as i64) as u64,
        And => a & b,
        Or => a | b,
        Xor => a ^ b,
        Not => !a,
        Cnot => u64::from(a == 0),
        Brev => a.reverse_bits(),
    }
}

lane_table! {
    /// 64-bit results of 32-bit factors, and a 64-bit addend.
    Wide(a: u32, b: u32, c: u64) -> u64 {
        MulU => u64::from(a) * u64::from(b),
        MulS => (i64::from(a as i32) * i64::from(b as i32)) as u64,
        MadU => (u64::from(a) * u64::from(b)).wrapping_add(c),
        MadS => ((i64::from(a as i32) * i64::from(b as i32)) as u64).wrapping_add(c),
        ZeroExtend => u64::from(a),
        SignExtend => a as i32 as u64,
        ZeroExtend16 => u64::from(a as u16),
        SignExtend16 => a as i16 as u64,
        ZeroExtend8 => u64::from(a as u8),
        SignExtend8 => a as i8 as u64,
        Pack => u64::from(a) | u64::from(b) << 32,
    }
}

lane_table! {
    /// 64-bit results of a 64-bit operand and 32-bit positions.
    Shift64(a: u64, b: u32, c: u32) -> u64 {
        Shl => if b > 63 { 0 } else { a << b },
        ShrU => if b > 63 { 0 } else { a >> b },
        ShrS => ((a as i64) >> b.min(63)) as u64,
        BfeU => extract(a, b, c),
        BfeS => extract_signed(a, b, c),
    }
}

lane_table! {
    /// 32-bit results of a 64-bit operand.
    Narrow(a: u64) -> u32 {
        Low => a as u32,
        High => (a >> 32) as u32,
        Low16 => u32::from(a as u16),
        Low8 => u32::from(a as u8),
        Half1 => u32::from((a >> 16) as u16),
        Half2 => u32::from((a >> 32) as u16),
        Half3 => u32::from((a >> 48) as u16),
        Popc => a.count_ones(),
        Clz => a.leading_zeros(),
        BfindU => find(a),
        BfindS => find(if (a as i64) < 0 { !a } else { a }),
        BfindShiftU => if a == 0 { u32::MAX } else { a.leading_zeros() },
        BfindShiftS => { let a = if (a as i64) < 0 { !a } else { a }; if a == 0 { u32::MAX } else { a.leading_zeros() } },
    }
}

fn find(a: u64) -> u32 {
    if a == 0 { u32::MAX } else { a.ilog2() }
}

fn extract(a: u64, position: u32, length: u32) -> u64 {
    let (position, length) = (position & 0xff, length & 0xff);
    let shifted = if position > 63 { 0 } else { a >> position };
    if length > 63 {
        shifted
    } else {
        shifted & !(u64::MAX << length)
    }
}

fn extract_signed(a: u64, position: u32, length: u32) -> u64 {
    let (position, length) = (position & 0xff, length & 0xff);
    if length == 0 {
        return 0;
    }
    let sign = a >> (position + length - 1).min(63) & 1;
    let field = extract(a, position, length);
    let width = length.min(64u32.saturating_sub(position));
    if sign == 1 && width < 64 {
        field | (u64::MAX << width)
    } else {
        field
    }
}

/// Inserts the lower bits of `a` into `b`.
pub(crate) fn insert(a: u64, b: u64, position: u32, length: u32) -> u64 {
    let (position, length) = (position & 0xff, length & 0xff);
    if position > 63 {
        return b;
    }
    let ones = if length > 63 {
        u64::MAX
    } else {
        !(u64::MAX << length)
    };
    let mask = ones << position;
    (b & !mask) | ((a << position) & mask)
}
