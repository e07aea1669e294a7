"""Numbers rounded to blocks of quantised weights (blocks.py), as ggml's reference quantisation does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from assay.formats.blocks import Blocks, Bytes, Floats
from assay.tensor.dtype import Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, DType


def _q4_0(x: Floats, blocks: Blocks) -> None:
    """The element of largest magnitude becomes -8, so d has the opposite sign to it."""
    peak = np.take_along_axis(x, np.abs(x).argmax(axis=1, keepdims=True), axis=1)
    d = peak / np.float32(-8)
    blocks["d"] = d[:, 0]
    blocks["q"] = _packed(_whole(x * _inverse(d) + np.float32(8.5), 15))


def _q4_1(x: Floats, blocks: Blocks) -> None:
    m = x.min(axis=1, keepdims=True)
    d = (x.max(axis=1, keepdims=True) - m) / np.float32(15)
    blocks["d"] = d[:, 0]
    blocks["m"] = m[:, 0]
    blocks["q"] = _packed(_whole((x - m) * _inverse(d) + np.float32(0.5), 15))


def _q5_0(x: Floats, blocks: Blocks) -> None:
    """As q4_0, with -16."""
    peak = np.take_along_axis(x, np.abs(x).argmax(axis=1, keepdims=True), axis=1)
    d = peak / np.float32(-16)
    blocks["d"] = d[:, 0]
    _put_fifths(_whole(x * _inverse(d) + np.float32(16.5), 31), blocks)


def _q5_1(x: Floats, blocks: Blocks) -> None:
    m = x.min(axis=1, keepdims=True)
    d = (x.max(axis=1, keepdims=True) - m) / np.float32(31)
    blocks["d"] = d[:, 0]
    blocks["m"] = m[:, 0]
    _put_fifths(_whole((x - m) * _inverse(d) + np.float32(0.5), 31), blocks)


def _q8_0(x: Floats, blocks: Blocks) -> None:
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


def _packed(q: Bytes) -> Bytes:
    """Integers `q[n, 32]` of four bits as bytes `[n, 16]`."""
    return q[:, :16] | (q[:, 16:] << np.uint8(4))


def _put_fifths(q: Bytes, blocks: Blocks) -> None:
    blocks["q"] = _packed(q & np.uint8(15))
    blocks["high"] = np.packbits(q >> 4, axis=1, bitorder="little").view("<u4")[:, 0]


QUANTISERS: dict[DType, Callable[[Floats, Blocks], None]] = {
    Q4_0: _q4_0,
    Q4_1: _q4_1,
    Q5_0: _q5_0,
    Q5_1: _q5_1,
    Q8_0: _q8_0,
}
"""Each fills its second argument, blocks[n], from its first, finite numbers [n, block]. A scale beyond
float16 becomes infinity. Types that aren't here are only read.
"""
