"""Numbers rounded to blocks of quantised weights (blocks.py), as ggml's reference quantisation does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from assay.formats.blocks import Blocks, Bytes, Floats
from assay.kernels.panels import FORMATS
from assay.tensor.dtype import Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, DType


def _symmetric(x: Floats, dtype: DType, blocks: Blocks) -> None:
    """The element of largest magnitude becomes the least integer, so d has the opposite sign to it."""
    least, most = -FORMATS[dtype.name].offset, (1 << FORMATS[dtype.name].bits) - 1
    d = np.take_along_axis(x, np.abs(x).argmax(axis=1, keepdims=True), axis=1) / np.float32(least)
    blocks["d"] = d[:, 0]
    _put(_whole(x * _inverse(d) + np.float32(0.5 - least), most), dtype, blocks)


def _ranged(x: Floats, dtype: DType, blocks: Blocks) -> None:
    most = (1 << FORMATS[dtype.name].bits) - 1
    m = x.min(axis=1, keepdims=True)
    d = (x.max(axis=1, keepdims=True) - m) / np.float32(most)
    blocks["d"] = d[:, 0]
    blocks["m"] = m[:, 0]
    _put(_whole((x - m) * _inverse(d) + np.float32(0.5), most), dtype, blocks)


def _q8_0(x: Floats, dtype: DType, blocks: Blocks) -> None:
    """Halves are rounded away from zero."""
    d = np.abs(x).max(axis=1, keepdims=True) / np.float32(127)
    scaled = x * _inverse(d)
    whole = np.floor(np.abs(scaled))
    whole += np.abs(scaled) - whole >= 0.5
    blocks["d"] = d[:, 0]
    blocks["q"] = np.copysign(whole, scaled).astype(np.int8)


def _inverse(d: Floats) -> Floats:
    return np.where(d == 0, np.float32(0), np.float32(1) / d)


def _whole(steps: Floats, most: int) -> Bytes:
    """Their whole parts, from 0 to the most."""
    q: Bytes = np.trunc(steps).astype(np.uint8).clip(0, most)
    return q


def _put(q: Bytes, dtype: DType, blocks: Blocks) -> None:
    """Lay integers q[n, block] where the type has them."""
    for part in dtype.integers:
        places = np.arange(0, 8, part.bits, dtype=np.uint8)[:, None]
        bits = q >> np.uint8(part.below) & np.uint8((1 << part.bits) - 1)
        packed = np.bitwise_or.reduce(bits.reshape(len(q), -1, len(places), part.run) << places, axis=2)
        field = blocks[part.field]
        field[...] = packed.reshape(len(q), -1).view(dtype.layout[part.field].base).reshape(field.shape)


QUANTISERS: dict[DType, Callable[[Floats, DType, Blocks], None]] = {
    Q4_0: _symmetric,
    Q4_1: _ranged,
    Q5_0: _symmetric,
    Q5_1: _ranged,
    Q8_0: _q8_0,
}
"""Each fills its last argument, blocks[n], from its first, finite numbers [n, block]. A scale beyond float16
becomes infinity. Types that aren't here are only read.
"""
