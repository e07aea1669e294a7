"""The bits of float64, and what is exact: signs, powers of two, whole numbers and remainders, of a scalar or
of 16 lanes.
"""

from __future__ import annotations

from math import inf, nan

from llvmlite import ir
from numba.core import types

from assay.simd.device import device
from assay.simd.emit import F64, I64, instruction
from assay.simd.threads import INVALID, float_state, set_float_state
from assay.simd.vector import VF64, VI64, F64x16, I64x16, any_lane, fma, select

ROUND = 6755399441055744.0  # 1.5 · 2**52: adding it rounds to the nearest even integer, kept in the low bits
LEAST_NORMAL = 2.0**-1022


@instruction(types.int64(types.float64), I64x16(F64x16))
def f64_bits(builder, value):
    """The bits of a float64, as an int64."""
    return builder.bitcast(value, VI64 if isinstance(value.type, ir.VectorType) else I64)


@instruction(types.float64(types.int64), F64x16(I64x16))
def as_f64(builder, word):
    """The float64 with the bits of an int64."""
    return builder.bitcast(word, VF64 if isinstance(word.type, ir.VectorType) else F64)


@device
def magnitude(x):
    """|x|, by its bits."""
    return as_f64(f64_bits(x) & 0x7FFFFFFFFFFFFFFF)


@device
def signed(x, y):
    """|x| with the sign bit of y."""
    return as_f64(f64_bits(magnitude(x)) | (f64_bits(y) & -0x8000000000000000))


@device
def integer(n):
    """A whole number within ±2**51 as an int64."""
    return f64_bits(n + ROUND) - f64_bits(ROUND)


@device
def number(n):
    """An int64 within ±2**51 as a float64."""
    return as_f64(n + f64_bits(ROUND)) - ROUND


@device
def scale(x, n):
    """x · 2**n for an int64 n of −2044 to 2046, in two factors: neither overflows before the product."""
    second = n >> 1
    return x * as_f64((n - second + 1023) << 52) * as_f64((second + 1023) << 52)


@device
def exponent(x):
    """The int64 n with 2**n <= x < 2**(n + 1), for positive finite x; at most −1077 for 0."""
    tiny = x < LEAST_NORMAL
    word = f64_bits(select(tiny, x * 2.0**54, x))
    return (word >> 52) - select(tiny, 1077, 1023)


@device
def nearest(x):
    """x rounded to the nearest whole number, of two to the even one. All four keep ±0, infinities and NaN."""
    a = magnitude(x)
    return signed(select(a < 2.0**52, (a + 2.0**52) - 2.0**52, a), x)


@device
def floor(x):
    """The greatest whole number up to x."""
    n = nearest(x)
    return signed(select(n > x, n - 1.0, n), x)


@device
def ceil(x):
    """The least whole number from x on."""
    n = nearest(x)
    return signed(select(n < x, n + 1.0, n), x)


@device
def flagged(value):
    """The value. One that isn't finite raises a flag of the processor's, as if an operation had made it."""
    if any_lane((magnitude(value) == inf) | (value != value)):
        set_float_state(float_state() | INVALID)
    return value


@device
def fmod(x, y):
    """x − y trunc(x / y), exact, with the sign of x; NaN for an infinite x and for y = 0.

    Multiples of y · 2**n are taken away, n such that each time their number is below 2**52 and the remainder
    has no more digits than a float64. A number may be rounded up to one too many; the remainder shows it.
    """
    a, b = magnitude(x), magnitude(y)
    valid = (a < inf) & (b > 0.0)
    a, b = select(valid, a, 0.0), select(valid, b, 1.0)
    while any_lane(a >= b):
        shift = exponent(a) - exponent(b) - 51
        part = scale(b, select(shift > 0, shift, 0))
        rest = fma(-floor(a / part), part, a)
        a = select(a < b, a, select(rest < 0.0, rest + part, rest))
    return flagged(select(valid, signed(a, x), nan))


@device
def modulo(x, y):
    """x − y floor(x / y) with the sign of y, as Python's %: NaN where `fmod` is."""
    rest = fmod(x, y)
    other = (rest != 0.0) & ((x < 0.0) ^ (y < 0.0))
    return signed(select(other, rest + y, rest), y)
