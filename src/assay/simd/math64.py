"""Exponentials, logarithms, powers, hyperbolic functions and erf in float64, of a scalar or of 16 lanes.

Each is within 2 ulp of the exact value over all arguments (tests/simd/test_math64.py holds it to less), keeps
subnormals, and gives a NaN for a NaN. No branches: both ways of a `select` are evaluated, and what the way
not taken makes of arguments that are not its own, NaN or infinity, is dropped.
"""

from __future__ import annotations

from math import factorial, inf, nan

from assay.simd.device import device
from assay.simd.rounding import (
    LEAST_NORMAL,
    ROUND,
    as_f64,
    f64_bits,
    flagged,
    integer,
    magnitude,
    nearest,
    number,
    scale,
    signed,
)
from assay.simd.vector import fma, horner, select, sqrt

LN2_HIGH = 0.693147180369123816490  # 33 bits: whole numbers of 20 bits times it are exact
LN2_LOW = 1.90821492927058770002e-10
THIRD_LOW = 1.850371707708594e-17  # 1/3 less the float64 nearest to it
HALF_ROOT_WORD = 0x3FE6A09E667F3BCD  # √½


# Taylor series: (e**x − 1 − x) / x², artanh(√x) / √x − 1, (sinh √x / √x − 1) / x.
_exp_tail = horner(*(1.0 / factorial(n) for n in range(13, 1, -1)))
_artanh = horner(*(1.0 / n for n in range(21, 1, -2)))
_artanh_tail = horner(*(1.0 / n for n in range(25, 3, -2)))
_sinh = horner(*(1.0 / factorial(n) for n in range(19, 1, -2)))
_erf = horner(
    5.960685338520971e-11, -1.137495573607015e-09, 1.466032872274226e-08, -1.6350396222864617e-07,
    1.64610084778027e-06, -1.4925595772180906e-05, 0.0001205533113295582, -0.0008548326981425542,
    0.005223977624828431, -0.026866170645077875, 0.11283791670954885, -0.3761263890318375,
    0.12837916709551258,
)  # fmt: skip
_erfcx = horner(
    -1.264461342922498e-05, -2.6612195027290838e-05, 2.7622855657743557e-05, 0.0001742884421875391,
    4.353618316708747e-05, -0.0009819764727405195, -0.0008471425903711144, 0.006997461785500906,
    0.003732892398522726, -0.07897858101641513, 0.2416581942424689, -0.4271858474139568, 0.25539567631050575,
)  # fmt: skip


