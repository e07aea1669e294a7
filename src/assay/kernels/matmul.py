"""Products of matrices that are both made at run time: y[.., M, N] = a[.., M, K] · b[.., K, N], in batches
that broadcast. Floats as gemm.py has them: K in blocks of 256, each summed from zero by fma in ascending
order, the blocks added in order (numerics.md, rule 8). Integers wrap.

A piece of work is a panel of 32 columns of one batch: its part of b is put into panel order on the way,
once for up to 192 rows.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir

from assay.kernels import ftile
from assay.kernels.panels import DEPTH, PANEL, ROW_BLOCK
from assay.kernels.share import take
from assay.simd.device import device
from assay.simd.emit import F32, F64, I32, I64
from assay.simd.memory import get_i64, get_u32, load, put_i32, put_i64, store, words


def movers(size: int):
    """How elements of so many bytes are read and written, whatever they mean."""
    return (get_i64, put_i64) if size == 8 else (get_u32, put_i32)


def _filled(size: int):
    """The function `(b, steps' stride, columns' stride, steps, columns, to)`: so much of b as to[steps, 32],
    with zeros in the other columns.
    """
    get, put = movers(size)
    row = size * PANEL

    @device
    def fill(b, k_stride, n_stride, steps, columns, to):
        if n_stride == size and columns == PANEL:
            for k in range(steps):
                for i in range(0, row, 64):
                    store(to + row * k + i, load(b + k_stride * k + i))
            return
        for column in range(columns):
            for k in range(steps):
                put(to + row * k + size * column, get(b + k_stride * k + n_stride * column))
        for column in range(columns, PANEL):
            for k in range(steps):
                put(to + row * k + size * column, 0)

    return fill


def _product(kind: ir.Type):
    size, tall, columns = ftile.size_of(kind), ftile.tall(), 2 * ftile.register(kind)
    one = ftile.tile(1, PANEL, ftile.plain(kind), size, kind)
    many = ftile.tile(tall, columns, ftile.plain(kind), size, kind)
    fill, row = _filled(size), size * PANEL
    get, put = movers(size)

    @device
    def multiply(a, a_stride, b, k_stride, n_stride, rows, k, left, y, y_stride, panel):
        """All of K for some rows and one panel, of which y holds all columns."""
        straight = rows <= tall and n_stride == size and left == PANEL
        for depth in range(0, k, DEPTH):
            steps, first = min(DEPTH, k - depth), np.int64(depth == 0)
            at, pitch, x = b + k_stride * depth, k_stride, a + size * depth
            if not straight:
                fill(at, k_stride, n_stride, steps, left, panel)
                at, pitch = panel, row
            if rows == 1:
                one(x, a_stride, at, pitch, steps, y, y_stride, 1, first)
                continue
            for column in range(0, left, columns):
                for start in range(0, rows, tall):
                    to = y + y_stride * start + size * column
                    right = at + size * column
                    many(
                        x + a_stride * start, a_stride, right, pitch, steps, to, y_stride, rows - start, first
                    )

    def kernel(args, tid, nthreads):
        """(a, b, y, scratch, its stride, M, K, N, strides of a's rows, of b's K and of b's N, dims, then
        for each dimension of the batch its size and the strides of a and b): y is dense, a's columns lie
        side by side, strides are in elements.
        """
        a, b, y, scratch, apart, m, k, n, a_stride, k_stride, n_stride, dims = words(args, 12)
        panel = scratch + apart * tid
        edge = panel + row * DEPTH
        batches = 1
        for dim in range(dims):
            batches *= get_i64(args + 104 + 24 * dim)
        panels, blocks = (n + PANEL - 1) // PANEL, (m + ROW_BLOCK - 1) // ROW_BLOCK
        item = take(args)
        while item < batches * blocks * panels:
            batch, rest = item // (blocks * panels), item % (blocks * panels)
            start, column = ROW_BLOCK * (rest // panels), PANEL * (rest % panels)
            left, right, above = a_stride * start, n_stride * column, batch
            for dim in range(dims - 1, -1, -1):
                word = args + 104 + 24 * dim
                left += above % get_i64(word) * get_i64(word + 8)
                right += above % get_i64(word) * get_i64(word + 16)
                above //= get_i64(word)
            rows, width = min(ROW_BLOCK, m - start), min(PANEL, n - column)
            place = y + size * (n * (m * batch + start) + column)
            target, stride = (place, size * n) if width == PANEL else (edge, row)
            multiply(
                a + size * left, size * a_stride, b + size * right, size * k_stride, size * n_stride,
                rows, k, width, target, stride, panel,
            )  # fmt: skip
            if k == 0 or width < PANEL:
                for i in range(rows):
                    for j in range(width):
                        value = get(edge + row * i + size * j) if k else 0
                        put(place + size * (n * i + j), value)
            item = take(args)

    return kernel


float32, float64, int32, int64 = map(_product, (F32, F64, I32, I64))


def pack(args, tid, nthreads):
    """(b, panels, K, N, strides of K and of N): a float32 matrix put into panels for gemm.float32, once."""
    b, to, k, n, k_stride, n_stride = words(args, 6)
    panel = take(args)
    while panel < (n + PANEL - 1) // PANEL:
        at = b + 4 * n_stride * PANEL * panel
        _fill(at, 4 * k_stride, 4 * n_stride, k, min(PANEL, n - PANEL * panel), to + 4 * PANEL * k * panel)
        panel = take(args)


_fill = _filled(4)
