"""Weights as files hold them, repacked into panels of 32 columns (panels.py). Columns past N are zeros. A
number that isn't finite, be it a weight or a block's scale or minimum, is a fault of its row.

A block type is one reader here: a device function of a block's address and a number g, to a word of the
block's unsigned integers 4 g … 4 g + 3, one a byte.
"""

from __future__ import annotations

from assay.kernels.panels import BLOCK, FORMATS, PANEL
from assay.kernels.share import fault, take
from assay.simd.device import device
from assay.simd.memory import get_i32, get_i64, get_u16, get_u32, put_i32, put_u16
from assay.tensor.dtype import Q4_0, Q4_1, Q8_0, DType

HALF = 0x7C00
"""The exponent of float16: where all of it is set, the number isn't finite."""


def _nibbles(dtype: DType):
    """Byte i holds elements i and i + 16, low half first."""
    q = _place(dtype, "q")

    @device
    def read(block, group):
        return get_u32(block + q + 4 * (group % 4)) >> 4 * (group // 4) & 0x0F0F0F0F

    return read


def _signed_bytes(dtype: DType):
    q = _place(dtype, "q")

    @device
    def read(block, group):
        return get_u32(block + q + 4 * group) ^ 0x80808080

    return read


def _place(dtype: DType, field: str) -> int:
    """Where a field of a file's block begins."""
    fields = dtype.layout.fields
    assert fields is not None
    return fields[field][1]


def _quantised(dtype: DType, read):
    form = FORMATS[dtype.name]
    size, record, bits = dtype.size, form.record, form.bits
    scales, minimums, minimum = form.scales, form.minimums, form.minimum
    d, m = _place(dtype, "d"), _place(dtype, "m") if minimum else 0

    def kernel(args, tid, nthreads):
        """(file's bytes, panels, N, K)"""
        source, target = get_i64(args + 8), get_i64(args + 16)
        n, k = get_i64(args + 24), get_i64(args + 32)
        blocks, panels = k // BLOCK, (n + PANEL - 1) // PANEL
        panel = take(args)
        while panel < panels:
            for block in range(blocks):
                to = target + record * (blocks * panel + block)
                for column in range(PANEL):
                    row = PANEL * panel + column
                    at = source + size * (blocks * row + block)
                    for group in range(bits):
                        word = 0
                        if row < n:
                            word = read(at, group)
                            if bits == 4:
                                word |= read(at, group + 4) << 4
                        put_i32(to + 128 * group + 4 * column, word)
                    scale = get_u16(at + d) if row < n else 0
                    bad = scale & HALF == HALF
                    put_u16(to + scales + 2 * column, scale)
                    if minimum:
                        least = get_u16(at + m) if row < n else 0
                        bad |= least & HALF == HALF
                        put_u16(to + minimums + 2 * column, least)
                    if bad:
                        fault(args, row)
            panel = take(args)

    return kernel


q4_0 = _quantised(Q4_0, _nibbles(Q4_0))
q4_1 = _quantised(Q4_1, _nibbles(Q4_1))
q8_0 = _quantised(Q8_0, _signed_bytes(Q8_0))


def _plain(size: int, exponent: int):
    # Added to a number's exponent, this carries past it when all of it is set, and only then.
    carried, step = exponent << 1 & ~exponent, exponent & -exponent

    @device
    def finite(row, k):
        carry = 0
        for i in range(k):
            value = get_u16(row + 2 * i) if size == 2 else get_u32(row + 4 * i)
            carry |= (value & exponent) + step
        return carry & carried == 0

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
                if row < n and not finite(source + size * k * row, k):
                    fault(args, row)
                for i in range(k):
                    at = to + size * (PANEL * i + column)
                    if size == 2:
                        put_u16(at, get_u16(source + 2 * (k * row + i)) if row < n else 0)
                    else:
                        put_i32(at, get_i32(source + 4 * (k * row + i)) if row < n else 0)
            panel = take(args)

    return kernel


float16 = _plain(2, HALF)
bfloat16 = _plain(2, 0x7F80)
float32 = _plain(4, 0x7F800000)
