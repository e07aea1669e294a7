"""Exact sums of fractions: a float32 in [0, 1] as an integer number of 2**-40, to nearest even.

Integers add up to the same sum in any order, and 2**22 of them stay below 2**62.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import types

from assay.simd.emit import F64, I16, I64, call, constant, instruction
from assay.simd.vector import VF64, VI64, F32x16, I64x16, Mask16

FRACTION_BITS = 40


def _to_fixed(builder: ir.IRBuilder, value: ir.Value, wide: ir.Type, whole: ir.Type) -> ir.Value:
    """Adding 2**52 to value · 2**40 (an exact product) leaves the rounded integer in a float64's low bits."""
    scaled = builder.fmul(builder.fpext(value, wide), constant(wide, 2.0**FRACTION_BITS))
    bits = builder.bitcast(builder.fadd(scaled, constant(wide, 2.0**52)), whole)
    return builder.sub(bits, constant(whole, 0x433 << 52))


@instruction(types.int64(types.float32))
def fixed(builder, value):
    """A float32 in [0, 1] in units of 2**-40."""
    return _to_fixed(builder, value, F64, I64)


@instruction(I64x16())
def no_fixed(builder):
    """16 sums of nothing."""
    return constant(VI64, 0)


@instruction(I64x16(I64x16, F32x16))
def add_fixed(builder, sums, values):
    """Add each lane of `values`, all in [0, 1], to its sum."""
    return builder.add(sums, _to_fixed(builder, values, VF64, VI64))


@instruction(types.int64(I64x16))
def sum_fixed(builder, sums):
    """The sum over the 16 lanes, an int64."""
    return call(builder, "llvm.vector.reduce.add.v16i64", I64, sums)


@instruction(types.int64(Mask16))
def lane_bits(builder, mask):
    """Bit i is set where lane i of the mask is."""
    return builder.zext(builder.bitcast(mask, I16), I64)
