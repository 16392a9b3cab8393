//! Values that are known: limits, exact results, and numbers from mpmath 1.3.0 at 120 digits.

use super::*;

const INF: f32 = f32::INFINITY;
const NAN: f32 = f32::NAN;
const TINY: f32 = f32::from_bits(1);

#[track_caller]
fn check(f: impl Fn(f32) -> f32, cases: &[(f32, f32)]) {
    for &(x, want) in cases {
        let got = f(x);
        assert_eq!(bits(got), bits(want), "at {x:e}: {got:e}, want {want:e}");
    }
}

#[track_caller]
fn check_pair(f: impl Fn(f32, f32) -> f32, cases: &[(f32, f32, f32)]) {
    for &(x, y, want) in cases {
        let got = f(x, y);
        assert_eq!(
            bits(got),
            bits(want),
            "at ({x:e}, {y:e}): {got:e}, want {want:e}"
        );
    }
}

#[test]
fn exponentials_at_their_ends() {
    check(
        exp,
        &[
            (0.0, 1.0),
            (-0.0, 1.0),
            (INF, INF),
            (-INF, 0.0),
            (NAN, NAN),
            (TINY, 1.0),
        ],
    );
    check(
        exp,
        &[
            (88.722_83, 3.402_798_5e38),
            (88.722_84, INF),
            (1e30, INF),
            (-1e30, 0.0),
        ],
    );
    check(
        exp,
        &[(-103.972_07, TINY), (-103.972_084, 0.0), (1.0, 2.718_281_7)],
    );
    check(
        exp2,
        &[
            (INF, INF),
            (-INF, 0.0),
            (NAN, NAN),
            (128.0, INF),
            (-150.0, 0.0),
        ],
    );
    check(
        exp2,
        &[
            ((-150f32).next_up(), TINY),
            (128f32.next_down(), 3.402_805_6e38),
        ],
    );
    for n in -149..128 {
        assert_eq!(exp2(n as f32) as f64, 2f64.powi(n));
    }
}

#[test]
fn logarithms_at_their_ends() {
    for f in [ln, log2, log10] {
        check(
            f,
            &[
                (0.0, -INF),
                (-0.0, -INF),
                (1.0, 0.0),
                (INF, INF),
                (-INF, NAN),
            ],
        );
        check(f, &[(-1.0, NAN), (-TINY, NAN), (NAN, NAN), (-NAN, NAN)]);
    }
    check(ln, &[(TINY, -103.278_93), (f32::MAX, 88.722_84)]);
    for n in -149..128 {
        assert_eq!(log2(2f64.powi(n) as f32), n as f32);
    }
    for n in 0..=10 {
        assert_eq!(log10(10f64.powi(n) as f32), n as f32);
    }
}

#[test]
fn odd_functions_keep_zero_and_what_is_close_to_it() {
    for f in [tanh, sin, tan] {
        check(
            f,
            &[
                (0.0, 0.0),
                (-0.0, -0.0),
                (TINY, TINY),
                (-1e-30, -1e-30),
                (NAN, NAN),
            ],
        );
    }
    check(tanh, &[(INF, 1.0), (-INF, -1.0), (9.1, 1.0), (-9.1, -1.0)]);
    check(erf, &[(0.0, 0.0), (-0.0, -0.0), (TINY, TINY), (NAN, NAN)]);
    check(
        erf,
        &[
            (INF, 1.0),
            (-INF, -1.0),
            (3.95, 1.0),
            (-3.95, -1.0),
            (1e30, 1.0),
        ],
    );
    for f in [sin, cos, tan] {
        check(f, &[(INF, NAN), (-INF, NAN), (NAN, NAN)]);
    }
    check(cos, &[(0.0, 1.0), (-0.0, 1.0), (TINY, 1.0)]);
}

#[test]
fn square_root_and_rounding() {
    check(
        sqrt,
        &[
            (0.0, 0.0),
            (-0.0, -0.0),
            (-1.0, NAN),
            (INF, INF),
            (NAN, NAN),
            (2.25, 1.5),
        ],
    );
    check(
        round,
        &[
            (0.499_999_97, 0.0),
            (0.5, 1.0),
            (-0.5, -1.0),
            (-0.25, -0.0),
            (2.5, 3.0),
        ],
    );
    check(
        round,
        &[
            (8_388_607.5, 8_388_608.0),
            (-8_388_609.0, -8_388_609.0),
            (INF, INF),
        ],
    );
    check(
        floor,
        &[
            (-0.0, -0.0),
            (-0.25, -1.0),
            (0.75, 0.0),
            (-INF, -INF),
            (NAN, NAN),
        ],
    );
    check(
        ceil,
        &[
            (-0.75, -0.0),
            (0.25, 1.0),
            (TINY, 1.0),
            (-TINY, -0.0),
            (INF, INF),
        ],
    );
    check(
        trunc,
        &[
            (-0.75, -0.0),
            (1.99, 1.0),
            (-1.99, -1.0),
            (3e9, 3e9),
            (NAN, NAN),
        ],
    );
    check(
        signum,
        &[
            (0.0, 1.0),
            (-0.0, -1.0),
            (-INF, -1.0),
            (TINY, 1.0),
            (NAN, NAN),
        ],
    );
}

