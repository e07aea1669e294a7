"""One kernel on the calling thread: for folding constants, packing weights and tests."""

from __future__ import annotations

import ctypes
import struct

import numpy as np

from assay.kernels.cache import addresses

Argument = int | float | np.ndarray[tuple[int, ...], np.dtype[np.generic]]

ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


def word(argument: Argument) -> int:
    """An argument as the int64 that a kernel finds: an address, an integer, or the bits of a float32."""
    if isinstance(argument, np.ndarray):
        return int(argument.ctypes.data)
    if isinstance(argument, float):
        return int(struct.unpack("<I", struct.pack("<f", argument))[0])
    return argument


def call(name: str, *arguments: Argument, tid: int = 0, nthreads: int = 1) -> None:
    """Run the kernel `name` as thread `tid` of `nthreads`; argument 0, the work counter, is put in front."""
    counter = np.zeros(8, np.int64)
    words = np.array([counter.ctypes.data, *map(word, arguments)], np.int64)
    ENTRY(addresses([name])[name])(words.ctypes.data, tid, nthreads)
