"""Block functions: what a chain does with up to 256 elements, one for each operation and element type.

`blocks.add_float32` is called by address, by the chain (elementwise.py), as (address of the addresses of
result and operands, number of elements, 0), and touches no elements beyond that number. A name is an
operation and the dtype of its operands; but `where_uint16` has operands of that many bits behind its bool,
and `cast_float32_int8` is from one dtype to another. Each function is made when it is asked for.

float16 and bfloat16 are computed in float32 and rounded once. Integers wrap; they divide towards zero, by 0
to 0, and shifts by 64 or more give 0. Of NaN and a number min and max are NaN, of +0 and −0 the second.
`canonical` makes every NaN the quiet one without sign and payload. Results of comparisons are bool.
"""

from __future__ import annotations

import inspect
import re
from math import inf, nan

from assay.simd import math64, mathf, rounding, trig
from assay.simd.device import device
from assay.simd.elements import ELEMENTS, conversion
from assay.simd.mathf import normal_tail, single
from assay.simd.memory import get_i64
from assay.simd.vector import (
    F32x16,
    F64x16,
    I64x16,
    Mask16,
    U64x16,
    any_lane,
    divide_i64,
    divide_u64,
    fma,
    select,
    sqrt,
)  # fmt: skip

CUBIC = 0.044715
SLOPE = 1.5957691216057308  # 2 √(2 / π)
ROOT_HALF = 0.7071067811865476
exp, sigmoid64, erf64 = mathf.exp, math64.sigmoid, math64.erf


def _remainder(divide):
    """Of integers, with the sign of b."""

    @device
    def remainder(a, b):
        rest = divide(a, b)[1]
        return select(((rest < 0) ^ (b < 0)) & (rest != 0), rest + b, rest)

    return remainder


@device
def _integer_power(a, b):
    """By squaring; to a negative power 0, but of 1 and −1."""
    total, base, left = a ^ a | 1, a, select(b < 0, 0, b)
    while any_lane(left != 0):
        total = select((left & 1) != 0, total * base, total)
        base = base * base
        left = (left >> 1) & 0x7FFFFFFFFFFFFFFF
    inverse = select(a == 1, 1, select(a == -1, select((b & 1) != 0, a, 1), a ^ a))
    return select(b < 0, inverse, total)


@device
def _gelu(x):
    tail = normal_tail(x)
    return 0.5 * x * select(x < 0.0, tail, 2.0 - tail)


@device
def _gelu_tanh_slope(x):
    return fma(x * x * CUBIC, x, x) * SLOPE


NUMBERS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "min": lambda a, b: select((a < b) | (a != a), a, b),
    "max": lambda a, b: select((a > b) | (a != a), a, b),
    "equal": lambda a, b: a == b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
    "where": lambda a, b, c: select(a, b, c),
}
FLOATS = NUMBERS | {
    "div": lambda a, b: a / b,
    "sign": lambda a: select(a > 0.0, 1.0, select(a < 0.0, -1.0, a - a)),
    "relu": lambda a: select(a < 0.0, 0.0, a),
    "reciprocal": lambda a: 1.0 / a,
    "sqrt": lambda a: sqrt(a),
    "isnan": lambda a: a != a,
    "isinf": lambda a: (a == inf) | (a == -inf),
    "isposinf": lambda a: a == inf,
    "isneginf": lambda a: a == -inf,
    "canonical": lambda a: select(a == a, a, nan),
}
INTEGERS = NUMBERS | {
    "abs": lambda a: select(a < 0, -a, a),
    "sign": lambda a: select(a > 0, 1, select(a < 0, -1, a)),
    "relu": lambda a: select(a < 0, 0, a),
    "pow": _integer_power,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "not": lambda a: ~a,
    "shift_left": lambda a, b: select((b >= 0) & (b < 64), a << b, 0),
    "shift_right": lambda a, b: select((b >= 0) & (b < 64), a >> b, 0),
}
ELEMENTARY = {
    **{
        name: getattr(math64, name) for name in ("log", "sinh", "cosh", "asinh", "acosh", "atanh", "softplus")
    },
    **{name: getattr(trig, name) for name in ("sin", "cos", "tan", "asin", "acos", "atan")},
    "floor": rounding.floor,
    "ceil": rounding.ceil,
    "round": rounding.nearest,
}
"""Functions of one float64 vector."""
FORMULAS = {
    F32x16: FLOATS | {name: single(function) for name, function in ELEMENTARY.items()} | {
        "abs": mathf.magnitude,
        "fmod": single(rounding.fmod, operands=2),
        "mod": single(rounding.modulo, operands=2),
        "pow": single(math64.power, operands=2),
        "exp": mathf.exp,
        "tanh": mathf.tanh,
        "erf": mathf.erf,
        "sigmoid": mathf.sigmoid,
        "silu": lambda a: a / (1.0 + exp(-a)),
        "gelu": _gelu,
        "gelu_tanh": lambda a: a / (1.0 + exp(-_gelu_tanh_slope(a))),
    },
    F64x16: FLOATS | ELEMENTARY | {
        "abs": rounding.magnitude,
        "fmod": rounding.fmod,
        "mod": rounding.modulo,
        "pow": math64.power,
        "exp": math64.exp,
        "tanh": math64.tanh,
        "erf": math64.erf,
        "sigmoid": math64.sigmoid,
        "silu": lambda a: a * sigmoid64(a),
        "gelu": lambda a: 0.5 * a * (1.0 + erf64(a * ROOT_HALF)),
        "gelu_tanh": lambda a: a * sigmoid64(_gelu_tanh_slope(a)),
    },
    I64x16: INTEGERS | {
        # All bits are the sign where so many are shifted that none is left.
        "shift_right": lambda a, b: select((b >= 0) & (b < 64), a >> b, a >> 63),
        "div": lambda a, b: divide_i64(a, b)[0],
        "mod": _remainder(divide_i64),
        "fmod": lambda a, b: divide_i64(a, b)[1],
    },
    U64x16: INTEGERS | {
        "div": lambda a, b: divide_u64(a, b)[0],
        "mod": lambda a, b: divide_u64(a, b)[1],
        "fmod": lambda a, b: divide_u64(a, b)[1],
    },
    Mask16: {
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "not": lambda a: ~a,
        "equal": lambda a, b: ~(a ^ b),
    },
}  # fmt: skip
"""By the lanes of the operands' dtype. A formula is compiled only with what uses it."""
TO_BOOL = re.compile("is|equal|less|greater")


