"""What tests of sums need: a float32 fma that rounds once, and a kernel on a team of threads."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np

from assay.kernels.cache import addresses
from assay.kernels.call import Argument, word
from assay.runtime.tape import Tape
from assay.runtime.team import Team

Array = np.ndarray
team = cache(Team)


def fused(a: Array, b: Array, c: Array) -> Array:
    """a · b + c of finite float32 arrays, rounded once. The product is exact in float64; the sum there is
    rounded to odd, which leaves what the second rounding needs to know.
    """
    product, c = np.multiply(a, b, dtype=np.float64), np.asarray(c, np.float64)
    total = product + c
    back = total - product
    lost = (product - (total - back)) + (c - back)
    even = total.view(np.int64) % 2 == 0
    odd = np.where((lost != 0) & even, np.nextafter(total, np.copysign(np.inf, lost)), total)
    return odd.astype(np.float32)


def chain(terms: Iterable[tuple[Array, Array]], start: Array) -> Array:
    """start + Σ a · b of float32, an fma for each term in order."""
    total = start.astype(np.float32)
    for a, b in terms:
        total = fused(a, b, total)
    return total


def perform(threads: int, *calls: tuple[str, *tuple[Argument, ...]]) -> None:
    """Run kernels one after the other on a team."""
    found = addresses([name for name, *_ in calls])
    tape = Tape([(found[name], [word(each) for each in words], True) for name, *words in calls])
    team(threads).run(*tape.place)


def scratch(size: int, threads: int) -> tuple[Array, int]:
    """Scratch of so many bytes for each thread, filled with what would be seen, and its stride."""
    return np.full(size * threads, 0xA5, np.uint8), size


def whole(generator: np.random.Generator, dtype: str, shape: Iterable[int]) -> Array:
    """Numbers of any dtype; of integers so large that products wrap."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return generator.standard_normal(tuple(shape)).astype(kind)
    bounds = np.iinfo(kind)
    return generator.integers(bounds.min, bounds.max, tuple(shape), kind, endpoint=True)
