//! Numbers.

use super::cursor::{Cursor, shortened};
use super::error::{ParseError, ParseFault};
use super::token::Kind;

/// A number as the text gives it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Literal {
    /// An integer of 64 bits, and its sign.
    Integer(i128),
    /// The bits of `0f…`.
    F32(u32),
    /// The bits of `0d…` or of a decimal fraction.
    F64(u64),
}

impl Literal {
    fn negated(self) -> Self {
        match self {
            Self::Integer(value) => Self::Integer(-value),
            Self::F32(bits) => Self::F32(bits ^ (1 << 31)),
            Self::F64(bits) => Self::F64(bits ^ (1 << 63)),
        }
    }
}

/// A number with its signs, or `WARP_SZ`.
pub(super) fn literal(cursor: &mut Cursor<'_>) -> Result<Literal, ParseError> {
    let mut is_negative = false;
    while cursor.at_mark(b'-') || cursor.at_mark(b'+') {
        is_negative ^= cursor.take() == "-";
    }
    let value = match cursor.kind() {
        Kind::Word if cursor.peek() == "WARP_SZ" => Literal::Integer(32),
        Kind::Number => unsigned(cursor.peek()).ok_or_else(|| {
            cursor.fault(ParseFault::Number {
                expected: "a number of 64 bits",
                found: shortened(cursor.peek(), 40),
            })
        })?,
        _ => return Err(cursor.unexpected("a number")),
    };
    cursor.take();
    Ok(if is_negative { value.negated() } else { value })
}

/// An integer from 0 to `limit`.
pub(super) fn count(
    cursor: &mut Cursor<'_>,
    what: &'static str,
    limit: u64,
) -> Result<u64, ParseError> {
    let place = cursor.place();
    match literal(cursor)? {
        Literal::Integer(value) if (0..=i128::from(limit)).contains(&value) => Ok(value as u64),
        Literal::Integer(value) => {
            let found = value.to_string();
            let fault = ParseFault::TooLarge { what, limit, found };
            Err(cursor.fault_at(place, fault))
        }
        Literal::F32(_) | Literal::F64(_) => {
            cursor.go_to(place);
            Err(cursor.unexpected("an integer"))
        }
    }
}

fn unsigned(text: &str) -> Option<Literal> {
    let radix = |digits: &str, radix| {
        // The first character must be a digit: `from_str_radix` would take a sign.
        let digits = digits.trim_end_matches(['U', 'u']);
        let is_digits = digits.starts_with(|first: char| first.is_digit(radix));
        let value = u64::from_str_radix(digits, radix).ok()?;
        is_digits.then_some(Literal::Integer(i128::from(value)))
    };
    match text.as_bytes() {
        [b'0', b'f' | b'F', digits @ ..] if digits.len() == 8 => {
            u32::from_str_radix(&text[2..], 16).ok().map(Literal::F32)
        }
        [b'0', b'd' | b'D', digits @ ..] if digits.len() == 16 => {
            u64::from_str_radix(&text[2..], 16).ok().map(Literal::F64)
        }
        [b'0', b'x' | b'X', ..] => radix(&text[2..], 16),
        [b'0', b'b' | b'B', ..] => radix(&text[2..], 2),
        [b'0', b'0'..=b'9', ..] if !text.contains(['.', 'e', 'E']) => radix(&text[1..], 8),
        _ if text.contains(['.', 'e', 'E']) => {
            let value: f64 = text.parse().ok()?;
            Some(Literal::F64(value.to_bits()))
        }
        _ => radix(text, 10),
    }
}
