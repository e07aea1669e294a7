"""Frequencies of rotary position embedding, correctly rounded without the system's mathematics."""

from __future__ import annotations

from decimal import Context, Decimal

import numpy as np
from numpy.typing import NDArray

_DIGITS = Context(prec=40)


def frequencies(base: float, pairs: int) -> NDArray[np.float32]:
    """float32 [pairs]: base^(−i / pairs), to nearest. 40 decimal digits decide the rounding, so every machine
    agrees.
    """
    exact = (
        _DIGITS.power(Decimal(base), _DIGITS.divide(Decimal(-pair), Decimal(pairs))) for pair in range(pairs)
    )
    return np.array([np.float32(float(value)) for value in exact], np.float32)
