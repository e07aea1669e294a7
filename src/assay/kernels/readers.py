"""Blocks as files hold them, one reader for each type: what pack.py needs of them.

Words hold four integers, a byte each: word g is integers 4 g … 4 g + 3 of the file's block, unsigned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from assay.simd.device import device
from assay.simd.memory import get_u8, get_u32
from assay.tensor.dtype import Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0, DType

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
    """Byte i holds elements i and i + 16, low half first."""
    q = place(dtype, "q")

    @device
    def word(block, group):
        return get_u32(block + q + 4 * (group % 4)) >> 4 * (group // 4) & 0x0F0F0F0F

    return Reader(word)


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


def _six_bits(dtype: DType) -> Reader:
    """Of each 128 elements, byte i holds elements i and i + 64, low half first, and byte i of `high` two bits
    more of elements i, i + 32, i + 64 and i + 96. Scales are int8.
    """
    q, high, scales = place(dtype, "q"), place(dtype, "high"), place(dtype, "scales")

    @device
    def word(block, group):
        part, inside = group // 32, group % 32
        low = get_u32(block + q + 64 * part + 4 * (inside % 16)) >> 4 * (inside // 16) & 0x0F0F0F0F
        upper = get_u32(block + high + 32 * part + 4 * (inside % 8)) >> 2 * (inside // 8) & 0x03030303
        return low | upper << 4

    @device
    def scale(block, group):
        return get_u8(block + scales + group)

    return Reader(word, scale)


READERS = {
    Q4_0: _nibbles(Q4_0),
    Q4_1: _nibbles(Q4_1),
    Q5_0: _fifths(Q5_0),
    Q5_1: _fifths(Q5_1),
    Q8_0: _signed_bytes(Q8_0),
    Q4_K: _nibbles_of_64(Q4_K),
    Q5_K: _nibbles_of_64(Q5_K),
    Q6_K: _six_bits(Q6_K),
}
