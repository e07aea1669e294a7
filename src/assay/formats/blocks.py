"""What blocks of quantised weights mean, in plain NumPy: the reference for kernels.

A block holds a float16 scale d, a float16 minimum m where there is one, and the integers q. In the four-bit
types byte i holds elements i and i + 16, low half first.

    q4_0: x = (q - 8) d        q4_1: x = q d + m        q8_0: x = q d

Each sum and product is rounded to float32. Source of the layouts and formulas: ggml's reference quantisation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from assay.tensor.dtype import Q4_0, Q4_1, Q8_0, DType

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]
Blocks = npt.NDArray[np.void]
"""Records of a type's `layout`."""


@dataclass(frozen=True)
class Codec:
    """The way from blocks[n] to numbers[n, block], and back."""

    dequantise: Callable[[Blocks, Floats], None]
    """Fills its second argument. Infinite scales are no error."""
    quantise: Callable[[Floats, Blocks], None]
    """Fills its second argument from finite numbers, rounded as ggml does. A scale beyond float16 becomes
    infinity.
    """


def _dequantise_q4_0(blocks: Blocks, out: Floats) -> None:
    _nibbles(blocks["q"], out)
    out -= 8
    out *= _scale(blocks["d"])


def _dequantise_q4_1(blocks: Blocks, out: Floats) -> None:
    _nibbles(blocks["q"], out)
    out *= _scale(blocks["d"])
    out += _scale(blocks["m"])


def _dequantise_q8_0(blocks: Blocks, out: Floats) -> None:
    out[:] = blocks["q"]
    out *= _scale(blocks["d"])


def _scale(half: npt.NDArray[np.float16]) -> Floats:
    return half.astype(np.float32)[:, None]


def _nibbles(q: Bytes, out: Floats) -> None:
    out[:, :16] = q & 15
    out[:, 16:] = q >> 4


def _quantise_q4_0(x: Floats, blocks: Blocks) -> None:
    """The element of largest magnitude becomes -8, so d has the opposite sign to it."""
    peak = np.take_along_axis(x, np.abs(x).argmax(axis=1, keepdims=True), axis=1)
    d = peak / np.float32(-8)
    blocks["d"] = d[:, 0]
    blocks["q"] = _packed(x * _inverse(d) + np.float32(8.5))


def _quantise_q4_1(x: Floats, blocks: Blocks) -> None:
    m = x.min(axis=1, keepdims=True)
    d = (x.max(axis=1, keepdims=True) - m) / np.float32(15)
    blocks["d"] = d[:, 0]
    blocks["m"] = m[:, 0]
    blocks["q"] = _packed((x - m) * _inverse(d) + np.float32(0.5))


def _quantise_q8_0(x: Floats, blocks: Blocks) -> None:
    """Halves are rounded away from zero."""
    d = np.abs(x).max(axis=1, keepdims=True) / np.float32(127)
    scaled = x * _inverse(d)
    whole = np.floor(np.abs(scaled))
    whole += np.abs(scaled) - whole >= 0.5
    blocks["d"] = d[:, 0]
    blocks["q"] = np.copysign(whole, scaled).astype(np.int8)


def _inverse(d: Floats) -> Floats:
    return np.where(d == 0, np.float32(0), np.float32(1) / d)


def _packed(steps: Floats) -> Bytes:
    """Four-bit integers, `[n, 16]`, of the whole part of `steps[n, 32]`."""
    q: Bytes = np.trunc(steps).astype(np.uint8).clip(0, 15)
    return q[:, :16] | (q[:, 16:] << np.uint8(4))


CODECS: dict[DType, Codec] = {
    Q4_0: Codec(_dequantise_q4_0, _quantise_q4_0),
    Q4_1: Codec(_dequantise_q4_1, _quantise_q4_1),
    Q8_0: Codec(_dequantise_q8_0, _quantise_q8_0),
}
