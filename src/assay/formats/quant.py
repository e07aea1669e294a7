"""Blocks of quantised weights to float32 and back, in plain NumPy: the reference for kernels.

A block is 32 elements of one row, stored as a float16 scale d, a float16 minimum m where there is one, and
the integers q. In the four-bit types byte i holds elements i and i + 16, low half first.

    q4_0: x = (q - 8) d        q4_1: x = q d + m        q8_0: x = q d

Each sum and product is rounded to float32. Source of the layouts and formulas: ggml's reference quantisation.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from assay.errors import PrecisionOverflow
from assay.tensor.dtype import BF16, F16, F32, Q4_0, Q4_1, Q8_0, DType

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

_BLOCKS = {
    Q4_0: np.dtype([("d", "<f2"), ("q", "u1", 16)]),
    Q4_1: np.dtype([("d", "<f2"), ("m", "<f2"), ("q", "u1", 16)]),
    Q8_0: np.dtype([("d", "<f2"), ("q", "i1", 32)]),
}
_CHUNK = 4096


def dequantise(raw: Bytes, dtype: DType, shape: tuple[int, ...]) -> Floats:
    """The float32 values of a tensor's bytes, in its shape (rank 1 or more). Infinite scales are no error.

    Raises ValueError if the bytes don't fill the shape, or the dtype isn't one that weights are stored in.
    """
    if dtype not in (F32, F16, BF16, *_BLOCKS):
        raise ValueError(f"{dtype} is not a dtype of weights")
    if shape[-1] % dtype.block or raw.size != dtype.nbytes(math.prod(shape)):
        raise ValueError(f"{raw.size} bytes are not {dtype} of shape {shape}")
    raw = np.ascontiguousarray(raw).reshape(-1)
    if dtype == F32:
        return raw.view("<f4").reshape(shape).copy()
    if dtype == BF16:
        return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32).reshape(shape)
    with np.errstate(all="ignore"):
        if dtype == F16:
            return raw.view("<f2").astype(np.float32).reshape(shape)
        blocks = raw.view(_BLOCKS[dtype])
        values = np.empty((len(blocks), dtype.block), np.float32)
        for start in range(0, len(blocks), _CHUNK):
            _dequantise_blocks(blocks[start : start + _CHUNK], dtype, values[start : start + _CHUNK])
    return values.reshape(shape)


def _dequantise_blocks(blocks: npt.NDArray[np.void], dtype: DType, out: Floats) -> None:
    """`out[n, 32]` from n blocks."""
    q = blocks["q"]
    if dtype == Q8_0:
        out[:] = q
    else:
        out[:, :16] = q & 15
        out[:, 16:] = q >> 4
    if dtype == Q4_0:
        out -= 8
    out *= blocks["d"].astype(np.float32)[:, None]
    if dtype == Q4_1:
        out += blocks["m"].astype(np.float32)[:, None]


def quantise(x: Floats, dtype: DType) -> Bytes:
    """The bytes, uint8[nbytes], that store `x[..., columns]`, rounded as ggml's reference quantisation does.

    Raises ValueError if the rows aren't whole blocks or the dtype isn't one that weights are stored in,
    PrecisionOverflow if a block holds a value that isn't finite. A scale beyond float16 becomes infinity.
    """
    if dtype not in (F32, F16, BF16, *_BLOCKS):
        raise ValueError(f"{dtype} is not a dtype of weights")
    if x.dtype != np.float32 or x.shape[-1] % dtype.block:
        raise ValueError(f"{x.dtype} rows of {x.shape[-1]} are not whole float32 blocks of {dtype}")
    x = np.ascontiguousarray(x)
    if dtype == F32:
        return x.reshape(-1).view(np.uint8)
    if dtype == BF16:
        return _bfloat16(x.reshape(-1)).view(np.uint8)
    with np.errstate(all="ignore"):
        if dtype == F16:
            return x.reshape(-1).astype("<f2").view(np.uint8)
        values = x.reshape(-1, dtype.block)
        bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if bad.size:
            raise PrecisionOverflow(
                f"{dtype} can't hold this block", place=f"block {bad[0]}", want="finite values"
            )
        blocks = np.empty(len(values), _BLOCKS[dtype])
        for start in range(0, len(values), _CHUNK):
            _QUANTISE[dtype](values[start : start + _CHUNK], blocks[start : start + _CHUNK])
    return blocks.view(np.uint8)


def _bfloat16(x: Floats) -> npt.NDArray[np.uint16]:
    """The upper halves, to nearest even; NaNs stay NaN and become quiet."""
    bits = x.view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + ((bits >> 16) & 1))) >> 16
    return np.where(np.isnan(x), (bits >> 16) | 0x40, rounded).astype(np.uint16)


def _inverse(d: Floats) -> Floats:
    return np.where(d == 0, np.float32(0), np.float32(1) / d)


def _packed(steps: Floats) -> Bytes:
    """Four-bit integers, `[n, 16]`, of the whole part of `steps[n, 32]`."""
    q: Bytes = np.trunc(steps).astype(np.uint8).clip(0, 15)
    return q[:, :16] | (q[:, 16:] << np.uint8(4))


def _quantise_q4_0(x: Floats, blocks: npt.NDArray[np.void]) -> None:
    """The element of largest magnitude becomes -8, so d has the opposite sign to it."""
    peak = np.take_along_axis(x, np.abs(x).argmax(axis=1, keepdims=True), axis=1)
    d = peak / np.float32(-8)
    blocks["d"] = d[:, 0]
    blocks["q"] = _packed(x * _inverse(d) + np.float32(8.5))


def _quantise_q4_1(x: Floats, blocks: npt.NDArray[np.void]) -> None:
    m = x.min(axis=1, keepdims=True)
    d = (x.max(axis=1, keepdims=True) - m) / np.float32(15)
    blocks["d"] = d[:, 0]
    blocks["m"] = m[:, 0]
    blocks["q"] = _packed((x - m) * _inverse(d) + np.float32(0.5))


def _quantise_q8_0(x: Floats, blocks: npt.NDArray[np.void]) -> None:
    """Halves are rounded away from zero."""
    d = np.abs(x).max(axis=1, keepdims=True) / np.float32(127)
    scaled = x * _inverse(d)
    whole = np.floor(np.abs(scaled))
    whole += np.abs(scaled) - whole >= 0.5
    blocks["d"] = d[:, 0]
    blocks["q"] = np.copysign(whole, scaled).astype(np.int8)


_QUANTISE: dict[DType, Callable[[Floats, npt.NDArray[np.void]], None]] = {
    Q4_0: _quantise_q4_0,
    Q4_1: _quantise_q4_1,
    Q8_0: _quantise_q8_0,
}
