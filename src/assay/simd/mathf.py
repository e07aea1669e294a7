"""Mathematics of our own: polynomials and exact reductions built from fma, the same bits on every processor.

`exp`, `tanh` and `normal_tail` work on float32 vectors; `exp64`, `log64` and `sincos` on float64 scalars, for
tables and single values.
"""

from __future__ import annotations

from math import factorial

from llvmlite import ir
from numba.core import types
from numba.core.types.containers import UniTuple

from assay.simd.device import device
from assay.simd.emit import F64, I1, I32, I64, call, conversion, instruction
from assay.simd.vector import bits, convert_i32, floats, fma, horner, select, splat, splat_i32

WIDE = ir.IntType(128)

ROUND_F32 = 12582912.0  # 1.5 * 2**23: adding and taking it away rounds to the nearest even integer
ROUND_F64 = 6755399441055744.0  # 1.5 * 2**52, the same for float64
LN2 = 0.6931471805599453
NAN = float("nan")


@instruction(UniTuple(types.int64, 2)(types.int64, types.int64))
def multiply(builder, a, b):
    """The (upper, lower) 64 bits of the product of two int64 words taken as unsigned.

    Numba's own product of signed integers is undefined when it overflows.
    """
    product = builder.mul(builder.zext(a, WIDE), builder.zext(b, WIDE))
    high = builder.trunc(builder.lshr(product, WIDE(64)), I64)
    return high, builder.trunc(product, I64)


f64_bits = conversion(types.int64(types.float64), ir.IRBuilder.bitcast, I64)
"""The bits of a float64, as an int64."""
as_f64 = conversion(types.float64(types.int64), ir.IRBuilder.bitcast, F64)
"""The float64 with the bits of an int64."""


@instruction(types.int64(types.float32))
def f32_bits(builder, value):
    """The bits of a float32, zero-extended to an int64."""
    return builder.zext(builder.bitcast(value, I32), I64)


@instruction(types.int64(types.int64))
def highest_bit(builder, word):
    """The number of the highest set bit; there is one."""
    return builder.sub(I64(63), call(builder, "llvm.ctlz.i64", I64, word, I1(1)))


@instruction(types.int64(types.int64))
def lowest_bit(builder, word):
    """The number of the lowest set bit; there is one."""
    return call(builder, "llvm.cttz.i64", I64, word, I1(1))


