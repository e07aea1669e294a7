"""Vectors of 16 lanes as Numba values.

`F32x16`, `I32x16` and `Mask16` are LLVM vectors; LLVM splits them into the registers that the processor has,
so one kernel text serves every width with the same bits. Arithmetic is exact IEEE: no contraction, no
reassociation.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from functools import reduce

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

LANES = 16
F32 = ir.FloatType()
I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
VF32 = ir.VectorType(F32, LANES)
VI32 = ir.VectorType(I32, LANES)
VI1 = ir.VectorType(I1, LANES)


class Vector(types.Type):
    """Numba's name for one LLVM vector type."""

    def __init__(self, name: str, llvm: ir.VectorType) -> None:
        super().__init__(name)
        self.llvm = llvm


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    def __init__(self, manager: object, vector: Vector) -> None:
        super().__init__(manager, vector, vector.llvm)


F32x16 = Vector("F32x16", VF32)
I32x16 = Vector("I32x16", VI32)
Mask16 = Vector("Mask16", VI1)


Emit = Callable[..., ir.Value]
"""What makes code of a builder and values."""


def constant(vector: ir.VectorType, value: float | int) -> ir.Constant:
    """A vector constant with `value` in every lane."""
    return ir.Constant(vector, [ir.Constant(vector.element, value)] * vector.count)


def call(builder: ir.IRBuilder, name: str, result: ir.Type, *arguments: ir.Value) -> ir.Value:
    """Emit a call of the LLVM intrinsic or external function `name`."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    module = builder.module
    function = module.globals.get(name) or ir.Function(module, kind, name)
    return builder.call(function, arguments)


def spread(builder: ir.IRBuilder, scalar: ir.Value, count: int) -> ir.Value:
    """A vector with `scalar` in each of `count` lanes."""
    none = ir.Constant(ir.VectorType(scalar.type, count), ir.Undefined)
    first = builder.insert_element(none, scalar, I32(0))
    return builder.shuffle_vector(first, none, constant(ir.VectorType(I32, count), 0))


def least(builder: ir.IRBuilder, left: ir.Value, right: ir.Value) -> ir.Value:
    """The lesser of two signed integers."""
    return builder.select(builder.icmp_signed("<", left, right), left, right)


def instruction(*signatures):
    """Makes of `emit(builder, *values)` a function that kernels call. Of several signatures, each
    `result(*arguments)`, the one that fits; to a single one its arguments are converted. `emit` returns a
    value, several as a tuple, or None for void.
    """

    def made(emit):
        def typed(typingctx, *arguments):
            fitting = [each for each in signatures if each.args == arguments]
            if not fitting and len(signatures) > 1:
                return None

            def lower(context, builder, sig, args):
                result = emit(builder, *args)
                if isinstance(result, tuple):
                    return context.make_tuple(builder, sig.return_type, result)
                return context.get_dummy_value() if result is None else result

            return (fitting or signatures)[0], lower

        typed.__name__, typed.__qualname__, typed.__doc__ = emit.__name__, emit.__qualname__, emit.__doc__
        # Numba's context stands where the builder does.
        typed.__signature__ = inspect.signature(emit)  # type: ignore[attr-defined]
        return intrinsic(typed)

    return made


def _operator(python, emit: dict[Vector, Emit], result: Vector | None = None, operands: int = 2) -> None:
    """Register `python` on equal vectors, each as what `emit` makes of them."""

    @infer_global(python)
    class Typing(AbstractTemplate):
        def generic(self, args, kws):
            if args[:1] * operands == args and args[0] in emit:
                return signature(result or args[0], *args)
            return None

    for vector, function in emit.items():

        def lower(context, builder, sig, args, function=function):
            return function(builder, *args)

        lower_builtin(python, *[vector] * operands)(lower)


_BUILD = ir.IRBuilder
_operator(operator.add, {F32x16: _BUILD.fadd, I32x16: _BUILD.add})
_operator(operator.sub, {F32x16: _BUILD.fsub, I32x16: _BUILD.sub})
_operator(operator.mul, {F32x16: _BUILD.fmul, I32x16: _BUILD.mul})
_operator(operator.truediv, {F32x16: _BUILD.fdiv})
_operator(operator.neg, {F32x16: _BUILD.fneg}, operands=1)
_operator(operator.and_, {I32x16: _BUILD.and_, Mask16: _BUILD.and_})
_operator(operator.or_, {I32x16: _BUILD.or_, Mask16: _BUILD.or_})
_operator(operator.xor, {I32x16: _BUILD.xor, Mask16: _BUILD.xor})
_operator(operator.lshift, {I32x16: _BUILD.shl})
_operator(operator.rshift, {I32x16: _BUILD.lshr})


def _comparison(python, symbol: str) -> None:
    def floats(builder, left, right):
        compare = builder.fcmp_unordered if symbol == "!=" else builder.fcmp_ordered
        return compare(symbol, left, right)

    def integers(builder, left, right):
        return builder.icmp_signed(symbol, left, right)

    _operator(python, {F32x16: floats, I32x16: integers}, Mask16)


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


@instruction(I32x16(types.int32))
def splat_i32(builder, value):
    """The integer `value`, cut to 32 bits, in all lanes."""
    return spread(builder, value, LANES)


def _named(kind: ir.Type) -> str:
    """A type's part of the name of an LLVM intrinsic."""
    return f"v{kind.count}f32" if isinstance(kind, ir.VectorType) else kind.intrinsic_name


