"""Blocks as files hold them, one reader for each type: what pack.py needs of them.

Words hold four integers, a byte each: word g is integers 4 g … 4 g + 3 of the file's block, unsigned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from assay.simd.device import device
from assay.simd.memory import get_u8, get_u16, get_u32
from assay.tensor.dtype import QUANTISED, Bits, DType

Read = Callable[[int, int], int]


@dataclass(frozen=True)
class Reader:
    """Functions of a block's address and a number: to the word of integers of that number, and, where a block
    has more than one, to the scale and the minimum of that group, as int8.
    """

    word: Read
    scale: Read | None = None
    minimum: Read | None = None


def place(dtype: DType, field: str) -> int:
    """Where a field of a file's block begins."""
    fields = dtype.layout.fields
    assert fields is not None
    return fields[field][1]


def _word(dtype: DType) -> Read:
    first, *others = (_bits(dtype, each) for each in dtype.integers)
    if not others:
        return first
    (second,) = others

    @device
    def both(block, group):
        return first(block, group) | second(block, group)

    return both


def _bits(dtype: DType, part: Bits) -> Read:
    """The bits that lie in one field, at their place in the integers."""
    field, run, bits, below = place(dtype, part.field), part.run, part.bits, part.below
    elements, mask = 8 * run // bits, ((1 << bits) - 1) * 0x01010101
    sign = 0x80808080 if dtype.layout[part.field].base.kind == "i" else 0

    @device
    def word(block, group):
        inside = 4 * group % elements
        byte = 4 * group // elements * run + inside % run
        return (get_u32(block + field + byte) >> bits * (inside // run) & mask ^ sign) << below

    @device
    def single(block, group):
        four = get_u32(block + field) >> 4 * group & 15
        # Bit i to byte i.
        return (four * 0x00204081 & 0x01010101) << below

    return single if run == 1 else word


def _scaled_nibbles(dtype: DType) -> tuple[Read, ...]:
    """Scales have 6 bits, less 32: four in nibbles, low half first, and two in `high`."""
    scales, high = place(dtype, "scales"), place(dtype, "high")

    @device
    def scale(block, group):
        low = get_u8(block + scales + group // 2) >> 4 * (group % 2) & 15
        return (low | (get_u16(block + high) >> 2 * group & 3) << 4) - 32

    return (scale,)


def _scaled_nibbles_of_64(dtype: DType) -> tuple[Read, ...]:
    """Scales and minimums have 6 bits each: of the first four, bytes 0 to 3 and 4 to 7; of the last four,
    halves of bytes 8 to 11, and what is left of those.
    """
    scales = place(dtype, "scales")

    def six_bits(first):
        half = first  # 4 for minimums, which have the high halves of bytes 8 to 11

        @device
        def read(block, group):
            at = block + scales + half + group % 4
            if group < 4:
                return get_u8(at) & 63
            return get_u8(block + scales + 8 + group % 4) >> half & 15 | get_u8(at) >> 6 << 4

        return read

    return six_bits(0), six_bits(4)


def _two_bits(dtype: DType) -> tuple[Read, ...]:
    """Scales are the low halves of bytes, minimums the high ones."""
    scales = place(dtype, "scales")

    @device
    def scale(block, group):
        return get_u8(block + scales + group) & 15

    @device
    def minimum(block, group):
        return get_u8(block + scales + group) >> 4

    return scale, minimum


def _three_bits(dtype: DType) -> tuple[Read, ...]:
    """Scales have 6 bits, less 32: four in the halves of bytes 0 to 7, first all low ones, and two in bytes 8
    to 11, of each fourth one.
    """
    scales = place(dtype, "scales")

    @device
    def scale(block, group):
        four = get_u8(block + scales + group % 8) >> 4 * (group // 8) & 15
        two = get_u8(block + scales + 8 + group % 4) >> 2 * (group // 4) & 3
        return (four | two << 4) - 32

    return (scale,)


def _six_bits(dtype: DType) -> tuple[Read, ...]:
    """Scales are int8."""
    scales = place(dtype, "scales")

    @device
    def scale(block, group):
        return get_u8(block + scales + group)

    return (scale,)


_SCALES = {
    "q2_k": _two_bits,
    "q3_k": _three_bits,
    "q4_k": _scaled_nibbles_of_64,
    "q5_k": _scaled_nibbles_of_64,
    "q6_k": _six_bits,
    "iq4_xs": _scaled_nibbles,
}
READERS = {
    dtype: Reader(_word(dtype), *(_SCALES[dtype.name](dtype) if dtype.name in _SCALES else ()))
    for dtype in QUANTISED
}
