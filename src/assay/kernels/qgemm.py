"""Quantised matrix products: y[T, N] = activations (int8 by blocks)[T, K] · packed weights[N, K]ᵀ.

One kernel per weight type for every T: a single row takes a tile of one row and all 32 columns of a panel,
because the weights' way from memory bounds it; more rows take tall tiles of two registers, because arithmetic
does.
"""

from __future__ import annotations

from assay.kernels.lanes import lanes
from assay.kernels.panels import BLOCK, FORMATS, PANEL, Format
from assay.kernels.product import product
from assay.kernels.qtile import tile, width
from assay.simd.device import device


def _kernel(form: Format):
    one = tile(form, 1, PANEL)
    rows_at_once, columns = lanes().rows, width(form)
    many = tile(form, rows_at_once, columns)
    pace = form.pace

    @device
    def single(word, panel, start, end, target, stride, scratch):
        a, scales, sums, w, _, _, k = word[:7]
        blocks = k // BLOCK
        one(a, k, scales, sums, 4 * blocks, w + panel * blocks * pace, 0, blocks, target, 4 * stride, 1)

    @device
    def multiply(word, panel, start, end, target, stride, scratch):
        a, scales, sums, w, _, _, k = word[:7]
        blocks = k // BLOCK
        side, at = 4 * blocks, w + panel * blocks * pace
        for column in range(0, PANEL, columns):
            for row in range(start, end, rows_at_once):
                to = target + 4 * (stride * (row - start) + column)
                s, t = scales + side * row, sums + side * row
                many(a + k * row, k, s, t, side, at, column, blocks, to, 4 * stride, end - row)

    return product(10, single, multiply)


globals().update({name: _kernel(form) for name, form in FORMATS.items()})
