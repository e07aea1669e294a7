"""Rows taken out of a matrix, and means of runs of them."""

from __future__ import annotations

import numpy as np

from assay.kernels.share import first_row
from assay.simd.memory import get_i32, load, load_row, store, store_row, words
from assay.simd.vector import splat

NAN = np.float32(np.nan)


def gather_rows(args, tid, nthreads):
    """(x, rows, y, T, R, N): y[r] = x[rows[r]], NaN where that is no row of x."""
    x, rows, y, t, r, n = words(args, 6)
    for i in range(first_row(r, tid, nthreads), first_row(r, tid + 1, nthreads)):
        row = get_i32(rows + 4 * i)
        inside = 0 <= row < t
        source, target = x + 4 * n * row, y + 4 * n * i
        for j in range(0, n, 16):
            store_row(target, j, n, load_row(source, j, n) if inside else splat(NAN))


def segment_mean(args, tid, nthreads):
    """(x, first, last, y, T, S, N, scratch, its stride): y[s] = the mean of rows first[s] … last[s] − 1 of x,
    summed in 16 lanes (lane = place in the run mod 16) and one tree; NaN where these aren't rows of x.
    """
    x, first, last, y, t, s, n, scratch, stride = words(args, 9)
    sums = scratch + stride * tid
    for segment in range(first_row(s, tid, nthreads), first_row(s, tid + 1, nthreads)):
        begin, end = get_i32(first + 4 * segment), get_i32(last + 4 * segment)
        inside = 0 <= begin < end <= t
        for j in range(0, n, 16):
            for lane in range(16):
                store(sums + 64 * lane, splat(0.0))
            for row in range(begin, end if inside else begin):
                lane = sums + 64 * ((row - begin) % 16)
                store(lane, load(lane) + load_row(x + 4 * n * row, j, n))
            half = 8
            while half:
                for lane in range(half):
                    store(sums + 64 * lane, load(sums + 64 * lane) + load(sums + 64 * (lane + half)))
                half //= 2
            divisor = splat(np.float32(end - begin) if inside else NAN)
            store_row(y + 4 * n * segment, j, n, load(sums) / divisor)
