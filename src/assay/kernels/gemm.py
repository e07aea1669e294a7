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
from assay.simd.memory import get_i64


def _plain(load: ftile.Loader, size: int):
    tall, columns = ftile.tall(), 2 * ftile.columns()
    one = ftile.tile(1, PANEL, load, size)
    many = ftile.tile(tall, columns, load, size)

    def kernel(args, tid, nthreads):
        """(x, w, y, T, K, N, scratch, its stride)"""
        x, w, y = get_i64(args + 8), get_i64(args + 16), get_i64(args + 24)
        rows, k, n = get_i64(args + 32), get_i64(args + 40), get_i64(args + 48)
        edge = get_i64(args + 56) + get_i64(args + 64) * tid
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
                at = w + size * PANEL * (k * panel + depth)
                steps = min(DEPTH, k - depth)
                first = np.int64(depth == 0)
                if rows == 1:
                    one(x + 4 * depth, 4 * k, at, size * PANEL, steps, target, 4 * stride, 1, first)
                else:
                    for column in range(0, PANEL, columns):
                        for row in range(start, end, tall):
                            to = target + 4 * (stride * (row - start) + column)
                            many(
                                x + 4 * (k * row + depth),
                                4 * k,
                                at + size * column,
                                size * PANEL,
                                steps,
                                to,
                                4 * stride,
                                end - row,
                                first,
                            )
            if stride != n:
                copy_columns(edge, y + 4 * (n * start + PANEL * panel), end - start, n - PANEL * panel, n)
            item = take(args)

    return kernel


float32 = _plain(ftile.load_f32, 4)
float16 = _plain(ftile.load_f16, 2)
bfloat16 = _plain(ftile.load_bf16, 2)


def _quantised(form: Format):
    tall, columns = ftile.tall(), 2 * ftile.columns()
    many = ftile.tile(tall, columns)
    dequantise = unpacked(form)
    pace = form.pace

    def kernel(args, tid, nthreads):
        """(x, w, y, T, K, N, scratch, its stride)"""
        x, w, y = get_i64(args + 8), get_i64(args + 16), get_i64(args + 24)
        rows, k, n = get_i64(args + 32), get_i64(args + 40), get_i64(args + 48)
        edge = get_i64(args + 56) + get_i64(args + 64) * tid
        scratch = edge + EDGE
        panels, blocks = (n + PANEL - 1) // PANEL, k // BLOCK
        row_blocks = (rows + ROW_BLOCK - 1) // ROW_BLOCK
        item = take(args)
        while item < row_blocks * panels:
            start, panel = ROW_BLOCK * (item // panels), item % panels
            end = min(start + ROW_BLOCK, rows)
            target, stride = y + 4 * (n * start + PANEL * panel), n
            if PANEL * panel + PANEL > n:
                target, stride = edge, PANEL
            at = w + pace * blocks * panel
            for depth in range(0, k, DEPTH):
                steps = min(DEPTH, k - depth)
                for block in range(steps // BLOCK):
                    for half in range(0, PANEL, 16):
                        dequantise(at, depth // BLOCK + block, half, scratch + 4 * PANEL * BLOCK * block)
                first = np.int64(depth == 0)
                for column in range(0, PANEL, columns):
                    for row in range(start, end, tall):
                        to = target + 4 * (stride * (row - start) + column)
                        many(
                            x + 4 * (k * row + depth),
                            4 * k,
                            scratch + 4 * column,
                            4 * PANEL,
                            steps,
                            to,
                            4 * stride,
                            end - row,
                            first,
                        )
            if stride != n:
                copy_columns(edge, y + 4 * (n * start + PANEL * panel), end - start, n - PANEL * panel, n)
            item = take(args)

    return kernel


globals().update({name: _quantised(form) for name, form in FORMATS.items()})
