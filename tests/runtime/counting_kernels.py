"""A kernel that counts its calls, thread by thread, and one that reports a fault."""

from __future__ import annotations

from assay.kernels.share import fault
from assay.simd.atomics import fetch_add
from assay.simd.memory import get_i64


def count(args, tid, nthreads):
    """(counts, one word for each thread)"""
    fetch_add(get_i64(args + 8) + 8 * tid, 1)


def gather(args, tid, nthreads):
    """(counts, sum, threads): thread 0 adds what all have counted so far, so it must come after a barrier."""
    if tid == 0:
        for thread in range(nthreads):
            fetch_add(get_i64(args + 16), get_i64(get_i64(args + 8) + 8 * thread))


def fail(args, tid, nthreads):
    """()"""
    fault(args, tid)
