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

from assay.kernels.control import LINE
from assay.kernels.share import take
from assay.simd.memory import load_at, load_i32, put_i64, store_at, store_i32, words
from assay.simd.target import features
from assay.simd.vector import F32, I8, I16, I32, I64, call, instruction, splat_i32

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


def _rounds(kind: ir.VectorType, step: Step):
    """An intrinsic `(x, rounds, out)`: SUMS sums, each of which takes one `step` a round."""

    @instruction(types.void(*[types.int64] * 3))
    def repeat(builder, x, rounds, out):
        factor = load_at(builder, x, kind, 4)
        first = [load_at(builder, builder.add(x, I64(LINE * index)), kind, 4) for index in range(SUMS)]
        entry, loop = builder.block, builder.append_basic_block("round")
        done = builder.append_basic_block("done")
        builder.branch(loop)
        builder.position_at_end(loop)
        count = builder.phi(I64)
        sums = [builder.phi(kind) for _ in range(SUMS)]
        following = builder.add(count, I64(1))
        for phi, start, value in zip(
            (count, *sums),
            (I64(0), *first),
            (following, *(step(builder, factor, total) for total in sums)),
            strict=True,
        ):
            phi.add_incoming(start, entry)
            phi.add_incoming(value, loop)
        builder.cbranch(builder.icmp_signed("<", following, rounds), loop, done)
        builder.position_at_end(done)
        add = builder.fadd if kind.element == F32 else builder.add
        store_at(builder, out, reduce(add, sums), 4)

    return repeat


def _multiply(builder: ir.IRBuilder, factor: ir.Value, total: ir.Value) -> ir.Value:
    if "fma" in features():
        name = f"llvm.fma.v{factor.type.count}f32"
        return call(builder, name, factor.type, factor, total, factor)
    return builder.fadd(builder.fmul(factor, total), factor)


def _dot(builder: ir.IRBuilder, factor: ir.Value, total: ir.Value) -> ir.Value:
    """Products of bytes, added into the sums, by the best instruction that the processor has for it."""
    if "avx512vnni" in features():
        octets = (builder.bitcast(value, ir.VectorType(I8, VECTOR)) for value in (factor, total))
        return call(builder, "llvm.x86.avx512.vpdpbusd.512", total.type, total, *octets)
    if VECTOR == 32:
        words = ir.VectorType(I16, 16)
        octets = (builder.bitcast(value, ir.VectorType(I8, VECTOR)) for value in (factor, total))
        products = call(builder, "llvm.x86.avx2.pmadd.ub.sw", words, *octets)
        return builder.bitcast(builder.add(products, builder.bitcast(total, words)), total.type)
    words = ir.VectorType(I16, 8)
    halves = (builder.bitcast(value, words) for value in (factor, total))
    return builder.add(total, call(builder, "llvm.x86.sse2.pmadd.wd", total.type, *halves))


_multiplies = _rounds(ir.VectorType(F32, VECTOR // 4), _multiply)
_dots = _rounds(ir.VectorType(I32, VECTOR // 4), _dot)
DOT = VECTOR if VECTOR > 16 else VECTOR // 2
"""Products of one step of `dot`."""


def multiply(args, tid, nthreads):
    """(x, rounds, out): float32 multiply-adds; out[0] becomes the operations of one thread, two for each."""
    x, rounds, out = words(args, 3)
    _multiplies(x, rounds, out + LINE * (tid + 1))
    if tid == 0:
        put_i64(out, 2 * rounds * SUMS * (VECTOR // 4))


def dot(args, tid, nthreads):
    """(x, rounds, out): multiply-adds of 8-bit integers, as 4-bit weights have them; out[0] as above."""
    x, rounds, out = words(args, 3)
    _dots(x, rounds, out + LINE * (tid + 1))
    if tid == 0:
        put_i64(out, 2 * rounds * SUMS * DOT)
