"""Rotary position embedding: a table for a step's positions, and the rotation."""

from __future__ import annotations

import numpy as np

from assay.ops import operator as op
from assay.ops.registry import register
from assay.tensor.dtype import F32, I32

PAIRINGS = ("halves", "neighbours")


def _table(inputs: op.Arrays, attributes: op.Attributes) -> op.Arrays:
    positions, frequencies = inputs
    angles = (positions.astype(np.float32)[:, None] * frequencies.astype(np.float32)).astype(np.float64)
    return (np.concatenate([np.cos(angles), np.sin(angles)], axis=1),)


def _table_floor(inputs: op.Arrays, attributes: op.Attributes) -> op.Arrays:
    return (np.maximum(np.abs(_table(inputs, attributes)[0]), 2.0**-26),)


register(
    op.Operator(
        name="rotary_table",
        summary="Cosines and sines of each position's angles.",
        formula=(
            "angle = position · frequency in float32;  table[t] = cos(angle[0 … P−1]), sin(angle[0 … P−1])"
        ),
        inputs=(
            op.Port("positions", (I32,), "T", "absolute positions, 0 ≤ position < 2²⁰"),
            op.Port("frequencies", (F32,), "P", "radians for each position"),
        ),
        outputs=(op.Port("table", (F32,), "T 2*P", "P cosines, then P sines"),),
        reference=_table,
        exactness=op.Exactness(
            "ulp", 1, "sine and cosine in float64 within 2⁻⁵⁰, rounded once to float32", _table_floor
        ),
        kernels=(op.Kernel("rotary.table", "positions frequencies table T P", rows="T"),),
        not_differentiable={"positions": "integers", "frequencies": "constants of the model"},
    )
)


def _rotary(inputs: op.Arrays, attributes: op.Attributes) -> op.Arrays:
    x, table = (array.astype(np.float64) for array in inputs)
    heads, d = op.integer(attributes, "heads"), op.integer(attributes, "head_dim")
    pairs = table.shape[1] // 2
    rows = x.reshape(len(x), heads, d)
    cosine, sine = table[:, None, :pairs], table[:, None, pairs:]
    y = rows.copy()
    left, right = (
        (slice(0, pairs), slice(pairs, 2 * pairs))
        if attributes["pairing"] == "halves"
        else (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2))
    )
    y[:, :, left] = rows[:, :, left] * cosine - rows[:, :, right] * sine
    y[:, :, right] = rows[:, :, left] * sine + rows[:, :, right] * cosine
    return (y.reshape(x.shape),)


def _rotary_terms(inputs: op.Arrays, attributes: op.Attributes) -> op.Arrays:
    x, table = (np.abs(array) for array in inputs)
    pairs = table.shape[1] // 2
    # The one makes a · cos + b · sin of the first sum, the other does so of the second.
    signs = np.concatenate([table[:, :pairs], -table[:, pairs:]], axis=1), table
    first, second = (np.abs(_rotary((x, each), attributes)[0]) for each in signs)
    return (np.maximum(first, second),)


register(
    op.Operator(
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
                lambda dims, attributes: 2 * (dims["P"].constant or 0) <= op.integer(attributes, "head_dim"),
                "the table was made for another head size",
            ),
        ),
        reference=_rotary,
        exactness=op.Exactness("ulp", 2, "one product and one fma", _rotary_terms),
        kernels=tuple(
            op.Kernel(f"rotary.{pairing}", "x table y T heads head_dim P", ("pairing", pairing), rows="T")
            for pairing in PAIRINGS
        ),
        numerics=("a' = fma(a, cos, −(b · sin)) and b' = fma(a, sin, b · cos).",),
        not_differentiable={"table": "constants of the positions"},
    )
)
