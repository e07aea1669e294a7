"""Rows taken out of a matrix by number, such as those whose logits are asked for."""

from __future__ import annotations

import numpy as np

from assay.ops import operator as op
from assay.ops.registry import register
from assay.tensor.dtype import F32, I32


def _reference(inputs: op.Arrays, attributes: op.Attributes) -> op.Arrays:
    x, rows = inputs
    inside = np.isin(rows, range(len(x)))
    y = np.full((len(rows), x.shape[1]), np.nan, np.float32)
    y[inside] = x[rows[inside]]
    return (y,)


def _cases(rng: np.random.Generator) -> list[op.Case]:
    cases = []
    for t, r, n in ((1, 1, 1), (5, 3, 17), (4, 9, 64), (70, 33, 100)):
        x = rng.normal(0, 1, (t, n)).astype(np.float32)
        rows = rng.integers(0, t, r, dtype=np.int32)
        if r > 3:
            rows[:3] = -1, t, 2**31 - 1
        cases.append(op.Case.of(x, rows, name=f"{r} of {t}×{n}"))
    return cases


register(
    op.Operator(
        name="gather_rows",
        summary="Takes rows of a matrix by number.",
        formula="y[r, n] = x[rows[r], n]",
        inputs=(
            op.Port("x", (F32,), "T N", "the matrix"),
            op.Port("rows", (I32,), "R", "row numbers; one outside 0 … T − 1 gives a row of NaN"),
        ),
        outputs=(op.Port("y", (F32,), "R N", "the rows, in the order asked for"),),
        reference=_reference,
        exactness=op.BITWISE,
        kernels=(op.Kernel("move.gather_rows", "x rows y T R N", rows="R"),),
        cases=_cases,
        not_differentiable={"rows": "row numbers are integers"},
    )
)
