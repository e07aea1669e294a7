"""What blocks of quantised weights mean, in plain NumPy: the reference for kernels.

A block holds a float16 scale d, a float16 minimum m where there is one, and the integers q. In the types of
four and five bits byte i holds elements i and i + 16, low half first; bit i of `high` is the fifth of element
i.

    q4_0: x = (q - 8) d        q5_0: x = (q - 16) d        q8_0: x = q d
    q4_1, q5_1: x = q d + m

Types with a K hold 256 elements, and integers s, and t where they have minimums, for each group of them.

    q4_k, q5_k: x = q (d s) - dmin t, groups of 32
    q2_k: x = q (d s) - dmin t, groups of 16
    q3_k, q6_k: x = (q - 4) (d s), (q - 32) (d s), groups of 16

In iq4 types q stands for a number in a table, c(q).

    iq4_nl: x = c(q) d         iq4_xs: x = c(q) (d s), 256 elements, groups of 32

Each sum and product is rounded to float32. Source of the layouts and formulas: ggml's reference quantisation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from assay.tensor.dtype import IQ4_CODES, QUANTISED, DType

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]
Blocks = npt.NDArray[np.void]
"""Records of a type's `layout`."""


def _q4_0(blocks: Blocks, out: Floats) -> None:
    _nibbles(blocks["q"], out)
    out -= 8
    out *= _scale(blocks["d"])


def _q4_1(blocks: Blocks, out: Floats) -> None:
    _nibbles(blocks["q"], out)
    out *= _scale(blocks["d"])
    out += _scale(blocks["m"])


def _q5_0(blocks: Blocks, out: Floats) -> None:
    _fifths(blocks, out)
    out -= 16
    out *= _scale(blocks["d"])


def _q5_1(blocks: Blocks, out: Floats) -> None:
    _fifths(blocks, out)
    out *= _scale(blocks["d"])
    out += _scale(blocks["m"])


def _q8_0(blocks: Blocks, out: Floats) -> None:
    out[:] = blocks["q"]
    out *= _scale(blocks["d"])


def _iq4_nl(blocks: Blocks, out: Floats) -> None:
    _codes(blocks["q"], out)
    out *= _scale(blocks["d"])


def _iq4_xs(blocks: Blocks, out: Floats) -> None:
    """Scales of 6 bits, less 32: four in nibbles, low half first, and two in `high`."""
    _codes(blocks["q"].reshape(-1, 16), out.reshape(-1, 32))
    low = (blocks["scales"][:, :, None] >> np.array([0, 4], np.uint8) & 15).reshape(-1, 8)
    high = blocks["high"][:, None] >> np.arange(0, 16, 2, dtype=np.uint16) & 3
    _scaled(blocks, (low | high << 4).astype(np.int8) - np.int8(32), out)


def _q2_k(blocks: Blocks, out: Floats) -> None:
    """Scales are the low halves of bytes, minimums the high ones."""
    out[:] = _pairs(blocks["q"])
    groups, scales = out.reshape(-1, 16, 16), blocks["scales"]
    groups *= (_scale(blocks["d"]) * (scales & 15))[:, :, None]
    groups -= (_scale(blocks["dmin"]) * (scales >> 4))[:, :, None]


def _q3_k(blocks: Blocks, out: Floats) -> None:
    """Bit b of byte i of `high` is the third of element i of the b-th 32. Scales of 6 bits, less 32: four in
    the halves of bytes 0 to 7, first all low ones, and two in bytes 8 to 11, of each fourth one.
    """
    parts = np.arange(8, dtype=np.uint8)[:, None]
    out[:] = _pairs(blocks["q"]) | ((blocks["high"][:, None] >> parts & 1) << 2).reshape(out.shape)
    out -= 4
    low, high = blocks["scales"][:, None, :8], blocks["scales"][:, None, 8:]
    four = (low >> parts[:2] * 4 & 15).reshape(-1, 16)
    two = (high >> parts[:4] * 2 & 3).reshape(-1, 16)
    _scaled(blocks, (four | two << 4).astype(np.int8) - np.int8(32), out)


