"""Reductions over any axes: one number of many, in 16 lanes (lane = logical index mod 16) and one tree.

The caller joins axes (strides.reduction): dims are pairs (size, stride in bytes), the last reduced one apart.
If it is contiguous, one output is made at a time, of vectors along it; else the last kept one is, and up to
COLUMNS outputs lie side by side. The order of each one's sum is the same.
"""

from __future__ import annotations

import numpy as np

from assay.kernels.element import turned
from assay.kernels.share import first_row
from assay.kernels.sizes import REDUCE_SCRATCH, UINT64
from assay.simd.device import device
from assay.simd.memory import (
    as_f32,
    get_f32,
    get_f64,
    get_i64,
    load,
    load_filled,
    load_row,
    put_f32,
    put_f64,
    put_i64,
    store,
    store_row,
    words,
)
from assay.simd.numbers import combine, include, include_run, tree_of
from assay.simd.rounding import as_f64
from assay.simd.vector import splat

PITCH = REDUCE_SCRATCH // 16
COLUMNS = PITCH // 4
"""That are reduced side by side: some lines of the cache that lie together."""


@device
def locate(index, dims, count):
    """The offset of a row-major index over so many dims."""
    offset = 0
    for each in range(count - 1, 0, -1):
        size = get_i64(dims + 16 * each)
        offset += index % size * get_i64(dims + 16 * each + 8)
        index //= size
    return offset + index * get_i64(dims + 8) if count else 0


@device
def fold_row(how, x, start, length, total, dims, runs, space):
    """What all that is reduced adds up to: runs of contiguous elements, taken as one vector of `total`."""
    lanes, left_over = splat(start), 0
    for run in range(total // length):
        at, done = x + locate(run, dims, runs), 0
        while done < length:
            whole = (length - done) // 16
            if left_over == 0 and whole:
                lanes = include_run(how, lanes, at + 4 * done, whole)
                done += 16 * whole
                continue
            if left_over == 0 and run == total // length - 1:
                lanes = include(how, lanes, load_filled(at + 4 * done, length - done, start))
                break
            put_f32(space + 4 * left_over, get_f32(at + 4 * done))
            done, left_over = done + 1, left_over + 1
            if left_over == 16:
                lanes, left_over = include(how, lanes, load(space)), 0
    if left_over:
        lanes = include(how, lanes, load_filled(space, left_over, start))
    return tree_of(how, lanes)


@device
def fold_columns(how, x, width, start, length, apart, total, dims, runs, space):
    """The same of up to COLUMNS columns side by side, which come to lie at the start of `space`."""
    for place in range(space, space + 16 * PITCH, 64):
        store(place, splat(start))
    for run in range(total // length):
        at = x + locate(run, dims, runs)
        for j in range(length):
            lane = space + PITCH * ((length * run + j) % 16)
            for i in range(0, width, 16):
                value = load_row(at + apart * j, i, width)
                store(lane + 4 * i, include(how, load(lane + 4 * i), value))
    half = 8 * PITCH
    while half >= PITCH:
        for place in range(space, space + half, 64):
            store(place, combine(how, load(place), load(place + half)))
        half //= 2


def float32(args, tid, nthreads):
    """(x, y, scratch, its stride, type, how, start, divisor, rows, columns, length, apart, total, kept,
    reduced), then pairs (size, stride) of `kept` outer kept dims and of `reduced` outer reduced ones.

    `columns` is the size of the last kept dim if it is contiguous, else 1, `rows` the product of the others;
    `length` and `apart` are the last reduced dim's size and stride, `total` the number of reduced elements.
    `start` holds the bits of what no elements give; the result is divided by `divisor`.
    """
    x, y, space, pace, _, how, neutral, divisor, rows, columns, length, apart, total, kept, runs = words(
        args, 15
    )
    outer, space, start, count = args + 128, space + pace * tid, as_f32(neutral), splat(np.float32(divisor))
    dims, groups = outer + 16 * kept, (columns + COLUMNS - 1) // COLUMNS
    end = first_row(rows * groups, tid + 1, nthreads)
    for item in range(first_row(rows * groups, tid, nthreads), end):
        row, column = item // groups, COLUMNS * (item % groups)
        source, target = x + locate(row, outer, kept) + 4 * column, y + 4 * (columns * row + column)
        width = min(COLUMNS, columns - column)
        if columns == 1:
            store(space, splat(fold_row(how, source, start, length, total, dims, runs, space)))
        else:
            fold_columns(how, source, width, start, length, apart, total, dims, runs, space)
        for i in range(0, width, 16):
            store_row(target, i, width, load(space + 4 * i) / count)


def float64(args, tid, nthreads):
    """The words of `float32`. Makes one output at a time, its lanes in scratch."""
    x, y, space, pace, _, how, neutral, divisor, rows, columns, length, apart, total, kept, runs = words(
        args, 15
    )
    outer, space, outputs = args + 128, space + pace * tid, rows * columns
    for item in range(first_row(outputs, tid, nthreads), first_row(outputs, tid + 1, nthreads)):
        source = x + locate(item // columns, outer, kept) + 8 * (item % columns)
        for place in range(space, space + 128, 8):
            put_f64(place, as_f64(neutral))
        for run in range(total // length):
            at = source + locate(run, outer + 16 * kept, runs)
            for j in range(length):
                lane = space + 8 * ((length * run + j) % 16)
                put_f64(lane, include(how, get_f64(lane), get_f64(at + apart * j)))
        half = 64
        while half >= 8:
            for place in range(space, space + half, 8):
                put_f64(place, combine(how, get_f64(place), get_f64(place + half)))
            half //= 2
        put_f64(y + 8 * item, get_f64(space) / float(divisor))


def integer(args, tid, nthreads):
    """The words of `float32`, for int64 and uint64. Sums wrap around; a quotient is rounded towards zero."""
    x, y, _, _, kind, how, neutral, divisor, rows, columns, length, apart, total, kept, runs = words(args, 15)
    outer, outputs = args + 128, rows * columns
    for item in range(first_row(outputs, tid, nthreads), first_row(outputs, tid + 1, nthreads)):
        source = x + locate(item // columns, outer, kept) + 8 * (item % columns)
        value = turned(kind, how, neutral)
        for run in range(total // length):
            at = source + locate(run, outer + 16 * kept, runs)
            for j in range(length):
                value = include(how, value, turned(kind, how, get_i64(at + apart * j)))
        value = turned(kind, how, value)
        if divisor != 1 and kind == UINT64:
            value = np.int64(np.uint64(value) // np.uint64(divisor))
        elif divisor != 1:
            value = -(-value // divisor) if value < 0 else value // divisor
        put_i64(y + 8 * item, value)