#[test]
fn choices() {
    for (x, y) in [(0.0, -0.0), (-0.0, 0.0)] {
        check_pair(min, &[(x, y, -0.0)]);
        check_pair(max, &[(x, y, 0.0)]);
    }
    for f in [min, max] {
        check_pair(
            f,
            &[
                (NAN, 1.0, 1.0),
                (1.0, NAN, 1.0),
                (NAN, NAN, NAN),
                (2.0, 2.0, 2.0),
            ],
        );
        check_pair(
            f,
            &[(NAN, -INF, -INF), (-0.0, NAN, -0.0), (-0.0, -0.0, -0.0)],
        );
    }
    check(
        |x| clamp(x, -1.0, 2.0),
        &[(3.0, 2.0), (-INF, -1.0), (-0.0, -0.0), (NAN, NAN)],
    );
    check(|x| clamp(x, 2.0, -1.0), &[(0.0, -1.0), (5.0, -1.0)]);
    check(|x| clamp(x, NAN, 1.0), &[(-9.0, -9.0), (9.0, 1.0)]);
    check_pair(
        rem,
        &[
            (5.5, 2.0, 1.5),
            (-5.5, 2.0, -1.5),
            (5.5, -2.0, 1.5),
            (-4.0, 2.0, -0.0),
        ],
    );
    check_pair(
        rem,
        &[
            (1.0, 0.0, NAN),
            (INF, 2.0, NAN),
            (3.0, INF, 3.0),
            (3e38, 7e-45, 5.6e-45),
        ],
    );
}

#[test]
fn powf_follows_annex_f() {
    for y in [1.0, 3.0, 16_777_215.0] {
        check_pair(
            powf,
            &[
                (0.0, -y, INF),
                (-0.0, -y, -INF),
                (0.0, y, 0.0),
                (-0.0, y, -0.0),
            ],
        );
        check_pair(
            powf,
            &[
                (-INF, -y, -0.0),
                (-INF, y, -INF),
                (INF, -y, 0.0),
                (INF, y, INF),
            ],
        );
    }
    for y in [2.0, 0.5, 1.5, 16_777_216.0, 1e30, INF] {
        check_pair(
            powf,
            &[
                (0.0, -y, INF),
                (-0.0, -y, INF),
                (0.0, y, 0.0),
                (-0.0, y, 0.0),
            ],
        );
        check_pair(
            powf,
            &[
                (-INF, -y, 0.0),
                (-INF, y, INF),
                (INF, -y, 0.0),
                (INF, y, INF),
            ],
        );
    }
    for x in [0.0, -0.0, 1.0, -3.0, INF, -INF, NAN] {
        check_pair(powf, &[(x, 0.0, 1.0), (x, -0.0, 1.0), (1.0, x, 1.0)]);
    }
    check_pair(
        powf,
        &[
            (NAN, 1.0, NAN),
            (2.0, NAN, NAN),
            (-2.0, 0.5, NAN),
            (-1e-9, -1.5, NAN),
        ],
    );
    check_pair(
        powf,
        &[
            (-1.0, INF, 1.0),
            (-1.0, -INF, 1.0),
            (-1.0, 3.0, -1.0),
            (-1.0, 1e9, 1.0),
        ],
    );
    check_pair(
        powf,
        &[
            (0.5, INF, 0.0),
            (0.5, -INF, INF),
            (-2.0, INF, INF),
            (-2.0, -INF, 0.0),
        ],
    );
    check_pair(
        powf,
        &[
            (2.0, 3e38, INF),
            (2.0, -3e38, 0.0),
            (0.5, 3e38, 0.0),
            (-2.0, 129.0, -INF),
        ],
    );
    check_pair(
        powf,
        &[
            (2.0, -149.0, TINY),
            (2.0, -150.0, 0.0),
            (TINY, 1.0, TINY),
            (9.0, 1e-45, 1.0),
        ],
    );
}

#[test]
fn exact_powers_and_ties_are_found() {
    for i in (0..1 << 24).step_by(97) {
        let x = i as f32;
        assert_eq!(powf(x, 2.0), x * x, "{x}²");
        assert_eq!(powi(x, 2), x * x, "{x}²");
        assert_eq!(powf(x, 0.5), x.sqrt(), "√{x}");
        assert_eq!(powf(x, 1.0), x, "{x}");
        assert_eq!(powf(x, -1.0), 1.0 / x, "1/{x}");
    }
    for i in 1..=256u32 {
        // i³ has 24 bits, and 25 for some: then it is a tie.
        assert_eq!(powf(i as f32, 3.0), i.pow(3) as f32, "{i}³");
        assert_eq!(
            powf(i.pow(3) as f32, 2.0),
            (i as u64).pow(6) as f32,
            "({i}³)²"
        );
    }
    assert_eq!(powf(TINY, 0.5) as f64, (TINY as f64).sqrt() as f32 as f64);
    // 1.5 · 2^-149 is a tie of subnormals.
    assert_eq!(
        powf(1.5 * 2f32.powi(-74), 2.0),
        (2.25 * 2f64.powi(-148)) as f32
    );
}

