"""Embedding: rows of a table, by number."""

from __future__ import annotations

import numpy as np

from assay.graph.graph import ValueType
from assay.ops import operator as op
from assay.ops.registry import register
from assay.ops.weights import WEIGHT_TYPES, random_weight
from assay.tensor.dtype import F32, I32


def _reference(inputs: op.Arrays, attributes: op.Attributes) -> op.Arrays:
    tokens, table = inputs
    return (table[tokens],)


def _cases(rng: np.random.Generator) -> list[op.Case]:
    cases = []
    for dtype in WEIGHT_TYPES:
        for tokens, rows, blocks in ((1, 32, 1), (7, 70, 3)):
            k = 32 * blocks if dtype.block == 1 else dtype.block * blocks
            table = random_weight(rng, dtype, rows, k)
            numbers = rng.integers(0, rows, tokens, dtype=np.int32)
            types = (*op.plain(numbers), ValueType.of(dtype, rows, k))
            cases.append(op.Case((numbers, table), types, name=f"{dtype} {tokens} of {rows}×{k}"))
    return cases


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
        cases=_cases,
        numerics=("A quantised element is scale · integer, and then + minimum, each rounded to float32.",),
        not_differentiable={"tokens": "row numbers are integers"},
    )
)
