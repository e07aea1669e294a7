"""Rows taken out of a matrix by number, such as those whose logits are asked for."""

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
from assay.tensor.dtype import F32, I32


def _reference(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    x, rows = inputs
    inside = np.isin(rows, range(len(x)))
    y = np.full((len(rows), x.shape[1]), np.nan, np.float32)
    y[inside] = x[rows[inside]]
    return (y,)


def _arguments(site: Site) -> Sequence[Argument]:
    return Address("x"), Address("rows"), Address("y"), site.dims["T"], site.dims["R"], site.dims["N"]


def _cases(rng: np.random.Generator) -> Sequence[Case]:
    cases = []
    for t, r, n in ((1, 1, 1), (5, 3, 17), (4, 9, 64), (70, 33, 100)):
        x = rng.normal(0, 1, (t, n)).astype(np.float32)
        rows = rng.integers(0, t, r, dtype=np.int32)
        if r > 3:
            rows[:3] = -1, t, 2**31 - 1
        types = (ValueType.of(F32, t, n), ValueType.of(I32, r))
        cases.append(Case((x, rows), types, name=f"{r} of {t}×{n}"))
    return cases


register(
    Operator(
        name="gather_rows",
        since=1,
        summary="Takes rows of a matrix by number.",
        formula="y[r, n] = x[rows[r], n]",
        inputs=(
            Port("x", (F32,), "T N", "the matrix"),
            Port("rows", (I32,), "R", "row numbers; one outside 0 … T − 1 gives a row of NaN"),
        ),
        outputs=(Port("y", (F32,), "R N", "the rows, in the order asked for"),),
        reference=_reference,
        exactness=BITWISE,
        kernels=(Kernel("move.gather_rows", _arguments, rows="R"),),
        cases=_cases,
        not_differentiable={"rows": "row numbers are integers"},
    )
)
