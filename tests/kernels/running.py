"""A kernel run by a team of threads, one after the other: none may need what another leaves."""

from __future__ import annotations

from functools import cache

import numpy as np

from assay.kernels.cache import addresses
from assay.kernels.call import Argument, call

KERNELS = (
    "reduce.float32", "reduce.float64", "reduce.integer", "softmax.float32", "norm.standardise",
    "norm.layer_norm", "index.gather", "index.scatter", "index.cumulate", "index.reverse", "order.arg",
    "order.top", "resize.float32", "resize.float64",
)  # fmt: skip


@cache
def build() -> None:
    """All kernels at once: each builder has to import Numba."""
    addresses(KERNELS)


def run(name: str, *arguments: Argument, threads: int = 1) -> None:
    build()
    for tid in reversed(range(threads)):
        call(name, *arguments, tid=tid, nthreads=threads)


def scratch(size: int, threads: int) -> tuple[np.ndarray, int]:
    """The scratch of so many threads and its stride, as kernels take them."""
    return np.full(size * threads, 0xA5, np.uint8), size
