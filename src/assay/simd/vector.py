"""Vectors of 16 lanes as Numba values.

`F32x16`, `I32x16` and `Mask16` are LLVM vectors; LLVM splits them into the registers that the processor has,
so one kernel text serves every width with the same bits. Arithmetic is exact IEEE: no contraction, no
reassociation.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

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


def _operator(python: object, emit: dict[Vector, str], result: Vector | None = None) -> None:
    """Register `python` on pairs of equal vectors as the builder method named in `emit`."""

    @infer_global(python)
    class Typing(AbstractTemplate):
        def generic(self, args: tuple[types.Type, ...], kws: object) -> object:
            if len(args) == 2 and args[0] is args[1] and args[0] in emit:
                return signature(result or args[0], *args)
            return None

    for vector, method in emit.items():

        def lower(
            context: object, builder: ir.IRBuilder, sig: object, args: list[ir.Value], method: str = method
        ) -> ir.Value:
            return getattr(builder, method)(*args)

        lower_builtin(python, vector, vector)(lower)


_operator(operator.add, {F32x16: "fadd", I32x16: "add"})
_operator(operator.sub, {F32x16: "fsub", I32x16: "sub"})
_operator(operator.mul, {F32x16: "fmul", I32x16: "mul"})
_operator(operator.truediv, {F32x16: "fdiv"})
_operator(operator.and_, {I32x16: "and_", Mask16: "and_"})
_operator(operator.or_, {I32x16: "or_", Mask16: "or_"})
_operator(operator.xor, {I32x16: "xor", Mask16: "xor"})
_operator(operator.lshift, {I32x16: "shl"})
_operator(operator.rshift, {I32x16: "lshr"})


@infer_global(operator.neg)
class _Negation(AbstractTemplate):
    def generic(self, args: tuple[types.Type, ...], kws: object) -> object:
        return signature(F32x16, F32x16) if args == (F32x16,) else None


@lower_builtin(operator.neg, F32x16)
def _negate(context: object, builder: ir.IRBuilder, sig: object, args: list[ir.Value]) -> ir.Value:
    return builder.fneg(args[0])


def _comparison(python: object, symbol: str) -> None:
    @infer_global(python)
    class Typing(AbstractTemplate):
        def generic(self, args: tuple[types.Type, ...], kws: object) -> object:
            if len(args) == 2 and args[0] is args[1] and args[0] in (F32x16, I32x16):
                return signature(Mask16, *args)
            return None

    def floats(context: object, builder: ir.IRBuilder, sig: object, args: list[ir.Value]) -> ir.Value:
        return builder.fcmp_unordered("!=", *args) if symbol == "!=" else builder.fcmp_ordered(symbol, *args)

    def integers(context: object, builder: ir.IRBuilder, sig: object, args: list[ir.Value]) -> ir.Value:
        return builder.icmp_signed(symbol, *args)

    lower_builtin(python, F32x16, F32x16)(floats)
    lower_builtin(python, I32x16, I32x16)(integers)


for _python, _symbol in (
    (operator.lt, "<"),
    (operator.le, "<="),
    (operator.gt, ">"),
    (operator.ge, ">="),
    (operator.eq, "=="),
    (operator.ne, "!="),
):
    _comparison(_python, _symbol)


@intrinsic
def splat(typingctx, value):
    """The float32 `value` in all lanes (a float64 literal is rounded to float32)."""
    if isinstance(value, (types.Float, types.Integer)):

        def emit(context, builder, sig, args):
            scalar = context.cast(builder, args[0], sig.args[0], types.float32)
            return spread(builder, scalar, LANES)

        return F32x16(value), emit
    return None


@intrinsic
def splat_i32(typingctx, value):
    """The integer `value`, cut to 32 bits, in all lanes."""

    def emit(context, builder, sig, args):
        return spread(builder, context.cast(builder, args[0], sig.args[0], types.int32), LANES)

    return I32x16(value), emit


@intrinsic
def fma(typingctx, a, b, c):
    """a·b + c with one rounding, on vectors or on float32 scalars."""
    if a is F32x16 and b is F32x16 and c is F32x16:
        return F32x16(a, b, c), lambda context, builder, sig, args: call(
            builder, "llvm.fma.v16f32", VF32, *args
        )
    if (a, b, c) == (types.float32,) * 3:
        return types.float32(a, b, c), lambda context, builder, sig, args: call(
            builder, "llvm.fma.f32", F32, *args
        )
    if (a, b, c) == (types.float64,) * 3:
        double = ir.DoubleType()
        return types.float64(a, b, c), lambda context, builder, sig, args: call(
            builder, "llvm.fma.f64", double, *args
        )
    return None


@intrinsic
def select(typingctx, mask, yes, no):
    """Lane by lane: `yes` where the mask is set, else `no`."""
    if mask is Mask16 and yes is no and isinstance(yes, Vector):
        return yes(mask, yes, no), lambda context, builder, sig, args: builder.select(*args)
    return None


def decoder(table: Sequence[int]):
    """An intrinsic: each lane's number in the table, or an int64's. Numbers beyond it are its last."""

    @intrinsic
    def decode(typingctx, place):
        def emit(context, builder, sig, args):
            found = value = args[0]
            many = isinstance(value.type, ir.VectorType)
            for number, entry in enumerate(table):
                here, this = (
                    constant(value.type, each) if many else value.type(each) for each in (number, entry)
                )
                found = builder.select(builder.icmp_signed(">=", value, here), this, found)
            return found

        return (place(place), emit) if place in (I32x16, types.int64) else None

    return decode


@intrinsic
def convert_i32(typingctx, value):
    """float32 to int32, towards zero; the caller has clamped the value into range."""
    if value is F32x16:
        return I32x16(value), lambda context, builder, sig, args: builder.fptosi(args[0], VI32)
    return None


@intrinsic
def convert_f32(typingctx, value):
    """int32 to float32, to nearest even."""
    if value is I32x16:
        return F32x16(value), lambda context, builder, sig, args: builder.sitofp(args[0], VF32)
    return None


@intrinsic
def bits(typingctx, value):
    """The 32 bits of each float, as integers."""
    if value is F32x16:
        return I32x16(value), lambda context, builder, sig, args: builder.bitcast(args[0], VI32)
    return None


@intrinsic
def floats(typingctx, value):
    """Each lane's 32 bits, as a float."""
    if value is I32x16:
        return F32x16(value), lambda context, builder, sig, args: builder.bitcast(args[0], VF32)
    return None


