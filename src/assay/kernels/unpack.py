"""Integers out of packed records, one at a time (see panels.py); the products of integers read many at once
(qtile.py).
"""

from __future__ import annotations

from assay.kernels.panels import Format
from assay.simd.device import device
from assay.simd.memory import get_u8, load_nibbles, load_quads
from assay.simd.vector import splat_i32


def integers(form: Format):
    """The function `(record, i, column)`: integer i, less the offset, of 16 columns from `column` on."""
    wide, offset = form.bits == 8, form.offset

    @device
    def read(record, i, column):
        if wide:
            number = load_quads(record + 128 * (i // 4) + 4 * column, i % 4)
        else:
            number = load_nibbles(record + 128 * (i // 4 % 4) + 4 * column, i % 4, i // 16)
        return number - splat_i32(offset)

    return read


def integer(form: Format):
    """The function `(record, i, column)`: integer i, less the offset, of one column."""
    wide, offset = form.bits == 8, form.offset

    @device
    def read(record, i, column):
        if wide:
            return get_u8(record + 128 * (i // 4) + 4 * column + i % 4) - offset
        octet = get_u8(record + 128 * (i // 4 % 4) + 4 * column + i % 4)
        return (octet >> 4 * (i // 16) & 15) - offset

    return read
