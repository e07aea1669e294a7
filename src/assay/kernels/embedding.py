"""Rows of packed weights as float32: y[T, K] = table[tokens[T], :]."""

from __future__ import annotations

from assay.kernels.panels import BLOCK, FORMATS, PANEL, Format
from assay.kernels.share import first_row
from assay.kernels.unpack import unpacked
from assay.simd.memory import get_bf16, get_f16, get_f32, get_i32, put_f32, words


def _quantised(form: Format):
    dequantise = unpacked(form, wide=False)
    pace = form.pace

    def kernel(args, tid, nthreads):
        """(tokens, table, y, T, K)"""
        tokens, table, y, rows, k = words(args, 5)
        blocks = k // BLOCK
        for row in range(first_row(rows, tid, nthreads), first_row(rows, tid + 1, nthreads)):
            token = get_i32(tokens + 4 * row)
            panel = table + pace * blocks * (token // PANEL)
            for block in range(blocks):
                dequantise(panel, block, token % PANEL, y + 4 * (k * row + BLOCK * block))

    return kernel


globals().update({name: _quantised(form) for name, form in FORMATS.items()})


def _plain(get, size: int):
    def kernel(args, tid, nthreads):
        """(tokens, table, y, T, K)"""
        tokens, table, y, rows, k = words(args, 5)
        for row in range(first_row(rows, tid, nthreads), first_row(rows, tid + 1, nthreads)):
            token = get_i32(tokens + 4 * row)
            at = table + size * (k * PANEL * (token // PANEL) + token % PANEL)
            for i in range(k):
                put_f32(y + 4 * (k * row + i), get(at + size * PANEL * i))

    return kernel


float32 = _plain(get_f32, 4)
float16 = _plain(get_f16, 2)
bfloat16 = _plain(get_bf16, 2)
