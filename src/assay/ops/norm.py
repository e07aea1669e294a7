"""Normalisation over the last axis."""

from __future__ import annotations

import numpy as np

from assay.ops import operator as op
from assay.ops.registry import define
from assay.tensor.dtype import F32


def _rms_norm(x: op.Array, w: op.Array, epsilon: float, groups: int) -> op.Array:
    parts = x.astype(np.float64).reshape(len(x), groups, len(w))
    mean = np.mean(parts * parts, axis=-1, keepdims=True)
    return np.asarray(parts / np.sqrt(mean + np.float32(epsilon)) * w.astype(np.float64)).reshape(x.shape)


EPSILON = op.Attribute("epsilon", float, "added to the mean square", low=0.0, high=1.0)


define(
    name="rms_norm",
    summary="Divides each group of a row by its root mean square and multiplies by a weight.",
    formula="y[t, g, n] = x[t, g, n] · (1 / √(Σ_i x[t, g, i]² / N + epsilon)) · w[n]",
    inputs=(
        op.Port("x", (F32,), "T groups*N", "rows, in groups side by side"),
        op.Port("w", (F32,), "N", "weight"),
    ),
    outputs=(op.Port("y", (F32,), "T groups*N", "normalised rows"),),
    attributes=(EPSILON, op.Attribute("groups", int, "such as a row's heads", 1, low=1)),
    reference=_rms_norm,
    exactness=op.Exactness(
        "ulp",
        "N / 24 + 8",
        "the root halves N / 16 + 7 roundings of the mean; 4 follow, of root, quotient and products; the "
        "rest is for what roundings do to each other; squares neither overflow nor underflow",
    ),
    kernels=(op.Kernel("norm.rms_norm", "x w y T groups N epsilon", rows="T"),),
    numerics=("Squares are summed by fma in 16 lanes (lane = index mod 16), which one fixed tree folds.",),
)


def _layer_norm(x: op.Array, w: op.Array, b: op.Array, epsilon: float) -> op.Array:
    x, w, b = (array.astype(np.float64) for array in (x, w, b))
    d = x - x.mean(axis=-1, keepdims=True)
    variance = np.mean(d * d, axis=-1, keepdims=True)
    return np.asarray(d / np.sqrt(variance + np.float32(epsilon)) * w + b)


def _layer_norm_terms(x: op.Array, w: op.Array, b: op.Array, epsilon: float) -> op.Array:
    x, w, b = (array.astype(np.float64) for array in (x, w, b))
    root = np.sqrt(x.var(axis=-1, keepdims=True) + np.float32(epsilon))
    return np.asarray(np.abs(x).max(axis=-1, keepdims=True) / root * np.abs(w) + np.abs(b))


define(
    name="layer_norm",
    summary="Takes each row's mean away, divides by its standard deviation, multiplies and adds weights.",
    formula="y = (x − m) · (1 / √(Σ_i (x[i] − m)² / N + epsilon)) · w + b, m the row's mean",
    inputs=(
        op.Port("x", (F32,), "T N", "rows"),
        op.Port("w", (F32,), "N", "factors"),
        op.Port("b", (F32,), "N", "added last"),
    ),
    outputs=(op.Port("y", (F32,), "T N", "normalised rows"),),
    attributes=(EPSILON,),
    reference=_layer_norm,
    exactness=op.Exactness(
        "ulp",
        "N / 16 + 16",
        "of the row's greatest |x| over its deviation, times |w|, and |b|: the mean's roundings stay in "
        "what is left when it is taken away; squares neither overflow nor underflow",
        _layer_norm_terms,
    ),
    kernels=(op.Kernel("norm.layer_norm", "x w b y T N epsilon", rows="T"),),
    numerics=(
        "Sums are in 16 lanes (lane = index mod 16), which one fixed tree folds; squares by fma.",
        "The last step is fma(d · (1 / √…), w, b).",
    ),
)
