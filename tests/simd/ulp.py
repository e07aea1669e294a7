"""How far computed values are from exact ones."""

from __future__ import annotations

from collections.abc import Callable

import mpmath
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def ulps(x: Floats, y: Floats, exact: Callable[[mpmath.mpf], mpmath.mpf], digits: int, least: int) -> float:
    """The greatest distance of y from exact(x), in ulp of a format of `digits` bits and least exponent."""
    worst = mpmath.mpf(0)
    with mpmath.workprec(200):
        for a, b in zip(x.tolist(), y.tolist(), strict=True):
            value = exact(mpmath.mpf(a))
            exponent = max(mpmath.frexp(value)[1] - 1, least) if value else least
            distance = abs(mpmath.mpf(b) - value) / mpmath.ldexp(1, exponent - digits + 1)
            worst = max(worst, distance) if distance == distance else mpmath.inf
    return float(worst)
