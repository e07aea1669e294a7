"""What adapters of low rank add to linear maps: two products for each row that has one."""

from __future__ import annotations

from assay.kernels.panels import DEPTH
from assay.kernels.share import first_row
from assay.simd.device import device
from assay.simd.memory import get_f32, get_i32, load_row, store_row, words
from assay.simd.vector import fma, splat


@device
def _sums(x, w, k, n, column):
    """Σ_i x[i] · w[i, column …] for up to 16 columns of w[K, N]: by fma, i ascending in blocks of 256 from
    zero, and the blocks in order (numerics.md, rule 8).
    """
    total = splat(0.0)
    for depth in range(0, k, DEPTH):
        block = splat(0.0)
        for i in range(depth, min(depth + DEPTH, k)):
            block = fma(splat(get_f32(x + 4 * i)), load_row(w + 4 * n * i, column, n), block)
        total = block if depth == 0 else total + block
    return total


def lora(args, tid, nthreads):
    """(base, x, adapter, a, b, y, T, K, N, R, scratch, its stride)"""
    base, x, adapter, a, b, y, rows, k, n, r, scratch, stride = words(args, 12)
    inner = scratch + stride * tid
    for row in range(first_row(rows, tid, nthreads), first_row(rows, tid + 1, nthreads)):
        which = get_i32(adapter + 4 * row)
        for column in range(0, r if which >= 0 else 0, 16):
            sums = _sums(x + 4 * k * row, a + 4 * k * r * which, k, r, column)
            store_row(inner, column, r, sums)
        for column in range(0, n, 16):
            value = load_row(base + 4 * n * row, column, n)
            if which >= 0:
                value = value + _sums(inner, b + 4 * r * n * which, r, n, column)
            store_row(y + 4 * n * row, column, n, value)
