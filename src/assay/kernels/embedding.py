"""Rows of packed weights as float32: y[T, K] = table[tokens[T], :]."""

from __future__ import annotations

import numpy as np

from assay.kernels.share import first_row
from assay.kernels.sizes import BLOCK, PANEL, Q4_0, Q4_1, Q8_0, Format
from assay.simd.memory import get_bf16, get_f16, get_f32, get_i32, get_i64, get_u8, put_f32


def _quantised(form: Format):
    record, integers, offset = form.record, form.integers, form.offset
    wide, minimum = form.bits == 8, form.minimum

    def kernel(args, tid, nthreads):
        """(tokens, table, y, T, K)"""
        tokens, table, y = get_i64(args + 8), get_i64(args + 16), get_i64(args + 24)
        rows, k = get_i64(args + 32), get_i64(args + 40)
        blocks = k // BLOCK
        for row in range(first_row(rows, tid, nthreads), first_row(rows, tid + 1, nthreads)):
            token = get_i32(tokens + 4 * row)
            panel, column = token // PANEL, token % PANEL
            for block in range(blocks):
                at = table + record * (blocks * panel + block)
                scale = get_f16(at + integers + 2 * column)
                for i in range(BLOCK):
                    if wide:
                        number = get_u8(at + 128 * (i // 4) + 4 * column + i % 4)
                    else:
                        number = (
                            get_u8(at + 128 * (i // 4 % 4) + 4 * column + i % 4) >> (4 if i >= 16 else 0) & 15
                        )
                    value = np.float32(number - offset) * scale
                    if minimum:
                        value = value + get_f16(at + integers + 2 * PANEL + 2 * column)
                    put_f32(y + 4 * (k * row + BLOCK * block + i), value)

    return kernel


q4_0 = _quantised(Q4_0)
q4_1 = _quantised(Q4_1)
q8_0 = _quantised(Q8_0)


def _plain(get, size: int):
    def kernel(args, tid, nthreads):
        """(tokens, table, y, T, K)"""
        tokens, table, y = get_i64(args + 8), get_i64(args + 16), get_i64(args + 24)
        rows, k = get_i64(args + 32), get_i64(args + 40)
        for row in range(first_row(rows, tid, nthreads), first_row(rows, tid + 1, nthreads)):
            token = get_i32(tokens + 4 * row)
            at = table + size * (k * PANEL * (token // PANEL) + token % PANEL)
            for i in range(k):
                put_f32(y + 4 * (k * row + i), get(at + size * PANEL * i))

    return kernel


float32 = _plain(get_f32, 4)
float16 = _plain(get_f16, 2)
bfloat16 = _plain(get_bf16, 2)
