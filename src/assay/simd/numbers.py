"""Arithmetic of a kind that is known when the kernel runs, in one text for vectors, floats and integers.

Integers are int64 and wrap around.
"""

from __future__ import annotations

from functools import partial

from llvmlite import ir
from numba.core import types

from assay.simd.emit import I64, call, choose, constant, fused, instruction, load_at, loop, named
from assay.simd.vector import LANES, VF32, F32x16, tree

NUMBERS = (F32x16, types.float32, types.float64, types.int64)


def _integral(value: ir.Value) -> bool:
    return isinstance(value.type, ir.IntType)


def _plus(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.add(a, b) if _integral(a) else builder.fadd(a, b)


def _times(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.mul(a, b) if _integral(a) else builder.fmul(a, b)


def _taken(symbol: str, builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """b where it is so much more or less than a, or NaN; else a."""
    if _integral(a):
        taken = builder.icmp_signed(symbol, b, a)
    else:
        taken = builder.or_(builder.fcmp_ordered(symbol, b, a), builder.fcmp_unordered("uno", b, b))
    return builder.select(taken, b, a)


def _plus_square(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.add(a, builder.mul(b, b)) if _integral(a) else fused(builder, b, b, a)


def _plus_size(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    if _integral(a):
        negative = builder.icmp_signed("<", b, constant(b.type, 0))
        return builder.add(a, builder.select(negative, builder.neg(b), b))
    return builder.fadd(a, call(builder, f"llvm.fabs.{named(b.type)}", b.type, b))


_OF_TWO = (_plus, _times, partial(_taken, ">"), partial(_taken, "<"), _plus)
_OF_MANY = (*_OF_TWO[:-1], _plus_square, _plus_size)


@instruction(*(kind(types.int64, kind, kind) for kind in NUMBERS))
def combine(builder, how, a, b):
    """One number of two: see kernels/sizes.py. Of equal ones the greatest or the least is a; NaN stays."""
    return choose(builder, how, [partial(each, builder, a, b) for each in _OF_TWO])


@instruction(*(kind(types.int64, kind, kind) for kind in NUMBERS))
def include(builder, how, total, value):
    """The total with one more value: of its square, of its size, or of itself as `combine` does."""
    return choose(builder, how, [partial(each, builder, total, value) for each in _OF_MANY])


@instruction(F32x16(types.int64, F32x16, types.int64, types.int64))
def include_run(builder, how, total, address, count):
    """The total with so many more vectors that lie at an address, one or more."""

    def way(each):
        def step(number, totals):
            place = builder.add(address, builder.mul(number, I64(4 * LANES)))
            return [each(builder, *totals, load_at(builder, place, VF32, 4))]

        return loop(builder, count, [total], step)[0]

    return choose(builder, how, [partial(way, each) for each in _OF_MANY])


@instruction(types.float32(types.int64, F32x16))
def tree_of(builder, how, value):
    """One number of 16 lanes, in the fixed tree."""
    return choose(builder, how, [partial(tree, builder, value, partial(each, builder)) for each in _OF_TWO])
