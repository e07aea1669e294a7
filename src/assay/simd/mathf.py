"""Mathematics of our own on float32 vectors: polynomials and exact reductions built from fma, the same bits
on every processor. What is not here as float32's own is float64's (math64, trig, rounding), by `single`.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import types
from numba.core.types.containers import UniTuple

from assay.simd.device import device
from assay.simd.emit import I1, I32, I64, call, instruction
from assay.simd.vector import bits, convert_i32, floats, fma, horner, narrow, select, splat, splat_i32, widen

WIDE = ir.IntType(128)

ROUND_F32 = 12582912.0  # 1.5 * 2**23: adding and taking it away rounds to the nearest even integer
LN2 = 0.6931471805599453
ERF_SLOPE = 1.1283791670631587


@instruction(UniTuple(types.int64, 2)(types.int64, types.int64))
def multiply(builder, a, b):
    """The (upper, lower) 64 bits of the product of two int64 words taken as unsigned.

    Numba's own product of signed integers is undefined when it overflows.
    """
    product = builder.mul(builder.zext(a, WIDE), builder.zext(b, WIDE))
    high = builder.trunc(builder.lshr(product, WIDE(64)), I64)
    return high, builder.trunc(product, I64)


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
    -0.026865445819527378, 0.11283782747168689, -0.3761263848380692,
)  # fmt: skip
_erfc = horner(
    0.01836710064868439, -0.16199048709750782, 0.636707835373283, -1.4684400796822037, 2.18354561227142,
    -2.1248252771596774, 1.2313985497434958, -0.19726576234924595, -0.2514393891301035,
    -0.0027758528214824746, 0.5643013259043282,
)  # fmt: skip


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
    small = select(size < splat(0.625), size, splat(0.0))  # or its powers overflow, and raise that flag
    z = small * small
    near = fma(small * z, _tanh(z), small)
    e = exp(splat(-2.0) * select(size > splat(16.0), splat(16.0), size))
    far = (splat(1.0) - e) / (splat(1.0) + e)
    return signed(select(size < splat(0.625), near, far), x)


@device
def normal_tail(x):
    """2 · P(X > |x|) of a standard normal X on a vector: erfc(|x| / √2), within 4e-7 of itself down to 1e-7,
    below within 2e-4; 0 from |x| = 14.5 on; NaN stays NaN.

    With t = |x| / √2: below 1, 1 − t P(t²), P of degree 7 (3.3e-11); above it exp(−t²) s R(s) with
    s = 1 / t, R of degree 10 (1.1e-9 of itself up to t = 4.2, R(0) 2e-4 more than 1 / √π).
    """
    t = magnitude(x) * splat(0.7071067811865476)
    small = select(t < splat(1.0), t, splat(0.0))
    z = small * small
    near = fma(splat(0.0) - small, fma(_erf(z), z, splat(ERF_SLOPE)), splat(1.0))
    return select(t < splat(1.0), near, select(t == t, _far_tail(t), t))


@device
def _far_tail(t):
    u = select(t > splat(16.0), splat(16.0), select(t < splat(1.0), splat(1.0), t))
    s = splat(1.0) / u
    return exp(splat(0.0) - u * u) * s * _erfc(s)


@device
def erf(x):
    """erf x on a vector, within 2 ulp; ±0 stays; NaN stays NaN. The polynomials are `normal_tail`'s."""
    t = magnitude(x)
    small = select(t < splat(1.0), t, splat(0.0))
    z = small * small
    near = fma(small, fma(_erf(z), z, splat(ERF_SLOPE - 1.0)), small)
    return signed(select(t < splat(1.0), near, select(t == t, splat(1.0) - _far_tail(t), t)), x)


@device
def sigmoid(x):
    """1 / (1 + e**−x) on a vector, within 2 ulp; NaN stays NaN.

    With e = e**−|x| and q = e / (1 + e): 1 − q, and e − e q below 0, so that only a part of q's error counts.
    """
    e = exp(-magnitude(x))
    most = select(x < splat(0.0), e, splat(1.0))
    return fma(-most, e / (splat(1.0) + e), most)


def single(function, operands=1):
    """A function of one or two times 16 float64 lanes (math64, trig, rounding) as one of float32 vectors:
    rounded once, so within little more than ½ ulp, and exact where that one is.
    """

    @device
    def of_one(x):
        return narrow(function(widen(x)))

    @device
    def of_two(x, y):
        return narrow(function(widen(x), widen(y)))

    return of_one if operands == 1 else of_two


@device
def magnitude(x):
    """|x|, by its bits."""
    return floats(bits(x) & splat_i32(0x7FFFFFFF))


@device
def signed(size, x):
    """A size, with the sign bit of x put to its own."""
    return floats(bits(size) | (bits(x) & splat_i32(-0x80000000)))


@device
def floor_half(n):
    """n / 2 towards minus infinity, for −512 < n < 512."""
    return ((n + splat_i32(1024)) >> splat_i32(1)) - splat_i32(512)


@device
def power_of_two(n):
    """2**n for −126 <= n <= 127."""
    return floats((n + splat_i32(127)) << splat_i32(23))
