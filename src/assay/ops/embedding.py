"""Embedding: rows of a table, by number."""

from __future__ import annotations

from assay.ops import operator as op
from assay.ops.registry import register
from assay.ops.weights import WEIGHT_TYPES
from assay.tensor.dtype import F32, I32


def _reference(inputs: op.Arrays, attributes: op.Attributes) -> op.Arrays:
    tokens, table = inputs
    return (table[tokens],)


register(
    op.Operator(
        name="embedding",
        summary="Looks up one row of a table for each token.",
        formula="y[t, k] = table[tokens[t], k]",
        inputs=(
            op.Port("tokens", (I32,), "T", "row numbers, 0 ≤ tokens < V"),
            op.Port("table", WEIGHT_TYPES, "V K", "the table", panels=True),
        ),
        outputs=(op.Port("y", (F32,), "T K", "the rows, as float32"),),
        reference=_reference,
        exactness=op.BITWISE,
        kernels=tuple(
            op.Kernel(f"embedding.{dtype}", "tokens table y T K", ("table", dtype), rows="T")
            for dtype in WEIGHT_TYPES
        ),
        numerics=("A quantised element is scale · integer, and then + minimum, each rounded to float32.",),
        not_differentiable={"tokens": "row numbers are integers"},
    )
)