#[test]
fn powi_at_its_ends() {
    check(|x| powi(x, 0), &[(NAN, 1.0), (0.0, 1.0), (INF, 1.0)]);
    check(
        |x| powi(x, -1),
        &[
            (0.0, INF),
            (-0.0, -INF),
            (-INF, -0.0),
            (NAN, NAN),
            (4.0, 0.25),
        ],
    );
    check(
        |x| powi(x, i32::MIN),
        &[(1.0, 1.0), (-1.0, 1.0), (2.0, 0.0), (0.5, INF), (-0.0, INF)],
    );
    check(
        |x| powi(x, i32::MAX),
        &[(1.0, 1.0), (-1.0, -1.0), (-2.0, -INF), (-0.5, -0.0)],
    );
    check(|x| powi(x, -149), &[(2.0, TINY), (-2.0, -TINY)]);
}

#[test]
fn large_and_awkward_angles() {
    // x, sin x, cos x, tan x
    let known: [(f32, f64, f64, f64); 12] = [
        (
            1e30,
            -0.791_163_438_521_983_7,
            -0.611_604_785_417_896_6,
            1.293_586_082_688_019_4,
        ),
        (
            f32::MAX,
            -0.521_876_523_333_658_5,
            0.853_021_039_830_304_2,
            -0.611_797_949_834_248_1,
        ),
        (
            1e10,
            -0.487_506_025_087_510_7,
            0.873_119_622_676_856,
            -0.558_349_637_811_241_8,
        ),
        (
            16_777_216.0,
            -0.779_563_673_217_777_8,
            0.626_322_983_291_532_9,
            -1.244_667_198_896_190_4,
        ),
        (
            4_194_304.0,
            0.975_129_394_941_707,
            0.221_636_330_777_741_25,
            4.399_682_089_664_148,
        ),
        (
            4_194_304.5,
            0.962_014_669_844_930_2,
            -0.272_997_756_406_806_24,
            -3.523_892_219_873_737,
        ),
        (
            -7e35,
            0.217_726_185_218_416_2,
            0.976_009_891_481_759_5,
            0.223_077_846_975_370_78,
        ),
        (
            1.5e22,
            -0.944_631_483_077_351_1,
            0.328_133_145_505_119_7,
            -2.878_805_436_199_411_5,
        ),
        (
            12_345_678.0,
            -0.903_541_146_062_464_3,
            -0.428_501_338_821_862_4,
            2.108_607_521_616_371,
        ),
        (
            2e5,
            -0.071_451_895_212_519_9,
            0.997_444_046_887_111_9,
            -0.071_634_990_890_478_13,
        ),
        // The two that come closest to a multiple of π/2 beyond and up to 2^22.
        (
            7.729_179e28,
            1.0,
            -1.614_769_798_247_621_1e-9,
            -619_283_318.950_613_9,
        ),
        (
            252.898_21,
            1.0,
            -4.185_706_803_757_208e-9,
            -238_908_276.877_485_07,
        ),
    ];
    for (x, sine, cosine, tangent) in known {
        for (got, want) in [(sin(x), sine), (cos(x), cosine), (tan(x), tangent)] {
            assert!(ulps(got, want) <= BOUND, "at {x:e}: {got:e}, want {want:e}");
        }
    }
}

#[test]
fn error_function_at_known_values() {
    let known: [(f32, f64); 12] = [
        (1e-40, 1.128_373_085_257_589e-40),
        (1e-10, 1.128_379_182_160_990_3e-10),
        (0.1, 0.112_462_917_682_970_51),
        (0.5, 0.520_499_877_813_046_5),
        (0.999_999_94, 0.842_700_768_207_378_5),
        (1.0, 0.842_700_792_949_714_9),
        (1.000_000_1, 0.842_700_842_434_378_8),
        (1.7, 0.983_790_461_581_069_8),
        (2.5, 0.999_593_047_982_555),
        (3.0, 0.999_977_909_503_001_4),
        (3.9, 0.999_999_965_207_778_1),
        (-0.75, -0.711_155_633_653_515_1),
    ];
    for (x, want) in known {
        assert!(
            ulps(erf(x), want) <= BOUND,
            "at {x:e}: {:e}, want {want:e}",
            erf(x)
        );
        assert!(
            (oracle::erf(x as f64) - want).abs() <= 1e-15 * want.abs(),
            "oracle at {x:e}"
        );
    }
}
