"""Weights as files hold them, repacked into panels of 32 columns (panels.py). Columns past N are zeros. A
number that isn't finite, be it a weight or a block's scale or minimum, is a fault of its row.
"""

from __future__ import annotations

from assay.kernels.panels import BLOCK, FORMATS, PANEL, Format, tables
from assay.kernels.readers import READERS, Reader, place
from assay.kernels.share import fault, take
from assay.simd.device import device
from assay.simd.memory import get_u16, get_u32, put_i32, put_u8, put_u16, words
from assay.tensor.dtype import DType

HALF = 0x7C00
"""The exponent of float16: where all of it is set, the number isn't finite."""


def _put_integers(form: Format, reader: Reader):
    """The function `(block, number, to, column)`: the integers of a file's block that are the panel's of that
    number, into words that are 0.
    """
    read = reader.word
    first, *others = (_put_part(*table) for table in tables(form.bits))
    cut, second = bool(others), others[0] if others else first

    @device
    def put(block, number, to, column):
        for group in range(8):
            word = read(block, 8 * number + group)
            first(to + 4 * column, group, word)
            if cut:
                second(to + 4 * column, group, word)

    return put


def _put_part(words: int, shifts: int, bits: int, below: int):
    """The function `(column's words, group, its integers)`: one of the group's parts into its word."""

    @device
    def put(to, group, integers):
        byte = 8 * group
        mask = ((1 << (bits >> byte & 15)) - 1) * 0x01010101
        at = to + 4 * PANEL * (words >> byte & 15)
        put_i32(at, get_u32(at) | (integers >> (below >> byte & 15) & mask) << (shifts >> byte & 15))

    return put


def _quantised(dtype: DType, reader: Reader):
    form = FORMATS[dtype.name]
    size, blocks, block_bytes, record_bytes = dtype.size, form.blocks, form.block, form.record
    put_integers = _put_integers(form, reader)
    super_block, minimum, groups = form.super_block, form.minimum, form.groups
    has_scale, scale = bool(reader.scale), reader.scale or reader.word
    has_minimum, least = bool(reader.minimum), reader.minimum or reader.word
    (own_scales, scales), (own_minimums, minimums) = form.numbers[0], form.numbers[-1]
    d, m = place(dtype, "d"), place(dtype, "dmin" if super_block else "m") if minimum else 0
    sign = 0x8000 if super_block else 0  # dmin is subtracted, m is added

    def kernel(args, tid, nthreads):
        """(file's bytes, panels, N, K)"""
        source, target, n, k = words(args, 4)
        records, panels = k // (BLOCK * blocks), (n + PANEL - 1) // PANEL
        panel = take(args)
        while panel < panels:
            for record in range(records):
                to = target + record_bytes * (records * panel + record)
                for i in range(0, record_bytes, 4):
                    put_i32(to + i, 0)
                for column in range(min(PANEL, n - PANEL * panel)):
                    row = PANEL * panel + column
                    at = source + size * (records * row + record)
                    for number in range(blocks):
                        block = to + block_bytes * number
                        put_integers(at, number, block, column)
                        for group in range(groups):
                            place = block + PANEL * group + column
                            if has_scale:
                                put_u8(place + own_scales, scale(at, groups * number + group))
                            if has_minimum:
                                put_u8(place + own_minimums, least(at, groups * number + group))
                    half = get_u16(at + d)
                    bad = half & HALF == HALF
                    put_u16(to + scales + 2 * column, half)
                    if minimum:
                        half = get_u16(at + m) ^ sign
                        bad |= half & HALF == HALF
                        put_u16(to + minimums + 2 * column, half)
                    if bad:
                        fault(args, row)
            panel = take(args)

    return kernel


globals().update({dtype.name: _quantised(dtype, reader) for dtype, reader in READERS.items()})


def _plain(size: int, exponent: int):
    # Added to a number's exponent, this carries past it when all of it is set, and only then.
    carried, step = exponent << 1 & ~exponent, exponent & -exponent
    get, put = (get_u16, put_u16) if size == 2 else (get_u32, put_i32)

    @device
    def finite(row, k):
        carry = 0
        for i in range(k):
            carry |= (get(row + size * i) & exponent) + step
        return carry & carried == 0

    def kernel(args, tid, nthreads):
        """(file's elements, panels, N, K)"""
        source, target, n, k = words(args, 4)
        panels = (n + PANEL - 1) // PANEL
        panel = take(args)
        while panel < panels:
            to = target + size * k * PANEL * panel
            for column in range(PANEL):
                row = PANEL * panel + column
                if row < n and not finite(source + size * k * row, k):
                    fault(args, row)
                for i in range(k):
                    at = source + size * (k * row + i)
                    put(to + size * (PANEL * i + column), get(at) if row < n else 0)
            panel = take(args)

    return kernel


float16 = _plain(2, HALF)
bfloat16 = _plain(2, 0x7F80)
float32 = _plain(4, 0x7F800000)
