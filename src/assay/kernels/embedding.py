"""Rows of packed weights as float32: y[T, K] = table[tokens[T], :]."""

from __future__ import annotations

from assay.kernels.panels import BLOCK, FORMATS, PANEL, Format
from assay.kernels.share import first_row
from assay.kernels.unpack import unpacked
from assay.simd.device import device
from assay.simd.memory import get_bf16, get_f16, get_f32, get_i32, put_f32, words


def _kernel(write):
    """`write(table, K, token, to)` writes a row."""

    def kernel(args, tid, nthreads):
        """(tokens, table, y, T, K)"""
        tokens, table, y, rows, k = words(args, 5)
        for row in range(first_row(rows, tid, nthreads), first_row(rows, tid + 1, nthreads)):
            write(table, k, get_i32(tokens + 4 * row), y + 4 * k * row)

    return kernel


def _quantised(form: Format):
    dequantise = unpacked(form, wide=False)
    pace = form.pace

    @device
    def write(table, k, token, to):
        panel = table + pace * (k // BLOCK) * (token // PANEL)
        for block in range(k // BLOCK):
            dequantise(panel, block, token % PANEL, to + 4 * BLOCK * block)

    return _kernel(write)


def _plain(get, size: int):
    @device
    def write(table, k, token, to):
        at = table + size * (k * PANEL * (token // PANEL) + token % PANEL)
        for i in range(k):
            put_f32(to + 4 * i, get(at + size * PANEL * i))

    return _kernel(write)


globals().update({name: _quantised(form) for name, form in FORMATS.items()})
float32 = _plain(get_f32, 4)
float16 = _plain(get_f16, 2)
bfloat16 = _plain(get_bf16, 2)
