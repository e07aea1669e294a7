"""Blocks as files hold them, one reader for each type: what pack.py needs of them.

Words hold four integers, a byte each: word g is integers 4 g … 4 g + 3 of the file's block, unsigned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from assay.simd.device import device
from assay.simd.memory import get_u8, get_u32
from assay.tensor.dtype import QUANTISED, Bits, DType

Read = Callable[[int, int], int]
Parts = tuple[tuple[int, Bits], ...]
_SCALES: dict[str, tuple[Parts, int]] = {
    "q2_k": (((0, Bits("scales", 16, 4)),), 0),
    "q3_k": (((0, Bits("scales", 8, 4)), (8, Bits("scales", 4, 2, 4))), 32),
    "q6_k": (((0, Bits("scales", 16, 8)),), 0),
    "iq4_xs": (((0, Bits("scales", 1, 4)), (0, Bits("high", 1, 2, 4))), 32),
}
"""Where scales lie in a field, behind so many bytes, and what was added to them. Minimums of q2_k follow."""


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


def _bits(dtype: DType, skip: int, part: Bits, together: int) -> Read:
    """The bits of a number that lie in one field behind so many bytes, at their place in it; or those of
    four, a byte each.
    """
    at, run, bits, below = place(dtype, part.field) + skip, part.run, part.bits, part.below
    load, each = (get_u32, 0x01010101) if together == 4 else (get_u8, 1)
    elements, mask = 8 * run // bits, ((1 << bits) - 1) * each
    sign = 0x80 * each if part.field == "q" and dtype.layout["q"].base.kind == "i" else 0

    @device
    def read(block, number):
        inside = together * number % elements
        byte = together * number // elements * run + inside % run
        return (load(block + at + byte) >> bits * (inside // run) & mask ^ sign) << below

    @device
    def single(block, group):
        four = get_u32(block + at) >> 4 * group & 15
        # Bit i to byte i.
        return (four * 0x00204081 & 0x01010101) << below

    return single if together == 4 and run == 1 else read


def _numbers(dtype: DType, parts: Parts, together: int = 1, first: int = 0, less: int = 0) -> Read:
    """Numbers in one part or two, from the first of them on, each less so much."""
    read, *others = (_bits(dtype, skip, part, together) for skip, part in parts)
    cut, second = bool(others), others[0] if others else read

    @device
    def whole(block, number):
        value = read(block, first + number)
        if cut:
            value |= second(block, first + number)
        return value - less

    return whole


def _six_bits(dtype: DType, half: int) -> Read:
    """Scales (half 0) or minimums (half 4) of 6 bits each: of the first four, bytes 0 to 3 or 4 to 7; of the
    last four, halves of bytes 8 to 11, and what is left of those.
    """
    scales = place(dtype, "scales")

    @device
    def read(block, group):
        at = block + scales + half + group % 4
        if group < 4:
            return get_u8(at) & 63
        return get_u8(block + scales + 8 + group % 4) >> half & 15 | get_u8(at) >> 6 << 4

    return read


def _reader(dtype: DType) -> Reader:
    word = _numbers(dtype, tuple((0, part) for part in dtype.integers), together=4)
    if dtype.name in ("q4_k", "q5_k"):
        return Reader(word, _six_bits(dtype, 0), _six_bits(dtype, 4))
    if dtype.name not in _SCALES:
        return Reader(word)
    parts, less = _SCALES[dtype.name]
    minimum = _numbers(dtype, parts, first=16) if dtype.name == "q2_k" else None
    return Reader(word, _numbers(dtype, parts, less=less), minimum)


READERS = {dtype: _reader(dtype) for dtype in QUANTISED}
