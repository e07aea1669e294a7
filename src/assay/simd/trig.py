"""Trigonometric functions in float64, of a scalar or of 16 lanes: each within 2 ulp for every argument,
however large. NaN stays NaN, and is what has no value: sin ∞, asin 2.
"""

from __future__ import annotations

from math import factorial, inf

from llvmlite import ir
from numba.core import types
from numba.core.types.containers import Tuple

from assay.simd.device import device
from assay.simd.emit import F64, I8, I64, call, instruction, load_at
from assay.simd.math64 import quotient, two_sum
from assay.simd.rounding import ROUND, as_f64, f64_bits, magnitude, signed
from assay.simd.vector import any_lane, fma, horner, lane, lane_count, select, sqrt, with_lane

# π/2 in three parts, each the float64 nearest to what is left.
QUARTER = 1.5707963267948966
QUARTER_LOW = 6.123233995736766e-17
QUARTER_LEAST = -1.4973849048591698e-33
FAR = 2.0**30

# 2/π · 2**1168, as bytes with the least first, and zeros up to the last place that is read.
DIGITS = 1168
TWO_OVER_PI = bytes.fromhex(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e006492eea09d1921cfe"
    "1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f49c845f8bbdf9283b1ff897ffde05980fef2f"
    "118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d085603"
)[::-1] + bytes(14)
WINDOW = ir.IntType(192)

