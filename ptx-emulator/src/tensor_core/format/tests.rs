//! Every encoding of every format, and rounding against what the definition says.
use super::*;
use proptest::prelude::*;

#[test]
fn every_f16_and_bf16_decodes_as_in_the_half_crate() {
    for bits in 0..=u16::MAX {
        let ours = f16_to_f32(bits);
        let theirs = half::f16::from_bits(bits).to_f32();
        assert!(
            ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan()),
            "f16 {bits:#x}: {ours} and {theirs}"
        );
        assert!(bf16_to_f32(bits).to_bits() == u32::from(bits) << 16);
    }
}

#[test]
fn every_finite_encoding_survives_a_round_trip() {
    for (format, count) in [
        (Format::F16, 1u32 << 16),
        (Format::Bf16, 1 << 16),
        (Format::E4m3, 256),
        (Format::E5m2, 256),
        (Format::Tf32, 1 << 19),
    ] {
        for code in 0..count {
            let bits = if format == Format::Tf32 {
                code << 13
            } else {
                code
            };
            let value = format.decode(bits);
            if value.is_nan() {
                continue;
            }
            for rounding in [
                Rounding::NearestEven,
                Rounding::NearestAway,
                Rounding::Zero,
                Rounding::Down,
                Rounding::Up,
            ] {
                assert_eq!(
                    format.encode(f64::from(value), rounding, Overflow::Infinite),
                    bits,
                    "{format:?} {value} {rounding:?}"
                );
            }
        }
    }
}

#[test]
fn eight_bit_values_are_those_of_their_specification() {
    // Largest, smallest normal and smallest subnormal numbers of OCP's 8-bit formats.
    assert_eq!(e4m3_to_f32(0x7e), 448.0);
    assert_eq!(e4m3_to_f32(0x08), 2f32.powi(-6));
    assert_eq!(e4m3_to_f32(0x01), 2f32.powi(-9));
    assert!(e4m3_to_f32(0x7f).is_nan() && e4m3_to_f32(0xff).is_nan());
    assert_eq!(e4m3_to_f32(0xb8), -1.0);
    assert_eq!(e5m2_to_f32(0x7b), 57344.0);
    assert_eq!(e5m2_to_f32(0x04), 2f32.powi(-14));
    assert_eq!(e5m2_to_f32(0x01), 2f32.powi(-16));
    assert_eq!(e5m2_to_f32(0xfc), f32::NEG_INFINITY);
    assert!((0x7d..=0x7f).all(|code| e5m2_to_f32(code).is_nan()));
    for code in 0..=u8::MAX {
        let wide = half::f16::from_bits(u16::from(code) << 8).to_f32();
        assert!(e5m2_to_f32(code) == wide || wide.is_nan(), "{code:#x}");
    }
}

#[test]
fn saturation_keeps_nan_and_cuts_infinity() {
    let e4m3 = |value: f64, overflow| Format::E4m3.encode(value, Rounding::NearestEven, overflow);
    assert_eq!(e4m3(1e9, Overflow::SatFinite), 0x7e);
    assert_eq!(e4m3(f64::NEG_INFINITY, Overflow::SatFinite), 0xfe);
    assert_eq!(e4m3(f64::NAN, Overflow::SatFinite), 0x7f);
    assert_eq!(
        e4m3(464.0, Overflow::Infinite),
        0x7e,
        "a tie goes to the even neighbour, which is finite"
    );
    assert_eq!(e4m3(465.0, Overflow::Infinite), 0x7f);
    assert_eq!(pack_fp8x2(Format::E5m2, 1e9, -1.0), 0x7bbc);
    assert_eq!(fp8x2_to_f16x2(Format::E4m3, 0x38c0), 0x3c00_c000);
    assert_eq!(
        Format::F16.encode(1e6, Rounding::Zero, Overflow::Infinite),
        0x7bff
    );
    assert_eq!(
        Format::F16.encode(1e6, Rounding::Up, Overflow::Infinite),
        0x7c00
    );
    assert_eq!(
        Format::F16.encode(-1e6, Rounding::Up, Overflow::Infinite),
        0xfbff
    );
}

#[test]
fn tf32_ties_go_where_the_rounding_says() {
    let tie = f64::from(f32::from_bits(0x3f80_1000));
    assert_eq!(
        Format::Tf32.encode(tie, Rounding::NearestEven, Overflow::Infinite),
        0x3f80_0000
    );
    assert_eq!(
        Format::Tf32.encode(tie, Rounding::NearestAway, Overflow::Infinite),
        0x3f80_2000
    );
    assert_eq!(tf32_to_f32(0x3f80_1fff), 1.0);
}

proptest! {
    #[test]
    fn fast_roundings_agree_with_the_half_crate_and_with_encode(bits in any::<u32>()) {
        let value = f32::from_bits(bits);
        if value.is_nan() {
            prop_assert_eq!(f32_to_f16(value), 0x7fff);
            prop_assert_eq!(f32_to_bf16(value), 0x7fff);
        } else {
            prop_assert_eq!(f32_to_f16(value), half::f16::from_f32(value).to_bits());
            prop_assert_eq!(f32_to_bf16(value), half::bf16::from_f32(value).to_bits());
        }
        let wide = f64::from(value);
        prop_assert_eq!(u32::from(f32_to_f16(value)), Format::F16.encode(wide, Rounding::NearestEven, Overflow::Infinite));
        prop_assert_eq!(u32::from(f32_to_bf16(value)), Format::Bf16.encode(wide, Rounding::NearestEven, Overflow::Infinite));
    }

    #[test]
    fn f16_range_is_rounded_like_the_half_crate(exponent in -30i32..18, mantissa in 0u32..1 << 23, negative: bool) {
        let magnitude = f32::from_bits((((exponent + 127) as u32) << 23) | mantissa);
        let value = if negative { -magnitude } else { magnitude };
        prop_assert_eq!(f32_to_f16(value), half::f16::from_f32(value).to_bits());
    }

    #[test]
    fn eight_bit_rounding_picks_the_nearest(value in -500f64..500.0) {
        for format in [Format::E4m3, Format::E5m2] {
            let rounded = f64::from(format.decode(format.encode(value, Rounding::NearestEven, Overflow::SatFinite)));
            let nearest = (0..256)
                .map(|code| f64::from(format.decode(code)))
                .filter(|candidate| candidate.is_finite())
                .map(|candidate| (candidate - value).abs())
                .fold(f64::INFINITY, f64::min);
            prop_assert_eq!((rounded - value).abs(), nearest);
        }
    }
}