@device
def two_sum(a, b):
    """(a + b, what the rounding lost), exact unless it overflows."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


@device
def quotient(a, a_low, b, b_low):
    """(a + a_low) / (b + b_low) within little more than ½ ulp; each low part is an ulp or so of its other."""
    q = a / b
    return q + (fma(-q, b, a) + (a_low - q * b_low)) / b


@device
def exp_parts(x, low):
    """(n, s, t) with e**(x + low) = 2**n (1 + s + t), |s| < 0.35, t below s²; `low` is an ulp of x or so.

    x = n ln 2 + s, the Taylor series to s**13 (the next term is below 2**-57).
    """
    n = fma(x, 1.4426950408889634, ROUND) - ROUND
    r = fma(n, -LN2_HIGH, x)
    rest = fma(n, -LN2_LOW, low)
    s = r + rest
    return n, s, fma(_exp_tail(s), s * s, (r - s) + rest)


@device
def within(x, low, high):
    """x, no less than low and no more than high."""
    return select(x < low, low, select(x > high, high, x))


@device
def _exp(x, low, doublings):
    """2**doublings e**(x + low), 0 and infinity beyond the range; `low` is an ulp of x or so."""
    n, s, t = exp_parts(within(x, -746.0, 711.0), low)
    p = 1.0 + s
    return scale(p + (((1.0 - p) + s) + t), integer(n) + doublings)


@device
def exp(x):
    """e**x, within 1 ulp; exactly 1 at 0; 0 below −745.2, infinity above 709.8."""
    return _exp(x, 0.0, 0)


@device
def expm1(x):
    """e**x − 1, within 2 ulp for small x too; ±0 stays."""
    n, s, t = exp_parts(within(x, -40.0, 710.0), 0.0)
    half = scale(0.5, integer(n))
    p, lost = two_sum(half - 0.5, half * s)
    value = 2.0 * (p + (lost + half * t))
    return select(magnitude(x) > 1e-17, value, x)


@device
def _ln(x, low, doublings):
    """ln(x (1 + low) 2**doublings) for a positive normal finite x and a |low| of an ulp or so.

    x = 2**n m with m in [√½, √2); ln m = 2 artanh(s) with s = (m − 1) / (m + 1), |s| < 0.1716, by its series
    to s**21 (the next term is below 2**-60 of the first).
    """
    word = f64_bits(x)
    n = (word - HALF_ROOT_WORD) >> 52
    f = as_f64(word - (n << 52)) - 1.0
    s = f / (f + 2.0)
    z = s * s
    half = 0.5 * f * f  # 2 artanh(s) = f − f²/2 + s (f²/2 + 2 z² p'), which keeps f exact
    tail = s * fma(2.0 * z, _artanh(z), half)
    k = number(n) + doublings
    rest = fma(k, LN2_LOW, tail + low)
    return fma(k, LN2_HIGH, f - (half - rest))


@device
def _ends(x, value):
    """ln x where `value` is that of finite positive x."""
    return flagged(select(x > 0.0, select(x < inf, value, x), select(x == 0.0, -inf, nan)))


@device
def log(x):
    """ln x, within 1 ulp; 0 at 1 exactly; −infinity at ±0, NaN below."""
    tiny = x < LEAST_NORMAL
    return _ends(x, _ln(select(tiny, x * 2.0**54, x), 0.0, select(tiny, -54.0, 0.0)))


@device
def _ln_beyond_one(v, x, large):
    """ln(1 + v), of one more than v to more than float64's digits; or ln(2 x) where that is `large`."""
    u, lost = two_sum(v, 1.0)
    low = lost / u
    u, low, doublings = select(large, x, u), select(large, 0.0, low), select(large, 1.0, 0.0)
    return _ends(u, _ln(u, low, doublings))


@device
def log1p(x):
    """ln(1 + x), within 1 ulp for small x too; ±0 stays; −infinity at −1, NaN below."""
    return select(magnitude(x) > 1e-17, _ln_beyond_one(x, x, x == inf), x)


@device
def asinh(x):
    """arsinh x, within 2 ulp; ±0 stays. ln(1 + a + a² / (1 + √(1 + a²))), and ln 2 a for a above 2**28."""
    a = magnitude(x)
    v = a + a * a / (1.0 + sqrt(fma(a, a, 1.0)))
    value = _ln_beyond_one(v, a, a > 2.0**28)
    return select(a > 1e-17, signed(value, x), x)


@device
def acosh(x):
    """arcosh x, within 2 ulp; 0 at 1; NaN below. ln(1 + t + √(2 t + t²)) with t = x − 1."""
    t = x - 1.0
    return flagged(select(x < 1.0, nan, _ln_beyond_one(t + sqrt(fma(t, t, 2.0 * t)), x, x > 2.0**28)))


@device
def atanh(x):
    """artanh x, within 2 ulp; ±0 stays; ±infinity at ±1, NaN beyond. ½ ln(1 + 2 a / (1 − a))."""
    a = magnitude(x)
    value = 0.5 * _ln_beyond_one(2.0 * a / (1.0 - a), a, a > 1.0)
    return flagged(select(a > 1e-17, select(a <= 1.0, signed(value, x), nan), x))


@device
def sinh(x):
    """sinh x, within 2 ulp; ±0 stays. Below 1 the Taylor series to x**19; above, ½ e**a − ½ e**−a."""
    a = magnitude(x)
    half = _exp(a, 0.0, -1)
    z = a * a
    near = fma(a * z, _sinh(z), a)
    return signed(select(a < 1.0, near, half - 0.25 / half), x)


