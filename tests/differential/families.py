"""Families: what a case of an operator draws. See the drawn_* modules.

A family takes a Draw, whose version says in which form attributes and inputs are, and gives a Call. Bounds
are for two engines: more than our operator's own exactness says, by what the other's kernels are off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from differential.draw import Array, Call, Draw, Known

Family = Callable[[Draw], Call]
FAMILIES: dict[str, Family] = {}


def family(ops: str) -> Callable[[Family], Family]:
    """Registers a family for some operators."""

    def register(draw: Family) -> Family:
        for op in ops.split():
            assert op not in FAMILIES, op
            FAMILIES[op] = draw
        return draw

    return register


def vector(values: Sequence[int], dtype: type = np.int64) -> Known:
    return Known(np.array(values, dtype))


def plain(d: Draw, shape: Sequence[int], dtype: np.dtype[np.generic]) -> Array:
    """Floats with neither NaN nor infinities, unless the case is one of special values: then a few."""
    if dtype.kind == "b" or (d.special and d.chance(0.3)):
        return d.data(shape, dtype)
    return d.data(shape, dtype, low=0 if dtype.kind == "u" else -3, high=3)
