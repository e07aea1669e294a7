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
        not_differentiable={"rows": "row numbers are integers"},
    )
)
