"""Softmax of rows."""

from __future__ import annotations

import numpy as np

from assay.kernels.share import first_row
from assay.kernels.sizes import GREATEST
from assay.simd.mathf import exp
from assay.simd.memory import load_row, store_row, words
from assay.simd.numbers import combine, tree_of
from assay.simd.vector import splat, tree_sum

LOWEST = np.float32(-np.inf)


def float32(args, tid, nthreads):
    """(x, y, T, N): y = e / Σ e with e = exp(x − max), summed in 16 lanes and one tree. As in the formula, a
    row is NaN throughout where one of it is NaN or +∞, or all are −∞.
    """
    x, y, rows, n = words(args, 4)
    for row in range(first_row(rows, tid, nthreads), first_row(rows, tid + 1, nthreads)):
        source, target = x + 4 * n * row, y + 4 * n * row
        top, lanes = splat(LOWEST), splat(0.0)
        for i in range(0, n, 16):
            top = combine(GREATEST, top, load_row(source, i, n, LOWEST))
        top = splat(tree_of(GREATEST, top))
        for i in range(0, n, 16):
            value = exp(load_row(source, i, n, LOWEST) - top)
            store_row(target, i, n, value)
            lanes = lanes + value
        total = splat(tree_sum(lanes))
        for i in range(0, n, 16):
            store_row(target, i, n, load_row(target, i, n) / total)