def _q4_k(blocks: Blocks, out: Floats) -> None:
    _of_64(blocks["q"], out.reshape(-1, 4, 2, 32))
    _scale_and_shift(blocks, out)


def _q5_k(blocks: Blocks, out: Floats) -> None:
    _of_64(blocks["q"], out.reshape(-1, 4, 2, 32))
    parts = np.arange(8, dtype=np.uint8)[:, None]
    out += ((blocks["high"][:, None] >> parts & 1) << 4).reshape(out.shape)
    _scale_and_shift(blocks, out)


def _q6_k(blocks: Blocks, out: Floats) -> None:
    """Of each 128 elements byte i holds elements i and i + 64, low half first, and byte i of `high` two bits
    more of elements i, i + 32, i + 64 and i + 96.
    """
    halves, q = out.reshape(-1, 2, 2, 64), blocks["q"].reshape(-1, 2, 64)
    halves[:, :, 0] = q & 15
    halves[:, :, 1] = q >> 4
    out += _pairs(blocks["high"]) << 4
    out -= 32
    _scaled(blocks, blocks["scales"], out)


def _pairs(q: Bytes) -> Bytes:
    """Of each 128 elements byte i holds two bits of elements i, i + 32, i + 64 and i + 96."""
    places = np.arange(0, 8, 2, dtype=np.uint8)[:, None]
    return (q.reshape(-1, 2, 1, 32) >> places & np.uint8(3)).reshape(len(q), -1)


def _scaled(blocks: Blocks, scales: npt.NDArray[np.int8], out: Floats) -> None:
    """Multiply each group with its scale."""
    groups = out.reshape(*scales.shape, -1)
    groups *= (_scale(blocks["d"]) * scales)[:, :, None]


def _of_64(q: Bytes, out: Floats) -> None:
    """Of each 64 elements byte i holds elements i and i + 32, low half first."""
    q = q.reshape(-1, 4, 32)
    out[:, :, 0] = q & 15
    out[:, :, 1] = q >> 4


def _scale_and_shift(blocks: Blocks, out: Floats) -> None:
    """Scales and minimums of 6 bits: of the first four groups in bytes 0 to 3 and 4 to 7, of the last four in
    the halves of bytes 8 to 11, with two bits more above those of the first four.
    """
    first, last = blocks["scales"][:, :8].reshape(-1, 2, 4), blocks["scales"][:, 8:]
    s, t = (
        np.concatenate([first[:, i] & 63, (last >> 4 * i & 15) | (first[:, i] >> 6 << 4)], axis=1)
        for i in (0, 1)
    )
    groups = out.reshape(-1, 8, 32)
    groups *= (_scale(blocks["d"]) * s)[:, :, None]
    groups -= (_scale(blocks["dmin"]) * t)[:, :, None]


def _scale(half: npt.NDArray[np.float16]) -> Floats:
    return half.astype(np.float32)[:, None]


def _nibbles(q: Bytes, out: Floats) -> None:
    out[:, :16] = q & 15
    out[:, 16:] = q >> 4


def _codes(q: Bytes, out: Floats) -> None:
    codes = np.array(IQ4_CODES, np.float32)
    out[:, :16] = codes[q & 15]
    out[:, 16:] = codes[q >> 4]


def _fifths(blocks: Blocks, out: Floats) -> None:
    _nibbles(blocks["q"], out)
    out += (blocks["high"][:, None] >> np.arange(32, dtype=np.uint32) & 1) << 4


_KINDS = {
    "q4_0": _q4_0,
    "q4_1": _q4_1,
    "q5_0": _q5_0,
    "q5_1": _q5_1,
    "q8_0": _q8_0,
    "iq4_nl": _iq4_nl,
    "q2_k": _q2_k,
    "q3_k": _q3_k,
    "q4_k": _q4_k,
    "q5_k": _q5_k,
    "q6_k": _q6_k,
    "iq4_xs": _iq4_xs,
}
DEQUANTISERS: dict[DType, Callable[[Blocks, Floats], None]] = {
    dtype: _KINDS[dtype.name] for dtype in QUANTISED
}
"""Each fills its second argument [n, block] from its first, blocks[n]. Infinite scales are no error."""