# Taylor series of sin and cos in x², from x³ and x⁴ on.
_sin = horner(*((-1.0) ** (n // 2) / factorial(n) for n in range(17, 1, -2)))
_cos = horner(*((-1.0) ** (n // 2) / factorial(n) for n in range(18, 3, -2)))
# Minimax, with relative errors of asin x and atan x of 2**-59 and 2**-64.
_asin = horner(
    0.03266709154768446, -0.02106127332665786, 0.021751935757711855, 0.0036878910641372146,
    0.010785221338139937, 0.011398013167057889, 0.013980932054333718, 0.017351602572560406,
    0.022372215520852022, 0.03038194268861598, 0.0446428571750151, 0.07499999999970376, 0.16666666666666763,
)  # fmt: skip
_atan = horner(
    0.015195130749981545, -0.033474437235491185, 0.045035485417185495, -0.05218404116395771,
    0.05877021738513444, -0.06666226748435067, 0.07692282757770115, -0.09090908144471439,
    0.11111111088175554, -0.1428571428538796, 0.1999999999999767, -0.33333333333333326,
)  # fmt: skip


@instruction(Tuple((types.int64, types.float64, types.float64))(types.int64))
def _quarters(builder, word):
    """(n, h, l): 2/π times the float64 with the bits `word`, 2**30 at least, is n + h + l but for a multiple
    of 4 and 2**-137, |h| <= ½.

    That number is m · 2**e with a whole m of 53 bits: the digits of 2/π before the one worth 2**(2 − e) make
    multiples of 4, and of those after it 192 are taken, as one integer.
    """
    table = builder.module.globals.get("assay.two_over_pi")
    if table is None:
        kind = ir.ArrayType(I8, len(TWO_OVER_PI))
        table = ir.GlobalVariable(builder.module, kind, "assay.two_over_pi")
        table.initializer = ir.Constant(kind, bytearray(TWO_OVER_PI))
        table.linkage, table.global_constant = "internal", True
    e = builder.sub(builder.lshr(word, I64(52)), I64(1075))
    m = builder.or_(builder.and_(word, I64(2**52 - 1)), I64(2**52))
    place = builder.sub(I64(DIGITS - 190), e)
    address = builder.add(builder.ptrtoint(table, I64), builder.lshr(place, I64(3)))
    digits = load_at(builder, address, ir.IntType(256), 1)
    digits = builder.lshr(digits, builder.zext(builder.and_(place, I64(7)), digits.type))
    product = builder.mul(builder.trunc(digits, WINDOW), builder.zext(m, WINDOW))
    fraction = builder.shl(product, WINDOW(2))
    below = builder.icmp_signed("<", fraction, WINDOW(0))
    n = builder.add(builder.trunc(builder.lshr(product, WINDOW(190)), I64), builder.zext(below, I64))
    fraction = builder.select(below, builder.neg(fraction), fraction)
    zeros = call(builder, "llvm.ctlz.i192", WINDOW, fraction, ir.IntType(1)(1))
    fraction = builder.shl(fraction, zeros)
    unit = builder.sub(I64(1023 - 53), builder.trunc(zeros, I64))
    parts = []
    for digits_before in (53, 106):
        part = builder.trunc(builder.lshr(fraction, WINDOW(192 - digits_before)), I64)
        part = builder.sitofp(builder.and_(part, I64(2**53 - 1)), F64)
        exponent = builder.sub(unit, I64(digits_before - 53))
        part = builder.fmul(part, builder.bitcast(builder.shl(exponent, I64(52)), F64))
        parts.append(builder.select(below, builder.fneg(part), part))
    return n, *parts


@device
def _turned_far(x, turns, r, low):
    """The same three as `_turned`'s, with those of each x of 2**30 and more put in."""
    for i in range(lane_count(x)):
        y = magnitude(lane(x, i))
        if FAR <= y < inf:
            n, h, rest = _quarters(f64_bits(y))
            high = h * QUARTER
            least = fma(h, QUARTER, -high) + (h * QUARTER_LOW + rest * QUARTER)
            if lane(x, i) < 0.0:
                n, high, least = -n, -high, -least
            turns, r, low = with_lane(turns, i, n), with_lane(r, i, high), with_lane(low, i, least)
    return turns, r, low


@device
def _turned(x):
    """(n, r, low): x is n π/2 + r + low less a multiple of 2 π, |r| <= π/4 (and a little), low an ulp of r.

    Below 2**30 x − n·QUARTER is exact because both are multiples of 2**-53 and the result is below 1; the
    products with the other parts of π/2 leave an error below 2**-125.
    """
    whole = fma(x, 0.6366197723675814, ROUND)
    n = whole - ROUND
    r, low = two_sum(fma(n, -QUARTER, x), n * -QUARTER_LOW)
    low = fma(n, -QUARTER_LEAST, low + (fma(n, -QUARTER_LOW, n * QUARTER_LOW)))
    s = r + low
    turns, r, low = f64_bits(whole), s, (r - s) + low
    if any_lane(magnitude(x) >= FAR):
        turns, r, low = _turned_far(x, turns, r, low)
    return turns, r, low


@device
def _sine_cosine(x):
    """(n, s, s_low, c, c_low) with s + s_low and c + c_low the sine and cosine of x − n π/2 of `_turned`."""
    n, r, low = _turned(x)
    z = r * r
    tail = fma(z * r, _sin(z), low * fma(z, -0.5, 1.0))
    s = r + tail
    half = 0.5 * z
    most = 1.0 - half
    rest = ((1.0 - most) - half) + fma(z * z, _cos(z), -r * low)
    c = most + rest
    return n, s, (r - s) + tail, c, (most - c) + rest


@device
def _quadrant(n, s, c):
    """The sine of an angle n quarter turns on from one with that sine and cosine."""
    return as_f64(f64_bits(select((n & 1) == 0, s, c)) ^ ((n & 2) << 62))


@device
def sin(x):
    """sin x, within 1 ulp; ±0 stays."""
    n, s, _, c, _ = _sine_cosine(x)
    return select(magnitude(x) < 2.0**-27, x, _quadrant(n, s, c))


@device
def cos(x):
    """cos x, within 1 ulp; exactly 1 at 0."""
    n, s, _, c, _ = _sine_cosine(x)
    return _quadrant(n + 1, s, c)


@device
def tan(x):
    """tan x, within 1 ulp; ±0 stays. Sine over cosine, each in two parts."""
    n, s, s_low, c, c_low = _sine_cosine(x)
    even = (n & 1) == 0
    a, a_low = select(even, s, c), select(even, s_low, c_low)
    b, b_low = select(even, c, -s), select(even, c_low, -s_low)
    return select(magnitude(x) < 2.0**-27, x, quotient(a, a_low, b, b_low))


@device
def _half_angle(x):
    """(whether |x| > ½, s, p): asin |x| is s + p, and above ½ that is asin √((1 − |x|) / 2)."""
    a = magnitude(x)
    large = a > 0.5
    z = select(large, 0.5 * (1.0 - a), a * a)
    s = select(large, sqrt(z), a)
    return large, s, s * z * _asin(z)


@device
def asin(x):
    """asin x, within 2 ulp; ±0 stays; NaN beyond ±1."""
    large, s, p = _half_angle(x)
    far = (QUARTER - 2.0 * s) - (2.0 * p - QUARTER_LOW)
    return signed(select(large, far, s + p), x)


@device
def acos(x):
    """acos x, within 2 ulp; 0 at 1; NaN beyond ±1."""
    large, s, p = _half_angle(x)
    near = (QUARTER - signed(s, x)) - (signed(p, x) - QUARTER_LOW)
    double = 2.0 * (s + p)
    far = select(x > 0.0, double, 2.0 * QUARTER - (double - 2.0 * QUARTER_LOW))
    return select(large, far, near)


@device
def atan(x):
    """atan x, within 2 ulp; ±0 stays; ±π/2 at ±infinity.

    Above √2 − 1, π/4 + atan((a − 1) / (a + 1)); above √2 + 1, π/2 − atan(1 / a).
    """
    a = magnitude(x)
    middle, far = a > 0.41421356237309503, a > 2.414213562373095
    t = select(far, -1.0, select(middle, a - 1.0, a)) / select(far, a, select(middle, a + 1.0, 1.0))
    turns = select(far, 1.0, select(middle, 0.5, 0.0))
    z = t * t
    return signed(turns * QUARTER + (t + fma(t * z, _atan(z), turns * QUARTER_LOW)), x)
