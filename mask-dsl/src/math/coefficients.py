"""Writes coefficients.rs: `python3 coefficients.py > coefficients.rs` (mpmath 1.3.0, 80 digits).

Each polynomial interpolates its function at the Chebyshev nodes of its interval (so its error is within a small factor of
the minimax error), is brought to the monomial basis and has its coefficients rounded to the nearest float64. The error
that the comments state is measured after that rounding, on 4001 points, in exact arithmetic. Constants that must multiply
exactly are cut to the number of bits their comment names.
"""

from mpmath import mp, mpf, atanh, cos, erf, expm1, floor, frexp, ldexp, log, matrix, lu_solve, pi, sin, sqrt

mp.dps = 80


def interpolate(f, lo, hi, degree):
    """The coefficients, lowest first, of the polynomial that meets f at the Chebyshev nodes of [lo, hi]."""
    n = degree + 1
    nodes = [(lo + hi) / 2 + (hi - lo) / 2 * cos(pi * (2 * i + 1) / (2 * n)) for i in range(n)]
    rows = matrix(n, n)
    for i, node in enumerate(nodes):
        for j in range(n):
            rows[i, j] = node**j
    solved = lu_solve(rows, matrix([f(node) for node in nodes]))
    return [float(solved[j]) for j in range(n)]


def worst(f, coefficients, lo, hi):
    """log2 of the largest relative error of the rounded polynomial."""
    top = mpf(0)
    for i in range(4001):
        x = lo + (hi - lo) * (mpf(i) + mpf("0.37")) / 4001
        top = max(top, abs(sum(mpf(c) * x**j for j, c in enumerate(coefficients)) / f(x) - 1))
    return float(log(top, 2))


def cut(x, bits):
    """x > 0 cut to so many significant bits, so that what is left is not negative: 0 times it is then +0, as `sin` needs."""
    mantissa, exponent = frexp(x)
    return ldexp(floor(ldexp(mantissa, bits)), int(exponent) - bits)


def literal(value):
    """A Rust literal with its digits in threes."""
    text = repr(float(value))
    sign, text = ("-", text[1:]) if text[0] == "-" else ("", text)
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = fraction or "0"
    threes = "_".join(fraction[i : i + 3] for i in range(0, len(fraction), 3))
    return f"{sign}{int(whole):_}.{threes}" + (f"e{int(exponent)}" if exponent else "")


def table(name, doc, f, lo, hi, degree):
    coefficients = interpolate(f, mpf(lo), mpf(hi), degree)
    print(f"\n/// {doc} Relative error 2^{worst(f, coefficients, mpf(lo), mpf(hi)):.1f}.")
    print(f"pub const {name}: [f64; {degree + 1}] = [")
    for c in coefficients:
        print(f"    {literal(c)},")
    print("];")


def constant(name, doc, value):
    print(f"\n/// {doc}\npub const {name}: f64 = {literal(value)};")


print("//! The constants of the float functions, written by `coefficients.py`, which states how; an engine that emits a function")
print("//! emits these. Polynomials are lowest power first and evaluated by Horner's rule, multiply then add.")
print("""#![allow(
    clippy::approx_constant,
    reason = "the bits are fixed here, not by the standard library"
)]""")

ln2, log2e = log(2), 1 / log(mpf(2))
half_ln2 = ln2 / 2 * mpf("1.0001")
constant("LOG2_E", "log2 e.", log2e)
constant("LN2_HI", "ln 2 in 40 bits: its product with an integer below 2^13 is exact.", cut(ln2, 40))
constant("LN2_LO", "ln 2 less [`LN2_HI`].", ln2 - cut(ln2, 40))
table("EXP", "(e^r - 1) / r for |r| <= ln 2 / 2.", lambda r: expm1(r) / r if r else mpf(1), -half_ln2, half_ln2, 10)
table("EXP2", "(2^r - 1) / r for |r| <= 1/2.", lambda r: expm1(r * ln2) / r if r else ln2, "-0.5001", "0.5001", 10)

top = ((sqrt(mpf(2)) - 1) / (sqrt(mpf(2)) + 1)) ** 2 * mpf("1.0001")
table("ATANH", "(atanh(s) / s - 1) / z with z = s^2, for m = (1 + s) / (1 - s) from sqrt(1/2) to sqrt(2).",
      lambda z: (atanh(sqrt(z)) / sqrt(z) - 1) / z, 0, top, 6)
constant("LOG10_E", "log10 e.", 1 / log(mpf(10)))
constant("LOG10_2_HI", "log10 2 in 40 bits.", cut(log(2) / log(10), 40))
constant("LOG10_2_LO", "log10 2 less [`LOG10_2_HI`].", log(2) / log(10) - cut(log(2) / log(10), 40))
constant("TWO_LOG2_E", "2 log2 e.", 2 * log2e)
constant("TWO_LOG2_E_HI", "2 log2 e in 27 bits: its product with a number of 26 bits is exact.", cut(2 * log2e, 27))
constant("TWO_LOG2_E_LO", "2 log2 e less [`TWO_LOG2_E_HI`].", 2 * log2e - cut(2 * log2e, 27))

quarter = (pi / 4 * mpf("1.0001")) ** 2
table("SIN", "sin(r) / r in z = r^2 for |r| <= pi/4.", lambda z: sin(sqrt(z)) / sqrt(z), 0, quarter, 6)
table("COS", "(cos(r) - 1 + z / 2) / z^2 in z = r^2 for |r| <= pi/4.",
      lambda z: (cos(sqrt(z)) - 1 + z / 2) / z**2, 0, quarter, 5)
p1 = cut(pi / 2, 31)
p2 = cut(pi / 2 - p1, 31)
constant("TWO_OVER_PI", "2 / pi.", 2 / pi)
constant("HALF_PI", "pi / 2.", pi / 2)
constant("HALF_PI_1", "pi / 2 in 31 bits: its product with an integer up to 2^22 is exact.", p1)
constant("HALF_PI_2", "The next 31 bits of pi / 2.", p2)
constant("HALF_PI_3", "The rest of pi / 2.", pi / 2 - p1 - p2)
print("\n/// 32 zero bits, then the first 256 bits of 2 / pi, highest first.")
print("pub const TWO_OVER_PI_BITS: [u32; 9] = [\n    0x0000_0000,")
bits = int(floor(ldexp(2 / pi, 256)))
for i in range(8):
    word = bits >> (224 - 32 * i) & 0xFFFFFFFF
    print(f"    0x{word >> 16:04x}_{word & 0xFFFF:04x},")
print("];")

table("ERF_NEAR", "erf(x) / x in z = x^2 for |x| <= 1.", lambda z: erf(sqrt(z)) / sqrt(z), 0, 1, 11)
table("ERF_FAR", "erf(x) in u = x - 5/2 for 1 <= x <= 4.", lambda u: erf(u + mpf("2.5")), "-1.5", "1.5", 25)
