"""Weighted sums along one axis: Resize, an axis at a time, by the tables of filters.py."""

from __future__ import annotations

from assay.kernels.share import first_row
from assay.simd.memory import as_f32, get_f32, get_f64, get_i64, load_row, put_f64, store_row, words
from assay.simd.vector import fma, splat


def float32(args, tid, nthreads):
    """(x, indices, weights, y, outer, extent, count, taps, inner, outside): y[o, c] = Σ_t weights[c, t] ·
    x[o, indices[c, t]] in rows of `inner`, by fma from zero, t ascending; `outside` where indices are −1.
    """
    x, indices, weights, y, outer, extent, count, taps, inner, outside = words(args, 10)
    for item in range(first_row(outer * count, tid, nthreads), first_row(outer * count, tid + 1, nthreads)):
        source, table = x + 4 * inner * extent * (item // count), item % count * taps
        for i in range(0, inner, 16):
            total = splat(0.0)
            if get_i64(indices + 8 * table) < 0:
                total = splat(as_f32(outside))
            else:
                for tap in range(table, table + taps):
                    value = load_row(source + 4 * inner * get_i64(indices + 8 * tap), i, inner)
                    total = fma(splat(get_f32(weights + 4 * tap)), value, total)
            store_row(y + 4 * inner * item, i, inner, total)


def float64(args, tid, nthreads):
    """The same in float64, but `outside` is a float32."""
    x, indices, weights, y, outer, extent, count, taps, inner, outside = words(args, 10)
    for item in range(first_row(outer * count, tid, nthreads), first_row(outer * count, tid + 1, nthreads)):
        source, table = x + 8 * inner * extent * (item // count), item % count * taps
        for i in range(inner):
            total = 0.0
            if get_i64(indices + 8 * table) < 0:
                total = float(as_f32(outside))
            else:
                for tap in range(table, table + taps):
                    value = get_f64(source + 8 * (inner * get_i64(indices + 8 * tap) + i))
                    total = fma(get_f64(weights + 8 * tap), value, total)
            put_f64(y + 8 * (inner * item + i), total)
