"""Element types: plain numbers, and blocks of quantised weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Bits(NamedTuple):
    """Some bits of each integer of a block, in one of its fields: of each `run` bytes first the lowest bits
    of all, then those above. `below` is how many of an integer's bits are elsewhere, below these.
    """

    field: str
    run: int
    bits: int
    below: int = 0


@dataclass(frozen=True)
class DType:
    """How elements are stored: `block` elements take `size` bytes. Plain numbers have a block of 1."""

    name: str
    block: int
    size: int
    kind: str
    """"float", "int", "uint", "bool", "complex", "narrow", "string", "container", "quantised" or "rare"."""
    fields: tuple[tuple[str, str], ...] = ()
    """Of a block of quantised weights: the names and NumPy types of what a file holds, in order."""
    integers: tuple[Bits, ...] = ()
    """Where a block's integers lie."""

    @property
    def quantised(self) -> bool:
        return self.kind == "quantised"

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy dtype of the same bytes. bfloat16 is uint16 there, quantised and narrow types are bytes;
        strings are Python's.
        """
        if self.kind in ("quantised", "rare", "narrow"):
            return np.dtype(np.uint8)
        if self.kind in ("string", "container"):
            return np.dtype(object)
        return np.dtype("uint16" if self.name == "bfloat16" else self.name)

    @property
    def layout(self) -> np.dtype[np.void]:
        """One block as a NumPy record of its fields."""
        return np.dtype(list(self.fields))

    def nbytes(self, count: int) -> int:
        """Bytes of `count` elements, which must fill whole blocks."""
        if count % self.block:
            raise ValueError(f"{count} elements of {self.name} are not whole blocks of {self.block}")
        return count // self.block * self.size

    def __str__(self) -> str:
        return self.name


F64 = DType("float64", 1, 8, "float")
F32 = DType("float32", 1, 4, "float")
F16 = DType("float16", 1, 2, "float")
BF16 = DType("bfloat16", 1, 2, "float")
I64 = DType("int64", 1, 8, "int")
I32 = DType("int32", 1, 4, "int")
I16 = DType("int16", 1, 2, "int")
I8 = DType("int8", 1, 1, "int")
U64 = DType("uint64", 1, 8, "uint")
U32 = DType("uint32", 1, 4, "uint")
U16 = DType("uint16", 1, 2, "uint")
U8 = DType("uint8", 1, 1, "uint")
BOOL = DType("bool", 1, 1, "bool")
C64 = DType("complex64", 1, 8, "complex")
C128 = DType("complex128", 1, 16, "complex")
STRING = DType("string", 1, 8, "string")
SEQUENCE, OPTIONAL, MAP = (DType(name, 1, 8, "container") for name in ("sequence", "optional", "map"))

NARROW = tuple(
    DType(name, 1, 1, "narrow")
    for name in (
        "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float8e8m0", "float6e2m3",
        "float6e3m2", "float4e2m1", "int4", "uint4", "int2", "uint2",
    )
)  # fmt: skip
"""Numbers of 8 bits and fewer, each in a byte of its own (files may pack them)."""
F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0, F6E2M3, F6E3M2, F4E2M1, I4, U4, I2, U2 = NARROW


def _blocks(name: str, block: int, integers: tuple[Bits, ...], **fields: str) -> DType:
    """A block type. How integers and scales become numbers is in formats/blocks.py, how kernels want them in
    kernels/panels.py.
    """
    layout = tuple(fields.items())
    return DType(name, block, np.dtype(list(layout)).itemsize, "quantised", layout, integers)


_NIBBLES, _PAIRS = (Bits("q", 16, 4),), (Bits("q", 32, 2),)
_NIBBLES_OF_64, _NIBBLES_OF_128 = (Bits("q", 32, 4),), (Bits("q", 64, 4),)
QUANTISED = (
    _blocks("q4_0", 32, _NIBBLES, d="<f2", q="16u1"),
    _blocks("q4_1", 32, _NIBBLES, d="<f2", m="<f2", q="16u1"),
    _blocks("q5_0", 32, (*_NIBBLES, Bits("high", 1, 1, 4)), d="<f2", high="<u4", q="16u1"),
    _blocks("q5_1", 32, (*_NIBBLES, Bits("high", 1, 1, 4)), d="<f2", m="<f2", high="<u4", q="16u1"),
    _blocks("q8_0", 32, (Bits("q", 32, 8),), d="<f2", q="32i1"),
    _blocks("iq4_nl", 32, _NIBBLES, d="<f2", q="16u1"),
    _blocks("q2_k", 256, _PAIRS, scales="16u1", q="64u1", d="<f2", dmin="<f2"),
    _blocks("q3_k", 256, (*_PAIRS, Bits("high", 32, 1, 2)), high="32u1", q="64u1", scales="12u1", d="<f2"),
    _blocks("q4_k", 256, _NIBBLES_OF_64, d="<f2", dmin="<f2", scales="12u1", q="128u1"),
    _blocks("q5_k", 256, (*_NIBBLES_OF_64, Bits("high", 32, 1, 4)),
            d="<f2", dmin="<f2", scales="12u1", high="32u1", q="128u1"),
    _blocks("q6_k", 256, (*_NIBBLES_OF_128, Bits("high", 32, 2, 4)),
            q="128u1", high="64u1", scales="16i1", d="<f2"),
    _blocks("iq4_xs", 256, _NIBBLES, d="<f2", high="<u2", scales="4u1", q="128u1"),
)  # fmt: skip
Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_XS = QUANTISED
WEIGHT_TYPES = (F32, F16, BF16, *QUANTISED)

RARE = tuple(
    DType(name, block, size, "rare")
    for name, block, size in (
        ("iq1_s", 256, 50), ("iq1_m", 256, 56), ("iq2_xxs", 256, 66), ("iq2_xs", 256, 74), ("iq2_s", 256, 82),
        ("iq3_xxs", 256, 98), ("iq3_s", 256, 110), ("tq1_0", 256, 54), ("tq2_0", 256, 66), ("mxfp4", 32, 17),
        ("nvfp4", 64, 36),
    )
)  # fmt: skip
"""Blocks that no kernel reads: the `gguf` package makes float32 of them, and they run as that."""

IQ4_CODES = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
"""What the integers of iq4 types stand for."""

SIGNED, UNSIGNED = (I8, I16, I32, I64), (U8, U16, U32, U64)
PLAIN = (F64, F32, F16, BF16, *SIGNED, *UNSIGNED, BOOL, C64, C128, *NARROW, STRING)
"""What tensors of a graph may hold."""
ALL = (*PLAIN, SEQUENCE, OPTIONAL, MAP, *QUANTISED)
BY_NAME = {dtype.name: dtype for dtype in ALL}
