"""Normalisation over the last axes, or by numbers for each channel."""

from __future__ import annotations

import numpy as np

from assay.kernels.share import first_row
from assay.simd.device import device
from assay.simd.memory import as_f32, get_f32, load, load_part, load_row, store, store_part, store_row, words
from assay.simd.vector import fma, lane_numbers, select, splat, splat_i32, sqrt, tree_sum

ZERO, ONE = np.float32(0.0), np.float32(1.0)


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
    for row in range(first_row(rows, tid, nthreads), first_row(rows, tid + 1, nthreads)):
        mean, scale = moments(x + 4 * n * row, n, as_f32(epsilon))
        scaled(x + 4 * n * row, y + 4 * n * row, n, mean, scale, w, b)


def standardise(args, tid, nthreads):
    """(x, w, b, y, mean, deviation, T, N, period, spread, eps): `layer_norm` of T rows, whose weights come
    again every `period` rows and are each for `spread` elements side by side: those of a channel, or 1.

    Addresses may be 0: of no weights (`spread` is N then); of none to add; of no means, and of no reciprocals
    of deviations, wanted: one float for each row.
    """
    x, w, b, y, means, deviations, rows, n, period, spread, epsilon = words(args, 11)
    for row in range(first_row(rows, tid, nthreads), first_row(rows, tid + 1, nthreads)):
        source, target, weights = x + 4 * n * row, y + 4 * n * row, n // spread * (row % period)
        mean, scale = moments(source, n, as_f32(epsilon))
        if means:
            store_part(means + 4 * row, mean, 1)
        if deviations:
            store_part(deviations + 4 * row, scale, 1)
        if spread == 1:
            scaled(source, target, n, mean, scale, w + 4 * weights, b + 4 * weights if b else 0)
            continue
        for part in range(n // spread):
            factor = get_f32(w + 4 * (weights + part)) if w else ONE
            shift = get_f32(b + 4 * (weights + part)) if b else ZERO
            for i in range(0, spread, 16):
                d = load_row(source + 4 * spread * part, i, spread) - mean
                store_row(target + 4 * spread * part, i, spread, fma(d * scale, splat(factor), splat(shift)))


@device
def moments(source, n, epsilon):
    """The mean of n floats and the reciprocal of their deviation, in all lanes."""
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
    return mean, splat(ONE / sqrt(tree_sum(squares) / np.float32(n) + epsilon))


@device
def scaled(source, target, n, mean, scale, w, b):
    """fma((x − mean) · scale, w, b), a weight for each element."""
    for i in range(0, n, 16):
        d, shift = load_row(source, i, n) - mean, splat(0.0)
        if b:
            shift = load_row(b, i, n)
        store_row(target, i, n, fma(d * scale, load_row(w, i, n), shift))
