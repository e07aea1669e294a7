"""Linear maps: x · wᵀ in float32, and on activations of 8 bits."""

from __future__ import annotations

import numpy as np

from assay.kernels.panels import DEQUANTISED, EDGE
from assay.ops import operator as op
from assay.ops.registry import define
from assay.tensor.dtype import F32, I8, I32, QUANTISED, WEIGHT_TYPES


def _linear(x: op.Array, w: op.Array) -> op.Array:
    return np.asarray(x.astype(np.float64) @ w.astype(np.float64).T)


define(
    name="linear",
    summary="A linear map of each row, in float32.",
    formula="y[t, n] = Σ_k x[t, k] · w[n, k]",
    inputs=(
        op.Port("x", (F32,), "T K", "rows"),
        op.Port("w", WEIGHT_TYPES, "N K", "weights, one row for each output", panels=True),
    ),
    outputs=(op.Port("y", (F32,), "T N", "mapped rows"),),
    reference=_linear,
    exactness=op.Exactness(
        "ulp",
        "K / 128 + 257",
        "at most 256 roundings in a block of 256, each of 2⁻²⁴ of its terms, and one for each block; the "
        "rest is for what roundings do to each other",
        op.of_magnitudes(_linear, 0, 1),
    ),
    kernels=op.Kernel(
        "gemm.{}",
        "x w y T K N scratch",
        scratch=lambda site: EDGE + (DEQUANTISED if site.dtype("w").quantised else 0),
    ).each("w", WEIGHT_TYPES),
    numerics=(
        "K is summed by fma in ascending order inside blocks of 256, from zero; the blocks are "
        "added in order.",
        "Quantised weights are dequantised to float32 first: scale · integer, then + minimum, each rounded.",
    ),
)


def _quantized(q: op.Array, scale: op.Array, sum: op.Array, w: op.Array) -> op.Array:
    return _linear(q.astype(np.float64) * np.repeat(scale.astype(np.float64), 32, axis=1), w)


define(
    name="linear_quantized",
    summary="A linear map of rows that `quantize` made, on quantised weights.",
    formula=(
        "y[t, n] = Σ_b scale[t, b] · (scale_w[n, b] · Σ_i q[t, b, i] · integer_w[n, b, i] + "
        "min_w[n, b] · sum[t, b]); types with groups of 16 have two such terms for each b"
    ),
    inputs=(
        op.Port("q", (I8,), "T 32*B", "integers in ±127"),
        op.Port("scale", (F32,), "T B", "scale of each block of 32"),
        op.Port("sum", (I32,), "T B", "sum of each block's integers"),
        op.Port("w", QUANTISED, "N 32*B", "weights, one row for each output", panels=True),
    ),
    outputs=(op.Port("y", (F32,), "T N", "mapped rows"),),
    reference=_quantized,
    exactness=op.Exactness(
        "ulp",
        "5 * B + 4",
        "at most 2 roundings for each group of scales, of which a block of 32 has 2 at most, and 4 of "
        "factors, each of 2⁻²⁴ of the terms; the rest is for what roundings do to each other",
        op.of_magnitudes(_quantized, 0, 1, 3),
    ),
    kernels=op.Kernel("qgemm.{}", "q scale sum w y T 32*B N scratch", scratch=EDGE).each("w", QUANTISED),
    numerics=(
        "For each block of 32 in order, or group of 16 where the type has them: "
        "acc = fma(float32(integer dot), scale · scale_w, acc); with a minimum then "
        "acc = fma(scale · sum, min_w, acc), the sum being that of the group. The integer dot is exact, "
        "the products of scales are float32.",
    ),
    not_differentiable={
        "q": "integers",
        "scale": "belongs to integers",
        "sum": "integers",
        "w": "integers, with scales that belong to them",
    },
)
