"""Rows taken out of a matrix by number, such as those whose logits are asked for; means of runs of rows."""

from __future__ import annotations

import numpy as np

from assay.ops import operator as op
from assay.ops.registry import define
from assay.tensor.dtype import F32, I32


def _gather(x: op.Array, rows: op.Integers) -> op.Array:
    inside = np.isin(rows, range(len(x)))
    y = np.full((len(rows), x.shape[1]), np.nan, np.float32)
    y[inside] = x[rows[inside]]
    return y


define(
    name="gather_rows",
    summary="Takes rows of a matrix by number.",
    formula="y[r, n] = x[rows[r], n]",
    inputs=(
        op.Port("x", (F32,), "T N", "the matrix"),
        op.Port("rows", (I32,), "R", "row numbers; one outside 0 … T − 1 gives a row of NaN"),
    ),
    outputs=(op.Port("y", (F32,), "R N", "the rows, in the order asked for"),),
    reference=_gather,
    exactness=op.BITWISE,
    kernels=(op.Kernel("move.gather_rows", "x rows y T R N", rows="R"),),
    not_differentiable={"rows": "row numbers are integers"},
)


def _mean(x: op.Array, first: op.Integers, last: op.Integers) -> op.Array:
    y = np.full((len(first), x.shape[1]), np.nan)
    for run, (begin, end) in enumerate(zip(first, last, strict=True)):
        if 0 <= begin < end <= len(x):
            y[run] = x[begin:end].mean(axis=0, dtype=np.float64)
    return y


define(
    name="segment_mean",
    summary="The mean of each run of rows.",
    formula="y[s, n] = Σ_t x[t, n] / (last[s] − first[s]), first[s] ≤ t < last[s]",
    inputs=(
        op.Port("x", (F32,), "T N", "rows, such as the vectors of tokens"),
        op.Port("first", (I32,), "S", "the first row of each run"),
        op.Port("last", (I32,), "S", "the row after its last; runs of none, or outside of x, give NaN"),
    ),
    outputs=(op.Port("y", (F32,), "S N", "means, in the order of the runs"),),
    reference=_mean,
    exactness=op.Exactness(
        "ulp",
        "T / 16 + 6",
        "of the mean of |x|: T / 16 roundings in a lane, 4 in the tree, one of the quotient",
        op.of_magnitudes(_mean, 0),
    ),
    kernels=(op.Kernel("move.segment_mean", "x first last y T S N scratch", None, 16 * 64, "S"),),
    numerics=("Rows are summed in 16 lanes (lane = place in the run mod 16), which one tree folds.",),
    not_differentiable={"first": "row numbers are integers", "last": "row numbers are integers"},
)