_exp = horner(
    0.0013863133499398828, 0.008367440663278103, 0.04166724532842636, 0.16666534543037415, 0.5, 1.0, 1.0
)
_tanh = horner(
    0.0021475368598519694, -0.008182673856522358, 0.021702967104462068, -0.05394720426911672,
    0.1333320976379371, -0.33333330906671665,
)  # fmt: skip
_erf = horner(
    -9.680134786499428e-06, 0.00011270543927653642, -0.0008484711371690851, 0.005221074872793344,
    -0.026865445819527378, 0.11283782747168689, -0.3761263848380692, 1.1283791670631587,
)  # fmt: skip
_erfc = horner(
    0.01836710064868439, -0.16199048709750782, 0.636707835373283, -1.4684400796822037, 2.18354561227142,
    -2.1248252771596774, 1.2313985497434958, -0.19726576234924595, -0.2514393891301035,
    -0.0027758528214824746, 0.5643013259043282,
)  # fmt: skip
# Taylor series, of artanh(√x) / √x − 1 in x too.
_exp64 = horner(*(1.0 / factorial(n) for n in range(13, 1, -1)))
_artanh = horner(*(1.0 / n for n in range(21, 1, -2)))
_sin = horner(*((-1.0) ** (n // 2) / factorial(n) for n in range(15, 1, -2)))
_cos = horner(*((-1.0) ** (n // 2) / factorial(n) for n in range(16, -1, -2)))


@device
def exp(x):
    """e**x on a vector, within 1 ulp; exactly 1 at 0; infinity above 88.7229; subnormals kept; NaN stays NaN.

    x = n ln 2 + r with |r| <= ln 2 / 2 (ln 2 in two parts, the first with 15 bits so that n times it is
    exact), a polynomial of degree 6 in r that is minimax in relative error (3.7e-9) with its first three
    coefficients fixed, and 2**n in two factors so that neither overflows before the product does.
    """
    high, low = splat(89.0), splat(-104.0)
    y = select(x > high, high, x)
    y = select(y < low, low, y)
    n = fma(y, splat(1.44269504088896341), splat(ROUND_F32)) - splat(ROUND_F32)
    r = fma(n, splat(-0.693145751953125), y)
    r = fma(n, splat(-1.42860682030941723e-6), r)
    p = _exp(r)
    whole = convert_i32(select(n == n, n, splat(0.0)))
    first = whole - floor_half(whole)
    second = floor_half(whole)
    return p * power_of_two(first) * power_of_two(second)


@device
def tanh(x):
    """tanh x on a vector, within 2 ulp; ±0 stays, ±1 from 9.01 on; NaN stays NaN.

    Below 0.625 x + x³ P(x²), P of degree 5 with a relative error of 1.5e-10 in its term; above it
    (1 − e) / (1 + e) with e = exp(−2 |x|).
    """
    size = magnitude(x)
    z = size * size
    near = fma(size * z, _tanh(z), size)
    e = exp(splat(-2.0) * size)
    far = (splat(1.0) - e) / (splat(1.0) + e)
    return floats(bits(select(size < splat(0.625), near, far)) | (bits(x) & splat_i32(-0x80000000)))


@device
def normal_tail(x):
    """2 · P(X > |x|) of a standard normal X on a vector: erfc(|x| / √2), within 4e-7 of itself down to 1e-7;
    NaN stays NaN.

    With t = |x| / √2: below 1, 1 − t P(t²), P of degree 7 (3.3e-11); above it exp(−t²) s R(s) with
    s = 1 / t, R of degree 10 (1.1e-9 of itself). From t = 4.2 on it is that at 4.2, 3e-9.
    """
    t = magnitude(x) * splat(0.7071067811865476)
    z = t * t
    near = fma(splat(0.0) - t, _erf(z), splat(1.0))
    u = select(t > splat(4.2), splat(4.2), t)
    s = splat(1.0) / u
    far = exp(splat(0.0) - u * u) * s * _erfc(s)
    return select(t < splat(1.0), near, select(t == t, far, t))


@device
def magnitude(x):
    """|x|, by its bits."""
    return floats(bits(x) & splat_i32(0x7FFFFFFF))


@device
def floor_half(n):
    """n / 2 towards minus infinity, for −512 < n < 512."""
    return ((n + splat_i32(1024)) >> splat_i32(1)) - splat_i32(512)


@device
def power_of_two(n):
    """2**n for −126 <= n <= 127."""
    return floats((n + splat_i32(127)) << splat_i32(23))


@device
def exp64(x):
    """e**x in float64, within 1 ulp; exactly 1 at 0; 0 below −745.2, infinity above 709.8; NaN stays NaN.

    x = n ln 2 + r, the Taylor series to r**13 (the next term is below 2**-57), and 2**n in two factors.
    """
    if x != x:
        return x
    y = min(max(x, -746.0), 710.0)
    n = fma(y, 1.4426950408889634, ROUND_F64) - ROUND_F64
    r = fma(n, -0.693147180369123816490, y)  # 33 bits: n times it is exact
    low = n * -1.90821492927058770002e-10
    s = r + low
    lost = (r - s) + low
    value = 1.0 + (s + fma(_exp64(s), s * s, lost))
    whole = int(n)
    second = whole >> 1
    first = whole - second
    return value * as_f64((first + 1023) << 52) * as_f64((second + 1023) << 52)


@device
def log64(x):
    """ln x in float64, within 1 ulp, for normal positive x; 0 at 1 exactly.

    x = 2**n m with m in [√½, √2); ln m = 2 artanh(s) with s = (m − 1) / (m + 1), |s| < 0.1716, by its
    series to s**21 (the next term is below 2**-60 of the first).
    """
    word = f64_bits(x)
    n = (word - f64_bits(0.7071067811865476)) >> 52
    m = as_f64(word - (n << 52))
    f = m - 1.0
    s = f / (m + 1.0)
    z = s * s
    half = 0.5 * f * f  # 2 artanh(s) = f − f²/2 + s (f²/2 + 2 z² p'), which keeps f exact
    tail = s * fma(2.0 * z, _artanh(z), half)
    k = float(n)
    low = fma(k, 1.90821492927058770002e-10, tail)
    return fma(k, 0.693147180369123816490, f - (half - low))


@device
def sincos(x):
    """(sin x, cos x) in float64, each within 5e-16, for |x| <= 2**20; (NaN, NaN) for any other x.

    x = n π/2 + r with |r| <= π/4 (+ 2**-30): x − n·high is exact because both are multiples of 2**-53 and
    the result is below 1; the second part of π/2 costs one rounding, 2**-54. Then Taylor series to r**15
    and r**16 (the next terms are below 5e-17), and the quadrant from n mod 4.
    """
    if not abs(x) <= 1048576.0:
        return NAN, NAN
    n = fma(x, 0.6366197723675814, ROUND_F64) - ROUND_F64
    r = fma(n, -1.5707963267948966, x)
    r = fma(n, -6.123233995736766e-17, r)
    z = r * r
    s = fma(_sin(z) * z, r, r)
    c = _cos(z)
    quadrant = int(n) & 3
    if quadrant == 0:
        return s, c
    if quadrant == 1:
        return c, -s
    if quadrant == 2:
        return -s, -c
    return -c, s
