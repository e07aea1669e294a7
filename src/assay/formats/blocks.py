"""What blocks of quantised weights mean, in plain NumPy: the reference for kernels.

A block holds a float16 scale d, a float16 minimum m where there is one, and the integers q. In the types of
four and five bits byte i holds elements i and i + 16, low half first; bit i of `high` is the fifth of element
i.

    q4_0: x = (q - 8) d        q5_0: x = (q - 16) d        q8_0: x = q d
    q4_1, q5_1: x = q d + m

Types with a K hold 256 elements, and integers s, and t where they have minimums, for each group of them.

    q4_k, q5_k: x = q (d s) - dmin t, groups of 32
    q6_k: x = (q - 32) (d s), groups of 16

Each sum and product is rounded to float32. Source of the layouts and formulas: ggml's reference quantisation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from assay.tensor.dtype import Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0, DType

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
    places = np.arange(0, 8, 2, dtype=np.uint8)[:, None]
    out += ((blocks["high"].reshape(-1, 2, 1, 32) >> places & 3) << 4).reshape(out.shape)
    out -= 32
    groups = out.reshape(-1, 16, 16)
    groups *= (_scale(blocks["d"]) * blocks["scales"])[:, :, None]


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


def _fifths(blocks: Blocks, out: Floats) -> None:
    _nibbles(blocks["q"], out)
    out += (blocks["high"][:, None] >> np.arange(32, dtype=np.uint32) & 1) << 4


DEQUANTISERS: dict[DType, Callable[[Blocks, Floats], None]] = {
    Q4_0: _q4_0,
    Q4_1: _q4_1,
    Q5_0: _q5_0,
    Q5_1: _q5_1,
    Q8_0: _q8_0,
    Q4_K: _q4_k,
    Q5_K: _q5_k,
    Q6_K: _q6_k,
}
"""Each fills its second argument [n, block] from its first, blocks[n]. Infinite scales are no error."""
