"""Normalisation over the last axis."""

from __future__ import annotations

import numpy as np

from assay.simd.memory import as_f32, get_i64, load, store
from assay.simd.vector import fma, splat, sqrt, tree_sum
from assay.simd.mathf import exp

ONE = np.float32(1.0)


def rms_norm(args, tid, nthreads):
    x = get_i64(args + 8)
    y = get_i64(args + 16)
    n = get_i64(args + 24)
    eps = as_f32(get_i64(args + 32))
    acc = splat(0.0)
    for i in range(0, n, 16):
        v = load(x + 4 * i)
        acc = fma(v, v, acc)
    total = tree_sum(acc)
    scale = splat(ONE / sqrt(total / np.float32(n) + eps))
    for i in range(0, n, 16):
        store(y + 4 * i, exp(load(x + 4 * i)) * scale)
