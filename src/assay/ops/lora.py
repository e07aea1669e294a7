"""Adapters of low rank (LoRA): what is added to a linear map's rows, to each row its own."""

from __future__ import annotations

import numpy as np

from assay.ops import operator as op
from assay.ops.registry import define
from assay.tensor.dtype import F32, I32


def _lora(base: op.Array, x: op.Array, adapter: op.Integers, a: op.Array, b: op.Array) -> op.Array:
    y, wide = base.astype(np.float64), x.astype(np.float64)
    for row in np.flatnonzero(adapter.astype(np.int64) >= 0):
        y[row] += wide[row] @ a[adapter[row]].astype(np.float64) @ b[adapter[row]].astype(np.float64)
    return y


define(
    name="lora",
    summary="Adds to each row of a linear map what its adapter of low rank makes of the map's input.",
    formula=(
        "y[t, n] = base[t, n] + Σ_r (Σ_k x[t, k] · a[g, k, r]) · b[g, r, n] with g = adapter[t]; "
        "y[t] = base[t] where g is −1"
    ),
    inputs=(
        op.Port("base", (F32,), "T N", "what the map gives"),
        op.Port("x", (F32,), "T K", "the map's input"),
        op.Port("adapter", (I32,), "T", "which adapter a row has, −1 for none; below G"),
        op.Port("a", (F32,), "G K R", "each adapter's A, transposed"),
        op.Port("b", (F32,), "G R N", "each adapter's B, transposed, with its scale"),
    ),
    outputs=(op.Port("y", (F32,), "T N", "adapted rows"),),
    reference=_lora,
    exactness=op.Exactness(
        "ulp",
        "(K + R) / 128 + 515",
        "in each of two products at most 256 roundings in a block of 256, each of 2⁻²⁴ of its terms, and "
        "one for each block; one for the sum; the rest is for what roundings do to each other",
        op.of_magnitudes(_lora, 0, 1, 3, 4),
    ),
    kernels=(
        op.Kernel(
            "lora.lora",
            "base x adapter a b y T K N R scratch",
            scratch=lambda site: 4 * site.integer("R"),
            rows="T",
        ),
    ),
    numerics=(
        "Both sums are by fma in ascending order inside blocks of 256, from zero; the blocks are added "
        "in order.",
        "The sum over r is added to base; rows without an adapter are base's bits.",
    ),
    not_differentiable={"adapter": "numbers of adapters"},
)
