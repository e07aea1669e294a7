"""Activations to 8 bits, by blocks of 32."""

from __future__ import annotations

import numpy as np

from assay.ops import operator as op
from assay.ops.registry import define
from assay.tensor.dtype import F32, I8, I32

LEAST = np.float32(2.0**-100)


def _reference(x: op.Array) -> tuple[op.Array, ...]:
    blocks = x.astype(np.float32).reshape(len(x), -1, 32)
    greatest = np.abs(blocks).max(axis=2)
    live = greatest >= LEAST
    safe = np.where(live, greatest, np.float32(1))
    scale = np.where(live, safe / np.float32(127), np.float32(0)).astype(np.float32)
    inverse = np.where(live, np.float32(127) / safe, np.float32(0)).astype(np.float32)
    q = np.rint(blocks * inverse[:, :, None]).astype(np.int8)
    return q.reshape(x.shape), scale, q.sum(axis=2, dtype=np.int32)


define(
    name="quantize",
    summary="Rounds each row to 8 bits with a scale for each block of 32.",
    formula=(
        "scale[t, b] = max_i |x[t, b, i]| / 127;  q = round(x · (127 / max));  sum[t, b] = Σ_i q[t, b, i]"
    ),
    inputs=(op.Port("x", (F32,), "T 32*B", "rows"),),
    outputs=(
        op.Port("q", (I8,), "T 32*B", "integers in ±127"),
        op.Port("scale", (F32,), "T B", "scale of each block"),
        op.Port("sum", (I32,), "T B", "sum of each block's integers"),
    ),
    reference=_reference,
    exactness=op.BITWISE,
    kernels=(op.Kernel("quantize.rows", "x q scale sum T 32*B", rows="T"),),
    numerics=(
        "To nearest, ties to even. A block whose greatest magnitude is below 2⁻¹⁰⁰ becomes zeros.",
        "NaN or infinity in x is PrecisionOverflow.",
    ),
    not_differentiable={"x": "rounding has no useful gradient"},
)
