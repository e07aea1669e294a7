"""Blocks as files hold them, one reader for each type: what pack.py needs of them.

Words hold four integers, a byte each: word g is integers 4 g … 4 g + 3 of the file's block, unsigned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from assay.simd.device import device
from assay.simd.memory import get_u8, get_u16, get_u32
from assay.tensor.dtype import QUANTISED, DType

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


def _nibbles(dtype: DType) -> Reader:
    """Of each 32 elements, byte i holds elements i and i + 16, low half first."""
    q = place(dtype, "q")

    @device
    def word(block, group):
        part, inside = group // 8, group % 8
        return get_u32(block + q + 16 * part + 4 * (inside % 4)) >> 4 * (inside // 4) & 0x0F0F0F0F

    return Reader(word)


def _scaled_nibbles(dtype: DType) -> Reader:
    """Nibbles. Scales have 6 bits, less 32: four in nibbles, low half first, and two in `high`."""
    scales, high = place(dtype, "scales"), place(dtype, "high")

    @device
    def scale(block, group):
        low = get_u8(block + scales + group // 2) >> 4 * (group % 2) & 15
        return (low | (get_u16(block + high) >> 2 * group & 3) << 4) - 32

    return Reader(_nibbles(dtype).word, scale)


def _fifths(dtype: DType) -> Reader:
    """Nibbles, and bit i of `high` is the fifth of element i."""
    q, high = place(dtype, "q"), place(dtype, "high")

    @device
    def word(block, group):
        four = get_u32(block + high) >> 4 * group & 15
        # Bit i to byte i.
        fifth = four * 0x00204081 & 0x01010101
        return get_u32(block + q + 4 * (group % 4)) >> 4 * (group // 4) & 0x0F0F0F0F | fifth << 4

    return Reader(word)


def _signed_bytes(dtype: DType) -> Reader:
    q = place(dtype, "q")

    @device
    def word(block, group):
        return get_u32(block + q + 4 * group) ^ 0x80808080

    return Reader(word)


def _nibbles_of_64(dtype: DType) -> Reader:
    """Of each 64 elements, byte i holds elements i and i + 32, low half first; bit b of byte i of `high`,
    where there is one, is the fifth of element i of the b-th 32. Scales and minimums have 6 bits each: of the
    first four, bytes 0 to 3 and 4 to 7; of the last four, halves of bytes 8 to 11, and what is left of those.
    """
    q, scales = place(dtype, "q"), place(dtype, "scales")
    fifth = "high" in dict(dtype.fields)
    high = place(dtype, "high") if fifth else 0

    @device
    def word(block, group):
        part, inside = group // 8, group % 8
        number = get_u32(block + q + 32 * (part // 2) + 4 * inside) >> 4 * (part % 2) & 0x0F0F0F0F
        if fifth:
            number |= (get_u32(block + high + 4 * inside) >> part & 0x01010101) << 4
        return number

    def six_bits(first):
        half = first  # 4 for minimums, which have the high halves of bytes 8 to 11

        @device
        def read(block, group):
            at = block + scales + half + group % 4
            if group < 4:
                return get_u8(at) & 63
            return get_u8(block + scales + 8 + group % 4) >> half & 15 | get_u8(at) >> 6 << 4

        return read

    return Reader(word, six_bits(0), six_bits(4))


def _pairs(dtype: DType, field: str) -> Read:
    """Of each 128 elements, byte i of the field holds two bits of elements i, i + 32, i + 64 and i + 96."""
    q = place(dtype, field)

    @device
    def word(block, group):
        part, inside = group // 32, group % 32
        return get_u32(block + q + 32 * part + 4 * (inside % 8)) >> 2 * (inside // 8) & 0x03030303

    return word


def _two_bits(dtype: DType) -> Reader:
    """Scales are the low halves of bytes, minimums the high ones."""
    scales = place(dtype, "scales")

    @device
    def scale(block, group):
        return get_u8(block + scales + group) & 15

    @device
    def minimum(block, group):
        return get_u8(block + scales + group) >> 4

    return Reader(_pairs(dtype, "q"), scale, minimum)


def _three_bits(dtype: DType) -> Reader:
    """Bit b of byte i of `high` is the third of element i of the b-th 32. Scales have 6 bits, less 32: four
    in the halves of bytes 0 to 7, first all low ones, and two in bytes 8 to 11, of each fourth one.
    """
    low, high, scales = _pairs(dtype, "q"), place(dtype, "high"), place(dtype, "scales")

    @device
    def word(block, group):
        third = get_u32(block + high + 4 * (group % 8)) >> group // 8 & 0x01010101
        return low(block, group) | third << 2

    @device
    def scale(block, group):
        four = get_u8(block + scales + group % 8) >> 4 * (group // 8) & 15
        two = get_u8(block + scales + 8 + group % 4) >> 2 * (group // 4) & 3
        return (four | two << 4) - 32

    return Reader(word, scale)


def _six_bits(dtype: DType) -> Reader:
    """Of each 128 elements, byte i holds elements i and i + 64, low half first, and byte i of `high` two bits
    more of elements i, i + 32, i + 64 and i + 96. Scales are int8.
    """
    q, scales, upper = place(dtype, "q"), place(dtype, "scales"), _pairs(dtype, "high")

    @device
    def word(block, group):
        part, inside = group // 32, group % 32
        low = get_u32(block + q + 64 * part + 4 * (inside % 16)) >> 4 * (inside // 16) & 0x0F0F0F0F
        return low | upper(block, group) << 4

    @device
    def scale(block, group):
        return get_u8(block + scales + group)

    return Reader(word, scale)


_KINDS = {
    "q4_0": _nibbles,
    "q4_1": _nibbles,
    "q5_0": _fifths,
    "q5_1": _fifths,
    "q8_0": _signed_bytes,
    "iq4_nl": _nibbles,
    "q2_k": _two_bits,
    "q3_k": _three_bits,
    "q4_k": _nibbles_of_64,
    "q5_k": _nibbles_of_64,
    "q6_k": _six_bits,
    "iq4_xs": _scaled_nibbles,
}
READERS = {dtype: _KINDS[dtype.name](dtype) for dtype in QUANTISED}
