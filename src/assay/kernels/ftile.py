"""The register tile of float32 products: R rows × a few registers of columns, one fma for each element and
step of K.

y[r, n] = Σ_k fma(a[r, k], b[k, n], ·), k ascending, from zero
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir
from numba.core import types

from assay.simd.memory import brain_to_float, half_to_float, load_at, store_at
from assay.simd.target import has_avx2, has_vnni
from assay.simd.vector import F32, I16, I64, call, constant, instruction, least, spread

Loader = Callable[[ir.IRBuilder, ir.Value, int], ir.Value]
"""(builder, address, columns) to a register of float32."""


def load_f32(builder: ir.IRBuilder, address: ir.Value, columns: int) -> ir.Value:
    return load_at(builder, address, ir.VectorType(F32, columns), 4)


def load_f16(builder: ir.IRBuilder, address: ir.Value, columns: int) -> ir.Value:
    return half_to_float(builder, load_at(builder, address, ir.VectorType(I16, columns), 2))


def load_bf16(builder: ir.IRBuilder, address: ir.Value, columns: int) -> ir.Value:
    return brain_to_float(builder, load_at(builder, address, ir.VectorType(I16, columns), 2))


def columns() -> int:
    """Float32 lanes of one register of the processor that is compiled for."""
    return 16 if has_vnni() else 8 if has_avx2() else 4


def tall() -> int:
    """Rows of the tile that keeps all registers busy beside two registers of columns."""
    return 12 if has_vnni() else 6


def tile(rows: int, width: int, load: Loader = load_f32, size: int = 4):
    """The intrinsic `(a, a_stride, b, b_stride, depth, y, y_stride, count, first)` on `width` columns.

    Elements of b take `size` bytes, strides are in bytes. Where `first` is 0 the sums are added to what y
    holds. Rows past `count` repeat the last one; they are computed before any is written, so with `first` = 0
    too they write the same.
    """

    @instruction(types.void(*[types.int64] * 9))
    def float_tile(builder, a, a_stride, b, b_stride, depth, y, y_stride, count, first):
        lanes = columns()
        registers = width // lanes
        vector = ir.VectorType(F32, lanes)
        last = builder.sub(count, I64(1))
        numbers = [least(builder, I64(row), last) for row in range(rows)]
        a_rows = [builder.add(a, builder.mul(number, a_stride)) for number in numbers]
        entry = builder.block
        loop, done = builder.append_basic_block("step"), builder.append_basic_block("done")
        builder.branch(loop)
        builder.position_at_end(loop)
        step = builder.phi(I64)
        step.add_incoming(I64(0), entry)
        sums = [[builder.phi(vector) for _ in range(registers)] for _ in range(rows)]
        line = builder.add(b, builder.mul(step, b_stride))
        places = [I64(size * lanes * index) for index in range(registers)]
        right = [load(builder, builder.add(line, place), lanes) for place in places]
        results = []
        for row in range(rows):
            place = builder.add(a_rows[row], builder.shl(step, I64(2)))
            left = spread(builder, load_at(builder, place, F32, 4), lanes)
            for index in range(registers):
                result = call(builder, f"llvm.fma.v{lanes}f32", vector, left, right[index], sums[row][index])
                sums[row][index].add_incoming(constant(vector, 0.0), entry)
                sums[row][index].add_incoming(result, loop)
                results.append(result)
        following = builder.add(step, I64(1))
        step.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", following, depth), loop, done)
        builder.position_at_end(done)
        targets = [
            builder.add(builder.add(y, builder.mul(numbers[row], y_stride)), I64(4 * lanes * index))
            for row in range(rows)
            for index in range(registers)
        ]
        with builder.if_else(builder.icmp_signed("!=", first, I64(0))) as (fresh, continued):
            with fresh:
                for target, result in zip(targets, results, strict=True):
                    store_at(builder, target, result, 4)
            with continued:
                totals = [
                    builder.fadd(load_at(builder, target, vector, 4), result)
                    for target, result in zip(targets, results, strict=True)
                ]
                for target, total in zip(targets, totals, strict=True):
                    store_at(builder, target, total, 4)

    return float_tile
