"""Embedding: rows of a table, by number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.graph.graph import ValueType
from assay.ops.operator import (
    BITWISE,
    Address,
    Argument,
    Array,
    Attributes,
    Case,
    Kernel,
    Operator,
    Port,
    Site,
)
from assay.ops.registry import register
from assay.ops.weights import WEIGHT_TYPES, random_weight
from assay.tensor.dtype import F32, I32, DType


def _reference(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    tokens, table = inputs
    return (table[tokens],)


def _arguments(site: Site) -> Sequence[Argument]:
    return Address("tokens"), Address("table"), Address("y"), site.dims["T"], site.dims["K"]


def _kernel(dtype: DType) -> Kernel:
    return Kernel(
        f"embedding.{dtype}",
        _arguments,
        f"table is {dtype}",
        lambda site: site.inputs[1].dtype is dtype,
        rows="T",
    )


def _cases(rng: np.random.Generator) -> Sequence[Case]:
    cases = []
    for dtype in WEIGHT_TYPES:
        for tokens, rows, blocks in ((1, 32, 1), (7, 70, 3)):
            k = 32 * blocks if dtype.block == 1 else dtype.block * blocks
            table = random_weight(rng, dtype, rows, k)
            numbers = rng.integers(0, rows, tokens, dtype=np.int32)
            types = (ValueType.of(I32, tokens), ValueType.of(dtype, rows, k))
            cases.append(Case((numbers, table), types, name=f"{dtype} {tokens} of {rows}×{k}"))
    return cases


register(
    Operator(
        name="embedding",
        since=1,
        summary="Looks up one row of a table for each token.",
        formula="y[t, k] = table[tokens[t], k]",
        inputs=(
            Port("tokens", (I32,), "T", "row numbers, 0 ≤ tokens < V"),
            Port("table", WEIGHT_TYPES, "V K", "the table", panels=True),
        ),
        outputs=(Port("y", (F32,), "T K", "the rows, as float32"),),
        reference=_reference,
        exactness=BITWISE,
        kernels=tuple(_kernel(dtype) for dtype in WEIGHT_TYPES),
        cases=_cases,
        numerics=("A quantised element is scale · integer, and then + minimum, each rounded to float32.",),
        not_differentiable={"tokens": "row numbers are integers"},
    )
)