@intrinsic
def sqrt(typingctx, value):
    """The correctly rounded square root, of a vector or a float32."""
    if value is F32x16:
        return F32x16(value), lambda context, builder, sig, args: call(
            builder, "llvm.sqrt.v16f32", VF32, *args
        )
    if value is types.float32:
        return value(value), lambda context, builder, sig, args: call(builder, "llvm.sqrt.f32", F32, *args)
    return None


@intrinsic
def lane_numbers(typingctx):
    """0, 1, …, 15."""
    return I32x16(), lambda context, builder, sig, args: ir.Constant(
        VI32, [ir.Constant(I32, lane) for lane in range(LANES)]
    )


def _tree(combine):
    """Fold 16 lanes in numerics.md's one tree: lane i with lane i + 8, then + 4, + 2, + 1."""

    def emit(context, builder, sig, args):
        value = args[0]
        for half in (8, 4, 2, 1):
            mask = ir.Constant(ir.VectorType(I32, half), list(range(half)))
            upper = ir.Constant(ir.VectorType(I32, half), list(range(half, 2 * half)))
            none = ir.Constant(value.type, ir.Undefined)
            value = combine(
                builder, builder.shuffle_vector(value, none, mask), builder.shuffle_vector(value, none, upper)
            )
        return builder.extract_element(value, I32(0))

    return emit


@intrinsic
def tree_sum(typingctx, value):
    """The sum of the lanes, in the fixed tree."""
    if value is F32x16:
        return types.float32(value), _tree(lambda builder, a, b: builder.fadd(a, b))
    if value is I32x16:
        return types.int32(value), _tree(lambda builder, a, b: builder.add(a, b))
    return None


@intrinsic
def tree_max(typingctx, value):
    """The greatest lane; a NaN in the second of a pair is passed on."""
    if value is F32x16:

        def greater(builder, a, b):
            return builder.select(builder.fcmp_ordered(">", a, b), a, b)

        return types.float32(value), _tree(greater)
    return None


@intrinsic
def evens(typingctx, a, b):
    """Lanes 0, 2, 4, … of a and then of b."""
    return _shuffle(a, b, range(0, 2 * LANES, 2))


@intrinsic
def odds(typingctx, a, b):
    """Lanes 1, 3, 5, … of a and then of b."""
    return _shuffle(a, b, range(1, 2 * LANES, 2))


@intrinsic
def interleave_low(typingctx, a, b):
    """a0, b0, a1, b1, …, a7, b7."""
    return _shuffle(a, b, [lane // 2 + LANES * (lane % 2) for lane in range(LANES)])


@intrinsic
def interleave_high(typingctx, a, b):
    """a8, b8, …, a15, b15."""
    return _shuffle(a, b, [8 + lane // 2 + LANES * (lane % 2) for lane in range(LANES)])


def _shuffle(a, b, lanes):
    mask = ir.Constant(VI32, list(lanes))
    return F32x16(a, b), lambda context, builder, sig, args: builder.shuffle_vector(args[0], args[1], mask)


@intrinsic
def any_lane(typingctx, mask):
    """Whether any lane of the mask is set."""
    if mask is Mask16:

        def emit(context, builder, sig, args):
            return builder.icmp_unsigned("!=", builder.bitcast(args[0], I16), I16(0))

        return types.boolean(mask), emit
    return None
