"""What blocks of quantised weights mean, in plain NumPy: the reference for kernels.

A block holds integers q (see `Bits`) and a float16 scale d, and a float16 minimum m where there is one.

    q4_0: x = (q - 8) d        q5_0: x = (q - 16) d        q8_0: x = q d
    q4_1, q5_1: x = q d + m    iq4_nl: x = c(q) d

Types that end in k or xs hold 256 elements, and integers s, and t where they have minimums, for each group.

    q2_k, q4_k, q5_k: x = q (d s) - dmin t, groups of 16, 32 and 32
    q3_k, q6_k: x = (q - 4) (d s) and (q - 32) (d s), groups of 16
    iq4_xs: x = c(q) (d s), groups of 32

In iq4 types q stands for a number in a table, c(q). Each sum and product is rounded to float32. Source of the
layouts and formulas: ggml's reference quantisation.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
import numpy.typing as npt

from assay.kernels.panels import FORMATS
from assay.tensor.dtype import DType

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.integer]
Blocks = npt.NDArray[np.void]
"""Records of a type's `layout`."""


def dequantise_blocks(blocks: Blocks, dtype: DType, out: Floats) -> None:
    """Fill `out` [n, block] from blocks[n]. Infinite scales are no error."""
    form, q = FORMATS[dtype.name], integers(blocks, dtype)
    out[:] = np.array(form.codes, np.float32)[q] if form.codes else q
    if form.offset and not form.codes:
        out -= form.offset
    small = SCALES[dtype.name](blocks) if form.super_block else ()
    factors = [_half(blocks["d"]) * s for s in small[:1]] or [_half(blocks["d"])]
    groups = out.reshape(*factors[0].shape, -1)
    groups *= factors[0][:, :, None]
    if "m" in dict(dtype.fields):
        out += _half(blocks["m"])
    elif form.minimum:
        groups -= (_half(blocks["dmin"]) * small[1])[:, :, None]


def integers(blocks: Blocks, dtype: DType) -> Bytes:
    """The integers q[n, block], unsigned."""
    parts = (
        split(np.ascontiguousarray(blocks[part.field]), part.run, part.bits) << np.uint8(part.below)
        for part in dtype.integers
    )
    q: Bytes = reduce(np.bitwise_or, parts)
    return q ^ np.uint8(128) if dtype.layout["q"].base.kind == "i" else q


def split(packed: npt.NDArray[np.generic], run: int, bits: int) -> Bytes:
    """Integers [n, …] of so many bits: of each `run` bytes first the lowest bits of all, then those above."""
    places = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    rows = packed.view(np.uint8).reshape(len(packed), -1, 1, run)
    return (rows >> places & np.uint8((1 << bits) - 1)).reshape(len(packed), -1)


def _half(numbers: npt.NDArray[np.float16]) -> Floats:
    return numbers.astype(np.float32)[:, None]


def _two_bits(blocks: Blocks) -> tuple[Integers, ...]:
    return blocks["scales"] & 15, blocks["scales"] >> 4


def _three_bits(blocks: Blocks) -> tuple[Integers, ...]:
    """Of 6 bits, less 32: four in the halves of bytes 0 to 7, first all low ones, and two in bytes 8 to 11,
    of each fourth one.
    """
    scales = np.ascontiguousarray(blocks["scales"])
    return (_less_32(split(scales[:, :8].copy(), 8, 4), split(scales[:, 8:].copy(), 4, 2)),)


def _scaled_nibbles_of_64(blocks: Blocks) -> tuple[Integers, ...]:
    """Scales and minimums of 6 bits: of the first four groups in bytes 0 to 3 and 4 to 7, of the last four in
    the halves of bytes 8 to 11, with two bits more above those of the first four.
    """
    first, last = blocks["scales"][:, :8].reshape(-1, 2, 4), blocks["scales"][:, 8:]
    return tuple(
        np.concatenate([first[:, i] & 63, (last >> 4 * i & 15) | (first[:, i] >> 6 << 4)], axis=1)
        for i in (0, 1)
    )


def _six_bits(blocks: Blocks) -> tuple[Integers, ...]:
    return (blocks["scales"],)


def _scaled_nibbles(blocks: Blocks) -> tuple[Integers, ...]:
    """Of 6 bits, less 32: four in nibbles, low half first, and two in `high`."""
    scales, high = (np.ascontiguousarray(blocks[field]) for field in ("scales", "high"))
    return (_less_32(split(scales, 1, 4), split(high, 1, 2)),)


def _less_32(low: Bytes, high: Bytes) -> Integers:
    return (low | high << np.uint8(4)).astype(np.int8) - np.int8(32)


SCALES = {
    "q2_k": _two_bits,
    "q3_k": _three_bits,
    "q4_k": _scaled_nibbles_of_64,
    "q5_k": _scaled_nibbles_of_64,
    "q6_k": _six_bits,
    "iq4_xs": _scaled_nibbles,
}
"""Of types of 256: their integers s and t, [n, groups]."""
