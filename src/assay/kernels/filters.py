"""The filters of Resize: of each output along one axis, which inputs count and how much. Needs no compiler.

Coordinates and weights are float64, made by + − × ÷ alone, and follow the text of the standard. Weights of an
output are normalised by their sum, added in ascending order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import floor
from operator import add

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Resize:
    """The attributes of a Resize, by the standard's names, with its defaults."""

    mode: str = "nearest"
    coordinate_transformation_mode: str = "half_pixel"
    nearest_mode: str = "round_prefer_floor"
    cubic_coeff_a: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False

    def table(
        self, extent: int, count: int, scale: float, width: float, roi: tuple[float, float] = (0.0, 1.0)
    ) -> tuple[Integers, Floats]:
        """Indices and weights [count, taps] of an axis of `extent` inputs. The indices of an output that lies
        outside are −1: the extrapolation value stands there.

        `width` is the length before it was rounded down: scale · extent, or `count` if sizes are given.
        """
        x = self._coordinates(np.arange(count, dtype=np.float64), extent, scale, width, roi)
        base, taps, weights = self._nearest(x) if self.mode == "nearest" else self._weighted(x, scale)
        indices = base[:, None] + taps
        if self.exclude_outside and self.mode != "nearest":
            inside = (indices >= 0) & (indices < extent)
            weights = _normalised(np.where(inside, weights, 0.0))
        indices = np.clip(indices, 0, extent - 1)
        if self.coordinate_transformation_mode == "tf_crop_and_resize":
            indices[(x < 0) | (x > extent - 1)] = -1
        return indices, weights

    def _coordinates(
        self, y: Floats, extent: int, scale: float, width: float, roi: tuple[float, float]
    ) -> Floats:
        """Where each output lies among the inputs."""
        mode, last, (start, end) = self.coordinate_transformation_mode, extent - 1, roi
        if not len(y):
            return y
        if mode == "asymmetric":
            return y / scale
        if mode == "align_corners":
            return y * 0.0 if width == 1 else y * last / (width - 1)
        if mode == "tf_crop_and_resize":
            if len(y) == 1:
                return y + 0.5 * (start + end) * last
            return start * last + y * (end - start) * last / (width - 1)
        if mode == "pytorch_half_pixel" and len(y) == 1:
            return y * 0.0
        x = (y + 0.5) / scale - 0.5
        if mode == "half_pixel_symmetric":
            return extent / 2 * (1 - len(y) / width) + x
        return x

    def _nearest(self, x: Floats) -> tuple[Integers, Integers, Floats]:
        base = np.floor(x)
        beyond = x - base
        up = {
            "round_prefer_floor": beyond > 0.5, "round_prefer_ceil": beyond >= 0.5,
            "floor": np.zeros(len(x), bool), "ceil": beyond > 0,
        }[self.nearest_mode]  # fmt: skip
        return (base + up).astype(np.int64), np.zeros(1, np.int64), np.ones((len(x), 1))

    def _weighted(self, x: Floats, scale: float) -> tuple[Integers, Integers, Floats]:
        """The first whole number below each place, the taps from there, and their weights."""
        shrink = min(scale, 1.0) if self.antialias else 1.0
        first = floor(-(1 if self.mode == "linear" else 2) / shrink) + 1
        taps = np.arange(first, 2 - first)
        base = np.floor(x)
        distance = np.abs((taps - (x - base)[:, None]) * shrink)
        weights = np.maximum(1 - distance, 0.0) if self.mode == "linear" else self._cubic(distance)
        return base.astype(np.int64), taps, _normalised(weights) if self.antialias else weights

    def _cubic(self, d: Floats) -> Floats:
        a = self.cubic_coeff_a
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def _normalised(weights: Floats) -> Floats:
    """Weights whose sum is 1; zeros stay."""
    total: Floats = reduce(add, weights.T)[:, None]
    return weights / np.where(total == 0, 1.0, total)
