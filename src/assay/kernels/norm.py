"""Normalisation over the last axis."""

from __future__ import annotations

import numpy as np

from assay.kernels.share import first_row
from assay.simd.memory import as_f32, get_i64, load, load_part, store, store_part
from assay.simd.vector import fma, splat, sqrt, tree_sum

ONE = np.float32(1.0)


def rms_norm(args, tid, nthreads):
    """(x, w, y, T, N, eps): y = x · (1 / √(Σx² / N + eps)) · w, squares summed in 16 lanes and one tree."""
    x, w, y = get_i64(args + 8), get_i64(args + 16), get_i64(args + 24)
    rows, n, eps = get_i64(args + 32), get_i64(args + 40), as_f32(get_i64(args + 48))
    whole = n // 16 * 16
    for row in range(first_row(rows, tid, nthreads), first_row(rows, tid + 1, nthreads)):
        source, target = x + 4 * n * row, y + 4 * n * row
        squares = splat(0.0)
        for i in range(0, whole, 16):
            v = load(source + 4 * i)
            squares = fma(v, v, squares)
        if whole < n:
            v = load_part(source + 4 * whole, n - whole)
            squares = fma(v, v, squares)
        scale = splat(ONE / sqrt(tree_sum(squares) / np.float32(n) + eps))
        for i in range(0, whole, 16):
            store(target + 4 * i, load(source + 4 * i) * scale * load(w + 4 * i))
        if whole < n:
            value = load_part(source + 4 * whole, n - whole) * scale * load_part(w + 4 * whole, n - whole)
            store_part(target + 4 * whole, value, n - whole)
