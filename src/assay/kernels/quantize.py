"""Activations to 8 bits: x[T, K] to q[T, K], scale[T, K/32] and the sums of the integers [T, K/32]."""

from __future__ import annotations

import numpy as np

from assay.kernels.share import fault, first_row
from assay.simd.memory import load, put_f32, put_i32, store_i8, words
from assay.simd.vector import any_lane, bits, floats, select, splat, splat_i32, tree_max, tree_sum

LEAST = np.float32(2.0**-100)
STEPS = np.float32(127.0)
ZERO = np.float32(0.0)


def rows(args, tid, nthreads):
    """(x, q, scale, sum, T, K): for each block of 32, scale = max|x| / 127 and q = x · (127 / max|x|) to
    nearest even.
    """
    x, q, scales, sums, count, k = words(args, 6)
    blocks = k // 32
    magnitude = splat_i32(0x7FFFFFFF)
    infinite = splat_i32(0x7F800000)
    magic = splat(12582912.0)
    end = first_row(count, tid + 1, nthreads) * blocks
    for block in range(first_row(count, tid, nthreads) * blocks, end):
        low, high = load(x + 128 * block), load(x + 128 * block + 64)
        a, b = bits(low) & magnitude, bits(high) & magnitude
        if any_lane((a >= infinite) | (b >= infinite)):
            fault(args, block // blocks)
        greatest = tree_max(floats(select(a > b, a, b)))
        scale = greatest / STEPS
        inverse = STEPS / greatest
        if greatest < LEAST:
            scale = ZERO
            inverse = ZERO
        low = low * splat(inverse) + magic
        high = high * splat(inverse) + magic
        i, j = bits(low) - bits(magic), bits(high) - bits(magic)
        store_i8(q + 32 * block, i)
        store_i8(q + 32 * block + 16, j)
        put_f32(scales + 4 * block, scale)
        put_i32(sums + 4 * block, np.int64(tree_sum(i + j)))
