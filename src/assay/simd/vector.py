"""Vectors of 16 lanes as Numba values.

`F32x16`, `I32x16`, `F64x16`, `I64x16`, `U64x16` and `Mask16` are LLVM vectors; LLVM splits them into the
registers that the processor has, so one kernel text serves every width with the same bits. Arithmetic is
exact IEEE: no contraction, no reassociation. All but `I32x16` and masks take a scalar in the other operand's
place, so that one text serves a float64 and 16 of them, or floats of any width.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from functools import reduce

from llvmlite import ir
from numba.core import types
from numba.core.typeconv import Conversion
from numba.core.types.containers import UniTuple
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin, lower_cast, models, register_model

from assay.simd.emit import (
    F32,
    F64,
    I1,
    I16,
    I32,
    I64,
    call,
    constant,
    conversion,
    fused,
    instruction,
    named,
    spread,
)

LANES = 16
VF32 = ir.VectorType(F32, LANES)
VI32 = ir.VectorType(I32, LANES)
VF64 = ir.VectorType(F64, LANES)
VI64 = ir.VectorType(I64, LANES)
VI1 = ir.VectorType(I1, LANES)


class Vector(types.Type):
    """Numba's name for one LLVM vector type, and the kind of scalars that it takes in all lanes, if any."""

    def __init__(self, name: str, llvm: ir.VectorType, scalars: type[types.Number] | None = None) -> None:
        super().__init__(name)
        self.llvm = llvm
        self.scalars = scalars

    def can_convert_from(self, typingctx, other):
        return Conversion.safe if self.scalars and isinstance(other, self.scalars) else None


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    def __init__(self, manager: object, vector: Vector) -> None:
        super().__init__(manager, vector, vector.llvm)


F32x16 = Vector("F32x16", VF32, types.Float)
I32x16 = Vector("I32x16", VI32)
F64x16 = Vector("F64x16", VF64, types.Float)
I64x16 = Vector("I64x16", VI64, types.Integer)
U64x16 = Vector("U64x16", VI64, types.Integer)
Mask16 = Vector("Mask16", VI1)


@lower_cast(types.Float, F32x16)
@lower_cast(types.Float, F64x16)
@lower_cast(types.Integer, I64x16)
@lower_cast(types.Integer, U64x16)
def _all_lanes(context, builder, scalar, vector, value):
    element = {F32x16: types.float32, F64x16: types.float64}.get(vector, types.int64)
    return spread(builder, context.cast(builder, value, scalar, element), LANES)


Emit = Callable[..., ir.Value]
"""What makes code of a builder and values."""


def _operator(python, emit: dict[Vector, Emit], result: Vector | None = None, operands: int = 2) -> None:
    """Register `python` on vectors of one kind, each as what `emit` makes of them."""

    @infer_global(python)
    class Typing(AbstractTemplate):
        def generic(self, args, kws):
            for vector in set(args) & set(emit):
                if all(arg == vector or vector.can_convert_from(self.context, arg) for arg in args):
                    return signature(result or vector, *[vector] * operands)
            return None

    for vector, function in emit.items():

        def lower(context, builder, sig, args, function=function):
            return function(builder, *args)

        lower_builtin(python, *[vector] * operands)(lower)


_BUILD = ir.IRBuilder
_FLOATS, _INTEGERS = (F32x16, F64x16), (I32x16, I64x16, U64x16)


def _arithmetic(python, on_floats: Emit, on_integers: Emit) -> None:
    _operator(python, dict.fromkeys(_FLOATS, on_floats) | dict.fromkeys(_INTEGERS, on_integers))


