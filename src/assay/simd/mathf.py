"""Mathematics of our own on vectors: polynomials and exact reductions, the same bits on every processor."""

from __future__ import annotations

from numba import njit

from assay.simd.vector import convert_f32, convert_i32, floats, fma, select, splat, splat_i32

_ROUND = 12582912.0  # 1.5 * 2**23: adding and taking it away rounds to the nearest even integer


@njit(inline="always")
def exp(x):
    """e**x within 1 ulp; exactly 1 at 0; infinity above 88.72; subnormals kept; NaN stays NaN.

    x = n ln 2 + r with |r| <= ln 2 / 2 (ln 2 in two parts), a polynomial of degree 6 in r, and 2**n in two factors so
    that neither overflows before the product does.
    """
    high, low = splat(89.0), splat(-104.0)
    y = select(x > high, high, x)
    y = select(y < low, low, y)
    n = fma(y, splat(1.44269504088896341), splat(_ROUND)) - splat(_ROUND)
    r = fma(n, splat(-0.693145751953125), y)
    r = fma(n, splat(-1.42860682030941723e-6), r)
    p = fma(splat(1.3888889225e-3), r, splat(8.3333337680e-3))
    p = fma(p, r, splat(4.1666666977e-2))
    p = fma(p, r, splat(0.16666666666))
    p = fma(p, r, splat(0.5))
    p = fma(p, r, splat(1.0))
    p = fma(p, r, splat(1.0))
    whole = convert_i32(select(n == n, n, splat(0.0)))
    first = whole - floor_half(whole)
    second = floor_half(whole)
    return p * power_of_two(first) * power_of_two(second)


@njit(inline="always")
def floor_half(n):
    """n / 2 towards minus infinity, for −512 < n < 512."""
    return ((n + splat_i32(1024)) >> splat_i32(1)) - splat_i32(512)


@njit(inline="always")
def power_of_two(n):
    """2**n for −126 <= n <= 127."""
    return floats((n + splat_i32(127)) << splat_i32(23))
