"""Quantised matrix products: y[T, N] = activations (int8 by blocks)[T, K] · packed weights[N, K]ᵀ.

One kernel per weight type for every T: a single row takes a tile of one row and all 32 columns of a panel,
because the weights' way from memory bounds it; more rows take tall tiles of two registers, because arithmetic
does.
"""

from __future__ import annotations

from assay.kernels.panels import BLOCK, FORMATS, PANEL, ROW_BLOCK, Format
from assay.kernels.qtile import tall, tile, width
from assay.kernels.share import copy_columns, take
from assay.simd.memory import words


def _kernel(form: Format):
    one = tile(form, 1, PANEL)
    many = tile(form, tall(), width(form))
    rows_at_once, columns = tall(), width(form)
    pace = form.pace

    def kernel(args, tid, nthreads):
        """(q, scale, sum, w, y, T, K, N, scratch, its stride)"""
        a, scales, sums, w, y, rows, k, n, scratch, apart = words(args, 10)
        edge = scratch + apart * tid
        blocks, panels = k // BLOCK, (n + PANEL - 1) // PANEL
        side = 4 * blocks
        if rows == 1:
            chunk = max(1, min(16, panels // (4 * nthreads)))
            first = chunk * take(args)
            while first < panels:
                for panel in range(first, min(first + chunk, panels)):
                    at = w + panel * blocks * pace
                    whole = PANEL * panel + PANEL <= n
                    target = y + 4 * PANEL * panel if whole else edge
                    one(a, k, scales, sums, side, at, 0, blocks, target, 4 * n, 1)
                    if not whole:
                        copy_columns(edge, y + 4 * PANEL * panel, 1, n - PANEL * panel, n)
                first = chunk * take(args)
            return
        row_blocks = (rows + ROW_BLOCK - 1) // ROW_BLOCK
        item = take(args)
        while item < row_blocks * panels:
            start, panel = ROW_BLOCK * (item // panels), item % panels
            at = w + panel * blocks * pace
            end = min(start + ROW_BLOCK, rows)
            target, stride = y + 4 * (n * start + PANEL * panel), n
            if PANEL * panel + PANEL > n:
                target, stride = edge, PANEL
            for column in range(0, PANEL, columns):
                for row in range(start, end, rows_at_once):
                    to = target + 4 * (stride * (row - start) + column)
                    s, t = scales + side * row, sums + side * row
                    many(a + k * row, k, s, t, side, at, column, blocks, to, 4 * stride, end - row)
            if stride != n:
                copy_columns(edge, y + 4 * (n * start + PANEL * panel), end - start, n - PANEL * panel, n)
            item = take(args)

    return kernel


globals().update({name: _kernel(form) for name, form in FORMATS.items()})
