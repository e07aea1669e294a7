"""What the machine can do at most: kernels that only read, only multiply and add, only form integer dots.

Benchmarks measure these in the same run as what they time, and say which share of the limit was reached. All
work in registers of the processor's own width. What is multiplied depends on the sum so far, so that the
compiler can't move a product out of the loop; enough sums run side by side to hide the latency.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from llvmlite import ir
from numba.core import types

from assay.kernels.lanes import lanes
from assay.kernels.panels import FORMATS
from assay.kernels.share import take
from assay.kernels.sizes import LINE
from assay.simd.emit import F32, I32, I64, fused, instruction, load_at, loop, store_at
from assay.simd.memory import load_i32, put_i64, store_i32, words
from assay.simd.target import features
from assay.simd.vector import splat_i32

WIDE = "avx512f" in features()
VECTOR = 64 if WIDE else 32 if "avx2" in features() else 16
"""Bytes of a register."""
SUMS = 20 if WIDE else 10
"""More than latency × instructions a cycle, and few enough that none is spilled when the loop is unrolled."""

Step = Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value]


def read(args, tid, nthreads):
    """(x, piece, pieces, times, out): read `pieces` of `piece` bytes, whoever is free the next one, over and
    over. `piece` is a multiple of 256.
    """
    x, size, pieces, times, out = words(args, 5)
    a, b, c, d = splat_i32(0), splat_i32(0), splat_i32(0), splat_i32(0)
    item = take(args)
    while item < pieces * times:
        start = x + size * (item % pieces)
        for at in range(start, start + size, 256):
            a = a + load_i32(at)
            b = b + load_i32(at + 64)
            c = c + load_i32(at + 128)
            d = d + load_i32(at + 192)
        item = take(args)
    store_i32(out + LINE * tid, (a + b) ^ (c + d))


def _kernel(kind: ir.VectorType, step: Step, products: int):
    """SUMS sums of that kind, each of which takes one `step` a round, of so many products."""

    @instruction(types.void(*[types.int64] * 3))
    def repeat(builder, x, rounds, out):
        factor = load_at(builder, x, kind, 4)
        first = [load_at(builder, builder.add(x, I64(LINE * index)), kind, 4) for index in range(SUMS)]
        sums = loop(builder, rounds, first, lambda _, sums: [step(builder, factor, total) for total in sums])
        add = builder.fadd if kind.element == F32 else builder.add
        store_at(builder, out, reduce(add, sums), 4)

    def kernel(args, tid, nthreads):
        """(x, rounds, out); out[0] becomes the operations of one thread, two for each product."""
        x, rounds, out = words(args, 3)
        repeat(x, rounds, out + LINE * (tid + 1))
        if tid == 0:
            put_i64(out, 2 * rounds * SUMS * products)

    return kernel


def _multiply(builder: ir.IRBuilder, factor: ir.Value, total: ir.Value) -> ir.Value:
    """A float32 multiply-add."""
    if "fma" in features():
        return fused(builder, factor, total, factor)
    return builder.fadd(builder.fmul(factor, total), factor)


def _dot(builder: ir.IRBuilder, factor: ir.Value, total: ir.Value) -> ir.Value:
    """Products of bytes, added into the sums, as products with 4-bit weights form them."""
    way = lanes()(builder, FORMATS["q4_0"])
    sums = [builder.bitcast(total, zero.type) for zero in way.zero()]
    return builder.bitcast(way.accumulate(sums, [[factor]], [total])[0], total.type)


multiply = _kernel(ir.VectorType(F32, VECTOR // 4), _multiply, VECTOR // 4)
dot = _kernel(ir.VectorType(I32, lanes().columns), _dot, 4 * lanes().columns)
