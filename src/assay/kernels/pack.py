"""Weights as files hold them, repacked into panels of 32 columns; and rows read back out of panels.

Quantised: see kernels/qtile.py. Plain: panel[k, column], with 32 columns side by side. Columns past N are
zeros.
"""

from __future__ import annotations

from assay.kernels.share import take
from assay.kernels.sizes import BLOCK, PANEL, Q4_0, Q4_1, Q8_0, Format
from assay.simd.memory import get_i32, get_i64, get_u16, get_u32, put_i32, put_u16


def _quantised(form: Format, raw: int, integers_at: int):
    words = BLOCK * form.bits // 32
    flip = 0x80808080 if form.bits == 8 else 0
    halves = 2 if form.minimum else 1
    record, integers = form.record, form.integers

    def kernel(args, tid, nthreads):
        """(file's bytes, panels, N, K)"""
        source, target = get_i64(args + 8), get_i64(args + 16)
        n, k = get_i64(args + 24), get_i64(args + 32)
        blocks, panels = k // BLOCK, (n + PANEL - 1) // PANEL
        panel = take(args)
        while panel < panels:
            for column in range(PANEL):
                row = PANEL * panel + column
                for block in range(blocks):
                    to = target + record * (blocks * panel + block)
                    at = source + raw * (blocks * row + block)
                    if row < n:
                        for word in range(words):
                            put_i32(to + 128 * word + 4 * column, get_u32(at + integers_at + 4 * word) ^ flip)
                        for half in range(halves):
                            put_u16(to + integers + 2 * PANEL * half + 2 * column, get_u16(at + 2 * half))
                    else:
                        for word in range(words):
                            put_i32(to + 128 * word + 4 * column, 0)
                        for half in range(halves):
                            put_u16(to + integers + 2 * PANEL * half + 2 * column, 0)
            panel = take(args)

    return kernel


q4_0 = _quantised(Q4_0, 18, 2)
q4_1 = _quantised(Q4_1, 20, 4)
q8_0 = _quantised(Q8_0, 34, 2)


def _plain(size: int):
    def kernel(args, tid, nthreads):
        """(file's elements, panels, N, K)"""
        source, target = get_i64(args + 8), get_i64(args + 16)
        n, k = get_i64(args + 24), get_i64(args + 32)
        panels = (n + PANEL - 1) // PANEL
        panel = take(args)
        while panel < panels:
            to = target + size * k * PANEL * panel
            for column in range(PANEL):
                row = PANEL * panel + column
                for i in range(k):
                    at = to + size * (PANEL * i + column)
                    if size == 2:
                        put_u16(at, get_u16(source + 2 * (k * row + i)) if row < n else 0)
                    else:
                        put_i32(at, get_i32(source + 4 * (k * row + i)) if row < n else 0)
            panel = take(args)

    return kernel


plain_2 = _plain(2)
plain_4 = _plain(4)
