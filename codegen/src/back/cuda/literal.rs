//! Constants as C++ literals, exact to the bit.

use maskwright_dsl::ir::Const;

use super::precedence::{Precedence, Printed};

/// The literal of a value.
pub(super) fn literal(value: Const) -> Printed {
    let text = match value {
        Const::Bool(v) => v.to_string(),
        // The digits of the least integers are those of no positive one.
        Const::I32(i32::MIN) => return Printed::atom("(-2147483647 - 1)"),
        Const::I64(i64::MIN) => return Printed::atom("(-9223372036854775807LL - 1)"),
        Const::I32(v) => v.to_string(),
        Const::I64(v) => format!("{v}LL"),
        Const::U32(v) => format!("{v}u"),
        Const::F32(v) => float(v),
    };
    let precedence = if text.starts_with('-') {
        Precedence::Prefix
    } else {
        Precedence::Atom
    };
    Printed { text, precedence }
}

/// Decimal where few digits say it all, hexadecimal where a reader of decimals might round twice.
fn float(v: f32) -> String {
    if v.is_nan() {
        return "__int_as_float(0x7fc00000)".to_owned();
    }
    if v.is_infinite() {
        let sign = if v < 0.0 { "-" } else { "" };
        return format!("{sign}__int_as_float(0x7f800000)");
    }
    let decimal = format!("{v:?}");
    let digits = decimal.bytes().filter(u8::is_ascii_digit).count();
    if digits <= 7 {
        return format!("{decimal}f");
    }
    // Each float is a normal double.
    format!("{}f", super::math::hex(f64::from(v)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: Const, text: &str) {
        assert_eq!(literal(value).text, text);
    }

    #[test]
    fn the_ends_of_integers_are_expressions() {
        check(Const::I32(i32::MIN), "(-2147483647 - 1)");
        check(Const::I32(-5), "-5");
        check(Const::I64(7), "7LL");
        check(Const::U32(u32::MAX), "4294967295u");
    }

    #[test]
    fn floats_are_exact() {
        check(Const::F32(-0.0), "-0.0f");
        check(Const::F32(0.3), "0.3f");
        check(Const::F32(1e-7), "1e-7f");
        check(Const::F32(std::f32::consts::PI), "0x1.921fb6p1f");
        check(Const::F32(f32::NEG_INFINITY), "-__int_as_float(0x7f800000)");
        check(Const::F32(f32::from_bits(1)), "1e-45f");
    }
}
