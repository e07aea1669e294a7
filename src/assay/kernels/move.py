"""Moving rows without arithmetic."""

from __future__ import annotations

import numpy as np

from assay.kernels.share import first_row
from assay.simd.memory import get_i32, load, load_part, store, store_part, words
from assay.simd.vector import splat

NAN = np.float32(np.nan)


def gather_rows(args, tid, nthreads):
    """(x, rows, y, T, R, N): y[r] = x[rows[r]], NaN where that is no row of x."""
    x, rows, y, t, r, n = words(args, 6)
    for i in range(first_row(r, tid, nthreads), first_row(r, tid + 1, nthreads)):
        row = get_i32(rows + 4 * i)
        inside = 0 <= row < t
        source, target = x + 4 * n * row, y + 4 * n * i
        for j in range(0, n, 16):
            count = min(16, n - j)
            if not inside:
                store_part(target + 4 * j, splat(NAN), count)
            elif count == 16:
                store(target + 4 * j, load(source + 4 * j))
            else:
                store_part(target + 4 * j, load_part(source + 4 * j, count), count)
