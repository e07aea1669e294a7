"""What the machine can do at most: kernels that only read, only multiply and add, only form integer dots.

Benchmarks measure these in the same run as what they time, and say which share of the limit was reached.
"""

from __future__ import annotations

from functools import reduce

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from assay.kernels.qtile import lanes
from assay.kernels.share import first_row
from assay.kernels.sizes import LINE, OPERANDS, Q4_0, STRIP
from assay.simd.memory import get_i64, load_at, load_i32, put_i64, store_at, store_i32
from assay.simd.target import features
from assay.simd.vector import F32, I64, LANES, VF32, call, constant, splat_i32

CHAINS = 12 if "avx512f" in features() else 6
"""Independent accumulators: enough to hide the latency, and they fit in the registers."""


def read(args, tid, nthreads):
    """(x, strips, times, out): read `strips` strips, each thread its part, `times` times; sums go to out."""
    x, strips, times, out = get_i64(args + 8), get_i64(args + 16), get_i64(args + 24), get_i64(args + 32)
    a, b, c, d = splat_i32(0), splat_i32(0), splat_i32(0), splat_i32(0)
    for _ in range(times):
        for strip in range(first_row(strips, tid, nthreads), first_row(strips, tid + 1, nthreads)):
            at = x + STRIP * strip
            a = a + (load_i32(at) ^ load_i32(at + 64))
            b = b + (load_i32(at + 128) ^ load_i32(at + 192))
            c = c + (load_i32(at + 256) ^ load_i32(at + 320))
            d = d + (load_i32(at + 384) ^ load_i32(at + 448))
    store_i32(out + LINE * tid, (a + b) ^ (c + d))


def _rounds(make):
    """An intrinsic `(x, rounds, out) -> operations of a round`, in which each accumulator does one step.

    `make(builder)` gives the accumulators' zero, the operand at an address, the step, and its operations.
    """

    @intrinsic
    def repeat(typingctx, x, rounds, out):
        def emit(context, builder, sig, args):
            x, rounds, out = args
            zero, operand, step, operations = make(builder)
            fixed = [operand(builder.add(x, I64(LINE * chain))) for chain in range(CHAINS)]
            entry, loop = builder.block, builder.append_basic_block("round")
            done = builder.append_basic_block("done")
            builder.branch(loop)
            builder.position_at_end(loop)
            count = builder.phi(I64)
            count.add_incoming(I64(0), entry)
            sums = [builder.phi(zero.type) for _ in range(CHAINS)]
            # Another address in each round, so that nothing can be moved out of the loop.
            moving = operand(builder.add(x, builder.shl(builder.and_(count, I64(OPERANDS - 1)), I64(6))))
            following = builder.add(count, I64(1))
            for total, weight in zip(sums, fixed, strict=True):
                total.add_incoming(zero, entry)
                total.add_incoming(step(total, weight, moving), builder.block)
            count.add_incoming(following, builder.block)
            builder.cbranch(builder.icmp_signed("<", following, rounds), loop, done)
            builder.position_at_end(done)
            add = builder.fadd if zero.type.element == F32 else builder.add
            store_at(builder, out, reduce(add, sums), 4)
            return I64(operations * CHAINS)

        return types.int64(*[types.int64] * 3), emit

    return repeat


def _products(builder: ir.IRBuilder):
    def operand(address):
        return load_at(builder, address, VF32, 4)

    def step(total, weight, moving):
        return call(builder, "llvm.fma.v16f32", VF32, weight, moving, total)

    return constant(VF32, 0.0), operand, step, 2 * LANES


def _dots(builder: ir.IRBuilder):
    way = lanes()(builder, Q4_0)
    (zero,) = way.zero()

    def operand(address):
        return load_at(builder, address, way.vi32, 4)

    def step(total, weight, moving):
        return way.accumulate([total], [weight], moving)[0]

    return zero, operand, step, 8 * way.columns


_multiply, _dot = _rounds(_products), _rounds(_dots)


def multiply(args, tid, nthreads):
    """(x, rounds, out): float32 multiply-adds in registers; out[0] becomes the operations of a round."""
    out = get_i64(args + 24)
    operations = _multiply(get_i64(args + 8), get_i64(args + 16), out + LINE * (tid + 1))
    if tid == 0:
        put_i64(out, operations)


def dot(args, tid, nthreads):
    """(x, rounds, out): 8-bit dot products in registers, as 4-bit weights have them; out[0] as above."""
    out = get_i64(args + 24)
    operations = _dot(get_i64(args + 8), get_i64(args + 16), out + LINE * (tid + 1))
    if tid == 0:
        put_i64(out, operations)
