"""Normalisation over the last axis."""

from __future__ import annotations

import numpy as np

from assay.kernels.share import first_row
from assay.simd.memory import as_f32, load, load_part, load_row, store, store_part, words
from assay.simd.vector import fma, lane_numbers, select, splat, splat_i32, sqrt, tree_sum

ONE = np.float32(1.0)


def rms_norm(args, tid, nthreads):
    """(x, w, y, T, groups, N, eps): y = x · (1 / √(Σx² / N + eps)) · w in each group of N, squares summed in
    16 lanes and one tree.
    """
    x, w, y, rows, groups, n, epsilon = words(args, 7)
    eps = as_f32(epsilon)
    whole = n // 16 * 16
    for row in range(groups * first_row(rows, tid, nthreads), groups * first_row(rows, tid + 1, nthreads)):
        source, target = x + 4 * n * row, y + 4 * n * row
        squares = splat(0.0)
        for i in range(0, n, 16):
            v = load_row(source, i, n)
            squares = fma(v, v, squares)
        scale = splat(ONE / sqrt(tree_sum(squares) / np.float32(n) + eps))
        for i in range(0, whole, 16):
            store(target + 4 * i, load(source + 4 * i) * scale * load(w + 4 * i))
        if whole < n:
            value = load_part(source + 4 * whole, n - whole) * scale * load_part(w + 4 * whole, n - whole)
            store_part(target + 4 * whole, value, n - whole)


def layer_norm(args, tid, nthreads):
    """(x, w, b, y, T, N, eps): y = fma(d · (1 / √(Σd² / N + eps)), w, b) with d = x − Σx / N; both sums are
    in 16 lanes and one tree.
    """
    x, w, b, y, rows, n, epsilon = words(args, 7)
    eps, whole = as_f32(epsilon), n // 16 * 16
    for row in range(first_row(rows, tid, nthreads), first_row(rows, tid + 1, nthreads)):
        source, target = x + 4 * n * row, y + 4 * n * row
        total = splat(0.0)
        for i in range(0, n, 16):
            total = total + load_row(source, i, n)
        mean = splat(tree_sum(total) / np.float32(n))
        squares = splat(0.0)
        for i in range(0, n, 16):
            # Lanes past the end must not count: there the difference is −mean.
            inside = lane_numbers() < splat_i32(n - i)
            d = select(inside, load_row(source, i, n) - mean, splat(0.0))
            squares = fma(d, d, squares)
        scale = splat(ONE / sqrt(tree_sum(squares) / np.float32(n) + eps))
        for i in range(0, whole, 16):
            d = load(source + 4 * i) - mean
            store(target + 4 * i, fma(d * scale, load(w + 4 * i), load(b + 4 * i)))
        if whole < n:
            d = load_part(source + 4 * whole, n - whole) - mean
            value = fma(d * scale, load_part(w + 4 * whole, n - whole), load_part(b + 4 * whole, n - whole))
            store_part(target + 4 * whole, value, n - whole)