_arithmetic(operator.add, _BUILD.fadd, _BUILD.add)
_arithmetic(operator.sub, _BUILD.fsub, _BUILD.sub)
_arithmetic(operator.mul, _BUILD.fmul, _BUILD.mul)
_operator(operator.truediv, dict.fromkeys(_FLOATS, _BUILD.fdiv))
_operator(
    operator.neg, {**dict.fromkeys(_FLOATS, _BUILD.fneg), **dict.fromkeys(_INTEGERS, _BUILD.neg)}, operands=1
)
_operator(operator.invert, dict.fromkeys((*_INTEGERS, Mask16), _BUILD.not_), operands=1)
_operator(operator.and_, dict.fromkeys((*_INTEGERS, Mask16), _BUILD.and_))
_operator(operator.or_, dict.fromkeys((*_INTEGERS, Mask16), _BUILD.or_))
_operator(operator.xor, dict.fromkeys((*_INTEGERS, Mask16), _BUILD.xor))
_operator(operator.lshift, dict.fromkeys(_INTEGERS, _BUILD.shl))
_operator(operator.rshift, {I32x16: _BUILD.lshr, U64x16: _BUILD.lshr, I64x16: _BUILD.ashr})  # as of an int64


def _comparison(python, symbol: str) -> None:
    def floats(builder, left, right):
        compare = builder.fcmp_unordered if symbol == "!=" else builder.fcmp_ordered
        return compare(symbol, left, right)

    def integers(builder, left, right):
        return builder.icmp_signed(symbol, left, right)

    def unsigned(builder, left, right):
        return builder.icmp_unsigned(symbol, left, right)

    kinds = dict.fromkeys(_FLOATS, floats) | dict.fromkeys(_INTEGERS, integers) | {U64x16: unsigned}
    _operator(python, kinds, Mask16)


_comparison(operator.lt, "<")
_comparison(operator.le, "<=")
_comparison(operator.gt, ">")
_comparison(operator.ge, ">=")
_comparison(operator.eq, "==")
_comparison(operator.ne, "!=")


@instruction(F32x16(types.float32))
def splat(builder, value):
    """The float32 `value` in all lanes (a float64 literal is rounded to float32)."""
    return spread(builder, value, LANES)


@instruction(F64x16(types.float64))
def splat_f64(builder, value):
    """The float64 `value` in all lanes."""
    return spread(builder, value, LANES)


@instruction(I32x16(types.int32))
def splat_i32(builder, value):
    """The integer `value`, cut to 32 bits, in all lanes."""
    return spread(builder, value, LANES)


@instruction(*(kind(kind, kind, kind) for kind in (F32x16, F64x16, types.float32, types.float64)))
def fma(builder, a, b, c):
    """a·b + c with one rounding, on vectors or on scalars."""
    return fused(builder, a, b, c)


def _division(vector: Vector):
    """The function to (quotient, towards zero, and remainder) of integers. Both are 0 for b = 0, where
    processors trap, as they would for the least integer by −1, whose quotient wraps.
    """

    @instruction(UniTuple(vector, 2)(vector, vector))
    def divide(builder, a, b):
        zero, one = constant(VI64, 0), constant(VI64, 1)
        none = builder.icmp_signed("==", b, zero)
        if vector == U64x16:
            quotient = builder.udiv(a, builder.select(none, one, b))
        else:
            turned = builder.icmp_signed("==", b, constant(VI64, -1))
            quotient = builder.sdiv(a, builder.select(builder.or_(none, turned), one, b))
            quotient = builder.select(turned, builder.neg(a), quotient)
        quotient = builder.select(none, zero, quotient)
        rest = builder.sub(a, builder.mul(quotient, b))
        return quotient, builder.select(none, zero, rest)

    return divide


divide_i64, divide_u64 = map(_division, (I64x16, U64x16))


def horner(*coefficients: float):
    """The polynomial with these coefficients, the highest power's first, by fma."""

    @instruction(*(kind(kind) for kind in (F32x16, F64x16, types.float64)))
    def evaluate(builder, x):
        factors = [constant(x.type, coefficient) for coefficient in coefficients]
        return reduce(lambda total, factor: fused(builder, total, x, factor), factors)

    return evaluate


@instruction(*(kind(kind) for kind in (F32x16, F64x16, types.float32, types.float64)))
def sqrt(builder, value):
    """The correctly rounded square root, of a vector or a scalar."""
    return call(builder, f"llvm.sqrt.{named(value.type)}", value.type, value)


@instruction(
    *(kind(Mask16, kind, kind) for kind in (F64x16, F32x16, *_INTEGERS)),
    *(kind(types.boolean, kind, kind) for kind in (types.float64, types.int64)),
)
def select(builder, mask, yes, no):
    """Lane by lane: `yes` where the mask is set, else `no`. Both are evaluated, of scalars too. Of a mask of
    lanes and two scalars it is 64-bit.
    """
    return builder.select(mask, yes, no)


