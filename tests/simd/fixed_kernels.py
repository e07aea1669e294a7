"""Tiny kernels over simd.fixed."""

from __future__ import annotations

from assay.simd.fixed import add_fixed, fixed, lane_bits, no_fixed, sum_fixed
from assay.simd.mathf import highest_bit, lowest_bit
from assay.simd.memory import get_f32, get_i64, load, put_i64
from assay.simd.vector import splat


def sums(args, tid, nthreads):
    """(x, n, each, total): each element by itself, and the sum of all by vectors."""
    x, n, each = get_i64(args + 8), get_i64(args + 16), get_i64(args + 24)
    total = no_fixed()
    for i in range(0, n, 16):
        total = add_fixed(total, load(x + 4 * i))
    for i in range(n):
        put_i64(each + 8 * i, fixed(get_f32(x + 4 * i)))
    put_i64(get_i64(args + 32), sum_fixed(total))


def positives(args, tid, nthreads):
    """(x, bits, ends): which of 16 floats are above 0, and the first and the last of them."""
    mask = lane_bits(load(get_i64(args + 8)) > splat(0.0))
    put_i64(get_i64(args + 16), mask)
    put_i64(get_i64(args + 24), lowest_bit(mask))
    put_i64(get_i64(args + 24) + 8, highest_bit(mask))
