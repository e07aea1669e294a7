"""A kernel run by a team of threads, one after the other: none may need what another leaves."""

from __future__ import annotations

import numpy as np

from assay.kernels.call import Argument, call


def run(name: str, *arguments: Argument, threads: int = 1) -> None:
    for tid in reversed(range(threads)):
        call(name, *arguments, tid=tid, nthreads=threads)


def scratch(size: int, threads: int) -> tuple[np.ndarray, int]:
    """The scratch of so many threads and its stride, as kernels take them."""
    return np.full(size * threads, 0xA5, np.uint8), size
