"""Rotary position embedding: a table for a step's positions, and the rotation."""

from __future__ import annotations

import numpy as np

from assay.ops import operator as op
from assay.ops.registry import define
from assay.tensor.dtype import F32, I32

PAIRINGS = ("halves", "neighbours")


def _table(positions: op.Array, frequencies: op.Array) -> op.Array:
    angles = (positions.astype(np.float32)[:, None] * frequencies.astype(np.float32)).astype(np.float64)
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)


define(
    name="rotary_table",
    summary="Cosines and sines of each position's angles.",
    formula=("angle = position · frequency in float32;  table[t] = cos(angle[0 … P−1]), sin(angle[0 … P−1])"),
    inputs=(
        op.Port("positions", (I32,), "T", "absolute positions, 0 ≤ position < 2²⁰"),
        op.Port("frequencies", (F32,), "P", "radians for each position"),
    ),
    outputs=(op.Port("table", (F32,), "T 2*P", "P cosines, then P sines"),),
    reference=_table,
    exactness=op.Exactness(
        "ulp",
        1,
        "sine and cosine in float64 within 2⁻⁵⁰, rounded once to float32",
        lambda positions, frequencies: np.maximum(np.abs(_table(positions, frequencies)), 2.0**-26),
    ),
    kernels=(op.Kernel("rotary.table", "positions frequencies table T P", rows="T"),),
    not_differentiable={"positions": "integers", "frequencies": "constants of the model"},
)


def _rotary(x: op.Array, table: op.Array, heads: int, head_dim: int, pairing: str) -> op.Array:
    pairs = table.shape[1] // 2
    rows = x.astype(np.float64).reshape(len(x), heads, head_dim)
    cosine, sine = (part.astype(np.float64)[:, None] for part in np.split(table, 2, axis=1))
    y = rows.copy()
    left, right = (
        (slice(0, pairs), slice(pairs, 2 * pairs))
        if pairing == "halves"
        else (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2))
    )
    y[:, :, left] = rows[:, :, left] * cosine - rows[:, :, right] * sine
    y[:, :, right] = rows[:, :, left] * sine + rows[:, :, right] * cosine
    return y.reshape(x.shape)


def _rotary_terms(x: op.Array, table: op.Array, heads: int, head_dim: int, pairing: str) -> op.Array:
    cosine, sine = np.split(np.abs(table.astype(np.float64)), 2, axis=1)
    # The one makes a · cos + b · sin of the first sum, the other does so of the second.
    signs = (np.concatenate([cosine, -sine], axis=1), np.concatenate([cosine, sine], axis=1))
    first, second = (np.abs(_rotary(np.abs(x), each, heads, head_dim, pairing)) for each in signs)
    return np.maximum(first, second)


define(
    name="rotary",
    summary="Rotates pairs of each head's elements by the angles of the row's position.",
    formula="(a, b) → (a · cos − b · sin, a · sin + b · cos); elements past 2P are copied",
    inputs=(
        op.Port("x", (F32,), "T heads*head_dim", "heads side by side"),
        op.Port("table", (F32,), "T 2*P", "from rotary_table"),
    ),
    outputs=(op.Port("y", (F32,), "T heads*head_dim", "rotated heads"),),
    attributes=(
        op.Attribute("heads", int, "heads in a row", low=1),
        op.Attribute("head_dim", int, "elements of a head", low=2),
        op.Attribute("pairing", str, "pair i is (i, i + P), or (2i, 2i + 1)", choices=PAIRINGS),
    ),
    relations=(
        op.Relation(
            "2·P ≤ head_dim",
            lambda site: 2 * (site.dims["P"].constant or 0) <= site.integer("head_dim"),
            "the table was made for another head size",
        ),
    ),
    reference=_rotary,
    exactness=op.Exactness("ulp", 2, "one product and one fma", _rotary_terms),
    kernels=op.Kernel("rotary.{}", "x table y T heads head_dim P", rows="T").each("pairing", PAIRINGS),
    numerics=("a' = fma(a, cos, −(b · sin)) and b' = fma(a, sin, b · cos).",),
    not_differentiable={"table": "constants of the positions"},
)
