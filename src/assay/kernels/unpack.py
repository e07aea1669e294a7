"""Packed blocks as float32, of one column or of 16 (see panels.py): scale · integer, then + minimum, each
rounded. The products of integers read many at once (lanes.py).
"""

from __future__ import annotations

import numpy as np

from assay.kernels.panels import BLOCK, PANEL, Format, tables
from assay.simd.device import device
from assay.simd.memory import get_f16, get_i8, get_u32, load_f16, load_i8, load_i32, put_f32, store
from assay.simd.vector import convert_f32, decoder, splat_i32

_ONE = get_u32, np.int64, get_i8, get_f16, np.float32, put_f32
"""A column's way to load 32 bits, to make an integer one of its kind, to load an int8 and a float16, to
convert integers to float32, and to store those.
"""
_SIXTEEN = load_i32, splat_i32, load_i8, load_f16, convert_f32, store


def unpacked(form: Format, *, wide: bool):
    """The function `(panel, block, column, to)`: a block's 32 numbers of one column. If `wide`, of the 16
    from `column` on, in rows as long as a panel's.
    """
    load, spread, load_small, load_half, convert, put = _SIXTEEN if wide else _ONE
    integer = _integer(form, load, spread)
    scale = _scale(form, form.scales, form.super_scales, load_small, load_half, convert)
    minimum = _scale(form, form.minimums, form.super_minimums, load_small, load_half, convert)
    group, has_minimum, pitch = form.group, form.minimum, 4 * (PANEL if wide else 1)

    @device
    def write(panel, block, column, to):
        for first in range(0, BLOCK, group):
            factor = scale(panel, block, first // group, column)
            for i in range(first, first + group):
                value = convert(integer(panel, block, i, column)) * factor
                if has_minimum:
                    value = value + minimum(panel, block, first // group, column)
                put(to + pitch * i, value)

    return write


def _integer(form: Format, load, spread):
    """The function `(panel, block, i, column)`: integer i of the block, less the offset."""
    first, *others = (_part(*table, load, spread) for table in tables(form.bits))
    cut, second = bool(others), others[0] if others else first
    blocks, record, size, offset = form.blocks, form.record, form.block, form.offset
    coded, decode = bool(form.codes), decoder(form.unsigned_codes)

    @device
    def read(panel, block, i, column):
        at = panel + record * (block // blocks) + size * (block % blocks) + 4 * column
        number = first(at, i)
        if cut:
            number = number | second(at, i)
        if coded:
            number = decode(number)
        return number - spread(offset)

    return read


def _part(words: int, shifts: int, bits: int, below: int, load, spread):
    """The function `(column's words, i)`: what one of a group's parts holds of integer i, at its place."""

    @device
    def read(at, i):
        group, byte = 8 * (i // 4), 8 * (i % 4)
        word = load(at + 4 * PANEL * (words >> group & 15)) >> spread(byte + (shifts >> group & 15))
        return (word & spread((1 << (bits >> group & 15)) - 1)) << spread(below >> group & 15)

    return read


def _scale(form: Format, own: int, shared: int, load_small, load_half, convert):
    """The function `(panel, block, group, column)`: the number that lies at `own` in the block, and, if it is
    int8, its float16 at `shared` in the record.
    """
    blocks, record, size = form.blocks, form.record, form.block

    @device
    def read(panel, block, group, column):
        of_record = panel + record * (block // blocks)
        of_block = of_record + size * (block % blocks) + own
        if blocks == 1:
            return load_half(of_block + 2 * (PANEL * group + column))
        small = convert(load_small(of_block + PANEL * group + column))
        return small * load_half(of_record + shared + 2 * column)

    return read