@device
def cosh(x):
    """cosh x, within 2 ulp: ½ e**a + ½ e**−a."""
    a = magnitude(x)
    half = _exp(a, 0.0, -1)
    return half + 0.25 / half


@device
def tanh(x):
    """tanh x, within 2 ulp; ±0 stays; ±1 from 19.1 on. (e**2a − 1) / (e**2a + 1)."""
    a = magnitude(x)
    e = expm1(2.0 * select(a > 22.0, 22.0, a))
    d, lost = two_sum(e, 2.0)
    return signed(quotient(e, 0.0, d, lost), x)


@device
def sigmoid(x):
    """1 / (1 + e**−x), within 2 ulp."""
    e = exp(-magnitude(x))
    d, lost = two_sum(e, 1.0)
    return quotient(select(x < 0.0, e, 1.0), 0.0, d, lost)


@device
def softplus(x):
    """ln(1 + e**x), within 2 ulp, without overflow."""
    return select(x > 0.0, x, 0.0) + log1p(exp(-magnitude(x)))


@device
def erf(x):
    """erf x, within 2 ulp; ±0 stays; ±1 from 5.93 on.

    Below 1, x + x P(x²), P of degree 12, with a relative error of 2**-62; above it
    1 − exp(−x²) Q((x − 2) / (x + 2)), Q of degree 12, with an error of 2**-60.
    """
    a = magnitude(x)
    b = select(a > 6.0, 6.0, a)
    far = 1.0 - exp(-b * b) * _erfcx((b - 2.0) / (b + 2.0))
    return signed(select(a < 1.0, fma(a, _erf(a * a), a), far), x)


@device
def _ln_parts(x):
    """(high, low) with high + low = ln x to 2**-63 of itself, for positive finite x.

    As `_ln`, with s, the first terms 2 s + 2/3 s³ and n ln 2 in two parts each, and the series to s**25.
    """
    tiny = x < LEAST_NORMAL
    word = f64_bits(select(tiny, x * 2.0**54, x))
    n = (word - HALF_ROOT_WORD) >> 52
    f = as_f64(word - (n << 52)) - 1.0
    d, lost = two_sum(2.0, f)
    s = f / d
    s_low = (fma(-s, d, f) - s * lost) / d
    z = s * s
    z_low = fma(s, s, -z) + 2.0 * s * s_low
    c, c_low = two_sum(1.0 / 3.0, z * _artanh_tail(z))
    c_low = c_low + THIRD_LOW
    t = z * c
    t_low = fma(z, c, -t) + (z * c_low + z_low * c)
    u = s * t
    u_low = fma(s, t, -u) + (s * t_low + s_low * t)
    k = number(n) + select(tiny, -54.0, 0.0)
    m, m_low = two_sum(s, u)
    high, rest = two_sum(k * LN2_HIGH, 2.0 * m)
    low = fma(k, LN2_LOW, rest + 2.0 * (m_low + (u_low + s_low)))
    return high, low


@device
def power(x, y):
    """x**y, within 1 ulp, with the special values of IEEE 754: x**±0, 1**y and (−1)**±infinity are 1, even of
    NaN; a negative x to an odd y is negative, to a finite y that is not whole NaN.

    exp(y ln |x|), with the logarithm and the product in two parts.
    """
    a, b = magnitude(x), magnitude(y)
    high, low = _ln_parts(a)
    # Past ±2**1000 every power of a number that isn't 1 is 0 or infinity, and no product is infinite.
    z = select(b > 2.0**1000, signed(2.0**1000, y), y)
    p = z * high
    p_low = select(magnitude(p) < 746.0, fma(z, high, -p) + z * low, 0.0)
    value = _exp(p, p_low, 0)
    value = select((a > 0.0) & (a < inf), value, select((a == 0.0) ^ (y < 0.0), 0.0, inf))
    whole, half = nearest(b) == b, 0.5 * b
    value = select(whole & (nearest(half) != half), signed(value, x), value)
    value = select((x == x) & (y == y) & (whole | (x >= 0.0) | (a == inf)), value, nan)
    return flagged(select((x == 1.0) | (y == 0.0), 1.0, value))
