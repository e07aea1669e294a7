"""Normalisation over the last axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.graph.graph import ValueType
from assay.ops.operator import (
    Address,
    Argument,
    Array,
    Attribute,
    Attributes,
    Bound,
    Case,
    Exactness,
    Kernel,
    Operator,
    Port,
    Site,
    number,
)
from assay.ops.registry import register
from assay.tensor.dtype import F32


def _rms_norm(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    x, w = (array.astype(np.float64) for array in inputs)
    mean = np.mean(x * x, axis=-1, keepdims=True)
    return (x / np.sqrt(mean + np.float32(number(attributes, "epsilon"))) * w,)


def _arguments(site: Site) -> Sequence[Argument]:
    ports = (Address("x"), Address("w"), Address("y"))
    return *ports, site.dims["T"], site.dims["N"], site.number("epsilon")


def _cases(rng: np.random.Generator) -> Sequence[Case]:
    cases = []
    for t, n in ((1, 1), (3, 16), (2, 21), (17, 576)):
        x = rng.normal(0, 3, (t, n)).astype(np.float32)
        x[0] *= np.float32(1e-12)
        w = rng.normal(1, 0.3, n).astype(np.float32)
        types = (ValueType.of(F32, t, n), ValueType.of(F32, n))
        cases.append(Case((x, w), types, {"epsilon": 1e-5}, f"{t}×{n}"))
    return cases


register(
    Operator(
        name="rms_norm",
        since=1,
        summary="Divides each row by its root mean square and multiplies by a weight.",
        formula="y[t, n] = x[t, n] · (1 / √(Σ_i x[t, i]² / N + epsilon)) · w[n]",
        inputs=(Port("x", (F32,), "T N", "rows"), Port("w", (F32,), "N", "weight")),
        outputs=(Port("y", (F32,), "T N", "normalised rows"),),
        attributes=(Attribute("epsilon", float, "added to the mean square", low=0.0, high=1.0),),
        reference=_rms_norm,
        exactness=Exactness(
            "ulp",
            Bound("N / 24 + 8", lambda dims: dims["N"] / 24 + 8),
            "the root halves N / 16 + 7 roundings of the mean; 4 follow, of root, quotient and products; the "
            "rest is for what roundings do to each other; squares neither overflow nor underflow",
        ),
        kernels=(Kernel("norm.rms_norm", _arguments, rows="T"),),
        cases=_cases,
        numerics=(
            "Squares are summed by fma in 16 lanes (lane = index mod 16), which one fixed tree folds.",
        ),
    )
)