@device
def _sixteens(count):
    return count & -16


@device
def _none(count):
    return count & 0


def _block(formula, reads, makes):
    """The block function of a formula, the elements of its operands, and that of its result.

    A short formula, one that is written here, is compiled a second time for 16 elements of which all are
    there; for others, and for narrow elements, that would take longer than it saves.
    """
    value = device(formula) if inspect.isfunction(formula) else formula
    short = value is not formula and all(each.size >= 4 for each in (*reads, makes))
    whole = _sixteens if short else _none
    (first, *_), (second, *_), third = reads, reads[1:] or reads, reads[-1]
    get_a, get_b, get_c, put = first.load, second.load, third.load, makes.store
    a_size, b_size, c_size, size = first.size, second.size, third.size, makes.size

    def unary(operands, count, unused):
        y, a = get_i64(operands), get_i64(operands + 8)
        for i in range(0, whole(count), 16):
            put(y + size * i, 16, value(get_a(a + a_size * i, 16)))
        for i in range(whole(count), count, 16):
            put(y + size * i, count - i, value(get_a(a + a_size * i, count - i)))

    def binary(operands, count, unused):
        y, a, b = get_i64(operands), get_i64(operands + 8), get_i64(operands + 16)
        for i in range(0, whole(count), 16):
            put(y + size * i, 16, value(get_a(a + a_size * i, 16), get_b(b + b_size * i, 16)))
        for i in range(whole(count), count, 16):
            left = count - i
            put(y + size * i, left, value(get_a(a + a_size * i, left), get_b(b + b_size * i, left)))

    def ternary(operands, count, unused):
        y, a = get_i64(operands), get_i64(operands + 8)
        b, c = get_i64(operands + 16), get_i64(operands + 24)
        for i in range(0, whole(count), 16):
            low, high = get_b(b + b_size * i, 16), get_c(c + c_size * i, 16)
            put(y + size * i, 16, value(get_a(a + a_size * i, 16), low, high))
        for i in range(whole(count), count, 16):
            left = count - i
            low, high = get_b(b + b_size * i, left), get_c(c + c_size * i, left)
            put(y + size * i, left, value(get_a(a + a_size * i, left), low, high))

    return (unary, binary, ternary)[len(reads) - 1]


def __getattr__(name: str):
    """The block function of that name. Raises AttributeError for an operation that its dtype hasn't."""
    operation, _, dtype = name.rpartition("_")
    if name.startswith("cast_"):
        source, target = (ELEMENTS[each] for each in name.split("_", 2)[1:])
        return _block(conversion(source, target), (source,), target)
    if dtype not in ELEMENTS or operation not in FORMULAS[ELEMENTS[dtype].vector]:
        raise AttributeError(name)
    element = ELEMENTS[dtype]
    formula = FORMULAS[element.vector][operation]
    many = len(inspect.signature(getattr(formula, "py_func", formula)).parameters)
    reads = (ELEMENTS["bool"], element, element) if operation == "where" else (element,) * many
    return _block(formula, reads, ELEMENTS["bool"] if TO_BOOL.match(operation) else element)
