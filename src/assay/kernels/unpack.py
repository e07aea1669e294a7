"""Packed blocks as float32, of one column or of 16 (see panels.py): scale · integer, then + minimum, each
rounded. The products of integers read many at once (lanes.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba.core import types

from assay.kernels.panels import BLOCK, PANEL, Format, tables
from assay.simd.device import device
from assay.simd.emit import instruction, looked_up
from assay.simd.memory import get_f16, get_i8, get_u32, load_f16, load_i8, load_i32, put_f32, store
from assay.simd.vector import I32x16, convert_f32, splat_i32

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
    scale, *others = (_scale(form, *places, load_small, load_half, convert) for places in form.numbers)
    has_minimum, minimum = bool(others), others[0] if others else scale
    blocks, record, size, group, pitch = (
        form.blocks,
        form.record,
        form.block,
        form.group,
        4 * (PANEL if wide else 1),
    )

    @device
    def write(panel, block, column, to):
        of_record = panel + record * (block // blocks)
        of_block = of_record + size * (block % blocks)
        for first in range(0, BLOCK, group):
            factor = scale(of_record, of_block, first // group, column)
            for i in range(first, first + group):
                value = convert(integer(of_block, i, column)) * factor
                if has_minimum:
                    value = value + minimum(of_record, of_block, first // group, column)
                put(to + pitch * i, value)

    return write


def _integer(form: Format, load, spread):
    """The function `(block, i, column)`: integer i of the block at an address, less the offset."""
    first, *others = (_part(*table, load, spread) for table in tables(form.bits))
    cut, second = bool(others), others[0] if others else first
    offset = form.offset
    coded, decode = bool(form.codes), _decoder(form.unsigned_codes or (0,))

    @device
    def read(block, i, column):
        number = first(block + 4 * column, i)
        if cut:
            number = number | second(block + 4 * column, i)
        if coded:
            number = decode(number)
        return number - spread(offset)

    return read


def _decoder(table: Sequence[int]):
    """The instruction for each lane's number in the table, or an int64's. Numbers beyond it are its last."""

    @instruction(I32x16(I32x16), types.int64(types.int64))
    def decode(builder, place):
        return looked_up(builder, place, table)

    return decode


def _part(words: int, shifts: int, bits: int, below: int, load, spread):
    """The function `(column's words, i)`: what one of a group's parts holds of integer i, at its place."""

    @device
    def read(at, i):
        group, byte = 8 * (i // 4), 8 * (i % 4)
        word = load(at + 4 * PANEL * (words >> group & 15)) >> spread(byte + (shifts >> group & 15))
        return (word & spread((1 << (bits >> group & 15)) - 1)) << spread(below >> group & 15)

    return read


def _scale(form: Format, own: int, shared: int, load_small, load_half, convert):
    """The function `(record, block, group, column)`: the number that lies at `own` in the block, and, if it
    is int8, its float16 at `shared` in the record.
    """
    super_block = form.super_block

    @device
    def read(record, block, group, column):
        if not super_block:
            return load_half(block + own + 2 * (PANEL * group + column))
        small = convert(load_small(block + own + PANEL * group + column))
        return small * load_half(record + shared + 2 * column)

    return read