convert_i32 = conversion(I32x16(F32x16), _BUILD.fptosi, VI32)
"""float32 to int32, towards zero; the caller has clamped the value into range."""
convert_f32 = conversion(F32x16(I32x16), _BUILD.sitofp, VF32)
"""int32 to float32, to nearest even."""
bits = conversion(I32x16(F32x16), _BUILD.bitcast, VI32)
"""The 32 bits of each float, as integers."""
floats = conversion(F32x16(I32x16), _BUILD.bitcast, VF32)
"""Each lane's 32 bits, as a float."""
widen = conversion(F64x16(F32x16), _BUILD.fpext, VF64)
"""float32 to float64, exact."""
narrow = conversion(F32x16(F64x16), _BUILD.fptrunc, VF32)
"""float64 to float32, to nearest even."""


@instruction(I32x16())
def lane_numbers(builder):
    """0, 1, …, 15."""
    return ir.Constant(VI32, list(range(LANES)))


def tree(builder, value, combine):
    """Fold 16 lanes in numerics.md's one tree: lane i with lane i + 8, then + 4, + 2, + 1."""
    for half in (8, 4, 2, 1):
        lower, upper = (
            builder.shuffle_vector(
                value,
                ir.Constant(value.type, ir.Undefined),
                ir.Constant(ir.VectorType(I32, half), list(range(first, first + half))),
            )
            for first in (0, half)
        )
        value = combine(lower, upper)
    return builder.extract_element(value, I32(0))


@instruction(types.float32(F32x16), types.int32(I32x16))
def tree_sum(builder, value):
    """The sum of the lanes, in the fixed tree."""
    return tree(builder, value, builder.fadd if value.type == VF32 else builder.add)


@instruction(types.float32(F32x16))
def tree_max(builder, value):
    """The greatest lane; a NaN in the second of a pair is passed on."""
    return tree(builder, value, lambda a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b))


def _shuffle(lanes: Iterable[int]):
    """The function `(a, b)` to those lanes of a and then of b."""

    @instruction(F32x16(F32x16, F32x16))
    def shuffle(builder, a, b):
        return builder.shuffle_vector(a, b, ir.Constant(VI32, list(lanes)))

    return shuffle


evens = _shuffle(range(0, 2 * LANES, 2))
odds = _shuffle(range(1, 2 * LANES, 2))
skipping = _shuffle([*range(0, LANES, 2), *range(LANES + 1, 2 * LANES, 2)])
"""Every other number of 31, of which `a` is the first 16 and `b` the last 16."""
interleave_low = _shuffle([lane // 2 + LANES * (lane % 2) for lane in range(LANES)])
"""a0, b0, a1, b1, …, a7, b7."""
interleave_high = _shuffle([8 + lane // 2 + LANES * (lane % 2) for lane in range(LANES)])
"""a8, b8, …, a15, b15."""


@instruction(types.boolean(Mask16), types.boolean(types.boolean))
def any_lane(builder, mask):
    """Whether any lane of the mask is set."""
    if mask.type == I1:
        return mask
    return builder.icmp_unsigned("!=", builder.bitcast(mask, I16), I16(0))


@instruction(types.int64(F64x16), types.int64(types.float64))
def lane_count(builder, value):
    """16 for a vector, 1 for a scalar."""
    return I64(LANES if value.type == VF64 else 1)


@instruction(types.float64(F64x16, types.int64), types.float64(types.float64, types.int64))
def lane(builder, value, number):
    """One lane; a scalar is its own."""
    return builder.extract_element(value, number) if value.type == VF64 else value


@instruction(
    F64x16(F64x16, types.int64, types.float64),
    I64x16(I64x16, types.int64, types.int64),
    types.float64(types.float64, types.int64, types.float64),
    types.int64(types.int64, types.int64, types.int64),
)
def with_lane(builder, value, number, replacement):
    """The vector with one lane replaced; of a scalar, the replacement."""
    if isinstance(value.type, ir.VectorType):
        return builder.insert_element(value, replacement, number)
    return replacement
