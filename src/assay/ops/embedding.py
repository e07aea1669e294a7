"""Embedding: rows of a table, by number."""

from __future__ import annotations

from assay.ops import operator as op
from assay.ops.registry import define
from assay.tensor.dtype import F32, I32, WEIGHT_TYPES

define(
    name="embedding",
    summary="Looks up one row of a table for each token.",
    formula="y[t, k] = table[tokens[t], k]",
    inputs=(
        op.Port("tokens", (I32,), "T", "row numbers, 0 ≤ tokens < V"),
        op.Port("table", WEIGHT_TYPES, "V K", "the table", panels=True),
    ),
    outputs=(op.Port("y", (F32,), "T K", "the rows, as float32"),),
    reference=lambda tokens, table: table[tokens],
    exactness=op.BITWISE,
    kernels=op.Kernel("embedding.{}", "tokens table y T K", rows="T").each("table", WEIGHT_TYPES),
    numerics=("A quantised element is scale · integer, and then + minimum, each rounded to float32.",),
    not_differentiable={"tokens": "row numbers are integers"},
)