def fused(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """a·b + c with one rounding."""
    return call(builder, f"llvm.fma.{_named(a.type)}", a.type, a, b, c)


@instruction(*(kind(kind, kind, kind) for kind in (F32x16, types.float32, types.float64)))
def fma(builder, a, b, c):
    """a·b + c with one rounding, on vectors or on scalars."""
    return fused(builder, a, b, c)


def horner(*coefficients: float):
    """The polynomial with these coefficients, the highest power's first, by fma."""

    @instruction(F32x16(F32x16), types.float64(types.float64))
    def evaluate(builder, x):
        make = constant if isinstance(x.type, ir.VectorType) else ir.Constant
        return reduce(
            lambda total, coefficient: fused(builder, total, x, coefficient),
            [make(x.type, coefficient) for coefficient in coefficients],
        )

    return evaluate


def decoder(table: Sequence[int]):
    """The instruction for each lane's number in the table, or an int64's. Numbers beyond it are its last."""

    @instruction(I32x16(I32x16), types.int64(types.int64))
    def decode(builder, place):
        found, make = place, constant if isinstance(place.type, ir.VectorType) else ir.Constant
        for number, entry in enumerate(table):
            here, this = make(place.type, number), make(place.type, entry)
            found = builder.select(builder.icmp_signed(">=", place, here), this, found)
        return found

    return decode


@instruction(*(kind(kind) for kind in (F32x16, types.float32)))
def sqrt(builder, value):
    """The correctly rounded square root, of a vector or a float32."""
    return call(builder, f"llvm.sqrt.{_named(value.type)}", value.type, value)


@instruction(*(kind(Mask16, kind, kind) for kind in (F32x16, I32x16)))
def select(builder, mask, yes, no):
    """Lane by lane: `yes` where the mask is set, else `no`."""
    return builder.select(mask, yes, no)


@instruction(I32x16(F32x16))
def convert_i32(builder, value):
    """float32 to int32, towards zero; the caller has clamped the value into range."""
    return builder.fptosi(value, VI32)


@instruction(F32x16(I32x16))
def convert_f32(builder, value):
    """int32 to float32, to nearest even."""
    return builder.sitofp(value, VF32)


@instruction(I32x16(F32x16))
def bits(builder, value):
    """The 32 bits of each float, as integers."""
    return builder.bitcast(value, VI32)


@instruction(F32x16(I32x16))
def floats(builder, value):
    """Each lane's 32 bits, as a float."""
    return builder.bitcast(value, VF32)


@instruction(I32x16())
def lane_numbers(builder):
    """0, 1, …, 15."""
    return ir.Constant(VI32, list(range(LANES)))


def _tree(builder, value, combine):
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
    return _tree(builder, value, builder.fadd if value.type == VF32 else builder.add)


@instruction(types.float32(F32x16))
def tree_max(builder, value):
    """The greatest lane; a NaN in the second of a pair is passed on."""
    return _tree(builder, value, lambda a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b))


def _shuffle(builder, a, b, lanes):
    return builder.shuffle_vector(a, b, ir.Constant(VI32, list(lanes)))


@instruction(F32x16(F32x16, F32x16))
def evens(builder, a, b):
    """Lanes 0, 2, 4, … of a and then of b."""
    return _shuffle(builder, a, b, range(0, 2 * LANES, 2))


@instruction(F32x16(F32x16, F32x16))
def odds(builder, a, b):
    """Lanes 1, 3, 5, … of a and then of b."""
    return _shuffle(builder, a, b, range(1, 2 * LANES, 2))


@instruction(F32x16(F32x16, F32x16))
def interleave_low(builder, a, b):
    """a0, b0, a1, b1, …, a7, b7."""
    return _shuffle(builder, a, b, [lane // 2 + LANES * (lane % 2) for lane in range(LANES)])


@instruction(F32x16(F32x16, F32x16))
def interleave_high(builder, a, b):
    """a8, b8, …, a15, b15."""
    return _shuffle(builder, a, b, [8 + lane // 2 + LANES * (lane % 2) for lane in range(LANES)])


@instruction(types.boolean(Mask16))
def any_lane(builder, mask):
    """Whether any lane of the mask is set."""
    return builder.icmp_unsigned("!=", builder.bitcast(mask, I16), I16(0))
