"""A kernel of the package's own: Numba compiles it when a plan first needs it."""

from __future__ import annotations

from assay.kernels.share import first_row
from assay.simd.memory import get_f32, get_i64, put_f32


def alternate(args, tid, nthreads):
    """(X, Y, count): word 0 is the team's counter of work. Each thread has a share of the elements."""
    x, y, count = get_i64(args + 8), get_i64(args + 16), get_i64(args + 24)
    for i in range(first_row(count, tid, nthreads), first_row(count, tid + 1, nthreads)):
        put_f32(y + 4 * i, -get_f32(x + 4 * i) if i % 2 else get_f32(x + 4 * i))
