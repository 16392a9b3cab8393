//! Initial values of variables.

use super::cursor::Cursor;
use super::declaration::Shape;
use super::error::{ParseError, ParseFault};
use super::literal::{Literal, literal};
use super::token::Kind;
use crate::ast::Type;

/// Most bytes that the initial values of all variables may take.
const MAX_INIT_BYTES: u64 = 1 << 26;

/// The bytes after `=`: a value, or an array of them in braces.
///
/// Braces within braces fill a part of the array, as in C; what is left out is 0. `used` counts the bytes of all
/// initialisers of a module.
pub(super) fn initialiser(
    cursor: &mut Cursor<'_>,
    shape: Shape,
    dimensions: &[Option<u64>],
    used: &mut u64,
) -> Result<Vec<u8>, ParseError> {
    // Scalars in an element of each dimension, and last in a scalar.
    let mut extents: Vec<u64> = dimensions.iter().map(|it| it.unwrap_or(0)).collect();
    if shape.lanes != 1 {
        extents.push(shape.lanes);
    }
    let mut strides = vec![1_u64];
    for extent in extents.iter().rev() {
        let last = strides[strides.len() - 1];
        strides.push(last.saturating_mul(*extent));
    }
    strides.reverse();
    let scalar_bytes = shape.ty.bytes();
    let mut bytes = Vec::new();
    let mut put = |cursor: &mut Cursor<'_>, index: u64| {
        let place = cursor.place();
        let value = scalar(cursor, shape.ty)?;
        let start = index.saturating_mul(scalar_bytes);
        let end = start.saturating_add(scalar_bytes);
        let grown = end.saturating_sub(bytes.len() as u64);
        if MAX_INIT_BYTES - *used < grown {
            return Err(cursor.fault_at(
                place,
                ParseFault::TooLarge {
                    what: "the bytes of all initial values",
                    limit: MAX_INIT_BYTES,
                    found: used.saturating_add(grown).to_string(),
                },
            ));
        }
        *used += grown;
        bytes.resize(bytes.len().max(end as usize), 0);
        let width = scalar_bytes as usize;
        bytes[start as usize..end as usize].copy_from_slice(&value.to_le_bytes()[..width]);
        Ok(())
    };
    if !cursor.at_mark(b'{') {
        if !extents.is_empty() {
            return Err(cursor.unexpected("`{`"));
        }
        put(cursor, 0)?;
        return Ok(bytes);
    }
    // The open braces: the first scalar of each, and the next one to be filled.
    let mut open: Vec<(u64, u64)> = Vec::new();
    let mut next = 0;
    loop {
        if cursor.at_mark(b'{') {
            let level = open.len();
            if level == extents.len() {
                return Err(cursor.unexpected("a number"));
            }
            if let Some((first, _)) = open.last() {
                next = first + (next - first).next_multiple_of(strides[level].max(1));
            }
            room(cursor, &open, &strides, next)?;
            cursor.take();
            open.push((next, next));
            if !cursor.at_mark(b'}') {
                continue;
            }
        } else {
            room(cursor, &open, &strides, next)?;
            put(cursor, next)?;
            next += 1;
        }
        // An element is complete: close what ends here, then expect another.
        loop {
            if cursor.took_mark(b'}') {
                let Some((first, _)) = open.pop() else {
                    return Err(cursor.unexpected("`;`"));
                };
                next = first + strides[open.len()];
                if open.is_empty() {
                    return Ok(bytes);
                }
            } else {
                cursor.mark(b',', "`,` or `}`")?;
                break;
            }
        }
    }
}

/// Whether the innermost open brace has room for the scalar `next`.
fn room(
    cursor: &Cursor<'_>,
    open: &[(u64, u64)],
    strides: &[u64],
    next: u64,
) -> Result<(), ParseError> {
    match open.last() {
        Some((first, _)) if first.saturating_add(strides[open.len() - 1]) <= next => {
            Err(cursor.unexpected("`}`, since the array is full"))
        }
        Some(_) | None => Ok(()),
    }
}

/// A value as bits of a type.
fn scalar(cursor: &mut Cursor<'_>, ty: Type) -> Result<u128, ParseError> {
    if cursor.kind() == Kind::Word && cursor.peek() != "WARP_SZ" || cursor.at_mark(b'(') {
        let what = "addresses and expressions in initial values";
        return Err(cursor.fault(ParseFault::Unsupported { what }));
    }
    let place = cursor.place();
    let value = literal(cursor)?;
    let bits = match (ty, value) {
        (Type::F32, Literal::F64(bits)) => u128::from((f64::from_bits(bits) as f32).to_bits()),
        (Type::F64, Literal::F32(bits)) => u128::from(f64::from(f32::from_bits(bits)).to_bits()),
        (Type::F32, Literal::Integer(value)) => u128::from((value as f32).to_bits()),
        (Type::F64, Literal::Integer(value)) => u128::from((value as f64).to_bits()),
        (Type::F32 | Type::B32, Literal::F32(bits)) => u128::from(bits),
        (Type::F64 | Type::B64, Literal::F64(bits)) => u128::from(bits),
        (_, Literal::Integer(value)) if fits(value, ty.bytes()) => value as u128,
        _ => {
            cursor.go_to(place);
            return Err(cursor.unexpected("a number of the variable's type"));
        }
    };
    Ok(bits)
}

/// Whether a number is one of so many bytes, signed or not.
fn fits(value: i128, bytes: u64) -> bool {
    let bits = 8 * bytes;
    128 <= bits || (-(1_i128 << (bits - 1)) <= value && value < 1_i128 << bits)
}
