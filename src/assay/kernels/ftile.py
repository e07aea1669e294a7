"""The register tile of float32 products: R rows × a few registers of columns, one fma for each element and
step of K.

y[r, n] = Σ_k fma(a[r, k], b[k, n], ·), k ascending, from zero
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir
from numba.core import types

from assay.kernels.lanes import lanes
from assay.simd.emit import F32, I64, constant, fused, instruction, least, load_at, loop, spread, store_at
from assay.simd.memory import f32_at
from assay.simd.target import has_vnni

Loader = Callable[[ir.IRBuilder, ir.Value, int], ir.Value]
"""(builder, address, columns) to a register of float32."""


def tall() -> int:
    """Rows of the tile that keeps all registers busy beside two registers of columns."""
    return 12 if has_vnni() else 6


def tile(rows: int, width: int, load: Loader = f32_at, size: int = 4):
    """The intrinsic `(a, a_stride, b, b_stride, depth, y, y_stride, count, first)` on `width` columns.

    Elements of b take `size` bytes, strides are in bytes. Where `first` is 0 the sums are added to what y
    holds. Rows past `count` repeat the last one; they are computed before any is written, so with `first` = 0
    too they write the same.
    """

    @instruction(types.void(*[types.int64] * 9))
    def float_tile(builder, a, a_stride, b, b_stride, depth, y, y_stride, count, first):
        columns = lanes().columns
        registers = range(width // columns)
        vector = ir.VectorType(F32, columns)
        last = builder.sub(count, I64(1))
        numbers = [least(builder, I64(row), last) for row in range(rows)]
        a_rows = [builder.add(a, builder.mul(number, a_stride)) for number in numbers]

        def step(number, sums):
            line = builder.add(b, builder.mul(number, b_stride))
            right = [
                load(builder, builder.add(line, I64(size * columns * index)), columns) for index in registers
            ]
            made: list[ir.Value] = []
            for row in a_rows:
                place = builder.add(row, builder.shl(number, I64(2)))
                left = spread(builder, load_at(builder, place, F32, 4), columns)
                made += [fused(builder, left, right[index], sums[len(made) + index]) for index in registers]
            return made

        results = loop(builder, depth, [constant(vector, 0.0)] * rows * len(registers), step)
        targets = [
            builder.add(builder.add(y, builder.mul(number, y_stride)), I64(4 * columns * index))
            for number in numbers
            for index in registers
        ]
        fresh = builder.icmp_signed("!=", first, I64(0))
        more = [
            builder.fadd(load_at(builder, target, vector, 4), result)
            for target, result in zip(targets, results, strict=True)
        ]
        for target, result, total in zip(targets, results, more, strict=True):
            store_at(builder, target, builder.select(fresh, result, total), 4)

    return float_tile
