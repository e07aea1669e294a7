"""Exact sums of fractions: a float32 in [0, 1] as an integer number of 2**-40, to nearest even.

Integers add up to the same sum in any order, and 2**22 of them stay below 2**62.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from assay.simd.vector import I1, I16, I64, LANES, F32x16, Mask16, Vector, call, constant

FRACTION_BITS = 40
VF64 = ir.VectorType(ir.DoubleType(), LANES)
VI64 = ir.VectorType(I64, LANES)
I64x16 = Vector("I64x16", VI64)


def _to_fixed(builder: ir.IRBuilder, value: ir.Value, wide: ir.Type, whole: ir.Type, splat) -> ir.Value:
    """Adding 2**52 to value · 2**40 (an exact product) leaves the rounded integer in a float64's low bits."""
    scaled = builder.fmul(builder.fpext(value, wide), splat(wide, 2.0**FRACTION_BITS))
    bits = builder.bitcast(builder.fadd(scaled, splat(wide, 2.0**52)), whole)
    return builder.sub(bits, splat(whole, 0x433 << 52))


@intrinsic
def fixed(typingctx, value):
    """A float32 in [0, 1] in units of 2**-40."""

    def emit(context, builder, sig, args):
        return _to_fixed(builder, args[0], ir.DoubleType(), I64, ir.Constant)

    return types.int64(types.float32), emit


@intrinsic
def no_fixed(typingctx):
    """16 sums of nothing."""
    return I64x16(), lambda context, builder, sig, args: constant(VI64, 0)


@intrinsic
def add_fixed(typingctx, sums, values):
    """Add each lane of `values`, all in [0, 1], to its sum."""

    def emit(context, builder, sig, args):
        return builder.add(args[0], _to_fixed(builder, args[1], VF64, VI64, constant))

    return I64x16(I64x16, F32x16), emit


@intrinsic
def sum_fixed(typingctx, sums):
    """The sum over the 16 lanes, an int64."""

    def emit(context, builder, sig, args):
        return call(builder, "llvm.vector.reduce.add.v16i64", I64, args[0])

    return types.int64(I64x16), emit


@intrinsic
def lane_bits(typingctx, mask):
    """Bit i is set where lane i of the mask is."""
    if mask is Mask16:
        return types.int64(mask), lambda context, builder, sig, args: builder.zext(
            builder.bitcast(args[0], I16), I64
        )
    return None


@intrinsic
def lowest_bit(typingctx, word):
    """The number of the lowest set bit; there is one."""

    def emit(context, builder, sig, args):
        return call(builder, "llvm.cttz.i64", I64, args[0], I1(1))

    return types.int64(types.int64), emit
