"""Weights as files hold them to float32 and back: plain numbers, and blocks of them (blocks.py)."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from assay.errors import FormatError, PrecisionOverflow
from assay.formats.blocks import Bytes, Floats, dequantise_blocks
from assay.formats.rounding import QUANTISERS
from assay.tensor.dtype import BF16, F16, F32, QUANTISED, RARE, DType

_CHUNK = 4096
"""Blocks that are converted at a time: what lies between stays in the cache."""


def dequantise(raw: Bytes, dtype: DType, shape: tuple[int, ...]) -> Floats:
    """The float32 values of a tensor's bytes, in its shape (rank 1 or more). Infinite scales are no error.

    Raises ValueError if the bytes don't fill the shape, or the dtype isn't one that weights are stored in,
    FormatError for a rare type where the `gguf` package isn't installed.
    """
    if dtype not in (F32, F16, BF16, *QUANTISED, *RARE):
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
        if dtype in RARE:
            return _by_gguf(raw.reshape(-1, dtype.size), dtype).reshape(shape)
        blocks = raw.view(dtype.layout)
        values = np.empty((len(blocks), dtype.block), np.float32)
        for start in range(0, len(blocks), _CHUNK):
            dequantise_blocks(blocks[start : start + _CHUNK], dtype, values[start : start + _CHUNK])
    return values.reshape(shape)


def _by_gguf(blocks: Bytes, dtype: DType) -> Floats:
    try:
        import gguf

        kind = gguf.GGMLQuantizationType[dtype.name.upper()]
    except (ImportError, KeyError) as error:
        raise FormatError(
            f"weights of {dtype} need the gguf package",
            want="gguf 0.19 or later",
            got="none" if isinstance(error, ImportError) else "one that doesn't know the type",
            hint='pip install "assay[gguf]"',
        ) from error
    values: Floats = gguf.quants.dequantize(blocks, kind)
    return values


def quantise(x: Floats, dtype: DType) -> Bytes:
    """The bytes, uint8[nbytes], that store `x[..., columns]`, rounded as rounding.py says.

    Raises ValueError if the rows aren't whole blocks, or for a dtype that numbers can't be rounded to, such
    as a rare one, PrecisionOverflow if a block holds a value that isn't finite. A scale beyond float16
    becomes infinity.
    """
    if dtype not in (F32, F16, BF16, *QUANTISERS):
        raise ValueError(f"numbers can't be rounded to {dtype}")
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
        blocks = np.empty(len(values), dtype.layout)
        for start in range(0, len(values), _CHUNK):
            QUANTISERS[dtype](values[start : start + _CHUNK], dtype, blocks[start : start + _CHUNK])
    return blocks.view(np.uint8)


def _bfloat16(x: Floats) -> npt.NDArray[np.uint16]:
    """The upper halves, to nearest even; NaNs stay NaN and become quiet."""
    bits = x.view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + ((bits >> 16) & 1))) >> 16
    return np.where(np.isnan(x), (bits >> 16) | 0x40, rounded).astype(np.uint16)
