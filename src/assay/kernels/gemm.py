"""Float32 matrix products: y[T, N] = x[T, K] · weights[N, K]ᵀ, for plain weights and for quantised ones
dequantised on the way.

K goes in blocks of 256, each summed from zero in ascending order, and the blocks are added in order
(numerics.md, rule 8).
"""

from __future__ import annotations

import numpy as np

from assay.kernels import ftile
from assay.kernels.panels import BLOCK, DEPTH, EDGE, FORMATS, PANEL, ROW_BLOCK, Format
from assay.kernels.share import copy_columns, take
from assay.kernels.unpack import columns as unpacked
from assay.simd.device import device
from assay.simd.memory import words


def _kernel(load: ftile.Loader, size: int, find):
    """`find(w, scratch, K, panel, depth, steps)` says where so many steps of a panel from `depth` on are, as
    elements of `size` bytes.
    """
    tall, columns = ftile.tall(), 2 * ftile.columns()
    one = ftile.tile(1, PANEL, load, size)
    many = ftile.tile(tall, columns, load, size)
    pitch = size * PANEL

    def kernel(args, tid, nthreads):
        """(x, w, y, T, K, N, scratch, its stride)"""
        x, w, y, rows, k, n, scratch, apart = words(args, 8)
        edge = scratch + apart * tid
        panels = (n + PANEL - 1) // PANEL
        row_blocks = (rows + ROW_BLOCK - 1) // ROW_BLOCK
        item = take(args)
        while item < row_blocks * panels:
            start, panel = ROW_BLOCK * (item // panels), item % panels
            end = min(start + ROW_BLOCK, rows)
            target, stride = y + 4 * (n * start + PANEL * panel), n
            if PANEL * panel + PANEL > n:
                target, stride = edge, PANEL
            for depth in range(0, k, DEPTH):
                steps = min(DEPTH, k - depth)
                at = find(w, edge + EDGE, k, panel, depth, steps)
                first = np.int64(depth == 0)
                if rows == 1:
                    one(x + 4 * depth, 4 * k, at, pitch, steps, target, 4 * stride, 1, first)
                else:
                    for column in range(0, PANEL, columns):
                        b = at + size * column
                        for row in range(start, end, tall):
                            a = x + 4 * (k * row + depth)
                            to = target + 4 * (stride * (row - start) + column)
                            many(a, 4 * k, b, pitch, steps, to, 4 * stride, end - row, first)
            if stride != n:
                copy_columns(edge, y + 4 * (n * start + PANEL * panel), end - start, n - PANEL * panel, n)
            item = take(args)

    return kernel


def _plain(load: ftile.Loader, size: int):
    @device
    def find(w, scratch, k, panel, depth, steps):
        return w + size * PANEL * (k * panel + depth)

    return _kernel(load, size, find)


def _quantised(form: Format):
    dequantise = unpacked(form)
    pace = form.pace

    @device
    def find(w, scratch, k, panel, depth, steps):
        at = w + pace * (k // BLOCK) * panel
        for block in range(steps // BLOCK):
            for half in range(0, PANEL, 16):
                dequantise(at, depth // BLOCK + block, half, scratch + 4 * PANEL * BLOCK * block)
        return scratch

    return _kernel(ftile.load_f32, 4, find)


float32 = _plain(ftile.load_f32, 4)
float16 = _plain(ftile.load_f16, 2)
bfloat16 = _plain(ftile.load_bf16, 2)
globals().update({name: _quantised(form) for name, form in FORMATS.items()})
